"""Bills of rings, meshes and tori: links between neighbours, in copper within cubes and optical between them.

A rank of a torus of d dimensions has d links of its own. Where cubes of side c stand in racks of their own, 1 / c of
these leave the cube. Where circuit switches join the cubes, both ends of every such link have a fibre to a switch, one
for both ways (circulators): 2 d / c fibres a rank, and d c^(d−1) planes of 2 N / c^d ports. Source of the counts:
TPU v4 (4,096 chips, cubes of 4: 6,144 fibres and 48 switches), arXiv 2304.01433.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, prod

from lightloom.core.errors import ConfigError
from lightloom.core.units import format_bandwidth, format_quantity
from lightloom.machines.fabrics.bills import links
from lightloom.machines.fabrics.bills.links import Ports, cables, ends_of, fibres, port_line, ports_for
from lightloom.machines.fabrics.bills.switches import planes_of
from lightloom.machines.fabrics.lattice import describe
from lightloom.machines.parts.bill import Bill, BillChoices, Line
from lightloom.machines.parts.part import Part, Power, load_part


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
    """True if circuit switches join the blocks."""
    copies: float = 1.0
    """Grids beside each other, for each rank: ports of a child over its ranks."""
    kind: str = "torus"
    of_switches: bool = False
    """True if links join ports of electrical switches rather than ranks."""


def grid_bill(grid: Grid, choices: BillChoices) -> Bill:
    """Return the bill of a grid, per rank: ends of links, copper cables inside blocks and optical links between them,
    or transceivers, fibres and circuit switches where these join the blocks. Without blocks all links are of the medium
    ``choices.grid_links``. The bill's bandwidth is the bytes per second that a rank sends over all its links, on
    average over the ranks; 0 where the links join switches.

    Raises:
        ConfigError: the cubes do not tile the grid, or no port of the catalog or of the choices has the rate of the
            ports.
        UnsupportedError: not even three stages of the circuit switch join the blocks.
    """
    ports = ports_for(grid.bandwidth, choices)
    block = _copper_block(grid, choices)
    inside, outside = _links_by_block(grid, block)
    each = ports.number * grid.copies
    whole = describe(grid.dims)
    degree = sum(2 * share for share in _links_by_dimension(grid))
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


def _links_by_dimension(grid: Grid) -> list[float]:
    """Return the number of links of a rank along each dimension, on average and each counted at one of its ends: 1
    where the grid wraps, (size - 1) / size where it does not, 0 for a dimension of one rank."""
    return [0.0 if size == 1 else 1.0 if grid.wraps else (size - 1) / size for size in grid.dims]


def _copper_block(grid: Grid, choices: BillChoices) -> tuple[int, ...] | None:
    """Return the sizes of the block whose links are copper: the grid's own block, otherwise cubes of side
    ``copper_cube``, cut to the grid.

    Where neither is given, blocks of one rank in a switched grid, and None in any other. ConfigError where the cube
    does not tile the grid.
    """
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


def _links_by_block(grid: Grid, block: tuple[int, ...] | None) -> tuple[float, float]:
    """Return the number of links of a rank, on average and each counted at one of its ends: (inside blocks, between
    blocks). All are inside where ``block``, the ranks along each dimension of a block, is None. In a switched grid the
    links that close a dimension of a single block count as between blocks."""
    shares = _links_by_dimension(grid)
    if block is None:
        return sum(shares), 0.0
    inside = outside = 0.0
    for size, side, share in zip(grid.dims, block, shares, strict=True):
        blocks = size // side
        between = 0 if blocks == 1 and not grid.switched else blocks if grid.wraps else blocks - 1
        leaving = 0.0 if size == 1 else between / size
        inside, outside = inside + share - leaving, outside + leaving
    return inside, outside


def _through_switches(
    grid: Grid, block: Sequence[int], ports: Ports, choices: BillChoices, notes: list[str]
) -> list[Line]:
    """Return the lines of transceivers, fibres and circuit switches that join the blocks, per rank; none where every
    size of the grid is 1. Adds assumptions and sentences on small switches to ``notes``.

    Args:
        grid: the grid, whose blocks the switches join along every dimension.
        block: ranks along each dimension of a block.
        ports: the ports that carry a link; each end on a face of a block has as many transceivers and fibres.
        choices: what the fabric leaves open.
        notes: list that is extended in place.

    Raises:
        UnsupportedError: not even three stages of the circuit switch join the blocks.
    """
    blocks, cells, grids = prod(grid.dims) // prod(block), prod(block), grid.copies * grid.ranks / prod(grid.dims)
    faces = [cells // side for side, size in zip(block, grid.dims, strict=True) if size > 1]
    if blocks == 0 or not faces:
        return []
    ends = 2 * sum(faces) / cells * grid.copies
    found = planes_of(round(sum(faces) * ports.number * grids), 2 * blocks, grid.ranks, choices)
    notes.append("assumption: a fibre to a circuit switch carries both ways, through circulators in the transceivers")
    if found.note:
        notes.append(found.note)
    why = f"2 x {sum(faces)} ends on the faces of a block of {describe(block)} / {cells} ranks"
    count = ends * ports.number
    transceivers = port_line("transceiver", ports, count, f"{why} x {ports.why}", choices)
    return [transceivers, fibres(count, f"one for each end: {why}", choices), found.line]


# Bills of rings of wavelengths: engines as they are built, or the devices that they hold.
#
# A rank with T transceivers has T modulators, T receivers, 2 T locked rings and ceil(T / 16) light sources
# (assumption: 16 wavelengths a source, as SuperNova has). As built, an engine draws its joules per bit whether it
# sends or not.

_PER_SOURCE = 16
"""Wavelengths of a light source."""


def wavelength_ring_bill(
    nodes: int, transceivers: int, bandwidth: float, fibres: int, launch: float, choices: BillChoices
) -> Bill:
    """Return the bill of a ring of wavelengths, per node: engines as built (where ``choices.wdm`` is ``built``) or the
    modulators, photoreceivers, ring locks, serialisers and light sources that they hold, and fibres.

    Args:
        nodes: number of nodes on the ring.
        transceivers: number of transceivers of a node; each sends on a wavelength and receives on one.
        bandwidth: bytes per second of a wavelength.
        fibres: number of fibres that leave a node to the next, both ways together.
        launch: watts of light of a wavelength, from the link budget; not used for engines as built.
        choices: what the fabric leaves open.

    Returns:
        The bill; its bandwidth is that of all ``transceivers``.
    """
    count = f"{transceivers} wavelengths of {format_bandwidth(bandwidth)}"
    fibre = links.fibres(fibres, f"{fibres} fibres to the next node, both ways together", choices)
    if choices.wdm == "built":
        lines = [Line(load_part("wdm-engine"), transceivers, count, rate=bandwidth)]
    else:
        lines = [
            Line(load_part("ring-modulator"), transceivers, count, rate=bandwidth),
            Line(load_part("photoreceiver"), transceivers, count, rate=bandwidth),
            Line(load_part("ring-lock"), 2 * transceivers, f"a modulator and a filter for each of {count}"),
            Line(load_part("serialiser"), transceivers, count, rate=bandwidth),
            _light(transceivers, launch),
        ]
    return Bill(nodes, (*lines, fibre), bandwidth=transceivers * bandwidth, kind="wdm-ring")


def _light(wavelengths: int, launch: float) -> Line:
    """Return the line of the light sources of a rank for so many ``wavelengths``, 16 to a source, rounded up to whole
    sources. Together they draw ``wavelengths`` times ``launch``, watts of light for each wavelength, over the source's
    efficiency, whose range gives that of the watts."""
    source = load_part("comb-source")
    sources = ceil(wavelengths / _PER_SOURCE)
    efficiency = source.efficiency
    assert efficiency is not None
    watts = wavelengths * launch / sources
    power = Power(
        value=watts / efficiency.value,
        low=watts / efficiency.most,
        high=watts / efficiency.least,
        confidence="assumption",
        source=f"{format_quantity(launch, 'power')} of light a wavelength (link budget); {efficiency.source}",
    )
    why = f"{wavelengths} wavelengths / {_PER_SOURCE}"
    return Line(source.model_copy(update={"static_power": power}), sources, why)


# Bills of in-network averagers: ends of the ranks, and what the averager itself draws.

_DERIVED = "derived from the averager's devices"


def averager_bill(
    ranks: int, bandwidth: float, watts: Mapping[str, float], unknown: tuple[str, ...], choices: BillChoices
) -> Bill:
    """Return the bill of an in-network averager, per rank: a card, transceiver ends and a fibre, and the averager's
    devices, one line for each name in ``watts`` and ``unknown``. Where both are empty, what the averager is made of is
    named as missing; otherwise the transceivers' watts are not counted, as those of the devices hold them.

    Args:
        ranks: number of ranks at the averager.
        bandwidth: bytes per second of a rank's port.
        watts: watts of each part, of all instances together, with the ranks' optical ends; empty where nothing is
            derived.
        unknown: names of the averager's parts without a figure.
        choices: what the fabric leaves open.

    Raises:
        ConfigError: no port of the catalog or of the choices has the rate of the ports.
    """
    ports = ports_for(bandwidth, choices)
    transceivers = port_line("transceiver", ports, ports.number, f"one end of {ports.why}", choices)
    if watts or unknown:
        transceivers = replace(transceivers, counted_elsewhere=("static_power",))
    cards = port_line("nic", ports, ports.number, ports.why, choices)
    lines = [cards, transceivers, fibres(1, "one for each rank", choices)]
    for name in (*watts, *unknown):
        figure = Power(value=watts[name], confidence="assumption", source=_DERIVED) if name in watts else None
        lines.append(Line(_device(name, figure), 1 / ranks, f"all instances / {ranks:,} ranks"))
    missing = () if watts or unknown else ("what the averager is made of",)
    return Bill(ranks, tuple(lines), missing, bandwidth=bandwidth, kind="optical-averager")


def _device(name: str, power: Power | None) -> Part:
    """Return a part that stands for all devices of one kind (``name``) in an averager's instances, with the watts that
    they draw together; no figure where ``power`` is None."""
    return Part(
        name=f"{name} of the averager",
        kind="averager",
        description=f"{name} of all instances of the averager",
        static_power=power,
        counted_elsewhere={"dynamic_energy": "every part of an averager draws its power busy or idle"},
    )
