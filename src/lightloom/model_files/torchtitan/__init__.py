"""Job configurations of torchtitan as a model with the strategy that they pin."""
