"""Traces of training steps as workloads: execution traces and profiles of PyTorch, Chakra."""
