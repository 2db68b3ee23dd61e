"""With the core dependencies alone every module can be imported, but for those that exist to run torch."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[1]
_NEED_TORCH = (
    "workloads.torch",
    "exchange.distributed",
    "exchange.comparison",
    "photonics.onn",
    "training",
    "cli.exchange.compare",
)
"""Packages and modules whose work is torch's; commands import them when they are called."""
_OTHER_NAMES = {"mlc-chakra": "chakra", "protobuf": "google"}

_SCRIPT = """
import importlib, json, sys
from importlib.abc import MetaPathFinder
from pathlib import Path

optional = set(json.loads(sys.argv[1]))

class Absent(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in optional:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
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


@pytest.mark.slow
def test_every_module_is_imported_with_the_core_dependencies() -> None:

    command = [sys.executable, "-c", _SCRIPT, json.dumps(sorted(_optional()))]
    missing = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert set(missing.values()) <= {"torch", "triton"}, missing
    elsewhere = [name for name in missing if not name.startswith(_NEED_TORCH)]
    assert elsewhere == []
