"""The compression of a plan: its options read and checked, its rows in the JSON document."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lightloom.planner.pricing.compression import Compression
    from lightloom.planner.search.ranked import Candidate
    from lightloom.workloads.graph import ComputeGraph


def check_options(codec: str | None, profile: Path | None, ratio: str | None, engine: str | None) -> None:
    """Say before the model is traced what is wrong with the options.

    Raises:
        ConfigError: options that need a codec, or exclude each other, or cannot be read.
        UnknownNameError: no such codec or engine.
    """
    from lightloom.compression import find
    from lightloom.compression.profile import read
    from lightloom.core.errors import ConfigError
    from lightloom.planner.pricing.compression import LOCAL, engine_of, stated

    if codec is None:
        for name, value in (("profile", profile), ("ratio", ratio), ("engine", engine)):
            if value is not None:
                raise ConfigError(f"--compression-{name} needs --compression CODEC")
        return
    name = find(codec).name
    if profile is not None and ratio is not None:
        raise ConfigError("give either --compression-profile or --compression-ratio")
    if profile is not None:
        read(profile)
    if ratio is not None:
        stated(codec, _number(ratio), engine or LOCAL)
    elif engine not in (None, LOCAL):
        engine_of(engine, name)


def read_compression(
    codec: str, model: str, graph: ComputeGraph, profile: Path | None, ratio: str | None, engine: str | None
) -> Compression:
    """The compression that the options ask for.

    Raises:
        ConfigError: no profile of this model and codec (says how to make one), or an engine that cannot run the codec.
        UnknownNameError: no such codec or engine.
    """
    from lightloom.compression import find
    from lightloom.planner.pricing.compression import LOCAL, measured, profile_of, stated

    if ratio is not None:
        return stated(codec, _number(ratio), engine or LOCAL)
    return measured(*profile_of(model, graph, find(codec).name, profile), engine or LOCAL)


def _number(text: str) -> float:
    from lightloom.core.errors import ConfigError

    try:
        return float(text)
    except ValueError as error:
        raise ConfigError(f"--compression-ratio {text!r}: expected a number") from error


def codec_json(codec: Compression) -> dict[str, Any]:
    """What was assumed of the codec, in plain types."""
    return {
        "codec": codec.codec,
        "ratio": codec.ratio,
        "source": codec.ratio_source,
        "engine": codec.engine.name,
        "placement": codec.engine.placement,
        "encode_bytes_per_second": codec.engine.encode,
        "decode_bytes_per_second": codec.engine.decode,
        "engine_source": codec.engine.source,
    }


def compression_json(each: Candidate) -> dict[str, Any] | None:
    """The ``compression`` entry of a ranking's row; null for a plan that does not compress."""
    from lightloom.planner.search.verdict import verdict

    effect = verdict(each)
    if effect is None or each.compression is None:
        return None
    return codec_json(each.compression) | {
        "gradient_bytes": effect.nbytes,
        "compressed_bytes": effect.compressed_nbytes,
        "encode_s": effect.encode,
        "decode_s": effect.decode,
        "sending_saved_s": effect.saved,
        "step_saved_s": effect.gained,
        "outcome": effect.outcome,
        "why": str(effect),
    }
