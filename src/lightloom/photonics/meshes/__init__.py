"""Meshes of Mach-Zehnder interferometers: matrices carried out by light."""

from lightloom.photonics.meshes.decompose import decompose
from lightloom.photonics.meshes.layout import KINDS, Kind, Layout, layout
from lightloom.photonics.meshes.mesh import Mesh

__all__ = ["KINDS", "Kind", "Layout", "Mesh", "decompose", "layout"]
