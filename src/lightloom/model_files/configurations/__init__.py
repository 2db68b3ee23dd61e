"""Configurations of models and of training runs, read as a model with what they pin."""
