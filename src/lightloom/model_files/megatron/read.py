"""Read a script or line with arguments of Megatron-LM: the model, and the strategy that they pin."""

from __future__ import annotations

import re
from pathlib import Path

from lightloom.core.errors import WorkloadError
from lightloom.model_files.base import FileRequest, ModelReading
from lightloom.model_files.decoders import trace_decoder
from lightloom.model_files.megatron.options import Options, read_options
from lightloom.model_files.megatron.sizes import decoder_sizes
from lightloom.model_files.megatron.strategy import stage_blocks, strategy_notes, strategy_pins

_RUN = ("nproc-per-node", "nnodes", "node-rank", "master-addr", "master-port")


LINE = "the shell line"
"""What a line is called in messages."""
_LINE = re.compile(r"(^|\s)--[a-z][a-z0-9-]+(\s|=|$)")


def is_shell_line(text: str) -> bool:
    """Whether a model is given as a shell line with options rather than as a name or a file."""
    return _LINE.search(text) is not None


def read_megatron_line(line: str, request: FileRequest) -> ModelReading:
    """Return the decoder that a shell line describes, as :func:`read_megatron` does.

    Raises:
        ConfigError: no arguments of Megatron-LM, or what :func:`read_megatron` refuses.
    """
    return read_megatron(Path(LINE), request, line)


def read_megatron(path: Path, request: FileRequest, text: str | None = None) -> ModelReading:
    """Return the decoder that the arguments describe; ``vocab-size`` may be defined beside them.

    Args:
        text: a shell line in the place of the file; ``path`` then names it in messages.

    Raises:
        ConfigError: unreadable, another kind of model, or an argument that is missing or contradicts another.
        WorkloadError: sizes that contradict each other, or PyTorch is missing.
    """
    options = read_options(path, request.definitions, text)
    if (defined := request.definitions.get("vocab-size")) is not None and "vocab-size" not in options.given:
        options.given = {**options.given, "vocab-size": [defined]}
    try:
        sizes, assumed = decoder_sizes(options, request.sequence_length)
    except WorkloadError as error:
        raise WorkloadError(f"{path}: {error}") from error
    pins, blocks = strategy_pins(options), stage_blocks(options, sizes.layers)
    notes = [*options.notes, *assumed, *strategy_notes(options, _ranks(options))]
    batch = options.count("global-batch-size")
    return ModelReading(
        graph=trace_decoder(sizes, name=path.stem if text is None else "megatron", batch=request.batch),
        unrecorded=tuple(notes),
        unused=options.unused(),
        pins=pins,
        global_batch=batch,
        replica_batch=pins.micro_batch if options.program else None,
        stage_blocks=blocks,
    )


def _ranks(options: Options) -> int | None:
    return None if "world-size" not in options.given else options.count("world-size")
