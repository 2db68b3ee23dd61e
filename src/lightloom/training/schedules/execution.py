"""Schedules executed by real processes, on real tensors: point to point over a gloo group, no collective calls.

    execute = ScheduleExecutor(schedule)        # in every rank of the process group
    total = execute(gradient)                   # what the schedule's collective makes of it

Tensors are flat, and lie as those of ``torch.distributed``: shares and blocks follow each other by rank. Reductions are
sums. Where a rank brings nothing, as most do to a broadcast or a scatter, its tensor only says of what type and how
long its result is, as there. :mod:`lightloom.training.schedules.program` says in which order messages go, and why no
rank waits for ever.
"""

from __future__ import annotations

import math
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby
from typing import Any, NoReturn

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from lightloom.collectives.schedule.columns import Schedule
from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.training.schedules.program import Message, Movement, Program, movement_of, program_of
from lightloom.training.schedules.uneven import UnevenMemory, uneven_memory
from lightloom.training.transport.channel_group import DEFAULT_TIMEOUT
from lightloom.training.transport.errors import TransportError
from lightloom.training.transport.process_group import group_or_default

_AHEAD = 16
"""Receives that are posted before their turn, so that peers need not wait until it comes."""
_DATA, _HEADER = 0, 1
"""Tags of messages."""
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


@dataclass(frozen=True, slots=True)
class Shape:
    """How a tensor is cut into chunks: blocks of so many values, each in so many pieces, the last one padded."""

    blocks: int
    """One, or one for each rank (the input of a reduce-scatter or an all-to-all, and of the root of a scatter)."""
    values: int
    """Of a block."""
    pieces: int
    """Chunks of a block."""

    @property
    def chunk(self) -> int:
        """Values of a chunk."""
        return math.ceil(self.values / self.pieces)

    @property
    def padding(self) -> int:
        """Zeros that are added to a block so that it divides into its pieces; they travel, and are cut off again."""
        return self.chunk * self.pieces - self.values


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
        if group.size() != schedule.collective.ranks:
            raise UnsupportedError(
                f"a schedule for {schedule.collective.ranks} ranks in a group of {group.size()}: expected as many"
            )
        if "gloo" not in str(dist.get_backend_config(group)):
            raise UnsupportedError(f"a process group of {dist.get_backend_config(group)}: expected gloo")
        self.movement: Movement = movement_of(schedule)
        self.program = program_of(self.movement, group.rank())
        self.rank, self.ranks, self.kind = group.rank(), group.size(), self.movement.kind
        self.group = group
        self._peers = [dist.get_global_rank(group, rank) for rank in range(self.ranks)]
        self._timeout = timeout
        self._calls = 0
        self._digest = np.frombuffer(self.movement.digest, np.int64)
        self._memories: dict[int, UnevenMemory] = {}
        self._held, self._wanted = len(self.movement.held(self.rank)), len(self.movement.wanted(self.rank))

    def shape(self, values: int) -> Shape:
        """How an input of so many values is cut, where all parts are equally large.

        Raises:
            ConfigError: values that ranks cannot share equally.
        """
        blocks = (self._held or self._wanted) // self.movement.pieces
        if values % blocks:
            raise ConfigError(f"{values} values to {self.kind}: expected a multiple of {self.ranks}, the ranks")
        return Shape(blocks, values // blocks, self.movement.pieces)

    def padding(self, values: int, itemsize: int) -> int:
        """Zeros added to each block of an input of so many values, of so many bytes each; to all of it where sizes
        differ."""
        if self.movement.collective.sizes is None:
            return self.shape(values).padding
        return uneven_memory(self.movement, self.program, itemsize).padding

    def __call__(self, tensor: Tensor) -> Tensor:
        """What the collective makes of all ranks' tensors, flat; the input is left alone.

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
        shape = self.shape(tensor.numel())
        # The root of a scatter brings what all others receive.
        self._agree(tensor, shape.values if self.kind == "scatter" else tensor.numel())
        if not tensor.numel():
            return tensor.new_empty(0)
        with torch.no_grad():
            work = tensor.new_empty(self.program.cells, shape.chunk)
            if self._held:
                brought = work[self.program.held].view(shape.blocks, -1)
                brought[:, : shape.values] = tensor.detach().reshape(shape.blocks, shape.values)
                brought[:, shape.values :] = 0
            self._exchange(work, self.program)
            if not self._wanted:
                return tensor.new_empty(0)
            result = work[self.program.wanted].reshape(self._wanted // shape.pieces, -1)[:, : shape.values].reshape(-1)
            # A share must not keep the memory of all of them.
            return result.clone() if self._wanted < self.program.cells else result

    def _unevenly(self, tensor: Tensor) -> Tensor:
        memory = self._memories.get(tensor.dtype.itemsize)
        if memory is None:
            memory = uneven_memory(self.movement, self.program, tensor.dtype.itemsize)
            self._memories[tensor.dtype.itemsize] = memory
        memory.check(tensor.numel())
        self._agree(tensor, 0)
        with torch.no_grad():
            work = tensor.new_zeros(memory.values)
            work[memory.brought] = tensor.detach().reshape(-1)
            self._exchange(work, memory.program)
            return work[memory.kept]

    def _exchange(self, work: Tensor, program: Program) -> None:
        receives = program.receives
        due = {after: tuple(sends) for after, sends in groupby(program.sends, key=lambda send: send.after)}
        posted: deque[tuple[Any, Tensor]] = deque()
        in_flight: list[tuple[Any, int, Tensor]] = []
        ahead = iter(receives)
        for turn in range(len(receives) + 1):
            while len(posted) < _AHEAD and (following := next(ahead, None)) is not None:
                posted.append(self._post(following, work))
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

    def _post(self, message: Message, work: Tensor) -> tuple[Any, Tensor]:
        buffer = work[message.cells]
        if not message.in_place:
            buffer = torch.empty_like(buffer)
        return self._start(dist.irecv, buffer, message.peer, _DATA), buffer

    def _send(self, message: Message, work: Tensor) -> tuple[Any, int, Tensor]:
        buffer = work[message.cells]
        if isinstance(message.cells, slice) and not message.in_place:
            buffer = buffer.clone()
        return self._start(dist.isend, buffer, message.peer, _DATA), message.peer, buffer

    def _agree(self, tensor: Tensor, values: int) -> None:
        """Compare with every other rank what is about to be executed, so that none mistakes what comes."""
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
        try:
            return operation(buffer, self._peers[peer], group=self.group, tag=tag)
        except RuntimeError as error:
            self._fail(peer, error)

    def _await(self, pending: Any, peer: int) -> None:
        try:
            pending.wait(timedelta(seconds=self._timeout))
        except RuntimeError as error:
            self._fail(peer, error)

    def _fail(self, peer: int, error: RuntimeError) -> NoReturn:
        """Say who is at fault: the rank that the first to notice names, if the store still answers."""
        silent = "timed out" in str(error).lower()
        what = f"was silent for {self._timeout:g} s" if silent else "has gone"
        own = first = f"rank {self.rank}: rank {peer} {what}"
        with suppress(Exception):
            first = self.group.get_group_store().compare_set(f"{_FAULT}/{self.group.group_name}", "", own).decode()
        raise TransportError(own if first == own else f"{own}; before that, {first}") from error


def _brings(header: Tensor) -> str:
    """What a rank is about to execute, in words."""
    content, (dtype, values, calls) = header[:4].numpy().tobytes().hex()[:12], header[4:].tolist()
    return f"brings {values} values of {str(_DTYPES[dtype]).removeprefix('torch.')} to schedule {content}, call {calls}"
