"""The processes that the tests of hooks and executors share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from lightloom.training.transport.launch import Outcome, launch

RANKS = 4
TIMEOUT = 900.0
"""Seconds for a launch; far above what a busy machine needs, so that only a hang reaches it."""


@dataclass(frozen=True, slots=True)
class Processes:
    """How each rank ended, and what all ranks found before the first one was killed."""

    outcomes: list[Outcome]

    def results(self, name: str) -> list[Any]:
        """The results of a part, by rank."""
        survivor = self.outcomes[0]
        assert survivor.error is None, f"{survivor.error}\n{survivor.log}"
        return [result[name] for result in survivor.value["results"]]


@pytest.fixture(scope="session")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Processes:
    """One launch of four ranks for all laws; ranks 2 and 1 are killed at its end."""
    folder = str(tmp_path_factory.mktemp("processes"))
    return Processes(launch("tests.training.processes:everything", RANKS, TIMEOUT, {"folder": folder}, check=False))
