"""What of a mutation run is taken from runs before: maps of tests, and compiled kernels."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from scripts.mutation import reach
from scripts.mutation.reach import Digests
from scripts.mutation.selection import Module, stale_kernels

KERNELS = """
from package.tables import TABLE

SIZE = length(3)

@njit
def kernel(x):
    return TABLE[x]

def outside(x):
    return kernel(x)
"""


def _modules(**texts: str) -> dict[str, Module]:
    names = {f"package.{name}": text for name, text in texts.items()}
    return {
        name: Module(name, Path(name), text, ast.parse(text), frozenset(other for other in names if other in text))
        for name, text in names.items()
    }


def test_kernels_are_compiled_anew_where_they_can_hold_what_changed() -> None:
    modules = _modules(kernels=KERNELS, tables="TABLE = _table()\n\ndef _table():\n    return 1\n\ndef other(): ...")
    both = frozenset(modules)
    assert stale_kernels(modules, "package.kernels", "kernel") == {"package.kernels"}
    assert stale_kernels(modules, "package.kernels", "outside") == frozenset()
    assert stale_kernels(modules, "package.tables", "") == both
    assert stale_kernels(modules, "package.tables", "_table") == both
    assert stale_kernels(modules, "package.tables", "other") == frozenset()


def test_a_test_file_is_mapped_anew_only_where_it_or_what_it_loads_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "src/lightloom").mkdir(parents=True)
    monkeypatch.setattr(reach, "ROOT", tmp_path)
    monkeypatch.setattr(reach, "SOURCE", tmp_path / "src")
    test, shared = tmp_path / "tests/test_a.py", tmp_path / "tests/conftest.py"
    for file in (test, shared):
        file.write_text("a = 1")

    def digest(**texts: str) -> str:
        return Digests(_modules(**texts)).of("tests/test_a.py", ["package.loaded"])

    first = digest(loaded="x = 1", other="y = 1")
    assert digest(loaded="x = 1", other="y = 2") == first
    assert digest(loaded="x = 2", other="y = 1") != first
    assert digest(other="y = 1") != first
    for file in (test, shared):
        before = digest(loaded="x = 1")
        file.write_text("a = 2")
        assert digest(loaded="x = 1") != before
