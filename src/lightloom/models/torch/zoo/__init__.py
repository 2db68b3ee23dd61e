"""The zoo, one file per family: modules as their papers describe them, with ``example_inputs(batch)``."""
