"""Whether repositories are whole, and how much they hold, found out by the workers of a cluster."""
