"""Schedules that other tools make, verified and timed beside our own."""
