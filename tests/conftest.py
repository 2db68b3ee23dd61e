"""Settings of all tests: Hypothesis draws afresh on a developer's machine and repeats itself where ``CI`` is set."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("local", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("local"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")

if not Path("/dev/nvidiactl").exists():
    # Before anything imports Triton: without a GPU its kernels run in its interpreter.
    os.environ.setdefault("TRITON_INTERPRET", "1")

SHARED = ("processes", "study", "rows", "everything", "verified", "values", "whole")
"""Fixtures of a module or of the session that cost far more than the tests that use them."""


@pytest.fixture(autouse=True, scope="session")
def little_effort() -> Iterator[None]:
    """Synthesis that many tests draw among other algorithms: any design will do for what they prove."""
    from lightloom.collectives.synthesis.engine import effort

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(effort, "SCALE", 1 / 300)
        yield


@pytest.hookimpl(tryfirst=True)  # before the plug-in that reads the mark
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests that share a costly fixture in one process (``--dist loadgroup``), so that it is made once."""
    for item in items:
        shared = next((name for name in SHARED if name in getattr(item, "fixturenames", ())), None)
        if shared:
            item.add_marker(pytest.mark.xdist_group(shared if shared == "processes" else f"{item.path.stem} {shared}"))
