"""Training time on SiP-OCS and SiP-Ring against electrical switches, by bandwidth and size.

    best split       of k = 1, 2, 4, ... devices a group, and of the quanta
    data parallel    k = 1: the whole model on every GPU, plain ring all-reduce
    scripts' model   computing + 2 · weights · 8 / B, with the weights of the authors' scripts

All at the authors' global batch, so that the ratio of steps is the ratio of training times.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import nan
from pathlib import Path
from typing import Any, NamedTuple, Self

from lightloom.core.errors import ConfigError
from lightloom.studies.sipml import PAPER
from lightloom.studies.sipml.data_parallel import ring_time
from lightloom.studies.sipml.paper import JOBS, RANKS
from lightloom.studies.sipml.systems import System

NAME = "comparison"
"""Name of the file of measurements, without suffix."""


class Choice(NamedTuple):
    """A split and the duration of its step."""

    k: int
    seconds: float


def result_key(model: str, system: System, gbps: float, ranks: int = RANKS, accelerator: str = "a100") -> str:
    """Return the key of results of placed plans."""
    return f"{model} {accelerator} {system} {ranks} {gbps:g}"


def rival_key(system: System, gbps: float) -> str:
    """Return the key of results of the planner's search."""
    return f"rivals {system} {gbps:g}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Measurements by key."""

    results: Mapping[str, Any]
    inputs: Mapping[str, str] = field(default_factory=dict)
    """Hash of what each part was made from; none in files from before hashes were stored."""

    @classmethod
    def load(cls, folder: Path | None = None) -> Self:
        """Load the measurements of the package, or those of a folder.

        Raises:
            ConfigError: the file in ``folder`` cannot be read, or has no results.
        """
        document = PAPER.measured(NAME, folder)
        if "results" not in document:
            raise ConfigError(f"cannot read '{folder}/{NAME}.json': expected 'results'")
        return cls(document["results"], document.get("inputs", {}))

    def rows(
        self, model: str, system: System, gbps: float, ranks: int = RANKS, accelerator: str = "a100"
    ) -> dict[int, dict[str, Any]]:
        """Return the results by k, without refused splits."""
        by_k = self.results[result_key(model, system, gbps, ranks, accelerator)]
        return {int(k): row for k, row in by_k.items() if "step_s" in row}

    def best(
        self, model: str, system: System, gbps: float, ranks: int = RANKS, accelerator: str = "a100"
    ) -> Choice | None:
        """Return the fastest split; None if no split fits the memory."""
        choices = [Choice(k, row["step_s"]) for k, row in self.rows(model, system, gbps, ranks, accelerator).items()]
        return min(choices, key=lambda each: each.seconds, default=None)

    def seconds(self, model: str, system: System, gbps: float, k: int) -> float:
        """Return the duration of a step of one k on 1,024 GPUs in seconds; NaN if it was refused."""
        row = self.rows(model, system, gbps).get(k)
        return nan if row is None else float(row["step_s"])

    def rival(self, model: str, system: System, gbps: float, which: str = "search") -> dict[str, Any]:
        """``search``: the winner of all strategies; ``ddp`` or ``fsdp``: of data parallelism alone."""
        row: dict[str, Any] = self.results[rival_key(system, gbps)][model][which]
        return row

    def speedup(self, model: str, system: System, gbps: float, today: float, accelerator: str = "a100") -> float:
        """Times as fast as an electrical switch of ``today`` Gb/s, or of ``gbps`` where that is less; best splits."""
        optical = self.best(model, system, gbps, accelerator=accelerator)
        electrical = self.best(model, "electrical", min(gbps, today), accelerator=accelerator)
        return electrical.seconds / optical.seconds if optical and electrical else nan

    def script_speedup(self, model: str, gbps: float, today: float, weights: float | None = None) -> float:
        """The same by the authors' script model, data parallelism: computing + 2 · weights · 8 / B.

        Args:
            model: whose computing on our accelerator is taken, k = 1.
            gbps: B.
            today: Gb/s of the electrical switch.
            weights: bytes; the scripts' unless given.
        """
        computing = self.rows(model, "electrical", gbps)[1]["makespan_s"]
        nbytes = JOBS[model].weights if weights is None else weights
        slow, fast = (computing + ring_time(nbytes, each) for each in (min(gbps, today), gbps))
        return float(slow / fast)
