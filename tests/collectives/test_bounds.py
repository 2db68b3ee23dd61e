"""No cost lies below its bound, and the bounds are reached where they should be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from lightloom.collectives.bounds import lower_bound
from lightloom.collectives.cost import COST_MODELS
from lightloom.collectives.evaluate import evaluate
from lightloom.collectives.price import CostModel
from lightloom.collectives.registry import Algorithm, find
from lightloom.collectives.spec import Collective
from lightloom.collectives.wavelengths import ring_all_to_all_wavelengths
from lightloom.core.errors import BoundError
from lightloom.fabrics.base import Cut, Fabric
from lightloom.fabrics.circuit_switch import CircuitSwitch
from lightloom.fabrics.optical_averager import OpticalAverager
from lightloom.fabrics.packet_switch import PacketSwitch
from lightloom.fabrics.wdm_ring import Ring, WdmRing
from tests.collectives.strategies import jobs, wdm_ring


@given(jobs(), st.sampled_from(COST_MODELS))
@settings(max_examples=400, deadline=None)
def test_no_cost_below_its_bound(job: tuple[Algorithm, Collective, Fabric], model: CostModel) -> None:
    algorithm, collective, fabric = job
    assume(algorithm.refusal(collective.kind, fabric, model) is None)
    evaluation = evaluate(algorithm, collective, fabric, model)
    assert evaluation.cost.time >= evaluation.bound.time * (1 - 1e-9)
    assert evaluation.cost.time == pytest.approx(
        evaluation.cost.transmission + evaluation.cost.conversion + evaluation.cost.reconfiguration
    )


@pytest.mark.parametrize("ranks", [2, 3, 4, 5, 16, 17, 64, 101])
@pytest.mark.parametrize("kind", ["all-gather", "reduce-scatter", "all-reduce"])
def test_two_way_striped_ring_meets_the_bound_at_zero_latency(kind: str, ranks: int) -> None:
    for fabric in (
        Ring(ranks=ranks),
        wdm_ring(ranks, 8, reconfiguration_time=0.0),
        wdm_ring(ranks, 5, fibres=3),
    ):
        e = evaluate(find("ring-two-way-striped"), Collective(kind, ranks, 1e8), fabric)  # type: ignore[arg-type]
        assert e.cost.time == pytest.approx(e.bound.time, rel=1e-12)


@pytest.mark.parametrize("ranks", [2, 3, 16, 65])
def test_direct_sends_through_a_switch_meet_the_bound(ranks: int) -> None:
    for latency in (0.0, 1e-6):
        fabric = PacketSwitch(ranks=ranks, hop_latency=latency)
        e = evaluate(find("one-stage"), Collective("all-gather", ranks, 1e8), fabric)
        assert e.cost.time == pytest.approx(e.bound.time, rel=1e-12)
        assert e.bound.bound_by == "what one rank's port can receive"


@pytest.mark.parametrize("ranks", [2, 3, 16, 65])
def test_blocks_sent_straight_through_a_switch_meet_the_bound(ranks: int) -> None:
    for latency in (0.0, 1e-6):
        for fabric in (PacketSwitch(ranks=ranks, hop_latency=latency), two_planes_for_each(ranks, latency)):
            e = evaluate(find("one-stage"), Collective("all-to-all", ranks, 1e8), fabric)
            assert e.cost.time == pytest.approx(e.bound.time, rel=1e-12)


def two_planes_for_each(ranks: int, latency: float) -> Fabric:
    """A circuit switch whose planes serve all pairs at once."""
    return CircuitSwitch(ranks=ranks, degree=ranks - 1, hop_latency=latency)


@pytest.mark.parametrize("ranks", [2, 3, 4, 5, 16, 17, 64])
def test_blocks_passed_on_both_ways_meet_the_bound_at_zero_latency(ranks: int) -> None:
    for fabric in (Ring(ranks=ranks), wdm_ring(ranks, 8, reconfiguration_time=0.0), wdm_ring(ranks, 5, fibres=3)):
        e = evaluate(find("ring-two-way-striped"), Collective("all-to-all", ranks, 1e8), fabric)
        assert e.cost.time == pytest.approx(e.bound.time, rel=1e-12)
        assert e.schedule.steps == ranks // 2 and e.cost.static


@pytest.mark.parametrize("ranks", [2, 3, 4, 8, 9, 16, 64])
def test_blocks_sent_straight_around_a_ring_meet_the_bound(ranks: int) -> None:
    fabric = wdm_ring(ranks, ring_all_to_all_wavelengths(ranks), reconfiguration_time=0.0)
    e = evaluate(find("one-stage"), Collective("all-to-all", ranks, 1e8), fabric)
    assert e.bound.time <= e.cost.time * (1 + 1e-12)
    # Odd halves of wavelengths cannot be had.
    pairs, colours = ranks * ranks // 4, ring_all_to_all_wavelengths(ranks)
    assert e.cost.time * pairs == pytest.approx(e.bound.time * 2 * colours, rel=1e-12)
    if ranks >= 4:
        assert e.bound.bound_by == "the links into one half of the ring"


@pytest.mark.parametrize("ranks", [2, 4, 16])
def test_in_network_averaging_meets_the_bound(ranks: int) -> None:
    fabric = OpticalAverager(ranks=ranks, hop_latency=1e-7, averaging_latency=3e-7, levels=2)
    e = evaluate(find("in-network"), Collective("all-reduce", ranks, 1e8), fabric)
    assert e.cost.time == pytest.approx(e.bound.time, rel=1e-12)


class _SlowOnPaper(WdmRing):
    """A fabric whose cuts claim less than its lightpaths carry."""

    def cuts(self) -> list[Cut]:
        return [replace(cut, capacity=cut.capacity / 1e6) for cut in super().cuts()]


def test_a_cost_below_the_bound_is_our_error() -> None:
    with pytest.raises(BoundError, match="below the lower bound"):
        evaluate(find("optree"), Collective("all-gather", 8, 1e6), _SlowOnPaper(ranks=8, wavelengths=4))


def _fewest_steps(ranks: int, wavelengths: int, pieces: int, limit: int) -> int:
    """Fewest steps of any all-gather on a WDM ring whose transfers carry one piece on one wavelength (exact, by MILP).

    Wavelength continuity is relaxed to link loads, so the optimum can only be lower than that of real schedules.
    """
    return next(steps for steps in range(1, limit + 1) if _feasible(ranks, wavelengths, pieces, steps))


def _feasible(n: int, w: int, pieces: int, steps: int) -> bool:
    items = n * pieces
    sends = [(a, b, way) for a in range(n) for b in range(n) if a != b for way in (1, -1)]
    held_count = (steps + 1) * n * items
    variables = held_count + steps * len(sends) * items
    rows: list[dict[int, float]] = []
    upper: list[float] = []

    def held_at(t: int, node: int, item: int) -> int:
        return (t * n + node) * items + item

    def send_at(t: int, s: int, item: int) -> int:
        return held_count + (t * len(sends) + s) * items + item

    def at_most(coefficients: dict[int, float], value: float) -> None:
        rows.append(coefficients)
        upper.append(value)

    low, high = np.zeros(variables), np.ones(variables)
    for node in range(n):
        for item in range(items):
            own = float(item // pieces == node)
            low[held_at(0, node, item)] = high[held_at(0, node, item)] = own
            low[held_at(steps, node, item)] = 1.0
    for t in range(steps):
        for item in range(items):
            for s, (a, _, _) in enumerate(sends):
                at_most({send_at(t, s, item): 1.0, held_at(t, a, item): -1.0}, 0.0)
            for node in range(n):
                arriving = {send_at(t, s, item): -1.0 for s, (_, b, _) in enumerate(sends) if b == node}
                at_most({held_at(t + 1, node, item): 1.0, held_at(t, node, item): -1.0} | arriving, 0.0)
        for way in (1, -1):
            for link in range(n):
                across: dict[int, float] = {}
                for s, (a, b, heading) in enumerate(sends):
                    start, length = (a, (b - a) % n) if way == 1 else (b, (a - b) % n)
                    if heading == way and (link - start) % n < length:
                        across |= {send_at(t, s, item): 1.0 for item in range(items)}
                at_most(across, float(w))
    entries = [(r, c, v) for r, row in enumerate(rows) for c, v in row.items()]
    r, c, v = zip(*entries, strict=True)
    matrix = coo_array((v, (r, c)), shape=(len(rows), variables)).tocsr()
    result = milp(
        np.zeros(variables),
        constraints=LinearConstraint(matrix, -np.inf, np.array(upper)),
        integrality=np.ones(variables),
        bounds=Bounds(low, high),
    )
    return bool(result.status == 0)


@pytest.mark.parametrize(
    ("ranks", "wavelengths", "pieces"),
    [
        (2, 1, 1),
        (3, 1, 1),
        (4, 1, 1),
        (5, 1, 1),
        (2, 2, 1),
        (3, 2, 1),
        (4, 2, 1),
        (5, 2, 1),
        (2, 1, 2),
        (3, 1, 2),
        (4, 1, 2),
    ],
)
def test_the_bound_never_exceeds_the_exhaustive_optimum(ranks: int, wavelengths: int, pieces: int) -> None:
    steps = _fewest_steps(ranks, wavelengths, pieces, 2 * ranks)
    fabric = wdm_ring(ranks, wavelengths, reconfiguration_time=0.0)
    collective = Collective("all-gather", ranks, 1e6)
    optimum = steps * collective.nbytes_per_rank / pieces / fabric.wavelength_bandwidth
    bound = lower_bound(collective, fabric).time
    assert bound <= optimum * (1 + 1e-12)
    assert optimum < bound + collective.nbytes_per_rank / pieces / fabric.wavelength_bandwidth * (1 + 1e-12)
