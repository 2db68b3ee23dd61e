"""A cluster: ranks of one accelerator on one fabric."""
