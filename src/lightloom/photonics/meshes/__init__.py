"""Meshes of Mach-Zehnder interferometers, which multiply light by a matrix."""

from lightloom.photonics.meshes.averager_units import (
    preprocessing_matrix,
    received_power,
    splitting_loss_db,
    splitting_matrix,
)
from lightloom.photonics.meshes.blocks import MappedBlocks, approximate, map_blocks
from lightloom.photonics.meshes.correction import Correction, cancel_crosstalk, correct, corrected
from lightloom.photonics.meshes.counts import approximated_count, full_count, network_count
from lightloom.photonics.meshes.decompose import decompose
from lightloom.photonics.meshes.disturb import Disturbed, DisturbedMesh, detect, disturb
from lightloom.photonics.meshes.drawing import draw, draw_mapped
from lightloom.photonics.meshes.files import document, load, mapped_document, mapped_of, mesh_of, save
from lightloom.photonics.meshes.layout import KINDS, Kind, Layout, layout
from lightloom.photonics.meshes.mapping import FORMS, Form, MappedMatrix, map_matrix, sigma_u
from lightloom.photonics.meshes.mesh import Mesh
from lightloom.photonics.meshes.montecarlo import Spread, expected_error, matrix_error, monte_carlo, sweep
from lightloom.photonics.meshes.netlist import models, netlist
from lightloom.photonics.meshes.phase_files import check_belongs, load_phases, meshes_of, save_phases
from lightloom.photonics.meshes.switch import connections, crosstalk_db, switch

__all__ = [
    "FORMS",
    "KINDS",
    "Correction",
    "Disturbed",
    "DisturbedMesh",
    "Form",
    "Kind",
    "Layout",
    "MappedBlocks",
    "MappedMatrix",
    "Mesh",
    "Spread",
    "approximate",
    "approximated_count",
    "cancel_crosstalk",
    "check_belongs",
    "connections",
    "correct",
    "corrected",
    "crosstalk_db",
    "decompose",
    "detect",
    "disturb",
    "document",
    "draw",
    "draw_mapped",
    "expected_error",
    "full_count",
    "layout",
    "load",
    "load_phases",
    "map_blocks",
    "map_matrix",
    "mapped_document",
    "mapped_of",
    "matrix_error",
    "mesh_of",
    "meshes_of",
    "models",
    "monte_carlo",
    "netlist",
    "network_count",
    "preprocessing_matrix",
    "received_power",
    "save",
    "save_phases",
    "sigma_u",
    "splitting_loss_db",
    "splitting_matrix",
    "sweep",
    "switch",
]
