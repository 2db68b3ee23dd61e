"""``lightloom compress``: measure codecs on a model's gradients, and code files of floats."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.table import Table

from lightloom.app.cli.options import OutFile, Shown
from lightloom.core.array_files import read_npy
from lightloom.core.errors import CodecError, ConfigError, WorkloadError, needing_torch
from lightloom.core.fields import Count
from lightloom.core.files import atomic_file, cannot_read, check_writable, write_atomically
from lightloom.core.results import provenance
from lightloom.core.units import format_size, format_time
from lightloom.exchange.compression.profile import Sample, measure_codecs, read_gradients, store_profile
from lightloom.exchange.compression.registry import codecs, find
from lightloom.exchange.compression.stream import HEADER_BYTES, FramedCodec, Header, StreamDecoder
from lightloom.models.zoo import load_workload
from lightloom.planning.gradients import model_key
from lightloom.reports.console import plain_table
from lightloom.reports.progress import progress

if TYPE_CHECKING:
    from lightloom.core.arrays import Float32s
    from lightloom.exchange.compression.profile import CompressionProfile
    from lightloom.models.graph import ComputeGraph
    from lightloom.papers.runs.gradient_profile import Training


# Files of float32 to checked streams and back, frame by frame: neither file is ever held in memory.

_PIECE = 1 << 20


def _values(path: Path) -> NDArray[np.float32]:
    """Return the float32 values of a file as one flat array, mapped and not read; ConfigError for a file that cannot be
    read or holds other values."""
    try:
        raw = path.suffix != ".npy"
        values = np.memmap(path, "<f4", "r") if raw and path.stat().st_size else np.empty(0, np.float32)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "expected raw float32, four bytes a value"
        raise cannot_read(path, reason) from error
    values = values if raw else read_npy(path, mapped=True)
    if values.dtype != np.float32:
        raise ConfigError(f"{str(path)!r} holds {values.dtype}, expected float32")
    flat: NDArray[np.float32] = values.reshape(-1)
    return flat


def _codec_of(head: bytes, source: Path) -> tuple[Header, FramedCodec]:
    """Return the header that a stream begins with, and the codec that wrote it; CodecError if the header is malformed
    or no known codec has its number and parameter."""
    try:
        header = Header.parse(head)
    except CodecError as error:
        raise CodecError(f"{str(source)!r}: {error}") from error
    for family in codecs().values():
        default = family.build(family.read(family.default))
        if isinstance(default, FramedCodec) and default.codec_id == header.codec:
            # The parameter of a header is the codec's own, or the logarithm of it.
            for value in (header.parameter, 2.0**-header.parameter, 2**header.parameter):
                with suppress(ConfigError):
                    codec = family.build(value)
                    if isinstance(codec, FramedCodec) and codec.parameter == header.parameter:
                        return header, codec
    raise CodecError(f"{str(source)!r} is of codec {header.codec} with parameter {header.parameter}, unknown here")


_DEFAULT = "inceptionn:2^-10"
_TENSORS = 12
"""Tensors on the terminal; files and JSON hold all."""


def profile(
    model: str,
    *,
    codec: list[str] | None = None,
    gradients: list[Path] | None = None,
    data: Path | None = None,
    steps: int = 20,
    batch: int = 16,
    sequence_length: int | None = None,
    learning_rate: float = 0.01,
    sums: Count = 64,
    seed: int = 0,
    out: OutFile = None,
) -> Shown:
    """Measure what codecs make of this model's gradients, and keep it for `lightloom plan --exchange`.

    Args:
        model: A zoo name, package.module:factory, or file.py:factory.
        codec: inceptionn:2^-10 without it; repeatable.
        gradients: Saved gradients (.npy, .npz, .pt) instead of training; one file a step.
        data: Folder with data sets (MNIST), for models that they fit; else random inputs.
        steps: Steps to train.
        batch: Samples in a step.
        sequence_length: Tokens per sample.
        learning_rate: Learning rate of SGD with momentum 0.9.
        sums: Gradients of the last step that are added up at most, as a ring does.
        seed: Seed of initialisation, inputs and labels.
        out: Also write the profile to a file.
    """
    codecs = [find(name) for name in dict.fromkeys(codec or [_DEFAULT])]
    graph = load_workload(model, batch=1, sequence_length=sequence_length)
    if gradients:
        origin, values = f"saved: {', '.join(path.name for path in gradients)}", _saved(gradients, graph)
    else:
        with needing_torch(f"{model}:", "; or give --gradients FILE", WorkloadError):
            from lightloom.papers.runs.gradient_profile import Training
        chosen: dict[str, Any] = {"data": data, "steps": steps, "batch": batch, "terms": sums, "seed": seed}
        training = Training(model=model, **chosen, sequence_length=sequence_length, learning_rate=learning_rate)
        origin, values = training.describe(), _trained(graph, training)
    measured = measure_codecs(model, graph.parameters, values, codecs, origin)
    document = measured.to_json() | {"provenance": provenance([measured.to_json()], None if gradients else seed)}
    if out is not None:
        write_atomically(out, json.dumps(measured.to_json(), indent=2) + "\n")
    store_profile(measured, model_key(model))
    return Shown(document, _parts(measured), {"profile": out})


def _trained(graph: ComputeGraph, training: Training) -> Iterator[Sample]:
    """Yield the gradients before the update at the sampled steps of a training, and at the last one sums of 2, 4, ...
    of them."""
    from lightloom.papers.runs.gradient_profile import trained_gradients

    with progress("Training", training.steps + training.terms - 1) as advance:
        yield from trained_gradients(training, graph.parameters, advance)


def _saved(paths: list[Path], graph: ComputeGraph) -> Iterator[Sample]:
    """Yield each file's gradients as those of one rank, and at steps 2, 4, 8, ... also their sum so far as that of so
    many ranks; ConfigError for a file of another number of values."""
    total: dict[str, Float32s] = {}
    with progress("Gradients", len(paths)) as advance:
        for step, path in enumerate(paths, start=1):
            if path.suffix == ".pt":
                from lightloom.papers.runs.gradient_profile import saved_gradients

                tensors = saved_gradients(path)
            else:
                tensors = read_gradients(path)
            values = sum(tensor.size for tensor in tensors.values())
            # Parameters that the forward pass never uses have no gradient; a file may have zeros for them.
            if values not in (graph.parameters, graph.parameters + graph.unused_parameters):
                raise ConfigError(
                    f"gradients {str(path)!r} hold {values:,} values; {graph.name} has {graph.parameters:,} parameters"
                )
            yield Sample(step, 1, tensors)
            # Of different steps, for want of other ranks' gradients.
            total = tensors if not total else {name: total[name] + tensor for name, tensor in tensors.items()}
            if step > 1 and step & (step - 1) == 0:
                yield Sample(step, step, total)
            advance(1)


def _parts(profile: CompressionProfile) -> Iterator[str | Table]:
    """Yield tables of the codecs and of each codec's twelve largest tensors, ratios of sums of gradients, and how all
    was measured."""
    threads = " / ".join(str(rate.threads) for rate in profile.codecs[0].host)
    cells = []
    for codec in profile.codecs:
        rates = ([getattr(rate, way) for rate in codec.host] for way in ("encode", "decode"))
        shown = (" / ".join(f"{rate / 1e9:.3g}" for rate in each) for each in rates)
        cells.append([codec.codec, *_fit(codec.whole), *shown])
    title = f"{profile.model}, {profile.parameters:,} parameters"
    yield plain_table(["codec", *_FIT, "encode GB/s", "decode GB/s"], cells, title=title)
    for codec in profile.codecs:
        largest = sorted(codec.tensors.items(), key=lambda item: -item[1].values)[:_TENSORS]
        cells = [[name, f"{fit.values:,}", *_fit(fit)] for name, fit in largest]
        yield plain_table(["tensor", "values", *_FIT], cells, title=f"{codec.codec}, largest tensors")
    for codec in profile.codecs:
        if codec.sums:
            sums = ", ".join(f"{terms}: {ratio:.2f}" for terms, ratio in sorted(codec.sums.items()))
            yield f"{codec.codec}, ratio of sums of so many gradients: {sums}"
    calls = [rates for codec in profile.codecs for rates in codec.host[:1] if rates.encode_message is not None]
    if calls:
        slowest = max((rates.encode_message or 0.0) + (rates.decode_message or 0.0) for rates in calls)
        yield f"a message takes {format_time(slowest)} to encode and decode, however small"
    yield f"gradients: {profile.gradients}"
    yield f"kernel: {profile.kernel}, {threads} threads, bytes of float32 on this host; kept for lightloom plan"


_FIT = ("ratio", "2/10/18/34 bit, %", "max error", "rel. L2", "cosine")


def _fit(fit: Any) -> list[str]:
    """Return a codec's cells for a tensor or all of them: ratio, per cent of values by the bits of their codes (a dash
    without), maximum error, relative L2 error and cosine."""
    tags = "–" if fit.tags is None else " / ".join(f"{100 * count / fit.values:.1f}" for count in fit.tags)
    return [f"{fit.ratio:.2f}", tags, f"{fit.max_error:.2e}", f"{fit.relative_l2_error:.3f}", f"{fit.cosine:.4f}"]


def compress_file(source: Path, target: Annotated[Path, check_writable], *, codec: str = _DEFAULT) -> None:
    """Compress a file of floats.

    Args:
        source (IN): float32 values: .npy, or raw little-endian bytes.
        target (OUT): The checked stream.
        codec: E.g. inceptionn:2^-10, truncate:16.
    """
    chosen = find(codec)
    if not isinstance(chosen, FramedCodec):
        raise ConfigError(f"codec {codec!r} does not write a stream of frames")
    values, written = _values(source), 0
    with progress("Values", values.size) as advance, atomic_file(target) as file:
        for piece in chosen.iter_encode(values):
            file.write(piece)
            written += len(piece)
            advance(chosen.chunk)
    sizes = f"{format_size(values.nbytes)} of values in {format_size(written)}"
    typer.echo(f"{target}: {sizes}, {values.nbytes / written:.2f} times smaller")


def decompress(source: Path, target: Annotated[Path, check_writable]) -> None:
    """Decompress a file; the stream says which codec made it, and every frame is checked.

    Args:
        source (IN): A stream that `compress file` wrote.
        target (OUT): float32 values: .npy, else raw little-endian bytes.
    """
    try:
        stream = source.open("rb")
    except OSError as error:
        raise cannot_read(source, error) from error
    with stream:
        header, codec = _codec_of(stream.read(HEADER_BYTES), source)
        stream.seek(0)
        decoder, done = StreamDecoder(codec), 0
        with progress("Values", header.count) as advance, atomic_file(target) as file:
            if target.suffix == ".npy":
                shape = {"descr": "<f4", "fortran_order": False, "shape": (header.count,)}
                np.lib.format.write_array_header_1_0(file, shape)
            while piece := stream.read(_PIECE):
                values = decoder.feed(piece)
                file.write(values.astype("<f4", copy=False).data)
                done += values.size
                advance(values.size)
            if not decoder.finished:
                raise CodecError(f"{str(source)!r} ends early: {done} of {header.count} values")
    typer.echo(f"{target}: {done:,} values from {codec.name}")
