"""Meshes of Mach-Zehnder interferometers, which multiply light by a matrix."""

from lightloom.photonics.meshes.averager_units import (
    preprocessing_matrix,
    received_power,
    splitting_loss_db,
    splitting_matrix,
)
from lightloom.photonics.meshes.blocks import (
    MappedBlocks,
    approximate,
    connected_components,
    crossings,
    map_blocks,
    map_components,
)
from lightloom.photonics.meshes.calibration import Calibration, Chip, SimulatedChip, calibrate
from lightloom.photonics.meshes.correction import cancel_crosstalk, correct, corrected
from lightloom.photonics.meshes.counts import approximated_count, compact_count, full_count, network_count
from lightloom.photonics.meshes.decompose import decompose
from lightloom.photonics.meshes.disturb import Disturbed, DisturbedMesh, detect, disturb
from lightloom.photonics.meshes.drawing import draw, draw_mapped
from lightloom.photonics.meshes.layout import KINDS, Kind, layout
from lightloom.photonics.meshes.mapping import (
    FORMS,
    GAINS,
    Form,
    Gains,
    MappedMatrix,
    common_gains,
    decibels,
    map_matrix,
    row_gains,
    sigma_u,
)
from lightloom.photonics.meshes.mesh import Mesh
from lightloom.photonics.meshes.mesh_mapping import BALANCED, MeshMapping, map_part
from lightloom.photonics.meshes.montecarlo import expected_error, matrix_error, monte_carlo, sweep
from lightloom.photonics.meshes.netlist import netlist
from lightloom.photonics.meshes.phase_files import load_phases, save_phases
from lightloom.photonics.meshes.switch import switch

__all__ = [
    "BALANCED",
    "FORMS",
    "GAINS",
    "KINDS",
    "Calibration",
    "Chip",
    "Disturbed",
    "DisturbedMesh",
    "Form",
    "Gains",
    "Kind",
    "MappedBlocks",
    "MappedMatrix",
    "Mesh",
    "MeshMapping",
    "SimulatedChip",
    "approximate",
    "approximated_count",
    "calibrate",
    "cancel_crosstalk",
    "common_gains",
    "compact_count",
    "connected_components",
    "correct",
    "corrected",
    "crossings",
    "decibels",
    "decompose",
    "detect",
    "disturb",
    "draw",
    "draw_mapped",
    "expected_error",
    "full_count",
    "layout",
    "load_phases",
    "map_blocks",
    "map_components",
    "map_matrix",
    "map_part",
    "matrix_error",
    "monte_carlo",
    "netlist",
    "network_count",
    "preprocessing_matrix",
    "received_power",
    "row_gains",
    "save_phases",
    "sigma_u",
    "splitting_loss_db",
    "splitting_matrix",
    "sweep",
    "switch",
]
