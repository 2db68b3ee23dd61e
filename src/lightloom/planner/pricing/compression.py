"""What compressing the gradients of a plan means: a ratio with its origin, and an engine with its rates.

Only gradients are compressed: all-reduce and reduce-scatter. The weights that FSDP gathers are not: a bounded error in
a gradient is repaid by later steps, in a weight it stays.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from lightloom.clusters.settings import TrainingSettings
from lightloom.collectives.spec import Kind
from lightloom.compression.engine import BURST_BITS, CLOCK_HZ
from lightloom.compression.profile import CodecProfile, CompressionProfile, cache_path, read
from lightloom.compression.registry import find
from lightloom.core.arrays import Floats
from lightloom.core.configfile import read_yaml, validate
from lightloom.core.errors import ConfigError, UnknownNameError
from lightloom.core.fields import Bandwidth, Config
from lightloom.core.provenance import content_hash
from lightloom.workloads.graph import ComputeGraph

VALUE_BYTES = 4
"""Codecs take float32; narrower gradients are widened first, which is exact."""
LOCAL, NIC = "local", "nic"
"""Engines that have a name."""
LINE_RATE = BURST_BITS / 8 * CLOCK_HZ
"""Bytes per second of the paper's engines (section VI-A): 256 bits at 100 MHz."""


class CodecEngine(Config):
    """Where gradients are coded, and how fast; bytes of float32 values per second."""

    name: str = "engine"
    placement: Literal["host", "nic"]
    """``host``: between hops, one after the other, and messages become smaller. ``nic``: behind the port, beside the
    link; every packet becomes smaller and there are as many."""
    encode: Bandwidth
    decode: Bandwidth
    source: Annotated[str, Field(min_length=1)]
    """Where the rates come from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compression:
    """A codec on a plan's gradients."""

    codec: str
    ratio: float
    """Bytes as float32 for each compressed byte."""
    ratio_source: str
    engine: CodecEngine

    @property
    def label(self) -> str:
        """Codec and ratio in a few words."""
        return f"{self.codec}, {self.ratio:.3g} × smaller"

    @property
    def in_line(self) -> bool:
        """Whether coding runs beside the link."""
        return self.engine.placement == "nic"


def sent_ratio(training: TrainingSettings, ratio: Floats) -> Floats:
    """Bytes of gradients for each byte sent; codecs count float32, in which narrower gradients are larger."""
    return np.where(ratio == 1, 1.0, ratio * training.gradient_bytes / VALUE_BYTES)


def gradient_bytes(training: TrainingSettings) -> Mapping[Kind, int]:
    """The kinds of collectives that carry gradients, and the bytes of one gradient in each."""
    return {"all-reduce": training.gradient_bytes, "reduce-scatter": training.sharded_gradient_bytes}


def model_key(model: str) -> str:
    """Names a model and, where it is a file, what is written there: a profile is kept under it."""
    place, _, factory = model.rpartition(":")
    path = Path(place)
    if not place.endswith(".py") or not path.is_file():
        return model
    return content_hash([str(path.resolve()), factory, sha256(path.read_bytes()).hexdigest()])


def profile_of(
    model: str, graph: ComputeGraph, codec: str, path: Path | None = None
) -> tuple[CompressionProfile, CodecProfile]:
    """The profile of a model's gradients and its entry for a codec; from a file, or else from the cache.

    Raises:
        ConfigError: there is none (says how to make one), or it is another model's.
    """
    command = f"make one with: lightloom compress profile {model} --codec {codec}"
    found = path if path is not None else cache_path(model_key(model), codec)
    if path is None and not found.is_file():
        raise ConfigError(f"there is no compression profile of {model} with {codec}; {command}")
    profile = read(found)
    if (_short(profile.model), profile.parameters) != (_short(model), graph.parameters):
        raise ConfigError(
            f"{str(found)!r} is the profile of {profile.model} with {profile.parameters:,} parameters, "
            f"not of {model} with {graph.parameters:,}; {command}"
        )
    entry = profile.of(codec)
    if entry is None:
        held = ", ".join(each.codec for each in profile.codecs)
        raise ConfigError(f"{str(found)!r} has no {codec}, only {held}; {command}")
    return profile, entry


def measured(profile: CompressionProfile, entry: CodecProfile, engine: str) -> Compression:
    """A codec with its ratio from a profile, at the rates of ``local``, ``nic`` or an engine's file.

    Raises:
        ConfigError, UnknownNameError: no such engine, or it cannot run this codec.
    """
    return Compression(
        codec=entry.codec,
        ratio=entry.whole.ratio,
        ratio_source=f"measured: {profile.gradients}",
        engine=_local(profile, entry) if engine == LOCAL else engine_of(engine, entry.codec, entry),
    )


def stated(codec: str, ratio: float, engine: str) -> Compression:
    """A codec with a ratio that somebody states.

    Raises:
        ConfigError: the ratio is not positive, or ``local``, whose rates only a profile knows.
        UnknownNameError: no such codec or engine.
    """
    name = find(codec).name
    if not (math.isfinite(ratio) and ratio > 0):
        raise ConfigError(f"compression ratio {ratio!r}: expected a positive number")
    if engine == LOCAL:
        raise ConfigError(
            "--compression-ratio has no measured rates beside it: give --compression-engine nic or a file, "
            "or a profile instead of a ratio"
        )
    return Compression(
        codec=name, ratio=ratio, ratio_source="given, not measured", engine=engine_of(engine, name, ratio=ratio)
    )


def engine_of(name: str, codec: str, entry: CodecProfile | None = None, ratio: float | None = None) -> CodecEngine:
    """The engines of the paper's network card (``nic``), or those that a YAML file describes.

    Raises:
        ConfigError: the file is unreadable or malformed, or the paper's engines cannot run this codec.
        UnknownNameError: no such engine.
    """
    if name.endswith((".yaml", ".yml")):
        engine: CodecEngine = validate(CodecEngine, {"name": Path(name).stem} | read_yaml(Path(name)), name)
        return engine
    if name != NIC:
        raise UnknownNameError("compression engine", name, [LOCAL, NIC, "a .yaml file"])
    if entry is not None and entry.engine is not None:
        encode, decode = entry.engine.encode, entry.engine.decode
        source = "cycles of the paper's 256-bit engines at 100 MHz on the profile's gradients"
    elif entry is None and codec.startswith("inceptionn"):
        # A burst of eight values a cycle, unless what they become needs more than a burst (17/16 of one at the most).
        encode = decode = LINE_RATE * min(1.0, ratio or 1.0)
        source = "the paper's 256-bit engines at 100 MHz, a burst a cycle"
    else:
        raise ConfigError(f"compression engine 'nic' runs inceptionn codecs only, not {codec}")
    return CodecEngine(name=NIC, placement="nic", encode=encode, decode=decode, source=source)


def _short(model: str) -> str:
    """Without the folder, which may be written in several ways."""
    return model.rpartition("/")[2]


def _local(profile: CompressionProfile, entry: CodecProfile) -> CodecEngine:
    fastest = max(entry.host, key=lambda each: each.encode * each.decode / (each.encode + each.decode))
    threads = f"{fastest.threads} thread{'s' if fastest.threads > 1 else ''}"
    return CodecEngine(
        name=LOCAL,
        placement="host",
        encode=fastest.encode,
        decode=fastest.decode,
        source=f"{profile.kernel} with {threads}, measured with the profile",
    )
