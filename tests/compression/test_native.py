"""C kernels are loaded where they were built, and only memory that they can write to is given to them."""

from __future__ import annotations

import shutil
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lightloom.core.errors import CodecError, ConfigError, InputError
from lightloom.exchange.compression import kernels
from lightloom.exchange.compression.codec import byte_target, float32_target

STEM = Path(kernels.__file__).with_name("_inceptionn")
BUILT = [file for suffix in EXTENSION_SUFFIXES if (file := STEM.with_name(STEM.name + suffix)).exists()]


@pytest.mark.skipif(not BUILT, reason="needs the C kernels")
def test_what_was_built_is_loaded_the_stable_one_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stem = tmp_path / "kernel"

    def loaded() -> str | None:
        found = kernels.shared_object(stem, kernels._SIGNATURES)
        return None if found is None else Path(found._name).name

    monkeypatch.setattr(kernels, "EXTENSION_SUFFIXES", [".aaa.so", ".abi3.so", ".so"])
    assert loaded() is None
    for name in ("kernel.so", "kernel.aaa.so", "kernel.abi3.so"):
        shutil.copy(BUILT[0], tmp_path / name)
        assert loaded() == name
    found = kernels.shared_object(stem, kernels._SIGNATURES)
    assert found is not None
    for name, (result, arguments) in kernels._SIGNATURES.items():
        assert (getattr(found, name).restype, getattr(found, name).argtypes) == (result, arguments)
    assert kernels.shared_object(stem, {"no_such_function": kernels._SIGNATURES["lightloom_xxh64"]}) is None
    stem = tmp_path / "other"
    (tmp_path / "other.abi3.so").write_bytes(b"no program")
    shutil.copy(BUILT[0], tmp_path / "other.aaa.so")
    assert loaded() == "other.aaa.so"
    monkeypatch.setattr(sys, "byteorder", "big")
    assert loaded() is None


def test_the_fastest_kernel_that_fits_is_chosen() -> None:
    requests = ("", "native", *kernels.NAMES)
    for here, request in product(product([False, True], repeat=len(kernels.NAMES)), requests):
        able = [name for name, there in zip(kernels.NAMES, here, strict=True) if there]
        fitting = [name for name in able if request in ("", name) or (request == "native" and name != "fallback")]

        def load(name: str, able: list[str] = able) -> object | None:
            return name if name in able else None

        if fitting:
            assert kernels.choose(request, load) == fitting[0]
            continue
        with pytest.raises(ConfigError, match="not built here"):
            kernels.choose(request, load)


@pytest.mark.parametrize("target", [float32_target, byte_target])
def test_targets_are_contiguous_and_writable_and_large_enough(target: object) -> None:
    whole = np.zeros(8, np.float32 if target is float32_target else np.uint8)
    fixed = whole.copy()
    fixed.flags.writeable = False

    def give(out: Any, size: int) -> None:
        written = float32_target(out, size) if target is float32_target else byte_target(out, size)
        assert np.shares_memory(written, out)

    give(whole, 8)
    for out in (whole[::2], fixed):
        with pytest.raises(InputError, match=r"contiguous and writable"):
            give(out, len(out))
    with pytest.raises(CodecError if target is float32_target else InputError, match="holds"):
        give(whole, 9)
    if target is byte_target:
        give(whole, 7)
