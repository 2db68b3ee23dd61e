"""``config.json`` of ``transformers``: the model is built on the meta device by that library, and traced."""

from __future__ import annotations

import json
from pathlib import Path

from lightloom.core.errors import ConfigError, WorkloadError
from lightloom.core.files import cannot_read
from lightloom.model_files.base import FileRequest, ModelReading
from lightloom.workloads.resolve import INSTALL_TORCH


def read_transformers(path: Path, request: FileRequest) -> ModelReading:
    """Return the model of a ``config.json``, for the tokens that are asked for or that it allows.

    Raises:
        ConfigError: unreadable, or no JSON object.
        WorkloadError: PyTorch or ``transformers`` is missing, or cannot build or trace this architecture.
    """
    try:
        fields = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise cannot_read(path, error) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise ConfigError(f"{path}: expected an object with the fields of a configuration")
    try:
        from lightloom.workloads.torch.pretrained import trace_configuration
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise WorkloadError(f"{path}: {INSTALL_TORCH}") from error
    model = trace_configuration(fields, name=str(path), batch=request.batch, sequence_length=request.sequence_length)
    return ModelReading(
        graph=model.graph,
        unrecorded=tuple(_unrecorded(model.graph.unused_parameters, model.assumptions)),
        unused=model.unknown,
    )


def _unrecorded(unused: int, assumptions: tuple[str, ...]) -> list[str]:
    lines = [*assumptions, "loss and optimizer: a configuration has none"]
    return lines if not unused else [*lines, f"{unused:,} parameters that its forward pass does not use are counted"]
