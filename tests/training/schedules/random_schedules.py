"""Random schedules: any tree for any chunk, in steps, with dependencies, or queued on standing circuits."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import strategies as st

from lightloom.collectives.collective import KINDS, Collective
from lightloom.collectives.schedule.columns import Schedule
from lightloom.machines.fabrics.wdm_ring import WdmRing

FABRIC_WAVELENGTHS = 128


@dataclass
class Row:
    """One chunk from one rank to another, after other rows."""

    source: int
    destination: int
    chunk: int
    reduces: bool
    after: list[int]


def fabric_of(ranks: int) -> WdmRing:
    return WdmRing(ranks=ranks, wavelengths=FABRIC_WAVELENGTHS)


@st.composite
def random_schedules(draw: st.DrawFn, most_ranks: int = 4) -> Schedule:
    ranks, kind = draw(st.integers(2, most_ranks)), draw(st.sampled_from(KINDS[:4]))
    form = draw(st.sampled_from(["steps", "dependencies"] + (["queued"] if kind != "all-to-all" else [])))
    each = ranks if kind == "all-to-all" else 1
    chunks = ranks * each * draw(st.integers(1, 1 if kind == "all-to-all" else 2))
    rows: list[Row] = []
    for chunk in range(chunks):
        owner = chunk // (chunks // ranks)
        if kind == "all-to-all":
            _path(draw, rows, chunk, owner, chunk % (chunks // ranks) // (chunks // ranks**2), ranks)
            continue
        root = owner if kind != "all-reduce" else draw(st.integers(0, ranks - 1))
        last = _collapse(draw, rows, chunk, root, ranks) if kind != "all-gather" else []
        if kind != "reduce-scatter":
            _spread(draw, rows, chunk, root, ranks, last)
    order = _order(rows, draw(st.integers(0, 2**32 - 1)))
    return _schedule(rows, order, form, Collective(kind, ranks, 64.0 * ranks), chunks, draw(st.integers(0, 2**32 - 1)))


def _tree(draw: st.DrawFn, root: int, ranks: int) -> list[tuple[int, int]]:
    """(parent, child), parents first."""
    others = draw(st.permutations([rank for rank in range(ranks) if rank != root]))
    reached, pairs = [root], []
    for child in others:
        pairs.append((draw(st.sampled_from(reached)), child))
        reached.append(child)
    return pairs


def _collapse(draw: st.DrawFn, rows: list[Row], chunk: int, root: int, ranks: int) -> list[int]:
    """Rows that add everything up at the root; those that arrive there."""
    into: dict[int, list[int]] = {rank: [] for rank in range(ranks)}
    for parent, child in reversed(_tree(draw, root, ranks)):
        rows.append(Row(child, parent, chunk, True, list(into[child])))
        into[parent].append(len(rows) - 1)
    return into[root]


def _spread(draw: st.DrawFn, rows: list[Row], chunk: int, root: int, ranks: int, after: list[int]) -> None:
    into = {root: after}
    for parent, child in _tree(draw, root, ranks):
        rows.append(Row(parent, child, chunk, False, list(into[parent])))
        into[child] = [len(rows) - 1]


def _path(draw: st.DrawFn, rows: list[Row], chunk: int, source: int, destination: int, ranks: int) -> None:
    if source == destination:
        return
    between = draw(st.permutations([rank for rank in range(ranks) if rank not in (source, destination)]))
    stops = [source, *between[: draw(st.integers(0, len(between)))], destination]
    for hop, (here, there) in enumerate(pairwise(stops)):
        rows.append(Row(here, there, chunk, False, [len(rows) - 1] if hop else []))


def _order(rows: list[Row], seed: int) -> list[int]:
    """A random order of rows in which each comes after what it waits for."""
    random, left, done = np.random.default_rng(seed), set(range(len(rows))), set[int]()
    order = []
    while left:
        ready = sorted(row for row in left if done.issuperset(rows[row].after))
        order.append(ready[int(random.integers(len(ready)))])
        left.remove(order[-1])
        done.add(order[-1])
    return order


def _schedule(rows: list[Row], order: list[int], form: str, collective: Collective, chunks: int, seed: int) -> Schedule:
    random, ordered = np.random.default_rng(seed), [rows[i] for i in order]
    place = {row: position for position, row in enumerate(order)}
    number = np.arange(len(rows))
    columns: dict[str, Any] = {
        "source": [row.source for row in ordered],
        "destination": [row.destination for row in ordered],
        "chunk": [row.chunk for row in ordered],
        "reduces": [row.reduces for row in ordered],
        "route": random.integers(0, 2, len(rows)),
        "fibre": np.zeros(len(rows)),
        "wavelength_count": np.ones(len(rows)),
        "step": number,
        "lightpath": number,
        "first_wavelength": number,
    }
    dependencies = None
    if form == "queued":
        pair = np.array(columns["source"]) * collective.ranks + columns["destination"]
        _, columns["lightpath"] = np.unique(pair, return_inverse=True)
        columns["first_wavelength"] = columns["lightpath"]
        columns["route"] = columns["lightpath"] % 2
    elif form == "steps":
        step: list[int] = []
        for row in ordered:
            step.append(max((step[place[before]] + 1 for before in row.after), default=0) + int(random.integers(2)))
        columns["step"] = np.unique(step, return_inverse=True)[1]
    else:
        dependencies = _dependencies(ordered, place)
    arrays: dict[str, Any] = {name: np.asarray(column) for name, column in columns.items()}
    return Schedule(
        algorithm=f"random, {form}",
        collective=collective,
        chunks=chunks,
        steps=int(np.max(columns["step"])) + 1,
        queued=form == "queued",
        dependencies=dependencies,
        **arrays,
    )


def _dependencies(ordered: list[Row], place: dict[int, int]) -> np.ndarray[Any, Any]:
    """Every row is a step; it waits for its data, and sums arrive one after the other."""
    pairs, last = [], dict[tuple[int, int], int]()
    for i, row in enumerate(ordered):
        pairs += [(i, place[before]) for before in row.after]
        cell = row.destination, row.chunk
        if row.reduces:
            pairs += [(i, last[cell])] if cell in last else []
            last[cell] = i
    return np.array(pairs, np.int64).reshape(-1, 2)
