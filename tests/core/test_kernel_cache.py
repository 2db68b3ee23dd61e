"""Machine code that the package brings computes what Numba compiles, and is taken where types and source agree."""

import importlib
import importlib.util
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.app.api import compile_ahead
from lightloom.core import kernel_build, kernels
from lightloom.core.errors import UnsupportedError
from lightloom.core.kernels import Kernel

config = pytest.importorskip("numba.core.config", reason="needs lightloom[numba]")
_HELPER = "from lightloom.core.kernels import njit_cached\n\n\n@njit_cached\ndef step():\n    return {step}\n"
_CALLER = """from typing import NamedTuple
import numpy as np
from lightloom.core.kernels import njit_cached, njit_inlined, njit_threaded
from lightloom._helper_kernels import step

class Pair(NamedTuple):
    left: object
    right: object

@njit_cached
def count(number):
    return number * step()

@njit_inlined
def twice(x):
    return 2 * x

@njit_threaded
def weigh(values, weights, pair, flag, name=None):
    sums = np.zeros(values.shape[0])
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            sums[i] += twice(values[i, j]) * weights[j]
    if flag:
        sums[0] += pair.left + pair.right.sum()
    return sums, (len(weights), sums.reshape((len(sums), 1)) > 0), values[0, 0]

@njit_cached
def draw(seed, count):
    np.random.seed(seed)
    found = [np.random.random() for _ in range(count)]
    return np.array(found), np.random.randint(1000)

@njit_cached
def divide(x, y):
    if y < 0:
        raise ValueError("below zero", 3)
    return x // y

@njit_cached
def factorial(n):
    return 1 if n < 2 else n * factorial(n - 1)

@njit_cached
def copy(source, target):
    target[:] = source

@njit_cached
def keep(array):
    return array.reshape((0, 7)).astype(np.int64)

@njit_cached
def fill(array, value):
    array[0] = value
"""


@pytest.fixture(scope="module")
def caller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Any]]:
    """A function that imports anew a module whose kernels call one of another module; what Numba keeps lies in a new
    folder each time, and ``ahead`` collects calls to build."""
    folder, package = tmp_path_factory.mktemp("kernels"), importlib.import_module("lightloom")
    (folder / "_caller_kernels.py").write_text(_CALLER)
    before = list(package.__path__), config.CACHE_DIR, kernels._call, kernels._BUILT
    package.__path__ = [*before[0], str(folder)]

    def load(step: int, *, ahead: dict[Any, None] | None = None) -> Any:
        (folder / "_helper_kernels.py").write_text(_HELPER.format(step=step))
        Kernel.calls_ahead = ahead
        config.CACHE_DIR = str(folder / f"numba-{time.monotonic_ns()}")
        forget()
        importlib.invalidate_caches()
        return importlib.import_module("lightloom._caller_kernels")

    def forget() -> None:
        kernels.source_stamp.cache_clear()
        for name in ("lightloom._caller_kernels", "lightloom._helper_kernels"):
            sys.modules.pop(name, None)

    yield load
    Kernel.calls_ahead = None
    package.__path__, config.CACHE_DIR, kernels._call, kernels._BUILT = before
    forget()


_SCALARS = "?bBhHiIqQfd"
_VALUES = np.arange(6, dtype=float).reshape(2, 3)


class _Case(NamedTuple):
    values: Any
    weights: Any
    left: Any
    flag: Any


def _cases() -> Iterator[_Case]:
    """Yield arguments of every kind that machine code is built for."""
    frozen = _VALUES.copy()
    frozen.setflags(write=False)
    for values in (_VALUES, np.asfortranarray(_VALUES), np.tile(_VALUES, (2, 2))[::2, ::2], frozen):
        yield _Case(values, np.ones(values.shape[1]), 1.5, True)
    for letter in _SCALARS:
        yield _Case(_VALUES.astype(letter), np.ones(3, letter), np.dtype(letter).type(1), np.bool_(False))


@pytest.fixture(scope="module")
def built(caller: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The module with kernels built for all cases, and no Numba to compile others."""
    calls: dict[Any, None] = {}
    module = caller(2, ahead=calls)
    for case in _cases():
        module.weigh(*_arguments(module, case))
    module.draw(7, 3)
    module.divide(7, 2)
    module.count(21)
    module.factorial(5)
    module.copy(np.ones(3), np.ones(3))
    module.keep(np.ones((0, 3)))
    path = tmp_path_factory.mktemp("built") / kernel_build.MODULE.name
    try:
        assert kernel_build.build(calls, path) == len(calls)
    except FileNotFoundError:
        pytest.skip("needs a C compiler")
    spec = importlib.util.spec_from_file_location("lightloom.core._kernels", path)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    kernels._call = made.call
    kernels._BUILT = made.attach(np.ndarray, kernels._make_array, kernels._raise_error, kernels.name_tuple)
    return caller(2)


def _arguments(module: Any, case: _Case) -> tuple[Any, ...]:
    return case.values, case.weights, module.Pair(case.left, np.arange(4.0)), case.flag


def _compiled(kernel: Kernel) -> int:
    """Number of types for which Numba compiled a kernel."""
    return len(kernel.dispatcher.overloads) if "dispatcher" in vars(kernel) else 0


@pytest.mark.long
@pytest.mark.parametrize("case", [pytest.param(case, id=str(number)) for number, case in enumerate(_cases())])
def test_machine_code_that_the_package_brings_returns_what_numba_compiles(built: Any, case: _Case) -> None:
    arguments = _arguments(built, case)
    ours, theirs = built.weigh(*arguments), built.weigh.py_func(*arguments)
    assert not _compiled(built.weigh)
    np.testing.assert_array_equal(ours[0], theirs[0])
    assert ours[0].dtype == float and ours[0].flags.owndata is False and ours[0].flags.writeable
    np.testing.assert_array_equal(ours[1][1], theirs[1][1])
    assert ours[1][0] == theirs[1][0] and ours[2] == theirs[2]
    assert type(ours[2]) in (int, float, bool)
    assert built.keep(np.ones((5, 3))[:, :0]).dtype.type is np.int64
    assert ours[1][1].dtype == bool and ours[1][1].shape == (len(case.values), 1)


@pytest.mark.long
@given(st.integers(0, 2**32 - 1), st.integers(0, 2000))
@settings(max_examples=30)
def test_random_numbers_are_those_of_numpy(built: Any, seed: int, count: int) -> None:
    numbers, last = built.draw(seed, count)
    expected = np.random.RandomState(seed)
    np.testing.assert_array_equal(numbers, expected.random_sample(count))
    assert not _compiled(built.draw) and 0 <= last < 1000
    if count == 0:
        assert numbers.shape == (0,)


@pytest.mark.long
def test_exceptions_are_those_of_the_function(built: Any) -> None:
    with pytest.raises(ZeroDivisionError):
        built.divide(1, 0)
    with pytest.raises(ValueError, match="below zero") as caught:
        built.divide(1, -1)
    assert caught.value.args == ("below zero", 3)
    with pytest.raises(RuntimeError, match="a compiled kernel failed"):  # its text has shapes that the kernel sees
        built.copy(np.ones(3), np.ones(2))
    assert built.divide(7, 2) == 3
    assert not _compiled(built.divide)


@pytest.mark.long
def test_names_and_defaults_are_those_of_the_function(built: Any) -> None:
    case = next(_cases())
    values, weights, pair, flag = _arguments(built, case)
    np.testing.assert_array_equal(
        built.weigh(values, flag=flag, pair=pair, weights=weights)[0], built.weigh(values, weights, pair, flag)[0]
    )
    assert built.factorial(10) == 3628800
    assert not _compiled(built.weigh) and not _compiled(built.factorial)


class _Other(NamedTuple):
    """Another class with the fields of a pair."""

    left: Any
    right: Any


class Pair(NamedTuple):
    """Another class of the same name."""

    right: Any
    left: Any


@pytest.mark.long
def test_other_types_are_left_to_numba(built: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.ones((2, 2))
    for arguments in (
        (values, np.ones(2), _Other(1.5, np.ones(4)), True),
        (values, np.ones(2), Pair(1.5, np.ones(4)), True),
        (np.ma.masked_array(values, values > 0), np.ones(2), built.Pair(1.5, np.ones(4)), True),
        (values, np.ones(2), built.Pair(2**63, np.ones(4)), True),
        (values.astype(">f8"), np.ones(2), built.Pair(1.5, np.ones(4)), True),
        (values.astype(complex), np.ones(2), built.Pair(1.5, np.ones(4)), True),
        ("ab", None, [1], 1j),
    ):
        assert kernels._call(built.weigh._built, (*arguments, None)) is NotImplemented
    assert built.count(0.5) == 1.0
    assert _compiled(built.count) == 1
    monkeypatch.setattr(kernels, "_numba_or_why", lambda: (None, "No module named 'numba'"))
    assert built.count(21) == 42
    with pytest.raises(UnsupportedError, match=r"^lightloom\._caller_kernels\.fill is not compiled .* needs Numba"):
        built.fill(np.ones(3), 2.0)


@pytest.mark.long
def test_arguments_beyond_what_is_read_at_once_are_left_to_numba(built: Any) -> None:
    for many in (tuple(range(3000)), (np.ones((1,) * 9),) * 100):
        assert kernels._call(built.weigh._built, (many,)) is NotImplemented
    deep: tuple[Any, ...] = ()
    for _ in range(3000):
        deep = (deep,)
    assert kernels._call(built.weigh._built, (deep,)) is NotImplemented


@pytest.mark.long
def test_memory_of_results_and_arguments_is_given_back(built: Any) -> None:
    values, pair = np.ones((1000, 100)), built.Pair(1.0, np.ones(4))
    weights = np.ones(100)
    counts = [sys.getrefcount(each) for each in (values, weights, pair)]
    for _ in range(200):
        built.weigh(values, weights, pair, True)
    assert counts == [sys.getrefcount(each) for each in (values, weights, pair)]
    before = _resident()
    for _ in range(20_000):
        built.weigh(values[:500], weights, pair, True)
        built.draw(1, 300)
    assert _resident() - before < 20e6  # where 20,000 results kept would be 128 MB


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.long
def test_a_change_in_a_kernel_that_another_calls_compiles_both_anew(built: Any, caller: Callable[..., Any]) -> None:
    assert built.count(21) == 42
    changed = caller(10)
    assert changed.count(21) == 210 and _compiled(changed.count) == 1
    again = caller(2)
    assert again.count(21) == 42 and not _compiled(again.count)


def test_what_is_compiled_ahead_does_not_depend_on_what_was_searched_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lightloom.collectives.synthesis.engine import cache

    caches = []

    def search() -> None:
        caches.append(os.environ["LIGHTLOOM_CACHE"])
        assert list(Path(caches[-1]).iterdir()) == []

    monkeypatch.setattr(compile_ahead, "_search", search)
    monkeypatch.setattr(compile_ahead, "_encode", lambda: None)
    monkeypatch.setattr(kernel_build, "build", lambda called: len(called))
    monkeypatch.setattr(kernel_build, "name_no_files", lambda: None)
    monkeypatch.setattr(kernel_build, "compiler", lambda: [sys.executable])
    monkeypatch.setattr(Kernel, "calls_ahead", None)
    monkeypatch.setattr(cache, "SCALE", cache.SCALE)
    monkeypatch.setattr(os, "environ", os.environ | {"LIGHTLOOM_CACHE": str(tmp_path / "of others")})
    assert compile_ahead.main() == 0
    assert not Path(caches[0]).exists()
    monkeypatch.setattr(kernel_build, "compiler", lambda: [str(tmp_path / "none")])
    assert compile_ahead.main() == 1 and len(caches) == 1  # before the work
