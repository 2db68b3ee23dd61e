"""Trace files that others made: each read right, or refused with a line that says what to do; figures read twice.

    python -m benchmarks.interchange.traces FOLDER --page docs/interchange/trace-files.md

FOLDER holds the repositories of :mod:`benchmarks.interchange.trace_files`; ``mlc-chakra`` and ``pandas`` are needed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import lightloom as ll
from benchmarks.interchange import second_reading
from benchmarks.interchange.second_reading import Figures
from benchmarks.interchange.trace_files import SOURCES, Source, commit_of, content_of, git_folder
from lightloom.collectives.files.chakra_nodes import (
    COLLECTIVE,
    COMPUTE,
    RECEIVE,
    SEND,
    read_trace,
)
from lightloom.core.errors import InputError
from lightloom.core.files import write_atomically
from lightloom.core.forms import recognise
from lightloom.models.graph import ComputeGraph
from lightloom.models.traces.calls import product_flops, read_calls, walk
from lightloom.models.traces.kineto import busy, read_profile

_PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm")
_TOLERANCE = 1e-6


class Row(NamedTuple):
    """One file of the table."""

    source: Source
    commit: str
    nbytes: int
    form: str
    verdict: str
    checks: str
    agrees: bool


def _chakra(path: Path) -> Figures:
    nodes, _ = read_trace(path)
    sizes = [size for node in nodes if isinstance(size := node.attributes.get("comm_size"), int)]
    kinds = (COLLECTIVE, SEND, RECEIVE)
    return {
        "nodes": len(nodes),
        "compute": sum(node.type == COMPUTE for node in nodes),
        "exchanges": sum(node.type in kinds and "comm_size" in node.attributes for node in nodes),
        "exchanged bytes": sum(sizes),
        "µs": sum(node.duration for node in nodes),
    }


def _profile(path: Path) -> Figures:
    profile = read_profile(path)
    computing = [(piece.begin, piece.end) for piece in profile.work if piece.exchange is None]
    whole = (min((begin for begin, _ in computing), default=0.0), max((end for _, end in computing), default=0.0))
    return {
        "calls": sum(1 for call in walk(list(profile.roots)) if not call.name.startswith("thread ")),
        "steps": len(profile.marks),
        "kernels": len(profile.work),
        "device µs": profile.device_seconds * 1e6,
        "exchanges": sum(piece.exchange is not None for piece in profile.work),
        "computing µs": busy(computing, [], whole).computing * 1e6,
    }


def _execution_trace(path: Path) -> Figures:
    calls = list(walk(read_calls(path).roots))
    return {
        "nodes": len(calls),
        "steps": sum(call.name.startswith("ProfilerStep") for call in calls),
        "GFLOP of matrix products": sum(product_flops(call) for call in calls if call.name in _PRODUCTS) / 1e9,
    }


_READERS: dict[str, tuple[Callable[[Path], Figures], Callable[[Path], Figures]]] = {
    "chakra": (_chakra, second_reading.read_chakra),
    "profile": (_profile, second_reading.read_profile),
    "execution-trace": (_execution_trace, second_reading.read_execution_trace),
}


def rows(folder: Path, sources: Sequence[Source] = SOURCES) -> Iterator[Row]:
    """Yield the row of each file whose repository is in the folder."""
    for source in sources:
        git = git_folder(folder, source.repository)
        if git is None:
            print(f"{source.repository}: not in {folder}, left out", file=sys.stderr)
            continue
        content = content_of(git, source)
        with tempfile.TemporaryDirectory() as temporary:
            path = Path(temporary) / Path(source.member or source.path).name
            path.write_bytes(content)
            yield _row(source, commit_of(git), len(content), path)


def _row(source: Source, commit: str, nbytes: int, path: Path) -> Row:
    try:
        form = recognise(path, "model").name
        verdict = _planned(ll.trace(path, batch=32))
    except InputError as error:
        verdict = "refused: " + str(error).replace(f"{path}", path.name)
        form = form if "form" in locals() else "unknown"
    checks, agrees = "", True
    if form in _READERS:
        ours, other = _READERS[form]
        checks, agrees = _compared(ours, other, path)
    return Row(source, commit, nbytes, form, verdict, checks, agrees)


def _planned(graph: ComputeGraph) -> str:
    measured = graph.measured
    times = "" if measured is None else f", {measured.seconds * 1e3:.4g} ms measured ({measured.clock})"
    gflop = (graph.forward_flops + graph.backward_flops) / 1e9
    return f"{len(graph.operators)} operators, {graph.parameters:,} parameters, {gflop:.4g} GFLOP for 32 samples{times}"


def _compared(ours: Callable[[Path], Figures], other: Callable[[Path], Figures], path: Path) -> tuple[str, bool]:
    try:
        mine = ours(path)
    except InputError:
        return "", True
    theirs = other(path)
    equal = {name: abs(mine[name] - value) <= _TOLERANCE * max(abs(value), 1.0) for name, value in theirs.items()}
    texts = [
        f"{name} {value:,.10g}" if equal[name] else f"**{name} {mine[name]:,.10g} here, {value:,.10g} there**"
        for name, value in theirs.items()
    ]
    return "; ".join(texts), all(equal.values())


def page(table: Sequence[Row]) -> str:
    """Return the page of the table."""
    commits = {row.source.repository: row.commit for row in table}
    refused = sum(row.verdict.startswith("refused") for row in table)
    agreeing = sum(row.agrees and bool(row.checks) for row in table)
    lines = [
        "# Trace files that others made",
        "",
        f"{len(table)} files of public repositories: {len(table) - refused} are read as training steps, {refused} are "
        "refused with a line that says what to do. The figures of the last column were read twice, by us and by code "
        f"that shares nothing with ours (MLCommons' protobuf classes, json with pandas): they agree in {agreeing} "
        + ("files." if all(row.agrees for row in table) else "files; figures in bold do not."),
        "No file is committed: fetch the repositories, each into a folder `owner+name`, and make this page again with",
        "",
        "    python -m benchmarks.interchange.traces FOLDER --page docs/interchange/trace-files.md",
        "",
        "| repository | commit |",
        "| --- | --- |",
        *(f"| {name} | `{commit}` |" for name, commit in commits.items()),
        "",
        "| file | bytes | form | read as | figures that agree with a second reading |",
        "| --- | ---: | --- | --- | --- |",
    ]
    for row in table:
        name = row.source.repository.split("/")[1]
        file = f"{name}: `{row.source.path}`" + (f" `{row.source.member}`" if row.source.member else "")
        verdict = row.verdict.replace("|", "\\|")
        lines.append(f"| {file} | {row.nbytes:,} | {row.form} | {verdict} | {row.checks or 'not readable'} |")
    return "\n".join([*lines, ""])


def main() -> None:
    """Make the table."""
    parser = argparse.ArgumentParser(description="Read trace files that others made, and check them.")
    parser.add_argument("folder", type=Path, help="the fetched repositories, each in a folder owner+name")
    parser.add_argument("--page", type=Path, help="write the page (.md)")
    arguments = parser.parse_args()
    table = []
    for row in rows(arguments.folder):
        print(f"{Path(row.source.path).name}: {row.verdict[:160]}; {row.checks[:200]}", file=sys.stderr, flush=True)
        table.append(row)
    text = page(table)
    if arguments.page is not None:
        write_atomically(arguments.page, text)
    else:
        print(text)


if __name__ == "__main__":
    main()
