"""Benchmarks of photonic chips."""
