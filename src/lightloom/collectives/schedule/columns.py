"""A schedule: who sends which chunk, when, along which lightpath. Columns, not objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from hashlib import sha256
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from lightloom.collectives.collective import Collective
from lightloom.collectives.schedule import kernels
from lightloom.core.arrays import Column, Floats, Int32s, Ints, Mask, packed
from lightloom.core.errors import UnsupportedError
from lightloom.core.memory import require_memory
from lightloom.core.units import format_size

# Lists of chunks: rows that carry many chunks name a list of them, which other rows may share.


@dataclass(frozen=True, slots=True, eq=False)
class ChunkLists:
    """The lists that the column ``chunk`` numbers, in a schedule whose rows carry several chunks each.

        chunks   0 4 8 1 5 9       list 0    4 8
        first    1 0 3             list 1    0 4 8
        count    2 3 3             list 2    1 5 9

    A row carries the chunks of its list one after the other, on all of its lightpath's channels.
    """

    chunks: Int32s
    """Chunks of all lists, which may overlap: [entry]."""
    first: Int32s
    """Entry of each list's first chunk: [list]."""
    count: Int32s
    """Chunks of each list: [list]."""

    @classmethod
    def of_ranges(cls, chunks: Column, first: Column, count: Column) -> tuple[ChunkLists, Int32s]:
        """Return lists of chunks, one for each distinct range, and the number of each row's list: [row].

        Args:
            chunks: entries from which ranges are taken: [entry].
            first: place in ``chunks`` of each row's first entry: [row].
            count: number of entries of each row: [row].
        """
        most = int(count.max(initial=0)) + 1
        code, number = np.unique(first.astype(np.int64) * most + count, return_inverse=True)
        begins, counts = np.divmod(code, most)
        return cls(*(np.asarray(column, np.int32) for column in (chunks, begins, counts))), number.astype(np.int32)

    def __len__(self) -> int:
        """Return the number of lists."""
        return len(self.first)

    def chunks_of(self, number: Column) -> Ints:
        """Return the chunks of lists, one list's after the other's: [sum of their counts].

        Args:
            number: numbers of lists, in the order wanted, also repeated: [row].
        """
        count = self.count[number].astype(np.int64)
        end = np.cumsum(count)
        skipped = np.repeat(self.first[number] - end + count, count)
        return self.chunks[skipped + np.arange(len(skipped))].astype(np.int64)


COLUMNS: dict[str, type[np.generic]] = {
    "step": np.int32,
    "lightpath": np.int32,
    "source": np.int32,
    "destination": np.int32,
    "route": np.int8,
    "fibre": np.int16,
    "first_wavelength": np.int16,
    "wavelength_count": np.int16,
    "chunk": np.int32,
    "reduces": np.bool_,
}

_MOST_CHUNKS = np.iinfo(np.int32).max
ROW_NBYTES = 200
"""Bytes that a row takes at most while schedules are written out, verified and costed: measured are 80 to 195 of
millions of rows (docs/collectives/size.md)."""


@dataclass(frozen=True, slots=True, eq=False)
class Folding:
    """How rows of a few ranks stand for all of them: everything repeats every ``period`` ranks around the ring.

        rows       what ranks 0 ... period − 1 send
        copy r     the same by rank + r · period, to rank + r · period, of chunks owned by rank + r · period, and of
                   blocks of an all-to-all that go to rank + r · period

    On a grid the copies lie on axes, and ranks move along each of them by itself: rank u + period · (i + n · j) of the
    first copy is rank u + period · ((i + a) mod n + n · ((j + b) mod m)) of copy a + n · b.

    Only wavelengths may differ from copy to copy, since chords that overlap need different ones. Packets have none, and
    circuits between neighbours take the same in all copies.
    """

    period: int
    """Ranks after which everything repeats; divides the ranks."""
    channel: Int32s
    """First channel (fibre · wavelengths + wavelength) of every lightpath's copy, shape [copy, lightpath]; [copy, 0]
    where all copies take the channels that the rows name, as packets do, which have none."""
    axes: tuple[int, ...] = ()
    """Copies along each axis, innermost first, whose product is that of all copies; none where they lie on one."""

    @classmethod
    def alike(cls, ranks: int, period: int) -> Folding:
        """Return the folding of rows of ``period`` ranks that repeat around all ``ranks`` of the fabric, ``ranks`` /
        ``period`` copies in all, where every copy takes the channels that the rows name."""
        return cls(period, np.zeros((ranks // period, 0), np.int32))

    @classmethod
    def along(cls, period: int, axes: tuple[int, ...]) -> Folding:
        """Return the folding of rows of ``period`` ranks that repeat along the axes of a grid, where every copy takes
        the channels that the rows name.

        ``axes`` are numbers of copies along each axis, innermost first, whose product is that of all copies.
        """
        return cls(period, np.zeros((prod(axes), 0), np.int32), axes)

    @property
    def copies(self) -> int:
        """Number of times that the rows are repeated, the rows themselves included."""
        return len(self.channel)

    def moved(self, rank: Column, copy: Column | int, *, back: bool = False) -> Column:
        """Return, for each rank of the first copy, the rank that has its place in copy number ``copy``: that rank plus
        ``copy`` · ``period``, modulo all ranks, or moved so along each axis of a grid by itself. With ``back`` return,
        for each rank of copy number ``copy``, the rank that has its place in the first copy.

        Args:
            rank: any ranks of the fabric, of any shape.
            copy: number of a copy, from 0 on, for each or one for all.
        """
        place, moved, stride = rank // self.period, rank % self.period, self.period
        for size in self.axes or (self.copies,):
            by = size - copy % size if back else copy % size
            at = place % size + by
            moved = moved + (at - size * (at >= size)) * stride
            place, copy, stride = place // size, copy // size, stride * size
        return moved


@dataclass(frozen=True, slots=True)
class Pipeline:
    """How rows of one piece of the data stand for all pieces: each follows the one before after ``interval`` steps.

    step             0    1    2    3    4          rows say what piece 0 does in steps 0, 1 and 2;
    piece 0          a    b    c                    chunk k of piece p is chunk k · pieces + p
    piece 1               a    b    c
    piece 2                    a    b    c
    """

    pieces: int
    """Pieces into which every chunk that the rows name is cut."""
    interval: int
    """Steps from piece to piece."""

    @property
    def delay(self) -> int:
        """Steps from the first piece to the last: (``pieces`` − 1) · ``interval``."""
        return (self.pieces - 1) * self.interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """One row says that one chunk reaches one destination on one lightpath.

    Rows of one lightpath share step, source, route and wavelengths; several chunks on it follow each other, several
    destinations on it are a multicast. On packet fabrics a lightpath is a message and its wavelength columns are 0.

    A step begins when the steps it depends on have ended; its sends carry what their sources held by then. Without
    ``dependencies`` every step waits for the one before. The parts of a collective
    (:mod:`lightloom.collectives.collective`) have equally many chunks, part p chunks ``p · pieces`` to
    ``(p + 1) · pieces − 1``, which are equal (sizes are real numbers: the last bytes of a size that does not divide are
    not modelled). So all chunks are equal unless the collective states sizes of its parts.

    A *queued* schedule has no steps: its lightpaths stand throughout, and each sends its rows, ordered by ``step``, one
    after the other, every row as soon as the lightpath is free and the source holds what it sends (a row that stores)
    or has received all that is to be added (a row that adds). Rows that follow each other there with the same ``step``
    and chunk are one transmission, a multicast. With ``folding`` the rows are those of a few ranks, with ``pipeline``
    those of the first of many pieces; on packet fabrics schedules of steps have both. With ``lists`` a row carries a
    list of chunks, and stands for as many rows of the same lightpath.

    In an averager's fabric the number ``ranks`` stands for the switch; it passes on, in the same step, what enters it.
    """

    algorithm: str
    collective: Collective
    chunks: int
    steps: int
    step: Column
    lightpath: Column
    source: Column
    destination: Column
    route: Column
    fibre: Column
    """Fibre of the first wavelength on a WDM ring; switch plane on a circuit switch."""
    first_wavelength: Column
    wavelength_count: Column
    """Consecutive wavelengths that the lightpath bundles; the count runs on into the next fibre."""
    chunk: Column
    """With ``lists`` the number of the list of chunks that the row carries."""
    reduces: Column
    """True: the destination adds what arrives to what it holds; False: it stores it."""
    dependencies: Column | None = None
    """Pairs (step, step that must end before), shape [pairs, 2]; None: one step after the other."""
    queued: bool = False
    folding: Folding | None = None
    """How the rows repeat around the ring; None where they are all there is."""
    pipeline: Pipeline | None = None
    """How the rows repeat for every piece of the data; None where they are all there is."""
    lists: ChunkLists | None = None
    """Lists of chunks that rows carry, in a schedule of steps that is neither folded nor a pipeline; None where each
    carries one chunk."""
    notes: tuple[str, ...] = ()
    """Choices of the algorithm, a sentence each, for reports."""

    def __post_init__(self) -> None:
        """Turn the columns into read-only arrays of the types in :data:`COLUMNS`, and check their number and length.

        Raises:
            UnsupportedError: more chunks than can be numbered.
            ValueError: columns of different lengths.
        """
        rows = len(self.step)
        if self.chunks > _MOST_CHUNKS:
            raise UnsupportedError(
                f"{self.algorithm}: {self.chunks:,} chunks: schedules number {_MOST_CHUNKS:,} at most"
            )
        for name, kind in COLUMNS.items():
            column = np.ascontiguousarray(getattr(self, name), dtype=kind)
            if column.shape != (rows,):
                raise ValueError(f"column {name!r} has shape {column.shape}: expected ({rows},)")
            column.flags.writeable = False
            object.__setattr__(self, name, column)

    def __len__(self) -> int:
        """Return the number of rows, as they are stored: folded, of one piece, and with lists of chunks."""
        return len(self.step)

    def __repr__(self) -> str:
        """Return algorithm, collective, size, ranks, rows and steps in words."""
        collective, steps = self.collective, "queued" if self.queued else f"{self.steps} steps"
        size = format_size(collective.nbytes)
        return f"{self.algorithm}: {collective.kind} of {size} over {collective.ranks} ranks, {len(self)} rows, {steps}"

    @property
    def chunk_nbytes(self) -> float:
        """Bytes of one chunk, the mean where they differ: the collective's distinct bytes (``nbytes``, times the ranks
        in an all-to-all) over ``chunks``, which count every piece of a pipeline by itself."""
        return self.collective.distinct_nbytes / self.chunks

    @property
    def carried(self) -> Int32s:
        """Chunks that each row carries: [row]."""
        return np.ones(len(self), np.int32) if self.lists is None else self.lists.count[self.chunk]

    @property
    def weights(self) -> Floats | None:
        """Bytes that each row sends relative to the mean chunk: [row]; None where the collective states no sizes of
        parts. For schedules without lists of chunks."""
        weights = self.collective.weights
        return None if weights is None else weights[self.chunk // (self.chunks // self.collective.parts)]

    @property
    def row_nbytes(self) -> Floats | float:
        """Bytes that each row sends: [row]; one number where all chunks are equal and each row carries one. Rows of a
        pipeline are those of one piece."""
        if self.lists is not None:
            return self.carried.astype(np.float64) * self.chunk_nbytes
        weights = self.weights
        return self.chunk_nbytes if weights is None else self.chunk_nbytes * weights

    def resized(self, nbytes: float) -> Schedule:
        """Return the schedule with the same rows for a collective of ``nbytes`` instead, as ``Collective.nbytes``
        counts them."""
        return replace(self, collective=self.collective.resized(nbytes))

    def carrying(self, collective: Collective, fibre_channels: int) -> Schedule:
        """Return the same rows for a collective of another kind that they serve as they are: an all-gather's for a
        barrier, an all-to-all's for an all-to-all-v, a reduce-scatter's for a reduce-scatter-v, which is not checked.
        They are unfolded if its parts have sizes.

        Args:
            collective: the new collective, on as many ranks.
            fibre_channels: wavelengths of each fibre of the fabric, for unfolding.

        Raises:
            UnsupportedError: the unfolded rows do not fit in the memory that is free.
        """
        return replace(self if collective.sizes is None else self.unfolded(fibre_channels), collective=collective)

    def with_columns(self, columns: Mapping[str, Any], **fields: Any) -> Schedule:
        """Return the schedule with some columns, by their names in :data:`COLUMNS`, and other fields replaced.

        Raises:
            ValueError: columns of different lengths.
        """
        return replace(self, **columns, **fields)

    def with_rows(self, rows: Ints) -> Schedule:
        """Return the schedule with the rows of these numbers alone, lightpaths numbered anew from 0; what the rows
        carry need not serve the collective."""
        columns = {name: column[rows] for name, column in self.columns().items()}
        used, columns["lightpath"] = distinct(columns["lightpath"], int(self.lightpath.max(initial=-1)) + 1)
        folding = self.folding
        if folding is not None and folding.channel.shape[1]:
            folding = replace(folding, channel=folding.channel[:, used])
        return self.with_columns(columns, folding=folding)

    def standing(self, fibre_channels: int) -> Schedule:
        """Return the circuits of a queued schedule as an unfolded schedule of one step: for each lightpath and
        destination the first row, of all copies.

        ``fibre_channels`` are the wavelengths of each fibre.
        """
        reached = self.lightpath.astype(np.int64) * (self.collective.ranks + 1) + self.destination
        _, first = np.unique(reached, return_index=True)
        rows = self.with_rows(first)
        return rows.with_columns({"step": np.zeros(len(first), np.int32)}, steps=1).unfolded(fibre_channels)

    def in_pieces(self, pieces: int, interval: int | None = None) -> Schedule:
        """Return the schedule of a pipeline with the same data cut into ``pieces`` pieces.

        The rows stay; the numbers of chunks and of steps follow. A schedule that is no pipeline is an AssertionError.

        Args:
            interval: steps from piece to piece; None (or 0) keeps the interval of the schedule.
        """
        assert self.pipeline is not None
        before, after = self.pipeline, Pipeline(pieces, interval or self.pipeline.interval)
        chunks, steps = self.chunks // before.pieces * pieces, self.steps - before.delay + after.delay
        return replace(self, chunks=chunks, steps=steps, pipeline=after)

    def first_piece(self) -> Schedule:
        """Return the rows of a pipeline as a schedule of one piece that is no pipeline; its collective has ``nbytes`` /
        pieces.

        A schedule that is no pipeline is returned unchanged.
        """
        if self.pipeline is None:
            return self
        return replace(self.in_pieces(1).resized(self.collective.nbytes / self.pipeline.pieces), pipeline=None)

    def unfolded(self, fibre_channels: int) -> Schedule:
        """Return the schedule with a row for every rank, every piece and every chunk: without folding, pipeline or
        lists. Every copy and every piece has lightpaths of its own numbers; rows of a pipeline are sorted by step.

        Args:
            fibre_channels: wavelengths of each fibre, by which the channels of copies become fibre and wavelength.

        Raises:
            UnsupportedError: the rows do not fit in the memory that is free.
        """
        rows = self.unfolded_rows
        if rows > len(self):
            require_memory(rows * ROW_NBYTES, f"{self.algorithm} with {rows:,} rows for all ranks and pieces")
        copies = self if self.folding is None else self._of_copies(self.folding.copies, fibre_channels)
        return replace(copies, folding=None)._of_all_pieces().of_single_chunks()

    @property
    def unfolded_rows(self) -> int:
        """Number of rows of :meth:`unfolded`."""
        rows = len(self) if self.lists is None else int(self.carried.sum(dtype=np.int64))
        copies = 1 if self.folding is None else self.folding.copies
        return rows * copies * (1 if self.pipeline is None else self.pipeline.pieces)

    def of_single_chunks(self) -> Schedule:
        """Return the schedule with a row for every chunk of a list: rows of one list follow each other in its order, on
        the lightpath and the channels of the row that carried it.

        A schedule without lists is returned unchanged.

        Raises:
            UnsupportedError: the rows do not fit in the memory that is free.
        """
        if self.lists is None:
            return self
        carried = self.carried
        rows = int(carried.sum(dtype=np.int64))
        require_memory(rows * ROW_NBYTES, f"{self.algorithm} with {rows:,} rows for all chunks")
        columns = {name: np.repeat(column, carried) for name, column in self.columns().items() if name != "chunk"}
        return self.with_columns(columns | {"chunk": self.lists.chunks_of(self.chunk)}, lists=None)

    def unfolded_once(self) -> Schedule:
        """Return a folded schedule of steps on packet links with the rows of all copies along its innermost axis,
        folded along the other axes only; with no other axis it is not folded any more. A schedule that is not folded is
        an AssertionError.
        """
        folding = self.folding
        assert folding is not None
        along, *outer = folding.axes or (folding.copies,)
        left = Folding.along(folding.period * along, tuple(outer)) if outer else None
        return replace(self._of_copies(along), folding=left)

    def _of_all_pieces(self) -> Schedule:
        """Return the schedule with rows for every piece of a pipeline, sorted by step, each piece on lightpaths of its
        own number; the schedule itself where it is no pipeline."""
        if self.pipeline is None:
            return self
        columns, piece = self.columns_of_pieces(self.pipeline.pieces, self.pipeline.interval)
        columns["lightpath"] = columns["lightpath"] + piece * (int(self.lightpath.max(initial=-1)) + 1)
        order = np.argsort(columns["step"], kind="stable")
        return self.with_columns({name: column[order] for name, column in columns.items()}, pipeline=None)

    def columns_of_pieces(self, pieces: int, interval: int) -> tuple[dict[str, Column], Ints]:
        """Return the columns, by name, of ``pieces`` pieces of which the schedule's rows are one, piece after piece,
        and the piece of each row: [row].

        Piece p has its steps ``p · interval`` later, and its chunk k becomes k · ``pieces`` + p. Lightpaths keep their
        numbers.
        """
        piece = np.repeat(np.arange(pieces, dtype=np.int64), len(self))
        columns = {name: np.tile(column, pieces) for name, column in self.columns().items()}
        columns["step"] = columns["step"] + piece * interval
        columns["chunk"] = columns["chunk"].astype(np.int64) * pieces + piece
        return columns, piece

    def _of_copies(self, copies: int, fibre_channels: int = 1) -> Schedule:
        """Return the rows of the first ``copies`` copies of a folded schedule, each copy with the lightpaths of the
        first numbered on; ``folding`` is kept, and a schedule that is not folded is an AssertionError.

        ``fibre_channels`` are the wavelengths of each fibre. Rows come copy after copy where copies take channels of
        their own; else all copies of a row come before the next row.

        Raises:
            UnsupportedError: the rows do not fit in the memory that is free.
        """
        folding, rows = self.folding, len(self)
        assert folding is not None
        require_memory(rows * copies * ROW_NBYTES, f"{self.algorithm} with {rows * copies:,} rows for all ranks")
        if folding.channel.shape[1]:
            copy, row = np.divmod(np.arange(copies * rows), rows)
        else:
            # Links serve rows as they are listed: all copies of a row come before the next row.
            row, copy = np.divmod(np.arange(copies * rows), copies)
        columns = {name: column[row] for name, column in self.columns().items()}
        if folding.channel.shape[1]:
            channel = folding.channel[copy, columns["lightpath"]]
            columns |= {"fibre": channel // fibre_channels, "first_wavelength": channel % fibre_channels}
        columns["lightpath"] = columns["lightpath"] + copy * (int(self.lightpath.max(initial=-1)) + 1)
        return self.with_columns(columns).moved(copy)

    def moved(self, copy: Ints, *, back: bool = False) -> Schedule:
        """Return the schedule with every row of a folded one moved to another copy: source, destination and chunk
        change, all else (channels, lightpaths, folding) stays. A schedule that is not folded is an AssertionError.

        Args:
            copy: number of the copy to which each row of the first copy is moved: [row].
            back: rows are those of copy number ``copy`` instead, and move to the first copy.
        """
        assert self.folding is not None
        source, destination = (self.folding.moved(end, copy, back=back) for end in (self.source, self.destination))
        chunk = self.moved_chunk(self.chunk.astype(np.int64), copy, back=back)
        return self.with_columns({"source": source, "destination": destination, "chunk": chunk})

    def moved_chunk(self, chunk: Column, copy: Column | int, *, back: bool = False) -> Column:
        """Return, for each chunk of a folded schedule, the chunk that has its place in copy number ``copy``.

        The owner of the chunk moves as :meth:`Folding.moved` moves ranks, and in an all-to-all its destination too.
        With ``back`` the chunk of copy number ``copy`` becomes that of the first copy.

        Args:
            chunk: chunks as the rows number them: of a pipeline, those of one piece.
            copy: number of a copy, one for all or one for each chunk.
        """
        assert self.folding is not None
        ranks = self.collective.ranks
        pieces = self.chunks // ranks // (1 if self.pipeline is None else self.pipeline.pieces)
        owner, inner = np.divmod(chunk, pieces)
        if self.collective.kind == "all-to-all":
            block = pieces // ranks
            inner = self.folding.moved(inner // block, copy, back=back) * block + inner % block
        return self.folding.moved(owner, copy, back=back) * pieces + inner

    def ends(self, rows: Any) -> tuple[Column, Column, Column]:
        """Return source, destination and route of some rows (indices or a slice) as int64, as a fabric's geometry takes
        them."""
        source, destination, route = (
            column[rows].astype(np.int64) for column in (self.source, self.destination, self.route)
        )
        return source, destination, route

    def columns(self) -> dict[str, Column]:
        """Return the columns by name, in the order of :data:`COLUMNS` (``step``, ``lightpath``, ``source``,
        ``destination``, ``route``, ``fibre``, ``first_wavelength``, ``wavelength_count``, ``chunk``, ``reduces``):
        [row] each, as they are stored."""
        return {name: getattr(self, name) for name in COLUMNS}


# Steps of a schedule that use the same lightpaths: what is true of the light of one is true of all of them.

OF_LIGHTPATHS = ("source", "destination", "route", "fibre", "first_wavelength", "wavelength_count")


def repeated_steps(schedule: Schedule) -> tuple[Ints, Ints]:
    """Return, for each step, the first step with the same lightpaths, and rows that have the lightpaths of all first
    ones.

    Chunks are not compared. In a pipeline the steps are those of its first piece.

    Returns:
        For each step, the number of the first step whose lightpaths are the same, in all copies of a folded schedule:
            [step]; and one row for every destination of every lightpath of these first steps, in their order: [row].

    Time: n log n in the rows.
    """
    reached = schedule.lightpath.astype(np.int64) * (schedule.collective.ranks + 1) + schedule.destination
    rows = np.unique(reached, return_index=True)[1]
    rows = rows[np.argsort(schedule.step[rows], kind="stable")]
    begins = np.searchsorted(schedule.step[rows], np.arange(schedule.steps + 1))
    first = np.arange(schedule.steps)
    known: dict[bytes, int] = {}
    kept = []
    content = _content(schedule, rows, begins)
    for step, (begin, end) in enumerate(pairwise(begins.tolist())):
        first[step] = known.setdefault(content[begin:end].tobytes(), step)
        if first[step] == step:
            kept.append(rows[begin:end])
    return first, np.concatenate(kept) if kept else rows


def circuits_key(schedule: Schedule, channels: int, rows: Ints | None = None) -> str:
    """Return a name of the set of circuits that a schedule ever uses: equal keys, equal circuits.

    It is the first 16 hexadecimal digits of a SHA-256.

    Args:
        schedule: any; of a queued one the standing circuits, of a folded one those of all copies.
        channels: wavelengths of each fibre of its fabric.
        rows: numbers of rows that have all circuits among them, as ``CircuitChanges.rows`` does; all rows without it.
            Not used for a queued schedule.
    """
    if schedule.queued:
        schedule = schedule.standing(channels)
    elif schedule.folding is not None:
        rows = repeated_steps(schedule)[1] if rows is None else rows
        schedule, rows = schedule.with_rows(rows).unfolded(channels), None
    columns = [getattr(schedule, name)[... if rows is None else rows] for name in OF_LIGHTPATHS]
    _, first = np.unique(packed(columns), return_index=True)
    return sha256(b"".join(column[first].astype(np.int64).tobytes() for column in columns)).hexdigest()[:16]


def _content(schedule: Schedule, rows: Ints, begins: Ints) -> Ints:
    """Return the columns by which steps are compared: [row, column].

    They are the lightpath, counted from the first of its step, source, destination, route, fibre, first wavelength and
    number of wavelengths, and of a folded schedule with channels a number that stands for those of all copies.

    Args:
        rows: numbers of rows, sorted by step.
        begins: place in ``rows`` of each step's first row, and the end: [step + 1].
    """
    columns = [getattr(schedule, name)[rows].astype(np.int64) for name in OF_LIGHTPATHS]
    path = schedule.lightpath[rows].astype(np.int64)
    if schedule.folding is not None and schedule.folding.channel.shape[1]:
        columns.append(np.unique(schedule.folding.channel, axis=1, return_inverse=True)[1].ravel()[path])
    if len(rows):
        path -= np.repeat(path[np.minimum(begins[:-1], len(rows) - 1)], np.diff(begins))
    return np.stack([path, *columns], axis=1)


# Sorting and numbering of small integers in linear time: schedules have millions of rows, but few ranks and links.

_SPARSE = 8
"""Possible values for each given one, above which a table of all of them costs more than sorting."""
_SMALL = 1 << 16
"""Possible values up to which a table is cheap in any case."""


def sorted_by(*keys: Ints) -> Ints:
    """Return the indices that sort by the last key, then the one before it, as ``np.lexsort`` does, equal entries as
    they come; keys are whole numbers of 0 and more, [n] each.

    Time: linear in n and the largest key; as ``np.lexsort`` where keys are much larger than n.
    """
    order = np.arange(len(keys[0]))
    most = [int(key.max(initial=0)) + 1 for key in keys]
    if max(most) > max(_SMALL, _SPARSE * len(order)):
        return np.lexsort(keys)
    for key, number in zip(keys, most, strict=True):
        order = kernels.counted_order(np.ascontiguousarray(key, np.int64), order, number)
    return order


def grouped(count: Ints) -> tuple[Ints, Ints]:
    """Return, for entries that lie group after group, the group of each entry and its place in that group: [entry]
    each.

    Args:
        count: number of entries of each group: [group].
    """
    group = np.repeat(np.arange(len(count)), count)
    return group, np.arange(len(group)) - np.repeat(np.cumsum(count) - count, count)


def run_begins(*columns: Column) -> Mask:
    """Return True where an entry begins a run of equal ones: the first entry, and those that differ from the one before
    in some column: [n]. All columns have the same length n, 0 or more."""
    begins = np.ones(len(columns[0]), np.bool_)
    begins[1:] = reduce(np.logical_or, (column[1:] != column[:-1] for column in columns))
    return begins


def distinct(values: Ints, most: int) -> tuple[Ints, Ints]:
    """Return the distinct values, ascending, and for each value its place among them [n], as ``np.unique`` with its
    inverse.

    Time: linear in n and ``most``; as ``np.unique`` where ``most`` is much larger than n.

    Args:
        values: from 0 to ``most`` − 1: [n].
    """
    if most > max(_SMALL, _SPARSE * len(values)):
        return np.unique(values, return_inverse=True)
    given = np.zeros(most, np.bool_)
    given[values] = True
    numbers = np.flatnonzero(given)
    place = np.empty(most, np.int64)
    place[numbers] = np.arange(len(numbers))
    return numbers, place[values]
