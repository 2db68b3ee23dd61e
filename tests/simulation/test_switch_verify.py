"""The verifier of circuits that follow a step accepts what is right, and names every seeded violation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lightloom.core.errors import VerificationError
from lightloom.core.timeline import Interval, Timeline
from lightloom.planning.simulation.switch_verify import verify_switching

TURN, RATE = 1.0, 10.0
OWNERS = {(0, 0): "tensor", (0, 1): "tensor"}
"""Two planes of one stage, when the step begins."""
DEMANDS = {"tensor": 20.0, "data": 40.0}


def interval(name: str, start: float, end: float, planes: dict[str, list[int]], nbytes: float = 0.0) -> Interval:
    turns = name.startswith("turn")
    details: dict[str, Any] = {"stages": [0], "planes": planes}
    if nbytes:
        details["nbytes"] = {next(iter(planes)): nbytes}
    return Interval(
        resource="planes 0" if turns else name,
        category="reconfiguration" if turns else "transmission",
        name=name,
        start=start,
        end=end,
        details=details,
    )


STEP = (
    interval("exchange", 0, 1, {"tensor": [0, 1]}, 20),
    interval("turn there", 1, 2, {"data": [0, 1]}),
    interval("gradients", 2, 4, {"data": [0, 1]}, 40),
    interval("turn back", 4, 5, {"tensor": [0, 1]}),
)


def check(intervals: tuple[Interval, ...], demands: dict[str, float] = DEMANDS, seconds: float = TURN) -> None:
    verify_switching(Timeline.of(intervals), OWNERS, seconds, RATE, demands)


def test_a_step_whose_circuits_follow_it() -> None:
    check(STEP)


def test_what_need_not_be_sent_is_not() -> None:
    check(STEP, {**DEMANDS, "pipeline": 0.0})
    with pytest.raises(VerificationError, match="pipeline: 0 bytes are sent, of 1"):
        check(STEP, {**DEMANDS, "pipeline": 1.0})


def test_a_turn_may_end_in_the_next_step() -> None:
    later = [replace(each, start=each.start + 0.4, end=each.end + 0.4) for each in STEP[:3]]
    begins, ends = interval("turn back", 4.4, 5.0, {"tensor": [0, 1]}), interval("turn on", 0, 0.4, {"tensor": [0, 1]})
    check((ends, *later, begins))


@pytest.mark.parametrize(("out", "into"), [(2.0, 1.0), (1.0, 2.0)])
def test_a_turn_waits_for_what_leaves_and_for_what_enters(out: float, into: float) -> None:
    """Plane 0 at the middle one of three stages: what it sends on and what is sent to it end at different times."""
    owners = {(stage, 0): "pipeline" for stage in range(3)}

    def step(begin: float) -> Timeline:
        sends = (
            replace(interval(f"from {stage}", 0, end, {"pipeline": [0]}, 5), details=between(stage))
            for stage, end in ((0, into), (1, out))
        )
        turns = (
            replace(interval("turn", start, start + TURN, {axis: [0]}), details={"stages": [1], "planes": {axis: [0]}})
            for axis, start in (("data", begin), ("pipeline", begin + TURN))
        )
        return Timeline.of((*sends, *turns))

    def between(stage: int) -> dict[str, Any]:
        return {"stages": [stage, stage + 1], "planes": {"pipeline": [0]}, "nbytes": {"pipeline": 5}}

    verify_switching(step(2.0), owners, TURN, RATE, {"pipeline": 10.0})
    with pytest.raises(VerificationError, match=r"plane 0 at stage 1 turns from 1\.5 s on, but pipeline sends until 2"):
        verify_switching(step(1.5), owners, TURN, RATE, {"pipeline": 10.0})


def moved(place: int, **changes: Any) -> Callable[[], tuple[Interval, ...]]:
    return lambda: tuple(replace(each, **changes) if at == place else each for at, each in enumerate(STEP))


@pytest.mark.parametrize(
    ("seeded", "why"),
    [
        (moved(2, start=1.9), "plane 0 at stage 0 turns until 2"),
        (moved(0, end=1.1), "turns from 1 s on, but tensor sends until 1.1 s"),
        (moved(1, start=1.1), "turns until 2"),
        (moved(2, details={**STEP[2].details, "planes": {"tensor": [0, 1]}}), "belongs to data, not to tensor"),
        (moved(2, details={**STEP[2].details, "planes": {"data": [0]}}), "its bytes need 4.0 s"),
        (moved(0, end=0.5), "takes 0.5 s, but its bytes need 1.0 s"),
        (moved(2, details={**STEP[2].details, "nbytes": {}}), "data: 0 bytes are sent, of 40"),
        (moved(0, details={**STEP[0].details, "nbytes": {"data": 5.0}}), "sends bytes of data without planes"),
        (moved(1, details={**STEP[1].details, "planes": {"data": [0]}}), "plane 1 at stage 0 belongs to tensor"),
        (lambda: STEP[:3], "belongs to data, not to tensor"),
        (lambda: (*STEP, interval("other", 2.5, 3, {"data": [1]})), "in use until 4 s, sent from 2.5 s"),
    ],
)
def test_seeded_violations_are_found(seeded: Callable[[], tuple[Interval, ...]], why: str) -> None:
    with pytest.raises(VerificationError, match=why):
        check(seeded())


@pytest.mark.parametrize("unit", [1e-9, 1e-4, 1e7])
def test_what_is_refused_does_not_depend_on_how_long_a_step_is(unit: float) -> None:
    """A hundredth of a turn too early is refused, and less than what rounding makes is not."""

    def scaled(place: int, earlier: float, nbytes: float = 0.0) -> None:
        intervals = [
            replace(each, start=(each.start - (at == place) * earlier) * unit, end=each.end * unit)
            for at, each in enumerate(STEP)
        ]
        demands = {axis: amount + nbytes for axis, amount in DEMANDS.items()}
        verify_switching(Timeline.of(intervals), OWNERS, TURN * unit, RATE / unit, demands)

    for place in (1, 2, 3):
        scaled(place, 1e-10)
        with pytest.raises(VerificationError, match="turns"):
            scaled(place, 0.01)
    for place in (0, 2):
        scaled(place, -5e-7)
        with pytest.raises(VerificationError, match="but its bytes need"):
            scaled(place, -0.01)
    for more in (-1e-6, 1e-6):
        scaled(0, 0.0, more)
        with pytest.raises(VerificationError, match="bytes are sent, of"):
            scaled(0, 0.0, 1e4 * more)


def test_turns_are_finished_before_others_begin_and_as_far_as_in_the_step_before() -> None:
    there, back = (interval("turn", 1, 1.5, {axis: [0, 1]}) for axis in ("data", "tensor"))
    with pytest.raises(VerificationError, match="turns to tensor before it has turned to data"):
        check((STEP[0], there, replace(back, start=1.5, end=2.5)), {"tensor": 20.0})
    # Planes that hold data turn to the gradients' axis again, and have to finish that.
    again, late = replace(there, start=4.0, end=4.5), replace(STEP[2], start=4.5, end=6.5)
    with pytest.raises(VerificationError, match=r"plane 0 at stage 0 turns until 4\.5"):
        check((*STEP[1:3], again, late), {"data": 80.0})
    check((*STEP[1:3], again, replace(again, start=4.5, end=5.0)), {"data": 40.0})
    for seconds, ends, begins in ((1.0, 100, 50), (0.5, 50, 25)):
        halfway = replace(there, end=1 + seconds)
        with pytest.raises(VerificationError, match=f"{ends}.0% of its turn to data when .* and {begins}.0% when"):
            check((halfway,), {}, seconds=2.0)


def test_only_what_is_sent_needs_circuits() -> None:
    """Neither does work on a device hold planes, nor an exchange that takes no time."""
    work = Interval(resource="stage 0", category="forward", name="forward", start=0.0, end=5.0)
    check((*STEP, work, interval("nothing", 3.0, 3.0, {"tensor": [0]})))


def test_a_switch_that_turns_in_no_time_holds_whatever_is_sent() -> None:
    check((STEP[0], STEP[2]), seconds=0.0)
