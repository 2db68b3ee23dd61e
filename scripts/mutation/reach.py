"""The map of tests: which functions each one enters, and how long it takes; made again only where something changed."""

from __future__ import annotations

import json
import os
import sys
import time
from hashlib import sha256
from pathlib import Path
from typing import TypedDict

from scripts.mutation.children import KEPT_RESULTS, ROOT, Child, Outcome, Task, reaching_code, start
from scripts.mutation.selection import SOURCE, Module, Selection

LEFT_OUT = ("sweeps", "benchmarks", "studies", "docs", "examples", "mutation")
"""Folders of tests about whole pages, papers and runs of minutes: slow, and reached by no single function."""
SECONDS_OF_A_FILE = 3600
"""CPU seconds that the tests of one file may take."""
SECONDS_BETWEEN_WRITES = 60
"""The map is tens of megabytes: it is kept so often."""
COMPILED = (".pyc", ".so", ".nbi", ".nbc")


class _OfFile(TypedDict):
    """What the tests of one file do."""

    modules: list[str]
    """Modules of the package that they load."""
    digest: str
    """Hash of the file, of these modules and of what all tests share."""
    tests: dict[str, float]
    reached: dict[str, list[str]]


def measure(modules: dict[str, Module], workers: int, path: Path, keep: bool) -> Selection:
    """Run every quick test and every kept result once, file by file; note what each enters and how long it takes.

    The notes are kept in `path`. What a file's tests do depends on the file, on the modules that they load, and on
    what all tests share. Files of which none of these changed are not run again, and with `keep` no file that is noted.
    """
    files = [
        file.relative_to(ROOT).as_posix()
        for file in sorted((ROOT / "tests").rglob("test_*.py"))
        if file.relative_to(ROOT).parts[1] not in LEFT_OUT
    ]
    digests = Digests(modules)
    known: dict[str, _OfFile] = json.loads(path.read_text()) if path.exists() else {}
    record = {file: known[file] for file in files if file in known and (keep or digests.holds(file, known[file]))}
    code = {each.name: reaching_code(each.text, each.path, each.name) for each in modules.values()}
    pending = sorted((file for file in files if file not in record), key=lambda file: file != KEPT_RESULTS)
    running: dict[str, Child] = {}
    written = time.monotonic()
    while pending or running:
        while pending and len(running) < workers:
            running[pending[0]] = start(Task((pending[0],), code, cpu_seconds=SECONDS_OF_A_FILE, reaching=True))
            pending.pop(0)
        for file, child in list(running.items()):
            outcome = child.poll()
            if outcome is not None:
                del running[file]
                record[file] = _entry(file, outcome, digests)
        if time.monotonic() > written + SECONDS_BETWEEN_WRITES or not running:
            _write(record, path)
            written = time.monotonic()
        time.sleep(0.05)
    times = {test: spent for of_file in record.values() for test, spent in of_file["tests"].items()}
    reached = {test: names for of_file in record.values() for test, names in of_file["reached"].items()}
    return Selection(modules, times, reached)


class Digests:
    """Hashes of what tests depend on."""

    def __init__(self, modules: dict[str, Module]) -> None:
        self._of_module = {name: sha256(module.text.encode()).hexdigest() for name, module in modules.items()}
        shared = [file for file in (ROOT / "tests").rglob("*") if not file.name.startswith("test_")]
        shared += [file for file in (SOURCE / "lightloom").rglob("*") if file.suffix != ".py"]
        shared = sorted(file for file in shared if file.is_file() and file.suffix not in COMPILED)
        self._shared = sha256(b"".join(sha256(file.read_bytes()).digest() for file in shared)).hexdigest()

    def of(self, file: str, names: list[str]) -> str:
        """Hash a test file, these modules and what all tests share."""
        parts = [self._shared, sha256((ROOT / file).read_bytes()).hexdigest()]
        parts += [f"{name} {self._of_module.get(name, '')}" for name in names]
        return sha256("\n".join(parts).encode()).hexdigest()

    def holds(self, file: str, entry: _OfFile) -> bool:
        """Return whether nothing changed that the tests of a file depend on."""
        return entry["digest"] == self.of(file, entry["modules"])

    def every(self) -> list[str]:
        """Return the names of all modules."""
        return sorted(self._of_module)


def _entry(file: str, outcome: Outcome | str, digests: Digests) -> _OfFile:
    if isinstance(outcome, str):
        print(f"{file}: ended by {outcome}; its tests are left out", file=sys.stderr)
        names = digests.every()
        return _OfFile(modules=names, digest=digests.of(file, names), tests={}, reached={})
    if outcome["failed"]:
        print(f"{file}: {outcome['failed']} fails without a mutant; it is left out", file=sys.stderr)
    names = outcome["modules"]
    return _OfFile(modules=names, digest=digests.of(file, names), tests=outcome["tests"], reached=outcome["reached"])


def _write(record: dict[str, _OfFile], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_suffix(".part")
    scratch.write_text(json.dumps(record))
    os.replace(scratch, path)  # noqa: PTH105
