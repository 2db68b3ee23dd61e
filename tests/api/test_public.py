"""The public names: this list is the API, and changing it is a change of version."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import lightloom as ll

ROOT = Path(__file__).parents[2]
FUNCTIONS = {
    "accuracy",
    "averager",
    "bill",
    "calibrate",
    "collective",
    "compare",
    "compare_reducers",
    "compose",
    "cost",
    "goodput",
    "design",
    "load_cluster",
    "load_fabric",
    "lower_bound",
    "plan",
    "synthesize",
    "trace",
    "traffic",
    "verify",
}
TYPES = {"Accelerator", "Algorithm", "Codec", "Collective", "Fabric", "LightloomError", "Schedule"}


def test_the_public_names() -> None:
    assert set(ll.__all__) == FUNCTIONS | TYPES | {"__version__"}
    assert set(ll.__all__) <= set(dir(ll))
    assert all(callable(getattr(ll, name)) for name in FUNCTIONS)
    assert all(isinstance(getattr(ll, name), type) for name in TYPES)
    assert ll.__version__ == version("lightloom")
    with pytest.raises(AttributeError, match="no attribute 'planes'"):
        ll.planes  # noqa: B018


def test_every_public_name_is_documented() -> None:
    page = (ROOT / "docs" / "python-api.md").read_text()
    for name in FUNCTIONS | TYPES:
        assert f"`ll.{name}" in page, name
        assert getattr(ll, name).__doc__


def test_importing_loads_nothing_heavy() -> None:
    script = "import sys, lightloom; lightloom.__version__; print(*sys.modules)"
    loaded = set(
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    )
    assert not loaded & {"torch", "numba", "numpy", "pydantic", "matplotlib", "typer", "rich"}
    assert {name for name in loaded if name.startswith("lightloom")} == {"lightloom"}


@pytest.mark.long
def test_ranking_a_collective_loads_no_torch() -> None:
    script = "import sys, lightloom; lightloom.collective; lightloom.plan; lightloom.averager; print(*sys.modules)"
    loaded = set(
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    )
    assert not loaded & {"torch", "numba", "pandas", "pyarrow", "matplotlib"}


def test_nothing_inside_imports_the_root() -> None:
    for path in sorted((ROOT / "src" / "lightloom").rglob("*.py")):
        # Other modules have no such line, and are not parsed.
        if not re.search(r"import lightloom\b|from lightloom import|from \.", text := path.read_text()):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                assert all(alias.name != "lightloom" for alias in node.names), path
            if isinstance(node, ast.ImportFrom):
                assert node.module != "lightloom" and not node.level, path


FORMER = """
from lightloom.accelerators.base import Accelerator
from lightloom.collectives.registry import Algorithm
from lightloom.collectives.schedule.build import assign_wavelengths, moves
from lightloom.collectives.schedule.compose import from_all_gather
from lightloom.compression import Codec, Family, Inceptionn
from lightloom.compression.arrays import float32_target, float32_values
from lightloom.fabrics.base import Fabric
from lightloom.fabrics.bills.links import ports_for
from lightloom.fabrics.bills.switches import network
from lightloom.fabrics.conformance import check_fabric
from lightloom.fabrics.footprint import Footprint
from lightloom.parts.bill import Bill, Line
from lightloom.parts.load import load_part
from lightloom.training.hooks import attach_inceptionn, attach_optical_average, attach_schedule
import lightloom, sys

assert Fabric is lightloom.Fabric and Codec is lightloom.Codec and Accelerator is lightloom.Accelerator
for former, present in lightloom._FORMER.items():
    __import__(former)
    assert sys.modules[former] is sys.modules[present] and sys.modules[present].__spec__.name == present, former
"""
"""What the pages of 0.2 imported."""


@pytest.mark.long
def test_modules_that_were_public_keep_their_names_and_warn_once() -> None:
    command = [sys.executable, "-W", "error", "-W", "default::DeprecationWarning:__main__", "-c", FORMER]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    warnings = sorted(re.findall(r"^<string>:\d+: DeprecationWarning: (.*)$", told, re.MULTILINE))
    assert warnings == sorted(f"{former} is {present} now" for former, present in ll._FORMER.items())
