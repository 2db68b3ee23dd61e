"""Workloads: compute graphs of models, traced or read."""
