"""Count the files that a command walks through: those of the package whose functions are called while it runs.

    python -m scripts.walk plan resnet50 --cluster terarack-64
    python -m scripts.walk --list collective all-gather --fabric ring --ranks 4 --nbytes-per-rank 1MB
    python -m scripts.walk --tree plan resnet50 --cluster terarack-64

The command runs twice in this process, through the entry point that installing lightloom registers: once to import
modules and to fill caches, then once to be counted. A file is entered when one of its functions is called; bodies of
modules and classes, which importing runs, do not count. Lambdas and comprehensions belong to their file and are counted
apart from functions, because Python 3.12 and later run most comprehensions without a call. Threads are counted, other
processes and compiled kernels are not. A crossing is a call of a function whose nearest caller in the package is in
another file; a generator that resumes is called once more.
"""

from __future__ import annotations

import argparse
import io
import sys
import threading
from ast import get_docstring, parse
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from importlib.util import find_spec
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

PACKAGE = "lightloom"


@dataclass
class Walk:
    """Calls of functions in the files of one folder, in the order of first entry; files are relative to the folder."""

    folder: Path
    files: dict[str, dict[tuple[str, int], int]] = field(default_factory=dict)
    """Number of calls of each function, by name and first line, of each entered file."""
    entered_from: dict[str, str] = field(default_factory=dict)
    """File whose call entered a file first; empty where none of the folder did."""
    unnamed: set[tuple[str, str, int]] = field(default_factory=set)
    """Lambdas and comprehensions entered: file, name and first line."""
    crossings: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Number of calls from one file (first) into another one (second)."""
    recording: bool = False
    _names: dict[str, str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def functions(self) -> int:
        """Number of functions entered."""
        return sum(map(len, self.files.values()))

    def profile(self, frame: FrameType, event: str, _: Any) -> None:
        """Count one call; this is what ``sys.setprofile`` takes."""
        if event != "call" or not self.recording:
            return
        file = self._file(frame.f_code)
        if not file:
            return
        back = frame.f_back
        while back is not None and not self._file(back.f_code):
            back = back.f_back
        caller = self._file(back.f_code) if back else ""
        code = frame.f_code
        with self._lock:
            if file not in self.files:
                self.files[file] = {}
                self.entered_from[file] = caller
            if caller and caller != file:
                self.crossings[caller, file] += 1
            if code.co_name.startswith("<"):
                self.unnamed.add((file, code.co_qualname, code.co_firstlineno))
            else:
                function = (code.co_qualname, code.co_firstlineno)
                self.files[file][function] = self.files[file].get(function, 0) + 1

    def _file(self, code: CodeType) -> str:
        """Return the file of a function of the folder; empty for others, and for bodies of modules and classes."""
        if not code.co_flags & CO_OPTIMIZED:
            return ""
        name = self._names.get(code.co_filename)
        if name is None:
            path = Path(code.co_filename)
            name = path.relative_to(self.folder).as_posix() if path.is_relative_to(self.folder) else ""
            self._names[code.co_filename] = name
        return name


@contextmanager
def profiled(walk: Walk) -> Iterator[None]:
    """Send the calls of this thread, and of threads that it starts, to `walk`."""
    before = sys.getprofile(), threading.getprofile()
    threading.setprofile(walk.profile)
    sys.setprofile(walk.profile)
    try:
        yield
    finally:
        sys.setprofile(before[0])
        threading.setprofile(before[1])


def walk_through(call: Callable[[], Any], folder: Path) -> Walk:
    """Return the walk of a call through the Python files below `folder`, its second time."""
    walk = Walk(folder)
    # Threads that the first call leaves waiting are profiled as well, so it is profiled and not recorded.
    with profiled(walk):
        call()
        walk.recording = True
        call()
        walk.recording = False
    return walk


def run_command(arguments: list[str]) -> None:
    """Run lightloom in this process, and show nothing of what it prints unless it fails."""
    (entry,) = entry_points(group="console_scripts", name=PACKAGE)
    output = io.StringIO()
    before = sys.argv
    sys.argv = [PACKAGE, *arguments]
    code: Any = 0
    try:
        with redirect_stdout(output), redirect_stderr(output):
            code = entry.load()()
    except SystemExit as stop:
        code = stop.code
    finally:
        sys.argv = before
    if code:
        sys.exit(f"{output.getvalue()}error: {PACKAGE} {' '.join(arguments)}: exit status {code}")


def show_list(walk: Walk) -> None:
    """Print the files in the order of first entry, with the calls of each function."""
    for file, calls in walk.files.items():
        print(f"\n{file} ({len(calls)})")
        for (name, line), number in calls.items():
            print(f"  {line}: {name} ({number:,})")


def show_tree(walk: Walk) -> None:
    """Print every file below the one that entered it first, with what its docstring says of it."""
    print()
    below: dict[str, list[str]] = {}
    for file, caller in walk.entered_from.items():
        below.setdefault(caller, []).append(file)

    def show(file: str, depth: int) -> None:
        text = (get_docstring(parse((walk.folder / file).read_text())) or "").partition("\n")[0]
        print(f"{'  ' * depth}{file} ({len(walk.files[file])}): {text}")
        for other in below.get(file, []):
            show(other, depth + 1)

    for file in below.get("", []):
        show(file, 0)


def main() -> None:
    """Print how many files and functions a command enters."""
    parser = argparse.ArgumentParser(prog="python -m scripts.walk", description="Count the files a command enters.")
    parser.add_argument("--list", action="store_true", help="print files and functions in the order of first entry")
    parser.add_argument("--tree", action="store_true", help="print each file below the file that entered it first")
    parser.add_argument("--crossings", type=int, default=0, metavar="N", help="print the N most crossed pairs of files")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="a command of lightloom with its options")
    options = parser.parse_args()
    if not options.command:
        parser.error("expected a command of lightloom, such as: plan resnet50 --cluster terarack-64")
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        sys.exit(f"error: {PACKAGE} is not installed")
    walk = walk_through(lambda: run_command(options.command), Path(spec.origin).parent)
    for title, number in (
        ("files entered", len(walk.files)),
        ("functions entered", walk.functions),
        ("  lambdas and comprehensions", len(walk.unnamed)),
        ("crossings between files", walk.crossings.total()),
    ):
        print(f"{title:28} {number:>9,}")
    if options.list:
        show_list(walk)
    if options.tree:
        show_tree(walk)
    if options.crossings:
        print()
    for (caller, file), number in walk.crossings.most_common(options.crossings):
        print(f"{number:>9,}  {caller} -> {file}")


if __name__ == "__main__":
    main()
