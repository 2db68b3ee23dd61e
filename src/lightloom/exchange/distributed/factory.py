"""The exchanger of a method."""

from collections.abc import Mapping
from functools import partial, singledispatch
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch import Tensor

from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.exchange import methods
from lightloom.exchange.compression.registry import find as find_codec
from lightloom.exchange.distributed.block_exchange import BlockExchanger
from lightloom.exchange.distributed.exchanger import Exchanger, PlainExchanger, Stepwise, real_shape
from lightloom.exchange.distributed.group import OwnGroup
from lightloom.exchange.distributed.residuals import Geometry
from lightloom.exchange.distributed.ring_exchange import OpticalExchanger, RingExchanger, rank_seed
from lightloom.exchange.distributed.sparse_exchange import LowRankExchanger, SparseExchanger, TwoLevelExchanger
from lightloom.exchange.method import ExchangeMethod
from lightloom.exchange.transport.channel_group import DEFAULT_TIMEOUT
from lightloom.exchange.transport.gloo import group_or_default
from lightloom.photonics.registry import find_averager


@singledispatch
def exchanger(
    method: ExchangeMethod,
    group: OwnGroup,  # noqa: ARG001 - used by the methods below
    sizes: Mapping[str, int] | None = None,  # noqa: ARG001
) -> Exchanger:
    """Return what runs ``method`` among the ranks of ``group``, by the class of the method; a plug-in registers that of
    its own. All ranks call it, as creating it connects them.

    Args:
        method: the method.
        group: connections.
        sizes: number of values by tensor, where known: a checkpoint of the residuals must then hold just these.

    Raises:
        UnsupportedError: the method cannot be run as an exchange of gradients, or not on the group's device.
        ConfigError: the number of ranks is no multiple of the ranks a node of a method of two levels.
        TransportError: a rank did not connect in time.
    """
    raise UnsupportedError(f"exchange {method} does not average gradients at every step: expected another method")


@exchanger.register
def _(method: methods.RingCodecExchange, group: OwnGroup, sizes: Mapping[str, int] | None = None) -> Exchanger:
    """Return the exchanger that runs the method's codec around a ring of the ranks of ``group``, which are connected.

    ``sizes`` are numbers of values by tensor for its residuals, None where not known. Raises UnsupportedError for a
    group that is not in CPU memory, TransportError where a rank does not connect in time.
    """
    return RingExchanger(find_codec(method.codec), group, sizes, name=method.name, feedback=method.feedback)


@exchanger.register
def _(
    method: methods.OpticalExchange,
    group: OwnGroup,
    sizes: Mapping[str, int] | None = None,  # noqa: ARG001 - nothing is kept by tensor
) -> Exchanger:
    """Return the exchanger that averages codes by the method's averager among the ranks of ``group``, and connect them.

    Noise and errors have a seed that follows from the rank alone, so that runs repeat; ``sizes`` is not used. Raises
    UnsupportedError for a group that is not in CPU memory, ConfigError or UnknownNameError for an averager that cannot
    be made for these ranks and bits, and TransportError where a rank does not connect in time.
    """
    averager = find_averager(method.averager, group.ranks, method.bits, seed=rank_seed(0, group.rank))
    return OpticalExchanger(averager, group, block=method.block, name=method.name)


exchanger.register(methods.PlainExchange, lambda method, group, sizes=None: PlainExchanger(method.name, group, sizes))
exchanger.register(methods.BlockExchange, BlockExchanger)
exchanger.register(methods.TopKExchange, SparseExchanger)
exchanger.register(methods.PowerSgdExchange, LowRankExchanger)
exchanger.register(methods.TwoLevelExchange, partial(TwoLevelExchanger, make=exchanger))


# Any method as a function over a process group, for training loops without DDP.
#
# state = exchange.ReduceState("int4:block=128,feedback")
# for name, parameter in model.named_parameters():
# exchange.all_reduce(parameter.grad, state=state, name=name)
#
# ``state`` keeps residuals by tensor. Without it nothing is kept between calls: ``all_reduce(tensor, "int8")``.


class ReduceState(Stepwise):
    """Connections and history of one rank's calls of ``all_reduce``; a ``Stateful`` for checkpoints."""

    def __init__(
        self,
        method: ExchangeMethod | str,
        group: dist.ProcessGroup | None = None,
        *,
        device: str = "cpu",
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        """Connect the ranks of ``group``, so all of them must create theirs, in the same order.

        Args:
            method: the method or its name.
            group: process group; the default group unless given.
            device: type of the device that the tensors are on.
            timeout: time without progress after which an exchange fails, in seconds.

        Raises:
            TransportError: a rank did not connect in time.
            UnsupportedError: the method does not average at every step, or there is no process group.
        """
        self.method = methods.method_of(method)
        super().__init__(exchanger(self.method, OwnGroup(group_or_default(group), timeout, device=device)))
        self._geometries: dict[tuple[str, tuple[int, ...]], Geometry] = {}

    @property
    def nbytes_sent(self) -> int:
        """Number of bytes that this rank has sent in all its calls."""
        return self._exchanger.group.sent

    def all_reduce(self, tensor: Tensor, name: str = "tensor") -> Tensor:
        """Replace a tensor by its mean over ranks, in place, and return it; all ranks call it with the same shape and
        name.

        Args:
            tensor: dense, of any shape and strides, float32 or narrower or complex64, wider only for the method
                ``float32``.
            name: name by which residuals are kept (with error feedback alone); one for each tensor.

        Raises:
            UnsupportedError: the tensor's type is wider than the method's float32 or has no fractions, elements share
                memory, or it is not dense on a device of the state's type.
            AgreedError: all ranks refuse the values together, as optical averaging does NaN; the next call works.
            TransportError: a rank left, fell silent, refuses its tensor or exchanges something else. The next call
                connects again, but error feedback may count gradients of this call twice.
        """
        key = name, tuple(tensor.shape)
        if key not in self._geometries:
            self._geometries[key] = Geometry.joined([(name, real_shape(tensor))])
        with torch.no_grad():
            self._exchanger.average_tensor(tensor, self._geometries[key])
        return tensor


_CONNECTIONS: WeakKeyDictionary[dist.ProcessGroup, dict[str, OwnGroup]] = WeakKeyDictionary()
"""Connections of calls without a state, by group, then by type of device."""


def all_reduce(
    tensor: Tensor,
    method: ExchangeMethod | str | None = None,
    group: dist.ProcessGroup | None = None,
    *,
    state: ReduceState | None = None,
    name: str = "tensor",
) -> Tensor:
    """Replace a tensor by its mean over the ranks of ``group``, in place, the same bits on all of them; return it.

    All ranks call this in the same order with the same shape and type; strides may differ. Without a state the first
    call connects the ranks, later ones of the same group use these connections, and no error is fed back.

    Args:
        tensor: float32 or narrower, or complex64, dense, of any shape and strides; wider ones only with the method
            ``float32``.
        method: the method or its name; that of ``state`` unless given.
        group: process group; the default group unless given; not used with a state.
        state: connections and residuals of earlier calls.
        name: name of the tensor, by which the state keeps residuals and ranks check that they exchange the same; one
            for each tensor.

    Raises:
        ConfigError, UnknownNameError: neither a method nor a state is given, another method than the state's, or a name
            that cannot be read.
        UnsupportedError: there is no process group, the method does not average at every step, the tensor's type is
            wider than its own or has no fractions, elements share memory, or it is not dense. The other ranks are told
            of a tensor that is refused, and the next call works.
        AgreedError: all ranks refuse the values together, as optical averaging does NaN; the next call works.
        TransportError: a rank did not connect in time, left, fell silent, refuses its tensor or exchanges something
            else.
    """
    chosen = None if method is None else methods.method_of(method)
    if state is not None:
        if chosen is not None and chosen != state.method:
            raise ConfigError(f"method = {chosen}, and the state is of {state.method}: expected one of them")
        return state.all_reduce(tensor, name)
    if chosen is None:
        raise ConfigError("neither method nor state is given: expected for example method='int8'")
    ranks, device = group_or_default(group), tensor.device.type
    connections = _CONNECTIONS.setdefault(ranks, {})
    if device not in connections:
        connections[device] = OwnGroup(ranks, DEFAULT_TIMEOUT, device=device)
    with torch.no_grad():
        exchanger(chosen, connections[device]).average_tensor(tensor, Geometry.joined([(name, real_shape(tensor))]))
    return tensor
