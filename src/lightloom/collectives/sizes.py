"""Sizes of the parts of a collective that is not even: measured, given, or skewed by Zipf's law.

In a mixture of experts each rank holds experts, and some experts are asked for more often than others. With Zipf's law
the k-th most popular rank receives a share proportional to k^−s of what every rank sends:

    exponent s    0      0.8    1.2         which rank is the k-th is drawn from the seed
    most popular  1      9.1    18.7        share of the most popular of 64 ranks over the mean
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np

from lightloom.core.arrays import Floats
from lightloom.core.documents import read_number
from lightloom.core.errors import ConfigError
from lightloom.core.files import cannot_read
from lightloom.core.memory import require_memory

_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class Sizes:
    """Part of all bytes that each part of a collective has; they add up to 1."""

    share: Floats
    """Of each rank, [rank], or of each ordered pair, [source, destination]."""

    def __post_init__(self) -> None:
        share = np.array(self.share, np.float64)
        total = share.sum()
        if share.ndim not in (1, 2) or (share.ndim == 2 and share.shape[0] != share.shape[1]):
            raise ConfigError(f"sizes of shape {share.shape}: expected one a rank, or a square of one a pair of ranks")
        if not np.isfinite(total) or (share < 0).any() or total <= 0:
            raise ConfigError("sizes: expected finite numbers that are not negative, and one above zero")
        if share.ndim == 2 and not (share.sum() - np.trace(share)) > 0:
            raise ConfigError("sizes: only what ranks keep for themselves has a size: expected something that is sent")
        # What has been read back must not change again by rounding.
        share = np.ascontiguousarray(share if abs(total - 1) < _ROUNDING else share / total)
        share.flags.writeable = False
        object.__setattr__(self, "share", share)

    @property
    def shape(self) -> tuple[int, ...]:
        """One or two times the number of ranks."""
        return self.share.shape

    @property
    def digest(self) -> str:
        """A hash of the shares."""
        return blake2b(self.share.tobytes(), digest_size=16).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sizes) and np.array_equal(self.share, other.share)

    def __hash__(self) -> int:
        return hash(self.digest)


def zipf_sizes(ranks: int, exponent: float, seed: int = 0, *, pairs: bool = True) -> Sizes:
    """Sizes by Zipf's law, alike from every source.

    Args:
        exponent: s in k^−s, not negative; 0: all are equal.
        seed: of the order in which ranks are popular.
        pairs: sizes of ordered pairs of ranks, otherwise of ranks.

    Raises:
        ConfigError: an exponent that is not finite or negative, or a negative seed.
    """
    if not (np.isfinite(exponent) and exponent >= 0 and seed >= 0):
        raise ConfigError(f"zipf:{exponent:g}:{seed}: expected an exponent and a seed that are not negative")
    if pairs:
        require_memory(24 * ranks**2, f"a size for every pair of {ranks:,} ranks")
    popularity: Floats = np.power(np.arange(1.0, ranks + 1), -exponent)
    popularity = np.random.default_rng(seed).permutation(popularity)
    return Sizes(np.tile(popularity, (ranks, 1)) if pairs else popularity)


def measured_sizes(path: Path) -> tuple[Sizes, float]:
    """Sizes in bytes from a CSV file, a line for each source, or one line or column for all ranks; and their sum.

    Raises:
        ConfigError: a file that cannot be read, or whose entries are not numbers or not as many in each line.
    """
    try:
        with path.open(newline="", encoding="utf-8") as file:
            lines = [line for line in csv.reader(file) if line]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise cannot_read(path, error) from error
    rows = []
    for number, line in enumerate(lines, 1):
        if len(line) != len(lines[0]):
            raise ConfigError(f"{path}: line {number} has {len(line)} entries: expected {len(lines[0])}")
        try:
            rows.append([read_number(entry) for entry in line])
        except ValueError as error:
            raise ConfigError(f"{path}: line {number}: {error}: expected bytes") from error
    nbytes = np.array(rows)
    if 1 in nbytes.shape:
        nbytes = nbytes.ravel()
    try:
        return Sizes(nbytes), float(nbytes.sum())
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def read_sizes(text: str, ranks: int, *, pairs: bool) -> tuple[Sizes, float | None]:
    """Sizes of the form ``zipf:EXPONENT[:SEED]``, or those of a CSV file with their sum in bytes.

    Args:
        pairs: sizes of ordered pairs of ranks, otherwise of ranks.

    Raises:
        ConfigError: a text of no such form, or a file that cannot be read.
    """
    what, *rest = text.split(":")
    if what != "zipf":
        if Path(text).suffix != ".csv":
            raise ConfigError(f"sizes {text!r}: expected zipf:EXPONENT, zipf:EXPONENT:SEED or a .csv file of bytes")
        return measured_sizes(Path(text))
    try:
        exponent, seed = float(rest[0]), int(rest[1]) if len(rest) > 1 else 0
    except (ValueError, IndexError) as error:
        raise ConfigError(f"sizes {text!r}: expected zipf:EXPONENT or zipf:EXPONENT:SEED, e.g. zipf:1.2") from error
    if len(rest) > 2:
        raise ConfigError(f"sizes {text!r}: expected zipf:EXPONENT or zipf:EXPONENT:SEED, e.g. zipf:1.2")
    return zipf_sizes(ranks, exponent, seed, pairs=pairs), None
