"""A user's own package adds an algorithm and a fabric through entry points, as docs/extending.md says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs" / "extending.md"

_USE = """
from lightloom.collectives.registry import build, find
from lightloom.collectives.spec import FROM_ALL_GATHER, Collective
from lightloom.fabrics.load import fabric_from
fabric = fabric_from({"kind": "slow-star"}, 9, where="test")
for kind in FROM_ALL_GATHER:
    print(kind, build(find("star"), Collective(kind, 9, 9e6), fabric).steps)
"""
_FABRIC = """
from typing import Literal
from lightloom.fabrics.packet_switch import PacketSwitch

class SlowStar(PacketSwitch):
    kind: Literal["slow-star"] = "slow-star"
    bandwidth: float = 1e6
"""


def _install(folder: Path, entry_points: str) -> None:
    """What pip would leave behind for a small package, without running pip."""
    code = re.search(r"```python\n# my_package/halves\.py\n(.*?)```", DOCS.read_text(), flags=re.DOTALL)
    assert code is not None
    (folder / "my_package").mkdir()
    (folder / "my_package" / "__init__.py").write_text("")
    (folder / "my_package" / "halves.py").write_text(code[1])
    (folder / "my_package" / "fabric.py").write_text(_FABRIC)
    information = folder / "my_package-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(entry_points)


def _run(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(folder)}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)


def test_the_documented_algorithm_and_a_fabric_plug_in(tmp_path: Path) -> None:
    _install(
        tmp_path,
        "[lightloom.algorithms]\nstar = my_package.halves:STAR\n"
        "[lightloom.fabrics]\nslow-star = my_package.fabric:SlowStar\n",
    )
    done = _run(tmp_path, _USE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["all-gather", "2", "reduce-scatter", "2", "all-reduce", "4"]


@pytest.mark.parametrize(
    ("point", "complaint"),
    [
        ("star = my_package.nowhere:STAR", "plug-in 'star' .* in group lightloom.algorithms fails"),
        ("star = my_package.halves:star", "plug-in 'star' .*: expected an Algorithm"),
    ],
)
def test_a_broken_plug_in_is_named(tmp_path: Path, point: str, complaint: str) -> None:
    _install(tmp_path, f"[lightloom.algorithms]\n{point}\n")
    done = _run(tmp_path, "from lightloom.collectives.registry import find\nfind('ring')")
    assert re.search(f"ConfigError: {complaint}", done.stderr), done.stderr
