"""The compiled step of stages is that of the task engine, and what each rank spends adds up to it."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.core.timeline import SHARES
from lightloom.planning.simulation.engine import run
from lightloom.planning.simulation.link_turns import SwitchTurns
from lightloom.planning.simulation.pipelined import SPENT, PipelinedStep, StageTimes, lower_pipelined
from tests.simulation.stages import OF_STAGES, stage_times


@st.composite
def steps(draw: st.DrawFn) -> PipelinedStep:
    """Uneven stages, interleaved or not, with a last micro-batch that may be smaller."""
    stages = draw(st.integers(1, 5))
    virtual = draw(st.integers(1, 3)) if stages > 1 else 1
    turns = draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    choices = np.array([0.0, 0.1, 1.0, 3.0, 10.0]) if draw(st.booleans()) else rng.random(7)

    def times() -> StageTimes:
        sizes = {each.name: stages if each.name in OF_STAGES else stages * virtual for each in fields(StageTimes)}
        values = {name: rng.choice(choices, size) for name, size in sizes.items()}
        values["send"][0] = 0.0
        values["lead"] = np.minimum(values["lead"], 1.0)
        return StageTimes(**values)

    micro_batches = turns if virtual == 1 else turns * stages
    whole = times()
    smaller = replace(times(), **{name: getattr(whole, name) for name in OF_STAGES})
    last, share = draw(st.sampled_from([None, smaller])), draw(st.sampled_from([0.0, 0.15, 0.6]))
    return PipelinedStep(times=whole, micro_batches=micro_batches, last=last, arithmetic_share=share)


@settings(max_examples=200, deadline=None)
@given(steps())
def test_the_compiled_step_is_that_of_the_tasks(step: PipelinedStep) -> None:
    timeline = run(lower_pipelined(step))
    played = step
    assert played.step_time == pytest.approx(timeline.step_time, rel=1e-12)
    busy = timeline.busy_time()
    assert played.spent["compute_s"].sum() == pytest.approx(busy["forward"] + busy["backward"])
    assert step.transmission == pytest.approx(busy["transmission"])


@st.composite
def turned_steps(draw: st.DrawFn) -> PipelinedStep:
    """Steps with a switch that is set anew, beside and after the last pass only where stages do not interleave."""
    step = draw(steps())
    stages, once = len(step.times.gather), len(step.times.forward) == len(step.times.gather)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    values = {each.name: rng.choice([0.0, 0.5, 2.0, 20.0], stages) for each in fields(SwitchTurns)}
    first, last = step.of_micro_batch(0), step.of_micro_batch(step.micro_batches - 1)
    values["lead"] = np.where(first.forward_gather[:stages] > 0, 0.0, rng.random() * first.forward[:stages])
    early = step.times.early_exchange[:stages] > 0
    values["tail"] = rng.random() * last.backward[:stages] * np.where(early, step.times.lead[:stages], 1.0)
    values |= {name: once * values[name] for name in ("last", "gradients")}
    return replace(step, turns=SwitchTurns(**values))


@settings(max_examples=200, deadline=None)
@given(turned_steps())
def test_the_compiled_step_waits_for_the_switch_as_the_tasks_do(step: PipelinedStep) -> None:
    timeline = run(lower_pipelined(step))
    played, still = step, replace(step, turns=None)
    ends = [each.end for each in timeline.intervals if each.category != "reconfiguration"]
    assert played.step_time == pytest.approx(max(ends), rel=1e-12)
    assert played.step_time >= still.step_time
    assert sum(played.spent.values()) == pytest.approx(played.step_time)


@settings(max_examples=50, deadline=None)
@given(steps())
def test_what_each_rank_spends_adds_up_to_the_step(step: PipelinedStep) -> None:
    played = step
    assert played.spent.keys() == SPENT.keys()
    assert sum(played.spent.values()) == pytest.approx(played.step_time)
    assert all((seconds >= -1e-9 * played.step_time).all() for seconds in played.spent.values())
    told = played.breakdown()
    assert sum(told.values()) == pytest.approx(played.step_time)
    # All stages' computing, as the timeline has it: a plan's breakdown is not that of one stage.
    intervals = run(lower_pipelined(step)).intervals
    computing = sum(each.end - each.start for each in intervals if SHARES[each.category] == "compute")
    assert told["compute_s"] * len(step.times.gather) == pytest.approx(computing, abs=1e-9 * played.step_time)


def test_a_rank_waits_for_sends_and_for_other_stages_apart() -> None:
    """Two stages, one micro-batch: the second waits for the first forward pass and the send, the first for both of the
    other's passes and two sends."""
    chunk = {"forward": np.array([1.0, 2.0]), "backward": np.array([3.0, 4.0]), "send": np.array([0.0, 0.5])}
    played = PipelinedStep(times=stage_times(2, given=chunk), micro_batches=1)
    assert played.step_time == 1 + 0.5 + 2 + 4 + 0.5 + 3
    assert played.spent["pipeline_send_s"].tolist() == [0.5, 0.5]
    assert played.spent["bubble_s"].tolist() == [0.5 + 2 + 4, 1 + 0.5 + 3]


def test_gradients_are_exchanged_beside_the_last_backward_pass() -> None:
    """A pass of 4 s in 4 units: from its first second on 6 s of exchange, then the first unit's."""
    chunk = {"backward": 4.0, "early_exchange": 6.0, "late_exchange": 0.5, "lead": 0.75}
    step = PipelinedStep(
        times=stage_times(1, given={name: np.array([n]) for name, n in chunk.items()}), micro_batches=3
    )
    played = step
    assert played.step_time == 3 * 4 - 3 + 6 + 0.5
    assert played.spent["gradient_exchange_s"].tolist() == [3.5]


def test_stages_with_tied_tables_add_them_up_together() -> None:
    """Stage 0 ends last; stage 2 waits for it before both add up, and stage 1 does not."""
    exchange, tied = np.array([5.0, 1.0, 2.0]), np.array([3.0, 0.0, 3.0])
    step = PipelinedStep(times=stage_times(3, given={"exchange": exchange, "tied": tied}), micro_batches=1)
    played = step
    assert played.step_time == 8 == run(lower_pipelined(step)).step_time
    assert played.spent["gradient_exchange_s"].tolist() == [8, 1, 5]
    assert played.spent["bubble_s"].tolist() == [0, 7, 3]


@pytest.mark.parametrize("micro_batches", [1, 3])
@pytest.mark.parametrize("lost", [1, 2])
def test_stages_that_wait_for_what_never_arrives_are_refused(lost: int, micro_batches: int) -> None:
    """A send without end: the stages behind it have no first pass, those before it no gradients, and none is right."""
    send = np.zeros(3)
    chunk = {"forward": np.ones(3), "backward": np.ones(3), "send": send}
    step = PipelinedStep(times=stage_times(3, given=chunk), micro_batches=micro_batches)
    assert step.step_time == 2 * (micro_batches + 2)
    send[lost] = np.inf
    with pytest.raises(RuntimeError, match=r"^stages wait for each other$"):
        _ = replace(step).step_time
