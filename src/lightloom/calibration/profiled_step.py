"""A profiled step beside its prediction: computing, exchanges, idle time, and what makes the difference.

    part                       measured                          predicted
    computing                  time in which any kernel runs     the same, with each priced operator at its price
    exposed communication      exchanges beside no kernel        the same, as longer or shorter as the exchanges are
    idle                       neither                           as measured

Overlap stays as it was: of an exchange that takes twice as long, twice as much is exposed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, get_args

import numpy as np

from lightloom.accelerators.base import Accelerator
from lightloom.calibration.profiled_operators import ProfiledOperator, operators_of, predicted_seconds
from lightloom.clusters.base import Cluster
from lightloom.collectives.spec import KINDS, Kind
from lightloom.core.errors import InputError
from lightloom.interchange.traces.calls import Call
from lightloom.interchange.traces.exchanges import TracedExchange, kind_of_words
from lightloom.interchange.traces.kineto import Profile, TimedCall
from lightloom.interchange.traces.kineto_device import Busy, busy
from lightloom.interchange.traces.steps import leaves
from lightloom.planner.pricing.group_prices import AUTO, GroupPrices

COMMUNICATION = ("c10d::", "nccl:", "gloo:", "mpi:", "ucc:", "record_param_comms")
"""Beginnings of the names of calls that exchange data among ranks."""


class Part(NamedTuple):
    """One part of a step, in seconds of one step."""

    name: str
    measured: float
    predicted: float
    note: str

    @property
    def difference(self) -> float:
        """Predicted less measured seconds; negative where the prediction is too fast."""
        return self.predicted - self.measured


class ExchangeRow(NamedTuple):
    """The exchanges of one kind, size and group in a step."""

    exchange: TracedExchange
    times: float
    """Exchanges of a step."""
    measured: float
    """Seconds of one."""
    predicted: float | None
    """The same; None where nothing tells it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledStep:
    """A step as it was measured and as it is predicted."""

    parts: tuple[Part, ...]
    operators: tuple[tuple[ProfiledOperator, float | None], ...]
    """Operators with the predicted seconds of one call, the longest first."""
    exchanges: tuple[ExchangeRow, ...]
    steps: int
    overlapped: float
    """Seconds of a step in which exchanges ran beside computing."""

    @property
    def measured(self) -> float:
        """Seconds of a step."""
        return sum(part.measured for part in self.parts)

    @property
    def predicted(self) -> float:
        """Seconds of a step, predicted."""
        return sum(part.predicted for part in self.parts)


def profiled_step(profile: Profile, machine: Accelerator, cluster: Cluster | None) -> ProfiledStep:
    """Return a profiled step beside its prediction.

    Args:
        profile: with or without marked steps; without marks the whole trace is one step.
        machine: what it ran on.
        cluster: with what; without it exchanges are taken as measured.
    """
    window = _window(profile)
    computing, exchanging = _intervals(profile)
    spent = busy(computing, exchanging, window)
    operators = operators_of(profile)
    prices = predicted_seconds(operators, machine)
    known = ~np.isnan(prices)
    measured = np.array([operator.mean_seconds for operator in operators])
    calls = np.array([operator.calls for operator in operators])
    change = float(((prices - measured) * calls)[known].sum())
    rows = tuple(_exchange_rows(profile, cluster))
    share = float((measured * calls)[known].sum() / max(float((measured * calls).sum()), 1e-30))
    return ProfiledStep(
        parts=tuple(_parts(spent, change, share, rows, profile.steps, cluster)),
        operators=tuple(
            (operator, float(price) if priced else None)
            for operator, price, priced in zip(operators, prices, known, strict=True)
        ),
        exchanges=rows,
        steps=profile.steps,
        overlapped=spent.overlapped / profile.steps,
    )


def _parts(
    spent: Busy, change: float, share: float, rows: Sequence[ExchangeRow], steps: int, cluster: Cluster | None
) -> Iterator[Part]:
    note = f"{share:.0%} of the operators' time is priced, the rest as measured"
    yield Part("computing", spent.computing / steps, max(spent.computing + change, 0.0) / steps, note)
    lasted = sum(row.times * row.measured for row in rows)
    predicted = sum(row.times * (row.measured if row.predicted is None else row.predicted) for row in rows)
    ratio = predicted / lasted if lasted else 1.0
    priced = sum(row.predicted is not None for row in rows)
    note = f"{priced} of {len(rows)} kinds of exchanges are priced" if cluster else "as measured: no cluster is named"
    yield Part("exposed communication", spent.exposed / steps, ratio * spent.exposed / steps, note if rows else "none")
    yield Part("idle", spent.idle / steps, spent.idle / steps, "as measured")


def _window(profile: Profile) -> tuple[float, float]:
    """Begin and end of the steps; work that the last one launched belongs to it."""
    ends = [call.end for call in profile.calls] + [piece.end for piece in profile.work]
    begins = [call.begin for call in profile.calls] + [piece.begin for piece in profile.work]
    if profile.marks:
        last = [piece.end for piece in profile.work] if profile.on_device else []
        return profile.marks[0][0], max([profile.marks[-1][1], *last])
    return min(begins, default=0.0), max(ends, default=0.0)


def _intervals(profile: Profile) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """When anything computes, and when anything exchanges: on the accelerator, else on the host."""
    computing: list[tuple[float, float]] = []
    exchanging: list[tuple[float, float]] = []
    if profile.on_device:
        for piece in profile.work:
            (computing if piece.exchange is None else exchanging).append((piece.begin, piece.end))
    else:
        for call in _host_calls(profile):
            communicates = call.name.startswith(COMMUNICATION)
            (exchanging if communicates else computing).append((call.begin, call.end))
    return computing, exchanging


def _host_calls(profile: Profile) -> Iterator[TimedCall]:
    for call in leaves(profile.roots):
        if isinstance(call, TimedCall) and (call.schema or call.calls or call.name.startswith(COMMUNICATION)):
            yield call


def _exchanges(profile: Profile) -> Iterator[TracedExchange]:
    if profile.on_device:
        yield from (piece.exchange for piece in profile.work if piece.exchange is not None)
        return
    for call in _host_calls(profile):
        if call.name.startswith(COMMUNICATION):
            nbytes = max((sum(tensor.nbytes for tensor in inner.reads) for inner in _within(call)), default=0)
            kind = next((kind for inner in _within(call) if (kind := kind_of_words(inner.name))), "unknown")
            yield TracedExchange(kind, nbytes or None, seconds=call.seconds)


def _within(call: Call) -> Iterator[Call]:
    yield call
    for inner in call.calls:
        yield from _within(inner)


def _exchange_rows(profile: Profile, cluster: Cluster | None) -> Iterator[ExchangeRow]:
    """The exchanges of a step, those of one kind, size and group together, the longest first."""
    groups: dict[tuple[str, int | None, str, int | None], list[TracedExchange]] = {}
    for exchange in _exchanges(profile):
        groups.setdefault((exchange.kind, exchange.nbytes, exchange.group, exchange.ranks), []).append(exchange)
    world = profile.distributed.get("world_size")
    price = None if cluster is None else pricer(cluster, world if type(world) is int else None)
    for members in sorted(groups.values(), key=lambda members: -sum(member.seconds for member in members)):
        predicted = None if price is None else price(members[0])
        mean = sum(member.seconds for member in members) / len(members)
        yield ExchangeRow(members[0], len(members) / profile.steps, mean, predicted)


def pricer(cluster: Cluster, world: int | None) -> Callable[[TracedExchange], float | None]:
    """Return what prices an exchange among the ranks of its group, else of the job, on a cluster; None where its kind,
    bytes or ranks are not known, or where the fabric carries no such collective."""
    prices = GroupPrices(cluster.fabric, cluster.training)

    def price(exchange: TracedExchange) -> float | None:
        ranks = exchange.ranks or world
        kinds = dict(zip(KINDS, get_args(Kind), strict=True))
        kind = kinds.get(exchange.kind)
        if kind is None or exchange.nbytes is None or ranks is None or not 2 <= ranks <= cluster.ranks:
            return None
        # What a rank puts into an all-gather is its share of what all have in the end.
        nbytes = exchange.nbytes * ranks if kind == "all-gather" else exchange.nbytes
        try:
            return float(prices.price(AUTO, ranks, 0)(kind, nbytes).cost.repeated_time)
        except InputError:
            return None

    return price
