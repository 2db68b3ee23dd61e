"""Bills of rings, meshes and tori: links between neighbours, in copper within cubes and optical between them.

A rank of a torus of d dimensions has d links of its own. Where cubes of side c stand in racks of their own, 1 / c of
these leave the cube. Where circuit switches join the cubes, both ends of every such link have a fibre to a switch, one
for both ways (circulators): 2 d / c fibres a rank, and d c^(d−1) planes of 2 N / c^d ports. Source of the counts:
TPU v4 (4,096 chips, cubes of 4: 6,144 fibres and 48 switches), arXiv 2304.01433.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from lightloom.core.errors import ConfigError
from lightloom.fabrics.bills.circuits import planes_of
from lightloom.fabrics.bills.links import Ports, cables, ends_of, fibres, ports_for, transceiver
from lightloom.fabrics.lattice import describe
from lightloom.parts.bill import Bill, Line
from lightloom.parts.choices import BillChoices


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A grid of ranks, or of groups of ranks, as a bill sees it."""

    ranks: int
    dims: tuple[int, ...]
    wraps: bool
    bandwidth: float
    """Bytes per second of a link, per direction."""
    block: tuple[int, ...] | None = None
    """Ranks along each dimension of the blocks whose links are copper."""
    switched: bool = False
    """Whether circuit switches join the blocks."""
    copies: float = 1.0
    """Grids beside each other, for each rank: ports of a child over its ranks."""
    kind: str = "torus"
    of_switches: bool = False
    """Whether links join ports of electrical switches rather than ranks."""


def grid_bill(grid: Grid, choices: BillChoices) -> Bill:
    """Return the bill of a grid.

    Raises:
        ConfigError: the cubes do not tile the grid.
    """
    ports = ports_for(grid.bandwidth, choices)
    block = _blocks(grid, choices)
    inside, outside = _links(grid, block)
    each = ports.number * grid.copies
    whole = describe(grid.dims)
    degree = sum(2 * share for share in _shares(grid))
    why = f"every end of a link of {whole}, {ports.why}"
    lines, notes = ends_of(ports, each * degree, why, grid.of_switches, choices)
    near = "copper" if block is not None else choices.grid_links
    where = f"{inside:.4g} links a rank of {whole}" + ("" if block is None else f" in blocks of {describe(block)}")
    lines += cables(ports, each * inside, f"{where} x {ports.why}", near, choices)
    if grid.switched:
        assert block is not None
        lines += _through_switches(grid, block, ports, choices, notes)
    else:
        lines += cables(ports, each * outside, f"{outside:.4g} links a rank between blocks", "optical", choices)
    sent = 0.0 if grid.of_switches else grid.copies * grid.bandwidth * degree
    return Bill(grid.ranks, tuple(lines), notes=tuple(notes), bandwidth=sent, kind=grid.kind)


def _shares(grid: Grid) -> list[float]:
    """Links of a rank along each dimension, each counted at one of its ends."""
    return [0.0 if size == 1 else 1.0 if grid.wraps else (size - 1) / size for size in grid.dims]


def _blocks(grid: Grid, choices: BillChoices) -> tuple[int, ...] | None:
    """Return the block whose links are copper; None where no links are told apart."""
    if grid.block is not None:
        return grid.block
    if choices.copper_cube is None:
        return tuple(1 for _ in grid.dims) if grid.switched else None
    block = tuple(min(choices.copper_cube, size) for size in grid.dims)
    if any(size % side for size, side in zip(grid.dims, block, strict=True)):
        raise ConfigError(
            f"copper_cube={choices.copper_cube} does not tile {describe(grid.dims)} ranks: expected a side that "
            "divides every dimension"
        )
    return block


def _links(grid: Grid, block: tuple[int, ...] | None) -> tuple[float, float]:
    """Links of a rank inside blocks and between them; all are inside where there are no blocks."""
    shares = _shares(grid)
    if block is None:
        return sum(shares), 0.0
    inside = outside = 0.0
    for size, side, share in zip(grid.dims, block, shares, strict=True):
        blocks = size // side
        between = blocks if grid.wraps else blocks - 1
        if blocks == 1 and not grid.switched:
            between = 0
        leaving = 0.0 if size == 1 else between / size
        inside, outside = inside + share - leaving, outside + leaving
    return inside, outside


def _through_switches(
    grid: Grid, block: Sequence[int], ports: Ports, choices: BillChoices, notes: list[str]
) -> list[Line]:
    """Return ends, fibres and circuit switches of blocks that these join; adds what must be said to ``notes``."""
    blocks, cells = grid.ranks // prod(block), prod(block)
    faces = [cells // side for side, size in zip(block, grid.dims, strict=True) if size > 1]
    if blocks == 0 or not faces:
        return []
    ends = 2 * sum(faces) / cells * grid.copies
    planes = round(sum(faces) * ports.number * grid.copies)
    found = planes_of(planes, 2 * blocks, grid.ranks, choices)
    notes.append("assumption: a fibre to a circuit switch carries both ways, through circulators in the transceivers")
    if found.note:
        notes.append(found.note)
    why = f"2 x {sum(faces)} ends on the faces of a block of {describe(block)} / {cells} ranks"
    count = ends * ports.number
    return [
        Line(transceiver(ports, choices), count, f"{why} x {ports.why}", rate=ports.rate),
        fibres(count, f"one for each end: {why}", choices),
        found.line,
    ]
