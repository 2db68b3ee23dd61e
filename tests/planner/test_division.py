"""Axes divide the planes of a switch and the wavelengths of a ring: circuits of all of them stand at once."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations, product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.collectives.verify.verifier import verify_joint
from lightloom.core.errors import UnsupportedError
from lightloom.machines.clusters.load import load_cluster
from lightloom.planning.parallelism.strategy_space import Strategy
from lightloom.planning.pricing.group_prices import DividedChannels, Division, Divisions, GroupPrices, live_axes
from lightloom.planning.pricing.job import Job
from lightloom.planning.pricing.strategy_step import joint_parts, on_divided_channels, simulate, strategy_seconds
from tests.collectives.joint.joint_bound import demands_of, joint_bound
from tests.planner.jobs import transformer, verified_job

SWITCH: dict[str, Any] = {"base": "circuit-switch", "degree": 8, "bandwidth": "50Gbps"}
RING: dict[str, Any] = {"base": "sip-ring", "wavelengths": 32}


def job(ranks: int, fabric: dict[str, Any], hidden: int = 1024) -> Job:
    """A small transformer."""
    on = load_cluster("terarack-64", set={"ranks": ranks, "fabric": fabric, "training.unit_parameters": 300_000})
    return verified_job(transformer(4, hidden), on)


def strategy(dp: int, tp: int, pp: int, **fields: Any) -> Strategy:
    """A replica of two samples in as many micro-batches."""
    return Strategy(dp, tp, pp, 2, 2 * dp, "none", "none", "ring-two-way-striped", 0)._replace(**fields)


@pytest.mark.parametrize("fabric", [SWITCH, RING])
@pytest.mark.parametrize("degrees", [(4, 4, 1), (2, 2, 4)])
def test_the_division_is_the_best_of_all(fabric: dict[str, Any], degrees: tuple[int, int, int]) -> None:
    of, row = job(16, fabric), strategy(*degrees)
    step, axes = simulate(of, row), live_axes(row)
    assert isinstance(of.pricing, GroupPrices) and step.division is not None
    space = Divisions(of.fabric, axes)
    everything = set()
    for parts in product(range(space.counts + 1), repeat=len(axes)):
        channels = space.channels(parts) if sum(parts) == space.counts else None
        if channels is not None:
            everything.add(channels)
    assert len(everything) > 2
    for channels in everything:
        assert sum(channels) <= of.fabric.shared_channels
        division = Division(of.fabric, axes, channels)
        other = replace(of, shares=DividedChannels(of.pricing, division))
        assert strategy_seconds(other, row) >= 0.99 * step.step_time


@pytest.mark.parametrize("fabric", [SWITCH, RING])
def test_a_step_takes_longer_than_were_all_channels_each_axis_own(fabric: dict[str, Any]) -> None:
    """What circuits were priced at before."""
    of, row = job(16, fabric), strategy(4, 4, 1)
    whole = Division(of.fabric, live_axes(row), (of.fabric.shared_channels,) * 2)
    assert isinstance(of.pricing, GroupPrices)
    undivided = strategy_seconds(replace(of, shares=DividedChannels(of.pricing, whole)), row)
    assert strategy_seconds(of, row) > 1.05 * undivided


@settings(max_examples=12, deadline=None)
@given(st.sampled_from([SWITCH, RING]), st.sampled_from([1, 2, 4]), st.sampled_from([1, 2, 4]), st.sampled_from([1, 2]))
def test_the_circuits_of_a_step_are_legal_together(fabric: dict[str, Any], tp: int, dp: int, pp: int) -> None:
    if tp * dp * pp < 2 or tp * pp == 1:
        return
    of, row = job(tp * dp * pp, fabric, 256), strategy(dp, tp, pp)
    step = simulate(of, row)
    parts = joint_parts(on_divided_channels(of, row), row, step)
    assert [part.name for part in parts] == [axis.name for axis in live_axes(row)]
    verify_joint(parts, of.fabric)
    assert step.step_time >= joint_bound(demands_of(parts, of.fabric), of.fabric).time


def test_too_few_planes_are_refused() -> None:
    of = job(16, SWITCH | {"degree": 2})
    with pytest.raises(UnsupportedError, match=r"tensor and data and pipeline groups .* need 3 planes .* has 2"):
        simulate(of, strategy(2, 4, 2))
    assert simulate(of, strategy(4, 4, 1)).division is not None


@given(st.integers(1, 24), st.lists(st.tuples(st.integers(0, 8), st.integers(1, 3)), min_size=1, max_size=4))
def test_the_largest_axes_give_up_no_more_channels_than_there_are_too_few(
    total: int, each: list[tuple[int, int]]
) -> None:
    """One unit after the other, until all are as many as there are or an axis has one left."""
    parts, units = zip(*each, strict=True)
    axes: Any = tuple(SimpleNamespace(unit=lambda _, unit=unit: unit) for unit in units)
    fabric: Any = SimpleNamespace(shared_channels=total)
    of = Divisions(fabric, axes)
    counts = [max(part * total // of.counts // unit, 1) * unit for part, unit in each]
    for axis in sorted(range(len(counts)), key=lambda number: -counts[number]):
        while sum(counts) > total and counts[axis] > units[axis]:
            counts[axis] -= units[axis]
    assert of.channels(parts) == (tuple(counts) if sum(counts) <= total else None)
    assert sum(of.equal()) == of.counts == min(total, Divisions.PARTS) and max(of.equal()) - min(of.equal()) <= 1
    moved = {tuple(np.add(parts, step)) for step in permutations([1, -1, *[0] * (len(parts) - 2)])}
    if len(parts) > 1:
        assert sorted(of.neighbours(parts)) == sorted(each for each in moved if min(each) >= 0)
