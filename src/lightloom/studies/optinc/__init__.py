"""OptINC: averaging inside the light (arXiv 2603.28290)."""
