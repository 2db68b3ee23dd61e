"""Circuits that follow the step: never slower than circuits that stand, equal to them where turns take forever."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from functools import cache
from itertools import pairwise, product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.collectives.collective import Collective
from lightloom.collectives.joint import GroupPart, Part, ShiftPart
from lightloom.collectives.registry import build, find
from lightloom.collectives.verify.verifier import verify_joint
from lightloom.core.errors import UnsupportedError
from lightloom.machines.accelerators.load import load_accelerator
from lightloom.machines.clusters.cluster import Cluster, TrainingSettings
from lightloom.machines.fabrics.switches import CircuitSwitch, PacketSwitch
from lightloom.planning.parallelism.strategy_space import Strategies, Strategy
from lightloom.planning.pricing.group_prices import (
    Axis,
    Division,
    GroupPrices,
    PlanePrices,
    Planes,
    divisions,
    live_axes,
)
from lightloom.planning.pricing.job import Job
from lightloom.planning.pricing.strategy_step import simulate, strategy_joules
from lightloom.planning.reconfiguration import phases as settings_module
from lightloom.planning.reconfiguration.in_step import (
    InStep,
    SwitchedStep,
    SwitchedStrategyStep,
    _Notes,
    _phase_seconds,
    _Search,
    follow_the_step,
    simulate_in_step,
)
from lightloom.planning.reconfiguration.phases import PHASES, Phase, PhasedTimes, best_division, segmentations
from lightloom.planning.search.bounds import bounds
from lightloom.planning.search.document import in_step_json, plan_row
from lightloom.planning.search.request import Pins, SearchRequest
from lightloom.planning.search.search import search
from lightloom.planning.simulation.engine import run
from lightloom.planning.simulation.pipelined import StageTimes, lower_pipelined
from tests.planner.jobs import mixture, transformer

TIMES = (0.0, 1e-6, 1e-4, 1e3)
CHOSEN = ("ring", "ring-striped", "one-stage")


@cache
def switched(seconds: float, *, experts: bool = False, ranks: int = 16) -> tuple[Job, PlanePrices]:
    """A small model on a switch of six planes; rings stand whatever a turn takes."""
    fabric = CircuitSwitch(
        ranks=ranks, degree=6, bandwidth=1e9, reconfiguration_time=seconds, hop_latency=1e-7, energy_per_bit=1e-12
    )
    training, chip = TrainingSettings(unit_parameters=300_000), load_accelerator("a100").flat()
    graph = mixture(2) if experts else transformer(4)
    prices = GroupPrices(fabric, training, choices=CHOSEN[:2])
    return Job.of(graph, chip, fabric, training, prices), PlanePrices(prices)


@st.composite
def strategies(draw: st.DrawFn) -> Strategy:
    tp, pp = draw(st.sampled_from([(4, 1), (2, 2), (1, 2), (4, 2), (1, 4)]))
    micro_batches = draw(st.sampled_from([1, 4]))
    sharding = draw(st.sampled_from(["none", "zero-1", "zero-2", "zero-3"]))
    virtual = draw(st.sampled_from([1, 2])) if pp == 2 and micro_batches > 1 else 1
    return Strategy(
        16 // tp // pp,
        tp,
        pp,
        micro_batches,
        64,
        sharding,
        "none",
        "auto",
        0,
        tp > 1 and draw(st.booleans()),
        virtual,
    )


def searched(strategy: Strategy, seconds: float) -> InStep:
    in_step = follow_the_step(*switched(seconds)[:1], strategy, switched(seconds)[1])
    assert in_step is not None
    return in_step


@pytest.mark.long
@settings(max_examples=2, deadline=None)
@given(strategies())
def test_a_slower_switch_never_gains_more(strategy: Strategy) -> None:
    """No slower than standing circuits, as fast as on all planes at most, and the same where turns take forever."""
    found = [searched(strategy, seconds) for seconds in TIMES]
    gains = [in_step.gain for in_step in found]
    assert all(gain is not None and gain >= 0 for gain in gains)
    assert all(b <= a * (1 + 1e-9) + 1e-15 for a, b in pairwise(filter(None, gains)))
    assert gains[-1] == 0
    assert found[-1].best.turning == ()
    job, prices = switched(0.0)
    undivided = replace(job, shares=prices.shared(strategy, {}))
    all_planes = simulate(undivided, strategy).step_time
    assert found[0].best.step_time >= all_planes * (1 - 1e-9)


@settings(max_examples=5, deadline=None)
@given(strategies(), st.sampled_from(TIMES[:-1]))
def test_steps_are_at_or_above_their_bounds_and_those_of_the_task_engine(strategy: Strategy, seconds: float) -> None:
    job, prices = switched(seconds)
    step = simulate_in_step(job, strategy, prices)
    assert step.step_time >= bounds(job, Strategies.of(strategy))[0]
    assert step.stages is not None
    intervals = run(lower_pipelined(step.stages)).intervals
    ends = [each.end for each in intervals if each.category != "reconfiguration"]
    assert step.step_time == pytest.approx(max(ends), rel=1e-9)
    # The timeline is verified when it is made.
    assert step.timeline.step_time == pytest.approx(step.step_time, rel=1e-9)
    assert sum(step.breakdown.values()) == pytest.approx(step.step_time)
    # As many bytes as on circuits that stand.
    still = simulate(job, strategy)
    if isinstance(step, SwitchedStrategyStep):
        assert step.in_step is not None and step.in_step.standing is not None
        assert step.in_step.standing.step_time <= still.step_time * (1 + 1e-9)
    sent, before = strategy_joules(job, strategy, step), strategy_joules(job, strategy, still)
    assert sent == pytest.approx(before)


divided = st.fixed_dictionaries({axis: st.integers(0, 2) for axis in ("data", "tensor")})


@given(st.lists(divided, min_size=1, max_size=len(PHASES)), st.integers(0, len(PHASES)))
def test_planes_turn_wherever_they_differ_from_the_phase_before(each: list[Planes], turn: int) -> None:
    """The last phase of a step comes before the first one of the next, so that it is all one in which a step begins."""
    settings = dict(zip(PHASES, each, strict=False))
    phases = list(settings)
    moved = [*phases[turn % len(each) :], *phases[: turn % len(each)]]
    turning, shifted = (
        SwitchedStep({phase: settings[phase] for phase in order}, None, None).turning  # type: ignore[arg-type]
        for order in (phases, moved)
    )
    assert sorted(turning) == sorted(shifted)
    assert list(turning) == [phase for phase in phases if phase in turning]
    for before, after in pairwise(phases):
        assert (after in turning) == any(settings[after][axis] > settings[before][axis] for axis in settings[after])


@pytest.mark.parametrize("stands", [True, False])
def test_a_document_tells_what_turns_gain_and_hide(stands: bool) -> None:
    planes: dict[Phase, dict[Axis, int]] = {"passes": {"tensor": 2, "data": 1}, "last": {"data": 3}}
    best: Any = SimpleNamespace(settings=planes, turning=("passes", "last"), step_time=2.0, exposed=0.25)
    standing: Any = SimpleNamespace(settings={"passes": {"data": 1}, "last": {"data": 1}}, step_time=3.0)
    row = in_step_json(InStep(standing if stands else None, best, 0.5))
    assert (row["turns"], row["turns_before"], row["planes"]) == (2, ["passes", "last"], planes)
    assert row["hidden_s"] + row["exposed_s"] == row["turns"] * row["reconfiguration_time_s"] == 1.0
    assert (row["standing_step_s"], row["standing_planes"]) == ((3.0, {"data": 1}) if stands else (None, None))
    assert row["gain_s"] == (row["standing_step_s"] - best.step_time if stands else None)


def test_experts_have_planes_of_their_own() -> None:
    job, prices = switched(1e-5, experts=True)
    strategy = Strategy(8, 2, 1, 2, 64, "none", "none", "auto", 0, ep=4)
    step = simulate_in_step(job, strategy, prices)
    assert isinstance(step, SwitchedStrategyStep)
    assert step.in_step is not None
    assert step.in_step.best.settings["passes"].keys() >= {"tensor", "expert"}
    assert step.step_time >= bounds(job, Strategies.of(strategy))[0]
    assert step.timeline.step_time == pytest.approx(step.step_time)
    for division in step.in_step.best.settings.values():
        assert sum(division.values()) <= prices.planes


@pytest.mark.long
def test_the_pruned_winner_is_the_unpruned_one() -> None:
    fabric = CircuitSwitch(ranks=8, degree=6, bandwidth=1e9, reconfiguration_time=2e-5, hop_latency=1e-7)
    chip = load_accelerator("a100").flat()
    cluster = Cluster(name="switch", ranks=8, accelerator=chip, fabric=fabric)
    request = SearchRequest(
        global_batches=(16,),
        strategies=("tensor-pipeline",),
        algorithms=CHOSEN[:2],
        pins=Pins(tp=2, pp=2, micro_batches=2, recomputation="none", virtual_stages=1, sequence_parallel=True),
        compare=False,
        reconfigure_in_step=True,
    )
    pruned, unpruned = (search(transformer(4), cluster, replace(request, prune=prune)) for prune in (True, False))
    assert pruned.counts.simulated <= unpruned.counts.simulated
    assert pruned.winner.step_time == pytest.approx(unpruned.winner.step_time)
    assert all(plan.step_time >= plan.bound for plan in unpruned.ranking)
    row = plan_row(unpruned.winner, unpruned)["in_step"]
    assert row["turns"] == len(row["turns_before"]) and row["gain_s"] >= 0
    assert all(sum(planes.values()) <= 6 for planes in row["planes"].values())


def test_circuits_of_every_phase_stand_together() -> None:
    """Rings of all groups of an axis and sends both ways, on the planes of a phase: verified as one joint schedule."""
    strategy = Strategy(4, 2, 2, 4, 64, "zero-1", "none", "auto", 0, True)
    settings_of = searched(strategy, 1e-6).best.settings
    fabric = switched(1e-6)[0].fabric
    assert len({tuple(planes.items()) for planes in settings_of.values()}) > 1
    for planes in settings_of.values():
        axes = tuple(axis for axis in live_axes(strategy) if axis.name in planes)
        division = Division(fabric, axes, tuple(planes[axis.name] for axis in axes))
        parts: list[Part] = []
        for number, (axis, share) in enumerate(division.shares()):
            if axis.name == "pipeline":
                parts.append(ShiftPart(axis.name, axis.stride, share.first, share.channels, 1.0))
                continue
            part = division.part(number)
            assert part is not None
            schedule = build(find("ring-striped"), Collective("all-gather", axis.ranks, 0.0), part)
            parts.append(GroupPart(axis.name, share, schedule))
        verify_joint(parts, fabric)


def test_data_parallelism_alone_has_all_planes() -> None:
    job, prices = switched(1e-6)
    strategy = Strategy(16, 1, 1, 1, 64, "none", "none", "ring", 0)
    assert follow_the_step(job, strategy, prices) is None
    assert simulate_in_step(job, strategy, prices).step_time == simulate(job, strategy).step_time


def test_more_groups_than_planes_are_refused() -> None:
    fabric = CircuitSwitch(ranks=16, degree=1)
    job, _ = switched(1e-6)
    prices = GroupPrices(fabric, job.settings, choices=CHOSEN[:1])
    small = Job.of(job.graph, job.accelerator, fabric, job.settings, prices)
    for degrees in ((4, 2, 2), (2, 2, 4)):
        strategy = Strategy(*degrees, 4, 64, "none", "none", "auto", 0)
        with pytest.raises(UnsupportedError, match="1 switch planes for 3 kinds of groups"):
            simulate_in_step(small, strategy, PlanePrices(prices))


def test_one_plane_turns_where_it_cannot_stand() -> None:
    job, _ = switched(1e-6)
    fabric = CircuitSwitch(ranks=16, degree=1)
    prices = GroupPrices(fabric, job.settings, choices=CHOSEN[:1])
    small = Job.of(job.graph, job.accelerator, fabric, job.settings, prices)
    found = follow_the_step(small, Strategy(4, 4, 1, 4, 64, "none", "none", "auto", 0), PlanePrices(prices))
    assert found is not None
    assert found.standing is None and found.gain is None
    assert found.best.turning


def test_packet_fabrics_have_no_planes() -> None:
    with pytest.raises(UnsupportedError, match="expected switch planes"):
        PlanePrices(GroupPrices(PacketSwitch(ranks=4), TrainingSettings()))


@pytest.mark.parametrize("most", [0, 5000])
def test_the_best_division_is_the_best_of_all(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Whether all are compared, or planes are given one by one: an axis gains less with every plane."""
    monkeypatch.setattr(settings_module, "MOST_DIVISIONS", most)
    rng = np.random.default_rng(most)
    names: list[Axis] = ["data", "tensor", "pipeline", "expert"]
    for _ in range(40):
        weight = {(phase, axis): float(rng.integers(0, 50)) for phase in PHASES for axis in names}
        active: dict[Phase, list[Axis]] = {
            phase: [axis for axis in names if rng.random() < 0.5] for phase in PHASES[: rng.integers(1, 4)]
        }
        used = sorted({axis for each in active.values() for axis in each})
        planes, least = int(rng.integers(2, 10)), {axis: int(rng.integers(1, 3)) for axis in names}
        pinned: dict[Axis, int] = {axis: 1 for axis in used if rng.random() < 0.2}

        def seconds(phase: Phase, axis: Axis, count: int, weight: dict[tuple[Phase, Axis], float] = weight) -> float:
            return weight[phase, axis] / count

        def total(
            counts: Mapping[Axis, int], active: dict[Phase, list[Axis]] = active, seconds: Any = seconds
        ) -> float:
            return float(sum(seconds(p, axis, counts[axis]) for p, each in active.items() for axis in each))

        every = [dict(zip(used, counts, strict=True)) for counts in product(range(1, planes + 1), repeat=len(used))]
        possible = [
            counts
            for counts in every
            if all(counts[axis] == pinned[axis] if axis in pinned else counts[axis] >= least[axis] for axis in used)
            and sum(counts.values()) == (planes if len(pinned) < len(used) else sum(pinned.values()))
        ]
        found = best_division(planes, active, seconds, least, pinned)
        if len(pinned) == len(used):
            assert found == (pinned if sum(pinned.values()) <= planes else None)
        elif not possible:
            assert found is None
        else:
            assert found in possible and total(found) == pytest.approx(min(map(total, possible)))


def test_divisions_and_segmentations_are_complete() -> None:
    assert len(divisions(8, 3)) == 21 == len(set(divisions(8, 3)))
    assert all(sum(counts) == 8 and min(counts) >= 1 for counts in divisions(8, 3))
    phases: list[Phase] = ["gather", "passes", "gradients", "tied"]
    found = list(segmentations(phases))
    # Of all places at which a cycle can be cut, no cut and one cut are the same.
    assert len(found) == 2**4 - 4
    assert all(sorted(np.concatenate(segments).tolist()) == sorted(phases) for segments in found)


@settings(max_examples=5, deadline=None)
@given(strategies())
def test_gradients_after_the_last_pass_take_longer_than_what_it_leaves_of_them(strategy: Strategy) -> None:
    """Beside the last pass, part of their exchange is hidden; after it, none is, and the pass waits for none."""
    job, prices = switched(1e-6)
    times = PhasedTimes(job, strategy, prices)
    phases, by_unit = _Search(times), np.zeros(len(times.fastest.forward), np.bool_)
    for planes in (1, prices.planes):
        beside, after = (
            {phase: phases._phase_seconds(how, phase, "data", planes) for phase in PHASES} for how in (True, False)
        )
        assert after["gradients"] >= beside["gradients"]
        assert after["last"] <= beside["last"]
        division = dict.fromkeys(times.axes, prices.planes) | {"data": planes}
        assert after["gradients"] == times.gradients(division, by_unit).max()


def test_phases_of_a_full_pipeline_are_as_long_as_its_slowest_stage() -> None:
    """Stage 1 of three is the slowest only with both passes of both its chunks."""
    numbers: dict[str, Any] = {each.name: np.zeros(3) for each in fields(StageTimes)}
    numbers |= {each: np.zeros(6) for each in numbers if each.startswith(("forward", "backward", "early", "lead"))}
    numbers["forward"], numbers["backward"] = np.array([9.0, 1, 1, 1, 7, 1]), np.array([1.0, 8, 2, 2, 9, 7])
    numbers["send"], numbers["gather"] = np.array([0.25, 0.5, 0.125]), np.array([1.0, 5, 2])
    times = StageTimes(**numbers)
    for micro_batches in (1, 4):
        seconds = _phase_seconds(times, times, micro_batches)
        assert seconds["passes"] == (micro_batches - 1) * (1 + 7 + 8 + 9) + 20 + 0.875
        assert (seconds["gather"], seconds["tied"]) == (5, 0)


@pytest.mark.parametrize("settings", [("passes",), ("passes", "last")])
def test_last_backward_passes_have_a_phase_of_their_own_where_one_is_set(settings: tuple[str, ...]) -> None:
    notes: Any = object.__new__(_Notes)
    notes._strategy, notes._step = SimpleNamespace(micro_batches=3), SimpleNamespace(settings=settings)
    notes._stages, notes._bytes, notes._last = 1, {}, {}
    for direction, micro in product(("forward", "backward"), range(3)):
        last = "last" in settings and (direction, micro) == ("backward", 2)
        details = {"part": f"{direction}_ring", "column": 0, "micro_batch": micro}
        interval: Any = SimpleNamespace(name=f"ring in {direction} {micro} on 0", details=details)
        assert notes._used(interval)[0] == ("last" if last else "passes")
