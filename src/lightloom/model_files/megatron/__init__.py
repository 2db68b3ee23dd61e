"""Arguments of Megatron-LM as a model with the strategy that they pin."""
