"""What checking a program has shown, as a sentence and as a document."""

from __future__ import annotations

from lightloom.core.results import Document
from lightloom.core.units import format_size
from lightloom.interchange.msccl.program import Program
from lightloom.interchange.msccl.run import Run

_RESULTS = {
    "allgather": "every GPU ends with the chunks of all",
    "reduce_scatter": "every GPU ends with its chunks summed over all",
    "allreduce": "every GPU ends with all chunks summed over all",
    "alltoall": "every GPU ends with what all others have for it",
    "broadcast": "every GPU ends with the chunks of GPU {root}",
    "reduce": "GPU {root} ends with all chunks summed over all",
}


def sentence(program: Program, runs: list[Run]) -> str:
    """Return what a program was found to do, in a few lines for the terminal."""
    run = runs[0]
    lying = " and ".join("in place" if run.condition.in_place else "out of place" for run in runs)
    local = [f"{count} {what}" for count, what in ((run.copies, "local copies"), (run.sums, "local sums")) if count]
    if run.defined:
        result = _RESULTS[run.condition.collective].format(root=run.root)
    else:
        result = "what a custom collective computes is not in the file, so that values are not checked"
    work = ", ".join([f"{run.messages} messages", *local])
    lines = [
        f"{program.name}: {program.collective} over {len(program.gpus)} GPUs, {lying}: {result}; {work}, "
        "no step waits forever, none races"
    ]
    if not all(run.in_parts for run in runs):
        lines.append(
            "where messages of several chunks do not fit in a slot of a connection, they go chunk by chunk: "
            "at such sizes this program waits forever"
        )
    lines.append(f"chosen by microsoft/msccl {_chosen(program)}")
    return "\n".join(lines)


def _chosen(program: Program) -> str:
    if program.max_bytes <= program.min_bytes:
        limits = f"minBytes={program.min_bytes}, maxBytes={program.max_bytes}"
        return f"never: {limits}, and it asks minBytes <= size < maxBytes"
    smallest, largest = format_size(program.min_bytes), format_size(program.max_bytes)
    sizes = f"from {smallest} to less than {largest}"
    if smallest == largest:
        sizes = f"for {smallest} ({program.min_bytes:,} to {program.max_bytes - 1:,} bytes)"
        if program.max_bytes == program.min_bytes + 1:
            sizes = f"for {smallest} ({program.min_bytes:,} bytes)"
    return f"{sizes}, where {program.chunks} divides the number of elements"


def document(program: Program, runs: list[Run]) -> Document:
    """Return what a program was found to do, for ``--json``."""
    run = runs[0]
    return {
        "schema": "lightloom.msccl-check/2",
        "name": program.name,
        "collective": program.collective,
        "gpus": len(program.gpus),
        "chunks": program.chunks,
        "in_place": any(run.condition.in_place for run in runs),
        "out_of_place": any(not run.condition.in_place for run in runs),
        "values_checked": run.defined,
        "root": run.root,
        "waits_at_large_sizes": not all(run.in_parts for run in runs),
        "messages": run.messages,
        "chunks_sent": len(run.arrivals),
        "local_copies": run.copies,
        "local_sums": run.sums,
        "min_bytes": program.min_bytes,
        "max_bytes": program.max_bytes,
    }
