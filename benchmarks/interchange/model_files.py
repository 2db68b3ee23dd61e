"""How files of models and clusters that others made are read: a table for docs/interchange/model-files.md.

    python -m benchmarks.interchange.model_files FOLDER

FOLDER holds files as <owner>/<repository>/<commit>/.../NAME. Each is read by lightloom and a second time by another
library (:mod:`benchmarks.interchange.model_readings`). Exits 1 where both readings disagree.
"""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from benchmarks.interchange.model_readings import Second, second_reading
from benchmarks.support.measure import parse_folder
from lightloom.core.errors import InputError
from lightloom.core.forms import FORMS, recognise
from lightloom.machines.clusters.load import load_cluster
from lightloom.models.files.model_file import FileRequest
from lightloom.models.files.read import read_model_file
from lightloom.models.graph import TENSOR_KINDS, ComputeGraph

_SUFFIXES = (".json", ".onnx", ".sh", ".toml", ".txt", ".yml", ".yaml")
_LONGEST = 140


class Row(NamedTuple):
    """One file as both sides read it."""

    read: str
    second: str
    agrees: bool


def row(path: Path) -> Row:
    """Read a file with lightloom and with another library."""
    try:
        purpose = "cluster" if path.suffix in (".yml", ".yaml") or _is_network(path) else "model"
        if purpose == "cluster":
            cluster = load_cluster(path, set={"accelerator": "h100"})
            first: dict[str, float] = {"ranks": cluster.ranks}
            text = f"{cluster.ranks:,} ranks"
        else:
            form = recognise(path, "model").name
            reading = read_model_file(path, FileRequest(batch=1))
            graph = reading.graph
            first = _figures(graph)
            pins = ", ".join(f"{name} {value}" for name, value in reading.pins if value is not None)
            text = _text(form, graph, first) + (f"; pins {pins}" if pins else "")
            first["sequence"] = _sequence(graph)
    except InputError as error:
        reason = str(error).replace(str(path), "").lstrip(", :")
        return Row(f"refused: {reason[:_LONGEST]}{'...' if len(reason) > _LONGEST else ''}", "", True)
    second = second_reading(path, first)
    agrees = all(abs(first[name] - value) <= 1e-9 * max(abs(value), 1) for name, value in second.figures.items())
    return Row(text, _agreement(first, second), agrees)


def _is_network(path: Path) -> bool:
    try:
        return path.suffix == ".json" and recognise(path, "cluster").purpose == "cluster"
    except InputError:
        return False


def _figures(graph: ComputeGraph) -> dict[str, float]:
    measured = graph.measured
    return {
        "parameters": graph.parameters + graph.unused_parameters,
        "operators": len([each for each in graph.operators if each.kind != "input"]),
        "product FLOPs": sum(each.forward_flops for each in graph.operators if each.kind in TENSOR_KINDS),
        "seconds": 0.0 if measured is None else measured.seconds,
    }


def _text(form: str, graph: ComputeGraph, figures: dict[str, float]) -> str:
    title = next(each.title for each in FORMS if each.name == form)
    parts = [f"{figures['parameters']:,} parameters"]
    if figures["product FLOPs"]:
        parts.append(f"{figures['product FLOPs']:.6g} FLOPs of products forward")
    if figures["seconds"]:
        parts.append(f"{len(graph.operators)} layers, {figures['seconds']:.6g} s")
    return f"{title}: {', '.join(parts)}"


def _sequence(graph: ComputeGraph) -> int:
    return max((each.dimensions.get("sequence", 0) for each in graph.operators if each.kind == "input"), default=0)


def _agreement(first: dict[str, float], second: Second) -> str:
    if not second.figures:
        return "none"
    names = ", ".join(name for name in second.figures)
    wrong = [
        f"{name} {value:,.10g}" for name, value in second.figures.items() if abs(first[name] - value) > 1e-9 * value
    ]
    return f"{second.by}: {names} " + (f"DIFFER: {'; '.join(wrong)}" if wrong else "equal")


def main() -> int:
    folder = parse_folder(__doc__)
    disagreements: list[Path] = []
    paths = sorted(path for path in folder.glob("*/*/*/**/*") if path.is_file() and path.suffix in _SUFFIXES)
    read = 0
    for (owner, repository, commit), files in groupby(paths, key=lambda path: path.relative_to(folder).parts[:3]):
        print(f"\n## {owner}/{repository} {commit[:7]}\n")
        print("| file | read as | second reading |\n| --- | --- | --- |")
        for path in files:
            found = row(path)
            read += not found.read.startswith("refused")
            place = Path(*path.relative_to(folder).parts[3:])
            print(f"| {place} | {found.read} | {found.second} |", flush=True)
            disagreements += [] if found.agrees else [place]
    print(f"\n{len(paths)} files: {read} read, {len(paths) - read} refused, {len(disagreements)} disagreements.")
    for place in disagreements:
        print(f"{place}: the readings disagree", file=sys.stderr)
    return bool(disagreements)


if __name__ == "__main__":
    sys.exit(main())
