"""OptINC's averaging as a communication hook of ``DistributedDataParallel``.

    model = DistributedDataParallel(net)
    state = attach_optical_average(model)                  # 16 bits, exact mean, half-up
    ...
    print(state.statistics)

Gradients are quantised to blocks of one power-of-two scale, the codes of all ranks are averaged by an averager (exact,
a network with its noise, Table II's errors), and every rank restores the same mean codes: replicas stay bit-identical.
Buckets are exchanged in order by one thread, over connections of its own, while the backward pass goes on.
"""

from __future__ import annotations

import time
from typing import Any

import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from lightloom.core.errors import ConfigError
from lightloom.photonics.averaging.averagers import Averager
from lightloom.photonics.block_quantisation import Rounding
from lightloom.photonics.registry import find_averager
from lightloom.training.gradients.ddp import ExchangerState
from lightloom.training.gradients.ddp_hook import attach
from lightloom.training.gradients.geometry import Geometry
from lightloom.training.gradients.group import OwnGroup, raw_nbytes
from lightloom.training.gradients.optical_exchange import OpticalExchanger, rank_seed
from lightloom.training.gradients.statistics import OpticalCounts, OpticalStatistics
from lightloom.training.transport.channel_group import DEFAULT_TIMEOUT
from lightloom.training.transport.process_group import group_or_default


class OpticalAverageState(ExchangerState):
    """State of the hook of one rank; a ``Stateful`` whose checkpoint is the generator of noise and errors.

    Creating it connects the ranks, so all ranks must create theirs, in the same order.
    """

    def __init__(
        self,
        averager: Averager | str | None = None,
        *,
        bits: int | None = None,
        block: int = 256,
        rounding: Rounding | None = None,
        process_group: dist.ProcessGroup | None = None,
        seed: int = 0,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        """Choose the averager and connect the ranks.

        Args:
            averager: an averager or its name (see ``find_averager``); the exact mean by default.
            bits: bits per code, 2 to 32; 16 by default, or those of the averager.
            block: number of values that share a scale; no block spans two parameters.
            rounding: rounding of the mean, ``half-up`` by default. Gradients are always quantised half-up.
            process_group: the process group of the model; the default group unless given.
            seed: seed of the noise and errors of named averagers, which differ between ranks.
            timeout: time without progress after which an exchange fails, in seconds.

        Raises:
            ConfigError: the averager is for another number of ranks, bits or rounding, or an option is out of range.
            UnknownNameError: there is no averager of that name.
        """
        group = group_or_default(process_group)
        self.rank = group.rank()
        self.averager = _chosen(averager, group.size(), bits, rounding, rank_seed(seed, self.rank))
        self.statistics = OpticalStatistics()
        self._optical = OpticalExchanger(self.averager, OwnGroup(group, timeout), block=block)
        super().__init__(self._optical, group)

    def _exchange(self, buffer: Tensor, geometry: Geometry, scale: float, last: bool) -> Tensor:
        began, before = time.perf_counter(), self._optical.group.sent
        average = super()._exchange(buffer, geometry, scale, last)
        nbytes_codes = -(-geometry.size * self.averager.bits // 8)
        counts = OpticalCounts(
            nbytes_raw=raw_nbytes(geometry.size, self.ranks),
            nbytes_sent=self._optical.group.sent - before,
            seconds=time.perf_counter() - began,
            buckets=1,
            nbytes_up=nbytes_codes,
            nbytes_down=nbytes_codes,
            nbytes_exponents=self._optical.blocks(geometry),
        )
        self.statistics.add(counts, last=last)
        return average


def _chosen(
    averager: Averager | str | None, ranks: int, bits: int | None, rounding: Rounding | None, seed: int
) -> Averager:
    if averager is None or isinstance(averager, str):
        return find_averager(averager or "ideal", ranks, 16 if bits is None else bits, rounding or "half-up", seed)
    own = (averager.servers, averager.bits, averager.rounding)
    expected = (ranks, averager.bits if bits is None else bits, averager.rounding if rounding is None else rounding)
    if own != expected:
        words = [f"{servers} servers, {bits} bits, {kind}" for servers, bits, kind in (own, expected)]
        raise ConfigError(f"the averager is for {words[0]}: expected {words[1]}")
    return averager


def attach_optical_average(
    model: DistributedDataParallel, averager: Averager | str | None = None, **options: Any
) -> OpticalAverageState:
    """Average this model's gradients as OptINC does from now on; all ranks call it, before the first backward pass.

    Args:
        averager: an averager or its name; the exact mean by default.
        options: options of ``OpticalAverageState``.

    Raises:
        ConfigError, UnknownNameError: an option is invalid.
        LightloomError: the model has a hook already, or its backward pass has begun.
    """
    options.setdefault("process_group", model.process_group)
    state = OpticalAverageState(averager, **options)
    attach(model, state)
    return state
