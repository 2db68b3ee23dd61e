"""Bills of graphs, link by link: cards at ranks, ports at switches, and a cable for every link both ways."""

from __future__ import annotations

from collections import Counter

from lightloom.core.arrays import Floats, Ints
from lightloom.core.units import format_bandwidth
from lightloom.machines.fabrics.bills.links import cables, port_line, ports_for, used_ports
from lightloom.machines.parts.bill import Bill, BillChoices, Line


def graph_bill(ranks: int, tail: Ints, head: Ints, bandwidth: Floats, choices: BillChoices) -> Bill:
    """Return the bill of a graph; a link to a switch ends at a card, one between ranks at the chip itself.

    Args:
        ranks: of the graph, its first vertices.
        tail, head: vertices that each link joins, [link].
        bandwidth: bytes per second of each link, [link].
        choices: of the bill.
    """
    # Cables by how many of their ends are ranks, and by rate; each has a link both ways.
    ways = Counter(zip(tail.tolist(), head.tolist(), bandwidth.tolist(), strict=True))
    counts: Counter[tuple[int, float]] = Counter()
    for (one, other, rate), links in ways.items():
        back = ways.get((other, one, rate), 0)
        if one < other or not back:
            counts[(one < ranks) + (other < ranks), rate] += max(links, back)
    lines: list[Line] = []
    for (at_ranks, rate), count in sorted(counts.items()):
        ports = ports_for(rate, choices)
        per_rank = ports.number * count / ranks
        kind = ("between switches", "from ranks to switches", "between ranks")[at_ranks]
        why = f"{count} links of {format_bandwidth(rate)} {kind} x {ports.why} / {ranks:,} ranks"
        if at_ranks and (at_ranks < 2 or choices.cards):
            lines.append(port_line("nic", ports, at_ranks * per_rank, why, choices))
        if at_ranks < 2:
            lines.append(port_line("switch-port", ports, (2 - at_ranks) * per_rank, why, choices))
        medium = (choices.grid_links, choices.host_links)[at_ranks == 1] if at_ranks else "optical"
        lines += cables(ports, per_rank, why, medium, choices)
    chips = any(at_ranks == 2 for at_ranks, _ in counts) and not choices.cards
    notes = ["assumption: ports of links between ranks are on the chips, without cards"] * chips
    if any(at_ranks < 2 for at_ranks, _ in counts):
        notes += used_ports(choices)
    sent = float(bandwidth[tail < ranks].sum()) / ranks
    return Bill(ranks, tuple(lines), notes=tuple(notes), bandwidth=sent, kind="graph")
