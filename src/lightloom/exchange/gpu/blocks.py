"""Block quantisation on a GPU: the messages of ``lightloom.exchange.compression.blocks`` of CUDA tensors. Needs triton.

    where = blocks.places(fmt, runs).to(device)      # once for a table of runs
    blocks.encode_runs(fmt, gradient, residual, where, wire)
    blocks.decode_runs(fmt, wire, where, out, factor=1 / ranks)

Nothing waits for the device. Verified against the CPU kernels in Triton's interpreter and compiled for sm80 and sm90;
not yet run on a GPU.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from lightloom.core.arrays import Ints
from lightloom.core.errors import InputError, UnsupportedError
from lightloom.exchange.compression import blocks as cpu
from lightloom.exchange.compression.blocks import BlockFormat
from lightloom.exchange.gpu.codec import load_kernels

_PROGRAM_VALUES = 1024
"""Values that a program takes, about."""
OPTIONS = {"enable_fp_fusion": False}
"""How the kernels are compiled."""


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
    """Return (first value, number of values, first byte) of each block of a table of runs, int64 [blocks, 3] in CPU
    memory, in the order of the runs. A run begins a new block; its last block may have fewer values than the format's.

    Args:
        fmt: format of the blocks.
        runs: int64 [runs, 3]: first value, number of values, and first byte of the message of each run.
    """
    blocks = -(-runs[:, 1] // fmt.block)
    index = np.arange(blocks.sum()) - np.repeat(np.cumsum(blocks) - blocks, blocks)
    first, values, at = np.repeat(runs, blocks, axis=0).T
    done = index * fmt.block
    table = np.column_stack([first + done, np.minimum(values - done, fmt.block), at + index * fmt.block_bytes])
    return torch.from_numpy(np.ascontiguousarray(table, np.int64))


def encode_runs(fmt: BlockFormat, values: Tensor, residual: Tensor | None, where: Tensor, wire: Tensor) -> None:
    """Write the message of each run to ``wire``, on the tensors' device.

    Args:
        fmt: format of the blocks.
        values: flat float32 tensor, not changed.
        residual: like ``values``: added to them before encoding, and overwritten with the errors, 0 where a block has
            no finite scale; outside of the runs it stays. None without feedback.
        where: :func:`places` of the runs, on the device; it is not checked.
        wire: flat uint8 tensor on the device.

    Raises:
        UnsupportedError: no triton or no GPU, or ``fp8``.
        InputError: a tensor of another type or device, or not contiguous.
    """
    rest = values if residual is None else residual
    _check_tensors(where, wire, values, rest)
    _launch("encode_blocks", fmt, where, values, rest, where, wire, len(where), residual is not None)


def decode_runs(
    fmt: BlockFormat, wire: Tensor, where: Tensor, out: Tensor, factor: float = 1.0, add: bool = False
) -> None:
    """Write ``factor`` times the values of each run's message to ``out``, or add them there with ``add``, on the
    tensors' device.

    Args:
        fmt: format of the blocks.
        wire: flat uint8 tensor with the messages.
        where: :func:`places` of the runs, on the device; it is not checked.
        out: flat float32 tensor; values outside of the runs stay.
        factor: factor of all values.
        add: whether to add.

    Raises:
        UnsupportedError: no triton or no GPU, or ``fp8``.
        InputError: a tensor of another type or device, or not contiguous.
    """
    _check_tensors(where, wire, out)
    _launch("decode_blocks", fmt, where, wire, where, out, len(where), factor, add)


def layout_of(fmt: BlockFormat) -> Layout:
    """Return the compile-time constants of the kernels for a format; raises UnsupportedError for fp8."""
    if fmt.kind == "fp8":
        raise UnsupportedError(f"{fmt.kind} blocks have no Triton kernel; the torch reference writes and reads them")
    width = 1 << (fmt.block - 1).bit_length()
    return Layout(
        kind=cpu.KINDS[fmt.kind],
        bits=fmt.bits,
        block=fmt.block,
        rows=max(1, _PROGRAM_VALUES // width),
        groups=width // 8,
        halvings=width.bit_length() - 1,
        threshold=float(np.float32(cpu.LLOYD_THRESHOLD)),
        inner=float(np.float32(cpu.LLOYD_LEVELS[0])),
        outer=float(np.float32(cpu.LLOYD_LEVELS[1])),
        largest_mean=fmt.largest_mean << 16,
    )


def _launch(kernel: str, fmt: BlockFormat, where: Tensor, *arguments: object) -> None:
    """Run the kernel ``encode_blocks`` or ``decode_blocks`` on the device of ``where``, [blocks, 3], in as many
    programs as take all its blocks, at least 1; ``arguments`` are the kernel's own, without the constants of the
    format. Raises UnsupportedError without triton or a GPU, and for fp8."""
    layout = layout_of(fmt)
    programs = (max(1, -(-len(where) // layout.rows)),)
    with torch.cuda.device_of(where):  # type: ignore[no-untyped-call]
        getattr(load_kernels("block_kernels"), kernel)[programs](*arguments, layout, **OPTIONS)


def _check_tensors(where: Tensor, wire: Tensor, *values: Tensor) -> None:
    """Raise InputError unless ``where`` is int64, ``wire`` uint8 and every tensor of ``values`` float32, and all are
    contiguous and on one device."""
    for tensor, dtype in ((where, torch.int64), (wire, torch.uint8), *((one, torch.float32) for one in values)):
        if tensor.dtype != dtype or not tensor.is_contiguous():
            raise InputError(f"expected a contiguous tensor of {dtype}, not {tensor.dtype}")
        if tensor.device != wire.device:
            raise InputError(f"tensors on one device are expected, not on {wire.device} and {tensor.device}")


# Block quantisation of torch tensors on any device: the bytes of :mod:`lightloom.exchange.compression.blocks`.
#
# Nothing waits for the device and no shape depends on values, so that CUDA tensors and NCCL take the path that is
# tested on the CPU. Compiled into one kernel, products and sums must not be contracted. Not yet run on a GPU.


def encode(fmt: BlockFormat, values: Tensor) -> Tensor:
    """Return the message of flat float32 ``values``, as a flat uint8 tensor on their device; the values are left alone.
    These are plain operations of torch, on any device and for every format, fp8 too; no Triton is needed."""
    return _message(fmt, *cpu.quantise(fmt, _in_blocks(fmt, values), torch))


def encode_leaving(fmt: BlockFormat, values: Tensor) -> Tensor:
    """Return the message of flat float32 ``values``, as a flat uint8 tensor on their device, and replace the values, in
    place, by their errors: values less decoded values, 0 in blocks without a finite scale. Plain operations of torch,
    without Triton."""
    scale_bits, codes = cpu.quantise(fmt, _in_blocks(fmt, values), torch)
    decoded = _decoded_values(fmt, scale_bits.view(torch.float32), codes)[: values.numel()]
    values.sub_(decoded)
    values.masked_fill_(decoded.isnan(), 0)
    return _message(fmt, scale_bits, codes)


def decode(fmt: BlockFormat, wire: Tensor, count: int) -> Tensor:
    """Return the ``count`` values of a message, a flat uint8 tensor, as flat float32 on its device, by plain operations
    of torch, without Triton; NaN in blocks without a finite scale.

    Raises:
        InputError: the message has another size than so many values take.
    """
    fmt.check_size(wire.numel(), count)
    return _decoded_values(fmt, *cpu.unpack(fmt, wire.reshape(-1, fmt.block_bytes), torch))[:count]


def _message(fmt: BlockFormat, scale_bits: Tensor, codes: Tensor) -> Tensor:
    """Return the bytes of a message, flat uint8, block after block: two bytes of scale, then the packed codes. They
    come from scales as float32 bit patterns, int32 [blocks, 1], and codes, uint8 [blocks, B]."""
    message: Tensor = cpu.pack(fmt, scale_bits, codes, torch).reshape(-1)
    return message


def _in_blocks(fmt: BlockFormat, values: Tensor) -> Tensor:
    """Return flat values as float32 [blocks, B], the last block padded with zeros."""
    return torch.nn.functional.pad(values, (0, -values.numel() % fmt.block)).reshape(-1, fmt.block)


def _decoded_values(fmt: BlockFormat, scale: Tensor, codes: Tensor) -> Tensor:
    """Return the values, flat float32, padding included, of codes, uint8 [blocks, B], with scales, float32 [blocks,
    1]."""
    return (_decoded_table(fmt, codes.device)[codes.long()] * scale).reshape(-1)


@cache
def _decoded_table(fmt: BlockFormat, device: torch.device) -> Tensor:
    """Return the decoded value of each code, by the code as an unsigned number, in multiples of the scale, float32
    [2^bits] on ``device``."""
    return torch.tensor(cpu.decoded_codes(fmt), device=device)
