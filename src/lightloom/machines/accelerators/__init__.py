"""Accelerators: peak rates, memory, and the time of operators."""
