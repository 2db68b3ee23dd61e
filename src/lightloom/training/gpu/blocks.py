"""Block quantisation on a GPU: the messages of ``lightloom.compression.blocks`` of CUDA tensors. Needs triton.

    where = gpu_blocks.places(fmt, runs).to(device)      # once for a table of runs
    gpu_blocks.encode_runs(fmt, gradient, residual, where, wire)
    gpu_blocks.decode_runs(fmt, wire, where, out, factor=1 / ranks)

Nothing waits for the device. Verified against the CPU kernels in Triton's interpreter and compiled for sm80 and sm90;
not yet run on a GPU.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from lightloom.compression.blocks.format import LLOYD_LEVELS, LLOYD_THRESHOLD, BlockFormat
from lightloom.core.arrays import Ints
from lightloom.core.errors import InputError, UnsupportedError
from lightloom.training.gpu.codec import refusal

_KINDS = {"linear": 0, "lloyd": 1, "sign": 2}
_PROGRAM_VALUES = 1024
"""Values that a program takes, about."""
OPTIONS = {"enable_fp_fusion": False}
"""How the kernels are compiled."""
_IGNORED, _WRITTEN, _ADDED = range(3)
"""What the kernel does with the errors of a codec: nothing, write them, or add those of before and write them."""


class Layout(NamedTuple):
    """Compile-time constants of the kernels: a format, and how a program takes its blocks."""

    kind: int
    bits: int
    block: int
    rows: int
    """Blocks of a program."""
    groups: int
    """Groups of eight values in a block, a power of two."""
    halvings: int
    threshold: float
    """Above this many means of the sizes, a value takes the outer level."""
    inner: float
    outer: float
    largest_mean: int
    """Bit pattern of the largest scale that is a mean, as float32."""


def places(fmt: BlockFormat, runs: Ints) -> Tensor:
    """Rows of first value, number of values and first byte for each block of a table of runs, int64 in CPU memory.

    ``runs`` is the table that :func:`lightloom.compression.blocks.encode_runs` takes, int64 [runs, 3].
    """
    blocks = -(-runs[:, 1] // fmt.block)
    index = np.arange(blocks.sum()) - np.repeat(np.cumsum(blocks) - blocks, blocks)
    first, values, at = np.repeat(runs, blocks, axis=0).T
    done = index * fmt.block
    table = np.column_stack([first + done, np.minimum(values - done, fmt.block), at + index * fmt.block_bytes])
    return torch.from_numpy(np.ascontiguousarray(table, np.int64))


def encode_runs(fmt: BlockFormat, values: Tensor, residual: Tensor | None, where: Tensor, wire: Tensor) -> None:
    """Write the messages of all runs; with ``residual``, of ``residual + values``, whose errors it becomes.

    Args:
        values: flat float32 tensor, not changed.
        residual: like ``values``; None without feedback.
        where: :func:`places` of the runs, on the device; it is not checked.
        wire: flat uint8 tensor on the device.

    Raises:
        UnsupportedError: no triton or no GPU, or ``fp8``.
        InputError: another type, or not contiguous.
    """
    rest = values if residual is None else residual
    _check(where, wire, values, rest)
    _encode(fmt, values, rest, where, wire, _IGNORED if residual is None else _ADDED)


def encode_leaving_runs(fmt: BlockFormat, values: Tensor, where: Tensor, wire: Tensor) -> None:
    """Write the messages of all runs of ``values``, which become their errors. Errors as in :func:`encode_runs`."""
    _check(where, wire, values)
    _encode(fmt, values, values, where, wire, _WRITTEN)


def decode_runs(
    fmt: BlockFormat, wire: Tensor, where: Tensor, out: Tensor, factor: float = 1.0, add: bool = False
) -> None:
    """Write ``factor`` times the values of all runs to ``out``, or add them. Errors as in :func:`encode_runs`."""
    _check(where, wire, out)
    layout = layout_of(fmt)
    launch = _kernels().decode_blocks[_grid(layout, where)]
    with torch.cuda.device_of(wire):  # type: ignore[no-untyped-call]
        launch(wire, where, out, len(where), factor, add, layout, **OPTIONS)


def _encode(fmt: BlockFormat, values: Tensor, rest: Tensor, where: Tensor, wire: Tensor, errors: int) -> None:
    layout = layout_of(fmt)
    launch = _kernels().encode_blocks[_grid(layout, where)]
    with torch.cuda.device_of(wire):  # type: ignore[no-untyped-call]
        launch(values, rest, where, wire, len(where), errors, layout, **OPTIONS)


def layout_of(fmt: BlockFormat) -> Layout:
    """Return the compile-time constants of the kernels for a format."""
    if fmt.kind not in _KINDS:
        raise UnsupportedError(f"{fmt.kind} blocks have no Triton kernel; the torch reference writes and reads them")
    width = 1 << (fmt.block - 1).bit_length()
    return Layout(
        kind=_KINDS[fmt.kind],
        bits=fmt.bits,
        block=fmt.block,
        rows=max(1, _PROGRAM_VALUES // width),
        groups=width // 8,
        halvings=width.bit_length() - 1,
        threshold=float(np.float32(LLOYD_THRESHOLD)),
        inner=float(np.float32(LLOYD_LEVELS[0])),
        outer=float(np.float32(LLOYD_LEVELS[1])),
        largest_mean=fmt.largest_mean << 16,
    )


def _grid(layout: Layout, where: Tensor) -> tuple[int]:
    return (max(1, -(-len(where) // layout.rows)),)


def _check(where: Tensor, wire: Tensor, *values: Tensor) -> None:
    for tensor, dtype in ((where, torch.int64), (wire, torch.uint8), *((one, torch.float32) for one in values)):
        if tensor.dtype != dtype or not tensor.is_contiguous():
            raise InputError(f"expected a contiguous tensor of {dtype}, not {tensor.dtype}")
        if tensor.device != wire.device:
            raise InputError(f"tensors on one device are expected, not on {wire.device} and {tensor.device}")


def _kernels() -> Any:
    why = refusal()
    if why is not None:
        raise UnsupportedError(why)
    from lightloom.training.gpu import block_kernels

    return block_kernels
