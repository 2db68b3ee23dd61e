"""Kernels compiled ahead are taken where nothing has changed, and compiled anew where something has."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from numba.core import config
from numba.core.registry import cpu_target

from lightloom.app.api import compile_ahead
from lightloom.core import kernels
from lightloom.core.kernels import KernelCache

_HELPER = "from lightloom.core.kernels import njit_cached\n\n\n@njit_cached\ndef step():\n    return {step}\n"
_CALLER = """
from lightloom.core.kernels import njit_cached
from lightloom._helper_kernels import step

@njit_cached
def count(number):
    return number * step()
"""


@pytest.fixture
def caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """A function that imports anew a kernel that calls another one: what is compiled ahead lies in one folder, what
    numba keeps in a new one each time."""
    package = importlib.import_module("lightloom")
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    monkeypatch.setattr(kernels, "AHEAD", tmp_path / "compiled")
    monkeypatch.setattr(kernels, "_ANY_PROCESSOR", cpu_target.target_context.codegen().magic_tuple()[1:])
    (tmp_path / "_caller_kernels.py").write_text(_CALLER)

    def load(step: int, *, ahead: bool = False) -> Any:
        (tmp_path / "_helper_kernels.py").write_text(_HELPER.format(step=step))
        monkeypatch.setattr(KernelCache, "fills_ahead", ahead)
        monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / f"numba-{len(list(tmp_path.iterdir()))}"))
        forget()
        importlib.invalidate_caches()
        return importlib.import_module("lightloom._caller_kernels").count

    def forget() -> None:
        kernels.source_stamp.cache_clear()
        for name in ("lightloom._caller_kernels", "lightloom._helper_kernels"):
            sys.modules.pop(name, None)

    yield load
    forget()


def test_kernels_are_taken_from_what_was_compiled_ahead(caller: Callable[..., Any]) -> None:
    assert caller(2, ahead=True)(21) == 42
    assert {path.suffix for path in kernels.AHEAD.rglob("*.nb?")} == {".nbi", ".nbc"}
    # Whatever version of Python compiled it: its hashes of bytecode and its number are in neither keys nor names.
    assert [path.name for path in kernels.AHEAD.rglob("*.py3*")] == []
    kept = caller(2)
    assert kept(21) == 42
    assert sum(kept.stats.cache_hits.values()) == 1 and not kept.stats.cache_misses
    # Of other types nothing was compiled.
    assert kept(0.5) == 1.0
    assert sum(kept.stats.cache_misses.values()) == 1


def test_a_change_in_a_kernel_that_another_calls_compiles_both_anew(caller: Callable[..., Any]) -> None:
    assert caller(2, ahead=True)(21) == 42
    assert caller(10)(21) == 210
    assert caller(2)(21) == 42


def test_what_is_compiled_ahead_does_not_depend_on_what_was_searched_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lightloom.collectives.synthesis.engine import cache

    ahead = tmp_path / "compiled"
    ahead.mkdir()
    (ahead / "stale.nbc").touch()
    caches = []

    def search() -> None:
        ahead.mkdir()
        (ahead / "new.nbc").touch()
        caches.append(os.environ["LIGHTLOOM_CACHE"])
        assert list(Path(caches[-1]).iterdir()) == []

    monkeypatch.setattr(compile_ahead, "_search", search)
    monkeypatch.setattr(compile_ahead, "_encode", lambda: None)
    monkeypatch.setattr(kernels, "AHEAD", ahead)
    monkeypatch.setattr(KernelCache, "fills_ahead", False)
    monkeypatch.setattr(cache, "SCALE", cache.SCALE)
    monkeypatch.setattr(os, "environ", os.environ | {"LIGHTLOOM_CACHE": str(tmp_path / "of others")})
    assert compile_ahead.main() == 0
    assert not Path(caches[0]).exists()
    assert [path.name for path in ahead.iterdir()] == ["new.nbc"]
