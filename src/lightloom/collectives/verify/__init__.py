"""Proof by replay that a schedule does what its collective promises. Imports no generator."""
