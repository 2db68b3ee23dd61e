"""What plans cost: collectives on groups of ranks, stages, memory and energy."""
