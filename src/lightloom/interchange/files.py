"""Read and write schedules by the suffix of the file; what is read is verified."""

from __future__ import annotations

from collections.abc import Callable, Iterable
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
    """Write a schedule and its fabric in the format of the suffix: .json, .parquet or .arrow.

    Raises:
        UnsupportedError: another suffix, or pyarrow is needed and missing.
        ConfigError: the place cannot be written to.
    """
    return write_atomically(path, SUFFIXES[checked_suffix(path, SUFFIXES)](schedule, fabric))


def read_schedule(path: Path, fabric: Fabric | None = None) -> tuple[Schedule, Fabric]:
    """Return the verified schedule in a file, and the fabric of its verification: the given one, else the file's.

    Raises:
        UnsupportedError: another suffix, or pyarrow is needed and missing.
        ConfigError: malformed (names the file and the line, field or row), without a fabric, or wrong: the schedule
            does not complete its collective on this fabric.
    """
    schedule, own = (from_json if checked_suffix(path, SUFFIXES) == ".json" else from_arrow)(path)
    return schedule, verified(schedule, fabric or own, str(path))


def verified(schedule: Schedule, fabric: Fabric | None, where: str) -> Fabric:
    """Return the fabric if the schedule passes the verifier on it.

    Raises:
        ConfigError: there is no fabric, or the first violation: the content of the file is wrong.
    """
    if fabric is None:
        raise ConfigError(f"{where}: names no fabric: give the fabric on which to verify the schedule")
    try:
        verify(schedule, fabric)
    except VerificationError as error:
        raise ConfigError(f"{where}: {error}") from error
    return fabric


def checked_suffix(path: Path, known: Iterable[str]) -> str:
    """Return the suffix if it is one of those that are known.

    Raises:
        UnsupportedError: another suffix.
    """
    if path.suffix not in known:
        raise UnsupportedError(f"{str(path)!r}: unknown suffix {path.suffix!r}: expected one of {', '.join(known)}")
    return path.suffix
