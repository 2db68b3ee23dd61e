"""The verifier of circuits that follow a step: replays a timeline, shares no code with what makes it, names culprits.

A step is one of many equal ones, so that the switch has to be at its end as it was at its begin. Planes are the ports
that the ranks of a stage have on them: each is held by the groups of one axis, or turns. It proves that

* every transmission lies on planes that its axis holds from its begin to its end, at both ends where stages send;
* no port of a plane carries two transmissions at a time, and none while it turns;
* every plane that goes to another axis has turned for the whole reconfiguration time;
* no exchange takes less time than its bytes need on its planes, and all bytes of the step are sent.

Intervals say what they use in their details: ``planes`` (plane numbers by axis), ``nbytes`` (bytes of a rank by axis,
where they are known), ``stages`` (the sender, and the receiver of what stages send); of turns, ``planes`` are those
that each axis is given.
"""

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from lightloom.core.errors import VerificationError
from lightloom.core.timeline import Interval, Timeline

_ROUNDING = 1e-9
_NEVER = -math.inf
Owners = Mapping[tuple[int, int], str]
"""The axis that holds a plane at the ranks of a stage, by stage and plane, when the step begins."""


@dataclass(slots=True)
class _Plane:
    """State of a plane at the ranks of one stage."""

    owner: str
    turning_to: str | None = None
    turned: float = 0.0
    """Seconds of the turn so far."""
    busy_until: dict[str, float] = field(default_factory=dict)
    """End of the last transmission, by side: out of or into the ranks."""
    turned_until: float = _NEVER

    def settled(self, reconfiguration_time: float) -> str | None:
        """Return the axis that holds the plane; None while its turn has taken less than ``reconfiguration_time``
        seconds."""
        if self.turning_to is None:
            return self.owner
        return self.turning_to if self.turned >= reconfiguration_time * (1 - _ROUNDING) else None

    def share_turned(self, reconfiguration_time: float) -> float:
        """Return the share of its last turn, of ``reconfiguration_time`` seconds, that the plane has made; 1 where that
        turn is complete or there was none."""
        return self.turned / reconfiguration_time if self.settled(reconfiguration_time) is None else 1.0


def verify_switching(
    timeline: Timeline, owners: Owners, reconfiguration_time: float, bandwidth: float, demands: Mapping[str, float]
) -> None:
    """Prove that the circuits of a step can follow it: planes carry one transmission at a time, of the axis that holds
    them, turn long enough and are at the end as at the beginning (to 0.001 of a turn), and all bytes fit and are sent
    (to one millionth). For a switch that turns in no time (``reconfiguration_time`` 0) it is not checked which axis
    holds a plane.

    Args:
        timeline: one step, whose intervals of transmission and reconfiguration name in their details ``stages`` (one,
            or sender and receiver), ``planes`` (numbers of planes by axis) and ``nbytes`` (bytes by axis).
        owners: axis that holds each plane, by stage and plane, before the last turns of the step before.
        reconfiguration_time: seconds of a turn.
        bandwidth: bytes per second of a plane, each way.
        demands: bytes that the ranks of all stages, one of each, send along every axis whose bytes are known.

    Raises:
        VerificationError: the first violation found.
    """
    turns = [interval for interval in timeline.intervals if interval.category == "reconfiguration"]
    state, slack = {place: _Plane(owner) for place, owner in owners.items()}, _ROUNDING * timeline.step_time
    # As turns leave the switch, so the next step finds it.
    for interval in turns:
        _turn(interval, state, 0.0, slack)
    before = {place: held.share_turned(reconfiguration_time) for place, held in state.items()}
    state = {place: replace(held, busy_until={}, turned_until=_NEVER) for place, held in state.items()}
    sent: defaultdict[str, float] = defaultdict(float)
    for interval in timeline.intervals:
        if interval.category == "reconfiguration":
            _turn(interval, state, reconfiguration_time, slack)
        elif interval.category == "transmission" and interval.duration:
            _transmit(interval, state, reconfiguration_time, slack)
            _check_rate(interval, bandwidth, slack)
            for axis, nbytes in interval.details.get("nbytes", {}).items():
                sent[axis] += nbytes
    for (stage, plane), held in state.items():
        # The last turn, which is the same in both steps, says to which axis.
        ends, begins = held.share_turned(reconfiguration_time), before[stage, plane]
        if abs(ends - begins) > 1e-3:
            raise VerificationError(
                f"plane {plane} at stage {stage} has made {ends:.1%} of its turn to {held.turning_to} when the step "
                f"ends and {begins:.1%} when it begins"
            )
    for axis, nbytes in demands.items():
        if abs(sent[axis] - nbytes) > 1e-6 * nbytes:
            raise VerificationError(f"{axis}: {sent[axis]:.0f} bytes are sent, of {nbytes:.0f}")


def _turn(interval: Interval, state: dict[tuple[int, int], _Plane], seconds: float, slack: float) -> None:
    """Turn the planes that an interval names (``planes``, numbers by axis, in its details) at its one stage to these
    axes, in ``state`` by stage and plane; what one interval leaves of a turn a later one may finish.

    ``seconds`` is the duration of a whole turn (with 0, every earlier turn counts as complete), ``slack`` the seconds
    by which moments may differ from rounding.

    Raises:
        VerificationError: a plane still sends, or has not finished a turn to another axis.
    """
    (stage,) = interval.details["stages"]
    for axis, planes in interval.details["planes"].items():
        for plane in planes:
            held = state[stage, plane]
            latest = max(held.busy_until.values(), default=_NEVER)
            if interval.start < latest - slack:
                raise VerificationError(
                    f"plane {plane} at stage {stage} turns from {interval.start} s on, but {held.owner} sends until "
                    f"{latest} s"
                )
            if held.turning_to not in (None, axis):
                owner = held.settled(seconds)
                if owner is None:
                    raise VerificationError(
                        f"plane {plane} at stage {stage} turns to {axis} before it has turned to {held.turning_to}"
                    )
                held.owner, held.turning_to, held.turned = owner, None, 0.0
            held.turning_to, held.turned = axis, held.turned + interval.duration
            held.turned_until = interval.end


def _transmit(interval: Interval, state: dict[tuple[int, int], _Plane], seconds: float, slack: float) -> None:
    """Check that planes can carry an interval, out of and into the ranks of a stage, or out of one stage's and into
    another's, and note in ``state``, by stage and plane, whose they are and until when they send.

    ``seconds`` is the duration of a turn, 0 for no check of who holds a plane; ``slack`` the seconds by which moments
    may differ from rounding.

    Raises:
        VerificationError: a plane turns, is another axis's or is in use.
    """
    stages = interval.details["stages"]
    sides = [(stages[0], "out"), (stages[-1], "in")]
    for axis, planes in interval.details["planes"].items():
        for plane in planes:
            for stage, side in sides:
                held, where = state[stage, plane], f"{interval.name!r}: plane {plane} at stage {stage}"
                owner = held.settled(seconds)
                if seconds and (owner is None or interval.start < held.turned_until - slack):
                    raise VerificationError(f"{where} turns until {held.turned_until} s, sent from {interval.start} s")
                if seconds and owner != axis:
                    raise VerificationError(f"{where} belongs to {owner}, not to {axis}")
                if owner is not None:
                    held.owner, held.turning_to, held.turned = owner, None, 0.0
                if interval.start < held.busy_until.get(side, _NEVER) - slack:
                    raise VerificationError(
                        f"{where} is in use until {held.busy_until[side]} s, sent from {interval.start} s"
                    )
                held.busy_until[side] = interval.end


def _check_rate(interval: Interval, bandwidth: float, slack: float) -> None:
    """Check that the bytes of a transmission fit into its interval on the planes of each axis, where axes that share
    one interval follow each other.

    ``bandwidth`` is in bytes per second of a plane, ``slack`` in seconds.

    Raises:
        VerificationError: they do not fit, or an axis sends without planes.
    """
    planes, sent = interval.details["planes"], interval.details.get("nbytes", {})
    for axis in sent:
        if not planes.get(axis):
            raise VerificationError(f"{interval.name!r} sends bytes of {axis} without planes")
    needed = sum(nbytes / (len(planes[axis]) * bandwidth) for axis, nbytes in sent.items())
    if needed > interval.duration * (1 + 1e-6) + slack:
        raise VerificationError(f"{interval.name!r} takes {interval.duration} s, but its bytes need {needed} s")
