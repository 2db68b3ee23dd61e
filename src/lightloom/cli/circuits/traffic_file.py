"""Traffic matrices from files: bytes of every ordered pair of ranks, as CSV or as a numpy array."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np

from lightloom.core.array_files import read_npy
from lightloom.core.documents import read_number
from lightloom.core.errors import ConfigError, InputError, UnitError
from lightloom.core.files import cannot_read
from lightloom.core.units import parse
from lightloom.parallelism.circuits.traffic import Traffic

MOST_RANKS = 8192
"""As many as a fabric may have."""


def read_traffic(path: Path) -> Traffic:
    """A matrix [ranks, ranks], source by destination: ``.npy``, or CSV whose cells are sizes (``1MB``, ``4096``).

    Raises:
        ConfigError: the file cannot be read, or is no square matrix of sizes.
        InputError: an entry negative or not finite, traffic of a rank to itself, or none at all.
    """
    matrix = _read_array(path) if path.suffix.lower() == ".npy" else _read_csv(path)
    try:
        return Traffic.of(matrix)
    except InputError as error:
        raise ConfigError(f"{path}: {error}") from error


def _read_array(path: Path) -> Any:
    array = read_npy(path, mapped=True)
    shape = array.shape
    if len(shape) != 2 or shape[0] != shape[1] or array.dtype.kind not in "uif":
        what = f"{array.dtype} of shape {shape}"
        raise ConfigError(f"{path}: {what}: expected numbers of shape (ranks, ranks), source by destination")
    _check_size(path, shape[0])
    return np.asarray(array, np.float64)


def _read_csv(path: Path) -> list[list[float]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            lines = [line for line in csv.reader(file) if any(cell.strip() for cell in line)]
    except OSError as error:
        raise cannot_read(path, error) from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"{path}: not a CSV file of text ({error})") from error
    if not lines:
        raise ConfigError(f"{path}: the file is empty: expected a line for each rank, a size for each destination")
    _check_size(path, len(lines))
    for number, line in enumerate(lines, start=1):
        if len(line) != len(lines):
            raise ConfigError(
                f"{path}: row {number} has {len(line)} values, the matrix {len(lines)} rows: expected as many values "
                "as rows"
            )
    return [[_bytes(path, number, place, cell) for place, cell in enumerate(line)] for number, line in enumerate(lines)]


def _check_size(path: Path, ranks: int) -> None:
    if not 2 <= ranks <= MOST_RANKS:
        raise ConfigError(f"{path}: a matrix of {ranks} ranks: expected 2 to {MOST_RANKS}")


def _bytes(path: Path, row: int, column: int, cell: str) -> float:
    try:
        return read_number(cell)
    except ValueError:
        pass
    try:
        if "_" in cell:
            raise UnitError(f"{cell!r}: expected digits, and a unit where they are no bytes")
        return parse(cell, "size")
    except UnitError as error:
        raise ConfigError(f"{path}: from rank {row} to rank {column}: {error}") from error
