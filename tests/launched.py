"""The processes that the tests of hooks, executors and exchanges share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from lightloom.exchange.transport.launch import Outcome, launch

RANKS = 4
TIMEOUT = 900.0
"""Seconds for a launch; far above what a busy machine needs, so that only a hang reaches it."""


def can_shard() -> bool:
    """Whether torch lets FSDP2's reduce-scatter be replaced; where it does, gloo also sends complex numbers."""
    from torch.distributed.fsdp import FSDPModule

    return hasattr(FSDPModule, "set_custom_reduce_scatter")


@dataclass(frozen=True, slots=True)
class Processes:
    """How each rank ended, and what all ranks found before the first one was killed."""

    outcomes: list[Outcome]

    def results(self, name: str) -> list[Any]:
        """The results of a part, by rank."""
        survivor = self.outcomes[0]
        assert survivor.error is None, f"{survivor.error}\n{survivor.log}"
        return [result[name] for result in survivor.value["results"]]


def launch_parts(folders: Iterable[str], scratch: str) -> Processes:
    """Launch four ranks for the tests in these folders."""
    from tests.exchange import test_distributed, test_fsdp, test_matrix

    arguments: dict[str, object] = {"folders": sorted(folders), "folder": scratch}
    for part in (test_distributed.ARGUMENTS, test_fsdp.ARGUMENTS, test_matrix.ARGUMENTS):
        arguments.update(part)
    return Processes(launch("tests.processes:everything", RANKS, TIMEOUT, arguments, check=False))
