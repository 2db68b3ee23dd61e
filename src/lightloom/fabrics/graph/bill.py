"""The bill of a graph, link by link: cards at ranks, ports at switches, and a cable for every link both ways."""

from __future__ import annotations

from collections import Counter

from lightloom.core.units import format_bandwidth
from lightloom.fabrics.bills.links import cables, nic, ports_for, switch_port, used_ports
from lightloom.fabrics.graph.network import Network
from lightloom.parts.bill import Bill, Line
from lightloom.parts.choices import BillChoices


def graph_bill(network: Network, choices: BillChoices) -> Bill:
    """Return the bill of a graph; a link to a switch ends at a card, one between ranks at the chip itself."""
    ranks, counts = network.ranks, _cables(network)
    lines: list[Line] = []
    for (at_ranks, rate), count in sorted(counts.items()):
        ports = ports_for(rate, choices)
        per_rank = ports.number * count / ranks
        kind = ("between switches", "from ranks to switches", "between ranks")[at_ranks]
        why = f"{count} links of {format_bandwidth(rate)} {kind} x {ports.why} / {ranks:,} ranks"
        cards = at_ranks if at_ranks < 2 or choices.cards else 0
        if cards:
            lines.append(Line(nic(ports, choices), cards * per_rank, why, rate=ports.rate))
        if at_ranks < 2:
            lines.append(Line(switch_port(ports, choices), (2 - at_ranks) * per_rank, why, rate=ports.rate))
        medium = (choices.grid_links, choices.host_links)[at_ranks == 1] if at_ranks else "optical"
        lines += cables(ports, per_rank, why, medium, choices)
    sent = float(network.bandwidth[network.tail < ranks].sum()) / ranks
    chips = any(at_ranks == 2 for at_ranks, _ in counts) and not choices.cards
    notes = ["assumption: ports of links between ranks are on the chips, without cards"] * chips
    if any(at_ranks < 2 for at_ranks, _ in counts):
        notes += used_ports(choices)
    return Bill(ranks, tuple(lines), notes=tuple(notes), bandwidth=sent, kind="graph")


def _cables(network: Network) -> Counter[tuple[int, float]]:
    """Return the cables by how many of their ends are ranks, and by bytes per second; each has a link both ways."""
    ways: Counter[tuple[int, int, float]] = Counter()
    for tail, head, rate in zip(network.tail.tolist(), network.head.tolist(), network.bandwidth.tolist(), strict=True):
        ways[tail, head, rate] += 1
    counts: Counter[tuple[int, float]] = Counter()
    for (tail, head, rate), links in ways.items():
        back = ways[head, tail, rate]
        if tail < head or not back:
            counts[(tail < network.ranks) + (head < network.ranks), rate] += max(links, back)
    return counts
