"""Writing manifests anew and small chunks together, on a cluster."""
