"""Write the results as one Parquet file; equal rows give equal bytes."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from lightloom.core.errors import UnsupportedError
from lightloom.core.files import write_atomically

COLUMNS: Mapping[str, str] = {
    "what": "string",
    "site": "string",
    "ranks": "int64",
    "settings": "string",
    "collective": "string",
    "nbytes": "float64",
    "model": "string",
    "batch_per_rank": "int64",
    "sequence_length": "int64",
    "strategy": "string",
    "algorithm": "string",
    "overlap": "bool",
    "cost_model": "string",
    "status": "string",
    "why": "string",
    "time_s": "float64",
    "energy_j": "float64",
    "watts_per_rank": "float64",
    "dollars_per_step": "float64",
    "samples_per_dollar": "float64",
    "samples_per_joule": "float64",
    "goodput": "float64",
    "lower_bound_s": "float64",
    "bound_by": "string",
    "ratio": "float64",
    "steps": "int64",
    "transmission_s": "float64",
    "conversion_s": "float64",
    "reconfiguration_s": "float64",
    "static_circuits": "bool",
    "compute_s": "float64",
    "exposed_communication_s": "float64",
    "exposed_reconfiguration_s": "float64",
    "idle_s": "float64",
    "communication_s": "float64",
    "memory_bytes": "float64",
    "fits_memory": "bool",
}
"""Name and type of each column, in SI units; null where a column does not apply to a row."""
KEY = b"lightloom.sweep"
"""Metadata key of the provenance."""


def check_installed() -> None:
    """Check before the work that results can be written.

    Raises:
        UnsupportedError: pyarrow is not installed.
    """
    try:
        import_module("pyarrow.parquet")
    except ModuleNotFoundError as error:
        raise UnsupportedError("sweeps need pyarrow, which is not installed: pip install 'lightloom[sweep]'") from error


def write_table(rows: Sequence[Mapping[str, Any]], path: Path, origin: Mapping[str, Any]) -> Path:
    """Write rows in their order; the file is complete or absent.

    Raises:
        ConfigError: the place cannot be written to.
    """
    arrow = import_module("pyarrow")
    fields = [arrow.field(name, getattr(arrow, kind.replace("bool", "bool_"))()) for name, kind in COLUMNS.items()]
    schema = arrow.schema(fields, metadata={KEY: json.dumps(dict(origin), sort_keys=True).encode()})
    table = arrow.Table.from_pylist([dict(row) for row in rows], schema=schema)
    buffer = io.BytesIO()
    import_module("pyarrow.parquet").write_table(table, buffer, compression="zstd")
    return write_atomically(path, buffer.getvalue())
