"""INCEPTIONN as the reduce-scatter of FSDP2 (``torch.distributed.fsdp.fully_shard``).

    for layer in net:
        fully_shard(layer)
    fully_shard(net)
    state = attach_inceptionn_fsdp(net)

Gathering parameters stays torch's: weights are not gradients, they do not compress.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch.distributed as dist
from torch import nn

from lightloom.compression import Inceptionn
from lightloom.compression.base import Codec
from lightloom.core.errors import UnsupportedError
from lightloom.training.gradients.fsdp import FsdpState, all_shards, tensor_sizes
from lightloom.training.gradients.fsdp_modules import common_group, sharded_modules
from lightloom.training.gradients.geometry import Geometry
from lightloom.training.gradients.group import OwnGroup
from lightloom.training.gradients.ring_exchange import RingExchanger
from lightloom.training.gradients.statistics import Statistics
from lightloom.training.gradients.stepwise import Stepwise
from lightloom.training.transport.channel_group import DEFAULT_TIMEOUT


class InceptionnFsdpState(FsdpState):
    """State of a model's reduce-scatters; a ``Stateful`` whose checkpoint is this rank's residuals and last decision.

    Residuals belong to complete parameters, padded as FSDP pads them, as each rank has gradients of all values.
    """

    def __init__(
        self,
        codec: Codec,
        group: dist.ProcessGroup,
        geometries: Sequence[Geometry],
        *,
        error_feedback: bool = True,
        adaptive: bool = True,
        tag_histogram: bool = False,
        loss_scale: Callable[[], float] | None = None,
        host: str | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        """Connect to the neighbours, as ``attach_inceptionn_fsdp`` does; options are those of ``InceptionnState``."""
        self.codec = codec
        counts = Statistics.of(codec, tag_histogram=tag_histogram)
        own, sizes = OwnGroup(group, timeout, host=host), tensor_sizes(geometries)
        exchanger = RingExchanger(codec, own, sizes, feedback=error_feedback, observe=counts.observer)
        run = Stepwise(
            exchanger,
            group,
            adaptive=adaptive,
            loss_scale=loss_scale,
            plain_name="plain reduce-scatter",
            statistics=counts,
        )
        super().__init__(run, group, list(geometries))


def attach_inceptionn_fsdp(model: nn.Module, codec: Codec | None = None, **options: Any) -> InceptionnFsdpState:
    """Reduce-scatter the gradients of a model compressed from now on; all ranks call this, after ``fully_shard``.

    Args:
        model: sharded over one dimension of a mesh, in CPU memory; its root need not be sharded itself.
        codec: codec of the gradients; ``Inceptionn(bound=2**-10)`` by default.
        options: options of ``InceptionnFsdpState``.

    Raises:
        UnsupportedError: the model does not use FSDP2, or torch does not let its reduce-scatter be replaced.
        TransportError: a rank did not connect in time.
    """
    modules = sharded_modules(model)
    group = common_group(modules, "lightloom.exchange.attach_fsdp compresses between the nodes of hybrid sharding")
    for name, parameter in (pair for module in modules for pair in module.parameters):
        if parameter.device.type != "cpu":
            raise UnsupportedError(f"{name} is on {parameter.device}: expected cpu")
    state = InceptionnFsdpState(
        codec or Inceptionn(), group, [all_shards(module, group.size()) for module in modules], **options
    )
    state.replace_reduce_scatters(modules)
    return state
