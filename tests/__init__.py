"""The tests, and the few modules that several of them share."""
