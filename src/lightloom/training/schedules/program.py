"""A schedule as programs, one a rank: what it sends and receives, in which order.

Rows become messages. A *level* is a set of rows that read before any of them writes:

* of a schedule with steps, a step's distance from the beginning along dependencies (steps that nothing orders touch
  nothing in common, says the verifier);
* of a queued one, a round: every lightpath whose next row is ready sends that row.

Rows of one level, source, destination and kind (adding or storing) travel as one message. Messages are ordered by
level, source, destination and kind; so are the receives of a rank, and what is sent between two ranks. A send follows
the last receive that writes what it carries, and earlier sends to the same rank; other receives do not hold it up.

**No deadlock**, whatever the schedule. Sends do not block. Let m be the first message, in the order above, that is
never received. Its receiver has taken everything before, as that comes earlier, and waits for m; its sender has taken
what m waits for, as that comes earlier, so m was sent. Verified schedules also compute what their collective promises.

Sums are added in the order of messages, so that a program gives the same bits each time.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.spec import Collective
from lightloom.core.arrays import Ints
from lightloom.core.errors import UnsupportedError, VerificationError

_ANY_FIBRE = 1 << 15
"""Wavelengths play no part here, but unfolding a schedule numbers them."""


@dataclass(frozen=True, slots=True, eq=False)
class Movement:
    """All messages of a schedule, in order."""

    collective: Collective
    chunks: int
    level: Ints
    """Shape [message], like source, destination and reduces."""
    source: Ints
    destination: Ints
    reduces: NDArray[np.bool_]
    first: Ints
    """Where the chunks of each message begin, shape [messages + 1]."""
    chunk: Ints
    """Chunks of all messages, ascending in each."""

    @property
    def kind(self) -> str:
        """Kind of the collective that is executed."""
        return self.collective.kind

    @property
    def ranks(self) -> int:
        """Ranks that take part."""
        return self.collective.ranks

    @property
    def pieces(self) -> int:
        """Chunks of a part."""
        return self.chunks // self.collective.parts

    @property
    def part(self) -> Ints:
        """The part of which each chunk is a piece: [chunk]."""
        return np.arange(self.chunks) // self.pieces

    @property
    def digest(self) -> bytes:
        """SHA-256 of who sends which chunks to whom in which order: equal for schedules that move data alike."""
        wanted = self.collective
        digest = hashlib.sha256(f"{self.kind} {self.ranks} {self.chunks}".encode())
        if wanted.destinations is not None:
            digest.update(np.array(wanted.destinations).tobytes())
        if wanted.sizes is not None:
            digest.update(f"{wanted.distinct_nbytes!r} {wanted.sizes.digest}".encode())
        for column in (self.level, self.source, self.destination, self.reduces, self.first, self.chunk):
            digest.update(np.ascontiguousarray(column).tobytes())
        return digest.digest()

    def held(self, rank: int) -> Ints:
        """Chunks of the input of ``rank``, in its order."""
        return self._chunks_of(self.collective.begins_at(self.part), rank)

    def wanted(self, rank: int) -> Ints:
        """Chunks of the output of ``rank``, in its order."""
        return self._chunks_of(self.collective.ends_at(self.part), rank)

    def _chunks_of(self, holder: Ints, rank: int) -> Ints:
        return np.flatnonzero((holder == rank) | (holder < 0))


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """What one rank sends to a peer, or receives from it."""

    peer: int
    cells: slice | Ints
    """Rows of the rank's working memory; a slice where they follow each other."""
    adds: bool
    after: int
    """Of a send: receives that come before it. Of a receive: its own number."""
    in_place: bool
    """Whether it may use these cells as its buffer: they follow each other, and nothing writes them after a send, or
    held or wrote them before a receive."""


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """What one rank does: receives in order, and each send once as many receives have come as it says."""

    rank: int
    chunks: Ints
    """Chunks that the rank ever holds, ascending: [cell]."""
    held: slice
    """Cells that the input fills, in its order."""
    wanted: slice | Ints
    """Cells that make up the output."""
    sends: tuple[Message, ...]
    receives: tuple[Message, ...]

    @property
    def cells(self) -> int:
        """Chunks that the rank ever holds."""
        return len(self.chunks)

    def in_values(self, sizes: Ints) -> Program:
        """The same with cells of so many values each, [cell], all cells named by the places of their values."""
        begins = np.concatenate([[0], np.cumsum(sizes)])

        def values(cells: slice | Ints) -> slice | Ints:
            if isinstance(cells, slice):
                return slice(int(begins[cells.start]), int(begins[cells.stop]))
            return _place(np.concatenate([np.arange(begins[cell], begins[cell + 1]) for cell in cells]))

        sends, receives = (
            tuple(replace(message, cells=values(message.cells)) for message in messages)
            for messages in (self.sends, self.receives)
        )
        held = values(self.held)
        assert isinstance(held, slice)
        return replace(self, held=held, wanted=values(self.wanted), sends=sends, receives=receives)


def movement_of(schedule: Schedule) -> Movement:
    """The messages of a schedule; a verified one, if they shall do what its collective promises.

    Raises:
        UnsupportedError: a switch takes part that reduces in the network: no process stands for it.
        VerificationError: steps wait for each other, or rows are never sent.
    """
    plain, wanted = schedule.unfolded(_ANY_FIBRE), schedule.collective
    if len(plain) and max(plain.source.max(), plain.destination.max()) >= wanted.ranks:
        raise UnsupportedError(f"{schedule.algorithm} adds up inside a switch: processes can execute what ranks do")
    level = _rounds(plain) if plain.queued else _depths(plain)[plain.step]
    if (weights := plain.weights) is not None:
        # Parts without bytes need no messages.
        level, plain = level[weights > 0], plain.with_columns({k: v[weights > 0] for k, v in plain.columns().items()})
    order = np.lexsort((plain.chunk, plain.reduces, plain.destination, plain.source, level))
    keys = np.stack([level, plain.source, plain.destination, plain.reduces])[:, order].astype(np.int64)
    begins = np.flatnonzero(np.any(np.diff(keys, axis=1, prepend=-1) != 0, axis=0))
    return Movement(
        wanted,
        plain.chunks,
        keys[0, begins],
        keys[1, begins],
        keys[2, begins],
        keys[3, begins].astype(np.bool_),
        np.append(begins, len(order)).astype(np.int64),
        plain.chunk[order].astype(np.int64),
    )


def program_of(movement: Movement, rank: int) -> Program:
    """The part of ``rank``."""
    mine = np.flatnonzero((movement.source == rank) | (movement.destination == rank))
    carried = {int(m): movement.chunk[movement.first[m] : movement.first[m + 1]] for m in mine}
    held, wanted = movement.held(rank), movement.wanted(rank)
    chunks = np.unique(np.concatenate([held, wanted, *carried.values()]))
    cells = {m: np.searchsorted(chunks, message) for m, message in carried.items()}
    written = np.full(len(chunks), -1, np.int64)
    filled = np.zeros(len(chunks), np.bool_)
    filled[np.searchsorted(chunks, held)] = True
    receives: list[Message] = []
    waits: list[tuple[int, int]] = []
    last: dict[int, int] = {}
    # Within a level sends come first: they carry what was there before it.
    for m in sorted(cells, key=lambda m: (movement.level[m], movement.destination[m] == rank, m)):
        here, place = cells[m], _place(cells[m])
        if movement.source[m] == rank:
            peer = int(movement.destination[m])
            last[peer] = max(last.get(peer, 0), int(written[here].max()) + 1)
            waits.append((last[peer], m))
            continue
        fresh = isinstance(place, slice) and not movement.reduces[m] and not filled[here].any()
        receives.append(Message(int(movement.source[m]), place, bool(movement.reduces[m]), len(receives), fresh))
        written[here], filled[here] = len(receives) - 1, True
    sends = []
    for after, m in sorted(waits):
        place = _place(cells[m])
        settled = isinstance(place, slice) and bool(written[cells[m]].max() < after)
        sends.append(Message(int(movement.destination[m]), place, bool(movement.reduces[m]), after, settled))
    begin = int(np.searchsorted(chunks, held[0])) if len(held) else 0
    brought, kept = slice(begin, begin + len(held)), _place(np.searchsorted(chunks, wanted))
    return Program(rank, chunks, brought, kept, tuple(sends), tuple(receives))


def _place(cells: Ints) -> slice | Ints:
    if not len(cells):
        return slice(0, 0)
    follow = bool(np.all(np.diff(cells) == 1))
    return slice(int(cells[0]), int(cells[-1]) + 1) if follow else cells.astype(np.int64)


def replicas_agree(movement: Movement) -> bool:
    """Whether all ranks end with the same bits of each chunk, however sums round.

    They do if every rank's result comes from the same additions, each in either order of its two terms. Additions are
    told apart by hashes of 64 bits.
    """
    state = _scattered(np.arange(movement.ranks, dtype=np.uint64))[:, None] + np.zeros(movement.chunks, np.uint64)
    level, begin = movement.level, 0
    while begin < len(level):
        end = int(np.searchsorted(level, level[begin], side="right"))
        before = state.copy()
        for m in range(begin, end):
            chunk = movement.chunk[movement.first[m] : movement.first[m + 1]]
            come, target = before[movement.source[m], chunk], (movement.destination[m], chunk)
            if movement.reduces[m]:
                come = _scattered((come + state[target]) ^ _scattered(come * state[target]))
            state[target] = come
        begin = end
    finals = [state[rank, movement.wanted(rank)] for rank in range(movement.ranks)]
    return movement.kind != "all-reduce" or all(np.array_equal(finals[0], final) for final in finals[1:])


def _scattered(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The mixing step of SplitMix64."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _depths(schedule: Schedule) -> Ints:
    """Steps on the longest path to each step."""
    if schedule.dependencies is None:
        return np.arange(schedule.steps)
    pairs = np.asarray(schedule.dependencies, np.int64).reshape(-1, 2)
    depth = np.zeros(schedule.steps, np.int64)
    for _ in range(schedule.steps + 1):
        deeper = depth.copy()
        np.maximum.at(deeper, pairs[:, 0], depth[pairs[:, 1]] + 1)
        if np.array_equal(deeper, depth):
            return depth
        depth = deeper
    raise VerificationError("the steps of this schedule wait for each other in a circle")


def _rounds(schedule: Schedule) -> Ints:
    """The round in which each row of a queued schedule is sent."""
    chunks = schedule.chunks
    reads = schedule.source.astype(np.int64) * chunks + schedule.chunk
    writes = schedule.destination.astype(np.int64) * chunks + schedule.chunk
    cells, adds = schedule.collective.ranks * chunks, schedule.reduces
    sums = np.bincount(writes[adds], minlength=cells)
    stores = np.bincount(writes[~adds], minlength=cells)
    queue = np.lexsort((schedule.step, schedule.lightpath))
    head = np.flatnonzero(np.diff(schedule.lightpath[queue], prepend=-1))
    end = np.append(head[1:], len(queue))
    rounds = np.empty(len(queue), np.int64)
    sent = now = 0
    while sent < len(queue):
        open_ = np.flatnonzero(head < end)
        row = queue[head[open_]]
        ready = (sums[reads[row]] == 0) & (adds[row] | (stores[reads[row]] == 0))
        row = row[ready]
        if not len(row):
            raise VerificationError(f"row {queue[head[open_[0]]]} of this schedule is never sent")
        head[open_[ready]] += 1
        np.subtract.at(sums, writes[row[adds[row]]], 1)
        np.subtract.at(stores, writes[row[~adds[row]]], 1)
        rounds[row] = now
        sent += len(row)
        now += 1
    return rounds
