"""Settings of all tests: Hypothesis draws afresh on a developer's machine and repeats itself where ``CI`` is set."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

settings.register_profile("local", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("local"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")

if not Path("/dev/nvidiactl").exists():
    # Before anything imports Triton: without a GPU its kernels run in its interpreter.
    os.environ.setdefault("TRITON_INTERPRET", "1")


@pytest.fixture(autouse=True, scope="session")
def little_effort() -> Iterator[None]:
    """Synthesis that many tests draw among other algorithms: any design will do for what they prove."""
    from lightloom.collectives.synthesis.engine import effort

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(effort, "SCALE", 1 / 300)
        yield


class _ByFile(LoadFileScheduling):  # type: ignore[misc]
    """Costly fixtures belong to a file, and are made once; hooks and executors share one launch of four ranks."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return "launch" if file.startswith(("tests/training/hooks/", "tests/training/schedules/")) else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadFileScheduling:
    """Hand whole files to the processes of ``--numprocesses``."""
    return _ByFile(config, log)
