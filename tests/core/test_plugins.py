"""A plug-in that cannot be loaded, or is of another type than its group, is named."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest


def _install(folder: Path, entry_points: str) -> None:
    """What pip would leave behind for a small package, without running pip."""
    (folder / "my_package").mkdir()
    (folder / "my_package" / "__init__.py").write_text("")
    (folder / "my_package" / "halves.py").write_text("def star(collective, fabric, *, striped=False): ...\n")
    information = folder / "my_package-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(entry_points)


def _run(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(folder)}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)


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
