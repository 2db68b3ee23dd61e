"""INCEPTIONN on a GPU: the stream of the CPU codec, byte for byte, from and to CUDA tensors. Needs triton.

    stream = gpu_codec.encode(codec, gradient)        # uint8 tensor on the same device
    gpu_codec.decode(codec, stream, out=gradient)

Verified against the CPU kernels in Triton's interpreter and compiled for CUDA; not yet run on a GPU.
"""

from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from lightloom.core.errors import CodecError, InputError, UnsupportedError
from lightloom.exchange.compression.inceptionn import Inceptionn, InceptionnPrinted
from lightloom.exchange.compression.kernels import REASONS
from lightloom.exchange.compression.stream import FRAME_HEADER, HEADER_BYTES, Header

_GROUP = 8
_PROGRAM_GROUPS = 64
"""Groups of a program, as in the kernels."""


def gpu_refusal() -> str | None:
    """Return in words why no Triton kernel can run here (no triton, one before 3.4, or no CUDA device); None if it can,
    on a GPU or in the interpreter with TRITON_INTERPRET=1."""
    try:
        import triton
    except ImportError:
        return "the GPU codec needs triton, which PyTorch's CUDA builds bring along"
    if not hasattr(triton, "knobs"):
        return f"the GPU codec needs triton 3.4 or newer, not {triton.__version__}"
    if not torch.cuda.is_available() and not triton.knobs.runtime.interpret:
        return "the GPU codec needs a CUDA device"
    return None


def load_kernels(name: str) -> Any:
    """Return the module of Triton kernels of that name, ``kernels`` or ``block_kernels``; raises UnsupportedError where
    none can run here."""
    if (why := gpu_refusal()) is not None:
        raise UnsupportedError(why)
    return import_module(f"lightloom.exchange.gpu.{name}")


def encode(codec: Inceptionn | InceptionnPrinted, values: Tensor) -> Tensor:
    """Return the stream that ``codec.encode(values)`` would give, as a flat uint8 tensor on the device of ``values``;
    the values are left alone.

    The host waits for the device once, to learn how long the stream is.

    Raises:
        UnsupportedError: no triton or no GPU.
        InputError: not float32, or not contiguous.
    """
    kernels = load_kernels("kernels")
    bits = _bits(values)
    header = Header(codec.codec_id, codec.parameter, bits.numel(), codec.chunk)
    head = torch.frombuffer(bytearray(header.pack()), dtype=torch.uint8).to(values.device)
    if header.count == 0:
        return head
    with torch.cuda.device_of(bits):  # type: ignore[no-untyped-call]
        return _encode(kernels, codec, bits, header, head)


def _encode(kernels: Any, codec: Inceptionn | InceptionnPrinted, bits: Tensor, header: Header, head: Tensor) -> Tensor:
    """Return the stream of at least one value, a flat uint8 tensor on the device of ``bits``.

    Args:
        kernels: module of kernels.
        codec: codec of the values.
        bits: float32 bit patterns, flat int32.
        header: header of the stream.
        head: its bytes, on the device.
    """
    count, device = header.count, bits.device
    groups, frame_groups = -(-count // _GROUP), codec.chunk // _GROUP
    programs = (-(-groups // _PROGRAM_GROUPS),)
    sizes = torch.empty(groups, dtype=torch.int32, device=device)
    kernels.measure_groups[programs](bits, count, sizes, codec.exponent)
    ends = sizes.cumsum(0, dtype=torch.int64)
    last = torch.arange(1, header.frames + 1, device=device).mul(frame_groups).clamp(max=groups) - 1
    frame_ends = ends[last] + FRAME_HEADER * torch.arange(1, header.frames + 1, device=device)
    frame_starts = torch.cat([frame_ends.new_zeros(1), frame_ends[:-1]])
    stream = torch.empty(HEADER_BYTES + int(frame_ends[-1]), dtype=torch.uint8, device=device)
    stream[:HEADER_BYTES] = head
    body = stream[HEADER_BYTES:]
    kernels.write_groups[programs](bits, count, ends, body, frame_groups, codec.exponent, codec.width)
    kernels.seal_frames[(header.frames,)](body, frame_starts, frame_ends, num_warps=1)
    return stream


def decode(codec: Inceptionn | InceptionnPrinted, stream: Tensor, out: Tensor | None = None) -> Tensor:
    """Return the values of a stream, a flat uint8 tensor, in ``out`` or in a new flat float32 tensor on its device.

    The host waits for the device twice: for the header, and for the verdict on the frames. Nothing outside the stream
    is read.

    Raises:
        UnsupportedError: no triton or no GPU.
        InputError: ``stream`` is no flat uint8 tensor, or ``out`` no contiguous float32 tensor of its device.
        CodecError: malformed or corrupted, of another codec, or ``out`` holds another number of values; ``out`` is then
            undefined.
    """
    kernels = load_kernels("kernels")
    if stream.dtype != torch.uint8 or stream.dim() != 1 or not stream.is_contiguous():
        raise InputError(f"a stream must be a flat, contiguous uint8 tensor, not {stream.dtype} of {stream.dim()} axes")
    header = codec.read_header(stream[:HEADER_BYTES].cpu().numpy().tobytes())
    body = stream[HEADER_BYTES:]
    groups = -(-header.count // _GROUP)
    if 2 * groups + FRAME_HEADER * header.frames > body.numel():
        raise CodecError(f"{header.count} values cannot come from a stream of {stream.numel()} bytes")
    target = torch.empty(header.count, dtype=torch.float32, device=stream.device) if out is None else out
    bits = _bits(target)
    if bits.device != stream.device:
        raise InputError(f"the stream lies on {stream.device}, the tensor to decode into on {bits.device}")
    if bits.numel() != header.count:
        raise CodecError(f"the stream holds {header.count} values, the tensor to decode into {bits.numel()}")
    with torch.cuda.device_of(bits):  # type: ignore[no-untyped-call]
        _decode(kernels, codec, body, bits, header)
    return target


def _decode(kernels: Any, codec: Inceptionn | InceptionnPrinted, body: Tensor, bits: Tensor, header: Header) -> None:
    """Fill ``bits``, flat int32 for float32 bit patterns, from the frames in ``body``, a stream without its header;
    raises CodecError for a frame that is not valid, and for bytes behind the last one."""
    count, chunk, groups = header.count, header.chunk, -(-header.count // _GROUP)
    starts = torch.zeros(header.frames + 1, dtype=torch.int64, device=body.device)
    places = torch.zeros(groups, dtype=torch.int64, device=body.device)
    status = torch.zeros(header.frames, dtype=torch.int32, device=body.device)
    if groups:
        kernels.find_frames[(1,)](body, body.numel(), count, chunk, header.frames, starts, status, num_warps=1)
        kernels.walk_frames[(header.frames,)](body, count, chunk, starts, places, status, num_warps=1)
        programs = (-(-groups // _PROGRAM_GROUPS),)
        kernels.read_groups[programs](body, body.numel(), places, bits, count, codec.width)
    for frame, reason in enumerate(status.tolist()):
        if reason:
            raise CodecError(f"frame {frame} of {header.frames} is not valid: {REASONS[reason]}")
    if left := body.numel() - int(starts[-1]):
        raise CodecError(f"{left} bytes follow the last frame")


def _bits(values: Tensor) -> Tensor:
    """Return a flat int32 view of a contiguous float32 tensor; raises InputError for any other."""
    if values.dtype != torch.float32 or not values.is_contiguous():
        raise InputError(f"the tensor must be contiguous float32, not {values.dtype}")
    return values.detach().reshape(-1).view(torch.int32)
