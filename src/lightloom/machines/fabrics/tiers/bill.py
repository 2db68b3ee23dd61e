"""The bill of a fabric of tiers, tier by tier.

The first tier is a node's own network where nothing leads on through its switch and it is faster than any port of the
catalog, or where other tiers follow: it takes node links, of which nobody publishes a price or a power. All other tiers
take cards or uplinks, switches and optical links; grids take links between neighbours.
"""

from collections.abc import Sequence

from lightloom.machines.fabrics.bills.grids import Grid, grid_bill
from lightloom.machines.fabrics.bills.links import RATES, cables, ends_of, ports_for
from lightloom.machines.fabrics.bills.switches import network
from lightloom.machines.fabrics.tiers.tier import Level, Tier
from lightloom.machines.parts.bill import Bill, BillChoices, Line
from lightloom.machines.parts.part import load_part

_FASTEST = RATES[-1] * 0.125e9


def tiers_bill(ranks: int, levels: Sequence[Level], tiers: Sequence[Tier], choices: BillChoices) -> Bill:
    """Return the bill of a fabric of tiers, per rank: the sum over its levels of more than one child; for a single
    rank, over all of its levels.

    Args:
        ranks: number of ranks of the fabric.
        levels: the tiers between these ranks, innermost first.
        tiers: the tiers as the fabric's file states them.
        choices: what the fabric leaves open.
    """
    bills = [
        _level_bill(level, levels, _circuit_blocks(level, tiers), choices)
        for level in levels
        if level.size > 1 or ranks == 1
    ]
    total = sum(bills[1:], bills[0]) if bills else Bill(ranks)
    return Bill(ranks, total.lines, total.missing, total.notes, total.bandwidth, kind="tiers")


def _level_bill(level: Level, levels: Sequence[Level], blocks: tuple[int, ...] | None, choices: BillChoices) -> Bill:
    """Return the bill of one level, per rank: of direct links where it has no switch; of the links of a rank inside its
    node (part ``node-link``, one for each gigabyte per second) for an innermost switch through which no outer level's
    ports lead, if there are further levels or no port of the catalog is as fast; otherwise of a network of switches.

    ``levels`` are all levels of the fabric; ``blocks`` are the children along each dimension of blocks that circuit
    switches join, None without any.
    """
    if not level.switched:
        return _direct_bill(level, blocks, choices)
    passed = any(level in other.chain for other in levels)
    own = level.ports / level.child * level.tier.bandwidth
    if level.number == 1 and not passed and (len(levels) > 1 or own > _FASTEST):
        # The links of a rank inside its node; each gigabyte a second counts as one part.
        why = f"{level.ports / level.child:.4g} ports a rank x {level.tier.bandwidth / 1e9:.4g} GB/s of {level.label}"
        return Bill(level.ranks, (Line(load_part("node-link"), own / 1e9, why),), bandwidth=own)
    return _network_bill(level, choices)


def _network_bill(level: Level, choices: BillChoices) -> Bill:
    """Return the bill, per rank, of a tier of switches: ports of its switches, the cards and links into them, and the
    tree behind. Uplinks of switches beneath have no cards and add no bandwidth; a note says where no single switch has
    the ports that the tier joins."""
    ports = ports_for(level.tier.bandwidth, choices)
    per_rank = _ports_of_a_rank(level)
    joined = round(per_rank * level.group / (level.planes if level.tier.separate_rails else 1))
    if level.beneath is not None:
        # Uplinks of a switch lead to as many others beside each other: each of these joins the children once.
        joined = level.size
    below = choices.host_links if level.beneath is None else None
    taper = level.tier.taper or 1.0
    # What a fabric calls a tree has leaves and spines, however few its ports are.
    least = 2 if level.tree else 1
    lines, tree = network(ports, per_rank, max(joined, 2), choices, taper=taper, least=least, below=below)
    flat = tree.tiers > least and not level.tree and level.beneath is None
    note = f"{level.label}: no switch has {joined:,} ports: {tree.text(joined)}, without oversubscription"
    rate = per_rank * level.tier.bandwidth if level.beneath is None else 0.0
    return Bill(level.ranks, tuple(lines), notes=(note,) if flat else (), bandwidth=rate)


def _ports_of_a_rank(level: Level) -> float:
    """Return the number of ports into a level for each rank, which may be a fraction: those of a child over its ranks;
    where ports are uplinks of the switches beneath, those of all these switches over the ranks."""
    return level.ports * (1 if level.beneath is None else level.planes) / level.child


def _direct_bill(level: Level, blocks: tuple[int, ...] | None, choices: BillChoices) -> Bill:
    """Return the bill, per rank, of a level's links between the neighbours of a grid, or between all pairs of a full
    mesh. ``blocks`` are the children along each dimension of blocks between which the links lead through circuit
    switches, None without any."""
    of_switches = level.beneath is not None
    copies = _ports_of_a_rank(level) if level.tier.ports is not None else 1.0
    if level.is_grid:
        grid = Grid(
            ranks=level.ranks,
            dims=level.dims,
            wraps=level.tier.shape != "mesh",
            bandwidth=level.tier.bandwidth,
            block=blocks,
            switched=blocks is not None,
            copies=copies,
            kind=level.tier.shape,
            of_switches=of_switches,
        )
        return grid_bill(grid, choices)
    ports = ports_for(level.tier.bandwidth, choices)
    ends = copies * (level.size - 1)
    why = f"{level.size - 1} links of every port of {level.label}"
    lines, notes = ends_of(ports, ends * ports.number, why, of_switches, choices)
    lines += cables(ports, ends / 2 * ports.number, why, choices.grid_links, choices)
    sent = 0.0 if of_switches else ends * level.tier.bandwidth
    return Bill(level.ranks, tuple(lines), notes=tuple(notes), bandwidth=sent)


def _circuit_blocks(level: Level, tiers: Sequence[Tier]) -> tuple[int, ...] | None:
    """Return the number of children along each dimension of the blocks of a level that circuit switches join; 1 each
    where the level is all circuits, None where no circuits join blocks of it.

    Args:
        level: a level of the fabric.
        tiers: the tiers as the fabric's file states them; blocks are those of the tier just inside a tier of circuits.
    """
    if level.switched or not level.is_grid:
        return None
    if level.tier.shape == "circuit-switch":
        return tuple(1 for _ in level.dims)
    circuits = [place for place, tier in enumerate(tiers) if tier.shape == "circuit-switch" and place]
    joined = next((tiers[place - 1] for place in circuits if tiers[place - 1].shape in ("torus", "mesh")), None)
    if joined is None or joined.children is None or level.tier.name != joined.name:
        return None
    block = joined.sizes(joined.children)
    return block if len(block) == len(level.dims) else None
