"""The meshes of one layer, in our type and colours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lightloom.photonics.meshes import MappedBlocks, Mesh, draw, draw_mapped
from lightloom.reports.figures.base import styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lightloom.photonics.meshes.phase_files import Part


@styled
def part_figure(part: Part, name: str = "") -> Figure:
    """A mesh, or the meshes of a mapped matrix; of a matrix in blocks, those of the first."""
    if isinstance(part, Mesh):
        return draw(part)
    if isinstance(part, MappedBlocks):
        return draw_mapped(part.blocks[0], f"{name}, block 1 of {len(part.blocks)}")
    return draw_mapped(part, name)
