"""Keep what lightloom answers today, and show what another tree of it answers differently.

    python -m scripts.kept_results --write FOLDER                 compute all cases and keep their results
    python -m scripts.kept_results --compare FOLDER               compute them again; exit 1 where a result differs
    python -m scripts.kept_results --compare FOLDER --only plan.  cases whose names begin so, or one name; repeatable
    python -m scripts.kept_results --compare FOLDER --jobs 4      in so many processes
    python -m scripts.kept_results --compare FOLDER --reworded    sentences may differ in all but their numbers
    python -m scripts.kept_results --compare FOLDER --within 1e-9 on another processor, whose sums end in other digits
    python -m scripts.kept_results --list                         names and commands of the cases

A refactoring moves, merges and renames what users do not see. This command is its safety net: the results of hundreds
of commands (:mod:`scripts.kept_cases`), to the last digit on one kind of processor. It enters lightloom only where
users do: by the console script that ``pyproject.toml`` declares and by the names of ``import lightloom``. Each run
starts with an empty cache. Results of a refactoring that is meant to change some are kept again by ``--write FOLDER
--only NAME``, which leaves all others as they are.

A comparison is of JSON values: 1 and 1.0 differ, the order of an object's keys does not count. What the command adds
about itself and its duration is dropped before (:data:`DROPPED`, :data:`DURATIONS`). A command that refuses its input
is kept as the line that says why.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import lzma
import os
import re
import shutil
import sys
import tempfile
import time
import tomllib
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint
from math import isclose
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from scripts.kept_cases import CASES, Case

ROOT = Path(__file__).resolve().parent.parent
DROPPED = {
    "provenance": "version of lightloom, hashes of configuration and code, seed: they name a run and are no result",
    "compared": "the provenance of two plans in what `lightloom compare` prints",
}
"""Keys that are left out of every JSON object before it is kept, and why."""
DURATIONS = {
    "cpu_seconds": "how long the command computed",
    "seconds": "the same by the clock; elsewhere it is a result",
}
"""Keys that are left out of objects with ``cpu_seconds`` alone, and why."""
SETTINGS = {
    "COLUMNS": "200",
    "LIGHTLOOM_DATA": "",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
    "TERM": "dumb",
}
"""Environment of every run: sums of several threads differ in their last digits, messages in their width."""
WITHIN = "numbers may differ by this share; 1e-9 for results of another processor"
"""Help of the option: NumPy and OpenBLAS add up in another order where a processor has other instructions."""
DIFFERENCES = 4
"""Differences of one case that are printed."""
SLOWEST = 10
"""Slowest cases that are printed after a run."""
CASES_PER_TASK = 4
"""Cases that a process takes at once: neighbours in the table share models and kernels."""

REFERENCE = re.compile(r":\w+:`[^`]*`")
"""A reference to a module or a name of it, in docstrings that JSON Schemas show; it is left out, as names may move."""
NUMBER = re.compile(r"\d[\d.,e+-]*")
"""A number in a sentence."""

Json = Any
"""A value that ``json.loads`` returns."""


@dataclass(frozen=True)
class Outcome:
    """What one case came to."""

    name: str
    result: Json
    """``{"exit": 0, "output": ...}``, with ``"files"`` where the case keeps some; ``{"exit": 2, "error": line}``."""
    cpu_seconds: float


def main() -> None:
    """Write, compare or list the cases."""
    options = read_options()
    cases = [case for case in selected(options.only or [""]) if not case.needs or os.environ.get(case.needs)]
    if not cases:
        sys.exit(f"error: no case begins with {' or '.join(options.only)}")
    if options.list:
        for case in cases:
            print(f"{case.name:60} {case.summary()}")
        return
    folder = options.write or options.compare
    kept = read_results(folder)
    with tempfile.TemporaryDirectory(prefix="kept-results-") as scratch:
        os.environ.update(SETTINGS, LIGHTLOOM_CACHE=str(Path(scratch) / "cache"))
        outcomes = list(run_all(cases, options.jobs, Path(scratch)))
    print_times(outcomes)
    crashed = [outcome for outcome in outcomes if outcome.result["exit"] not in (0, 2)]
    for outcome in crashed:
        print(f"crashed: {outcome.name}: {outcome.result['error']}")
    if options.write:
        others = {case.name: kept[case.name] for case in CASES if case not in cases and case.name in kept}
        write_results(folder, others | {outcome.name: outcome.result for outcome in outcomes})
        sys.exit(1 if crashed else 0)
    differing = sum(print_differences(outcome, kept, options.reworded, options.within) for outcome in outcomes)
    gone = [name for name in kept if options.only is None and all(case.name != name for case in CASES)]
    for name in gone:
        print(f"{name}: a result is kept and there is no such case")
    print(f"{len(outcomes) - differing} of {len(outcomes)} results are equal to those kept in {folder}")
    sys.exit(1 if differing or crashed or gone else 0)


def selected(prefixes: Sequence[str]) -> Iterator[Case]:
    """Return the cases that have one of these names, or whose names begin with one that is no name."""
    names = {case.name for case in CASES}
    beginnings = tuple(prefix for prefix in prefixes if prefix not in names)
    return (case for case in CASES if case.name in prefixes or case.name.startswith(beginnings))


def read_options() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description="Keep the results of many commands, or compare them with kept ones.")
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", type=Path, metavar="FOLDER", help="keep the results in this folder")
    action.add_argument("--compare", type=Path, metavar="FOLDER", help="compare with the results kept in this folder")
    action.add_argument("--list", action="store_true", help="print the cases and run none")
    parser.add_argument("--only", action="append", metavar="PREFIX", help="case of this name, or cases that begin so")
    parser.add_argument("--reworded", action="store_true", help="sentences may differ in all but their numbers")
    parser.add_argument("--within", type=float, default=0.0, metavar="SHARE", help=WITHIN)
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes, one without it")
    return parser.parse_args()


def run_all(cases: list[Case], jobs: int, scratch: Path) -> Iterator[Outcome]:
    """Yield the outcome of each case, in order; `scratch` holds the folders in which they run."""
    folders = [scratch / str(index) for index in range(len(cases))]
    if jobs == 1:
        yield from map(run, cases, folders)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(run_named, [case.name for case in cases], folders, chunksize=CASES_PER_TASK)


def run_named(name: str, folder: Path) -> Outcome:
    """Run the case of this name, in another process than the one that chose it."""
    return run(next(case for case in CASES if case.name == name), folder)


def run(case: Case, folder: Path) -> Outcome:
    """Run a case in a new folder and return its result without what :data:`DROPPED` names."""
    folder.mkdir()
    for source in map(ROOT.joinpath, case.inputs):
        if source.suffix == ".xz":
            (folder / source.stem).write_bytes(lzma.decompress(source.read_bytes()))
        else:
            shutil.copy(source, folder)
    for name, text in case.texts.items():
        (folder / name).write_text(text)
    began = time.process_time()
    with contextlib.chdir(folder):
        failures = filter(None, map(prepare, case.preparations))
        result = next(failures, None) or result_of(case)
    seconds = time.process_time() - began
    shutil.rmtree(folder)
    places = {str(folder): "."}
    if tables := os.environ.get(case.needs):
        places[tables] = f"${case.needs}"
    return Outcome(case.name, normalised(result, places), seconds)


def prepare(arguments: tuple[str, ...]) -> Json:
    """Run a command that writes a file for a case, by itself or by ``>``; return why it failed, or None."""
    words, _, target = " ".join(arguments).partition(" > ")
    code, output, error = call(tuple(words.split()))
    if code:
        return {"exit": 1, "error": f"{words}: {error}"}
    if target:
        Path(target).write_text(output)
    return None


def result_of(case: Case) -> Json:
    """Return what a case prints and writes into the current folder, or why it is refused."""
    if case.expression:
        try:
            return {"exit": 0, "output": evaluated(case.expression)}
        except Exception as failure:
            return {"exit": 1, "error": f"{type(failure).__name__}: {failure}"}
    code, output, error = call(tuple(map(os.path.expandvars, case.arguments)))
    if code:
        return {"exit": code, "error": error}
    result = {"exit": 0, "output": parsed(output)}
    files = sorted({path for pattern in case.kept for path in Path().glob(pattern) if path.is_file()})
    return result | ({"files": {path.as_posix(): content(path) for path in files}} if files else {})


def evaluated(expression: str) -> Json:
    """Return the document of what an expression of the Python interface comes to, or else its text."""
    import lightloom as ll

    value = eval(expression, {"ll": ll})
    value = value.to_json() if hasattr(value, "to_json") else value
    return json.loads(json.dumps(value, default=str))


def content(path: Path) -> Json:
    """Return what a file holds: JSON, lines of text, the rows of a table, or the hash of other bytes."""
    if path.suffix == ".parquet":
        import pyarrow.parquet

        return pyarrow.parquet.read_table(path).to_pylist()
    try:
        return parsed(path.read_text())
    except UnicodeDecodeError:
        return f"sha256 {hashlib.sha256(path.read_bytes()).hexdigest()}"


def call(arguments: tuple[str, ...]) -> tuple[int, str, str]:
    """Return exit status, standard output and last line of standard error of ``lightloom`` with these arguments."""
    output, errors = io.StringIO(), io.StringIO()
    arguments_before = sys.argv
    sys.argv = ["lightloom", *arguments]
    code: object = 0
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            console_script()()
    except SystemExit as stop:
        code = stop.code or 0
    except Exception:
        errors.write(traceback.format_exc())
        code = 1
    finally:
        sys.argv = arguments_before
    lines = errors.getvalue().strip().splitlines()
    return code if isinstance(code, int) else 1, output.getvalue(), lines[-1] if lines else ""


@cache
def console_script() -> Any:
    """Return the function that ``pyproject.toml`` declares as the command ``lightloom``."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        value = tomllib.load(file)["project"]["scripts"]["lightloom"]
    return EntryPoint("lightloom", value, "console_scripts").load()


def parsed(text: str) -> Json:
    """Return the JSON value that a text holds, or else its lines."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text.splitlines()


def normalised(value: Json, places: Mapping[str, str]) -> Json:
    """Return a JSON value without provenance, durations and references; `places` stand in place of folders."""
    if isinstance(value, dict):
        dropped = DROPPED | DURATIONS if "cpu_seconds" in value else DROPPED
        return {key: normalised(entry, places) for key, entry in value.items() if key not in dropped}
    if isinstance(value, list):
        return [normalised(entry, places) for entry in value]
    if isinstance(value, str):
        for folder, place in places.items():
            value = value.replace(folder, place)
        return REFERENCE.sub(":`...`", value)
    return value


def read_results(folder: Path) -> dict[str, Json]:
    """Return the kept results by the names of their cases."""
    results: dict[str, Json] = {}
    for path in sorted(folder.glob("*.json.xz")):
        results |= json.loads(lzma.decompress(path.read_bytes()))
    return results


def write_results(folder: Path, results: Mapping[str, Json]) -> None:
    """Write results into one file for each first part of their names."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("*.json.xz"):
        path.unlink()
    for group in sorted({group_of(name) for name in results}):
        members = {name: results[name] for name in sorted(results) if group_of(name) == group}
        text = json.dumps(members, ensure_ascii=False, separators=(",", ":"))
        (folder / f"{group}.json.xz").write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))


def group_of(name: str) -> str:
    """Return the first part of a case's name, which is that of its file."""
    return name.partition(".")[0]


def print_times(outcomes: Iterable[Outcome]) -> None:
    """Print how many cases ran and which took longest."""
    ordered = sorted(outcomes, key=lambda outcome: -outcome.cpu_seconds)
    refused = sum(outcome.result["exit"] == 2 for outcome in ordered)
    total = sum(outcome.cpu_seconds for outcome in ordered)
    print(f"{len(ordered)} cases, {refused} of them refused, took {total:.0f} CPU seconds; the slowest were")
    for outcome in ordered[:SLOWEST]:
        print(f"{outcome.cpu_seconds:8.1f} s  {outcome.name}")


def print_differences(outcome: Outcome, kept: Mapping[str, Json], reworded: bool, within: float) -> bool:
    """Print the first differences of a result from the kept one; return whether there are any.

    With `reworded`, sentences may differ in all but their numbers, and these by the share `within`.
    """
    if outcome.name not in kept:
        print(f"{outcome.name}: no result is kept")
        return True
    found = list(differences(kept[outcome.name], outcome.result, "$", reworded, within))
    for line in found[:DIFFERENCES]:
        print(f"{outcome.name}: {line}")
    if len(found) > DIFFERENCES:
        print(f"{outcome.name}: and {len(found) - DIFFERENCES} more differences")
    return bool(found)


def differences(old: Json, new: Json, path: str, reworded: bool, within: float = 0.0) -> Iterator[str]:
    """Yield the JSON path, the old and the new value of each difference; with `reworded` not those of wording.

    Numbers that differ by at most the share ``within`` of the larger one are equal.
    """
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            inner = f"{path}.{key}"
            if key not in new:
                yield f"{inner}: {shortened(old[key])} -> (absent)"
            elif key not in old:
                yield f"{inner}: (absent) -> {shortened(new[key])}"
            else:
                yield from differences(old[key], new[key], inner, reworded, within)
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            yield f"{path}: {len(old)} entries -> {len(new)} entries"
        for index, (before, after) in enumerate(zip(old, new, strict=False)):
            yield from differences(before, after, f"{path}[{index}]", reworded, within)
    elif isinstance(old, float) and isinstance(new, float) and isclose(old, new, rel_tol=within):
        return
    elif (type(old) is not type(new) or repr(old) != repr(new)) and not (reworded and is_reworded(old, new)):
        yield f"{path}: {shortened(old)} -> {shortened(new)}"


def is_reworded(old: Json, new: Json) -> bool:
    """Return whether two values are sentences with the same numbers; one word is a name and may not change."""
    if not (isinstance(old, str) and isinstance(new, str) and " " in old and " " in new):
        return False
    return NUMBER.findall(old) == NUMBER.findall(new)


def shortened(value: Json) -> str:
    """Return a value as JSON, its end cut off where it is long."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 120 else f"{text[:117]}..."


if __name__ == "__main__":
    main()
