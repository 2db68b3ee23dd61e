"""Costs that software adds to a collective: latencies and ceilings of its protocols, filling a pipeline, copies."""
