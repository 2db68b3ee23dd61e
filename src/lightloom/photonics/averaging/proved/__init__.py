"""Proofs, exhaustive checks and noise limits of averaging networks."""
