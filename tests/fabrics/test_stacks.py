"""Stacks of fabrics, two or three deep, of any kinds: laws of what their parts carry one after the other."""

from __future__ import annotations

from functools import cache
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.collectives.collective import CLASSIC, ROOTED, TO_OR_FROM_ROOT, Collective, Kind
from lightloom.collectives.levels import GroupPhase, levels
from lightloom.collectives.registry import Evaluation, Refusal, evaluate_all, keeps_to
from lightloom.core.results import Document
from lightloom.machines.clusters.cluster import TrainingSettings
from lightloom.machines.fabrics.conformance import check_fabric
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.joined import JoinedFabric
from lightloom.machines.fabrics.load import fabric_from
from lightloom.planning.pricing.collective_prices import CheapestPrices
from lightloom.planning.pricing.group_prices import GroupPrices

NBYTES = 64e6
KINDS: tuple[Kind, ...] = (*CLASSIC, "gather", "scatter", "barrier", "permute")


def line(ranks: int) -> list[list[Any]]:
    """Links of a line of ranks and of a rank more to the first: what no other kind is."""
    return [[rank, rank + 1, 2e9, 1e-7] for rank in range(ranks - 1)] + [[0, "switch", 1e9], ["switch", ranks - 1, 1e9]]


LEAVES: dict[str, Document] = {
    "ring": {"bandwidth": 2e9},
    "wdm-ring": {"wavelengths": 4, "wavelength_bandwidth": 0.5e9, "reconfiguration_time": 1e-5},
    "mesh": {"bandwidth": 1e9},
    "torus": {"bandwidth": 1e9},
    "switch": {"bandwidth": 4e9},
    "circuit-switch": {"degree": 2, "bandwidth": 2e9, "reconfiguration_time": 1e-5},
    "tiers": {"tiers": [{"shape": "switch", "size": 2, "bandwidth": 4e9}, {"shape": "switch", "bandwidth": 1e9}]},
    "optical-averager": {"bandwidth": 4e9},
    "graph": {},
}


@cache
def leaf(kind: str, ranks: int, latency: float = 1e-6) -> Fabric:
    """A fabric of one kind; the same object for the same arguments."""
    edges = {"edges": line(ranks)} if kind == "graph" else {}
    return fabric_from(
        {"kind": kind, "hop_latency": latency, "energy_per_bit": 1e-12} | LEAVES[kind] | edges, ranks, where="test"
    )


SIZES = {"tiers": (2, 4, 6, 8), "graph": (2, 3, 4, 6, 8)}


@st.composite
def stacks(draw: st.DrawFn) -> JoinedFabric:
    """Draw two or three kinds with 2 to 8 ranks each, 64 in all at most, joined from either end."""
    parts: list[Fabric] = []
    for left in draw(st.sampled_from([(1, 0), (2, 1, 0)])):
        kind = draw(st.sampled_from(sorted(LEAVES)))
        most = 64 // prod(part.ranks for part in parts) // 2**left
        sizes = [size for size in SIZES.get(kind, range(2, 9)) if size <= most]
        parts.append(leaf(kind, draw(st.sampled_from(sizes)), draw(st.sampled_from([0.0, 1e-6]))))
    while len(parts) > 1:
        at = draw(st.integers(0, len(parts) - 2))
        inside, between = parts[at : at + 2]
        parts[at : at + 2] = [JoinedFabric(ranks=inside.ranks * between.ranks, inside=inside, between=between)]
    (stack,) = parts
    assert isinstance(stack, JoinedFabric)
    return stack


def leaves(fabric: Fabric) -> list[Fabric]:
    """Parts without parts, the innermost first."""
    return [each for part in fabric.parts for each in leaves(part)] if fabric.parts else [fabric]


def played(kind: Kind, nbytes: float, parts: list[Fabric]) -> list[tuple[list[Fabric], Kind, float]]:
    """What each part carries of a collective, in no order, each part with those beyond it."""
    first, others = parts[0], parts[1:]
    whole, rest = prod(part.ranks for part in parts), nbytes
    if not others:
        return [(parts, kind, nbytes)]
    if kind == "all-reduce" and not first.in_network_reduction:
        both: list[Kind] = ["reduce-scatter", "all-gather"]
        return [(parts, each, nbytes) for each in both] + played(kind, nbytes / first.ranks, others)
    if kind in ("reduce-scatter", "all-gather"):
        rest = nbytes / first.ranks
    own = nbytes * first.ranks / whole if kind in ("gather", "scatter") else nbytes
    return [(parts, kind, own), *played(kind, rest, others)]


@cache
def leaf_prices(kind: str, ranks: int, latency: float) -> GroupPrices:
    """Prices of all algorithms on a part, the same for the same part."""
    return GroupPrices(leaf(kind, ranks, latency), TrainingSettings())


@cache
def evaluated(kind: Kind, fabric: str, ranks: int, latency: float) -> tuple[list[Evaluation], list[Refusal]]:
    """Return the evaluations and refusals of all algorithms on a part, each verified and held against its bound."""
    nbytes = 0.0 if kind == "barrier" else NBYTES
    return evaluate_all(Collective(kind, ranks, nbytes), leaf(fabric, ranks, latency))


def key(part: Fabric) -> tuple[str, int, float]:
    """Return the arguments of :func:`leaf` that give a part."""
    return part.kind_name, part.ranks, part.hop_latency


def check_stack(stack: JoinedFabric, kind: Kind) -> None:
    """The contract holds, and files say all; every algorithm that is admitted on a part verifies there. The stack
    carries what all of its parts carry, in the sum of their times, and never below its bound; else it names what is
    lacking. How parts are joined makes no difference."""
    check_fabric(stack)
    assert fabric_from(stack.model_dump(mode="json"), None, where="again") == stack
    nbytes, parts = 0.0 if kind == "barrier" else NBYTES, leaves(stack)
    for part in parts:
        evaluations, refusals = evaluated(kind, *key(part))
        assert not [refusal for refusal in refusals if refusal.failed or not refusal.why]
        assert all(keeps_to(each.cost, each.bound) for each in evaluations)
    if kind in ("barrier", "permute"):
        assert "expected one of" in str(GroupPrices(stack, TrainingSettings()).refusal(kind, "auto", stack.ranks, 0))
        return
    steps = [(beyond, leaf_prices(*key(beyond[0])), each, size) for beyond, each, size in played(kind, nbytes, parts)]
    refused = [
        why for _, price, each, _ in steps if (why := price.refusal(each, "auto", price.fabric.ranks, 0)) is not None
    ]
    whole = GroupPrices(stack, TrainingSettings())
    why = whole.refusal(kind, "auto", stack.ranks, 0)
    if refused:
        assert why is not None and any(reason in why for reason in refused)
        return
    assert why is None
    costs = [price.price("auto", price.fabric.ranks, 0)(each, size).cost for _, price, each, size in steps]
    found = whole.price("auto", stack.ranks, 0)
    assert not isinstance(found, CheapestPrices)
    cost, bound = found(kind, nbytes).cost, found(kind, nbytes).bound
    assert bound.time <= cost.time * (1 + 1e-9)
    # Of a collective with a root, the groups of the root's counterparts alone.
    rooted = kind in (*ROOTED, *TO_OR_FROM_ROOT)
    copies = [prod(part.ranks for part in (beyond[1:] if rooted else parts)) for beyond, *_ in steps]
    joules = [(each.energy or 0.0) * count for each, count in zip(costs, copies, strict=True)]
    if not rooted:
        joules = [each / beyond[0].ranks for each, (beyond, *_) in zip(joules, steps, strict=True)]
    assert cost.energy == pytest.approx(sum(joules))
    assert cost.transmission == pytest.approx(sum(each.transmission for each in costs))
    assert sum(each.repeated_time for each in costs) <= cost.time * (1 + 1e-9)
    if cost.static:
        assert cost.repeated_time == pytest.approx(sum(each.repeated_time for each in costs))
    else:
        # Circuits of a part whose levels have the same are set up once a run.
        assert cost.time <= sum(each.time for each in costs) * (1 + 1e-9)
    for bounds in (whole.lines, whole.proved_lines):
        least = bounds(kind, "auto", stack.ranks, 0, hidden_setup=False)
        assert min(float(line(np.array(nbytes))) for line in least) <= cost.repeated_time * (1 + 1e-9)


@pytest.mark.long
@given(stacks(), st.sampled_from(KINDS))
@settings(max_examples=400)
def test_stacks_carry_what_their_parts_carry(stack: JoinedFabric, kind: Kind) -> None:
    check_stack(stack, kind)


@pytest.mark.slow
@given(stacks(), st.sampled_from(KINDS))
@settings(max_examples=5000)
def test_many_stacks_carry_what_their_parts_carry(stack: JoinedFabric, kind: Kind) -> None:
    check_stack(stack, kind)


@given(stacks(), st.data())
def test_groups_of_a_stack_are_fabrics_of_their_ranks(stack: JoinedFabric, data: st.DataObject) -> None:
    """They belong to one part, or are joined of groups of several; parts are groups wherever they lie."""
    ranks = data.draw(st.sampled_from([size for size in range(2, stack.ranks + 1) if stack.ranks % size == 0]))
    stride = data.draw(st.sampled_from([by for by in range(1, stack.ranks) if stack.ranks % (ranks * by) == 0]))
    group = stack.group(ranks, stride)
    assert group is None or group.ranks == ranks
    apart = 1
    for part in leaves(stack):
        assert stack.group(part.ranks, apart) == part
        apart *= part.ranks


# What ranks hold: bits of the contributions that are summed into a rank's copy of a chunk, 0 where it has none.

Held = np.ndarray[Any, np.dtype[np.int64]]


def before_and_after(kind: Kind, ranks: int) -> tuple[Held, Held]:
    """What each rank holds of each chunk, [rank, chunk], before and after a collective; a chunk for each rank, of an
    all-to-all for each pair."""
    own, every = np.diag(1 << np.arange(ranks)), np.tile(1 << np.arange(ranks)[:, None], (1, ranks))
    root, total = np.zeros((ranks, ranks), np.int64), np.full((ranks, ranks), (1 << ranks) - 1)
    root[0] = 1
    if kind == "all-to-all":
        source, destination = np.divmod(np.arange(ranks**2), ranks)
        rank = np.arange(ranks)[:, None]
        return (rank == source) * (1 << source), (rank == destination) * (1 << source)
    summed = np.zeros_like(total)
    summed[0] = total[0]
    return {
        "all-gather": (own, np.tile(1 << np.arange(ranks), (ranks, 1))),
        "reduce-scatter": (every, np.eye(ranks, dtype=np.int64) * total),
        "all-reduce": (every, total),
        "broadcast": (root, np.ones_like(total)),
        "reduce": (every, summed),
        "gather": (own, np.tile(1 << np.arange(ranks), (ranks, 1)) * (np.arange(ranks) == 0)[:, None]),
        "scatter": (root, np.eye(ranks, dtype=np.int64)),
    }[kind]


def carried_out(phase: GroupPhase, held: Held) -> Held:
    """What ranks hold after a collective in every group, by what its kind promises; no contribution is summed twice."""
    after, ranks = held.copy(), len(held)
    for first in (rank for rank in range(ranks) if rank // phase.stride % phase.ranks == 0):
        members = first + phase.stride * np.arange(phase.ranks)
        mine = held[members]
        bits = np.bitwise_count(mine).sum(axis=0)
        whole = np.bitwise_or.reduce(mine, axis=0)
        if phase.kind in ("all-reduce", "reduce-scatter", "reduce"):
            assert np.array_equal(np.bitwise_count(whole), bits)
        to = np.arange(held.shape[1]) % ranks // phase.stride % phase.ranks
        mask = {
            "all-gather": np.ones((phase.ranks, 1), np.bool_),
            "all-reduce": np.ones((phase.ranks, 1), np.bool_),
            "broadcast": np.ones((phase.ranks, 1), np.bool_),
            "reduce": np.arange(phase.ranks)[:, None] == 0,
            "gather": np.arange(phase.ranks)[:, None] == 0,
        }.get(phase.kind, np.arange(phase.ranks)[:, None] == to)
        after[members] = np.where(mask, whole, 0)
    return after


@given(st.sampled_from((*CLASSIC, "gather", "scatter")), st.integers(2, 4), st.integers(2, 4), st.booleans())
def test_levels_do_together_what_the_collective_promises(kind: Kind, own: int, others: int, light: bool) -> None:
    """And each carries the bytes that ranks hold before or after it."""
    inside = leaf("optical-averager" if light else "ring", own)
    stack = JoinedFabric(ranks=own * others, inside=inside, between=leaf("ring", others))
    held, wanted = before_and_after(kind, stack.ranks)
    nbytes = float(held.shape[1] // (stack.ranks if kind == "all-to-all" else 1))
    for phase in levels(kind, nbytes, stack):
        later = carried_out(phase, held)
        most = max(np.count_nonzero(chunks, axis=1).max() for chunks in (held, later))
        assert phase.nbytes == most
        held = later
    assert np.array_equal(held, wanted)
