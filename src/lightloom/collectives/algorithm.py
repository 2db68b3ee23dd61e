"""The description of an algorithm: the kinds that it serves, what it needs, and the function that builds a schedule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import is_
from typing import NamedTuple

import numpy as np

from lightloom.collectives.collective import CARRIED_AS, FROM_ALL_GATHER, ROOTED, TO_OR_FROM_ROOT, Collective
from lightloom.collectives.cost.price import CostModel
from lightloom.collectives.schedule.columns import ROW_NBYTES, Schedule
from lightloom.core.arrays import Ints
from lightloom.core.errors import UnsupportedError
from lightloom.core.fields import MAXIMUM_RANKS
from lightloom.core.memory import lacking_memory
from lightloom.machines.fabrics.derived import links_of, straight_loads
from lightloom.machines.fabrics.fabric import Fabric

_BELOW_ROUNDING = 1 - 1e-9
"""Factor that keeps a floor below costs whose sums are rounded otherwise."""
_ROUNDING = 1e-9
"""Share by which a number of channels that was computed from bandwidths may be too small."""


def rows_by_pair(kind: str, fabric: Fabric) -> int:
    """Return the number of rows (transfers of one share) of a schedule in which every rank receives every other rank's
    share: N · (N − 1) for N ranks, of an all-reduce twice that, of every other kind the same."""
    return fabric.ranks * (fabric.ranks - 1) * (2 if kind == "all-reduce" else 1)


def rows_by_rank(kind: str, fabric: Fabric) -> int:
    """Return about how many rows (transfers) schedules have in which every rank sends a few times.

    For N ranks 2 N · b in an all-reduce, a broadcast, a reduce, a gather or a scatter, where b is the number of bits of
    N, about log2 N; else 2 N · (N − 1), as every share is a row of its own.
    """
    whole = kind in ("all-reduce", *ROOTED, *TO_OR_FROM_ROOT)
    return 2 * fabric.ranks * fabric.ranks.bit_length() if whole else 2 * rows_by_pair(kind, fabric)


class Sends(NamedTuple):
    """Transfers from rank to rank that begin together, once or several times one after the other."""

    share: float
    """Bytes of each transfer at least, over those of the collective."""
    source: Ints
    """Ranks that send: [transfer]."""
    destination: Ints
    times: int = 1

    def backward(self) -> Sends:
        """Return the transfers run backwards, the same object where all ranks that send to each other do so both
        ways."""
        most = max(int(self.source.max(initial=0)), int(self.destination.max(initial=0))) + 1
        there, back = self.source * most + self.destination, self.destination * most + self.source
        mutual = np.array_equal(np.sort(there), np.sort(back))
        return self if mutual else self._replace(source=self.destination, destination=self.source)


def _takes(steps: Sequence[Sends], fabric: Fabric) -> tuple[float, float]:
    """Return the seconds that steps take at least one after the other: of no bytes, and for each byte of the
    collective, a little less for rounding; zeros without steps.

    A step takes the longest latency, on the quickest route where there are several, and the bytes of the link that
    takes longest; on circuits those of a transfer on all channels of a link, or of the rank that takes longest to
    receive or to send its own.
    """
    steps = [step for step in steps if len(step.source)]
    if not steps:
        return 0.0, 0.0
    number = np.repeat(np.arange(len(steps)), [len(step.source) for step in steps])
    source, destination = (np.concatenate([step[end] for step in steps]) for end in (1, 2))
    if fabric.exclusive:
        ways = [np.full(len(source), route) for route in range(fabric.routes)]
        busy = np.full((len(steps), 1), 1 / (fabric.channels * fabric.channel_bandwidth))
        for ranks, rates in zip((destination, source), fabric.rank_bandwidths(), strict=True):
            bytes_of = np.bincount(number * fabric.ranks + ranks, minlength=len(steps) * fabric.ranks)
            busy = np.maximum(busy, bytes_of.reshape(len(steps), -1) / rates)
    else:
        ways = [fabric.route(source, destination)]
        transfer, link = links_of(fabric.footprint(source, destination, ways[0]))
        load = np.bincount(number[transfer] * fabric.links + link, minlength=len(steps) * fabric.links)
        used = fabric.link_bandwidth() > 0
        busy = load.reshape(len(steps), -1)[:, used] / fabric.link_bandwidth()[used]
    latency = np.zeros(len(steps))
    np.maximum.at(latency, number, reduce(np.minimum, (fabric.latency(source, destination, way) for way in ways)))
    times, shares = np.array([step.times for step in steps]), np.array([step.share for step in steps])
    seconds, a_byte = times @ (latency + fabric.step_overhead), times * shares @ busy.max(axis=1)
    return float(seconds) * _BELOW_ROUNDING, float(a_byte) * _BELOW_ROUNDING


@dataclass(frozen=True, slots=True, kw_only=True)
class Algorithm:
    """One way to carry a collective. ``build(collective, fabric, striped=...)`` returns the schedule, not yet verified;
    a striped form names it."""

    name: str
    build: Callable[..., Schedule]
    summary: str
    kinds: tuple[str, ...] = FROM_ALL_GATHER
    striped: bool = False
    """True where every transfer bundles all the wavelengths it can get."""
    needs: str = "any"
    """"any", "wdm-ring" (wavelengths on a ring), or "in-network" (a reducing switch)."""
    even_ranks: bool = False
    """True where an odd number of ranks is refused."""
    halves_shares: bool = False
    """True where the striped form also splits shares between two directions, which helps without wavelengths."""
    by_size: bool = False
    """True where another size has another schedule, instead of the same one carrying more; it may be queued."""
    pipelined: bool = False
    """True where its schedules are pipelines, whose number of pieces follows from the size; a price is then the least
    of some that each grow linearly with the size."""
    by_structure: bool = False
    """True where fabrics of one structure (``machines.fabrics.derived``) have the same schedules, which then are
    built and verified once for all of them; never of pipelines, whose loads are seconds."""
    declines: Callable[[str, Fabric], str | None] = lambda kind, fabric: None  # noqa: ARG005 - most decline nothing more
    """Function that says why the algorithm cannot serve a kind on a fabric, beside what the other fields say."""
    longest_lightpath: Callable[[str, Fabric], int] | None = None
    """Function that counts the links of its longest lightpath for a kind on a fabric; None where that follows from its
    ends, and where it states neither, as its schedules keep within the fabric's reach by construction."""
    ends: Callable[[int], Iterable[tuple[Ints, Ints]]] | None = None
    """Function that yields, for a number of ranks, sources and destinations of lightpaths that every collective between
    all ranks needs, no pair of them twice: [lightpath] each; None where they are not stated."""
    sends: Callable[[Fabric], Sequence[Sends]] | None = None
    """Function that returns, for a fabric, steps that follow each other in every all-gather, and in an all-to-all; it
    may leave some out. None where they are not stated. A reduce-scatter is the all-gather run backwards, and an
    all-reduce both, unless :attr:`sums` are stated."""
    sums: Callable[[Fabric], Sequence[Sends]] | None = None
    """Function that returns the steps of an all-reduce that is not a reduce-scatter and then an all-gather."""
    straight: bool = False
    """True where on packet fabrics every rank sends straight to every other, all at once."""
    least_channels: int = 0
    """Channels a circuit-switched link must have."""
    rows: Callable[[str, Fabric], int] = rows_by_pair
    """Function that estimates the rows of its schedules; where as many do not fit in memory it is refused."""
    all_to_all_ranks: int = MAXIMUM_RANKS
    """The most ranks of an all-to-all; less where blocks are passed on, so that rows grow with the ranks' cube."""

    def bundled(self) -> Algorithm:
        """Return a copy of this algorithm in its striped form, in which every transfer bundles all the wavelengths it
        can get: its name ends in "-striped", its summary in "; all wavelengths bundled"."""
        summary = f"{self.summary}; all wavelengths bundled"
        return replace(self, name=f"{self.name}-striped", summary=summary, striped=True)

    def schedule(self, collective: Collective, fabric: Fabric) -> Schedule:
        """Return a schedule that serves a collective on a fabric, not yet verified.

        Where the algorithm does not list them, a barrier is served by the schedule of an all-gather, an all-to-all-v by
        that of an all-to-all, and a reduce-scatter-v by that of a reduce-scatter.

        Raises:
            UnsupportedError: the algorithm cannot serve this kind on this fabric (says why, as :meth:`refusal`).
        """
        refusal, kind = self.refusal(collective.kind, fabric), collective.kind
        if refusal:
            raise UnsupportedError(refusal)
        carrier = kind if kind in self.kinds else CARRIED_AS.get(kind, kind)
        carried = collective if carrier == kind else collective.of_kind(carrier)
        schedule = self.build(carried, fabric, striped=self.striped)
        if self.striped:
            schedule = replace(schedule, algorithm=self.name)
        return schedule if carrier == kind else schedule.carrying(collective, fabric.fibre_channels)

    def refusal(self, kind: str, fabric: Fabric, model: CostModel = "physical") -> str | None:
        """Return a sentence that says why this algorithm cannot serve a kind on a fabric under a cost model; None when
        it can.

        Only the first of these that fails is named, in this order: whether the fabric joins any two ranks; whether the
        model can charge the algorithm ("paper" cannot where the schedule depends on the size); the kind; reduction in
        the network or a ring with wavelengths, where needed; failed parts of the fabric, of which only algorithms
        that build by size know; transceivers for sending both ways, the most ranks of an all-to-all, an even number of
        ranks, and the wavelengths of a link, also those that a striped form bundles; what else the algorithm declines;
        lightpaths longer than light reaches; and memory for its rows. A barrier, an all-to-all-v or a reduce-scatter-v
        that the algorithm does not list is judged as the all-gather, all-to-all or reduce-scatter whose schedules serve
        it.
        """
        carrier = CARRIED_AS.get(kind, kind)
        if kind not in self.kinds and carrier in self.kinds:
            return self.refusal(carrier, fabric, model)
        ranks, channels = fabric.ranks, fabric.usable_channels
        most = self.all_to_all_ranks
        reduces = self.needs == "in-network"
        sends = "sends from rank to rank, and this fabric only reduces in the network"
        bundles = self.striped and not (fabric.exclusive or self.halves_shares or self.by_size)
        whole = "needs any two ranks to send to each other, and these are joined part by part"
        conditions = (
            (not (fabric.any_pair or fabric.in_network_reduction), whole),
            (self.by_size and model == "paper", "has no steps that the paper cost model could charge"),
            (kind not in self.kinds, f"serves {', '.join(self.kinds)}, not {kind}"),
            (reduces and not fabric.in_network_reduction, "needs a switch that reduces in the network"),
            (fabric.in_network_reduction and not reduces, sends),
            (self.needs == "wdm-ring" and not fabric.wavelength_routed, "needs a ring with wavelengths"),
            (not self.by_size and fabric.blocked() is not None, "knows nothing of failures"),
            (fabric.exclusive and channels < 1, "sends both ways around, which takes at least 2 transceivers a node"),
            (kind == "all-to-all" and ranks > most, f"serves all-to-all among at most {most} ranks, not {ranks}"),
            (self.even_ranks and ranks % 2, f"needs an even number of ranks, not {ranks}"),
            (channels < self.least_channels, f"needs {self.least_channels} wavelengths a link, not {channels}"),
            (bundles, "bundles wavelengths, and this fabric has none"),
        )
        why = next((f"{self.name} {text}" for fails, text in conditions if fails), None)
        why = why or self.declines(kind, fabric)
        if why is None and fabric.reach is not None:
            links = self.lightpath_links(kind, fabric) or 0
            needs = f"{self.name} needs lightpaths of {links} links, and light reaches {fabric.reach} on this fabric"
            why = needs if links > fabric.reach else None
        return why or self.beyond_memory(kind, fabric)

    def lightpath_links(self, kind: str, fabric: Fabric) -> int | None:
        """Return the links of the longest lightpath for a kind on a fabric; None where its schedules keep within the
        fabric's reach by construction."""
        if self.longest_lightpath is not None:
            return self.longest_lightpath(kind, fabric)
        return self.ends and max(longest_links(fabric, *pair) for pair in self.ends(fabric.ranks))

    def changes_circuits(self, fabric: Fabric) -> bool:
        """Return True if every schedule of a collective between all ranks surely sets up circuits anew between its
        steps, as its lightpaths cannot all stand at once; False may be returned although they cannot.

        They cannot where more of them enter a rank than its links have channels, or where all of them, on their
        shortest routes, pass more links than the fabric has, each counted once for each of its channels. Where light
        can be tapped, where circuits are not exclusive and where no ends are stated, False is returned.
        """
        if self.ends is None or not fabric.exclusive or fabric.taps > 1:
            return False
        free = fabric.links * fabric.channels
        entering = fabric.rank_bandwidths()[0] / fabric.channel_bandwidth * (1 + _ROUNDING)
        for source, destination in self.ends(fabric.ranks):
            routes = (np.full(len(source), route) for route in range(fabric.routes))
            hops = reduce(np.minimum, (fabric.hops(source, destination, route) for route in routes))
            free -= int(hops.sum())
            entering -= np.bincount(destination, minlength=fabric.ranks)
            if free < 0 or entering.min() < 0:
                return True
        return False

    def least_seconds(self, fabric: Fabric) -> dict[str, tuple[float, float]]:
        """Return, for the kinds of collectives between all ranks, seconds and seconds a byte that the stated sends take
        at least, circuits in place: their latencies, and the bytes of the links, or of the lightpaths and ranks, that
        take longest; (0, 0) where no sends are stated."""
        if self.straight and not fabric.exclusive:
            load, bandwidth = straight_loads(fabric), fabric.siblings()[0].link_bandwidth()
            busy = load[bandwidth > 0] / bandwidth[bandwidth > 0] / fabric.ranks
            seconds = fabric.diameter_latency() + fabric.step_overhead
            gather = scatter = seconds * _BELOW_ROUNDING, float(busy.max()) * _BELOW_ROUNDING
        else:
            steps = [] if self.sends is None else self.sends(fabric)
            backward = [step.backward() for step in steps]
            gather = _takes(steps, fabric)
            scatter = gather if all(map(is_, steps, backward)) else _takes(backward, fabric)
        both = gather[0] + scatter[0], gather[1] + scatter[1]
        sums = both if self.sums is None else _takes(self.sums(fabric), fabric)
        return {"all-gather": gather, "all-to-all": gather, "reduce-scatter": scatter, "all-reduce": sums}

    def beyond_memory(self, kind: str, fabric: Fabric) -> str | None:
        """Return a sentence that says why the rows that the algorithm is estimated to make for a kind of collective on
        a fabric, at 200 bytes each, do not fit in the memory that this machine has free; None where they do, and always
        for at most 256 MiB."""
        rows = self.rows(kind, fabric)
        return lacking_memory(rows * ROW_NBYTES, f"{self.name} on {fabric.ranks:,} ranks, with {rows:,} rows,")


def longest_links(fabric: Fabric, source: Ints, destination: Ints) -> int:
    """Return the number of links of the longest lightpath of those from ``source`` to ``destination``, ranks
    [lightpath], at least one, each on the route that the fabric chooses."""
    return int(fabric.hops(source, destination, fabric.route(source, destination)).max())


def links_to_neighbours(kind: str, fabric: Fabric) -> int:  # noqa: ARG001 - all kinds alike
    """Return the most links between two neighbours of the fabric's ring order, the last and the first included; the
    kind does not matter."""
    order = fabric.ring_order()
    return longest_links(fabric, order, np.roll(order, -1))
