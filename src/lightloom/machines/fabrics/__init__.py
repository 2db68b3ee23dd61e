"""Fabrics that join ranks: rings of wavelengths, switches, grids, graphs and tiers."""
