"""Circuits that follow a step, at made-up times: each exchange at the price of its phase, and what turns cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.core.arrays import Floats, Mask
from lightloom.core.errors import UnsupportedError
from lightloom.planning.pricing.group_prices import Axis, Planes
from lightloom.planning.reconfiguration import in_step
from lightloom.planning.reconfiguration import phases as phases_module
from lightloom.planning.reconfiguration.in_step import InStep, _Notes, _phase_seconds, _Search
from lightloom.planning.reconfiguration.phases import (
    PHASES,
    Phase,
    PhasedTimes,
    Settings,
    after_the_passes,
    gains,
    plane_numbers,
    segmentations,
)
from lightloom.planning.simulation.pipelined import PipelinedStep, StageTimes

STAGES, CHUNKS = 2, 4
OWNERS: dict[str, Axis] = {
    "forward_exchange": "tensor",
    "backward_exchange": "tensor",
    "send": "pipeline",
    "early_exchange": "data",
    "late_exchange": "data",
    "gather": "data",
    "exchange": "tensor",
    "tied": "pipeline",
}
BY_STAGE = ("gather", "exchange", "tied", "update")


class MadeUp:
    """Times of two stages of two chunks each: what an axis exchanges takes its numbers over its planes."""

    axes: tuple[Axis, ...] = ("tensor", "data", "pipeline")

    def __init__(self, seed: int, virtual: int = 1, planes: int = 6, gradients: bool = True) -> None:
        rng = np.random.default_rng(seed)
        self.numbers: list[dict[str, Floats]] = [
            {each.name: rng.uniform(1, 9, STAGES if each.name in BY_STAGE else CHUNKS) for each in fields(StageTimes)}
            for _ in range(2)
        ]
        for numbers in self.numbers:
            numbers["early_exchange"][rng.random(CHUNKS) < 0.4] = 0.0
            numbers["lead"] /= 10
        self.whole = rng.uniform(1, 9, CHUNKS)
        self.least: Planes = {"tensor": 1, "data": 1, "pipeline": int(rng.integers(1, 3))}
        self.strategy = SimpleNamespace(virtual_stages=virtual, micro_batches=3)
        self.prices = SimpleNamespace(planes=planes, reconfiguration_time=float(rng.choice([0.5, 3.0, 20.0])))
        self.job = SimpleNamespace(fabric=SimpleNamespace(arithmetic_share=0.25))
        self.margins = rng.uniform(0, 9, (2, STAGES))
        self.exchanged = gradients

    def one(self, division: Planes, which: int) -> StageTimes:
        """The times of a micro-batch, or of the last one."""
        numbers = {
            name: column / division[OWNERS[name]] if name in OWNERS else column
            for name, column in self.numbers[which].items()
        }
        early = self.numbers[which]["early_exchange"] > 0
        numbers["late_exchange"] = np.where(early, numbers["late_exchange"], self.whole / division["data"])
        return StageTimes(**numbers)

    def times(self, division: Planes) -> tuple[StageTimes, StageTimes]:
        """Those of both."""
        return self.one(division, 0), self.one(division, 1)

    def gradients(self, division: Planes, by_unit: Mask) -> Floats:
        """Those of the first unit, or of all."""
        late: Floats = np.where(by_unit, self.numbers[0]["late_exchange"], self.whole) / division["data"]
        return late

    def active(self, *, beside: bool) -> dict[Phase, tuple[Axis, ...]]:
        """As of a step with everything but closing."""
        replicas: tuple[Axis, ...] = ("data",) if self.exchanged else ()
        return {
            "gather": ("data",),
            "passes": ("tensor", "pipeline"),
            "last": ("tensor", "pipeline", *(replicas if beside else ())),
            "gradients": replicas,
            "closing": (),
            "tied": ("pipeline",),
        }


planes_of_phases = st.lists(
    st.fixed_dictionaries({axis: st.integers(1, 3) for axis in MadeUp.axes}), min_size=6, max_size=6
)


@settings(max_examples=60)
@given(
    st.integers(0, 999),
    planes_of_phases,
    st.sets(st.sampled_from(["gather", "last", "gradients", "closing", "tied"])),
    st.booleans(),
)
def test_each_exchange_takes_the_seconds_of_its_phase(
    seed: int, divisions: list[Planes], left_out: set[Phase], beside: bool
) -> None:
    of: Any = MadeUp(seed)
    everything = dict(zip(PHASES, divisions, strict=True))
    stands: Settings = {phase: division for phase, division in everything.items() if phase not in left_out}
    all_planes: Planes = dict.fromkeys(of.axes, 6)
    step = _Search(of).stages(stands, beside=beside)

    def at(phase: Phase, which: int = 0) -> StageTimes:
        times: StageTimes = of.one(stands.get(phase, all_planes), which)
        return times

    closing: Phase = "last" if "last" in stands else "passes"
    last_pass = at(closing)
    unit = (last_pass.early_exchange > 0) & beside
    late = of.gradients(stands["gradients"], unit) if "gradients" in stands else last_pass.late_exchange
    expected = {each.name: getattr(at("passes"), each.name) for each in fields(StageTimes)} | {
        "gather": at("gather").gather,
        "early_exchange": last_pass.early_exchange * beside,
        "lead": last_pass.lead * beside,
        "late_exchange": late,
        "exchange": at("closing").exchange,
        "tied": at("tied").tied,
    }
    assert step.last is not None and (step.micro_batches, step.arithmetic_share) == (3, 0.25)
    for name, column in expected.items():
        assert np.array_equal(getattr(step.times, name), column), name
    for each in fields(StageTimes):
        of_last = each.name.startswith("backward")
        assert np.array_equal(
            getattr(step.last, each.name), getattr(at(closing if of_last else "passes", 1), each.name)
        )
    turns_are_right(of, stands, step)


def turns_are_right(of: MadeUp, stands: Settings, step: PipelinedStep) -> None:
    """Where an axis gets planes that it had not, a turn; what the update hides of the first one is beside it."""
    turns, seconds, update, last = step.turns, of.prices.reconfiguration_time, of.numbers[0]["update"], step.last
    assert turns is not None and last is not None
    phases = list(stands)
    names = {phase: phase for phase in PHASES} | {"gather": "start", "closing": "exchange"}
    for place, phase in enumerate(phases):
        before, own = stands[phases[place - 1]], stands[phase]
        turned = seconds * any(own[axis] > before[axis] for axis in own)
        if place == 0:
            assert turns.update == pytest.approx(np.minimum(update, turned))
            assert getattr(turns, names[phase]) + turns.update == pytest.approx(np.full(STAGES, turned))
        else:
            assert getattr(turns, names[phase]).tolist() == [turned] * STAGES
    for phase in set(PHASES) - set(phases):
        assert not getattr(turns, names[phase]).any()
    fewer = any(division["pipeline"] < stands["passes"]["pipeline"] for division in stands.values())
    assert turns.waits_for_send.tolist() == [float(fewer)] * STAGES
    for stage in range(STAGES):
        first = min(step.times.forward[stage], last.forward[stage])
        after = step.times.lead[stage] if step.times.early_exchange[stage] else 1.0
        assert turns.lead[stage] == min(of.margins[0][stage], first)
        assert turns.tail[stage] == pytest.approx(min(of.margins[1][stage], after * last.backward[stage]))


def test_nothing_waits_for_sends_where_stages_send_nothing() -> None:
    of: Any = MadeUp(1)
    stands: Settings = {"passes": {"tensor": 2}, "gradients": {"data": 2}}
    turns = _Search(of).stages(stands, beside=True).turns
    assert turns is not None and not turns.waits_for_send.any() and turns.gradients.all() and turns.passes.any()


@given(st.integers(0, 99), st.booleans(), st.sampled_from(MadeUp.axes), st.integers(1, 5))
def test_a_phase_is_timed_with_all_planes_for_the_others(seed: int, beside: bool, axis: Axis, count: int) -> None:
    of: Any = MadeUp(seed)
    division: Planes = {**dict.fromkeys(of.axes, 6), axis: count}
    times, last = of.times(division)
    if not beside:
        times = after_the_passes(times, of.whole / division["data"])
        assert not times.lead.any() and not times.early_exchange.any()
    search = _Search(of)
    for _ in range(2):
        for phase, seconds in _phase_seconds(times, last, 3).items():
            assert search._phase_seconds(beside, phase, axis, count) == pytest.approx(seconds)


@given(st.integers(0, 999), st.integers(1, 4))
def test_phases_last_as_long_as_what_they_exchange(seed: int, micro_batches: int) -> None:
    of = MadeUp(seed)
    times, last = of.times(dict.fromkeys(of.axes, 1))
    seconds = _phase_seconds(times, last, micro_batches)
    for phase, column in {
        "gather": "gather",
        "gradients": "late_exchange",
        "closing": "exchange",
        "tied": "tied",
    }.items():
        assert seconds[phase] == max(getattr(times, column))  # type: ignore[index]
    sent = sum(times.send)
    forward, backward = times.passes
    of_stages = [sum(forward[stage::STAGES]) + sum(backward[stage::STAGES]) for stage in range(STAGES)]
    assert seconds["passes"] == pytest.approx((micro_batches - 1) * max(of_stages) + sum(forward) + sent)
    computed = last.backward + last.backward_exchange + last.backward_ring
    longer = max(max(times.early_exchange - times.lead * computed), 0.0)
    assert seconds["last"] == pytest.approx(sum(last.backward_gather + computed) + longer + sent)


class Noting(_Search):
    """Notes the settings that it would simulate; seconds are those of a table."""

    def __init__(self, times: Any, weights: Mapping[tuple[bool, Phase, Axis], float]) -> None:
        super().__init__(times)
        self._weights = weights

    def stages(self, settings: Settings, *, beside: bool) -> Any:
        return beside

    def _phase_seconds(self, beside: bool, phase: Phase, axis: Axis, planes: int) -> float:
        return self._weights[beside, phase, axis] / planes


def rows(candidates: Iterable[tuple[bool, Settings]]) -> list[tuple[bool, tuple[Any, ...]]]:
    """In some order."""
    return sorted(
        (beside, tuple((phase, *sorted(each.items())) for phase, each in of.items())) for beside, of in candidates
    )


@settings(max_examples=40)
@given(st.integers(0, 999), st.integers(1, 2), st.integers(2, 6), st.booleans())
def test_every_way_to_part_the_phases_is_tried_with_its_best_divisions(
    seed: int, virtual: int, planes: int, gradients: bool
) -> None:
    """And every division that stands; the passes' axes get no planes in the last pass that they had not before."""
    of: Any = MadeUp(seed, virtual, planes, gradients)
    rng = np.random.default_rng(seed)
    weights = {
        (beside, phase, axis): float(rng.integers(1, 9))
        for beside, phase, axis in product((True, False), PHASES, of.axes)
    }

    def best(beside: bool, active: Mapping[Phase, tuple[Axis, ...]], segment: list[Phase], kept: Planes) -> float:
        """Seconds of the best division of a segment."""
        used = sorted({axis for phase in segment for axis in active[phase]})
        least = min(
            (
                total(beside, active, segment, dict(zip(used, counts, strict=True)))
                for counts in product(range(1, planes + 1), repeat=len(used))
                if sum(counts) <= planes
                and all(
                    kept.get(axis, count) == count >= of.least[axis] for axis, count in zip(used, counts, strict=True)
                )
            ),
            default=np.inf,
        )
        return float(least)

    def total(beside: bool, active: Mapping[Phase, tuple[Axis, ...]], segment: list[Phase], division: Planes) -> float:
        return sum(weights[beside, phase, axis] / division[axis] for phase in segment for axis in active[phase])

    search = Noting(of, weights)
    found = [(step.stages, step.settings) for step in search.candidates()]
    expected: list[tuple[bool, Settings]] = []
    for beside in (True, False) if gradients else (True,):
        active = {phase: axes for phase, axes in of.active(beside=beside).items() if axes}
        for segments in segmentations(list(active)):
            split = [any(phase in segment for phase in ("passes", "last", "gradients")) for segment in segments]
            settings = search._settings(segments, active, beside)
            if settings is not None:
                assert list(settings) == list(active)
                pins: Planes = {"pipeline": settings["passes"]["pipeline"]}
                for segment in segments:
                    division = settings[segment[0]]
                    assert all(settings[phase] == division for phase in segment)
                    kept = pins if "last" in segment and "passes" not in segment else {}
                    assert total(beside, active, segment, division) == pytest.approx(
                        best(beside, active, segment, kept)
                    )
                more = any(settings["last"][axis] > settings["passes"][axis] for axis in active["passes"])
                if not more and (virtual == 1 or sum(split) == 1):
                    expected.append((beside, settings))
            else:
                possible = [best(beside, active, segment, {}) for segment in segments]
                assert max(possible) == np.inf or "passes" not in next(each for each in segments if "last" in each)
        for counts in product(range(1, planes + 1), repeat=3):
            division = dict(zip(of.axes, counts, strict=True))
            if sum(counts) == planes and all(division[axis] >= of.least[axis] for axis in of.axes):
                expected.append((beside, dict.fromkeys(active, division)))
    assert rows(found) == rows(expected)  # type: ignore[arg-type]


@given(
    st.lists(st.tuples(st.integers(1, 4), st.lists(st.sampled_from([1, 2]), min_size=1, max_size=3)), max_size=5),
    st.integers(0, 3),
    st.integers(1, 3),
    st.booleans(),
)
def test_the_fastest_of_all_steps_and_of_those_that_stand_are_found(
    steps: list[tuple[int, list[int]]], axes: int, least: int, plain: bool
) -> None:
    """Of equal ones the first; none where fewer than two groups share the planes, or one needs more than there are."""
    found: list[Any] = [
        SimpleNamespace(step_time=time, settings={phase: {"data": n} for phase, n in zip(PHASES, each, strict=False)})
        for time, each in steps
    ]
    units = dict.fromkeys(MadeUp.axes[:axes], least)
    strategy: Any = SimpleNamespace(plain=plain)
    prices: Any = SimpleNamespace(planes=2, reconfiguration_time=0.5)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(in_step, "PhasedTimes", lambda *_: SimpleNamespace(axes=tuple(units), least=units))
        patched.setattr(in_step, "_Search", lambda _: SimpleNamespace(candidates=lambda: found))
        if plain or axes < 2:
            assert in_step.follow_the_step(None, strategy, prices) is None  # type: ignore[arg-type]
            return
        if not steps or least > 2:
            with pytest.raises(UnsupportedError, match=f"2 switch planes for {axes} kinds of groups"):
                in_step.follow_the_step(None, strategy, prices)  # type: ignore[arg-type]
            return
        result = in_step.follow_the_step(None, strategy, prices)  # type: ignore[arg-type]
    assert result is not None and result.reconfiguration_time == 0.5
    times = [time for time, _ in steps]
    assert result.best is found[times.index(min(times))]
    standing = [step for step, (_, each) in zip(found, steps, strict=True) if len(set(each)) == 1]
    if not standing:
        assert result.standing is None and result.gain is None
        return
    assert result.standing is min(standing, key=lambda step: step.step_time)
    assert result.gain == min(step.step_time for step in standing) - min(times)


few_planes = st.dictionaries(st.sampled_from(MadeUp.axes), st.integers(0, 2))


@given(few_planes, few_planes)
def test_an_axis_without_planes_gains_with_its_first_one(before: Planes, after: Planes) -> None:
    assert gains(before, after) == any(after.get(axis, 0) > before.get(axis, 0) for axis in MadeUp.axes)


@given(st.integers(0, 5), st.sampled_from([0.0, 1e-6, 0.5, 2.0]), st.floats(0, 1))
def test_turns_are_hidden_or_waited_for(turns: int, seconds: float, share: float) -> None:
    best: Any = SimpleNamespace(turning=(None,) * turns, exposed=share * turns * seconds)
    hidden = InStep(None, best, seconds).hidden
    assert hidden + best.exposed == pytest.approx(turns * seconds)
    best.exposed = turns * seconds
    assert InStep(None, best, seconds).hidden == 0
    best.exposed *= 2
    assert InStep(None, best, seconds).hidden == 0


@pytest.mark.parametrize("replicas", [("data",), ("data", "expert-data")])
@given(st.lists(st.booleans(), min_size=10, max_size=10))
def test_groups_exchange_in_the_phases_in_which_they_have_something_to_exchange(
    replicas: tuple[Axis, ...], drawn: list[bool]
) -> None:
    gather, forward, backward, early, late, after, sliced, overlap, tied, beside = drawn
    columns = {"gather": gather, "forward_gather": forward, "backward_gather": backward, "exchange": after}
    columns |= {"early_exchange": early, "late_exchange": late}
    of: Any = object.__new__(PhasedTimes)
    of.axes = ("tensor", "pipeline", *replicas)
    of.strategy = SimpleNamespace(sequence_parallel=sliced)
    of.job = SimpleNamespace(settings=SimpleNamespace(overlap_gradients=overlap))
    of.__dict__["fastest"] = SimpleNamespace(**{name: np.array([0.0, float(some)]) for name, some in columns.items()})
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(phases_module, "ties_stages", lambda *_: tied)
        patched.setattr(phases_module, "Strategies", SimpleNamespace(of=lambda _: None))
        found = of.active(beside=beside)
    sharded, exchanged = forward or backward, early or late
    passes: set[Any] = {"tensor", "pipeline", *(replicas if sharded else ())}
    expected: dict[Phase, set[Any]] = {
        "gather": set(replicas if gather else ()),
        "passes": passes,
        "last": passes | set(replicas if exchanged and beside else ()),
        "gradients": set(replicas if exchanged else ()),
        "closing": {*(["tensor"] if sliced and after else []), *(replicas if after and not overlap else ())},
        "tied": {"pipeline"} if tied else set(),
    }
    assert {phase: set(axes) for phase, axes in found.items()} == expected
    assert list(found) == list(PHASES) and all(len(axes) == len(set(axes)) for axes in found.values())


@given(st.lists(st.dictionaries(st.sampled_from(MadeUp.axes), st.integers(1, 3), min_size=1), min_size=1, max_size=4))
def test_planes_turn_only_for_axes_that_lack_some(each: list[Planes]) -> None:
    """As few as are missing, but for the first turn of a step, which finds the planes as the last one left them."""
    planes, stands = 9, dict(zip(PHASES, each, strict=False))
    numbers, phases = plane_numbers(stands, planes), list(stands)
    assert list(numbers) == phases
    turning = [place for place in range(len(phases)) if gains(stands[phases[place - 1]], stands[phases[place]])]
    for place, phase in enumerate(phases):
        before, own = numbers[phases[place - 1]], numbers[phase]
        assert sorted(own) == list(range(planes))
        for axis in MadeUp.axes:
            held, had = (sum(holder == axis for holder in of.values()) for of in (own, before))
            taken = sum(own[plane] == axis != before[plane] for plane in own)
            assert held >= stands[phase].get(axis, 0)
            if place not in turning[:1]:
                assert taken == max(stands[phase].get(axis, 0) - had, 0)


NAMES: list[tuple[str, tuple[str, int, int | None] | None, Phase, list[int], dict[Axis, float], tuple[Axis, ...]]] = [
    ("send forward 0 from 1 to 2", ("send", 2, 0), "passes", [1, 0], {"pipeline": 32.0}, ("pipeline",)),
    ("send backward 2 from 3 to 2", ("send", 3, 2), "last", [1, 0], {"pipeline": 533.0}, ("pipeline",)),
    ("exchange in forward 2 on 3", ("forward_exchange", 3, 2), "passes", [1], {"tensor": 513.0}, ("tensor", "expert")),
    ("exchange in backward 2 on 3", ("backward_exchange", 3, 2), "last", [1], {"tensor": 523.0}, ("tensor", "expert")),
    ("exchange in backward 1 on 2", ("backward_exchange", 2, 1), "passes", [0], {"tensor": 22.0}, ("tensor", "expert")),
    ("ring in backward 2 on 1", ("backward_ring", 1, 2), "last", [1], {}, ("context",)),
    ("gather for forward 0 on 2", None, "passes", [0], {}, ("data", "expert-data")),
    ("gather for backward 2 on 2", None, "last", [0], {}, ("data", "expert-data")),
    ("gather 1", ("gather", 1, None), "gather", [1], {"data": 41.0}, ("data", "expert-data")),
    ("add up tied 1", ("tied", 1, None), "tied", [1], {"pipeline": 51.0}, ("pipeline",)),
    ("exchange all but 3", ("early_exchange", 3, None), "last", [1], {"data": 63.0}, ("data", "expert-data")),
    ("exchange the first 3", ("late_exchange", 3, None), "gradients", [1], {"data": 73.0}, ("data", "expert-data")),
    ("exchange 1", ("exchange", 1, None), "closing", [1], {"data": 81.0}, ("tensor", "data", "expert-data")),
]


@pytest.mark.parametrize(("name", "part", "phase", "stages", "nbytes", "axes"), NAMES)
def test_transmissions_use_the_bytes_of_their_phase_and_chunk(
    name: str,
    part: tuple[str, int, int | None] | None,
    phase: Phase,
    stages: list[int],
    nbytes: dict[Axis, float],
    axes: tuple[Axis, ...],
) -> None:
    """Of three micro-batches on two stages of two chunks; those of the last one are other bytes."""
    notes: Any = object.__new__(_Notes)
    notes._strategy, notes._stages = SimpleNamespace(micro_batches=3), STAGES
    notes._step = SimpleNamespace(settings={"passes": {}, "last": {}})
    chunks = np.arange(CHUNKS, dtype=np.float64)
    notes._bytes, notes._last = (
        {
            "forward_exchange": {"tensor": first + 10 + chunks},
            "backward_exchange": {"tensor": first + 20 + chunks},
            "send": {"pipeline": first + 30 + chunks},
            "gather": {"data": first + 40 + chunks[:2]},
            "tied": {"pipeline": first + 50 + chunks[:2]},
            "early_exchange": {"data": first + 60 + chunks},
            "late_exchange": {"data": first + 70 + chunks},
            "exchange": {"data": first + 80 + chunks[:2]},
        }
        for first in (0, 500)
    )
    details = {} if part is None else dict(zip(("part", "column", "micro_batch"), part, strict=True))
    interval: Any = SimpleNamespace(name=name, details=details)
    assert notes._used(interval) == (phase, stages, nbytes, axes)
