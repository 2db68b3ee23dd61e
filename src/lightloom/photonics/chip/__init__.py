"""Whole averagers as chips: netlists at any wavelength, floor plans, layouts."""

from lightloom.photonics.chip.models import models
from lightloom.photonics.chip.netlist import chip_netlist, part_netlist
from lightloom.photonics.chip.wavelengths import chip_matrix, part_matrix

__all__ = ["chip_matrix", "chip_netlist", "models", "part_matrix", "part_netlist"]
