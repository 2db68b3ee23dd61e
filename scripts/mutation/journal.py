"""The journal of a mutation run, and the report of what it holds."""

from __future__ import annotations

import json
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import TypedDict

GOAL = 0.92
"""Share of all mutants that the tests must kill."""
GOAL_OF_PACKAGE = 0.75
"""Share of the mutants of each package that the tests must kill."""
KILLED = ("killed", "out of time")
COUNTED = (*KILLED, "survived", "no test")
REASONS = Path(__file__).with_name("survivors.toml")


class Entry(TypedDict):
    """One mutant that was tried."""

    key: str
    package: str
    file: str
    line: int
    function: str
    operator: str
    before: str
    after: str
    outcome: str
    """``killed``, ``out of time``, ``survived``, ``no test``, or ``no mutant`` for one that died of its own mistake."""
    by: str
    """The test that killed it, or the signal that ended it."""
    seconds: float


def read(journal: Path) -> list[Entry]:
    """Return the entries of a journal; a line that was cut short is left out."""
    entries: list[Entry] = []
    for line in journal.read_text().splitlines() if journal.exists() else []:
        try:
            entries.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return entries


def reasons() -> dict[tuple[str, str, str, str], str]:
    """Return why no test can kill a mutant, by file name, function, statement before and statement after."""
    rows = tomllib.loads(REASONS.read_text()).get("survivor", []) if REASONS.exists() else []
    return {(row["file"], row["function"], row["before"], row["after"]): row["reason"] for row in rows}


def report(journal: Path, packages: list[str]) -> bool:
    """Print the table and the survivors; return whether the goals are reached and every survivor has a reason."""
    known = reasons()
    groups: dict[str, list[Entry]] = defaultdict(list)
    for entry in read(journal):
        if entry["outcome"] in COUNTED and entry["package"] in packages:
            groups[entry["package"]].append(entry)
    print(f"\n{'package':12}{'mutants':>9}{'killed':>9}{'share':>9}{'explained':>11}")
    good = True
    for package in packages:
        good &= _print_row(package, groups[package], GOAL_OF_PACKAGE, known)
    good &= _print_row("all", [entry for group in groups.values() for entry in group], GOAL, known)
    for group in groups.values():
        for entry in group:
            if entry["outcome"] not in KILLED:
                reason = known.get(_key(entry))
                good &= reason is not None
                print(
                    f"\n{entry['file']}:{entry['line']} {entry['function']} ({entry['operator']}, {entry['outcome']})"
                )
                print(f"    - {entry['before']}\n    + {entry['after']}\n    {reason or 'NO REASON'}")
    return good


def _key(entry: Entry) -> tuple[str, str, str, str]:
    return entry["file"], entry["function"], entry["before"], entry["after"]


def _print_row(name: str, entries: list[Entry], goal: float, known: dict[tuple[str, str, str, str], str]) -> bool:
    killed = sum(entry["outcome"] in KILLED for entry in entries)
    explained = sum(entry["outcome"] not in KILLED and _key(entry) in known for entry in entries)
    share = killed / len(entries) if entries else 0.0
    print(f"{name:12}{len(entries):>9}{killed:>9}{share:>9.1%}{explained:>11}")
    return share >= goal
