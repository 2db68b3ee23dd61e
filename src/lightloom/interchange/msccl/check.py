"""Programs of MSCCL checked: their rules, their run, and that their buffers hold the result in the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from lightloom.core.errors import ConfigError
from lightloom.interchange.msccl.conditions import Condition, Place, condition_of
from lightloom.interchange.msccl.program import Program
from lightloom.interchange.msccl.rules import check_rules, refuse
from lightloom.interchange.msccl.run import Machine, Run, WaitingError
from lightloom.interchange.msccl.values import Content, Value, described

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
