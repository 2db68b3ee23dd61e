"""Synthesis on packet fabrics of any shape: tiers, switches, graphs, grids."""
