"""Schedules executed by real processes, on real tensors: point to point over a gloo group, no collective calls.

    execute = ScheduleExecutor(schedule)        # in every rank of the process group
    total = execute(gradient)                   # what the schedule's collective makes of it

Tensors are flat, and lie as those of ``torch.distributed``: shares and blocks follow each other by rank. Reductions are
sums. Where a rank brings nothing, as most do to a broadcast or a scatter, its tensor only says of what type and how
long its result is, as there. The comment below says in which order messages go, and why no rank waits for ever.
"""

from __future__ import annotations

import hashlib
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache, partial
from itertools import groupby
from typing import Any, NoReturn

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

from lightloom.collectives.collective import Collective
from lightloom.collectives.schedule.columns import Schedule
from lightloom.core.arrays import Ints
from lightloom.core.errors import ConfigError, UnsupportedError, VerificationError
from lightloom.exchange.transport.channel import TransportError
from lightloom.exchange.transport.channel_group import DEFAULT_TIMEOUT
from lightloom.exchange.transport.gloo import group_or_default

# A schedule as programs, one a rank: what it sends and receives, in which order.
#
# Rows become messages. A *level* is a set of rows that read before any of them writes:
#
# * of a schedule with steps, a step's distance from the beginning along dependencies (steps that nothing orders touch
# nothing in common, says the verifier);
# * of a queued one, a round: every lightpath whose next row is ready sends that row.
#
# Rows of one level, source, destination and kind (adding or storing) travel as one message. Messages are ordered by
# level, source, destination and kind; so are the receives of a rank, and what is sent between two ranks. A send
# follows the last receive that writes what it carries, and earlier sends to the same rank; other receives do not hold
# it up.
#
# **No deadlock**, whatever the schedule. Sends do not block. Let m be the first message, in the order above, that is
# never received. Its receiver has taken everything before, as that comes earlier, and waits for m; its sender has
# taken what m waits for, as that comes earlier, so m was sent. Verified schedules also compute what their collective
# promises.
#
# Sums are added in the order of messages, so that a program gives the same bits each time.

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
    def pieces(self) -> int:
        """Number of chunks into which each part of the collective is cut. A part is the whole vector of an all-reduce,
        broadcast or reduce; a rank's share of an all-gather, reduce-scatter, gather, scatter or permute; a pair's block
        of an all-to-all."""
        return self.chunks // self.collective.parts

    @property
    def part(self) -> Ints:
        """The number of the part of the collective of which each chunk is a piece, int64 [chunk]: 0 throughout where
        the whole vector is one part, else a rank, or source times ranks plus destination in an all-to-all."""
        return np.arange(self.chunks) // self.pieces

    @property
    def digest(self) -> bytes:
        """SHA-256, 32 bytes, of the collective (kind, ranks, chunks, destinations; bytes only where parts have sizes)
        and of all messages, that is who sends which chunks to whom in which order: equal for schedules that move data
        alike, whatever their routes and wavelengths."""
        wanted = self.collective
        digest = hashlib.sha256(f"{wanted.kind} {wanted.ranks} {self.chunks}".encode())
        if wanted.destinations is not None:
            digest.update(np.array(wanted.destinations).tobytes())
        if wanted.sizes is not None:
            digest.update(f"{wanted.distinct_nbytes!r} {wanted.sizes.digest}".encode())
        for column in (self.level, self.source, self.destination, self.reduces, self.first, self.chunk):
            digest.update(np.ascontiguousarray(column).tobytes())
        return digest.digest()

    def held(self, rank: int) -> Ints:
        """Return the numbers of the chunks that ``rank`` begins with, its input, ascending; empty where it brings
        nothing."""
        return self._chunks_of(self.collective.begins_at(self.part), rank)

    def wanted(self, rank: int) -> Ints:
        """Return the numbers of the chunks that ``rank`` ends with, its output, ascending; empty where it gets nothing
        (as all but the root of a reduce or a gather)."""
        return self._chunks_of(self.collective.ends_at(self.part), rank)

    def _chunks_of(self, holder: Ints, rank: int) -> Ints:
        """Return the numbers, ascending, of the chunks whose entry of ``holder`` [chunk] is ``rank``, or negative,
        which stands for all ranks."""
        return np.flatnonzero((holder == rank) | (holder < 0))


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """A message of one rank's program, to a peer or from it."""

    peer: int
    cells: slice | Ints
    """Rows of the rank's working memory; a slice where they follow each other."""
    adds: bool
    after: int
    """Number of receives that come before a send; of a receive, its own number."""
    in_place: bool
    """True if it may use these cells as its buffer: they follow each other, and nothing writes them after a send, or
    held or wrote them before a receive."""


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """Program of one rank: receives in order, and each send once as many receives have come as it says."""

    rank: int
    chunks: Ints
    """Chunks that the rank ever holds, ascending: [cell]."""
    held: slice
    """Cells that the input fills, in its order."""
    wanted: slice | Ints
    """Cells that make up the output."""
    sends: tuple[Message, ...]
    receives: tuple[Message, ...]

    def in_values(self, sizes: Ints) -> Program:
        """Return the program for a flat memory of values: cell c takes ``sizes[c]`` values, cells follow each other,
        and every reference to cells (input, output, sends and receives) becomes one to the positions of their
        values."""
        begins = np.concatenate([[0], np.cumsum(sizes)])

        def values(cells: slice | Ints) -> slice | Ints:
            """Return the positions of the values in some cells, as a slice where they follow each other."""
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
    """Return the messages of a schedule, in order; they do what its collective promises if the schedule is a verified
    one.

    Rows of one level (of equal depth of dependencies, or of one round of a queued schedule, which all read before any
    of them writes), of one source and destination, and which all add or all store, are one message. Messages are in the
    order of level, source, destination, and storing before adding. Parts without bytes need no messages.

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
    begins = np.flatnonzero(np.any(np.diff(keys, prepend=-1) != 0, axis=0))
    level, source, destination, reduces = keys[:, begins]
    first, chunk = np.append(begins, len(order)).astype(np.int64), plain.chunk[order].astype(np.int64)
    return Movement(wanted, plain.chunks, level, source, destination, reduces.astype(np.bool_), first, chunk)


def program_of(movement: Movement, rank: int) -> Program:
    """Return the program by which ``rank`` takes part in a movement: the messages that it sends or receives, their
    chunks named by cells, which number the chunks that the rank ever holds in ascending order, with the cells that its
    input fills and those that make up its output. Receives are in the order of messages; a send tells in ``after`` how
    many receives must have come before it, and sends are sorted by that."""
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
    """Return ascending cells as a slice where they follow each other (``slice(0, 0)`` for none), else as an array,
    int64 [cell]."""
    if not len(cells):
        return slice(0, 0)
    follow = bool(np.all(np.diff(cells) == 1))
    return slice(int(cells[0]), int(cells[-1]) + 1) if follow else cells.astype(np.int64)


def replicas_agree(movement: Movement) -> bool:
    """Return whether all ranks of an all-reduce end with the same bits of each chunk, however sums round; True for
    every other collective.

    The ranks agree if every rank's result comes from the same additions, each in either order of its two terms.
    Additions are told apart by hashes of 64 bits.
    """
    kind, ranks = movement.collective.kind, movement.collective.ranks
    state = _scattered(np.arange(ranks, dtype=np.uint64))[:, None] + np.zeros(movement.chunks, np.uint64)
    for _, messages in groupby(range(len(movement.level)), key=lambda m: movement.level[m]):
        before = state.copy()
        for m in messages:
            chunk = movement.chunk[movement.first[m] : movement.first[m + 1]]
            come, target = before[movement.source[m], chunk], (movement.destination[m], chunk)
            if movement.reduces[m]:
                come = _scattered((come + state[target]) ^ _scattered(come * state[target]))
            state[target] = come
    finals = [state[rank, movement.wanted(rank)] for rank in range(ranks)]
    return kind != "all-reduce" or all(np.array_equal(finals[0], final) for final in finals[1:])


def _scattered(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a 64-bit hash of each value, in the same shape, by the mixing step of SplitMix64."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _depths(schedule: Schedule) -> Ints:
    """Return the length of the longest path of dependencies that leads to each step, int64 [step], 0 for steps that
    depend on none; the step's number where the schedule states no dependencies. Raises VerificationError for a
    circle."""
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
    """Return the round, from 0 on, in which each row is sent, int64 [row], of a queued schedule: one without steps,
    whose lightpaths each send their rows in order, as soon as the data are there.

    A row is sent in the first round after all rows before it on its lightpath, and after all rows that add to the chunk
    it reads; a row that stores also waits for those that store that chunk. Raises VerificationError where a row is
    never sent.
    """
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


# One rank's part of a schedule whose parts differ in size: all its chunks one after the other in one flat tensor.


@dataclass(frozen=True, slots=True, eq=False)
class UnevenMemory:
    """Where the values of a rank's chunks lie.

    Every part has as many values as its bytes hold, rounded; it is cut into equal chunks, the last one padded.
    """

    program: Program
    """Cells named by the places of their values."""
    brought: Ints
    """Places of the input's values, in its order."""
    kept: Ints
    """Places of the output's values, in its order."""
    values: int
    """Number of values in all chunks that the rank ever holds, padding included."""

    @property
    def padding(self) -> int:
        """Number of zeros that fill the cells of this rank's input beyond the values that it brings, over all its
        chunks: chunks of a part are equally large, so its last ones may be filled up."""
        held = self.program.held
        return int(held.stop) - int(held.start) - len(self.brought)

    def check(self, values: int) -> None:
        """Check that ``values``, the length of this rank's input, is the number of values that its parts have.

        Raises:
            ConfigError: it is another number.
        """
        rank, expected = self.program.rank, len(self.brought)
        if values != expected:
            raise ConfigError(f"{values} values of rank {rank}: expected {expected}, by the sizes")


def values_of_parts(movement: Movement, itemsize: int) -> Ints:
    """Return how many values of ``itemsize`` bytes each part has in a movement whose collective states sizes of its
    parts (it must), rounded to the nearest, int64 [part]."""
    wanted = movement.collective
    assert wanted.sizes is not None
    return np.rint(wanted.sizes.share.ravel() * (wanted.distinct_nbytes / itemsize)).astype(np.int64)


def uneven_memory(movement: Movement, program: Program, itemsize: int) -> UnevenMemory:
    """Return the memory of a rank: its program for one flat tensor that holds all its chunks one after the other, and
    where in it the values of its input and of its output lie, for a collective whose parts differ in size (it must
    state sizes). A part is cut into equal chunks, the last ones padded; a chunk of a part with bytes has at least one
    value.

    Args:
        movement: all messages of the schedule.
        program: that rank's program, by cells.
        itemsize: bytes of a value.
    """
    weights = movement.collective.weights
    assert weights is not None
    values = values_of_parts(movement, itemsize)
    # What has bytes is sent, even where they are less than a value.
    chunk = np.maximum(-(-values // movement.pieces), weights > 0)
    part, piece = np.divmod(program.chunks, movement.pieces)
    sizes = chunk[part]
    begins = np.cumsum(sizes) - sizes
    filled = np.clip(values[part] - piece * sizes, 0, sizes)

    def places(chunks: Ints) -> Ints:
        """Return the places of the values of some chunks, chunk by chunk, padding left out: int64 [value]."""
        cells = np.searchsorted(program.chunks, chunks)
        parts = [np.arange(begins[cell], begins[cell] + filled[cell]) for cell in cells]
        return np.concatenate([np.zeros(0, np.int64), *parts])

    rank = program.rank
    brought, kept = places(movement.held(rank)), places(movement.wanted(rank))
    return UnevenMemory(program.in_values(sizes), brought, kept, int(sizes.sum()))


_AHEAD = 16
"""Receives that are posted before their turn, so that peers need not wait until it comes."""
_DATA, _HEADER = 0, 1
"""Tags of gloo messages with values, and with what a rank is about to execute."""
_FAULT = "lightloom/execution/fault"
_DTYPES = (
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
)


class ScheduleExecutor:
    """One rank's part of a schedule, compiled once, executed any number of times."""

    def __init__(
        self, schedule: Schedule, group: dist.ProcessGroup | None = None, *, timeout: float = DEFAULT_TIMEOUT
    ) -> None:
        """Compile; nothing is sent yet, and ranks need not do so at the same time.

        Args:
            schedule: verified; what ranks compute is what its rows say.
            group: of gloo; the default one unless given.
            timeout: seconds that a rank may keep another one waiting for a message.

        Raises:
            UnsupportedError: no process group, one without gloo or of another size than the schedule's, or a schedule
                that needs a reducing switch.
        """
        group = group_or_default(group)
        if group.size() != (ranks := schedule.collective.ranks):
            raise UnsupportedError(f"a schedule for {ranks} ranks in a group of {group.size()}: expected as many")
        if "gloo" not in str(dist.get_backend_config(group)):
            raise UnsupportedError(f"a process group of {dist.get_backend_config(group)}: expected gloo")
        self.movement: Movement = movement_of(schedule)
        self.program = program_of(self.movement, group.rank())
        self.rank, self.ranks, self.kind = group.rank(), group.size(), schedule.collective.kind
        self.group = group
        self._peers = [dist.get_global_rank(group, rank) for rank in range(self.ranks)]
        self._timeout = timeout
        self._calls = 0
        self._digest = np.frombuffer(self.movement.digest, np.int64)
        self._memory = cache(partial(uneven_memory, self.movement, self.program))
        self._held, self._wanted = len(self.movement.held(self.rank)), len(self.movement.wanted(self.rank))

    def shape(self, values: int) -> tuple[int, int, int]:
        """Return (blocks, values of a block, values of a chunk) of an input of ``values`` values (of a result, on ranks
        that bring nothing to a broadcast or a scatter), where all parts are equally large; a block has the chunks of
        one part, each of ceil(values of a block / chunks) values, and the last chunk of a block is padded with zeros.

        There is one block, or one for each rank: in the input of a reduce-scatter or an all-to-all, and in that of the
        root of a scatter.

        Raises:
            ConfigError: the blocks cannot have equally many values.
        """
        blocks = (self._held or self._wanted) // self.movement.pieces
        if values % blocks:
            raise ConfigError(f"{values} values to {self.kind}: expected a multiple of {self.ranks}, the ranks")
        return blocks, values // blocks, -(-values // blocks // self.movement.pieces)

    def padding(self, values: int, itemsize: int) -> int:
        """Return the number of zeros added to each block of an input of ``values`` values of ``itemsize`` bytes each;
        where parts have sizes, those added to this rank's whole input, whatever ``values`` is. Raises ConfigError where
        equally large blocks cannot hold so many values."""
        if self.movement.collective.sizes is None:
            _, block, chunk = self.shape(values)
            return chunk * self.movement.pieces - block
        return self._memory(itemsize).padding

    def __call__(self, tensor: Tensor) -> Tensor:
        """Execute the collective on all ranks' tensors and return this rank's result, flat; the input is left alone.

        Sums are added in the type of the tensor. A sum of n floats is within (n − 1) u / (1 − (n − 1) u) times the sum
        of their magnitudes of the exact one, u half the type's ``eps``: whatever the order, each value takes part in at
        most n − 1 additions, each of which is off by a factor of 1 + u at most. Padding adds nothing to it.

        Raises:
            ConfigError: ranks brought different schedules, types or numbers of values, or not as many as sizes say;
                none has sent any.
            UnsupportedError: the tensor is sparse, not in CPU memory, or of another type than integers and floats.
            TransportError: a rank died or fell silent. The group then cannot be used any more.
        """
        if tensor.layout != torch.strided or tensor.device.type != "cpu" or tensor.dtype not in _DTYPES:
            raise UnsupportedError(
                f"a {tensor.layout} tensor of {tensor.dtype} on {tensor.device}: expected integers or floats, dense, "
                "on cpu"
            )
        if self.movement.collective.sizes is not None:
            return self._unevenly(tensor)
        blocks, values, chunk = self.shape(tensor.numel())
        # The root of a scatter brings what all others receive.
        self._agree(tensor, values if self.kind == "scatter" else tensor.numel())
        if not tensor.numel():
            return tensor.new_empty(0)
        with torch.no_grad():
            work = tensor.new_empty(len(self.program.chunks), chunk)
            if self._held:
                brought = work[self.program.held].view(blocks, -1)
                brought[:, :values] = tensor.detach().reshape(blocks, values)
                brought[:, values:] = 0
            self._exchange(work, self.program)
            if not self._wanted:
                return tensor.new_empty(0)
            parts = self._wanted // self.movement.pieces
            result = work[self.program.wanted].reshape(parts, -1)[:, :values].reshape(-1)
            # A share must not keep the memory of all of them.
            return result.clone() if self._wanted < len(self.program.chunks) else result

    def _unevenly(self, tensor: Tensor) -> Tensor:
        """Execute a collective whose parts differ in size, and return this rank's result, flat; the input is left
        alone. Raises ConfigError where ranks bring different things or not as many values as sizes say, and
        TransportError where one dies or falls silent."""
        memory = self._memory(tensor.dtype.itemsize)
        memory.check(tensor.numel())
        self._agree(tensor, 0)
        with torch.no_grad():
            work = tensor.new_zeros(memory.values)
            work[memory.brought] = tensor.detach().reshape(-1)
            self._exchange(work, memory.program)
            return work[memory.kept]

    def _exchange(self, work: Tensor, program: Program) -> None:
        """Run this rank's program on its working memory, in place, and return once all its messages are sent and
        received; raises TransportError where a peer has gone or is silent for longer than the timeout. Receives are
        added or stored in the program's order.

        Args:
            work: [cell, value], or flat where cells are named by the positions of their values; the input must be in
                place.
            program: this rank's program, by the cells of ``work``.
        """
        receives = program.receives
        due = {after: tuple(sends) for after, sends in groupby(program.sends, key=lambda send: send.after)}
        posted: deque[tuple[Any, Tensor]] = deque()
        in_flight: list[tuple[Any, int, Tensor]] = []
        ahead = iter(receives)
        for turn in range(len(receives) + 1):
            while len(posted) < _AHEAD and (following := next(ahead, None)) is not None:
                buffer = work[following.cells]
                buffer = buffer if following.in_place else torch.empty_like(buffer)
                posted.append((self._start(dist.irecv, buffer, following.peer, _DATA), buffer))
            in_flight += [self._send(message, work) for message in due.get(turn, ())]
            if turn == len(receives):
                break
            message, (pending, buffer) = receives[turn], posted.popleft()
            self._await(pending, message.peer)
            if message.adds:
                work[message.cells] += buffer
            elif not message.in_place:
                work[message.cells] = buffer
        for pending, peer, _ in in_flight:
            self._await(pending, peer)

    def _send(self, message: Message, work: Tensor) -> tuple[Any, int, Tensor]:
        """Start to send a message's cells of the working memory ``work``, copied where they may still be written;
        return (pending send, peer, buffer to keep alive until it ends)."""
        buffer = work[message.cells]
        if isinstance(message.cells, slice) and not message.in_place:
            buffer = buffer.clone()
        return self._start(dist.isend, buffer, message.peer, _DATA), message.peer, buffer

    def _agree(self, tensor: Tensor, values: int) -> None:
        """Compare schedule, type of ``tensor``, ``values`` (length of the input, of a scatter's block instead; 0 where
        the collective states sizes) and number of the call with every other rank, so that none mistakes what comes, and
        count the call; raises ConfigError on all ranks where one differs from rank 0, TransportError where one has gone
        or is silent."""
        own = torch.tensor([*self._digest, _DTYPES.index(tensor.dtype), values, self._calls])
        others = [rank for rank in range(self.ranks) if rank != self.rank]
        headers = [own.clone() for _ in range(self.ranks)]
        receives = [(self._start(dist.irecv, headers[rank], rank, _HEADER), rank) for rank in others]
        sends = [(self._start(dist.isend, own, rank, _HEADER), rank) for rank in others]
        for pending, rank in receives + sends:
            self._await(pending, rank)
        for rank in range(1, self.ranks):
            if not torch.equal(headers[rank], headers[0]):
                raise ConfigError(
                    f"rank {rank} {_brings(headers[rank])}, rank 0 {_brings(headers[0])}: expected the same"
                )
        self._calls += 1

    def _start(self, operation: Any, buffer: Tensor, peer: int, tag: int) -> Any:
        """Start ``operation``, ``dist.isend`` or ``dist.irecv``, of ``buffer`` with rank ``peer`` of the group, and
        return what is pending; ``tag`` tells values from headers. Raises TransportError if it cannot start."""
        try:
            return operation(buffer, self._peers[peer], group=self.group, tag=tag)
        except RuntimeError as error:
            self._fail(peer, error)

    def _await(self, pending: Any, peer: int) -> None:
        """Wait until ``pending``, a send to or receive from ``peer``, has ended; raises TransportError if it fails or
        takes longer than the timeout."""
        try:
            pending.wait(timedelta(seconds=self._timeout))
        except RuntimeError as error:
            self._fail(peer, error)

    def _fail(self, peer: int, error: RuntimeError) -> NoReturn:
        """Raise TransportError that says that rank ``peer`` was silent, where ``error`` is a timeout, or has gone, and,
        if the group's store still answers, the fault that the first rank to notice one has written there."""
        silent = "timed out" in str(error).lower()
        what = f"was silent for {self._timeout:g} s" if silent else "has gone"
        own = first = f"rank {self.rank}: rank {peer} {what}"
        with suppress(Exception):
            store = dist.distributed_c10d._get_process_group_store(self.group)
            first = store.compare_set(f"{_FAULT}/{self.group.group_name}", "", own).decode()
        raise TransportError(own if first == own else f"{own}; before that, {first}") from error


def _brings(header: Tensor) -> str:
    """Return in words what a rank is about to execute, from its header [4 numbers of the schedule's digest, type,
    values, call]: ``brings 8 values of float32 to schedule 0123456789ab, call 0``."""
    content, (dtype, values, calls) = header[:4].numpy().tobytes().hex()[:12], header[4:].tolist()
    return f"brings {values} values of {str(_DTYPES[dtype]).removeprefix('torch.')} to schedule {content}, call {calls}"
