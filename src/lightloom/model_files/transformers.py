"""``config.json`` of ``transformers``: the model is built on the meta device by that library, and traced."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lightloom.core.documents import load_json
from lightloom.core.errors import ConfigError, WorkloadError
from lightloom.model_files.base import FileRequest, ModelReading
from lightloom.workloads.decoder import MOST_LAYERS
from lightloom.workloads.resolve import INSTALL_TORCH


def read_transformers(path: Path, request: FileRequest) -> ModelReading:
    """Return the model of a ``config.json``, for the tokens that are asked for or that it allows.

    Raises:
        ConfigError: unreadable, or no JSON object.
        WorkloadError: PyTorch or ``transformers`` is missing, or cannot build or trace this architecture.
    """
    fields = load_json(path)
    if not isinstance(fields, dict):
        raise ConfigError(f"{path}: expected an object with the fields of a configuration")
    _check_counts(fields, path)
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


def _check_counts(fields: Mapping[str, Any], path: Path) -> None:
    """Refuse numbers of layers and experts that would take minutes and gigabytes to build."""
    for name, value in fields.items():
        if isinstance(value, dict):
            _check_counts(value, path)
        elif (
            type(value) is int and value > MOST_LAYERS and ("layers" in name or "experts" in name or name == "n_layer")
        ):
            raise ConfigError(f"{path}: {name} {value:,}: expected at most {MOST_LAYERS:,}")
