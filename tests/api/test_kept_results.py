"""Results that no refactoring may change, to the last digit (:mod:`scripts.kept_results`)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "tests" / "kept_results"
GROUPS = sorted(path.name.removesuffix(".json.xz") for path in KEPT.glob("*.json.xz"))
FEW = (
    "collective.all-gather.wdm-ring.16",
    "collective.all-reduce.dgx-h100.16",
    "collective.all-to-all.torus.16",
    "collective.permute.circuit-switch.8",
    "plan.gpt2-355m.dgx-a100-64.16",
    "plan.option.paper",
    "reproduce.economics",
)
"""Cases that take a second together."""


def compare(*prefixes: str) -> None:
    """Compare cases in a process of their own: its synthesis makes all the effort that these tests do without."""
    only = [word for prefix in prefixes for word in ("--only", prefix)]
    command = [sys.executable, "-m", "scripts.kept_results", "--compare", str(KEPT), *only]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_few_results_are_as_kept() -> None:
    compare(*FEW)


@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS)
def test_all_results_are_as_kept(group: str) -> None:
    compare(f"{group}.")
