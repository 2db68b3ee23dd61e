"""Export and import schedules in every format, by the suffix of the file."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from lightloom.collectives.files.chakra import read_traces, write_traces
from lightloom.collectives.files.document import SUFFIXES, checked_suffix, read_schedule, write_schedule
from lightloom.collectives.files.msccl.program import to_xml
from lightloom.collectives.files.msccl.read import read_program
from lightloom.collectives.files.msccl.write import program_of
from lightloom.collectives.schedule.columns import Schedule
from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.core.files import write_atomically
from lightloom.core.memory import require_memory
from lightloom.core.units import format_size
from lightloom.machines.fabrics.fabric import Fabric

FORMATS = {
    ".json": "one JSON document",
    ".parquet": "a Parquet table",
    ".arrow": "an Arrow IPC table",
    ".et": "Chakra traces, one file a rank: NAME.et stands for NAME.0.et, NAME.1.et, ...",
    ".xml": "a program of MSCCL",
}
LARGEST = 1e9
"""Bytes above which an export is refused, unless the caller allows more."""


_ROW_SIZES = {
    ".json": (False, 40, 500),
    ".parquet": (False, 20, 1000),
    ".arrow": (False, 40, 700),
    ".et": (True, 330, 2400),
    ".xml": (True, 350, 3500),
}
"""True for formats that write out the rows of all ranks, pieces and chunks, and the bytes that a row takes in the
files and in memory while it is written, as measured for schedules of 8,000 to 90,000 rows, rounded up."""


class ExportSize(NamedTuple):
    """How much an export writes."""

    rows: int
    nbytes: float
    """About so many bytes in all files."""
    memory: float
    """About so many bytes of memory, while it writes."""

    def summary(self) -> str:
        """Return the rows and bytes in words: "1,024 rows, about 40 KiB"."""
        return f"{self.rows:,} rows, about {format_size(self.nbytes)}"


def export_size(path: Path, schedule: Schedule) -> ExportSize:
    """Return about how much an export in the format of the suffix will write, without writing it: rows, bytes of all
    files, and bytes of memory meanwhile, by what a row of the format takes and, in files of stored rows, 8 bytes for
    every entry of lists of chunks.

    Rows are those of all ranks, pieces and chunks in formats that write them out (``.et``, ``.xml``), else those
    stored.

    Raises:
        UnsupportedError: the suffix of no format.
    """
    unfolded, written, memory = _ROW_SIZES[checked_suffix(path, FORMATS)]
    rows = schedule.unfolded_rows if unfolded else len(schedule)
    listed = 0 if unfolded or schedule.lists is None else 8 * len(schedule.lists.chunks)
    return ExportSize(rows, rows * written + listed, rows * memory + listed)


def export_schedule(
    path: Path,
    schedule: Schedule,
    fabric: Fabric,
    largest: float = LARGEST,
    advance: Callable[[int], None] = lambda _: None,
) -> list[Path]:
    """Write a verified schedule in the format of the suffix, and return the files written: of ``NAME.et`` one for each
    rank, ``NAME.0.et`` and so on, else ``path``.

    Args:
        largest: bytes of all files, as :func:`export_size` estimates them, above which nothing is written; 1 GB by
            default.
        advance: called with numbers of rows that are done, of each twice, where rows are written one by one (``.et``,
            ``.xml``).

    Raises:
        UnsupportedError: the suffix of no format, a format that cannot express this schedule, more bytes than
            ``largest``, or more memory than is free.
        ConfigError: the place cannot be written to.
    """
    size = export_size(path, schedule)
    if size.nbytes > largest:
        raise UnsupportedError(
            f"{str(path)!r}: {size.summary()}: expected at most {format_size(largest)}, or a --largest (largest=) that "
            "allows more"
        )
    require_memory(size.memory, f"writing {size.rows:,} rows to {str(path)!r}")
    if path.suffix in SUFFIXES:
        return [write_schedule(path, schedule, fabric)]
    if path.suffix == ".et":
        return write_traces(path.with_suffix(""), schedule, fabric, advance)
    return [write_atomically(path, to_xml(program_of(schedule, fabric, advance)))]


def import_schedule(path: Path, fabric: Fabric | None = None, nbytes: float | None = None) -> tuple[Schedule, Fabric]:
    """Return the verified schedule in a file, and the fabric on which it was verified: the given one, else the file's.

    Args:
        path: a file with a suffix of :data:`FORMATS`; ``NAME.et``, or the trace of one rank, stands for those of all
            ranks.
        fabric: needed of a program of MSCCL (``.xml``), and of a file that names none.
        nbytes: size of the collective, as ``Collective.nbytes`` counts it, of a program of MSCCL, which does not state
            it; of other formats it must be None.

    Raises:
        UnsupportedError: the suffix of no format, pyarrow is needed and missing, or a program that is no schedule.
        ConfigError: malformed or wrong, naming the file and the line, field, row or node; a fabric or a size that is
            missing, or a size that the file states itself.
    """
    checked_suffix(path, FORMATS)
    if path.suffix != ".xml":
        if nbytes is not None:
            raise ConfigError(f"{path}: states its size: do not give one")
        if path.suffix == ".et":
            prefix = path.with_suffix("")
            if path.exists() and prefix.suffix[1:].isdecimal():  # the trace of one rank stands for those of all
                prefix = prefix.with_suffix("")
            return read_traces(prefix, fabric)
        return read_schedule(path, fabric)
    if fabric is None or nbytes is None:
        raise ConfigError(
            f"{path}: a program of MSCCL names no fabric and no size: give --fabric, --ranks and --nbytes"
        )
    return read_program(path, fabric, nbytes), fabric
