"""Jobs on arrays: regions, datasets, transforms, other chunks, statistics, each as one commit."""
