"""The exchanger of a method."""

from __future__ import annotations

from collections.abc import Mapping
from functools import singledispatch

from lightloom.compression import find as find_codec
from lightloom.core.errors import UnsupportedError
from lightloom.exchange.distributed.block_exchange import BlockExchanger
from lightloom.exchange.distributed.low_rank_exchange import LowRankExchanger
from lightloom.exchange.distributed.sparse_exchange import SparseExchanger
from lightloom.exchange.distributed.two_level_exchange import TwoLevelExchanger
from lightloom.exchange.method import ExchangeMethod
from lightloom.exchange.methods.blocks import BlockExchange
from lightloom.exchange.methods.low_rank import PowerSgdExchange
from lightloom.exchange.methods.optical import OpticalExchange
from lightloom.exchange.methods.plain import PlainExchange
from lightloom.exchange.methods.ring_codec import RingCodecExchange
from lightloom.exchange.methods.sparse import TopKExchange
from lightloom.exchange.methods.two_level import TwoLevelExchange
from lightloom.photonics.registry import find_averager
from lightloom.training.gradients.exchanger import Exchanger
from lightloom.training.gradients.group import OwnGroup
from lightloom.training.gradients.optical_exchange import OpticalExchanger, rank_seed
from lightloom.training.gradients.plain_exchange import PlainExchanger
from lightloom.training.gradients.ring_exchange import RingExchanger


@singledispatch
def exchanger(
    method: ExchangeMethod,
    group: OwnGroup,  # noqa: ARG001 - used by the methods below
    sizes: Mapping[str, int] | None = None,  # noqa: ARG001
) -> Exchanger:
    """Return what runs ``method`` among the ranks of ``group``; a plug-in registers its own method's class.

    Args:
        method: the method.
        group: connections.
        sizes: number of values by tensor, where known.

    Raises:
        UnsupportedError: the method cannot be run as an exchange of gradients.
    """
    raise UnsupportedError(f"exchange {method} does not average gradients at every step: expected another method")


@exchanger.register
def _(method: PlainExchange, group: OwnGroup, sizes: Mapping[str, int] | None = None) -> Exchanger:
    return PlainExchanger(method.name, group, sizes)


@exchanger.register
def _(method: BlockExchange, group: OwnGroup, sizes: Mapping[str, int] | None = None) -> Exchanger:
    return BlockExchanger(method, group, sizes)


@exchanger.register
def _(method: TopKExchange, group: OwnGroup, sizes: Mapping[str, int] | None = None) -> Exchanger:
    return SparseExchanger(method, group, sizes)


@exchanger.register
def _(method: PowerSgdExchange, group: OwnGroup, sizes: Mapping[str, int] | None = None) -> Exchanger:
    return LowRankExchanger(method, group, sizes)


@exchanger.register
def _(method: RingCodecExchange, group: OwnGroup, sizes: Mapping[str, int] | None = None) -> Exchanger:
    return RingExchanger(find_codec(method.codec), group, sizes, name=method.name, feedback=method.feedback)


@exchanger.register
def _(
    method: OpticalExchange,
    group: OwnGroup,
    sizes: Mapping[str, int] | None = None,  # noqa: ARG001 - nothing is kept by tensor
) -> Exchanger:
    averager = find_averager(method.averager, group.ranks, method.bits, seed=rank_seed(0, group.rank))
    return OpticalExchanger(averager, group, block=method.block, name=method.name)


@exchanger.register
def _(method: TwoLevelExchange, group: OwnGroup, sizes: Mapping[str, int] | None = None) -> Exchanger:
    return TwoLevelExchanger(method, group, sizes, make=exchanger)
