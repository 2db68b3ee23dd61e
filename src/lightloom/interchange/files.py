"""Schedules in files, by suffix: written whole or not at all, and verified before anyone uses what was read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.verify.stepped import verify
from lightloom.core.errors import ConfigError, UnsupportedError, VerificationError
from lightloom.core.files import write_atomically
from lightloom.fabrics.base import Fabric
from lightloom.interchange.arrow_file import from_arrow, to_arrow, to_parquet
from lightloom.interchange.json_file import from_json, to_json

SUFFIXES: dict[str, Callable[[Schedule, Fabric | None], str | bytes]] = {
    ".json": to_json,
    ".parquet": to_parquet,
    ".arrow": to_arrow,
}


def write_schedule(path: Path, schedule: Schedule, fabric: Fabric | None) -> Path:
    """Write a schedule, and the fabric that it is for, as the suffix says: .json, .parquet or .arrow.

    Raises:
        UnsupportedError: another suffix, or pyarrow is needed and missing.
        ConfigError: the place cannot be written to.
    """
    return write_atomically(path, SUFFIXES[known_suffix(path)](schedule, fabric))


def read_schedule(path: Path, fabric: Fabric | None = None) -> tuple[Schedule, Fabric]:
    """The verified schedule in a file, and the fabric on which it was verified: the given one, else the file's own.

    Raises:
        UnsupportedError: another suffix, or pyarrow is needed and missing.
        ConfigError: malformed (names the file and the line, field or row), without a fabric, or wrong: it does not do
            what its collective promises, or not on this fabric.
    """
    schedule, own = (from_json if known_suffix(path) == ".json" else from_arrow)(path)
    on = fabric or own
    if on is None:
        raise ConfigError(f"{path}: names no fabric: give one, on which the schedule can be verified")
    return verified(schedule, on, str(path)), on


def verified(schedule: Schedule, fabric: Fabric, where: str) -> Schedule:
    """The schedule, if it passes the verifier.

    Raises:
        ConfigError: the first violation; what was read is at fault, and not we.
    """
    try:
        verify(schedule, fabric)
    except VerificationError as error:
        raise ConfigError(f"{where}: {error}") from error
    return schedule


def known_suffix(path: Path) -> str:
    """The suffix, if it is one that this module writes.

    Raises:
        UnsupportedError: it is not.
    """
    if path.suffix not in SUFFIXES:
        raise UnsupportedError(f"{str(path)!r}: unknown suffix {path.suffix!r}: expected one of {', '.join(SUFFIXES)}")
    return path.suffix
