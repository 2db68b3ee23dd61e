"""Connections of a hook's own among the ranks of a process group.

DDP and the training loop use the model's group meanwhile, in an order that may differ between ranks; an exchange on the
same group could meet their collectives. In CPU memory the connections are sockets of ``transport.meeting``, whose
messages say which exchange they belong to. On other devices a new group of the same backend moves the values, and ranks
compare what they exchange over the sockets whenever that is new.
"""

from __future__ import annotations

import atexit
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import cache
from itertools import pairwise
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import PrefixStore  # type: ignore[attr-defined]

from lightloom.exchange.transport.channel import AgreedError, Stamp, TransportError
from lightloom.exchange.transport.meeting import Mesh, MeshRing, mesh_from_store

# A thread of gloo drops the Python objects of a collective just after it is done, for which it waits until Python code
# lets it. Where the interpreter begins to end meanwhile, Python ends that thread, and with it aborts the process, after
# correct results. So the interpreter waits before it ends, in which time such threads get their turn.

_DROPPING_SECONDS = 0.05
"""Far longer than threads of gloo take to drop what they hold."""


@cache
def let_threads_drop_at_exit() -> None:
    """Make the interpreter wait before it ends, once a process, so that threads of gloo drop Python objects first."""
    atexit.register(time.sleep, _DROPPING_SECONDS)


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
        within: OwnGroup | None = None,
        members: Sequence[int] = (),
    ) -> None:
        """Remember who takes part; ``connect`` connects.

        Args:
            group: process group through which ranks find each other.
            timeout: time without progress after which a collective fails, in seconds.
            device: type of the device that tensors are on.
            host: address of this rank, where hosts have several; by default that from which it reaches the store.
            within: the group of all ranks, whose connections a group of some ranks uses.
            members: the ranks of ``within`` that take part, this one among them.
        """
        let_threads_drop_at_exit()
        self.members = list(members) if within else list(range(group.size()))
        self.rank, self.ranks = self.members.index(group.rank()), len(self.members)
        self.device, self.timeout = device, timeout
        self.sent = 0
        """Bytes that this rank has sent to others; an all-reduce counts as 2 (ranks - 1) / ranks of its size."""
        self._all = within or self
        self.base, self._host = group, host
        self._mesh: Mesh | None = None
        self._group: Any = None
        self._closed = False
        self._compared: set[bytes] = set()

    def connect(self) -> None:
        """Connect all ranks with each other over sockets, unless they are connected; anew where an exchange broke off.
        For other devices than CPUs make a process group of these ranks too. All ranks call it.

        Raises:
            TransportError: a rank did not connect in time, or this group is closed.
        """
        if self._all is not self:
            self._all.connect()
        elif self.ranks > 1 and (self._mesh is None or self._mesh.closed):
            if self._closed:
                raise TransportError(f"rank {self.rank}: the exchange is closed")
            store = dist.distributed_c10d._get_process_group_store(self.base)
            number = store.add(f"lightloom/exchange/{self.rank}", 1)
            own = PrefixStore(f"lightloom/exchange/group/{number}", store)  # which no other group of these ranks uses
            self._mesh = mesh_from_store(own, self.rank, self.ranks, host=self._host, timeout=self.timeout)
            self._compared.clear()
        if self.device != "cpu" and self.ranks > 1 and self._group is None:
            everyone = dist.get_process_group_ranks(self.base)
            ranks = [everyone[member] for member in self.members]
            self._group = dist.new_group(ranks, timedelta(seconds=self.timeout), use_local_synchronization=True)

    @contextmanager
    def exchanging(self, stamp: Stamp, *, empty: bool = False) -> Iterator[None]:
        """Return a context manager in whose body all messages belong to one exchange; the ranks are connected first.
        Ranks whose stamps differ all raise; on other devices than CPUs stamps are compared at the first exchange of
        each stamp only.

        An error of the body is told to all ranks and breaks the connections, unless it is one that all ranks raise in
        step (``AgreedError``).

        Args:
            stamp: identity of the exchange.
            empty: whether there is nothing to send, so that the stamp is all that is compared.

        Raises:
            TransportError: a rank exchanges something else, left or fell silent.
        """
        self.connect()
        if (mesh := self._all._mesh) is None:
            yield
            return
        mesh.stamp = stamp
        with mesh.breaking_off(AgreedError):
            if empty or (self.device != "cpu" and stamp.digest not in self._compared):
                mesh.compare()
                self._compared.add(stamp.digest)
            yield

    def refuse(self, reason: str) -> None:
        """Tell all ranks, which may be about to exchange, why this one will not, and break the connections; the next
        exchange connects again.

        Args:
            reason: one line, which the others' TransportError quotes with this rank's number.

        Raises:
            TransportError: a rank did not connect in time.
        """
        self.connect()
        if self._all._mesh is not None:
            self._all._mesh.abort(f"rank {self.rank} refuses: {reason}")

    def ring(self) -> MeshRing | None:
        """Return a ring of these ranks, in their order, over the sockets that ``connect`` opened; None for a single
        rank. Raises TransportError where they are not connected."""
        return None if self.ranks == 1 else MeshRing(self._open_mesh(), self.members)

    def subgroup(self, members: Sequence[int]) -> OwnGroup:
        """Return a group of some ranks of this one, over the same connections.

        Args:
            members: ranks as numbered in this group, this rank among them; the new group numbers them in this order.
        """
        chosen = [self.members[member] for member in members]
        return OwnGroup(self.base, self.timeout, device=self.device, within=self._all, members=chosen)

    def all_to_all(self, received: Tensor, sent: Tensor, received_sizes: Sequence[int], sizes: Sequence[int]) -> None:
        """Send a part of ``sent`` to every rank, and receive a part of ``received`` from every rank; this rank's own
        part is copied, and not counted among the bytes that it sent.

        Args:
            received: flat; the parts that come from ranks 0, 1 ..., one after the other; overwritten.
            sent: flat; the parts for ranks 0, 1 ..., one after the other.
            received_sizes: number of elements of each part of ``received``, by rank.
            sizes: number of elements of each part of ``sent``, by rank.

        Raises:
            TransportError: a rank left, fell silent or exchanges something else.
        """
        self.sent += (sent.numel() - sizes[self.rank]) * sent.element_size()
        if self.device != "cpu":
            options = dist.AllToAllOptions()
            self._wait(lambda group: group.alltoall_base(received, sent, list(received_sizes), list(sizes), options))
            return
        incoming, outgoing = torch.split(received, list(received_sizes)), torch.split(sent, list(sizes))
        incoming[self.rank].copy_(outgoing[self.rank])
        self.exchange(dict(enumerate(outgoing)), dict(enumerate(incoming)))

    def all_gather(self, received: Tensor, own: Tensor, sizes: Sequence[int]) -> None:
        """Send ``own`` to all ranks, and fill ``received`` with what every rank sends, this one too, in the order of
        ranks; its bytes are counted once for each other rank.

        Args:
            received: flat, of ``sum(sizes)`` elements; overwritten.
            own: flat, of ``sizes[rank]`` elements for this rank.
            sizes: number of elements of each rank.

        Raises:
            TransportError: a rank left, fell silent or exchanges something else.
        """
        parts = list(torch.split(received, list(sizes)))
        parts[self.rank].copy_(own)
        self.sent += (self.ranks - 1) * own.numel() * own.element_size()
        if self.ranks == 1:
            return
        if self.device != "cpu":
            self._wait(lambda group: group.alltoall(parts, [own] * self.ranks, dist.AllToAllOptions()))
            return
        outgoing = range(self.ranks) if own.numel() else ()
        self.exchange(dict.fromkeys(outgoing, own), {k: part for k, part in enumerate(parts) if part.numel()})

    def all_reduce(self, values: Tensor) -> None:
        """Replace ``values``, flat, by their sum over ranks, in place and in their own type; in CPU memory terms are
        added in the order of ranks, on other devices as the backend does.

        Raises:
            TransportError: a rank left, fell silent or exchanges something else.
        """
        if self.ranks == 1:
            return
        if self.device == "cpu":
            self.all_reduce_in_order(values)
            return
        self.sent += 2 * (self.ranks - 1) * values.numel() * values.element_size() // self.ranks
        self._wait(lambda group: group.allreduce([values]))

    def reduce_scatter_in_order(self, values: Tensor, sizes: Sequence[int]) -> Tensor:
        """Return the sum over ranks of this rank's part of ``values``, flat, added in the order of ranks.

        An order that depended on the position would let a value's sum depend on the bucket that it is in.

        Args:
            values: parts by rank, of ``sizes`` elements, one after the other; not changed.
            sizes: number of elements of each rank's part, the same on all ranks.

        Raises:
            TransportError: a rank left, fell silent or exchanges something else.
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
        """Replace ``values``, flat, by their sum over ranks, in place, added in the order of ranks wherever in
        ``values`` they lie.

        Raises:
            TransportError: a rank left, fell silent or exchanges something else.
        """
        ends = [values.numel() * k // self.ranks for k in range(self.ranks + 1)]
        sizes = [end - begin for begin, end in pairwise(ends)]
        self.all_gather(values, self.reduce_scatter_in_order(values, sizes), sizes)

    def close(self) -> None:
        """Leave the group and close its connections, so that no exchange can follow; a subgroup's close leaves those of
        the group that it belongs to open. May be called any number of times."""
        self._group = None
        self._closed = True
        if self._mesh is not None:
            self._mesh.close()

    def _open_mesh(self) -> Mesh:
        """Return the connections of all ranks over sockets; raises TransportError where ``connect`` was not called."""
        if (mesh := self._all._mesh) is None:
            raise TransportError(f"rank {self.rank}: the exchange is not connected")
        return mesh

    def exchange(self, sends: dict[int, Tensor], targets: dict[int, Tensor]) -> None:
        """Send and receive flat tensors in CPU memory, over the connections, without counting bytes; entries of this
        rank itself are left out.

        Args:
            sends: tensors to send, by rank of this group.
            targets: tensors to fill, by rank of this group.

        Raises:
            TransportError: a rank left, fell silent or exchanges something else.
        """
        if self.ranks > 1:
            others = [(self.rank + k) % self.ranks for k in range(1, self.ranks)]
            self._open_mesh().exchange(
                {self.members[k]: _memory_of(sends[k]) for k in others if k in sends},
                {self.members[k]: _memory_of(targets[k]) for k in others if k in targets},
            )

    def _wait(self, operation: Callable[[Any], Any]) -> None:
        """Start a collective of the device's process group and wait for it; ``operation`` takes that group and returns
        the work. Raises TransportError where the group is closed or the operation fails."""
        if self._group is None:
            raise TransportError(f"rank {self.rank}: the exchange is closed")
        try:
            operation(self._group).wait()
        except RuntimeError as error:
            reason = str(error).strip().splitlines()[0]
            raise TransportError(f"rank {self.rank}: the exchange among {self.ranks} ranks broke: {reason}") from error


def _memory_of(tensor: Tensor) -> memoryview:
    """Return the bytes of a flat, contiguous CPU tensor as a view of its memory; an empty view for an empty tensor."""
    if not tensor.numel():
        return memoryview(bytearray())
    return tensor.detach().view(torch.uint8).numpy().data
