"""Programs of MSCCL checked: their rules, their run, and that their buffers hold the result in the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from lightloom.collectives.files.msccl.program import Content, Program, Value, described
from lightloom.collectives.files.msccl.rules import Condition, Place, check_rules, condition_of, refuse
from lightloom.collectives.files.msccl.run import Machine, Run, WaitingError
from lightloom.core.errors import ConfigError
from lightloom.core.results import Document
from lightloom.core.units import format_size

ROOM = {"Simple": 2, "LL": 8, "LL128": 8}
"""Messages that a connection inside a node holds: each takes four of NCCL's eight slots in Simple, else one."""
MOST_ROOM = 64
"""Largest room that is tried for a program which waits forever, to say whether more would help."""


def check(program: Program, where: str) -> list[Run]:
    """Check that a program keeps the rules, runs, and computes its collective.

    Returns:
        One run for each way in which the buffers of the program may lie.

    Time grows with chunks moved times threadblocks, as clocks do.

    Raises:
        ConfigError: a rule is broken, a message of one size is received as another, steps wait forever or race, or a
            chunk of a result is wrong; names the line, or GPU, threadblock and step.
        UnsupportedError: a collective whose result is not defined.
    """
    conditions = [condition_of(program, in_place, where) for in_place in program.modes]
    check_rules(program, conditions[0], where)
    room = ROOM[program.protocol]
    runs = []
    for condition in conditions:
        try:
            run = Machine(program, condition, where, room).run()
        except WaitingError as error:
            raise ConfigError(f"{error}{_remedy(program, condition, where, room)}") from error
        if run.defined:
            _check_result(run, where)
        run.in_parts = _runs_in_parts(program, condition, where, room)
        runs.append(run)
    return runs


def _remedy(program: Program, condition: Condition, where: str, room: int) -> str:
    """Return what would help a program that waits forever, if more room does."""
    held = room
    while held < MOST_ROOM:
        held *= 2
        with suppress(ConfigError):
            Machine(program, condition, where, held).run()
            holds = f"where a connection holds {room} messages, as NCCL's do in protocol {program.protocol}"
            return f" {holds}; {held} would do"
    return ""


def _runs_in_parts(program: Program, condition: Condition, where: str, room: int) -> bool:
    """Return whether a program also ends where every chunk of a message takes room of its own.

    The runtime sends chunks together as long as they fit in a slot, and one by one where they are larger.
    """
    if all(step.count <= 1 for gpu in program.gpus for block in gpu.blocks for step in block.steps):
        return True
    try:
        Machine(program, condition, where, room, in_parts=True).run()
    except WaitingError:
        return False
    return True


def _check_result(run: Run, where: str) -> None:
    """Find the root, and check every chunk that must be there at the end."""
    condition = run.condition
    run.root = condition.root(run.memory)
    wrong = list(_wrong(run))
    if wrong:
        rank, k, place, content, expected = wrong[0]
        lying = "in place" if condition.in_place else "out of place"
        more = f"; {len(wrong) - 1} more chunks are wrong" if len(wrong) > 1 else ""
        has, must = described(content, condition.ranks), described(expected, condition.ranks)
        what = f"chunk {k} of the output is {has}: {condition.collective} {lying} needs {must}{more}"
        refuse(where, run.written_on.get(place, 0), f"GPU {rank}", what)


def _wrong(run: Run) -> Iterator[tuple[int, int, Place, Content, Value]]:
    for rank, k, chunk, contributors in run.condition.expected(run.root):
        place = run.condition.place(rank, "o", k)
        content = run.memory.get(place)
        if not (isinstance(content, Value) and content[:2] == (chunk, contributors)):
            yield rank, k, place, content, Value(chunk, contributors, frozenset())


# What checking a program has shown, as a sentence and as a document.

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
