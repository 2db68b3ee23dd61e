"""Connections of a hook's own among the ranks of a process group.

DDP and the training loop use the model's group meanwhile, in an order that may differ between ranks; an exchange on the
same group could meet their collectives. In CPU memory the connections are gloo's, on other devices a new group of the
same backend.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import PrefixStore  # type: ignore[attr-defined]

from lightloom.training.transport.errors import TransportError
from lightloom.training.transport.rendezvous import wait_for_all


class OwnGroup:
    """Collectives among the ranks of ``group``, which count the bytes that this rank sends. All ranks must create it,
    equally often.
    """

    def __init__(self, group: dist.ProcessGroup, timeout: float, *, device: str = "cpu") -> None:
        """Connect.

        Raises:
            TransportError: a rank did not connect within ``timeout`` seconds.
        """
        self.rank, self.ranks, self.device = group.rank(), group.size(), device
        self.sent = 0
        """Bytes that this rank has sent to others; an all-reduce counts as 2 (ranks - 1) / ranks of its size."""
        self._group: Any = None
        if self.ranks == 1:
            return
        if device == "cpu":
            store = group.get_group_store()
            number = store.add(f"lightloom/exchange/{self.rank}", 1)
            own = PrefixStore(f"lightloom/exchange/group/{number}", store)
            self._group = dist.ProcessGroupGloo(own, self.rank, self.ranks, timedelta(seconds=timeout))
            wait_for_all(own, self.ranks, "connected", timeout)
        else:
            ranks = dist.get_process_group_ranks(group)
            self._group = dist.new_group(ranks, timedelta(seconds=timeout), use_local_synchronization=True)

    def all_to_all(self, received: Tensor, sent: Tensor, received_sizes: Sequence[int], sizes: Sequence[int]) -> None:
        """Send consecutive parts of ``sent``, of ``sizes`` elements, to ranks 0, 1 ...; receive likewise.

        Raises:
            TransportError: a rank left or fell silent.
        """
        self.sent += (sent.numel() - sizes[self.rank]) * sent.element_size()
        options = dist.AllToAllOptions()
        self._wait(self._group.alltoall_base, received, sent, list(received_sizes), list(sizes), options)

    def all_gather(self, received: Tensor, own: Tensor, sizes: Sequence[int]) -> None:
        """Send ``own`` to all ranks; ``received`` holds what each rank sent, ``sizes`` elements, in order of rank.

        Raises:
            TransportError: a rank left or fell silent.
        """
        copies = own.repeat(self.ranks)
        self.all_to_all(received, copies, sizes, [own.numel()] * self.ranks)

    def all_reduce(self, values: Tensor) -> None:
        """Replace ``values`` by their sum over ranks.

        Raises:
            TransportError: a rank left or fell silent.
        """
        if self.ranks == 1:
            return
        self.sent += 2 * (self.ranks - 1) * values.numel() * values.element_size() // self.ranks
        self._wait(self._group.allreduce, [values])

    def close(self) -> None:
        """Leave the group. May be called any number of times."""
        self._group = None

    def _wait(self, collective: Any, *arguments: Any) -> None:
        if self._group is None:
            raise TransportError(f"rank {self.rank}: the exchange is closed")
        try:
            collective(*arguments).wait()
        except RuntimeError as error:
            reason = str(error).strip().splitlines()[0]
            raise TransportError(f"rank {self.rank}: the exchange among {self.ranks} ranks broke: {reason}") from error


def raw_nbytes(values: int, ranks: int) -> int:
    """Bytes that each rank of a ring all-reduce of float32 sends."""
    return 2 * (ranks - 1) * 4 * values // ranks


def flat_float32(values: Tensor) -> Tensor:
    """Return the float32 values of a buffer, flat: itself, or a copy where its type is narrower.

    Complex values are two real ones. The caller copies the result back where it is not the buffer itself.
    """
    real = torch.view_as_real(values) if values.is_complex() else values
    return real.reshape(-1).to(torch.float32)
