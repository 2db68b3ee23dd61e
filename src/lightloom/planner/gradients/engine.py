"""Where gradients are coded, and how fast: this host as measured, the paper's network card, a file, or an assumption.

Only gradients are coded: all-reduce and reduce-scatter. The weights that FSDP gathers are not: a bounded error in a
gradient is repaid by later steps, in a weight it stays.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from lightloom.accelerators.base import Accelerator
from lightloom.compression.engine import BURST_BITS, CLOCK_HZ
from lightloom.compression.profile import CodecProfile, CompressionProfile
from lightloom.core.configfile import read_yaml, validate
from lightloom.core.errors import ConfigError, UnknownNameError
from lightloom.core.fields import Bandwidth, ComputeRate, Config, Seconds
from lightloom.exchange.rates import measured_rates

VALUE_BYTES = 4
"""Codecs take float32; narrower gradients are widened first, which is exact."""
ACCELERATOR, LOCAL, NIC = "accelerator", "local", "nic"
"""Engines that have a name."""
LINE_RATE = BURST_BITS / 8 * CLOCK_HZ
"""Bytes per second of the paper's engines (section VI-A): 256 bits at 100 MHz."""
_SHARE = 0.5
"""Of the accelerator's memory bandwidth that kernels reach: an assumption."""
_TOUCHED = 3
"""Times that each float32 is read or written while it is encoded or decoded, residual included: an assumption."""
_TOUCHED_UNFUSED = 20
"""The same of top-k and fp8, which are operations of torch one by one: counted from these, not measured on a device."""
_LAUNCH = 10e-6
"""Seconds to launch a kernel where the accelerator states none: an assumption."""
_PRODUCTS = 0.3
"""Of the accelerator's lowest peak rate that products with narrow matrices reach: an assumption."""


class CodecEngine(Config):
    """Where gradients are coded, and how fast; bytes of float32 values per second."""

    name: str = "engine"
    placement: Literal["host", "nic"]
    """``host``: between hops, one after the other, and messages become smaller. ``nic``: behind the port, beside the
    link; every packet becomes smaller and there are as many."""
    encode: Bandwidth
    decode: Bandwidth
    encode_message: Seconds = 0.0
    """Time to encode a message, whatever its size."""
    decode_message: Seconds = 0.0
    """The same for decoding."""
    flops: ComputeRate | None = None
    """Rate of the matrix products of low-rank methods; without it they take no longer than coding."""
    source: Annotated[str, Field(min_length=1)]
    """Where the rates come from."""


def assumed_engine(accelerator: Accelerator, *, fused: bool) -> CodecEngine:
    """Kernels on the accelerator, at an assumed share of its memory bandwidth; ``fused`` is that of the method.

    Raises:
        ConfigError: its memory bandwidth is unknown.
    """
    if accelerator.memory_bandwidth is None:
        raise ConfigError(
            f"accelerator {accelerator.name!r} states no memory bandwidth, at which kernels that code gradients could "
            "be assumed to run: give --exchange-engine local or a .yaml file"
        )
    touched = _TOUCHED if fused else _TOUCHED_UNFUSED
    rate = _SHARE * accelerator.memory_bandwidth / touched
    launch = accelerator.kernel_launch or _LAUNCH
    return CodecEngine(
        name=ACCELERATOR,
        placement="host",
        encode=rate,
        decode=rate,
        encode_message=launch,
        decode_message=launch,
        flops=_PRODUCTS * min(accelerator.peak.values()),
        source=f"assumption: {'kernels' if fused else 'operations of torch'} on the {accelerator.name} at half of its "
        f"memory bandwidth, every value read or written {touched} times, {launch * 1e6:.3g} us a launch",
    )


def profiled_engine(profile: CompressionProfile, entry: CodecProfile) -> CodecEngine:
    """This host's kernel of a codec, as measured with a profile."""
    fastest = max(entry.host, key=lambda rates: rates.encode * rates.decode / (rates.encode + rates.decode))
    threads = f"{fastest.threads} thread{'s' if fastest.threads > 1 else ''}"
    return CodecEngine(
        name=LOCAL,
        placement="host",
        encode=fastest.encode,
        decode=fastest.decode,
        encode_message=fastest.encode_message or 0.0,
        decode_message=fastest.decode_message or 0.0,
        source=f"{profile.kernel} with {threads}, measured with the profile"
        + ("" if fastest.encode_message is not None else "; an old profile, without the time of a message"),
    )


def local_engine(method: str) -> CodecEngine:
    """This host's kernels for a method, as ``lightloom exchange measure`` found them.

    Raises:
        ConfigError: they were not measured (says how to).
    """
    rates = measured_rates(method)
    if rates is None:
        raise ConfigError(
            f"this host's kernels for {method} were not measured; measure them with: lightloom exchange measure "
            f"'{method}'"
        )
    return CodecEngine(
        name=LOCAL,
        placement="host",
        encode=rates.encode,
        decode=rates.decode,
        encode_message=rates.encode_message,
        decode_message=rates.decode_message,
        flops=rates.flops,
        source=f"{rates.kernel}, measured on this host",
    )


def nic_engine(codec: str | None, entry: CodecProfile | None, ratio: float | None) -> CodecEngine:
    """The engines of the paper's network card.

    Args:
        codec: name of the codec that the method runs around a ring; None for other methods.
        entry: measurements of that codec; None where there are none.
        ratio: bytes as float32 for each coded byte, where that is stated instead.

    Raises:
        ConfigError: they cannot run this method.
    """
    if entry is not None and entry.engine is not None:
        encode, decode = entry.engine.encode, entry.engine.decode
        source = "cycles of the paper's 256-bit engines at 100 MHz on the profile's gradients"
    elif ratio is not None and codec is not None and codec.startswith("inceptionn:"):
        # A burst of eight values a cycle, unless what they become needs more than a burst (17/16 of one at the most).
        encode = decode = LINE_RATE * min(1.0, ratio)
        source = "the paper's 256-bit engines at 100 MHz, a burst a cycle"
    else:
        raise ConfigError("--exchange-engine nic runs inceptionn only: expected local, accelerator or a .yaml file")
    return CodecEngine(name=NIC, placement="nic", encode=encode, decode=decode, source=source)


def engine_from_file(path: Path) -> CodecEngine:
    """The engine that a YAML file describes.

    Raises:
        ConfigError: the file is unreadable or malformed.
    """
    engine: CodecEngine = validate(CodecEngine, {"name": path.stem} | read_yaml(path), str(path))
    return engine


def check_engine_name(name: str) -> None:
    """Check an engine's name, or read its file.

    Raises:
        UnknownNameError: no such engine.
        ConfigError: the file is unreadable or malformed.
    """
    if name.endswith((".yaml", ".yml")):
        engine_from_file(Path(name))
    elif name not in (ACCELERATOR, LOCAL, NIC):
        raise UnknownNameError("exchange engine", name, [ACCELERATOR, LOCAL, NIC, "a .yaml file"])
