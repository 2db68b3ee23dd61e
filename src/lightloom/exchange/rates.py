"""Rates of this host's kernels by method, as ``lightloom exchange measure`` keeps them in the cache."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from lightloom.core.cache import cache_directory
from lightloom.core.files import write_atomically


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelRates:
    """How fast one method's kernels run on one thread of this host."""

    encode: float
    """Bytes of float32 per second: of the gradient's values."""
    decode: float
    """The same: of the values in messages."""
    encode_message: float
    """Seconds of a call, whatever its size."""
    decode_message: float
    kernel: str
    """What was measured."""
    flops: float | None = None
    """Floating-point operations per second of products with narrow matrices, for low-rank methods."""


def rates_path() -> Path:
    """The file in the cache."""
    return cache_directory() / "exchange-rates.json"


def measured_rates(method: str) -> KernelRates | None:
    """Return the rates of a method by its name; None where it was not measured, or the file is damaged."""
    row = _rows().get(method)
    try:
        return None if row is None else KernelRates(**row)  # type: ignore[arg-type]
    except TypeError:
        return None


def keep_rates(method: str, rates: KernelRates) -> Path:
    """Keep the rates of a method in the cache; returns the file.

    Raises:
        ConfigError: the cache cannot be written.
    """
    return write_atomically(rates_path(), json.dumps({**_rows(), method: asdict(rates)}, indent=2))


def _rows() -> dict[str, dict[str, object]]:
    try:
        rows = json.loads(rates_path().read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    return {name: row for name, row in rows.items() if isinstance(row, dict)} if isinstance(rows, dict) else {}
