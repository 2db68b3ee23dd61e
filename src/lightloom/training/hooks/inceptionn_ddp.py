"""INCEPTIONN as a communication hook of ``DistributedDataParallel``.

    model = DistributedDataParallel(net)
    state = attach_inceptionn(model)                       # before the first backward pass
    ...
    print(state.statistics)

DDP calls its hook with the gradients of this rank and takes what it returns: here the average over ranks, the same bits
on all of them. Where plain all-reduce is faster the hook uses it (``training.gradients.adaptive``) and does what DDP
does without a hook.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from lightloom.compression import Inceptionn
from lightloom.compression.base import Codec
from lightloom.training.gradients.ddp import ExchangerState
from lightloom.training.gradients.ddp_hook import attach, real_length
from lightloom.training.gradients.exchanger import Exchanger
from lightloom.training.gradients.group import OwnGroup
from lightloom.training.gradients.plain_exchange import PlainExchanger
from lightloom.training.gradients.ring_exchange import RingExchanger
from lightloom.training.gradients.statistics import Statistics
from lightloom.training.transport.channel_group import DEFAULT_TIMEOUT
from lightloom.training.transport.process_group import group_or_default


class InceptionnState(ExchangerState):
    """State of the hook of one rank; a ``Stateful`` whose checkpoint is the rank's residuals and the last decision.

    Creating it connects the ring, so all ranks of the group must create theirs, in the same order.
    """

    def __init__(
        self,
        codec: Codec | None,
        process_group: dist.ProcessGroup | None = None,
        *,
        error_feedback: bool = True,
        adaptive: bool = True,
        tag_histogram: bool = False,
        parameters: Iterable[tuple[str, Tensor]] | None = None,
        loss_scale: Callable[[], float] | None = None,
        host: str | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        """Connect to the neighbours.

        Args:
            codec: codec of the gradients, which must fit float32; None exchanges them as they are.
            process_group: the process group of the model; the default group unless given.
            error_feedback: add the error of each encoding to the next gradient.
            adaptive: use plain all-reduce while it is faster. Timing then decides which steps lose bits: turn it off
                for runs that must repeat bit for bit.
            tag_histogram: count the values by size in ``statistics.tags`` (INCEPTIONN's codecs only).
            parameters: ``net.named_parameters()``, the names in checkpoints. Otherwise parameters are numbered in the
                order in which DDP first passes them, which depends on the model and on bucket sizes.
            loss_scale: ``scaler.get_scale`` of a ``GradScaler``: gradients are divided by it for the exchange, as
                scaled ones would be too large to compress.
            host: address of this rank, IPv4 or IPv6; None takes the one from which it reaches the store.
            timeout: time without progress after which an exchange fails, in seconds.

        Raises:
            TransportError: a rank did not connect in time, or cannot be reached.
            ConfigError: ``tag_histogram`` with a codec that has no tags.
        """
        group = group_or_default(process_group)
        named = None if parameters is None else [(name, value) for name, value in parameters if value.requires_grad]
        sizes = None if named is None else {name: real_length(value) for name, value in named}
        self.codec, self.statistics = codec, Statistics.of(codec, tag_histogram=tag_histogram)
        own = OwnGroup(group, timeout, host=host)
        exchanger: Exchanger
        if codec is None:
            exchanger = PlainExchanger("float32", own)
        else:
            observe = self.statistics.observer
            exchanger = RingExchanger(codec, own, sizes, feedback=error_feedback, observe=observe)
        super().__init__(
            exchanger, group, named or (), adaptive=adaptive, loss_scale=loss_scale, statistics=self.statistics
        )


def attach_inceptionn(model: DistributedDataParallel, codec: Codec | None = None, **options: Any) -> InceptionnState:
    """Exchange the gradients of a model compressed from now on; all ranks call this, before the first backward pass.

    Args:
        codec: codec of the gradients; ``Inceptionn(bound=2**-10)`` by default.
        options: options of ``InceptionnState``.

    Raises:
        TransportError: a rank did not connect in time.
        LightloomError: the model has a hook already, or its backward pass has begun.
    """
    options.setdefault("parameters", model.module.named_parameters())
    state = InceptionnState(codec or Inceptionn(), model.process_group, **options)
    attach(model, state)
    return state
