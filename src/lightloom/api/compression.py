"""The codec of a plan's gradients: read and checked before the model is traced."""

from __future__ import annotations

from pathlib import Path

from lightloom.compression import find
from lightloom.compression.profile import read
from lightloom.core.errors import ConfigError
from lightloom.planner.pricing.compression import LOCAL, Compression, engine_of, measured, profile_of, stated
from lightloom.workloads.graph import ComputeGraph


def check_compression(codec: str | None, profile: Path | None, ratio: str | float | None, engine: str | None) -> None:
    """Check a codec's arguments before the model is traced.

    Raises:
        ConfigError: arguments that need a codec, or exclude each other, or cannot be read.
        UnknownNameError: no such codec or engine.
    """
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
    codec: str, model: str, graph: ComputeGraph, profile: Path | None, ratio: str | float | None, engine: str | None
) -> Compression:
    """Return the compression with a given ratio, or with the one that a profile of the model measured.

    Raises:
        ConfigError: no profile of this model and codec (says how to make one), or an engine that cannot run the codec.
        UnknownNameError: no such codec or engine.
    """
    if ratio is not None:
        return stated(codec, _number(ratio), engine or LOCAL)
    return measured(*profile_of(model, graph, find(codec).name, profile), engine or LOCAL)


def _number(text: str | float) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise ConfigError(f"--compression-ratio {text!r}: expected a number") from error
