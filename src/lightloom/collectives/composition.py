"""Lower phases to one schedule: rows of flat schedules, repeated in every group, follow each other.

A chunk is named by the shares that it lies in, one for each axis along which phases scatter or gather, and by a part of
that share. Where the outermost axes look the same from each of their ranks, only the rows of their first ones are made
and the schedule is folded, and the data goes through the phases in pieces, one behind the other: what building, proving
and costing take depends on neither the copies nor the pieces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import lcm, prod

import numpy as np

from lightloom.collectives.algorithm import Algorithm
from lightloom.collectives.collective import ROOTED, Collective, Kind
from lightloom.collectives.schedule.build import Rows, assemble, joined
from lightloom.collectives.schedule.columns import Folding, Pipeline, Schedule
from lightloom.core.arrays import Ints, packed
from lightloom.core.errors import UnsupportedError
from lightloom.machines.fabrics.fabric import Fabric

# A collective on all ranks as a sequence of collectives on groups of them.
#
# Ranks lie on axes: rank = x₀ + n₀·x₁ + n₀·n₁·x₂ + ..., so that the ranks of a domain are neighbours and those of a
# rail lie a domain apart. A phase carries one kind of collective in every group along one axis at once.
#
# axes (4, 3)        domain 0     domain 1     domain 2
# rail 0                0            4            8       hierarchical all-reduce:
# rail 1                1            5            9         reduce-scatter in every domain   (axis 0)
# rail 2                2            6           10         all-reduce along every rail      (axis 1)
# rail 3                3            7           11         all-gather in every domain       (axis 0)
#
# The data that each phase finds follows from the phases before, axis by axis:
#
# kind               before, on every axis        after                          phases along an axis
# all-gather         a rank holds its own share   holds those of all             all-gather
# reduce-scatter     holds all, not summed        its own, summed                reduce-scatter
# all-reduce         holds all, not summed        holds all, summed              reduce-scatter and later all-gather;
# or all-reduce, along one axis
# all-to-all         blocks are at their source   at their destination           all-to-all
# broadcast          only coordinate 0 holds it   all do                         broadcast
# reduce             each holds its part          coordinate 0 holds the sum     reduce
#
# An all-reduce along a second axis would store the sums of the first one, which are not complete, over contributions
# that ranks hold; the verifiers refuse that, since the bounds of all-reduces take for granted that no schedule does
# it.


@dataclass(frozen=True, slots=True)
class Phase:
    """One kind of collective in every group along an axis, by a flat algorithm."""

    kind: Kind
    axis: int
    algorithm: Algorithm

    def __str__(self) -> str:
        """Return kind, axis and algorithm in words."""
        return f"{self.kind} along axis {self.axis} by {self.algorithm.name}"


def strides(sizes: Sequence[int]) -> list[int]:
    """Return how many ranks apart neighbours on each axis are, the product of the sizes of the axes before it, 1 on
    axis 0: [axis]."""
    return [prod(sizes[:axis]) for axis in range(len(sizes))]


@dataclass(frozen=True, slots=True)
class _Layout:
    """How chunks are numbered, and which groups rows are made for."""

    kind: str
    sizes: Sequence[int]
    place: Mapping[int, int]
    """Chunks from one share of an axis to the next, by axis; of destinations, in an all-to-all."""
    parts: int
    """Chunks of a lane's part of a share of all axes."""
    lanes: int
    folded: int
    """The first of the axes, up to the outermost, of which only the first ranks have rows; none: the number of axes."""

    @property
    def chunks(self) -> int:
        """Number of chunks of the whole schedule, of all lanes: the chunks of a share in each lane, times the shares of
        all axes that have any, squared in an all-to-all."""
        shares = prod(self.sizes[axis] for axis in self.place)
        return self.lanes * self.parts * shares ** (2 if self.kind == "all-to-all" else 1)


def lower(name: str, collective: Collective, fabric: Fabric, sizes: Sequence[int], *lanes: Sequence[Phase]) -> Schedule:
    """Return the schedule of these phases, not yet verified, with a note for each phase.

    It is a pipeline of one piece, all data at once; its interval, the steps after which another piece could follow, is
    the steps of the longest phase. Where outer axes look the same from all their ranks the schedule is folded. With
    several lanes each carries an equal part of the data through phases of its own, all at once: along other axes, for
    example, so that the links of all of them are used.

    Args:
        name: name of the algorithm.
        collective: what all phases together serve, with its size.
        fabric: fabric of all ranks, which gives the groups along each axis and the routes.
        sizes: ranks along each axis, the innermost first, whose product is all ranks.
        lanes: phases of each lane, in order; at least one lane.

    Raises:
        UnsupportedError: the fabric is circuit-switched or has no such groups, or a flat algorithm cannot serve its
            phase.
    """
    if fabric.exclusive:
        raise UnsupportedError(f"{name} composes packets, and this fabric is circuit-switched")
    flats = [
        [_flat_schedule(phase, collective, fabric, sizes, phases[:number]) for number, phase in enumerate(phases)]
        for phases in lanes
    ]
    layout = _layout(collective.kind, sizes, lanes, flats)
    parts: list[Rows] = []
    paths, steps = 0, [0] * len(lanes)
    for lane, phases in enumerate(lanes):
        for number, (phase, flat) in enumerate(zip(phases, flats[lane], strict=True)):
            rows = _phase_rows(phase, flat, layout, phases[:number], lane)
            parts.append(rows._replace(step=rows.step + steps[lane], lightpath=rows.lightpath + paths))
            paths += int(rows.lightpath.max()) + 1
            steps[lane] += flat.steps
    rows = joined(parts)
    rows = rows._replace(route=fabric.route(rows.source.astype(np.int64), rows.destination.astype(np.int64)))
    along = tuple(sizes[layout.folded :])
    folding = Folding.along(prod(sizes[: layout.folded]), along) if along else None
    interval = max(flat.steps for own in flats for flat in own)
    apart = strides(sizes)
    notes = tuple(
        ("" if len(lanes) == 1 else f"part {lane + 1} of {len(lanes)}: ")
        + f"{phase.kind} in groups of {sizes[phase.axis]} ranks, {apart[phase.axis]} apart, by {phase.algorithm.name}"
        for lane, phases in enumerate(lanes)
        for phase in phases
    )
    fields = {"pipeline": Pipeline(1, interval), "folding": folding, "notes": notes}
    return assemble(name, collective, fabric, rows, chunks=layout.chunks, steps=max(steps), **fields)


def _flat_schedule(
    phase: Phase, collective: Collective, fabric: Fabric, sizes: Sequence[int], before: Sequence[Phase]
) -> Schedule:
    """Return the schedule that the algorithm of a phase builds on one group of ranks (the whole fabric where the axis
    has all ranks), unfolded, rows by step, not verified; ranks are numbered within the group, and its size is that of
    :func:`_nbytes`.

    Args:
        sizes: ranks along each axis.
        before: phases before this one in its lane, which say how much data is left.

    Raises:
        UnsupportedError: the fabric has no such groups, the algorithm refuses, or what it builds is queued or has
            dependencies between steps.
    """
    ranks, stride = sizes[phase.axis], strides(sizes)[phase.axis]
    part = fabric if ranks == fabric.ranks else fabric.group(ranks, stride)
    if part is None:
        raise UnsupportedError(f"the fabric has no groups of {ranks} ranks that lie {stride} apart")
    if why := phase.algorithm.refusal(phase.kind, part):
        raise UnsupportedError(f"{phase}: {why}")
    request = Collective(phase.kind, ranks, _nbytes(phase, collective, sizes, before))
    flat = phase.algorithm.build(request, part, striped=phase.algorithm.striped)
    if flat.queued or flat.dependencies is not None:
        raise UnsupportedError(f"{phase}: expected steps in order")
    flat = flat.unfolded(part.fibre_channels)
    return flat.with_rows(np.argsort(flat.step, kind="stable"))


def _nbytes(phase: Phase, collective: Collective, sizes: Sequence[int], before: Sequence[Phase]) -> float:
    """Return the bytes of the collective that one group of a phase carries, as its kind counts them.

    In an all-gather it is the whole result over the sizes of the axes that are gathered only later, otherwise the whole
    over the sizes of the axes that are scattered and not yet gathered again; lanes are not divided.

    Args:
        sizes: ranks along each axis.
        before: phases before this one in its lane.
    """
    nbytes = collective.nbytes
    if collective.kind == "all-gather":
        gathered = {other.axis for other in before} | {phase.axis}
        return nbytes / prod(size for axis, size in enumerate(sizes) if axis not in gathered)
    scattered = {other.axis for other in before if other.kind == "reduce-scatter"}
    scattered -= {other.axis for other in (*before, phase) if other.kind == "all-gather"}
    return nbytes / prod(sizes[axis] for axis in scattered)


def _layout(
    kind: str, sizes: Sequence[int], lanes: Sequence[Sequence[Phase]], flats: Sequence[Sequence[Schedule]]
) -> _Layout:
    """Return how the chunks of all lanes are numbered, fine enough for each flat schedule, and from which axis on the
    schedule is folded.

    No axis of a broadcast or reduce has shares; in other kinds an axis has them where some phase moves shares along it.
    Folded are the axes after the last one along which some phase is not the same from every rank; none in a broadcast
    or reduce, with a single axis, or where an axis has no shares.

    Args:
        sizes: ranks along each axis.
        lanes: phases of each lane.
        flats: schedule of one group, for each phase of each lane.
    """
    pairs = [pair for phases, own in zip(lanes, flats, strict=True) for pair in zip(phases, own, strict=True)]
    if kind in ROOTED:
        return _Layout(kind, sizes, {}, lcm(*(flat.chunks for _, flat in pairs)), len(lanes), len(sizes))
    shared = sorted({phase.axis for phase, flat in pairs if _count_shares(phase, sizes, flat) > 1})
    parts = lcm(*(flat.chunks // _count_shares(phase, sizes, flat) for phase, flat in pairs))
    place = {axis: len(lanes) * parts * prod(sizes[other] for other in shared if other < axis) for axis in shared}
    alike = {axis: len(shared) == len(sizes) > 1 for axis in range(len(sizes))}
    for phase, flat in pairs:
        alike[phase.axis] &= _same_from_everywhere(phase.kind, flat, sizes[phase.axis])
    folded = max((axis + 1 for axis in alike if not alike[axis]), default=0)
    return _Layout(kind, sizes, place, parts, len(lanes), folded)


def _count_shares(phase: Phase, sizes: Sequence[int], flat: Schedule) -> int:
    """Return the number of shares into which the chunks of a phase's flat schedule fall: the ranks of its axis, their
    square in an all-to-all, and 1 in a broadcast or reduce and where chunks do not divide among the ranks. ``sizes``
    are the ranks along each axis."""
    if phase.kind in ROOTED or flat.chunks % sizes[phase.axis]:
        return 1
    return sizes[phase.axis] ** (2 if phase.kind == "all-to-all" else 1)


def _same_from_everywhere(kind: str, flat: Schedule, ranks: int) -> bool:
    """Return True when in ``flat``, the schedule of one group of ``ranks`` ranks, the rows that every rank r sends are
    those that rank 0 sends with everything r ranks further on.

    That is destinations, owners of chunks and, in an all-to-all, readers; steps and sums are the same. False where
    chunks or rows do not divide among the ranks.
    """
    if flat.chunks % ranks or len(flat) % ranks:
        return False
    share = flat.chunks // ranks
    owner, inner = np.divmod(flat.chunk.astype(np.int64), share)
    if kind == "all-to-all":
        block = share // ranks
        inner = (inner // block - flat.source) % ranks * block + inner % block
    ahead = (flat.destination - flat.source) % ranks, (owner - flat.source) % ranks
    key = packed((flat.step, *ahead, inner, flat.reduces))
    ordered = key[np.lexsort((key, flat.source))]
    counts = np.bincount(flat.source, minlength=ranks)
    return bool(np.all(counts == counts[0]) and np.all(ordered.reshape(ranks, -1) == ordered[: counts[0]]))


def _phase_rows(phase: Phase, flat: Schedule, layout: _Layout, before: Sequence[Phase], lane: int) -> Rows:
    """Return the rows of one phase of a lane for all groups of ranks along its axis that take part in it, or for those
    of the first period of a folded schedule.

    There is a row for each [flat row, group, share that the group holds beside its own, part of a chunk], in this
    order, flattened. Steps and lightpaths are numbered from 0 in each phase, lightpaths anew for each group; of a phase
    along a folded axis there are only the rows that the first rank of a group sends; routes, channels and widths are
    all 0.

    Args:
        layout: how chunks are numbered, and the first axis of which only the first ranks have rows.
        flat: schedule of one group.
        before: phases before this one in the lane.
        lane: number of the lane, which decides its chunks.
    """
    sizes, apart = layout.sizes, strides(layout.sizes)
    axis = phase.axis
    if axis >= layout.folded:
        flat = flat.with_rows(np.flatnonzero(flat.source == 0))
    others = [other for other in range(len(sizes)) if other != axis]
    active = [_coordinates(layout, phase, other, before) for other in others]
    groups = np.indices(active).reshape(len(others), -1) if others else np.zeros((0, 1), np.int64)
    base = sum((groups[i] * apart[other] for i, other in enumerate(others)), np.zeros(groups.shape[1], np.int64))
    held, free = _shares_of_groups(layout, phase, others, groups, before)
    shares = _count_shares(phase, sizes, flat)
    if shares == 1 and axis in layout.place:
        free = (free[:, None] + np.arange(sizes[axis]) * layout.place[axis]).ravel()
    part = flat.chunks // shares
    inner = np.arange(layout.parts // part) + lane * layout.parts
    shape = (len(flat), len(base), len(free), len(inner))

    def rows(columns: Ints) -> Ints:
        """Return values broadcast to one for each [flat row, group, share, part], flattened."""
        return np.broadcast_to(columns, shape).ravel()

    share, number = np.divmod(flat.chunk.astype(np.int64), part)
    if phase.kind == "all-to-all":
        source, share = np.divmod(share, sizes[axis])
        share = share + source * prod(sizes)
    first = share * (layout.place[axis] if shares > 1 else 0) + number * (layout.parts // part)
    chunk = first[:, None, None, None] + held[:, None, None] + free[:, None] + inner
    at = (slice(None), None, None, None)
    zeros = np.zeros(prod(shape), np.int8)
    return Rows(
        step=rows(flat.step[at]),
        lightpath=rows(flat.lightpath[at] * np.int32(len(base)) + np.arange(len(base), dtype=np.int32)[:, None, None]),
        source=rows((flat.source[:, None] * apart[axis] + base)[:, :, None, None]),
        destination=rows((flat.destination[:, None] * apart[axis] + base)[:, :, None, None]),
        route=zeros,
        channel=zeros,
        width=zeros,
        chunk=rows(chunk),
        reduces=rows(flat.reduces[at]),
    )


def _coordinates(layout: _Layout, phase: Phase, other: int, before: Sequence[Phase]) -> int:
    """Return how many coordinates of the axis ``other``, from 0 on, take part in a phase along another axis, in the
    rows that are made.

    One on folded axes; one too where only coordinate 0 holds the data of a broadcast, or of a reduce after that axis;
    else all. ``before`` are the phases before this one.
    """
    done = any(earlier.axis == other for earlier in before)
    one = other >= layout.folded or (phase.kind == "broadcast" and not done) or (phase.kind == "reduce" and done)
    return 1 if one else layout.sizes[other]


def _shares_of_groups(
    layout: _Layout, phase: Phase, others: Sequence[int], groups: Ints, before: Sequence[Phase]
) -> tuple[Ints, Ints]:
    """Return which chunks the groups of ranks of a phase hold beside those along the phase's own axis: the number of
    each group's first chunk, [group], and what is added to it for every further share that a group holds, [share].

    Axes along which data is scattered at this point count by the group's coordinates; along those that are gathered, or
    not yet scattered, a group holds the shares of all coordinates. In an all-to-all a group holds the blocks of its own
    coordinate as source for all destinations on an axis, and once a phase along that axis is done, those for its own as
    destination from all sources.

    Args:
        others: axes other than the phase's.
        groups: coordinates of the groups: [other axis, group].
        before: phases before this one in its lane.
    """
    held, free = np.zeros(groups.shape[1], np.int64), np.zeros(1, np.int64)
    ranks = prod(layout.sizes)
    # The last phase along an axis, or none, after which a rank holds nothing but its own share of the axis.
    holds_own = (None,) if layout.kind == "all-gather" else ("reduce-scatter",)
    for i, other in enumerate(others):
        if other not in layout.place:
            continue
        place, number = layout.place[other], np.arange(layout.sizes[other])
        along = [earlier.kind for earlier in before if earlier.axis == other]
        if phase.kind == "all-to-all":
            # From its source to its destination on this axis: the one is the group's own, the other any.
            own, any_other = (place, place * ranks) if along else (place * ranks, place)
            held, free = held + groups[i] * own, (free[:, None] + number * any_other).ravel()
        elif next(reversed(along), None) in holds_own:
            held = held + groups[i] * place
        else:
            free = (free[:, None] + number * place).ravel()
    return held, free
