"""How well codecs compress the gradients of one model, measured: ratios, errors, tags, and this host's rates.

A profile says what its gradients were, so that figures from random inputs are never taken for figures from data.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from lightloom.core.cache import cache_directory
from lightloom.core.configfile import validate
from lightloom.core.errors import ConfigError
from lightloom.core.fields import Bandwidth, Config, Count, Seconds
from lightloom.core.files import cannot_read, write_atomically
from lightloom.core.provenance import content_hash

SCHEMA: Literal["lightloom.compression-profile/1"] = "lightloom.compression-profile/1"


class Fit(Config):
    """Compression ratio and errors of a codec on some values."""

    values: Count
    ratio: Annotated[float, Field(gt=0)]
    """Bytes as float32 for each compressed byte; checked stream included for the whole, payload alone for a tensor."""
    tags: tuple[int, int, int, int] | None = None
    """Values that take 2, 10, 18 and 34 bits, tag included; null for codecs without tags."""
    max_error: Annotated[float, Field(ge=0)]
    relative_l2_error: Annotated[float, Field(ge=0)]
    """|decoded − values| / |values|; 0 where all values are 0."""
    cosine: Annotated[float, Field(ge=-1.001, le=1.001)]
    """Cosine of the angle between decoded and original values; 0 where nothing is left, 1 where nothing was there."""


class Rates(Config):
    """Rates of this host's kernel, in bytes of float32 values per second."""

    threads: Count
    encode: Bandwidth
    decode: Bandwidth
    encode_message: Seconds | None = None
    """Seconds to encode a message whatever its size; null in profiles that did not measure it."""
    decode_message: Seconds | None = None


class CodecProfile(Config):
    """Measurements of one codec on the gradients of one model."""

    codec: str
    """As :func:`lightloom.compression.find` understands it."""
    whole: Fit
    """Over all tensors and steps together."""
    steps: dict[int, float]
    """Ratio by training step."""
    sums: dict[int, Annotated[float, Field(gt=0)]] = Field(default_factory=dict)
    """Ratio of sums of so many gradients at one step, 1 included; empty where none were measured."""
    tensors: dict[str, Fit]
    """By parameter name, over all steps."""
    host: tuple[Rates, ...]
    """With one thread, and with all."""
    engine: Rates | None = None
    """Rates of the paper's 256-bit engines at 100 MHz on these values; null for codecs that it does not model."""


class CompressionProfile(Config):
    """Measurements of several codecs on the gradients of one model."""

    schema_name: Literal["lightloom.compression-profile/1"] = Field(default=SCHEMA, alias="schema")
    model: str
    """As given to ``lightloom plan``."""
    parameters: Count
    gradients: str
    """Where they come from, in words; says so where inputs were random."""
    kernel: str
    """Implementation whose rates were measured, as :func:`lightloom.compression.implementation` names it."""
    codecs: Annotated[tuple[CodecProfile, ...], Field(min_length=1)]

    def of(self, codec: str) -> CodecProfile | None:
        """Return the measurements of one codec."""
        return next((profile for profile in self.codecs if profile.codec == codec), None)

    def to_json(self) -> dict[str, Any]:
        """Return the profile as plain types, which :func:`read` accepts."""
        return self.model_dump(mode="json", by_alias=True)


def read(path: Path) -> CompressionProfile:
    """Read a profile from a file.

    Raises:
        ConfigError: unreadable, not JSON, of another version, or a field is missing, unknown or out of range.
    """
    try:
        data = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or "not JSON"
        raise cannot_read(path, reason, "compression profile") from error
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        raise ConfigError(f"{str(path)!r} is no compression profile: expected a document with schema {SCHEMA!r}")
    profile: CompressionProfile = validate(CompressionProfile, data, str(path))
    return profile


def store(profile: CompressionProfile, key: str) -> list[Path]:
    """Keep a profile in the cache for ``lightloom plan``, one file a codec; ``key`` names the model and its code.

    Raises:
        ConfigError: the cache cannot be written.
    """
    return [
        write_atomically(
            cache_path(key, each.codec), json.dumps(profile.model_copy(update={"codecs": (each,)}).to_json())
        )
        for each in profile.codecs
    ]


def cache_path(key: str, codec: str) -> Path:
    """Where the profile of a model's gradients under one codec is kept."""
    return cache_directory() / "profiles" / f"{content_hash([key, codec, SCHEMA])}.json"
