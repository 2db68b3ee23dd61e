"""Goodput: the share of the time that trains, after checkpoints, failures, restarts and waits for repairs."""
