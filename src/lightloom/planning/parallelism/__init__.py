"""Who computes which part."""
