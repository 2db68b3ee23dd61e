"""Prices of plans: collectives on groups of ranks, stages, memory and energy."""
