"""``lightloom compress``: measure codecs on a model's gradients, and code files of floats."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import numpy as np
import typer
from numpy.typing import NDArray

from lightloom.app.cli.options import OutFile, Shown, read_settings
from lightloom.core.array_files import read_npy
from lightloom.core.configfile import read_config
from lightloom.core.errors import CodecError, ConfigError, WorkloadError, needing_torch
from lightloom.core.fields import Config, Count
from lightloom.core.files import atomic_file, cannot_read, check_writable, write_atomically
from lightloom.core.results import cells, provenance
from lightloom.core.units import format_size
from lightloom.exchange.compression.codec import Codec
from lightloom.exchange.compression.profile import Sample, measure_codecs, read_gradients, store_profile
from lightloom.exchange.compression.registry import codecs, find
from lightloom.exchange.compression.stream import HEADER_BYTES, MAGIC, FramedCodec, Header, StreamDecoder
from lightloom.models.zoo import load_workload
from lightloom.planning.gradients import model_key
from lightloom.reports.console import Parts, screen
from lightloom.reports.progress import progress

if TYPE_CHECKING:
    from lightloom.core.arrays import Float32s
    from lightloom.exchange.compression.profile import CompressionProfile
    from lightloom.models.graph import ComputeGraph
    from lightloom.papers.runs.gradient_profile import Training


# Files of float32 to checked streams and back, frame by frame: neither file is ever held in memory.

_PIECE = 1 << 20


def _values(path: Path) -> NDArray[np.float32]:
    """Return the float32 values of a file (.npy, else raw little-endian bytes) as one flat array, mapped and not read;
    ConfigError for a file that cannot be read or holds other values."""
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
    """Return (header, codec): the header that ``head``, the first bytes of a stream, holds, and the codec that wrote
    it, built with the header's parameter. ``source`` is the file, for messages; CodecError if the header is malformed
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


class ProfileSettings(Config):
    """Settings of the training whose gradients are measured: fields of ``lightloom compress profile --set``."""

    steps: int = 20
    """Steps to train."""
    learning_rate: float = 0.01
    """Learning rate of SGD with momentum 0.9."""
    sums: Count = 64
    """Gradients of the last step that are added up at most, as a ring does."""
    data: Path | None = None
    """Folder with data sets (MNIST), for models that they fit. Null: random inputs."""


def profile(
    model: str,
    *,
    codec: list[str] | None = None,
    gradients: list[Path] | None = None,
    batch: int = 16,
    sequence_length: int | None = None,
    seed: int = 0,
    set: list[str] | None = None,
    out: OutFile = None,
) -> Shown:
    """Measure what codecs make of this model's gradients, and keep it for `lightloom plan --exchange`.

    `lightloom compress profile hdc --codec inceptionn:2^-8` trains it for some steps and measures one codec.

    Args:
        model: A zoo name, package.module:factory, or file.py:factory.
        codec: The codec that is measured, inceptionn:2^-10 if none is given; repeatable.
        gradients: Measure saved gradients (.npy, .npz, .pt) instead of training; one file a step; repeatable.
        batch: Samples in a step.
        sequence_length: Tokens in a sample; the model's own number if not given.
        seed: The seed of initialisation, inputs and labels.
        set: field=value of the training: steps=20, learning_rate=0.01, sums=64 gradients that are added up at most as a
            ring does, or data=FOLDER with MNIST, for models that it fits (random inputs if not given); repeatable.
        out: Also write the profile to a file.

    Returns:
        The result to print: ratio, errors and rates of each codec; they are also kept where plans find them.

    Raises:
        InputError: a codec, file or setting that cannot be read, or gradients of another number of values.
        WorkloadError: the model cannot be loaded, or PyTorch is missing.
    """
    codecs = [find(name) for name in dict.fromkeys(codec or [_DEFAULT])]
    graph = load_workload(model, batch=1, sequence_length=sequence_length)
    settings = read_config(ProfileSettings, "profile", None, read_settings(set))
    if gradients:
        origin, values = f"saved: {', '.join(path.name for path in gradients)}", _saved(gradients, graph)
    else:
        with needing_torch(f"{model}:", "; or give --gradients FILE", WorkloadError):
            from lightloom.papers.runs.gradient_profile import Training
        chosen: dict[str, Any] = {"batch": batch, "sequence_length": sequence_length, "seed": seed}
        stated: dict[str, Any] = dict(settings)
        training = Training(model=model, **chosen, terms=stated.pop("sums"), **stated)
        origin, values = training.describe(), _trained(graph, training)
    measured = measure_codecs(model, graph.parameters, values, codecs, origin)
    document = measured.to_json() | {"provenance": provenance([measured.to_json()], None if gradients else seed)}
    if out is not None:
        write_atomically(out, json.dumps(measured.to_json(), indent=2) + "\n")
    store_profile(measured, model_key(model))
    return Shown(document, _answer(measured), {"profile": out})


def _trained(graph: ComputeGraph, training: Training) -> Iterator[Sample]:
    """Yield the gradients before the update at the sampled steps of a training, and at the last one sums of 2, 4, ...
    gradients of different batches, up to ``training.terms``; each as a sample: step from 1, number of gradients in the
    sum, float32 values by tensor, which last until the next is taken. The training runs while samples are taken.
    ``graph`` is the model's."""
    from lightloom.papers.runs.gradient_profile import trained_gradients

    with progress("Training", training.steps + training.terms - 1) as advance:
        yield from trained_gradients(training, graph.parameters, advance)


def _saved(paths: list[Path], graph: ComputeGraph) -> Iterator[Sample]:
    """Yield each file's gradients as a sample of one rank, and after files 2, 4, 8, ... also the sum of all files so
    far as that of so many ranks; the step of a sample is the number of its file, from 1. The tensor of an .npy file has
    the name of the first file.

    ConfigError for a file of another number of values than the model has parameters (those that its forward pass never
    uses may be in it or not), or of other tensors than the first.
    """
    total: dict[str, Float32s] = {}
    with progress("Gradients", len(paths)) as advance:
        for step, path in enumerate(advance.over(paths), start=1):
            if path.suffix == ".pt":
                from lightloom.papers.runs.gradient_profile import saved_gradients

                tensors = saved_gradients(path)
            else:
                tensors = read_gradients(path)
            if path.suffix == ".npy":  # one tensor, named after its file
                tensors = dict(zip([paths[0].stem], tensors.values(), strict=True))
            values = sum(tensor.size for tensor in tensors.values())
            # Parameters that the forward pass never uses have no gradient; a file may have zeros for them.
            if values not in (graph.parameters, graph.parameters + graph.unused_parameters):
                raise ConfigError(
                    f"gradients {str(path)!r} hold {values:,} values; {graph.name} has {graph.parameters:,} parameters"
                )
            if total and {name: each.size for name, each in tensors.items()} != {n: t.size for n, t in total.items()}:
                raise ConfigError(f"gradients {str(path)!r}: expected the tensors of {paths[0].name!r}")
            yield Sample(step, 1, tensors)
            # Of different steps, for want of other ranks' gradients.
            total = tensors if not total else {name: total[name] + tensor for name, tensor in tensors.items()}
            if step > 1 and step & (step - 1) == 0:
                yield Sample(step, step, total)


def _answer(profile: CompressionProfile) -> Parts:
    """Return what the terminal shows: the codec of the largest ratio, and a row for each of the first eight codecs with
    its ratio (bytes as float32 for each coded byte), relative (root mean square) and largest error, and the GB/s of
    float32 that one thread of this host encodes and decodes; where sums of gradients were measured, also the ratio that
    the best codec reaches on the largest sum."""
    best = max(profile.codecs, key=lambda codec: codec.whole.ratio)
    most, ratio = max(best.sums.items(), default=(1, 0.0))
    rows = cells(
        "codec: {codec} | ratio: {whole.ratio:.2f} | relative error: {whole.relative_l2_error:.3f} | "
        "largest error: {whole.max_error:.2e}",
        profile.codecs,
    )
    for row, codec in zip(rows, profile.codecs, strict=True):
        row |= {way: f"{getattr(codec.host[0], way) / 1e9:.3g} GB/s" for way in ("encode", "decode")}
    return screen(
        f"What do codecs make of the gradients of {profile.model}, {profile.parameters:,} values?",
        (f"{best.codec} makes them {best.whole.ratio:.2f} times smaller", profile.gradients),
        rows,
        legend="relative error: of all values, root mean square; GB/s: of float32 values on one thread of this host",
        everything="--json",
        limit=f"{best.codec} makes a sum of {most} gradients, as rings send, {ratio:.2f} times smaller" * (most > 1),
        more=(f"lightloom plan {profile.model} --exchange METHOD", "--json: every tensor"),
    )


def compress_file(source: Path, target: Annotated[Path, check_writable], *, codec: str | None = None) -> None:
    """Compress a file of floats, or decompress what this command wrote.

    A compressed stream is recognised, says which codec made it, and every frame is checked.
    `lightloom compress file gradients.npy gradients.llgc --codec int4:128` compresses.

    Args:
        source (IN): float32 values: .npy, or raw little-endian bytes; or a compressed stream.
        target (OUT): The stream; or the values: .npy, else raw little-endian bytes.
        codec: The codec that compresses, inceptionn:2^-10 if not given, e.g. truncate:16.

    Raises:
        ConfigError: a file that cannot be read or written, or a codec for what is compressed already.
        CodecError: a damaged stream.
    """
    chosen = find(codec or _DEFAULT)
    with _opened(source) as stream:
        head = stream.read(HEADER_BYTES)
        if not head.startswith(MAGIC):
            _compress(source, target, chosen)
        elif codec is not None:
            raise ConfigError(f"--codec {codec}: {str(source)!r} is compressed, and says by which codec")
        else:
            stream.seek(0)
            _decompress(source, stream, *_codec_of(head, source), target)


def _opened(path: Path) -> BinaryIO:
    """Return a file that is open for reading; ConfigError where it cannot be."""
    try:
        return path.open("rb")
    except OSError as error:
        raise cannot_read(path, error) from error


def _compress(source: Path, target: Path, codec: Codec) -> None:
    """Write the stream of a file of float32 values, by ``codec``, to ``target``, which appears only when it is whole,
    and print both sizes and their ratio; ConfigError for a codec without frames, or a file that cannot be read."""
    if not isinstance(codec, FramedCodec):
        raise ConfigError(f"codec {codec.name!r} does not write a stream of frames")
    values, written = _values(source), 0
    with progress("Values", values.size) as advance, atomic_file(target) as file:
        for piece in codec.iter_encode(values):
            file.write(piece)
            written += len(piece)
            advance(codec.chunk)
    sizes = f"{format_size(values.nbytes)} of values in {format_size(written)}"
    typer.echo(f"{target}: {sizes}, {values.nbytes / written:.2f} times smaller")


def _decompress(source: Path, stream: BinaryIO, header: Header, codec: FramedCodec, target: Path) -> None:
    """Write the values of a stream, which is read from its begin, to ``target`` (.npy, else raw little-endian float32),
    which appears only when it is whole, and print how many; CodecError for a damaged frame or a stream that ends early.

    ``header`` is the one that the stream begins with, and ``codec`` the one that it names.
    """
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
