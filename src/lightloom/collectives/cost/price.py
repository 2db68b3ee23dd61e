"""Cost of one run of a collective, the figures that layers above ask for; and orders of rows and steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import Any, Literal

import numpy as np

from lightloom.collectives.schedule.columns import Schedule
from lightloom.core.arrays import Column, Effort, Ints, packed
from lightloom.core.results import Result
from lightloom.core.units import format_energy, format_time

CostModel = Literal["paper", "physical"]
"""Every step costs d/B + a, or circuits change when they have to; see :mod:`lightloom.collectives.cost.stepped`."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Cost(Result):
    """Time and energy of one run of a schedule.

    ``time = transmission + conversion + reconfiguration + encode + decode``; ``setup`` is the part of
    ``reconfiguration`` that the first step pays. When ``static`` holds, the schedule needs no other circuits than
    those, so a run that finds them in place (the same collective again, at any size) pays no reconfiguration at all.
    """

    steps: int
    time: float
    """Seconds, from dark fibres."""
    transmission: float
    """Seconds of bits on links, or through codecs in line with them where those are slower, and of propagation."""
    conversion: float
    """Seconds of conversion between light and electrons."""
    reconfiguration: float
    """Seconds of changing circuits, first set-up included."""
    setup: float
    """Seconds of the first set-up."""
    static: bool
    """True where one set of circuits serves every step."""
    energy: float | None
    """Joules of transmission; None when the fabric's energy per bit has no source."""
    encode: float = 0.0
    """Seconds of compressing between hops, which nothing else of the collective overlaps."""
    decode: float = 0.0
    """Seconds of decompressing between hops."""

    @property
    def repeated_time(self) -> float:
        """Seconds of a run after the first, circuits left in place where they can be."""
        return self.time - self.setup if self.static else self.time

    def summary(self) -> str:
        parts = {
            "transmission": self.transmission,
            "conversion": self.conversion,
            "reconfiguration": self.reconfiguration,
            "codec": self.encode + self.decode,
        }
        spent = ", ".join(f"{format_time(seconds)} {name}" for name, seconds in parts.items() if seconds)
        steps = "1 step" if self.steps == 1 else f"{self.steps} steps"
        return (
            f"{format_time(self.time)} in {steps} ({spent or 'nothing to send'}); energy {format_energy(self.energy)}"
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "steps": self.steps,
            "time_s": self.time,
            "transmission_s": self.transmission,
            "conversion_s": self.conversion,
            "reconfiguration_s": self.reconfiguration,
            "setup_s": self.setup,
            "static_circuits": self.static,
            "energy_j": self.energy,
            "encode_s": self.encode,
            "decode_s": self.decode,
        }


# The order of a schedule's rows and steps, for what follows them in time.

BLOCK: Effort = 1 << 19
"""Rows whose links are looked up at once."""


def blocks(rows: Ints, size: int = BLOCK) -> list[Ints]:
    """Split rows into blocks that bound the memory of arrays over links."""
    return [rows[begin : begin + size] for begin in range(0, len(rows), size)]


def distinct_ends(schedule: Schedule) -> tuple[Ints, Ints]:
    """Return rows with different ends or routes, and which of them each row is like: [distinct], [row].

    Where every rank has rows of its own these are all rows.
    """
    if schedule.folding is None:
        every = np.arange(len(schedule))
        return every, every
    source, destination, route = schedule.ends(slice(None))
    return np.unique(packed((source, destination, route)), return_index=True, return_inverse=True)[1:]


def ends_in_copies(schedule: Schedule, rows: Ints, size: int = BLOCK) -> Iterator[tuple[Ints, tuple[Ints, Ints, Ints]]]:
    """Yield source, destination and route of these rows in all copies, in blocks, and first the place of each."""
    folding = schedule.folding
    source, destination, route = schedule.ends(rows)
    for entries in blocks(np.arange(len(rows) * (1 if folding is None else folding.copies)), size):
        copy, place = np.divmod(entries, len(rows))
        begin, end = source[place], destination[place]
        if folding is not None:
            begin, end = folding.moved(begin, copy), folding.moved(end, copy)
        yield place, (begin, end, route[place])


def rows_by_step(schedule: Schedule) -> Ints:
    """Return row numbers in an order in which the steps can run."""
    step = schedule.step
    if schedule.dependencies is not None:
        position = np.empty(schedule.steps, np.int32)
        order = TopologicalSorter(dict(enumerate(steps_before(schedule.steps, schedule.dependencies)))).static_order()
        position[list(order)] = np.arange(schedule.steps)
        step = position[step]
    if np.any(step[1:] < step[:-1]):
        return np.argsort(step, kind="stable")
    return np.arange(len(schedule))


def steps_before(steps: int, dependencies: Column | None) -> list[list[int]]:
    """Return the steps that each step waits for, of dependencies as a schedule has them."""
    if dependencies is None:
        return [[step - 1] if step else [] for step in range(steps)]
    before: list[list[int]] = [[] for _ in range(steps)]
    for after, earlier in np.asarray(dependencies, dtype=np.int64).reshape(-1, 2).tolist():
        before[after].append(earlier)
    return before
