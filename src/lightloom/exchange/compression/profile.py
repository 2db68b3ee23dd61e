"""How well codecs compress the gradients of one model, measured: ratios, errors, tags, and this host's rates.

A profile says what its gradients were, so that figures from random inputs are never taken for figures from data.
"""

import json
import os
import timeit
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, cast

import numpy as np
from pydantic import Field

from lightloom.core.array_files import read_npy, read_npz
from lightloom.core.arrays import Float32s, Floats, Ints
from lightloom.core.configfile import validate
from lightloom.core.errors import ConfigError
from lightloom.core.fields import Bandwidth, Config, Count, Seconds
from lightloom.core.files import cache_directory, cannot_read, write_atomically
from lightloom.core.results import content_hash
from lightloom.exchange.compression import inceptionn
from lightloom.exchange.compression.codec import Codec
from lightloom.exchange.compression.inceptionn import Inceptionn, InceptionnPrinted
from lightloom.exchange.compression.kernels import implementation
from lightloom.exchange.compression.stream import FRAME_HEADER, HEADER_BYTES, FramedCodec, tag_histogram

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
    """Name of the codec, as :func:`lightloom.exchange.compression.registry.find` reads it."""
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
    """Name of the model, as ``lightloom plan`` takes it."""
    parameters: Count
    gradients: str
    """Where they come from, in words; says so where inputs were random."""
    kernel: str
    """Implementation whose rates were measured, as ``exchange.compression.kernels.implementation`` names it."""
    codecs: Annotated[tuple[CodecProfile, ...], Field(min_length=1)]

    def of(self, codec: str) -> CodecProfile | None:
        """Return the measurements of the codec of that full name; None where it was not measured."""
        return next((profile for profile in self.codecs if profile.codec == codec), None)

    def to_json(self) -> dict[str, Any]:
        """Return the profile as plain types for JSON, by field name, with its version under ``schema``, as
        :func:`read_profile` reads it."""
        return self.model_dump(mode="json", by_alias=True)


def read_profile(path: Path) -> CompressionProfile:
    """Return the compression profile in a JSON file.

    Raises:
        ConfigError: unreadable, not JSON, of another version, or a field is missing, unknown or out of range.
    """
    try:
        data = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise cannot_read(path, getattr(error, "strerror", None) or "not JSON", "compression profile") from error
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        raise ConfigError(f"{str(path)!r} is no compression profile: expected a document with schema {SCHEMA!r}")
    return validate(CompressionProfile, data, str(path))


def store_profile(profile: CompressionProfile, key: str) -> list[Path]:
    """Write a profile into the cache for ``lightloom plan``, a file for each codec, and return the paths in the order
    of the codecs.

    Args:
        profile: measurements on one model's gradients.
        key: names the model and its code; :func:`cache_path` finds the files by it and the codec's full name.

    Raises:
        ConfigError: the cache cannot be written, or its folder belongs to somebody else or others can write to it.
    """
    alone = [profile.model_copy(update={"codecs": (each,)}) for each in profile.codecs]
    return [write_atomically(cache_path(key, one.codecs[0].codec), json.dumps(one.to_json())) for one in alone]


def cache_path(key: str, codec: str) -> Path:
    """Return the path in the cache (``profiles/<hash>.json`` under ``$LIGHTLOOM_CACHE`` or the user's cache folder) of
    the profile of one codec, by its full name, on the gradients of the model that ``key`` names; the file need not
    exist. Raises ConfigError where the cache folder belongs to somebody else or others can write to it."""
    return cache_directory() / "profiles" / f"{content_hash([key, codec, SCHEMA])}.json"


# Measure the compression ratio, error and rate of codecs on gradients: the figures of a profile.

Gradients = Mapping[str, Float32s]
"""One step's gradients, flat, by parameter name."""


class Sample(NamedTuple):
    """Gradients of one training step, or a sum of several."""

    step: int
    terms: int
    """Number of gradients that were added up, of different batches."""
    gradients: Gradients


_RATE_VALUES = 1 << 23
"""Number of values (32 MiB) on which rates are measured, all gradients repeated or cut: more than caches hold, less
than a second per round."""
_ROUNDS = 5
_MESSAGE_VALUES = 64
"""Number of values of a message whose coding takes no longer than the call."""
_CALLS = 50
_ENGINE_VALUES = 1 << 18
_BLOCK = 1 << 20


@dataclass(slots=True)
class _Sums:
    """Sums over steps of one tensor, or of all tensors together."""

    values: int = 0
    nbytes: int = 0
    max_error: float = 0.0
    products: Floats = field(default_factory=lambda: np.zeros(4))
    """Sums of squared errors, squared values, squared decoded values, and values times decoded values."""
    tags: Ints | None = None

    def add(self, values: Float32s, decoded: Float32s, nbytes: int, tags: Ints | None) -> None:
        """Add one encoded array to the sums.

        Args:
            values: the values that were encoded, flat float32.
            decoded: what their encoding decodes to, as many.
            nbytes: bytes of the encoding.
            tags: number of values of each tag, int64 [4]; None for a codec without tags.
        """
        self.values += values.size
        self.nbytes += nbytes
        for begin in range(0, values.size, _BLOCK):
            exact, received = (part[begin : begin + _BLOCK].astype(np.float64) for part in (values, decoded))
            error = received - exact
            self.max_error = max(self.max_error, float(np.abs(error).max()))
            self.products += [error @ error, exact @ exact, received @ received, exact @ received]
        if tags is not None:
            self.tags = tags if self.tags is None else self.tags + tags

    def fit(self) -> Fit:
        """Return, over all that was added, the number of values, the compression ratio (bytes as float32 over encoded
        ones), the values of each tag (None without tags), the largest absolute error of a value, the relative L2 error
        |decoded - values| / |values|, and the cosine of the angle between the two; needs at least one value. Where all
        values are 0, the relative L2 error is 0 and the cosine 1; where only the decoded ones are, the cosine is 0."""
        error, size, decoded_size, product = self.products.tolist()
        norms = float(np.sqrt(size) * np.sqrt(decoded_size))
        return Fit(
            values=self.values,
            ratio=4 * self.values / self.nbytes,
            tags=None if self.tags is None else cast(Any, tuple(self.tags.tolist())),
            max_error=self.max_error,
            relative_l2_error=float(np.sqrt(error / size)) if size else 0.0,
            cosine=product / norms if norms else float(size == 0),
        )


@dataclass(slots=True)
class _Measured:
    """Sums of one codec over the steps measured so far."""

    codec: Codec
    whole: _Sums = field(default_factory=_Sums)
    tensors: dict[str, _Sums] = field(default_factory=dict)
    steps: dict[int, float] = field(default_factory=dict)
    sums: dict[int, float] = field(default_factory=dict)
    _ratio: float = 0.0
    """Compression ratio of the latest gradient that is not a sum of several."""

    def add(self, step: int, terms: int, gradients: Gradients) -> None:
        """Encode the gradients of a training step, all together as one stream and each tensor by itself; keep the ratio
        of the former by step, and add both to the sums of ratio and errors, the latter by parameter. A tensor's bytes
        are counted without headers, those of the whole with them.

        Of a sum of several gradients (``terms`` above 1) only the ratio is kept, by its number of terms; under 1 term
        stands the ratio of the single gradient before the first sum, which must have been measured.

        Args:
            step: number of the training step.
            terms: number of gradients that were added up.
            gradients: the gradients, flat float32, by parameter name; at least one, none empty.
        """
        together = np.concatenate(list(gradients.values()))
        encoded = self.codec.encode(together)
        ratio = together.nbytes / len(encoded)
        if terms > 1:
            self.sums.setdefault(1, self._ratio)
            self.sums[terms] = ratio
            return
        self._ratio = self.steps[step] = ratio
        self._add(self.whole, together, encoded, len(encoded))
        for name, values in gradients.items():
            encoded = self.codec.encode(values)
            nbytes = _payload_bytes(self.codec, encoded, values.size)
            self._add(self.tensors.setdefault(name, _Sums()), values, encoded, nbytes)

    def _add(self, sums: _Sums, values: Float32s, encoded: memoryview, nbytes: int) -> None:
        """Decode the stream ``encoded`` of ``values``, and add their errors to ``sums``, with ``nbytes`` as the bytes
        of the encoding, which may leave headers out; tags are counted for INCEPTIONN's codecs alone, without the scaled
        one."""
        tags = tag_histogram(encoded) if isinstance(self.codec, (Inceptionn, InceptionnPrinted)) else None
        sums.add(values, self.codec.decode(encoded), nbytes, tags)


def measure_codecs(
    model: str, parameters: int, steps: Iterable[Sample], codecs: Iterable[Codec], origin: str
) -> CompressionProfile:
    """Return the profile of codecs on a model's gradients: ratios and errors over all steps, of all tensors together
    and by parameter; ratios by step, and by number of gradients summed; this host's rates, in bytes of float32 values a
    second, with one thread and with one for each CPU, on the last gradients that are not a sum of several, repeated or
    cut to 2^23 values; and the rates of the paper's hardware engines for the INCEPTIONN codecs that they model.

    Args:
        model: name of the model.
        parameters: number of its parameters.
        steps: (step, number of gradients summed, flat float32 gradients by parameter name) for training steps, at least
            one with a single gradient, and for sums that begin with the latest one. Empty tensors are left out.
        codecs: codecs to measure, at least one.
        origin: description of the gradients, shown to the reader.

    Raises:
        ConfigError: no step of a single gradient, a sum before any, a step without values, or NaN or infinite values
            (names the tensor), which no training would use.
    """
    measured = [_Measured(codec) for codec in codecs]
    sample: Float32s | None = None
    for step, terms, gradients in steps:
        values = {name: tensor for name, tensor in gradients.items() if tensor.size}
        if not values:
            raise ConfigError(f"{model}: the gradients of step {step} hold no values: expected one at least")
        if terms > 1 and sample is None:
            raise ConfigError(f"{model}: step {step} is a sum of {terms} gradients: expected a single one before it")
        _check_finite(values, step)
        for measurement in measured:
            measurement.add(step, terms, values)
        if terms == 1:
            sample = np.resize(np.concatenate(list(values.values())), _RATE_VALUES)
    if sample is None:
        raise ConfigError(f"{model}: there are no gradients to measure")
    return CompressionProfile(
        model=model,
        parameters=parameters,
        gradients=origin,
        kernel=implementation(),
        codecs=tuple(
            CodecProfile(
                codec=measurement.codec.name,
                whole=measurement.whole.fit(),
                steps=measurement.steps,
                sums=measurement.sums,
                tensors={name: sums.fit() for name, sums in measurement.tensors.items()},
                host=tuple(host_rates(measurement.codec, sample, count) for count in sorted({1, os.cpu_count() or 1})),
                engine=engine_rates(measurement.codec, sample),
            )
            for measurement in measured
        ),
    )


Coding = tuple[Callable[[], object], Callable[[], object]]
"""Encoding and decoding one message."""


def host_rates(codec: Codec, values: Float32s, threads: int) -> Rates:
    """Return the rates of encoding and decoding ``values`` on this host with so many threads, in bytes of float32
    values a second (the fastest of 5 rounds), and the seconds of encoding and of decoding the first 64 of them (the
    fastest of 50), each time after a round that is not counted. Decoding writes to memory made before, encoding to new
    memory."""

    def coding(part: Float32s) -> Coding:
        """Return encoding some values on ``threads`` threads, and decoding their stream into memory made before."""
        stream, out = codec.encode(part), np.empty_like(part)
        return (lambda: codec.encode(part, threads=threads), lambda: codec.decode(stream, out=out, threads=threads))

    large, small = coding(values), coding(values[:_MESSAGE_VALUES])
    return Rates(threads=threads, **coding_rates(large, small, (values.nbytes, values.nbytes)))


def coding_rates(large: Coding, small: Coding, nbytes: tuple[int, int]) -> dict[str, float]:
    """Return the bytes a second of encoding and decoding a large message (``encode``, ``decode``), the fastest of 5
    rounds, and the seconds of a small one (``encode_message``, ``decode_message``), the fastest of 50; each time after
    one that is not counted.

    Args:
        large, small: functions (encode, decode), without arguments, that code a message.
        nbytes: bytes of float32 values that encoding the large message takes in, and that decoding it gives, by which
            its rates are counted.
    """
    kinds = ("encode", "decode")
    rates = {kind: size / _fastest(run, _ROUNDS) for kind, run, size in zip(kinds, large, nbytes, strict=True)}
    return rates | {f"{kind}_message": _fastest(run, _CALLS) for kind, run in zip(kinds, small, strict=True)}


def _fastest(kernel: Callable[[], object], rounds: int) -> float:
    """Return the seconds of the fastest of ``rounds`` calls of ``kernel``, after one that is not counted."""
    kernel()
    return min(timeit.repeat(kernel, repeat=rounds, number=1))


def engine_rates(codec: Codec, values: Float32s) -> Rates | None:
    """Return the rates of the paper's hardware engines at 100 MHz, in bytes of float32 values a second, by counts of
    cycles for the first 2^18 of the values, without seconds of a message; None for all codecs but INCEPTIONN's windowed
    and printed forms."""
    if not isinstance(codec, (Inceptionn, InceptionnPrinted)):
        return None
    part = values[:_ENGINE_VALUES]
    sizes = inceptionn.group_bits(codec, part).tolist()
    models = inceptionn.compression_cycles, inceptionn.decompression_cycles
    encode, decode = (part.nbytes * inceptionn.CLOCK_HZ / cycles(sizes)[0] for cycles in models)
    return Rates(threads=1, encode=encode, decode=decode)


def read_gradients(path: Path) -> dict[str, Float32s]:
    """Return saved float32 gradients, flat, by name: those of an ``.npy`` file as one tensor named after the file
    without its suffix, those of an ``.npz`` file by the names in it. Files of PyTorch (``.pt``) are not read here.

    Raises:
        ConfigError: unreadable, no ``.npy`` or ``.npz`` at the end of the name, or not float32.
    """
    if path.suffix not in (".npy", ".npz"):
        raise ConfigError(f"gradients {str(path)!r}: expected a .npy, .npz or .pt file")
    arrays = {path.stem: read_npy(path)} if path.suffix == ".npy" else read_npz(path)
    for name, array in arrays.items():
        if array.dtype != np.float32:
            raise ConfigError(f"gradients {str(path)!r}: {name!r} is {array.dtype}, expected float32")
    return {name: np.ascontiguousarray(array).reshape(-1) for name, array in arrays.items()}


def _payload_bytes(codec: Codec, encoded: memoryview, values: int) -> int:
    """Return the bytes of the stream ``encoded`` of ``values`` values without the headers of stream (24 bytes) and
    frames (8 each), at least 1, as a bucket of many tensors has these headers only once; the bytes of the whole stream
    for codecs without frames."""
    if not isinstance(codec, FramedCodec):
        return len(encoded)
    return max(len(encoded) - HEADER_BYTES - FRAME_HEADER * -(-values // codec.chunk), 1)


def _check_finite(gradients: Gradients, step: int) -> None:
    """Raise ConfigError that names the first tensor with NaN or infinite gradients, their number, and ``step``."""
    for name, values in gradients.items():
        if invalid := values.size - int(np.count_nonzero(np.isfinite(values))):
            raise ConfigError(f"gradients of {name!r} at step {step}: {invalid} of {values.size} are NaN or infinite")
