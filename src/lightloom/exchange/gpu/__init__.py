"""Codecs on GPUs: INCEPTIONN, and blocks that share a scale."""
