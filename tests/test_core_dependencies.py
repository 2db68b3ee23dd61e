"""With the core dependencies alone every module can be imported, but for those that exist to run torch."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from lightloom.core import kernels
from lightloom.planning.simulation.kernels import longest_paths

_ROOT = Path(__file__).parents[1]
_NEED_TORCH = (
    "app.cli.exchange_training",
    "exchange.comparison",
    "exchange.distributed",
    "exchange.execution",
    "exchange.gpu",
    "exchange.hooks",
    "exchange.transport.gloo",
    "models.torch",
    "papers.runs",
    "photonics.onn",
)
"""Packages and modules whose work is torch's; commands import them when they are called."""
_OTHER_NAMES = {"mlc-chakra": "chakra", "protobuf": "google"}

_ABSENT = """
import importlib.util, json, sys
from importlib.abc import MetaPathFinder

optional = set(json.loads(sys.argv.pop(1)))

class Absent(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in optional:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name in optional else found(name, *rest)
sys.meta_path.insert(0, Absent())
"""
_COMMAND = "from lightloom.app.cli.main import main; main()"
_SCRIPT = """
import importlib, json, sys
from pathlib import Path
import lightloom

root = Path(lightloom.__file__).parent
missing = {}
for path in sorted(root.rglob("*.py")):
    name = ".".join(path.relative_to(root.parent).with_suffix("").parts).removesuffix(".__init__")
    if path.name != "__main__.py":
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            missing[name.removeprefix("lightloom.")] = error.name
print(json.dumps(missing))
"""


def _optional() -> set[str]:
    """Packages that only extras name."""
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]
    names = {re.split(r"[\[<>=; ]", line)[0] for extra in project["optional-dependencies"].values() for line in extra}
    core = {re.split(r"[\[<>=; ]", line)[0] for line in project["dependencies"]}
    return {_OTHER_NAMES.get(name, name.replace("-", "_")) for name in names - core}


def _run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program where only the core dependencies can be imported."""
    command = [sys.executable, "-c", _ABSENT + program, json.dumps(sorted(_optional())), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_every_module_is_imported_with_the_core_dependencies() -> None:
    done = _run(_SCRIPT)
    missing = json.loads(done.stdout)
    assert set(missing.values()) <= {"torch", "triton"}, missing
    elsewhere = [name for name in missing if not name.startswith(_NEED_TORCH)]
    assert elsewhere == []


_QUESTIONS = (
    "plan resnet50 --cluster terarack-64 --no-what-if",
    "plan gpt2-355m --cluster inceptionn-4 --no-what-if",
    "collective all-reduce --fabric torus --ranks 16 --nbytes 1MB",
    "collective all-to-all --fabric circuit-switch --ranks 16 --nbytes 1MB",
    "goodput dgx-h100-64 --simulate",
    "onn build --bits 4 --servers 4",
)


@pytest.mark.slow
@pytest.mark.skipif(not kernels._BUILT, reason="needs a C compiler")
@pytest.mark.parametrize("question", _QUESTIONS)
def test_answers_are_the_same_with_the_core_dependencies(question: str) -> None:
    assert longest_paths.name in kernels._BUILT, "stale: python -m lightloom.app.api.compile_ahead builds them anew"
    alone = _run(_COMMAND, *question.split(), "--json")
    assert alone.returncode == 0, alone.stderr
    compiled_here = "from lightloom.core import kernels; kernels._BUILT = {}; "
    command = [sys.executable, "-c", compiled_here + _COMMAND, *question.split(), "--json"]
    ours, full = (json.loads(text) for text in (alone.stdout, subprocess.check_output(command, text=True)))
    for document in (ours, full):
        document.pop("provenance")
    assert ours == full


@pytest.mark.long
def test_what_needs_an_extra_names_it_before_the_work(tmp_path: Path) -> None:
    plan = ("plan", "gpt2-355m", "--cluster", "dgx-h100-512")
    for option in (("--report", str(tmp_path / "a.html")), ("--figure", str(tmp_path / "a.png"))):
        done = _run(_COMMAND, *plan, *option)
        assert (done.returncode, done.stdout) == (2, "")
        assert "need Matplotlib, which is not installed: pip install 'lightloom[figures]'" in done.stderr
    assert list(tmp_path.iterdir()) == []
