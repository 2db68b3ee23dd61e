"""Seconds of operators as they were measured, at the batch and on the machine of a trace."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lightloom.core.errors import WorkloadError


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredTimes:
    """Seconds of one graph's operators; pricing starts from them, and scales them as the priced times change.

    Raises:
        WorkloadError: a time is negative or no number.
    """

    batch: int
    """Samples of the trace."""
    forward: tuple[float | None, ...]
    """Seconds of every operator's forward pass, in the graph's order; None where the trace does not say."""
    backward: tuple[float | None, ...]
    """The same of its backward pass, for one forward pass."""
    machine: str = ""
    """What was measured on, as the trace names it; empty where it does not."""
    clock: str = ""
    """What was timed: ``kernels of the accelerator``, ``calls on the host`` or ``durations that the trace states``."""
    accelerator: str | None = None
    """The same as an accelerator of the catalog or a YAML file; None where it is taken to be the plan's."""
    precision: str = ""
    """Number format in which it was computed; empty where the trace does not say."""

    def __post_init__(self) -> None:
        for seconds in (*self.forward, *self.backward):
            if seconds is not None and not 0 <= seconds < math.inf:
                raise WorkloadError(f"a measured time of {seconds!r} seconds: expected 0 or more")

    @property
    def seconds(self) -> float:
        """Seconds of all operators together."""
        return sum(value for value in (*self.forward, *self.backward) if value is not None)

    def to_json(self) -> dict[str, Any]:
        """Return plain values, read back by :meth:`from_json`."""
        return {
            "batch": self.batch,
            "forward_s": list(self.forward),
            "backward_s": list(self.backward),
            "machine": self.machine,
            "clock": self.clock,
            "accelerator": self.accelerator,
            "precision": self.precision,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> MeasuredTimes:
        """Read what :meth:`to_json` returns."""
        fields = dict(document)
        return cls(forward=tuple(fields.pop("forward_s")), backward=tuple(fields.pop("backward_s")), **fields)
