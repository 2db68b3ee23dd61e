"""Exchanges of one step that load the same links of a packet fabric, and what these need for all of them.

    pass        compute ── tensor ── compute ── tensor ──      exchanges for which computing waits go first
    gathers     [======]          [======]                     those beside it have what is left of the links

An exchange of t seconds loads link l during u_l t of them; u is 1 on the links that set its pace. A pass of p seconds,
in which exchanges of t_i seconds load links l during b_l = Σ u_il t_i, leaves p − b_l of them, evenly over the pass. An
exchange of g seconds beside it is under way for

    max over l of   u_l g p / (p − b_l)   while the pass leaves enough,  b_l + u_l g  otherwise,      and g at least:

so that on links that both load fully, the pass and g take their sum without what the pass computes, if g is longer.

u is that of a hierarchical exchange in all groups at once, whichever algorithm carries it: along each axis of a group
its ranks pass data both ways around, and inner axes leave less for outer ones, except in an all-to-all. Latencies count
as load, as they do where one network serves one collective after the other. Sends from stage to stage, and what of a
context ring computing hides, are not counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import lru_cache, partial
from typing import NamedTuple, Self

import numpy as np

from lightloom.core.arrays import Floats, Int32s, Ints, first_rows
from lightloom.core.caches import cached_method
from lightloom.machines.fabrics import derived
from lightloom.machines.fabrics.derived import links_of
from lightloom.machines.fabrics.fabric import Axis, Fabric
from lightloom.planning.parallelism.strategy_space import Strategies
from lightloom.planning.simulation.engine import waiting


class Groups(NamedTuple):
    """Groups of strategies: so many ranks, so far apart, each [rows]."""

    ranks: Ints
    stride: Ints
    all_to_all: bool = False


class LinkUse(NamedTuple):
    """How a pass, and the exchanges beside it, load each set of links that are loaded alike."""

    busy: Floats
    """Seconds in which the pass itself loads these links: [rows, chunks, set]."""
    load: Floats
    """Share of these links that the exchanges beside the pass load: [rows, 1, set]."""


@dataclass(frozen=True)
class Pass:
    """A pass of every chunk, and what exchanges may hide behind."""

    seconds: Floats
    """Seconds of computing and of the exchanges that it waits for: [rows, chunks]."""
    share: float = 0.0
    """Share of the arithmetic that exchanges take from computing beside them."""
    links: LinkUse | None = None
    """Links that the pass and the exchanges load; None where exchanges share none."""

    def prolonged(self, part: Floats | float, exchanging: Floats) -> Floats:
        """Return the seconds by which exchanges prolong the part of the pass with which they begin: [rows, chunks], the
        larger of what outlasts the part and of the share of the arithmetic that they take meanwhile.

        ``part`` is the share of the pass beside which they run, 0 to 1, in the shape of the pass or as one number;
        ``exchanging`` [rows, chunks] is the seconds of the exchanges if they had the links to themselves.
        """
        return waiting(part * self.seconds, self.exchanged(part, exchanging), self.share)

    def exchanged(self, part: Floats | float, exchanging: Floats) -> Floats:
        """Return the seconds in which exchanges are under way that begin with a part of the pass and take
        ``exchanging`` seconds alone, longer where the pass loads the same links, 0 where they take none:
        [rows, chunks].

        ``part`` is the share of the pass beside which they run, 0 to 1, in the shape of the pass or as one number.
        """
        if self.links is None:
            return exchanging
        part = np.asarray(part)[..., None]
        whole, busy = part * self.seconds[..., None], part * self.links.busy
        load = self.links.load * exchanging[..., None]
        left = whole - busy
        hidden = (load <= left) & (left > 0)
        stretched = np.divide(whole * load, left, out=busy + load, where=hidden)
        return np.where(exchanging > 0, np.maximum(exchanging, stretched.max(axis=-1)), 0.0)


class LinkTurns:
    """How much of every link of a fabric the exchanges of strategies load."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        self._apart = fabric.exclusive or not fabric.any_pair
        """True when exchanges share no links: circuits are divided among them, or each axis has a network."""

    @classmethod
    def on(cls, fabric: Fabric) -> LinkTurns:
        """Return the calculator of link shares for a fabric; the same object for fabrics that differ in nothing but
        sources and collective library."""
        key = *fabric.implementation, fabric.model_dump_json(exclude={"sources", "transport"})
        return _on(derived.Keyed(key, fabric))

    def pass_of(
        self, rows: Strategies, seconds: Floats, share: float, within: Sequence[Floats], beside: Sequence[Groups]
    ) -> Pass:
        """Return passes with the links that they load; with ``links`` None where exchanges share no links on this
        fabric, or nothing is exchanged within the passes.

        Args:
            rows: strategies.
            seconds: seconds of the passes: [rows, chunks].
            share: share of the arithmetic that exchanges take from computing beside them.
            within: seconds of a pass in which tensor, expert and context groups exchange, in this order, each
                [rows, chunks].
            beside: groups of the exchanges beside the pass, one or more, of which the one that loads a link most
                counts.
        """
        if self._apart or not any(part.any() for part in within):
            return Pass(seconds, share)
        tensor = Groups(rows.tp, np.ones_like(rows.tp))
        groups = (tensor, Groups(rows.ep, rows.tp, all_to_all=True), Groups(rows.cp, rows.tp), *beside)
        keys = np.stack([column for group in groups for column in (group.ranks, group.stride)])
        first, row = first_rows(list(keys))
        kinds = [group.all_to_all for group in groups]
        sets = [self._sets(tuple(zip(key[::2], key[1::2], kinds, strict=True))) for key in keys.T[first].tolist()]
        loads = np.zeros((len(sets), max(map(len, sets)), len(within) + 1))
        for table, own in zip(loads, sets, strict=True):
            table[: len(own)] = own
        of_rows = loads[row]
        busy = np.einsum("arc,rsa->rcs", np.stack(within), of_rows[:, :, :-1])
        return Pass(seconds, share, LinkUse(busy, of_rows[:, None, :, -1]))

    @cached_method()
    def _sets(self, groups: tuple[tuple[int, int, bool], ...]) -> Floats:
        """Return the different loads of links, each set of links that are loaded alike a row: the shares of their own
        time, 1 on their busiest link, in which the exchanges within a pass (tensor, expert, context) load the links,
        and the largest of those beside it: [set, 4]. Sets that another one exceeds everywhere are left out.

        ``groups`` are (ranks, stride, all-to-all) of the tensor, expert and context groups, then of those beside the
        pass.
        """
        shares, levels = zip(*(self._shares(*group) for group in groups), strict=True)
        alike = _first_alike(levels)
        table = np.stack([*(share[alike] for share in shares[:3]), np.max([s[alike] for s in shares[3:]], axis=0)])
        return _undominated(np.unique(table.T, axis=0))

    @cached_method()
    def _shares(self, ranks: int, stride: int, all_to_all: bool) -> tuple[Floats, Ints]:
        """Return the share of each link that all groups of ``ranks`` ranks at a ``stride`` load while they exchange,
        rounded to 9 decimals, and a number for each link that is the same for equal shares: [link] each."""
        shares = link_shares(self._fabric, ranks, stride, all_to_all).round(9)
        return shares, np.unique(shares, return_inverse=True)[1]


@lru_cache(maxsize=64)
def _on(keyed: derived.Keyed[Fabric]) -> LinkTurns:
    """Return the calculator of link shares for the fabric of a key, cached by the key."""
    return LinkTurns(keyed.fabric)


def link_shares(fabric: Fabric, ranks: int, stride: int, all_to_all: bool = False) -> Floats:
    """Return the share of their exchange's time in which all groups of ``ranks`` ranks at a ``stride``, exchanging at
    once around rings of each of their axes, both ways, load each link, 1 for the busiest: [link]; all 0 for groups of
    one rank, and those that the fabric cannot form.

    ``all_to_all`` says that inner axes of a group leave all bytes for outer ones, where other collectives leave 1/s of
    them behind an axis of s ranks.
    """
    seconds = np.zeros(fabric.links)
    known = _passed(fabric)
    if (ranks, stride) not in known:
        known[ranks, stride] = _neighbour_transfers(fabric, ranks, stride)
    if not known[ranks, stride]:
        return seconds
    bandwidth, carried = fabric.link_bandwidth(), 1.0
    for size, ways in known[ranks, stride]:
        for transfers in ways:
            seconds += carried * (1 - 1 / size) / 2 * transfers / bandwidth
        carried /= 1 if all_to_all else size
    shares: Floats = seconds / seconds.max()
    return shares


@partial(derived.cached, last=16)
def _passed(fabric: derived.Geometry) -> dict[tuple[int, int], list[tuple[int, list[Int32s]]]]:  # noqa: ARG001 - the key
    """Return the dictionary, empty at first, in which :func:`link_shares` keeps :func:`_neighbour_transfers` by (ranks,
    stride), the same one for all fabrics of this structure."""
    return {}


def _neighbour_transfers(fabric: Fabric, ranks: int, stride: int) -> list[tuple[int, list[Int32s]]]:
    """Return for each axis of a group, innermost first (a group without axes is one ring), its size, and for both ways
    around it, upwards first, how many transfers between neighbours pass each link, all groups of ``ranks`` at a
    ``stride`` together: [link]; an empty list for groups of one rank, and those that the fabric cannot form."""
    part = fabric if ranks == fabric.ranks else fabric.group(ranks, stride) if ranks > 1 else None
    if part is None:
        return []
    order = np.arange(ranks) if part.axes else part.ring_order()
    members = derived.group_members(fabric.ranks, ranks, stride)[:, order]
    passed: list[tuple[int, list[Int32s]]] = []
    for axis in part.axes or (Axis(1, ranks),):
        place = np.arange(ranks)
        number = place // axis.stride % axis.size
        ways = []
        for step in (1, -1):
            neighbour = place + ((number + step) % axis.size - number) * axis.stride
            source, destination = members.ravel(), members[:, neighbour].ravel()
            _, link = links_of(fabric.footprint(source, destination, fabric.route(source, destination)))
            ways.append(np.bincount(link, minlength=fabric.links).astype(np.int32))
        passed.append((axis.size, ways))
    return passed


def _first_alike(levels: Sequence[Ints]) -> Ints:
    """Return one link, the first, of all that have the same number in each of the arrays ``levels``, [link] each:
    [combination], one for each combination of numbers that occurs."""
    number = levels[0]
    for other in levels[1:]:
        number = number * (int(other.max()) + 1) + other
        used = np.bincount(number) > 0
        number = (np.cumsum(used) - 1)[number]
    first = np.empty(int(number.max()) + 1, np.int64)
    first[number[::-1]] = np.arange(len(number))[::-1]
    return first


def _undominated(table: Floats) -> Floats:
    """Return the rows of ``table`` [row, column] of which no other one is at least as large in every column; rows must
    differ, as of two equal ones neither is returned."""
    kept = [
        row for row in range(len(table)) if not any((other >= table[row]).all() for other in np.delete(table, row, 0))
    ]
    return table[kept]


# When an optical circuit switch is set anew within a step, and what of that a rank waits for.
#
# planes   │ data ─ turn ─│ tensor, pipeline              │ tensor, pipeline, data │─ turn ─ data    │─ turn ─
# rank     │ gather  lead ▓▓▓▓ passes ▓▓▓▓ passes ▓▓▓▓▓▓▓▓│▓▓▓ last pass ▓▓ tail   │ gradients       │ update
#
# Planes turn from the last byte that their old groups send; those who are given planes wait for the turn, the others
# go on. What a turn and computing have in common is hidden: the optimizer's update before the first phase, the *lead*
# of the first pass before its first exchange, the *tail* of the last pass after its last exchange.


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchTurns:
    """Seconds of turns of a step of stages: a turn's length where planes that a phase uses are set anew, else 0."""

    start: Floats
    """Before the gather of parameters, what the last step's update has not hidden; each [stages]."""
    passes: Floats
    """Before the first exchange of the first pass, after the gather."""
    lead: Floats
    """Computing of the first pass before its first exchange."""
    last: Floats
    """For the gradients that are exchanged beside the last backward pass, from its begin on."""
    gradients: Floats
    """For those that are exchanged after it, from its last exchange on."""
    tail: Floats
    """Computing of the last backward pass after its last exchange."""
    waits_for_send: Floats
    """1 where planes of the pipeline turn after the last pass, which waits for the last send of the stage; else
    0."""
    exchange: Floats
    """Before what is exchanged after that."""
    tied: Floats
    """Before the sums over tied tables."""
    update: Floats
    """After the last exchange, beside the update."""

    @classmethod
    def none(cls, stages: int) -> Self:
        """Return turns of 0 seconds for so many stages: circuits that stand for the whole step."""
        return cls(**{each.name: np.zeros(stages) for each in fields(cls)})

    @property
    def columns(self) -> Floats:
        """All turns as the array that a compiled step takes: [10, stages], a row for each field in its order (start,
        passes, lead, last, gradients, tail, waits_for_send, exchange, tied, update)."""
        return np.stack([np.asarray(getattr(self, each.name), np.float64) for each in fields(self)])
