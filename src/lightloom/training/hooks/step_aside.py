"""Whether compressing pays here: steps of both kinds are timed, and the faster kind is kept.

    warm-up │ C C C C │ P P P P │ C C C C │ P P P P │ the faster one … │ probe again …

A step reaches from one step's last bucket to the next one's, so that communication hidden behind the backward pass
counts as little as it costs. The first step of a block is of both kinds and is not counted. Ranks decide from the mean
of their medians, so that all decide alike. How long a decision stands follows from what a probe costs: at most one
percent of the steps in between.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

WARM_UP = 5
"""Steps before the first probe: DDP rebuilds its buckets, caches fill."""
BLOCK = 4
ROUNDS = 2
"""Blocks of each kind in a probe."""
SHORTEST_STAND = 200
"""Steps that a decision stands at the least."""
PROBE_SHARE = 0.01
"""What probing may cost, as a share of the time in between."""
HYSTERESIS = 0.05
"""How much faster the other kind must be for a change of mind."""

_LOG = logging.getLogger("lightloom.training")

Agree = Callable[[list[float]], list[float]]
"""Gives the same numbers on all ranks: the mean over ranks of what each brings."""


@dataclass(frozen=True, slots=True)
class Decision:
    """One outcome of a probe; seconds a step, mean over ranks."""

    step: int
    compressed: float
    plain: float
    aside: bool
    """Whether plain all-reduce was chosen."""

    def __str__(self) -> str:
        choice = "stepping aside" if self.aside else "compressing"
        return (
            f"step {self.step}: {1e3 * self.compressed:.1f} ms compressed, {1e3 * self.plain:.1f} ms with plain "
            f"all-reduce: {choice}"
        )


class StepAside:
    """Says for each step how to exchange it; told when steps end."""

    def __init__(self, agree: Agree, *, log: bool = False) -> None:
        """``log``: write each decision to the logger ``lightloom.training`` (INFO); for one rank."""
        self.aside = False
        """How to exchange the present step: with plain all-reduce?"""
        self.decisions: list[Decision] = []
        self._agree = agree
        self._log = log
        self._step = 0
        self._standing = False
        self._until_probe = WARM_UP
        self._plan: list[bool] = []
        self._at = 0
        self._last: float | None = None
        self._seconds: dict[bool, list[float]] = {False: [], True: []}

    @property
    def probing(self) -> bool:
        """Whether the present step is part of a probe."""
        return bool(self._plan)

    def end_step(self, now: float) -> None:
        """A step's last bucket came at ``now`` (seconds); chooses how to exchange the next step.

        Every rank must call it after every step: at the end of a probe it asks the others.
        """
        self._step += 1
        if self._plan:
            if self._at % BLOCK and self._last is not None:
                self._seconds[self.aside].append(now - self._last)
            self._at += 1
            if self._at == len(self._plan):
                self._decide()
        else:
            self._until_probe -= 1
            if self._until_probe <= 0:
                self._plan = ([self._standing] * BLOCK + [not self._standing] * BLOCK) * ROUNDS
                self._at = 0
                self._seconds = {False: [], True: []}
        self.aside = self._plan[self._at] if self._plan else self._standing
        self._last = now

    def state_dict(self) -> dict[str, int]:
        """The decision and how long it stands; a probe under way begins anew."""
        return {
            "step": self._step,
            "aside": int(self._standing),
            "until_probe": WARM_UP if self._plan else self._until_probe,
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue from a checkpoint."""
        self._step = int(state_dict["step"])
        self._standing = self.aside = bool(state_dict["aside"])
        self._until_probe = int(state_dict["until_probe"])
        self._plan, self._at, self._last = [], 0, None

    def _decide(self) -> None:
        compressed, plain = self._agree([median(self._seconds[False]), median(self._seconds[True])])
        here, there = (plain, compressed) if self._standing else (compressed, plain)
        needed = 1 - HYSTERESIS if self.decisions else 1.0
        if there < needed * here:
            self._standing = not self._standing
        slower, faster = max(compressed, plain), max(min(compressed, plain), 1e-9)
        probe = BLOCK * ROUNDS * (slower / faster - 1)
        self._until_probe = max(SHORTEST_STAND, math.ceil(probe / PROBE_SHARE))
        self._plan = []
        self.decisions.append(Decision(self._step, compressed, plain, self._standing))
        if self._log:
            _LOG.info("%s", self.decisions[-1])
