"""Methods with the bytes that they make of one model's gradients: fixed by their format, profiled, or stated."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from lightloom.compression.profile import CodecProfile, CompressionProfile, cache_path, read
from lightloom.core.errors import ConfigError
from lightloom.core.provenance import content_hash
from lightloom.exchange.method import CodedSums, ExchangeMethod, Gradient
from lightloom.exchange.methods.ring_codec import InceptionnExchange, RingCodecExchange
from lightloom.planner.gradients.engine import (
    ACCELERATOR,
    LOCAL,
    NIC,
    CodecEngine,
    engine_from_file,
    local_engine,
    nic_engine,
    profiled_engine,
)
from lightloom.planner.gradients.priced import PricedExchange, model_gradient
from lightloom.workloads.graph import ComputeGraph

_BITS = 32
_FORMAT = "fixed by the format"
_STATED = "given, not measured; the same for sums of any number of gradients"


def sized(
    method: ExchangeMethod, model: str, graph: ComputeGraph, profile: Path | None, ratio: float | None, engine: str
) -> PricedExchange:
    """Return a method on a model's gradients.

    Args:
        method: any.
        model: as the user named it; profiles are kept under it.
        graph: its operators.
        profile: file of a profile; None for the one in the cache.
        ratio: bytes as float32 for each coded byte, stated; None to take the profile's.
        engine: ``accelerator``, ``local``, ``nic`` or a YAML file.

    Raises:
        ConfigError: there is no profile that the method needs, or another model's; an engine that cannot run it, or was
            not measured.
    """
    gradient, sizes = model_gradient(graph), _FORMAT
    profiled: tuple[CompressionProfile, CodecProfile] | None = None
    if method.needs_values:
        codec = ring_codec_of(method)
        if ratio is not None:
            bits: tuple[tuple[int, float], ...] = ((1, _BITS / ratio),)
            sizes = _STATED
        else:
            profiled = held, entry = profile_of(model, graph, codec.codec, profile)
            bits, sizes = bits_by_terms(entry), f"measured: {held.gradients}{_sums_note(entry)}"
        gradient = Gradient(gradient.shapes, (CodedSums(codec.codec, bits),))
    coder = _engine(method, engine, profiled, ratio)
    return PricedExchange(method=method, gradient=gradient, sizes=sizes, engine=coder)


def ring_codec_of(method: ExchangeMethod) -> RingCodecExchange:
    """Return the part of a method whose bytes depend on the gradient's values."""
    coding = method.coding
    assert isinstance(coding, RingCodecExchange)
    return coding


def bits_by_terms(entry: CodecProfile) -> tuple[tuple[int, float], ...]:
    """Bits of a value by the number of summed gradients, as profiled; one gradient's where sums were not."""
    one = _BITS / entry.whole.ratio
    # Sums are measured at one step; how much larger they are than single gradients holds for all.
    return tuple((terms, one * entry.sums[1] / ratio) for terms, ratio in sorted(entry.sums.items())) or ((1, one),)


def _sums_note(entry: CodecProfile) -> str:
    if entry.sums:
        return f"; sums of up to {max(entry.sums)} gradients"
    return "; of one gradient only, which is too few bytes for sums: profile again"


def _engine(
    method: ExchangeMethod,
    name: str,
    profiled: tuple[CompressionProfile, CodecProfile] | None,
    ratio: float | None,
) -> CodecEngine | None:
    """What codes; None for kernels on the accelerator of each cluster."""
    if name == ACCELERATOR:
        return None
    if name == LOCAL:
        return local_engine(method.name) if profiled is None else profiled_engine(*profiled)
    if name == NIC:
        codec = method.codec if isinstance(method, InceptionnExchange) else None
        return nic_engine(codec, None if profiled is None else profiled[1], ratio)
    return engine_from_file(Path(name))


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
    place = path if path is not None else cache_path(model_key(model), codec)
    if path is None and not place.is_file():
        raise ConfigError(f"there is no compression profile of {model} with {codec}; {command}")
    profile = read(place)
    if (_short(profile.model), profile.parameters) != (_short(model), graph.parameters):
        raise ConfigError(
            f"{str(place)!r} is the profile of {profile.model} with {profile.parameters:,} parameters, "
            f"not of {model} with {graph.parameters:,}; {command}"
        )
    entry = profile.of(codec)
    if entry is None:
        held = ", ".join(entry.codec for entry in profile.codecs)
        raise ConfigError(f"{str(place)!r} has no {codec}, only {held}; {command}")
    return profile, entry


def _short(model: str) -> str:
    """Without the folder, which may be written in several ways."""
    return model.rpartition("/")[2]
