"""The dependencies of each row of a schedule, and an order in which rows can be sent one after the other.

A row reads its chunk at its source and writes it at its destination. Per rank and chunk that gives

    read after write     a send waits for everything that its source has received of the chunk
    write after read     what arrives waits until the earlier value has been sent
    write after write    a value that replaces waits for those before it; one that adds, for the last that replaced

Rows are grouped: those of one step and one chunk are sent before any of them arrives (an exchange of partial sums).
"""

from collections import Counter, defaultdict, deque
from dataclasses import dataclass

import numpy as np

from lightloom.collectives.cost.loads import step_positions
from lightloom.collectives.schedule.columns import Schedule, run_begins
from lightloom.core.errors import UnsupportedError

Groups = list[list[int]]


@dataclass(frozen=True, slots=True)
class RowOrder:
    """Rows in order, and the row numbers that each waits for."""

    groups: Groups
    """Rows in order; those of one list are all sent before any of them arrives."""
    reads: list[list[int]]
    """Rows that must have arrived before this one is sent."""
    after_reads: list[list[int]]
    """Rows that must have been sent before this one arrives."""
    after_writes: list[list[int]]
    """Rows that must have arrived before this one does."""
    sums: list[list[int]]
    """Rows that add to the same sum before this one does, in any order."""

    @property
    def rows(self) -> list[int]:
        """Row numbers in an order in which they can run, group after group."""
        return [row for group in self.groups for row in group]


def row_order(schedule: Schedule) -> RowOrder:
    """Return the rows of a verified, unfolded schedule in an order in which they can run (``groups``, each of rows that
    are all sent before any of them arrives), and for each row the rows that it must wait for, by reason: writers of
    what it reads (``reads``), readers of what it replaces or adds to (``after_reads``), writers of that
    (``after_writes``; for a row that adds those alone that store), and rows that add to the same sum before it
    (``sums``).

    The time is linear in the number of rows and dependencies.

    Raises:
        UnsupportedError: a switch reduces in the network, so that some rows do not end at a rank.
    """
    if len(schedule) and max(int(schedule.source.max()), int(schedule.destination.max())) >= schedule.collective.ranks:
        raise UnsupportedError(f"{schedule.algorithm}: this format cannot express a switch that reduces")
    groups = _queued_groups(schedule) if schedule.queued else _step_groups(schedule)
    source, destination, chunk, adds = row_lists(schedule)
    # Rows that wrote the value of a cell, and rows that have read it since.
    writers: dict[tuple[int, int], list[int]] = defaultdict(list)
    readers: dict[tuple[int, int], list[int]] = defaultdict(list)
    empty: list[Groups] = [[[] for _ in adds] for _ in range(4)]
    rows = RowOrder(groups, *empty)
    for group in groups:
        for row in group:
            cell = source[row], chunk[row]
            rows.reads[row] = list(writers[cell])
            readers[cell].append(row)
        for row in group:
            cell = destination[row], chunk[row]
            rows.after_reads[row] = list(readers[cell])
            if adds[row]:
                rows.after_writes[row] = [writer for writer in writers[cell] if not adds[writer]]
                rows.sums[row] = [writer for writer in writers[cell] if adds[writer]]
                writers[cell].append(row)
            else:
                rows.after_writes[row] = writers[cell]
                writers[cell], readers[cell] = [row], []
    return rows


def row_lists(schedule: Schedule) -> tuple[list[int], list[int], list[int], list[bool]]:
    """Return source, destination and chunk of each row, and True where it adds, as lists: [row] each."""
    return (schedule.source.tolist(), schedule.destination.tolist(), schedule.chunk.tolist(), schedule.reduces.tolist())


def _step_groups(schedule: Schedule) -> Groups:
    """Return the row numbers of each step and chunk, a list for each, steps in an order that keeps all dependencies,
    and within a step by chunk."""
    position = step_positions(schedule)[schedule.step]
    order = np.lexsort((schedule.chunk, position))
    begins = np.flatnonzero(run_begins(position[order], schedule.chunk[order]))
    return [group.tolist() for group in np.split(order, begins[1:]) if len(group)]


def _queued_groups(schedule: Schedule) -> Groups:
    """Return the rows of a queued schedule in an order in which lightpaths can send them, each in a group of its own.

    Each lightpath keeps the order of its queue, and a row comes after those that bring what it sends. Rows that can
    never be sent are left out.
    """
    order = np.lexsort((schedule.step, schedule.lightpath))
    cuts = np.flatnonzero(np.diff(schedule.lightpath[order])) + 1
    queues = [deque(part.tolist()) for part in np.split(order, cuts)]
    source, destination, chunk, adds = row_lists(schedule)
    # What is never stored somewhere lies there from the start.
    arrives = {(destination[row], chunk[row]) for row in np.flatnonzero(~schedule.reduces).tolist()}
    to_add = Counter((destination[row], chunk[row]) for row in np.flatnonzero(schedule.reduces).tolist())
    stored: set[tuple[int, int]] = set()
    waiting: dict[tuple[int, int], list[deque[int]]] = defaultdict(list)
    groups: Groups = []
    ready = deque(queues)
    while ready:
        queue = ready.popleft()
        while queue:
            row = queue[0]
            origin = (source[row], chunk[row])
            if not (origin in stored or ((adds[row] or origin not in arrives) and not to_add[origin])):
                waiting[origin].append(queue)
                break
            groups.append([queue.popleft()])
            target = (destination[row], chunk[row])
            if adds[row]:
                to_add[target] -= 1
            else:
                stored.add(target)
            ready.extend(waiting.pop(target, ()))
    return groups
