"""Proofs, exhaustive verification and noise limits of averaging networks."""
