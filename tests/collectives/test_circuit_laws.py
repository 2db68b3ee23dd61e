"""When a circuit of a WDM ring is set up again: when its ends or its wavelengths change, their number included."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lightloom.collectives.algorithm import Algorithm
from lightloom.collectives.bounds.lower_bound import bandwidth_bound
from lightloom.collectives.collective import FROM_ALL_GATHER, Collective, Kind, Sizes
from lightloom.collectives.cost import loads
from lightloom.collectives.cost.loads import circuit_changes, distinct_ends
from lightloom.collectives.registry import admitted, build, evaluate, find
from lightloom.collectives.schedule.columns import COLUMNS, Folding, Schedule, circuits_key
from lightloom.collectives.verify.verifier import verify
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.switches import CircuitSwitch, PacketSwitch
from lightloom.machines.fabrics.wdm_ring import WdmRing
from tests.collectives.strategies import fabrics, jobs

CIRCUIT = {"source": 0, "destination": 2, "route": 0, "fibre": 0, "first_wavelength": 1, "wavelength_count": 2}
FABRIC = WdmRing(
    ranks=6,
    wavelengths=8,
    fibres=2,
    wavelength_bandwidth=1e9,
    conversion_time=0,
    reconfiguration_time=1e-5,
    hop_latency=0,
)


def schedule(*circuits: dict[str, int]) -> Schedule:
    """A schedule with one circuit in each step."""
    columns: dict[str, Any] = {
        name: np.array([circuit.get(name, 0) for circuit in circuits], kind)
        for name, kind in COLUMNS.items()
        if name not in ("step", "lightpath")
    }
    steps = np.arange(len(circuits), dtype=np.int32)
    return Schedule(
        algorithm="one circuit a step",
        collective=Collective("broadcast", 6, 1e6),
        chunks=1,
        steps=len(circuits),
        step=steps,
        lightpath=steps,
        **columns,
    )


def test_as_much_memory_is_asked_for_as_circuits_take(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []
    monkeypatch.setattr(loads, "require_memory", lambda nbytes, _: asked.append(nbytes))
    followed = loads._Circuits(FABRIC)
    assert asked == [followed.tuned.nbytes] == [8 * FABRIC.links * 16]


@pytest.mark.parametrize(
    "change",
    [{"destination": 3}, {"source": 1}, {"wavelength_count": 1}, {"wavelength_count": 3}, {"first_wavelength": 2}],
    ids=lambda change: next(iter(change)),
)
def test_a_circuit_is_set_up_again_where_anything_of_it_changes(change: dict[str, int]) -> None:
    changes = circuit_changes(schedule(CIRCUIT, CIRCUIT | change, CIRCUIT | change, CIRCUIT), FABRIC)
    assert changes.changed.tolist() == [True, True, False, True]
    assert not changes.static


@pytest.mark.parametrize(
    "change", [{"fibre": 1}, {"first_wavelength": 5}, {"route": 1}], ids=lambda change: next(iter(change))
)
def test_circuits_on_other_channels_stand_beside_each_other(change: dict[str, int]) -> None:
    changes = circuit_changes(schedule(CIRCUIT, CIRCUIT | change, CIRCUIT), FABRIC)
    assert changes.changed.tolist() == [True, False, False]
    assert changes.static


def test_equal_keys_are_equal_sets_of_circuits_and_equal_ends_are_looked_at_once() -> None:
    """Random rows, of which only the columns of circuits count, in any order and as often as they like."""
    rng = np.random.default_rng(4)
    names = ("source", "destination", "route", "fibre", "first_wavelength", "wavelength_count")
    keys: dict[frozenset[tuple[int, ...]], str] = {}
    for _ in range(120):
        size = int(rng.integers(1, 4))
        columns = {name: rng.integers(0, 2, size) for name in names}
        rows = schedule(
            *(dict(zip(columns, map(int, row), strict=True)) for row in zip(*columns.values(), strict=True))
        )
        circuits = frozenset(zip(*(columns[name].tolist() for name in names), strict=True))
        key = circuits_key(rows, FABRIC.fibre_channels)
        assert keys.setdefault(circuits, key) == key
        first, like = distinct_ends(replace(rows, folding=Folding.alike(6, 2)))
        ends = list(zip(*(columns[name].tolist() for name in names[:3]), strict=True))
        assert [ends[row] for row in first[like]] == ends and len(first) == len(set(ends))
    assert len(set(keys.values())) == len(keys) > 40


@pytest.mark.parametrize("algorithm", ["ring-two-way", "optree", "one-stage", "wrht"])
def test_one_set_of_circuits_serves_every_step_or_not_however_long_it_takes_to_set(algorithm: str) -> None:
    """A set-up that takes no time is a set-up: circuits that change in it do not stand side by side."""
    kind: Kind = "all-reduce" if algorithm == "wrht" else "all-gather"
    slow = WdmRing(ranks=16, wavelengths=4, reconfiguration_time=1e-5)
    instant = slow.model_copy(update={"reconfiguration_time": 0.0})
    built = build(find(algorithm), Collective(kind, 16, 1e6), slow)
    of_slow, of_instant = circuit_changes(built, slow), circuit_changes(built, instant)
    assert of_instant.static == of_slow.static == (algorithm == "ring-two-way")
    assert np.array_equal(of_instant.changed, of_slow.changed)


def test_uneven_parts_go_over_circuits_that_stand_where_setting_takes_no_time() -> None:
    fabric = CircuitSwitch(ranks=20, degree=2, reconfiguration_time=0.0, hop_latency=0.0)
    collective = Collective("all-to-all-v", 20, 1e6, sizes=Sizes(np.tile(np.arange(1.0, 21.0), (20, 1))))
    verify(build(find("synthesized"), collective, fabric), fabric)


EXCLUSIVE: st.SearchStrategy[Fabric] = st.one_of(
    st.builds(
        WdmRing,
        ranks=st.integers(2, 24),
        wavelengths=st.integers(1, 6),
        fibres=st.integers(1, 2),
        reconfiguration_time=st.just(1e-3),
    ),
    st.builds(CircuitSwitch, ranks=st.integers(2, 24), degree=st.integers(1, 9), reconfiguration_time=st.just(1e-3)),
)


@given(jobs(fabrics(16)), st.just(0.0) | st.floats(1e-3, 1e9))
def test_no_schedule_takes_less_than_its_sends_take_at_least(
    job: tuple[Algorithm, Collective, Fabric], nbytes: float
) -> None:
    """Whatever the fabric, circuits in place; it is known before anything is built. Set-ups come on top."""
    algorithm, collective, fabric = job
    assume(collective.kind in (*FROM_ALL_GATHER, "all-to-all") and not algorithm.by_size)
    collective = collective.resized(nbytes)
    seconds, a_byte = algorithm.least_seconds(fabric)[collective.kind]
    if algorithm.changes_circuits(fabric):
        seconds += fabric.setup_time
        a_byte = max(a_byte, bandwidth_bound(collective.resized(1.0), fabric))
    # Set-ups that are left out of a time leave their rounding in it.
    took = evaluate(algorithm, collective, fabric).cost.repeated_time + fabric.setup_time
    assert took >= (seconds + a_byte * nbytes + fabric.setup_time) * (1 - 1e-9)


@given(EXCLUSIVE, st.sampled_from(["all-gather", "reduce-scatter", "all-reduce", "all-to-all"]))
def test_whoever_surely_changes_circuits_pays_for_a_set_up_between_steps(fabric: Fabric, kind: Kind) -> None:
    """Beside the first set-up and the bytes at the fabric's bandwidth; so no such schedule has circuits that stand."""
    collective = Collective(kind, fabric.ranks, 1e6)
    for algorithm in admitted(kind, fabric):
        if algorithm.changes_circuits(fabric):
            price = evaluate(algorithm, collective, fabric).cost
            assert not price.static
            least = fabric.setup_time + bandwidth_bound(collective, fabric)
            assert price.time - price.setup >= least * (1 - 1e-9)


@pytest.mark.parametrize(
    ("name", "fabric", "changes"),
    [
        # 8 ranks have 8 circuits each; of doubling they need 3, sent straight 7.
        ("one-stage", CircuitSwitch(ranks=8, degree=6), True),
        ("one-stage", CircuitSwitch(ranks=8, degree=7), False),
        ("recursive-doubling", CircuitSwitch(ranks=8, degree=2), True),
        ("recursive-doubling", CircuitSwitch(ranks=8, degree=3), False),
        # 7 ranks send to the root.
        ("worker-aggregator", CircuitSwitch(ranks=8, degree=6), True),
        ("worker-aggregator", CircuitSwitch(ranks=8, degree=7), False),
        # 8 ranks send 1, 2 and 4 links far: 56 of 16 links with so many wavelengths.
        ("bruck", WdmRing(ranks=8, wavelengths=3), True),
        ("bruck", WdmRing(ranks=8, wavelengths=4), False),
        ("bruck", WdmRing(ranks=8, wavelengths=3, multicast_taps=2), False),
        ("ring", CircuitSwitch(ranks=8, degree=2), False),
        ("one-stage", PacketSwitch(ranks=8), False),
    ],
)
def test_circuits_change_where_lightpaths_need_more_channels_than_there_are(
    name: str, fabric: Fabric, changes: bool
) -> None:
    assert find(name).changes_circuits(fabric) is changes
