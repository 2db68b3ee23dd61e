"""The Python API: its names, its results, its documents."""
