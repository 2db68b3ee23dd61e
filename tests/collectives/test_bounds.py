"""No cost lies below its bound, and the bounds are reached where they should be."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lightloom.collectives.algorithm import Algorithm
from lightloom.collectives.bounds.link_use import ring_all_to_all_wavelengths
from lightloom.collectives.bounds.lower_bound import lower_bound
from lightloom.collectives.collective import (
    CLASSIC,
    FROM_ALL_GATHER,
    KINDS,
    OF_PARTS,
    Collective,
)
from lightloom.collectives.cost.price import COST_MODELS, CostModel
from lightloom.collectives.registry import evaluate, find
from lightloom.core.errors import BoundError
from lightloom.machines.fabrics.derived import Cut
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.failures import DamagedWdmRing, Failure
from lightloom.machines.fabrics.optical_averager import OpticalAverager
from lightloom.machines.fabrics.switches import CircuitSwitch, PacketSwitch
from lightloom.machines.fabrics.wdm_ring import Ring, WdmRing
from tests.collectives.optimum import FABRICS, STANDING, Problem, fewest_slots, held_against_the_optimum, problem
from tests.collectives.strategies import collective_of, jobs, wdm_ring


@pytest.mark.long
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
@pytest.mark.parametrize("kind", FROM_ALL_GATHER)
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


def _held_against_the_optimum(name: str, kind: str, ranks: int, lag: int, pieces: int = 1) -> tuple[Problem, float]:
    """The bound in slots, after proving that no schedule takes fewer whole ones."""
    fabric = FABRICS[name](ranks, lag)
    asked = problem(kind, fabric, pieces, standing=fabric.setup_time == STANDING)
    return asked, held_against_the_optimum(asked)


_LONGEST = ("one plane that stands", "all-to-all", 0)


@pytest.mark.parametrize("lag", [0, 1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", CLASSIC)
@pytest.mark.parametrize("name", FABRICS)
def test_the_bound_never_exceeds_the_exhaustive_optimum(name: str, kind: str, lag: int) -> None:
    for ranks in (2, 3) if kind == "all-reduce" or (name, kind, lag) == _LONGEST else (2, 3, 4):
        _held_against_the_optimum(name, kind, ranks, lag)


_FEW = ("ring of two wavelengths", "ring with propagation", "two planes that stand", "mesh", "two tiers")


@pytest.mark.parametrize("kind", OF_PARTS)
@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in _FEW else pytest.mark.slow) for n in FABRICS])
def test_nor_where_ranks_exchange_different_parts(name: str, kind: str) -> None:
    for ranks, lag in ((2, 0), (3, 1), (4, 0)):
        _held_against_the_optimum(name, kind, ranks, lag)


@pytest.mark.slow
@pytest.mark.parametrize("name", FABRICS)
def test_nor_for_sums_of_four(name: str) -> None:
    """What takes an integer programme seconds each."""
    for lag in (0, 1):
        _held_against_the_optimum(name, "all-reduce", 4, lag)
    if name == _LONGEST[0]:
        _held_against_the_optimum(name, _LONGEST[1], 4, _LONGEST[2])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["all-gather", "all-to-all", "broadcast"])
@pytest.mark.parametrize("name", FABRICS)
def test_nor_among_five_or_in_two_pieces(name: str, kind: str) -> None:
    _held_against_the_optimum(name, kind, 5, 1)
    if kind != "all-to-all":
        _held_against_the_optimum(name, kind, 3, 1, pieces=2)


@pytest.mark.long
@pytest.mark.parametrize("name", ["ring of one wavelength", "ring of one that stands"])
@pytest.mark.parametrize(
    ("ranks", "lag", "pieces"),
    [(6, 4, 1), (6, 2, 4), (7, 2, 4), (8, 2, 4), (8, 3, 5), (8, 4, 1), pytest.param(16, 2, 3, marks=pytest.mark.slow)],
)
def test_nor_where_a_root_sends_for_a_few_hops(name: str, ranks: int, lag: int, pieces: int) -> None:
    _held_against_the_optimum(name, "broadcast", ranks, lag, pieces)


@pytest.mark.parametrize(
    ("kind", "name", "ranks", "pieces"),
    [
        ("all-gather", "ring of one wavelength", 5, 1),
        ("all-gather", "ring of two wavelengths", 5, 1),
        ("all-gather", "ring of one wavelength", 4, 2),
        ("reduce-scatter", "ring of one wavelength", 4, 2),
        ("all-to-all", "ring of one wavelength", 4, 1),
        ("all-reduce", "ring of one wavelength", 4, 1),
        ("all-reduce", "two planes", 3, 1),
        ("all-gather", "switch", 4, 1),
        ("all-gather", "mesh", 4, 1),
    ],
)
def test_bandwidth_bounds_are_less_than_a_slot_below_the_optimum(kind: str, name: str, ranks: int, pieces: int) -> None:
    asked, bound = _held_against_the_optimum(name, kind, ranks, 0, pieces)
    assert fewest_slots(asked, ceil(bound - 1e-6)) < bound + 1 + 1e-6


@given(st.sampled_from(KINDS), st.integers(2, 60), st.integers(1, 20), st.sampled_from([0.0, 1e-6, 1e-3]))
def test_taps_and_set_ups_only_ever_help(kind: str, ranks: int, wavelengths: int, setup: float) -> None:
    """No bound grows with what a schedule may use or leave alone."""
    for nbytes in (1e3, 1e7):
        wanted = collective_of(kind, ranks, nbytes)
        plain = wdm_ring(ranks, wavelengths, reconfiguration_time=setup, conversion_time=1e-6)
        bound = lower_bound(wanted, plain).time
        more: list[dict[str, float]] = [
            {"multicast_taps": 4},
            {"wavelengths": wavelengths + 1},
            {"reconfiguration_time": setup / 2},
        ]
        fewer: list[dict[str, float]] = [{"lightpath_reach": 2}, {"transceivers": 2 * wavelengths}]
        for fields in more:
            assert lower_bound(wanted, plain.model_copy(update=fields)).time <= bound * (1 + 1e-9)
        for fields in fewer:
            assert lower_bound(wanted, plain.model_copy(update=fields)).time >= bound * (1 - 1e-9)


@pytest.mark.parametrize(
    ("fields", "nbytes", "named"),
    [
        ({}, 1e3, "the first set-up of circuits"),
        ({"conversion_time": 1e-3, "lightpath_reach": 4}, 1e3, "4 hops, as light reaches 4 links"),
        ({"conversion_time": 1e-4}, 1e7, "the links that so few hops must use"),
    ],
)
def test_a_bound_names_what_binds(fields: dict[str, object], nbytes: float, named: str) -> None:
    assert lower_bound(Collective("all-gather", 32, nbytes), wdm_ring(32, 8, **fields)).bound_by == named


@pytest.mark.parametrize(("wavelengths", "hops"), [(31, 2), (32, 1)])
def test_pairs_that_no_circuits_join_take_two_hops_or_two_set_ups(wavelengths: int, hops: int) -> None:
    for setup in (3e-6, 3e-7):
        fabric = wdm_ring(16, wavelengths, reconfiguration_time=setup, conversion_time=1e-6)
        for kind in (*FROM_ALL_GATHER, "all-to-all"):
            bound = lower_bound(Collective(kind, 16, 1.0), fabric).time
            assert bound == pytest.approx(setup + min(hops * 1e-6, setup + 1e-6), rel=1e-3)


def test_what_has_failed_bounds_a_root_by_what_it_sends_without_failures() -> None:
    """The worst rank may be the root, which need not receive, or another one, which need not send."""
    failures = tuple(Failure.parse(f"transceiver:0:{channel}") for channel in (1, 2, 3))
    damaged = DamagedWdmRing(ranks=4, wavelengths=4, reconfiguration_time=0.0, failures=failures)
    whole = lower_bound(Collective("reduce", 4, 1e9), wdm_ring(4, 4, reconfiguration_time=0.0)).time
    bound = lower_bound(Collective("broadcast", 4, 1e9), damaged).time
    assert bound == pytest.approx(whole) and bound > 3 * 1e9 / damaged.total_receive_bandwidth()


def test_a_root_in_the_middle_of_a_broken_ring_is_half_as_far() -> None:
    """Twelve hops between the ends of the line, six from its middle; nothing but distance binds."""
    cut = DamagedWdmRing(ranks=13, wavelengths=64, hop_latency=1.0, failures=(Failure.parse("cable:6"),))
    assert lower_bound(Collective("broadcast", 13, 1.0), cut).time == pytest.approx(6.0, rel=1e-4)
    assert lower_bound(Collective("all-gather", 13, 1.0), cut).time == pytest.approx(12.0, rel=1e-4)
