"""What the ranks of a tensor or expert group exchange with each other, for columns of strategies.

Each collective is priced by a function that the caller gives. Where groups of neighbours leave other groups
interleaved, these share a ring's wavelengths: with ``sharing`` their bytes count as often as there are groups between
their ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np

from lightloom.collectives.spec import Kind
from lightloom.core.arrays import Floats, Ints, Mask
from lightloom.core.keys import packed
from lightloom.fabrics.base import Fabric
from lightloom.parallelism.operators import OperatorColumns
from lightloom.parallelism.strategy_space import Strategies
from lightloom.planner.pricing.group_prices import Pricing

ExchangeTime = Callable[[Kind, Ints, Ints, Ints, Ints, Floats], Floats]
"""Seconds of collectives by kind, algorithm, ranks, how far apart these lie, exchange and bytes."""

Axis = Literal["tensor", "expert", "context", "pipeline", "data", "expert-data"]
"""Which groups of a strategy exchange: ranks that share operators, experts, tokens; neighbouring stages; replicas of
what all hold and of experts."""
AXES: tuple[Axis, ...] = get_args(Axis)

Group = tuple[int, int, int, int]
"""Algorithm (an index), ranks, stride, exchange."""


class AxisTimes:
    """Seconds of exchanges where every axis has its own part of the fabric; in the place of one ``ExchangeTime``."""

    def __init__(self, of_axis: Callable[[Axis], ExchangeTime]) -> None:
        """``of_axis`` returns the seconds of the exchanges of one axis."""
        self.of_axis = of_axis

    def __call__(self, *_: object) -> Floats:
        raise AssertionError("an exchange whose axis is not said")


def on_axis(exchange_time: ExchangeTime, axis: Axis) -> ExchangeTime:
    """Return the seconds of the exchanges of one axis."""
    return exchange_time.of_axis(axis) if isinstance(exchange_time, AxisTimes) else exchange_time


class PassExchanges(NamedTuple):
    """Seconds of every operator's collectives in groups of one axis, each [rows, operators]."""

    forward: Floats
    backward: Floats


def pass_exchanges(
    columns: OperatorColumns, rows: Strategies, fabric: Fabric, exchange_time: ExchangeTime, *, sharing: bool
) -> dict[Axis, PassExchanges]:
    """Seconds of every operator's collectives in tensor groups, and in expert groups where there are any."""
    exchanges: dict[Axis, PassExchanges] = {"tensor": _tensor_exchanges(columns, rows, exchange_time)}
    if (rows.ep > 1).any():
        exchanges["expert"] = _expert_exchanges(columns, rows, fabric, exchange_time, sharing=sharing)
    return exchanges


def _tensor_exchanges(columns: OperatorColumns, rows: Strategies, exchange_time: ExchangeTime) -> PassExchanges:
    output, read = columns.outputs(rows.samples, rows.cp), columns.inputs(rows.samples, rows.cp)
    there, back = np.zeros_like(output), np.zeros_like(output)
    at, behind = columns.where("forward"), columns.where("backward")
    # What goes forward comes back: the gradients of embeddings need no exchange, those of whole inputs do; in slices of
    # the sequence, what is scattered one way is gathered the other way, embeddings included.
    split = rows.tp > 1
    whole, slices = np.flatnonzero(split & ~rows.sequence_parallel), np.flatnonzero(rows.sequence_parallel)
    exchanges: tuple[tuple[Kind, Ints, Floats, Ints, Floats], ...] = (
        ("all-reduce", whole, there, at, output),
        ("all-reduce", whole, back, behind, read),
        ("reduce-scatter", slices, there, at, output),
        ("all-gather", slices, there, behind, read),
        ("reduce-scatter", slices, back, behind, read),
        ("all-gather", slices, back, at, output),
    )
    for kind, which, out, of, nbytes in exchanges:
        if len(which):
            place = np.ix_(which, of)
            out[place] += tensor_exchange(kind, rows.rows(which), nbytes[place], exchange_time)
    return PassExchanges(there, back)


def _expert_exchanges(
    columns: OperatorColumns, rows: Strategies, fabric: Fabric, exchange_time: ExchangeTime, *, sharing: bool
) -> PassExchanges:
    output, read = columns.outputs(rows.samples, rows.cp), columns.inputs(rows.samples, rows.cp)
    either_way = np.zeros_like(output)
    which = np.flatnonzero(rows.ep > 1)
    # Each rank of a tensor group sends its slice of the tokens, or all of them to its like.
    slices = np.where(rows.sequence_parallel[which], rows.tp[which], 1)[:, None]
    share = interleaved(fabric, rows.tp[which], sharing)[:, None] / slices
    for of, nbytes in ((columns.where("dispatch"), read), (columns.where("combine"), output)):
        place = np.ix_(which, of)
        either_way[place] += on_axis(exchange_time, "expert")(
            "all-to-all",
            rows.algorithm[which],
            rows.ep[which],
            distance(fabric, rows.tp[which]),
            np.zeros(len(which), np.int64),
            nbytes[place] * share,
        )
    return PassExchanges(either_way, either_way)


def token_gradients(rows: Strategies, nbytes: Floats, exchange_time: ExchangeTime) -> Floats:
    """Seconds until a tensor group with slices of the sequence has added up, after the last pass, the gradients that
    its ranks have of their own tokens only: [rows, stages]; ``nbytes`` [stages]."""
    found = np.zeros((len(rows), len(nbytes)))
    which = np.flatnonzero(rows.sequence_parallel)
    if len(which):
        every = np.tile(nbytes, (len(which), 1))
        found[which] = tensor_exchange("all-reduce", rows.rows(which), every, exchange_time)
    return found


def tensor_exchange(kind: Kind, rows: Strategies, nbytes: Floats, exchange_time: ExchangeTime) -> Floats:
    """Return the seconds of collectives of so many bytes in tensor groups, whose ranks are neighbours: [rows, ...]."""
    beside, as_it_is = np.ones(len(rows), np.int64), np.zeros(len(rows), np.int64)
    tensor_time = on_axis(exchange_time, "tensor")
    return tensor_time(kind, rows.algorithm, rows.tp, beside, as_it_is, nbytes)


def distance(fabric: Fabric, stride: Ints) -> Ints:
    """How far a group's ranks lie apart, where that makes a difference; else 1."""
    return stride if fabric.distance_matters else np.ones_like(stride)


def interleaved(fabric: Fabric, stride: Ints, sharing: bool) -> Floats:
    """Groups that divide the same channels: [rows]; 1 without ``sharing``."""
    return fabric.channel_sharing(stride).astype(np.float64) if sharing else np.ones(len(stride))


def served(
    pricing: Pricing, kind: Kind, algorithms: Sequence[str], algorithm: Ints, ranks: Ints, stride: Ints, exchange: Ints
) -> Mask:
    """Return the rows whose groups can have a kind of collective, by an index in ``algorithms``: [rows]."""
    groups, row = unique_groups(algorithm, ranks, stride, exchange)
    refusals = [pricing.refusal(kind, algorithms[name], count, sent, away) for name, count, away, sent in groups]
    return np.array([refusal is None for refusal in refusals], np.bool_)[row]


def unique_groups(algorithm: Ints, ranks: Ints, stride: Ints, exchange: Ints) -> tuple[list[Group], Ints]:
    """The different groups of ranks, (algorithm, ranks, stride, exchange), and the group of each row."""
    columns = np.broadcast_arrays(algorithm, ranks, stride, exchange)
    if len(columns[0]) == 1:
        (group,) = zip(*(column.tolist() for column in columns), strict=True)
        return [group], np.zeros(1, np.int64)
    numbers = (*columns[:3], np.unique(columns[3], return_inverse=True)[1])
    _, first, row = np.unique(packed(numbers), return_index=True, return_inverse=True)
    return list(zip(*(column[first].tolist() for column in columns), strict=True)), row


def combinations(rows: Strategies) -> tuple[Strategies, Ints]:
    """One row for each combination on which a micro-batch's times depend, and where each row finds its own."""
    if len(rows) == 1:
        return rows, np.zeros(1, np.int64)
    degrees = (rows.samples, rows.tp, rows.ep, rows.cp)
    key = packed((*degrees, rows.recomputation, rows.sequence_parallel, rows.algorithm))
    _, first, row = np.unique(key, return_index=True, return_inverse=True)
    return rows.rows(first), row
