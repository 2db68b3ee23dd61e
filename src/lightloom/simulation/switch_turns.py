"""When an optical circuit switch is set anew within a step, and what of that a rank waits for.

    planes   │ data ─ turn ─│ tensor, pipeline              │ tensor, pipeline, data │─ turn ─ data    │─ turn ─
    rank     │ gather  lead ▓▓▓▓ passes ▓▓▓▓ passes ▓▓▓▓▓▓▓▓│▓▓▓ last pass ▓▓ tail   │ gradients       │ update

Planes turn from the last byte that their old groups send; those who are given planes wait for the turn, the others go
on. What a turn and computing have in common is hidden: the optimizer's update before the first phase, the *lead* of the
first pass before its first exchange, the *tail* of the last pass after its last exchange.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Self

import numpy as np

from lightloom.core.arrays import Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchTurns:
    """Seconds of turns of a step of stages: a turn's length where planes that a phase uses are set anew, else 0."""

    start: Floats
    """Before the gather of parameters, what the last step's update has not hidden; each [stages]."""
    passes: Floats
    """Before the first exchange of the first pass, after the gather."""
    lead: Floats
    """Computing of the first pass before its first exchange."""
    last: Floats
    """For the gradients that are exchanged beside the last backward pass, from its begin on."""
    gradients: Floats
    """For those that are exchanged after it, from its last exchange on."""
    tail: Floats
    """Computing of the last backward pass after its last exchange."""
    waits_for_send: Floats
    """1 where planes of the pipeline turn after the last pass, which waits for the last send of the stage; else
    0."""
    exchange: Floats
    """Before what is exchanged after that."""
    tied: Floats
    """Before the sums over tied tables."""
    update: Floats
    """After the last exchange, beside the update."""

    @classmethod
    def none(cls, stages: int) -> Self:
        """Return turns of circuits that stand for the whole step."""
        return cls(**{each.name: np.zeros(stages) for each in fields(cls)})

    @property
    def columns(self) -> Floats:
        """What a compiled step takes of them: [10, stages]."""
        return np.stack([np.asarray(getattr(self, each.name), np.float64) for each in fields(self)])
