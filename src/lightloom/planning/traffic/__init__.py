"""Several jobs on one cluster: what each takes alone, and while the others use the same links or wavelengths."""
