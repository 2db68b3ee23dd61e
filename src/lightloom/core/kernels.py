"""How kernels are compiled, defined once for every package.

Kernels are called from Python and from other kernels, never from C, so that none needs the wrapper that numba would
compile for C beside it.
"""

from __future__ import annotations

from numba import njit

njit_cached = njit(cache=True, no_cfunc_wrapper=True)
"""For kernels of one thread."""

njit_without_arrays = njit(cache=True, no_cfunc_wrapper=True, _nrt=False)
"""For kernels that make no arrays: it leaves out the counting of references to the arrays of a tuple, which
can take far longer than the work itself."""

njit_threaded = njit(cache=True, no_cfunc_wrapper=True, nogil=True)
"""For kernels that run beside other threads of Python."""

njit_threaded_numpy = njit(cache=True, no_cfunc_wrapper=True, nogil=True, error_model="numpy")
"""The same where a division by zero gives what NumPy gives, instead of raising."""
