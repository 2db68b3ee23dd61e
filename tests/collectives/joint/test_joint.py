"""Joint schedules of all groups of tensor, data and pipeline parallelism: legal together, not below their bound."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.collectives.collective import Collective, Kind
from lightloom.collectives.cost.stepped import cost
from lightloom.collectives.joint import (
    GroupPart,
    Part,
    ShiftPart,
    joint_schedule,
    lightpath_rows,
)
from lightloom.collectives.registry import build, find
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.verify.verifier import _check_shift, verify_joint
from lightloom.core.errors import VerificationError
from lightloom.machines.fabrics.fabric import AxisShare, Fabric
from lightloom.machines.fabrics.switches import CircuitSwitch
from lightloom.machines.fabrics.wdm_ring import WdmRing
from tests.collectives.joint.joint_bound import demands_of, joint_bound

ALGORITHMS = ("ring-two-way-striped", "ring", "recursive-doubling-striped", "one-stage-striped")


def fabric_of(kind: str, ranks: int, channels: int) -> Fabric:
    """A small fabric, with some latency."""
    if kind == "switch":
        return CircuitSwitch(ranks=ranks, degree=channels, hop_latency=1e-7)
    return WdmRing(ranks=ranks, wavelengths=channels, hop_latency=1e-7)


def seconds(part: Part, fabric: Fabric) -> float:
    """Seconds of a part, its circuits in place."""
    if isinstance(part, GroupPart):
        return cost(part.schedule, part.local(fabric)).repeated_time
    shift = fabric.shift(part.stride, part.channels)
    return part.nbytes / shift.rate + shift.latency


def parts_of(fabric: Fabric, tp: int, dp: int, pp: int, algorithm: str, kind: Kind = "all-reduce") -> list[Part]:
    """All groups of tensor, data and pipeline parallelism, each axis with a share of the channels that it can use."""
    axes = [(name, size, stride) for name, size, stride in (("tensor", tp, 1), ("data", dp, tp)) if size > 1]
    parts: list[Part] = []
    first = 0
    for name, size, stride in axes:
        channels = 2 * fabric.share_unit(size, stride)
        local = fabric.share(size, stride, channels)
        assert local is not None
        carrier = find(algorithm)
        if carrier.refusal(kind, local):
            carrier = find("one-stage" if kind == "all-to-all" else "ring")
        schedule = build(carrier, Collective(kind, size, 1e6), local)
        parts.append(GroupPart(name, AxisShare(size, stride, first, channels), schedule))
        first += channels
    if pp > 1:
        channels = 2 * fabric.shift_unit(tp * dp)
        parts.append(ShiftPart("pipeline", tp * dp, first, channels, 1e6))
    return parts


@pytest.mark.parametrize("kind", ["switch", "ring"])
@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from([1, 2, 3, 4]),
    st.sampled_from([1, 2, 3, 5]),
    st.sampled_from([1, 2, 4]),
    st.sampled_from(ALGORITHMS),
    st.sampled_from(["all-reduce", "all-gather", "all-to-all"]),
)
def test_all_groups_run_at_once(kind: str, tp: int, dp: int, pp: int, algorithm: str, collective: Kind) -> None:
    if tp * dp * pp < 2:
        return
    fabric = fabric_of(kind, tp * dp * pp, 32)
    parts = parts_of(fabric, tp, dp, pp, algorithm, collective)
    assert len(verify_joint(parts, fabric)) > 0
    bound = joint_bound(demands_of(parts, fabric), fabric)
    assert max(seconds(part, fabric) for part in parts) >= bound.time * (1 - 1e-12)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("kind", ["switch", "ring"])
def test_one_step_stands_for_all_with_its_lightpaths(kind: str, algorithm: str) -> None:
    """The steps that are left hold the same circuits and channels as all steps; around a ring few are left."""
    local = fabric_of(kind, 8, 8).share(8, 1, 8)
    assert local is not None
    schedule = build(find(algorithm), Collective("all-reduce", 8, 1e6), local)

    def steps(rows: Schedule) -> list[frozenset[tuple[int, ...]]]:
        names = ("source", "destination", "route", "fibre", "first_wavelength", "wavelength_count")
        table = np.stack([getattr(rows, name).astype(np.int64) for name in names], axis=1)
        return [frozenset(map(tuple, table[rows.step == step].tolist())) for step in np.unique(rows.step)]

    every, few = steps(schedule.unfolded(local.fibre_channels)), steps(lightpath_rows(schedule, local))
    assert set(few) == set(every)
    assert not algorithm.startswith("ring") or len(few) < len(every) == schedule.steps


@pytest.mark.parametrize("kind", ["switch", "ring"])
def test_axes_that_each_take_all_channels_would_beat_the_bound(kind: str) -> None:
    """What circuits were priced at before: tensor and data groups with all channels each."""
    fabric = fabric_of(kind, 16, 16)
    times = []
    parts: list[Part] = []
    for name, stride in (("tensor", 1), ("data", 4)):
        local = fabric.share(4, stride, 16)
        assert local is not None
        schedule = build(find("ring-two-way-striped"), Collective("all-reduce", 4, 1e9), local)
        parts.append(GroupPart(name, AxisShare(4, stride, 0, 16), schedule))
        times.append(cost(schedule, local).repeated_time)
    assert max(times) < joint_bound(demands_of(parts, fabric), fabric).time
    with pytest.raises(VerificationError, match="share wavelength"):
        verify_joint(parts, fabric)


@pytest.mark.parametrize("kind", ["switch", "ring"])
def test_axes_that_hold_the_same_channels_are_refused(kind: str) -> None:
    fabric = fabric_of(kind, 16, 32)
    tensor, data, *_ = parts_of(fabric, 4, 4, 1, "ring-two-way-striped")
    assert isinstance(data, GroupPart)
    with pytest.raises(VerificationError, match="share wavelength"):
        verify_joint([tensor, replace(data, axis=data.axis._replace(first=0))], fabric)


def test_lightpaths_between_other_ranks_are_refused() -> None:
    fabric = fabric_of("switch", 8, 4)
    (part,) = parts_of(fabric, 4, 1, 2, "ring")[:1]
    assert isinstance(part, GroupPart)

    class Wrong(CircuitSwitch):
        def embedded(self, axis, group, local):  # type: ignore[no-untyped-def]
            return super().embedded(axis, group[::-1], local)

    with pytest.raises(VerificationError, match="is not the rank that its group has"):
        verify_joint([part], Wrong(ranks=8, degree=4))


@pytest.mark.parametrize("kind", ["switch", "ring"])
def test_a_rank_without_a_circuit_is_found(kind: str) -> None:
    """The first or the last of all circuits is left out: one rank has no way on, all others have theirs."""
    fabric = fabric_of(kind, 8, 8)
    *_, shift = parts_of(fabric, 2, 1, 4, "ring")
    assert isinstance(shift, ShiftPart)
    joint, _ = joint_schedule([shift], fabric)
    _check_shift(shift, joint, slice(0, len(joint)), fabric)
    for rows in (slice(1, len(joint)), slice(0, len(joint) - 1)):
        with pytest.raises(VerificationError, match="a rank has no circuit"):
            _check_shift(shift, joint, rows, fabric)


@pytest.mark.parametrize("hop", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("stride", [1, 3, 4, 6, 9])
def test_sends_reach_as_far_as_their_hops_add_up_to_both_ways(hop: int, stride: int) -> None:
    """With circuits of this hop from all ranks; those of other parts, before and behind, carry none of them."""
    ranks = 10
    rank = np.arange(ranks)
    source = np.concatenate([rank[:3], rank, rank, rank[5:]])
    hops = np.repeat([hop, hop, -hop, -hop], [3, ranks, ranks, 5])
    joint: Any = SimpleNamespace(source=source, destination=(source + hops) % ranks)
    part = ShiftPart("pipeline", stride, 0, 2, 1.0)
    fabric: Any = SimpleNamespace(ranks=ranks, shift=lambda far, channels: SimpleNamespace(hop=hop))
    rows = slice(3, 3 + 2 * ranks)
    if stride // hop * hop % ranks == stride:
        _check_shift(part, joint, rows, fabric)
    else:
        with pytest.raises(VerificationError, match=f"^pipeline: sends do not reach the rank {stride} further on$"):
            _check_shift(part, joint, rows, fabric)
    if hop > stride or 2 * hop == ranks:
        return
    for left_out, way in ((3, hop), (2 + ranks, hop), (3 + ranks, -hop), (2 + 2 * ranks, -hop)):
        source = joint.source.copy()
        kept, joint.source[left_out] = source, (source[left_out] + 1) % ranks
        if way == hop or stride // hop * hop == stride:
            with pytest.raises(VerificationError, match=f"a rank has no circuit to the one {way} further on"):
                _check_shift(part, joint, rows, fabric)
        joint.source = kept
