"""Whether compression pays: steps with and without it are timed, and the faster kind is used until the next probe.

Plain is what torch itself would do: the all-reduce of DDP, the reduce-scatter of FSDP2.

    warm-up │ C C C C │ P P P P │ C C C C │ P P P P │ the faster kind … │ next probe …

C is a step with compression, P a plain one. A step lasts from one step's last bucket to the next one's,
so that communication hidden behind the backward pass counts as little as it costs. The first step of each block mixes
both kinds and is not counted. Ranks decide from the mean of their medians, so that all decide alike. The time until the
next probe follows from what a probe costs: at most one percent of the steps in between.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median

from lightloom.training.gradients.state_dict import SavedState, StateDict

WARM_UP = 5
"""Steps before the first probe, in which DDP rebuilds its buckets and caches fill."""
BLOCK = 4
"""Steps of one kind in a row."""
ROUNDS = 2
"""Blocks of each kind in a probe."""
LEAST_STEPS_BETWEEN = 200
"""Least number of steps between two probes."""
PROBE_SHARE = 0.01
"""Largest share of the time that probing may cost."""
HYSTERESIS = 0.05
"""Share of the step time by which the other kind must be faster for a later decision to change."""

_LOG = logging.getLogger("lightloom.training")
_KEY, _KEY_IN_0_1 = "adaptive", "step_aside"

Agree = Callable[[list[float]], list[float]]
"""Returns the mean over ranks of the numbers that each rank passes; the same on all ranks."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Outcome of one probe; times are means over ranks, in seconds per step."""

    step: int
    compressed: float
    plain: float
    use_plain: bool
    """Whether the plain exchange was chosen."""
    plain_name: str = "plain all-reduce"
    """Name of the plain exchange."""

    def __str__(self) -> str:
        choice = self.plain_name if self.use_plain else "compression"
        return (
            f"step {self.step}: {1e3 * self.compressed:.1f} ms with compression, {1e3 * self.plain:.1f} ms with "
            f"{self.plain_name}; {choice} from now on"
        )


class AdaptiveCompression:
    """Chooses for each step between compression and the plain exchange."""

    def __init__(self, agree: Agree, *, log: bool = False, plain_name: str = "plain all-reduce") -> None:
        """Begin with the warm-up; with ``log``, each decision goes to the logger ``lightloom.training`` (INFO)."""
        self.use_plain = False
        """Whether the present step is exchanged plainly."""
        self._plain_name = plain_name
        self.decisions: list[Decision] = []
        self._agree = agree
        self._log = log
        self._step = 0
        self._decided_plain = False
        self._until_probe = WARM_UP
        self._probe: list[bool] = []
        self._position = 0
        self._last_end: float | None = None
        self._seconds: dict[bool, list[float]] = {False: [], True: []}

    def end_step(self, now: float) -> None:
        """Choose the kind of the next step; ``now`` is when the last bucket of this step came, in seconds.

        Every rank must call it after every step: at the end of a probe all ranks exchange their times.
        """
        self._step += 1
        if self._probe:
            if self._position % BLOCK and self._last_end is not None:
                self._seconds[self.use_plain].append(now - self._last_end)
            self._position += 1
            if self._position == len(self._probe):
                self._decide()
        else:
            self._until_probe -= 1
            if self._until_probe <= 0:
                self._probe = ([self._decided_plain] * BLOCK + [not self._decided_plain] * BLOCK) * ROUNDS
                self._position = 0
                self._seconds = {False: [], True: []}
        self.use_plain = self._probe[self._position] if self._probe else self._decided_plain
        self._last_end = now

    def state_dict(self) -> dict[str, int]:
        """The decision and the steps until the next probe; a probe under way is repeated."""
        return {
            "step": self._step,
            "use_plain": int(self._decided_plain),
            "until_probe": WARM_UP if self._probe else self._until_probe,
        }

    def load_state_dict(self, state_dict: Mapping[str, int]) -> None:
        """Continue from a checkpoint; version 0.1 called ``use_plain`` ``aside``."""
        self._step = int(state_dict["step"])
        self._decided_plain = self.use_plain = bool(state_dict["use_plain" if "use_plain" in state_dict else "aside"])
        self._until_probe = int(state_dict["until_probe"])
        self._probe, self._position, self._last_end = [], 0, None

    def _decide(self) -> None:
        compressed, plain = self._agree([median(self._seconds[False]), median(self._seconds[True])])
        present, other = (plain, compressed) if self._decided_plain else (compressed, plain)
        needed = 1 - HYSTERESIS if self.decisions else 1.0
        if other < needed * present:
            self._decided_plain = not self._decided_plain
        slower, faster = max(compressed, plain), max(min(compressed, plain), 1e-9)
        probe = BLOCK * ROUNDS * (slower / faster - 1)
        self._until_probe = max(LEAST_STEPS_BETWEEN, math.ceil(probe / PROBE_SHARE))
        self._probe = []
        self.decisions.append(Decision(self._step, compressed, plain, self._decided_plain, self._plain_name))
        if self._log:
            _LOG.info("%s", self.decisions[-1])


def joined(residuals: SavedState, adaptive: AdaptiveCompression | None) -> StateDict:
    """Return the checkpoint of a hook: its residuals and its adaptive choice, if it has one."""
    return dict(residuals) | ({} if adaptive is None else {_KEY: adaptive.state_dict()})


def divided(state_dict: SavedState, adaptive: AdaptiveCompression | None) -> StateDict:
    """Restore the adaptive choice from the checkpoint of a hook, and return the residuals in it.

    Version 0.1 wrote the choice under another key.
    """
    residuals = dict(state_dict)
    choice = residuals.pop(_KEY_IN_0_1, None)
    choice = residuals.pop(_KEY, choice)
    if adaptive is not None and choice is not None:
        adaptive.load_state_dict(choice)
    return residuals
