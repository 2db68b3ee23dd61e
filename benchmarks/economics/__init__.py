"""Benchmarks of what clusters cost and survive."""
