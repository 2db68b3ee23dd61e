"""Seconds and joules of a schedule on a fabric, under either cost model."""
