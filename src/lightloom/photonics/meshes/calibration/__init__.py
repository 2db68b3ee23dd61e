"""Calibration of chips with unknown errors, from output powers alone."""

from lightloom.photonics.meshes.calibration.calibrate import Calibration, calibrate, target_of
from lightloom.photonics.meshes.calibration.chip import Chip, SimulatedChip
from lightloom.photonics.meshes.calibration.fit import Unknowns
from lightloom.photonics.meshes.calibration.programming import phase_free_error, program
from lightloom.photonics.meshes.calibration.trial import Conditions, Trial, random_mesh, try_calibration
from lightloom.photonics.meshes.calibration.twin import Settings, Twin

__all__ = [
    "Calibration",
    "Chip",
    "Conditions",
    "Settings",
    "SimulatedChip",
    "Trial",
    "Twin",
    "Unknowns",
    "calibrate",
    "phase_free_error",
    "program",
    "random_mesh",
    "target_of",
    "try_calibration",
]
