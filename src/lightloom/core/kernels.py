"""How kernels are compiled, defined once for every package.

Kernels are called from Python and from other kernels, never from C, so that none needs the wrapper that numba would
compile for C beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from numba import njit
from numba.core.caching import FunctionCache

from lightloom.core.kernel_cache import KernelCache


def _kernels(**options: object) -> Callable[[FunctionType], object]:
    """Return a decorator that compiles for each type of arguments, or takes what was compiled before."""
    compiled = njit(cache=True, no_cfunc_wrapper=True, **options)

    def decorate(function: FunctionType) -> object:
        kernel = compiled(function)
        if isinstance(getattr(kernel, "_cache", None), FunctionCache):
            kernel._cache = KernelCache(function)
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
"""The same where a division by zero gives what NumPy gives, instead of raising."""
