"""Operators split into parts, and each part placed on a device within reach of those with which it exchanges data."""
