"""Connections of a hook's own among the ranks of a process group.

DDP and the training loop use the model's group meanwhile, in an order that may differ between ranks; an exchange on the
same group could meet their collectives. In CPU memory the connections are gloo's, on other devices a new group of the
same backend.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from itertools import pairwise
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import PrefixStore  # type: ignore[attr-defined]

from lightloom.training.transport.errors import TransportError
from lightloom.training.transport.gloo_setup import connect_all
from lightloom.training.transport.rendezvous import ring_from_store
from lightloom.training.transport.ring import Ring


class OwnGroup:
    """Collectives among the ranks of ``group``, or some of them, which count the bytes that this rank sends. All these
    ranks must create it, equally often, and connect in the same order.
    """

    def __init__(
        self,
        group: dist.ProcessGroup,
        timeout: float,
        *,
        device: str = "cpu",
        host: str | None = None,
        members: Sequence[int] | None = None,
    ) -> None:
        """Remember who takes part; ``connect`` and ``ring`` connect.

        Args:
            group: process group through which ranks find each other.
            timeout: time without progress after which a collective fails, in seconds.
            device: type of the device that tensors are on.
            host: address of this rank, for rings of several hosts; by default that from which it reaches the store.
            members: ranks of ``group`` that take part, this one among them; all unless given.
        """
        self.members = list(range(group.size()) if members is None else members)
        self.rank, self.ranks = self.members.index(group.rank()), len(self.members)
        self.device, self.timeout = device, timeout
        self.sent = 0
        """Bytes that this rank has sent to others; an all-reduce counts as 2 (ranks - 1) / ranks of its size."""
        self._base, self._host = group, host
        self._group: Any = None
        self._ring: Ring | None = None

    def connect(self) -> None:
        """Connect all ranks with each other, unless they are.

        Raises:
            TransportError: a rank did not connect in time.
        """
        if self.ranks == 1 or self._group is not None:
            return
        if self.device == "cpu":
            patience = timedelta(seconds=self.timeout)
            self._group = connect_all(
                lambda store: dist.ProcessGroupGloo(store, self.rank, self.ranks, patience),
                self._store(),
                self.rank,
                self.ranks,
                name="gloo",
                timeout=self.timeout,
            )
        else:
            everyone = dist.get_process_group_ranks(self._base)
            ranks = [everyone[member] for member in self.members]
            self._group = dist.new_group(ranks, timedelta(seconds=self.timeout), use_local_synchronization=True)

    def ring(self) -> Ring | None:
        """Connect the ranks in a ring, unless they are; None for a single rank.

        Raises:
            TransportError: a rank did not connect in time, or cannot be reached.
        """
        if self._ring is None and self.ranks > 1:
            self._ring = ring_from_store(
                self._store(), self.rank, self.ranks, host=self._host, timeout=self.timeout, names=self.members
            )
        return self._ring

    def subgroup(self, members: Sequence[int]) -> OwnGroup:
        """Return a group of some ranks of this one, numbered as in this one, not connected yet."""
        chosen = [self.members[member] for member in members]
        return OwnGroup(self._base, self.timeout, device=self.device, host=self._host, members=chosen)

    def all_to_all(self, received: Tensor, sent: Tensor, received_sizes: Sequence[int], sizes: Sequence[int]) -> None:
        """Send consecutive parts of ``sent``, of ``sizes`` elements, to ranks 0, 1 ...; receive likewise.

        Raises:
            TransportError: a rank left or fell silent.
        """
        self.sent += (sent.numel() - sizes[self.rank]) * sent.element_size()
        options = dist.AllToAllOptions()
        self._wait(lambda group: group.alltoall_base(received, sent, list(received_sizes), list(sizes), options))

    def all_gather(self, received: Tensor, own: Tensor, sizes: Sequence[int]) -> None:
        """Send ``own`` to all ranks; ``received`` holds what each rank sent, ``sizes`` elements, in order of rank.

        Raises:
            TransportError: a rank left or fell silent.
        """
        parts = list(torch.split(received, list(sizes)))
        parts[self.rank].copy_(own)
        self.sent += (self.ranks - 1) * own.numel() * own.element_size()
        if self.ranks == 1:
            return
        if self.device != "cpu":
            self._wait(lambda group: group.alltoall(parts, [own] * self.ranks, dist.AllToAllOptions()))
            return
        # gloo's own all-gather and all-to-all take equal sizes only, or one buffer with a copy for every rank.
        others = [(self.rank + k) % self.ranks for k in range(1, self.ranks)]
        messages = [partial(_receive, part=parts[k], rank=k) for k in reversed(others) if parts[k].numel()]
        self._wait(*messages, *(partial(_send, part=own, rank=k) for k in others if own.numel()))

    def all_reduce(self, values: Tensor) -> None:
        """Replace ``values`` by their sum over ranks.

        Raises:
            TransportError: a rank left or fell silent.
        """
        if self.ranks == 1:
            return
        self.sent += 2 * (self.ranks - 1) * values.numel() * values.element_size() // self.ranks
        self._wait(lambda group: group.allreduce([values]))

    def reduce_scatter_in_order(self, values: Tensor, sizes: Sequence[int]) -> Tensor:
        """Return the sum over ranks of this rank's part of ``values``, added in the order of ranks.

        The order of ``all_reduce`` depends on the position, so that a value's sum does on the bucket that it is in.

        Args:
            values: parts by rank, of ``sizes`` elements, one after the other; not changed.
            sizes: the same on all ranks.

        Raises:
            TransportError: a rank left or fell silent.
        """
        own = sizes[self.rank]
        if self.ranks == 1:
            return values.clone()
        terms = values.new_empty(self.ranks * own)
        self.all_to_all(terms, values, [own] * self.ranks, sizes)
        rows = terms.view(self.ranks, own)
        for term in rows[1:]:
            rows[0] += term
        return rows[0]

    def all_reduce_in_order(self, values: Tensor) -> None:
        """Replace ``values`` by their sum over ranks, added in the order of ranks wherever in ``values`` they lie.

        Raises:
            TransportError: a rank left or fell silent.
        """
        ends = [values.numel() * k // self.ranks for k in range(self.ranks + 1)]
        sizes = [end - begin for begin, end in pairwise(ends)]
        self.all_gather(values, self.reduce_scatter_in_order(values, sizes), sizes)

    def close(self) -> None:
        """Leave the group. May be called any number of times."""
        self._group = None
        if self._ring is not None:
            self._ring.close()

    def _store(self) -> PrefixStore:
        """Return a part of the store that no other group of these ranks uses."""
        store = self._base.get_group_store()
        key = f"lightloom/exchange/{self.members[0]}-{zlib.crc32(repr(self.members).encode()):08x}"
        number = store.add(f"{key}/{self.rank}", 1)
        return PrefixStore(f"{key}/group/{number}", store)

    def _wait(self, *operations: Callable[[Any], Any]) -> None:
        """Start operations of the group at once, and wait for all of them."""
        if self._group is None:
            raise TransportError(f"rank {self.rank}: the exchange is closed")
        try:
            for work in [operation(self._group) for operation in operations]:
                work.wait()
        except RuntimeError as error:
            reason = str(error).strip().splitlines()[0]
            raise TransportError(f"rank {self.rank}: the exchange among {self.ranks} ranks broke: {reason}") from error


def _receive(group: Any, *, part: Tensor, rank: int) -> Any:
    return group.recv([part], rank, 0)


def _send(group: Any, *, part: Tensor, rank: int) -> Any:
    return group.send([part], rank, 0)


def raw_nbytes(values: int, ranks: int) -> int:
    """Bytes that each rank of a ring all-reduce of float32 sends."""
    return 2 * (ranks - 1) * 4 * values // ranks
