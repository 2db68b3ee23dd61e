"""Benchmarks of training runs in processes of their own: hooks, exchanges, limited links."""
