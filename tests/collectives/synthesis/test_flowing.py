"""Rounds and trees without barriers: verified, never slower than with them, at the bound where shares are large."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.collectives.bounds.lower_bound import lower_bound
from lightloom.collectives.collective import FROM_ALL_GATHER, Collective, Kind
from lightloom.collectives.cost.price import queued_line
from lightloom.collectives.cost.stepped import cost
from lightloom.collectives.registry import build, costed, find
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.synthesis import grid as module
from lightloom.collectives.synthesis.grid import doubling, flowing, rounds_and_trees
from lightloom.collectives.verify.verifier import verify
from lightloom.core.arrays import Column
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.grids import Mesh, Torus
from lightloom.machines.fabrics.wdm_ring import Ring, WdmRing


@settings(deadline=None, max_examples=20)
@given(
    st.sampled_from([(4,), (7,), (3, 4), (5, 5), (2, 3, 4)]),
    st.booleans(),
    st.sampled_from(FROM_ALL_GATHER),
    st.floats(0, 7),
    st.sampled_from([0, 1e-6]),
)
def test_every_grid_is_verified_and_no_slower_than_in_steps(
    dims: tuple[int, ...], wraps: bool, kind: Kind, power: float, hop: float
) -> None:
    ranks = prod(dims)
    fabric = (Torus if wraps else Mesh)(ranks=ranks, dims=dims, hop_latency=hop)
    collective = Collective(kind, ranks, 10**power * ranks)
    schedule, _ = flowing(collective, fabric)
    verify(schedule, fabric)
    price, _ = costed(schedule, fabric)
    in_steps = [*rounds_and_trees(collective, fabric), *doubling(collective, fabric)]
    assert price.time <= min(cost(steps, fabric).time for steps in in_steps) * (1 + 1e-9)


@settings(deadline=None, max_examples=15)
@given(
    st.sampled_from([(7,), (3, 4), (2, 3, 4)]),
    st.booleans(),
    st.sampled_from(FROM_ALL_GATHER),
    st.lists(st.floats(1, 7), min_size=2, max_size=3),
)
def test_sizes_asked_before_change_nothing_and_lines_lie_below_every_time(
    dims: tuple[int, ...], wraps: bool, kind: Kind, powers: list[float]
) -> None:
    ranks = prod(dims)
    fabric = (Torus if wraps else Mesh)(ranks=ranks, dims=dims, hop_latency=1e-6)
    *others, last = (Collective(kind, ranks, 10**power * ranks) for power in powers)
    module._lines.clear()
    alone, seconds = flowing(last, fabric)
    module._lines.clear()
    found = [flowing(other, fabric)[0] for other in others]
    again, repeated = flowing(last, fabric)
    assert repeated == seconds
    assert again.chunks == alone.chunks and all((a == b).all() for a, b in columns(again, alone))
    for schedule in (schedule for schedule in found if schedule.queued):
        price, per_byte = queued_line(schedule, fabric)
        least = price.time + per_byte * (last.nbytes - schedule.collective.nbytes)
        assert cost(schedule.resized(last.nbytes), fabric).time >= least * (1 - 1e-9)


def columns(one: Schedule, other: Schedule) -> Iterator[tuple[Column, Column]]:
    """The columns of two schedules side by side."""
    return zip(one.columns().values(), other.columns().values(), strict=True)


@pytest.mark.parametrize("kind", ["all-gather", "reduce-scatter"])
@pytest.mark.parametrize("grid", [Ring, Torus, Mesh])
def test_shares_that_take_longer_than_a_hop_meet_the_bound(grid: type[Ring], kind: Kind) -> None:
    """64 MiB at 50 GiB/s and 0.5 us a hop, among 64: no latency but the last is seen."""
    fabric = grid(ranks=64, bandwidth=50 * 2**30, hop_latency=5e-7)
    wanted = Collective(kind, 64, 64 * 2**20)
    least = lower_bound(wanted, fabric).time
    assert least <= cost(flowing(wanted, fabric)[0], fabric).time * (1 + 1e-9) <= 1.004 * least


def test_a_ring_of_packets_is_as_fast_as_one_wavelength_of_light() -> None:
    """The same wires: what queues on circuits of light queues on packet links, too."""
    wires: dict[str, Fabric] = {
        "packets": Ring(ranks=64, bandwidth=50 * 2**30, hop_latency=5e-7),
        "light": WdmRing(
            ranks=64, wavelengths=1, wavelength_bandwidth=50 * 2**30, hop_latency=5e-7, reconfiguration_time=0
        ),
    }
    wanted = Collective("all-gather", 64, 64 * 2**20)
    times = {name: cost(build(find("synthesized"), wanted, fabric), fabric).time for name, fabric in wires.items()}
    assert times["packets"] == pytest.approx(times["light"], rel=0.01)
