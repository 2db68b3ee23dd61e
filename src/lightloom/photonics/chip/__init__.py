"""Whole averagers as chips: netlists at any wavelength, floor plans, layouts."""
