"""Measurements on one GPU: single kernels, which priors can cite, and whole steps, which judge predictions."""
