"""Read a script or line with arguments of Megatron-LM: the model, and the strategy that they pin."""

from __future__ import annotations

from pathlib import Path

from lightloom.core.errors import WorkloadError
from lightloom.model_files.base import FileRequest, ModelReading
from lightloom.model_files.decoders import trace_decoder
from lightloom.model_files.megatron.options import Options, read_options
from lightloom.model_files.megatron.sizes import decoder_sizes
from lightloom.model_files.megatron.strategy import strategy_notes, strategy_pins

_RUN = ("nproc-per-node", "nnodes", "node-rank", "master-addr", "master-port")


def read_megatron(path: Path, request: FileRequest) -> ModelReading:
    """Return the decoder that the arguments describe; ``vocab-size`` may be defined beside them.

    Raises:
        ConfigError: unreadable, another kind of model, or an argument that is missing or contradicts another.
        WorkloadError: sizes that contradict each other, or PyTorch is missing.
    """
    options = read_options(path, request.definitions)
    if (defined := request.definitions.get("vocab-size")) is not None and "vocab-size" not in options.given:
        options.given = {**options.given, "vocab-size": [defined]}
    try:
        sizes, assumed = decoder_sizes(options, request.sequence_length)
    except WorkloadError as error:
        raise WorkloadError(f"{path}: {error}") from error
    pins = strategy_pins(options)
    notes = [*options.notes, *assumed, *strategy_notes(options, _ranks(options))]
    batch = options.count("global-batch-size")
    return ModelReading(
        graph=trace_decoder(sizes, name=path.stem, batch=request.batch),
        unrecorded=tuple(notes),
        unused=options.unused(),
        pins=pins,
        global_batch=batch,
        replica_batch=pins.micro_batch if options.program else None,
    )


def _ranks(options: Options) -> int | None:
    return None if "world-size" not in options.given else options.count("world-size")
