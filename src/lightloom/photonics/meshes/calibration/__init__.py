"""Calibration of chips with unknown errors, from output powers alone."""
