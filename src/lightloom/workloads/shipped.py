"""Graphs of the zoo that the package brings along, so that no installation waits for PyTorch to trace the same again.

``zoo.zip`` holds the trace of every model of the zoo, with the model's own sequence length, under the key by which
traces are cached: the model's arguments and the source of the tracer. ``python -m scripts.trace_zoo`` writes it. A
graph is taken only where its key fits, and where the installed PyTorch is of a version whose traces were compared with
it.
"""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from lightloom.workloads.graph import ComputeGraph

ARCHIVE = Path(__file__).with_name("zoo.zip")
_VERSIONS = "torch"
_DATE = (2026, 1, 1, 0, 0, 0)
"""Of every member, so that equal graphs make equal files."""


def torch_version() -> str | None:
    """Return the version of the installed PyTorch without its build (``2.13.0``), or None; imports nothing."""
    try:
        return version("torch").partition("+")[0]
    except PackageNotFoundError:
        return None


def shipped_graph(key: str, torch: str | None, archive: Path = ARCHIVE) -> ComputeGraph | None:
    """Return the graph that the package brings along for a trace, or None.

    Args:
        key: of the trace.
        torch: the version of PyTorch that would trace it; None takes the graph whatever version traced it.
    """
    if torch is not None and torch not in compared_versions(archive):
        return None
    return _graph(_member(key, archive))


def compared_versions(archive: Path = ARCHIVE) -> list[str]:
    """Return the versions of PyTorch whose traces equal the graphs of an archive."""
    return (_member(_VERSIONS, archive) or b"").decode().split()


def write_archive(graphs: Mapping[str, ComputeGraph], versions: Sequence[str], archive: Path = ARCHIVE) -> None:
    """Write graphs by their keys, and the versions of PyTorch that trace them so."""
    texts = {key: json.dumps(graph.to_json(), separators=(",", ":")) for key, graph in graphs.items()}
    with zipfile.ZipFile(archive, "w") as members:
        for name, text in {_VERSIONS: "\n".join(versions), **texts}.items():
            members.writestr(zipfile.ZipInfo(name, _DATE), text, zipfile.ZIP_DEFLATED, 9)


def _member(name: str, archive: Path) -> bytes | None:
    """Return the content of a member; None where it is missing or damaged."""
    try:
        with zipfile.ZipFile(archive) as members:
            return members.read(name)
    except (OSError, KeyError, ValueError, zipfile.BadZipFile, zlib.error):
        return None


def _graph(text: bytes | None) -> ComputeGraph | None:
    try:
        return None if text is None else ComputeGraph.from_json(json.loads(text))
    except (ValueError, RecursionError):
        return None
