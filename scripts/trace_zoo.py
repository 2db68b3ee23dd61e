"""Trace every model of the zoo into the archive that the package brings along.

    python -m scripts.trace_zoo

Run it when the tracer, the zoo or the form of graphs has changed (``tests/workloads/test_shipped.py`` notices), and
with every version of PyTorch whose users shall not wait: where its traces equal the archive's, its version is added.
"""

from __future__ import annotations

import sys

from lightloom.models.zoo import (
    ARCHIVE,
    ZOO,
    compared_versions,
    shipped_graph,
    torch_version,
    trace_key,
    trace_zoo,
    write_archive,
)


def main() -> int:
    """Trace the zoo with the installed PyTorch, write the archive, and say for which versions it now holds."""
    graphs = {trace_key(entry, entry.sequence_length): trace_zoo(entry) for entry in ZOO.values()}
    known = compared_versions() if all(shipped_graph(key, None) == graphs[key] for key in graphs) else []
    versions = sorted({*known, str(torch_version())}, key=lambda text: [int(part) for part in text.split(".")[:2]])
    write_archive(graphs, versions)
    print(f"{ARCHIVE.name}: {len(graphs)} models, as PyTorch {', '.join(versions)} traces them")
    return 0


if __name__ == "__main__":
    sys.exit(main())
