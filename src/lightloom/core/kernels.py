"""How kernels are compiled, defined once for every package.

A kernel is a function of numbers, arrays and tuples of them that runs as machine code. What plans, collectives,
averagers and codecs call was compiled when the package was built (`lightloom.core.kernel_build`) and is called without
Numba; where the types of the arguments or the source are others, Numba compiles at the first call and keeps what it
compiled.
"""

from __future__ import annotations

import hashlib
import inspect
import pickle
import re
import sys
from collections.abc import Callable, Mapping
from functools import cache, cached_property, partial, update_wrapper
from pathlib import Path
from types import FunctionType
from typing import Any, ClassVar

import numpy as np

from lightloom.core.errors import UnsupportedError

_IMPORT = re.compile(r"^from (lightloom[\w.]*) import", re.MULTILINE)


class Kernel:
    """A function that runs as machine code; ``py_func`` is the function itself. Arrays that it returns may be copies.

    Raises:
        UnsupportedError: at a call whose types the package brings no machine code for, where Numba is not installed.
    """

    calls_ahead: ClassVar[dict[tuple[Kernel, Any], None] | None] = None
    """Kernels that were called and the types of their arguments, where the package is being built; else None."""

    def __init__(self, function: FunctionType, options: Mapping[str, object], *, for_processor: bool = False) -> None:
        """Hold a function and the options with which Numba compiles it; ``for_processor`` prefers Numba, where it is
        installed, to machine code for every processor."""
        update_wrapper(self, function)
        self.py_func, self.options, self._for_processor = function, options, for_processor
        self._path, self._count = f"{function.__module__}.{function.__qualname__}", function.__code__.co_argcount

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Return the result for arguments as the function takes them."""
        if named or len(arguments) != self._count:
            bound = inspect.signature(self.py_func).bind(*arguments, **named)
            bound.apply_defaults()
            arguments = bound.args
        result = _call(self._built, arguments)
        if result is not NotImplemented:
            return result
        if self.calls_ahead is not None:
            self.calls_ahead[self, tuple(map(self.dispatcher.typeof_pyval, arguments))] = None
        return self.dispatcher(*arguments)

    @property
    def name(self) -> str:
        """Name of the kernel's machine code in the package's extension module: ``MODULE.FUNCTION HASH``, the hash that
        of its module's source and of what that imports (:func:`source_stamp`)."""
        return f"{self._path} {source_stamp(self.__module__)}"

    @cached_property
    def _built(self) -> Mapping[bytes, int]:
        """Addresses of the kernel's machine code in the package's extension module, by the key of the arguments' types
        (such as ``C1dq`` for a float64 array in C order and an int64); empty where the module is missing or has none of
        this source, while the package is being built, and where Numba is preferred and installed."""
        if self.calls_ahead is not None or not _BUILT or (self._for_processor and _numba_or_why()[0]):
            return {}
        built: Mapping[bytes, int] = _BUILT.get(self.name, {})
        return built

    @cached_property
    def dispatcher(self) -> Any:
        """The function as Numba compiles it at its first call for each types of arguments, with Numba's functions in
        place of the kernels that it calls. What it compiles is kept on the disk, but not while the package is being
        built, nor of a kernel that is always inlined.

        Raises:
            UnsupportedError: Numba is not installed, or cannot be imported.
        """
        numba, why = _numba_or_why()
        if numba is None:
            needs = "is not compiled for these arguments and needs Numba: pip install 'lightloom[numba]'"
            raise UnsupportedError(f"{self._path} {needs} ({why})")
        function, names = self.py_func, self.py_func.__globals__
        code = function.__code__
        called = {name: names[name] for name in code.co_names if isinstance(names.get(name), Kernel)}
        own = names | {name: kernel.dispatcher for name, kernel in called.items() if kernel is not self}
        plain = FunctionType(code, own, function.__name__, function.__defaults__, function.__closure__)
        plain.__module__, plain.__qualname__ = function.__module__, function.__qualname__
        kept = self.options.get("inline") != "always" and self.calls_ahead is None
        dispatcher = numba.njit(cache=kept, **self.options)(plain)
        own |= {name: dispatcher for name, kernel in called.items() if kernel is self}
        cached = getattr(dispatcher._cache, "_cache_file", None)
        if cached is not None:
            # Numba compares the source of the function alone; that of kernels which it calls is compiled into it.
            cached._source_stamp = source_stamp(self.__module__)
            cached._load_index = partial(_index_of_this_version, cached._load_index)
        return dispatcher


@cache
def _numba_or_why() -> tuple[Any, str]:
    """Return (the module ``numba``, empty text), or (None, the message of the ImportError) where Numba cannot be
    imported: not installed, or of no use with this NumPy or Python."""
    try:
        import numba
    except ImportError as error:
        return None, str(error)
    return numba, ""


def _index_of_this_version(load: Callable[[], dict[object, str]]) -> dict[object, str]:
    """Return the index of Numba's cache, which ``load`` reads; empty where it cannot be unpickled (ImportError or
    AttributeError) as a version whose classes were elsewhere wrote it, so that kernels are compiled again."""
    try:
        return load()
    except (ImportError, AttributeError):
        return {}


@cache
def source_stamp(module: str) -> str:
    """Return the SHA-256, in hexadecimal, of the source of a module, of the modules of the package that it imports, of
    what imported modules of kernels import in turn, and of what builds and calls kernels. The module must have been
    imported."""
    found = {name: Path(__file__).with_name(name).read_bytes() for name in ("_kernels.c", "kernel_build.py")}
    _collect(module, found, deep=True)
    return hashlib.sha256(b"\0".join(found[name] for name in sorted(found))).hexdigest()


def _collect(module: str, found: dict[str, bytes], *, deep: bool) -> None:
    """Add the source of a module to ``found``, bytes by the module's name, and where ``deep`` also those of the modules
    of the package that it imports by ``from lightloom... import`` at a line's begin and that ``found`` lacks; of these,
    modules of kernels (names that end in ``kernels``) are followed in turn. All must have been imported."""
    found[module] = source = Path(str(sys.modules[module].__file__)).read_bytes()
    for name in _IMPORT.findall(source.decode()) if deep else ():
        if name not in found:
            _collect(name, found, deep=name.endswith("kernels"))


def _make_array(shape: tuple[int, ...], code: str, memory: bytearray) -> np.ndarray[Any, Any]:
    """Return an array in C order over memory that a kernel filled, without a copy; ``code`` is the dtype as NumPy
    spells it, such as ``i8``."""
    return np.ndarray(shape, code, memory)


def name_tuple(kind: type[tuple[Any, ...]]) -> bytes:
    """Return the bytes with which the key of a named tuple of class ``kind`` among a kernel's arguments begins:
    ``<CLASS FIELD FIELD:``, the names of class and fields with blanks between them."""
    return f"<{' '.join((kind.__name__, *getattr(kind, '_fields', ())))}:".encode()


def _raise_error(pickled: bytes) -> None:
    """Raise the exception of a kernel from what Numba pickled, (class, arguments or None, place where it was raised);
    the place is left out."""
    kind, arguments, _ = pickle.loads(pickled)
    raise kind(*arguments or ())


try:
    from lightloom.core import _kernels  # type: ignore[attr-defined]

    if not np.__version__.startswith("2."):
        raise ImportError("the module reads arrays as NumPy 2 lays them out")
    _call, _BUILT = _kernels.call, dict(_kernels.attach(np.ndarray, _make_array, _raise_error, name_tuple))
except (ImportError, RuntimeError):  # built without a C compiler, or of another source
    _call, _BUILT = lambda *_: NotImplemented, dict[str, dict[bytes, int]]()


def _kernels_with(*, for_processor: bool = False, **options: object) -> Callable[[FunctionType], Kernel]:
    """Return a decorator that makes a kernel of a function, which Numba compiles with ``options``, those of
    ``numba.njit``. ``for_processor`` prefers Numba, where it is installed, which compiles for this processor, to the
    package's machine code, which is for any."""
    return lambda function: Kernel(function, {"no_cfunc_wrapper": True, **options}, for_processor=for_processor)


njit_cached: Any = _kernels_with()
"""For kernels of one thread."""

njit_inlined: Any = _kernels_with(inline="always")
"""For functions that are inlined where a kernel calls them."""

njit_without_arrays: Any = _kernels_with(_nrt=False)
"""For kernels that make no arrays: it leaves out the counting of references to the arrays of a tuple, which
can take far longer than the work itself."""

njit_threaded: Any = _kernels_with(nogil=True)
"""For kernels that run beside other threads of Python."""

njit_threaded_numpy: Any = _kernels_with(nogil=True, error_model="numpy")
"""Decorator for kernels that run beside other threads of Python, where a division by zero gives what NumPy gives."""

njit_for_processor: Any = _kernels_with(for_processor=True, nogil=True)
"""Decorator for kernels that run beside other threads of Python, and gain from the vectors of the processor at hand."""

njit_contracting: Any = _kernels_with(for_processor=True, nogil=True, fastmath={"contract"})
"""Decorator for kernels as `njit_for_processor`, whose products and sums may be rounded once."""
