"""Export and import schedules in every format, by the suffix of the file."""

from __future__ import annotations

from pathlib import Path

from lightloom.collectives.schedule.columns import Schedule
from lightloom.core.errors import ConfigError
from lightloom.core.files import write_atomically
from lightloom.fabrics.base import Fabric
from lightloom.interchange.chakra import read_traces, write_traces
from lightloom.interchange.files import SUFFIXES, checked_suffix, read_schedule, write_schedule
from lightloom.interchange.msccl.read import read_program
from lightloom.interchange.msccl.write import program_of
from lightloom.interchange.msccl.xml import to_xml

FORMATS = {
    ".json": "one JSON document",
    ".parquet": "a Parquet table",
    ".arrow": "an Arrow IPC table",
    ".et": "Chakra traces, one file a rank: NAME.et stands for NAME.0.et, NAME.1.et, ...",
    ".xml": "a program of MSCCL",
}


def export_schedule(path: Path, schedule: Schedule, fabric: Fabric) -> list[Path]:
    """Write a verified schedule in the format of the suffix, and return the files written.

    Raises:
        UnsupportedError: the suffix of no format, or a format that cannot express this schedule.
        ConfigError: the place cannot be written to.
    """
    checked_suffix(path, FORMATS)
    if path.suffix in SUFFIXES:
        return [write_schedule(path, schedule, fabric)]
    if path.suffix == ".et":
        return write_traces(path.with_suffix(""), schedule, fabric)
    return [write_atomically(path, to_xml(program_of(schedule, fabric)))]


def import_schedule(path: Path, fabric: Fabric | None = None, nbytes: float | None = None) -> tuple[Schedule, Fabric]:
    """Return the verified schedule in a file, and the fabric on which it was verified: the given one, else the file's.

    Args:
        nbytes: size of the collective, which a program of MSCCL does not state.

    Raises:
        UnsupportedError: the suffix of no format, or a program that is no schedule.
        ConfigError: malformed or wrong; names the file and the line, field, row or node.
    """
    checked_suffix(path, FORMATS)
    if path.suffix != ".xml":
        if nbytes is not None:
            raise ConfigError(f"{path}: states its size: do not give one")
        if path.suffix == ".et":
            return read_traces(path.with_suffix(""), fabric)
        return read_schedule(path, fabric)
    if fabric is None or nbytes is None:
        raise ConfigError(
            f"{path}: a program of MSCCL names no fabric and no size: give --fabric, --ranks and --nbytes"
        )
    return read_program(path, fabric, nbytes), fabric
