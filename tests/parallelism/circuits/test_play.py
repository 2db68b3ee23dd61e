"""Holds played: every byte arrives, at times that follow from duty cycle and circuits."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.support.replanned import play_replanned
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.core.errors import ConfigError, InputError
from lightloom.machines.fabrics.switches import CircuitSwitch
from lightloom.machines.fabrics.wdm_ring import WdmRing
from lightloom.planning.parallelism.circuits import ring, switch
from lightloom.planning.parallelism.circuits.circuits import Circuits, Timing, Traffic
from lightloom.planning.parallelism.circuits.play import play_once
from tests.parallelism.circuits.strategies import neighbours, traffics, uniform


@pytest.mark.parametrize(
    ("hold", "reconfiguration", "percent"), [(250e-6, 25e-6, 90.9), (100e-6, 20e-6, 83.3), (4e-5, 1e-5, 80.0)]
)
def test_duty_cycles(hold: float, reconfiguration: float, percent: float) -> None:
    assert round(100 * Timing(hold, reconfiguration).duty_cycle, 1) == percent


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((0.0, 1.0), "hold period of 0.0 s"),
        ((float("nan"), 1.0), "hold period of nan s"),
        ((1.0, -1.0), "reconfiguration period of -1.0 s"),
    ],
)
def test_timing_refused(values: tuple[float, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Timing(*values)


@settings(deadline=None, max_examples=25)
@given(traffics(most=8), st.floats(0, 1e-2))
def test_circuits_set_once(traffic: Traffic, reconfiguration: float) -> None:
    """Every transfer ends after one reconfiguration and its bytes at its circuits' rate; max-min sets the longest."""
    fabric = CircuitSwitch(ranks=traffic.ranks, degree=traffic.ranks, bandwidth=1e6)
    found = switch.assign(traffic, fabric)
    played = play_once(traffic, found.circuits, fabric, Timing(1e-3, reconfiguration))
    rate = found.circuits.counts(traffic)[0] * 1e6
    assert played.finish == pytest.approx(reconfiguration + traffic.nbytes / rate, rel=1e-9)
    assert played.makespan == pytest.approx(reconfiguration + traffic.nbytes.max() / (found.max_min * 1e6), rel=1e-9)
    assert played.holds == 1
    assert not len(played.relayed)


@settings(deadline=None, max_examples=25)
@given(traffics(least=3, most=8), st.floats(0.01, 3.0), st.sampled_from([0.0, 0.3, 1.0]), st.booleans())
def test_replanned_moves_every_byte(traffic: Traffic, size: float, latency: float, on_ring: bool) -> None:
    hold = size * float(traffic.nbytes.mean()) / 1e6
    timing, late = Timing(hold, hold / 10), latency * hold
    fabric = (
        WdmRing(ranks=traffic.ranks, wavelengths=2, wavelength_bandwidth=1e6)
        if on_ring
        else CircuitSwitch(ranks=traffic.ranks, degree=2, bandwidth=1e6)
    )
    played = play_replanned(traffic, fabric, timing, late)
    assert played.carried == pytest.approx(traffic.nbytes, rel=1e-6)
    assert np.isfinite(played.finish).all()
    # What a rank sends cannot leave faster than all its ports allow, nor before the first circuits stand.
    ports = (4 if on_ring else 2) * 1e6
    busiest = np.bincount(traffic.source, weights=traffic.nbytes).max()
    assert played.makespan >= (busiest / ports + timing.reconfiguration + late) * (1 - 1e-9)
    assert played.makespan <= late + played.holds * timing.period * (1 + 1e-9)
    assert played.makespan > late + (played.holds - 1) * timing.period


def test_cycles_pay_the_duty_cycle() -> None:
    """One circuit a rank, two peers each, in turn: the long run is served at half a circuit times the duty cycle."""
    fabric = CircuitSwitch(ranks=6, degree=1, bandwidth=1e9)
    traffic = neighbours(6, 2, 0, spread=0.0)
    found = switch.assign(traffic, fabric, holds=2)
    assert found.max_min == 0.5
    timing = Timing(100e-6, 20e-6)
    traffic = traffic.with_bytes(traffic.nbytes * 20)
    played = play_once(traffic, found.circuits, fabric, timing)
    expected = traffic.nbytes[0] / (0.5 * 1e9 * timing.duty_cycle)
    assert played.makespan == pytest.approx(expected, abs=2 * timing.period)
    assert played.carried == pytest.approx(traffic.nbytes)


def test_relaying_over_the_circuits_of_others() -> None:
    """0→1 and 1→2 have circuits of 1 B/s, 0→2 has none: it takes half of both until the others are done.

    100 + 100 B direct and 50 B relayed: at 1/2 B/s the relayed pair ends at 100 s, the others have 50 B left each.
    """
    traffic = Traffic.of([[0, 100, 50], [0, 0, 100], [0, 0, 0]])
    fabric = CircuitSwitch(ranks=3, degree=1, bandwidth=1.0)
    one = np.zeros(2, np.int64)
    circuits = Circuits(1, one, np.array([0, 1]), np.array([1, 2]), one, one)
    played = play_once(traffic, circuits, fabric, Timing(1.0, 2.0))
    assert played.finish.tolist() == pytest.approx([152.0, 102.0, 152.0])
    assert played.hops.tolist() == [1, 2, 1]
    assert played.relayed.tolist() == [1]
    assert played.carried.tolist() == pytest.approx([100.0, 100.0, 100.0])


@pytest.mark.long
def test_relaying_on_an_overfull_ring() -> None:
    traffic = neighbours(24, 12, 3)
    fabric = WdmRing(ranks=24, wavelengths=24)
    played = play_once(traffic, ring.assign_longest(traffic, fabric), fabric, Timing(1e-4, 2e-5))
    assert len(played.relayed)
    assert played.carried == pytest.approx(traffic.nbytes * played.hops)


def test_disconnected_demands_are_refused() -> None:
    traffic = Traffic.of([[0, 100, 50], [0, 0, 0], [0, 100, 0]])
    fabric = CircuitSwitch(ranks=3, degree=1)
    one = np.zeros(1, np.int64)
    circuits = Circuits(1, one, one, one + 1, one, one)
    with pytest.raises(InputError, match=r"rank 0 has no circuit to rank 2 and no path .*\(2 pairs in all\): expected"):
        play_once(traffic, circuits, fabric, Timing(1.0, 0.1))


def test_too_few_holds_and_planners_that_grant_nothing_are_refused() -> None:
    fabric = WdmRing(ranks=4, wavelengths=1, wavelength_bandwidth=1.0)
    with pytest.raises(InputError, match=r"of the bytes to send after 3 holds: expected a longer hold"):
        play_replanned(uniform(4), fabric, Timing(1e-3, 1e-3), most_holds=3)
    with pytest.raises(InputError, match="granted no circuit"):
        play_replanned(uniform(4), fabric, Timing(1e-3, 1e-3), planner=lambda *_: empty())


def empty() -> Circuits:
    none = np.zeros(0, np.int64)
    return Circuits(1, none, none, none, none, none)
