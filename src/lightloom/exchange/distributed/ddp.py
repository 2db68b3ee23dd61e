"""Any method as the communication hook of ``DistributedDataParallel``.

model = DistributedDataParallel(net)
state = attach(model, "int4:block=128,feedback")       # before the first backward pass
...
print(state.statistics)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.nn.parallel import DistributedDataParallel

from lightloom.core.errors import UnsupportedError
from lightloom.exchange.distributed.factory import exchanger
from lightloom.exchange.method import ExchangeMethod
from lightloom.exchange.registry import method_of
from lightloom.training.gradients.ddp import ExchangerState
from lightloom.training.gradients.ddp_hook import attach as attach_hook
from lightloom.training.gradients.ddp_hook import real_length
from lightloom.training.gradients.group import OwnGroup
from lightloom.training.transport.channel_group import DEFAULT_TIMEOUT


class ExchangeState(ExchangerState):
    """State of the hook of one rank; a ``Stateful`` whose checkpoint is the method's state and the last decision."""

    def __init__(
        self,
        model: DistributedDataParallel,
        method: ExchangeMethod | str,
        *,
        adaptive: bool = True,
        loss_scale: Callable[[], float] | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        """Connect the ranks of the model's process group, so all of them must create theirs, in the same order.

        Args:
            model: whose gradients are exchanged; its parameters' names are those in checkpoints.
            method: the method or its name.
            adaptive: use plain all-reduce while it is faster. Timing then decides which steps lose bits: turn it off
                for runs that must repeat bit for bit.
            loss_scale: ``scaler.get_scale`` of a ``GradScaler``: gradients are divided by it for the exchange.
            timeout: time without progress after which an exchange fails, in seconds.

        Raises:
            TransportError: a rank did not connect in time.
            UnsupportedError: the method cannot be a hook of DDP.
        """
        self.method = method_of(method)
        named = [(name, parameter) for name, parameter in model.module.named_parameters() if parameter.requires_grad]
        device = named[0][1].device.type if named else "cpu"
        group = OwnGroup(model.process_group, timeout, device=device)
        run = exchanger(self.method, group, {name: real_length(parameter) for name, parameter in named})
        try:
            for _, parameter in named:
                run.check_type(parameter.dtype)
        except UnsupportedError:
            run.close()
            raise
        super().__init__(run, model.process_group, named, adaptive=adaptive, loss_scale=loss_scale)
        self.statistics = self._run.statistics


def attach(model: DistributedDataParallel, method: ExchangeMethod | str, **options: Any) -> ExchangeState:
    """Exchange the gradients of a model by ``method`` from now on; all ranks call this, before the first backward pass.

    Args:
        model: the model.
        method: the method or its name, for example ``int4:block=128,feedback``.
        options: options of ``ExchangeState``.

    Raises:
        ConfigError: the method's name cannot be read.
        UnsupportedError: the method cannot be a hook of DDP, or not with this model.
        TransportError: a rank did not connect in time.
        LightloomError: the model has a hook already, or its backward pass has begun.
    """
    state = ExchangeState(model, method, **options)
    attach_hook(model, state)
    return state
