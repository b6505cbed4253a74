"""Jobs on arrays, each one commit: write regions and datasets, transform, rechunk, analyze."""
