"""How kernels are compiled, defined once for every package.

Kernels are called from Python and from other kernels, never from C, so that none needs the wrapper that numba would
compile for C beside it.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar

from numba import _dynfunc, njit
from numba.core.caching import FunctionCache, IndexDataCacheFile

if TYPE_CHECKING:
    from numba.core.base import BaseContext
    from numba.core.codegen import Codegen
    from numba.core.compiler import CompileResult
    from numba.core.typing.templates import Signature


# Where compiled kernels are kept: a folder that was filled when the package was built, and numba's cache.
#
# Compiling what one plan calls takes 6 to 19 CPU seconds. Wheels bring these kernels along, compiled for every
# processor of the architecture by :mod:`lightloom.app.api.compile_ahead`; what is missing there is compiled for this
# machine at its first call and kept by numba. Kept code is used only where the version of numba, the types of the
# arguments and the source are those that it was compiled from. The source includes that of imported kernels, which
# numba does not compare: they are compiled into their callers. Of Python compiled code knows functions of its stable
# interface and where numba's own objects hold their fields: one wheel serves every version where these lie alike.

AHEAD = Path(__file__).parents[1] / "compiled"
"""Folder of the kernels that were compiled when the package was built."""

_ANY_PROCESSOR = ("generic", "")
"""Name and features of a processor, as LLVM calls what all processors of an architecture have."""

_IMPORT = re.compile(r"^from (lightloom[\w.]*) import", re.MULTILINE)


class _CacheFile(IndexDataCacheFile):  # type: ignore[misc]
    """Cached kernels of one function; those of another version, whose types may have moved, are not read."""

    def _load_index(self) -> dict[object, str]:
        try:
            index: dict[object, str] = super()._load_index()
        except (ImportError, AttributeError):
            index = {}
        return index


class KernelCache(FunctionCache):  # type: ignore[misc]
    """Numba's cache of one kernel, and behind it what was compiled when the package was built."""

    fills_ahead: ClassVar[bool] = False
    """True when this process fills :data:`AHEAD` instead of numba's cache."""

    def __init__(self, function: FunctionType) -> None:
        super().__init__(function)
        stamp, name = source_stamp(function.__module__), self._impl.filename_base
        # Folders' names tell apart kernels of modules whose last names are the same; the version of Python is left out.
        folder, ahead = AHEAD / function.__module__.removeprefix("lightloom."), name.rpartition(".py")[0]
        self._ahead = _CacheFile(cache_path=str(folder), filename_base=ahead, source_stamp=stamp)
        self._cache_file = _CacheFile(cache_path=self.cache_path, filename_base=name, source_stamp=stamp)

    def _load_overload(self, signature: Signature, target: BaseContext) -> CompileResult | None:
        kept = None if self.fills_ahead else super()._load_overload(signature, target)
        if kept is not None or not self._enabled:
            return kept
        key = self._key_ahead(signature, target.codegen())
        data = self._ahead.load(key)
        return None if data is None else self._impl.rebuild(target, data)

    def _save_overload(self, signature: Signature, compiled: CompileResult) -> None:
        if not self.fills_ahead:
            super()._save_overload(signature, compiled)
        elif self._impl.check_cachable(compiled):
            key = self._key_ahead(signature, compiled.codegen)
            Path(self._ahead._index_path).parent.mkdir(parents=True, exist_ok=True)
            # Without the listing of types, which names addresses: what is built twice is the same.
            self._ahead.save(key, self._impl.reduce(compiled._replace(type_annotation="")))

    def _key_ahead(self, signature: Signature, codegen: Codegen) -> tuple[object, ...]:
        types, (triple, *_), (_, values) = self._index_key(signature, codegen)
        return types, (triple, *_ANY_PROCESSOR), values, *sorted(_dynfunc._impl_info.items())


@cache
def source_stamp(module: str) -> bytes:
    """Return a hash of a module's source, of what it imports from the package, and of what imported kernels import."""
    found: dict[str, bytes] = {}
    _collect(module, found, deep=True)
    return hashlib.sha256(b"\0".join(found[name] for name in sorted(found))).digest()


def _collect(module: str, found: dict[str, bytes], *, deep: bool) -> None:
    found[module] = source = Path(str(sys.modules[module].__file__)).read_bytes()
    for name in _IMPORT.findall(source.decode()) if deep else ():
        if name not in found:
            _collect(name, found, deep=name.endswith("kernels"))


def _kernels(**options: object) -> Callable[[FunctionType], object]:
    """Return a decorator that compiles for each type of arguments, or takes what was compiled before."""
    compiled = njit(cache=True, no_cfunc_wrapper=True, **options)

    def decorate(function: FunctionType) -> object:
        kernel = compiled(function)
        if isinstance(getattr(kernel, "_cache", None), FunctionCache):
            kernel._cache = KernelCache(function)
            if KernelCache.fills_ahead:  # errors name the source in the package, not the folder of the build
                function.__code__ = function.__code__.replace(co_filename=f"{function.__module__.replace('.', '/')}.py")
        return kernel

    return decorate


njit_cached: Any = _kernels()
"""For kernels of one thread."""

njit_without_arrays: Any = _kernels(_nrt=False)
"""For kernels that make no arrays: it leaves out the counting of references to the arrays of a tuple, which
can take far longer than the work itself."""

njit_threaded: Any = _kernels(nogil=True)
"""For kernels that run beside other threads of Python."""

njit_threaded_numpy: Any = _kernels(nogil=True, error_model="numpy")
"""Decorator for kernels that run beside other threads of Python, where a division by zero gives what NumPy gives."""
