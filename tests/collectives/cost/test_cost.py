"""Cost models: scaling laws, what reconfiguration charges, and agreement with two independent simulators."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lightloom.collectives.algorithm import Algorithm
from lightloom.collectives.collective import Collective, Kind
from lightloom.collectives.cost.price import COST_MODELS, CostModel
from lightloom.collectives.cost.stepped import cost
from lightloom.collectives.registry import build, evaluate, find
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.verify.verifier import verify
from lightloom.core.errors import UnknownNameError
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.grids import Mesh, Torus
from lightloom.machines.fabrics.switches import CircuitSwitch
from lightloom.machines.fabrics.wdm_ring import Ring, WdmRing
from tests.collectives.strategies import jobs, wdm_ring

GIB, MIB = 2**30, 2**20


@pytest.mark.parametrize(("algorithm", "microseconds"), [("ring-two-way", 641.0), ("ring", 1262.0)])
def test_agreement_with_independent_simulators(algorithm: str, microseconds: float) -> None:
    """64 MiB over 64 ranks, 50 GiB/s each way, 0.5 µs a hop: ASTRA-sim with imported schedules, and TACOS."""
    fabric = Ring(ranks=64, bandwidth=50.0 * GIB, hop_latency=0.5e-6)
    time = evaluate(find(algorithm), Collective("all-gather", 64, 64.0 * MIB), fabric).cost.time
    assert time == pytest.approx(microseconds * 1e-6, rel=0.002)


@given(jobs(), st.floats(1.0, 100.0), st.sampled_from(COST_MODELS))
@settings(max_examples=150, deadline=None)
def test_transmission_is_affine_in_size_and_reconfiguration_independent(
    job: tuple[Algorithm, Collective, Fabric], factor: float, model: CostModel
) -> None:
    algorithm, collective, fabric = job
    assume(not algorithm.by_size)  # queues are convex in the size
    schedule = build(algorithm, collective, fabric)
    still = cost(schedule.resized(0.0), fabric, model)
    once, more = (
        cost(schedule, fabric, model),
        cost(schedule.resized(collective.nbytes * factor), fabric, model),
    )
    assert once.reconfiguration == more.reconfiguration == still.reconfiguration
    assert once.time <= more.time * (1 + 1e-12)
    assert more.time <= factor * once.time * (1 + 1e-9)
    if not fabric.latency(*schedule.unfolded(fabric.fibre_channels).ends(slice(None))).any():
        assert more.transmission == pytest.approx(factor * once.transmission)


def test_the_paper_charges_every_step_what_the_physical_model_charges_once() -> None:
    """A ring's circuits never change: N − 1 reconfigurations on paper, one in the physical model."""
    fabric, collective = wdm_ring(16, 4), Collective("all-gather", 16, 16e6)
    schedule = build(find("ring"), collective, fabric)
    paper, physical = cost(schedule, fabric, "paper"), cost(schedule, fabric, "physical")
    assert paper.time == pytest.approx(15 * (1e6 / 5e9 + 25e-6))
    assert physical.time == pytest.approx(15 * 1e6 / 5e9 + 25e-6)
    assert physical.static and physical.repeated_time == pytest.approx(physical.time - 25e-6)


def _steps_that_retune(schedule: Schedule, fabric: WdmRing) -> int:
    """An obvious count: a circuit stays tuned until another needs one of its (link, wavelength) cells."""
    tuned: dict[tuple[int, int, int], tuple[int, ...]] = {}
    changed, overwritten = set(), False
    columns = (
        schedule.step,
        schedule.source,
        schedule.destination,
        schedule.route,
        schedule.first_wavelength,
    )
    for step, source, destination, route, wavelength in zip(*(c.tolist() for c in columns), strict=True):
        start, end = (source, destination) if route == 0 else (destination, source)
        for k in range((end - start) % fabric.ranks):
            cell = (route, (start + k) % fabric.ranks, wavelength)
            circuit = (source, destination, route, wavelength)
            if tuned.get(cell) != circuit:
                overwritten |= cell in tuned
                tuned[cell] = circuit
                changed.add(step)
    return len(changed) if overwritten else 1


@pytest.mark.parametrize("name", ["ring", "optree", "one-stage", "recursive-doubling", "neighbour-exchange", "wrht"])
@pytest.mark.parametrize("wavelengths", [1, 2, 5, 64])
def test_changing_circuits_are_charged_when_they_change(name: str, wavelengths: int) -> None:
    fabric = wdm_ring(16, wavelengths)
    kind: Kind = "all-reduce" if name == "wrht" else "all-gather"
    schedule = build(find(name), Collective(kind, 16, 16e6), fabric)
    price = cost(schedule, fabric)
    assert price.reconfiguration == pytest.approx(_steps_that_retune(schedule, fabric) * 25e-6)


def test_a_ring_all_reduce_keeps_its_circuits_from_the_first_half_to_the_second() -> None:
    fabric = CircuitSwitch(ranks=16)
    for name in ("ring", "ring-two-way", "ring-two-way-striped"):
        price = evaluate(find(name), Collective("all-reduce", 16, 16e6), fabric).cost
        assert price.static and price.reconfiguration == pytest.approx(10e-3)


@given(jobs())
@settings(max_examples=100, deadline=None)
def test_paper_never_charges_less_reconfiguration(job: tuple[Algorithm, Collective, Fabric]) -> None:
    algorithm, collective, fabric = job
    assume(algorithm.refusal(collective.kind, fabric, "paper") is None)
    schedule = build(algorithm, collective, fabric)
    assert cost(schedule, fabric, "paper").reconfiguration >= cost(schedule, fabric, "physical").reconfiguration


@given(st.integers(2, 24), st.integers(1, 8), st.integers(2, 4))
@settings(max_examples=60, deadline=None)
def test_more_wavelengths_never_hurt_a_striped_ring(ranks: int, wavelengths: int, factor: int) -> None:
    collective = Collective("all-reduce", ranks, 1e7)
    times = [
        evaluate(find("ring-two-way-striped"), collective, wdm_ring(ranks, w)).cost.transmission
        for w in (wavelengths, wavelengths * factor)
    ]
    assert times[0] == pytest.approx(factor * times[1])


def test_independent_chains_of_steps_run_side_by_side() -> None:
    """Two-way ring as two chains: each direction waits only for itself, and the longer chain sets the time."""
    fabric = wdm_ring(8, 1)
    schedule = build(find("ring-two-way"), Collective("all-gather", 8, 8e6), fabric).unfolded(1)
    backward = schedule.route == 1
    step = 2 * schedule.step + backward
    used, step = np.unique(step, return_inverse=True)
    chain = [(int(np.searchsorted(used, s)), int(np.searchsorted(used, s - 2))) for s in used if s >= 2]
    chained = replace(schedule, step=step, steps=len(used), dependencies=np.array(chain))
    verify(chained, fabric)
    barrier, free = cost(schedule, fabric), cost(chained, fabric)
    assert free.time == pytest.approx(barrier.time)
    slow = replace(chained, dependencies=None)
    assert cost(slow, fabric).transmission > 1.7 * free.transmission


def test_energy_counts_lightpaths_on_circuits_and_links_on_packets() -> None:
    joules = 1e-12
    collective = Collective("all-gather", 8, 8e6)
    on_light = wdm_ring(8, 64, energy_per_bit=joules)
    assert evaluate(find("one-stage"), collective, on_light).cost.energy == pytest.approx(8 * 7 * 1e6 * 8 * joules)
    on_mesh = Mesh(ranks=8, rows=1, energy_per_bit=joules)
    links = sum(abs(a - b) for a in range(8) for b in range(8))
    assert evaluate(find("one-stage"), collective, on_mesh).cost.energy == pytest.approx(links * 1e6 * 8 * joules)
    assert evaluate(find("one-stage"), collective, wdm_ring(8, 64)).cost.energy is None


def test_a_torus_is_never_slower_than_its_mesh() -> None:
    for name in ("one-stage", "recursive-doubling", "ring"):
        times = [evaluate(find(name), Collective("all-gather", 36, 1e8), f(ranks=36)).cost.time for f in (Torus, Mesh)]
        assert times[0] <= times[1] * (1 + 1e-12)


def test_unknown_cost_model_is_refused() -> None:
    fabric = wdm_ring(4, 2)
    schedule = build(find("ring"), Collective("all-gather", 4, 1.0), fabric)
    with pytest.raises(UnknownNameError, match="did you mean 'physical'"):
        cost(schedule, fabric, "phisical")  # type: ignore[arg-type]
