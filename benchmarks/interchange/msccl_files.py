"""How MSCCL programs that others made are read: a table for docs/interchange/msccl-files.md.

    python -m benchmarks.interchange.msccl_files FOLDER

FOLDER holds files as <owner>/<repository>/<commit>/.../NAME.xml. Each is checked and laid onto a packet switch. A
second reading with ElementTree alone counts what is sent, and an interpreter that shares no code with lightloom
(:mod:`benchmarks.interchange.msccl_interpreter`) says whether it is right. Exits 1 where the readings disagree.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from benchmarks.interchange.msccl_interpreter import verdict
from benchmarks.support.measure import parse_folder
from lightloom.collectives.files.msccl.read import check_program, read_program
from lightloom.core.errors import InputError
from lightloom.machines.fabrics.switches import PacketSwitch

_SENDS = ("s", "rcs", "rrs", "rrcs")


class Reading(NamedTuple):
    """One file as both sides read it."""

    collective: str
    sends: str
    outcome: str
    agrees: bool


def reading(path: Path) -> Reading:
    """Read a file with lightloom and with ElementTree."""
    try:
        root = ET.parse(path).getroot()
    except ET.ParseError:
        root = None
    chunks = 0
    if root is not None:
        chunks = sum(int(step.attrib["cnt"]) for step in root.iter("step") if step.attrib["type"] in _SENDS)
    name = f"{root.attrib['coll']}, {len(root)}" if root is not None else ""
    try:
        program, runs = check_program(path)
    except InputError as error:
        right = root is not None and root.attrib["coll"] != "custom" and verdict(path.read_text()) is None
        return Reading(name, str(chunks), f"refused: {str(error).removeprefix(str(path)).lstrip(', :')}", not right)
    run = runs[0]
    agrees = len(run.arrivals) == chunks
    if not run.defined:
        return Reading(name, str(chunks), "checked, its values excepted, which only its author knows", agrees)
    agrees = agrees and verdict(path.read_text()) is None
    try:
        schedule = read_program(path, PacketSwitch(ranks=len(program.gpus)), 1e6)
    except InputError as error:
        what = str(error).removeprefix(str(path)).lstrip(", :")
        return Reading(name, str(chunks), f"checked; no schedule: {what}", agrees)
    agrees = agrees and len(schedule) == chunks
    steps = "1 step" if schedule.steps == 1 else f"{schedule.steps} steps"
    return Reading(name, str(chunks), steps, agrees)


def main() -> int:
    folder = parse_folder(__doc__)
    disagreements = []
    paths = sorted(folder.glob("*/*/*/**/*.xml"))
    for (owner, repository, commit), files in groupby(paths, key=lambda path: path.relative_to(folder).parts[:3]):
        print(f"\n### {owner}/{repository} {commit[:7]}\n")
        print("| file | collective, GPUs | chunks sent | read as |\n| --- | --- | ---: | --- |")
        for path in files:
            row = reading(path)
            place = Path(*path.relative_to(folder).parts[3:])
            print(f"| {place} | {row.collective} | {row.sends} | {row.outcome} |", flush=True)
            disagreements += [] if row.agrees else [place]
    for place in disagreements:
        print(f"{place}: the readings disagree", file=sys.stderr)
    return bool(disagreements)


if __name__ == "__main__":
    sys.exit(main())
