"""Gradient codecs."""
