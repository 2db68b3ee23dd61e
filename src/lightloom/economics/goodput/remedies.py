"""What can follow a failed link: a restart on a spare node, a spare channel by rewiring, or slower steps for a while.

restart   the node leaves until it is repaired, and the job restarts on a spare one
rewire    circuits move to a spare channel, and the job restarts where it was
damaged   the job restarts where it was with schedules around the failure, slower until that is repaired, and restarts
          once more then
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from lightloom.economics.goodput.causes import Cause
from lightloom.economics.goodput.damage_prices import damage_price
from lightloom.economics.goodput.options import GoodputOptions, Remedy
from lightloom.economics.goodput.recovery import Recovery
from lightloom.fabrics.base import Fabric


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """One way to go on after a failure of one cause; missing where ``why`` says why it cannot be chosen."""

    remedy: Remedy
    restart: float = 0.0
    """Seconds until the job computes again."""
    restarts: int = 1
    """Interruptions that one failure makes."""
    slowdown: float = 1.0
    """Times as long as a step takes until the repair."""
    possible: bool = True
    why: str = ""
    """What its price rests on, or why it is missing."""

    def speed(self, rate: float, repair: float) -> float:
        """Return the mean speed of steps while ``rate`` failures a second are repaired ``repair`` seconds later each.

        So many failures at once have a Poisson distribution of mean rate · repair, and each multiplies the time of a
        step by ``slowdown``: the mean of slowdown^−n is e^{−rate · repair · (1 − 1/slowdown)}.
        """
        return math.exp(-rate * repair * (1 - 1 / self.slowdown))


def responses(
    cause: Cause, fabric: Fabric, recovery: Recovery, options: GoodputOptions, price: bool
) -> tuple[Response, ...]:
    """Return every way to go on after a failure of a network part, those that are missing included.

    Args:
        cause: the failure.
        fabric: where it happens.
        recovery: parts of restarts.
        options: what the user states.
        price: whether damage is priced by synthesis, which takes seconds.
    """
    restart = Response(remedy="restart", restart=recovery.seconds("node"), why="the node leaves until it is repaired")
    return (restart, _rewire(fabric, recovery, options), _damaged(cause, fabric, recovery, options, price))


def _rewire(fabric: Fabric, recovery: Recovery, options: GoodputOptions) -> Response:
    if not (recovery.circuits or fabric.wavelength_routed):
        return Response(
            remedy="rewire", possible=False, why=f"a fabric of kind {fabric.kind_name} has no circuits to rewire"
        )
    if options.spare_channels == 0:
        return Response(remedy="rewire", possible=False, why="no rank has a spare channel (spare_channels is 0)")
    return Response(
        remedy="rewire",
        restart=recovery.seconds("rewire"),
        why=f"{options.spare_channels} spare channels of every rank",
    )


def _damaged(cause: Cause, fabric: Fabric, recovery: Recovery, options: GoodputOptions, price: bool) -> Response:
    if options.damage_slowdown is not None:
        slowdown, why = options.damage_slowdown, f"collectives take {options.damage_slowdown:g} times as long, as given"
    elif not price and fabric.may_fail:
        return Response(remedy="damaged", possible=False, why="not priced here: lightloom goodput does")
    else:
        priced = damage_price(fabric, cause.kind, options.message)
        if priced.slowdown is None:
            return Response(remedy="damaged", possible=False, why=priced.why)
        slowdown, why = priced.slowdown, priced.why
    share = 1.0 if options.communication is None else options.communication
    note = "assumption: all of a step is communication" if options.communication is None else f"{share:.0%} of a step"
    return Response(
        remedy="damaged",
        restart=recovery.seconds("damaged"),
        restarts=2,
        slowdown=1 + share * (slowdown - 1),
        why=f"{why}; {note}",
    )
