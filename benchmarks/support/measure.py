"""Run Python in a fresh process and read what the operating system charged it."""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from lightloom.core.errors import InputError
from lightloom.core.files import check_writable


@dataclass(frozen=True, slots=True)
class Charge:
    """CPU seconds (user and system) and peak memory of one process."""

    cpu: float
    mebibytes: float
    output: str


def run(code: str, *, cache: Path | None = None) -> Charge:
    """Run ``code`` in a fresh interpreter; ``cache`` replaces the compiled-kernel cache (an empty one is cold)."""
    environment = dict(os.environ)
    if cache is not None:
        environment["NUMBA_CACHE_DIR"] = str(cache)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    # ru_maxrss would begin at the size of this process.
    closing = (
        "\nprint(); print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code + closing], capture_output=True, text=True, env=environment, check=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    *output, peak = done.stdout.split()
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Charge(cpu, int(peak) / 1024, " ".join(output))


def warm_and_cold(code: str, runs: int = 5) -> tuple[list[Charge], Charge]:
    """Several runs with compiled kernels in the cache, and one that compiles everything."""
    with tempfile.TemporaryDirectory() as folder:
        cold = run(code, cache=Path(folder))
        warm = [run(code, cache=Path(folder)) for _ in range(runs)]
    return warm, cold


def middle(values: list[float]) -> float:
    """The median, rounded for printing."""
    return round(median(values), 3)


def print_rows(rows: list[dict[str, object]]) -> None:
    """One JSON object a line."""
    for row in rows:
        print(json.dumps(row))


def cpu_name() -> str:
    """What the processor calls itself."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


def parse_parts(parser: argparse.ArgumentParser, parts: Collection[str]) -> argparse.Namespace:
    """Options of a benchmark that measures the named ``parts``, by default all, and may write rows to ``--json``."""
    parser.add_argument("parts", nargs="*", metavar="|".join(parts), help="what to measure; all without")
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    options = parser.parse_args()
    if wrong := set(options.parts) - set(parts):
        parser.error(f"{sorted(wrong)[0]}: expected {', '.join(parts)}")
    if options.json:
        check_writable(options.json)
    return options


def parse_no_options(description: str | None) -> None:
    """Answer ``--help`` of a benchmark that takes no options with its module's docstring, and refuse any other."""
    formatter = argparse.RawDescriptionHelpFormatter
    argparse.ArgumentParser(description=description, formatter_class=formatter).parse_args()


def parse_folder(description: str | None) -> Path:
    """The only argument of a benchmark: a folder of files that it reads."""
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=description, formatter_class=formatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="repositories, as OWNER/NAME/COMMIT")
    folder: Path = parser.parse_args().folder
    if not folder.is_dir():
        parser.error(f"{folder}: expected a folder")
    return folder


def exit_clearly(work: Callable[[], None]) -> int:
    """Run a command; what the user got wrong is one line on stderr and exit status 2."""
    try:
        work()
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0
