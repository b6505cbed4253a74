"""Jobs that change how chunks are kept, and no chunk: manifests anew, small objects packed."""
