"""Schedules found for the fabric, collective and size at hand, instead of taken from a paper."""
