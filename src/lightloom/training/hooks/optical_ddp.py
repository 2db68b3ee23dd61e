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
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from lightloom.core.errors import ConfigError, InputError, LightloomError
from lightloom.photonics.averaging.averagers import Averager
from lightloom.photonics.block_quantisation import CodeBuffers, Rounding
from lightloom.photonics.registry import find_averager
from lightloom.training.hooks.bucket_layout import check_cover
from lightloom.training.hooks.ddp_hook import (
    DdpHookState,
    attach,
    check_fits_float32,
    consecutive_spans,
    dense_buffer,
    real_length,
)
from lightloom.training.hooks.optical_exchange import BucketBuffers, ExchangeGroup, OpticalExchange
from lightloom.training.hooks.state_dict import StateDict
from lightloom.training.hooks.statistics import OpticalStatistics
from lightloom.training.transport.channel_group import DEFAULT_TIMEOUT
from lightloom.training.transport.errors import TransportError
from lightloom.training.transport.process_group import group_or_default

if TYPE_CHECKING:
    from torch._C._distributed_c10d import GradBucket


class OpticalAverageState(DdpHookState):
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
        self.rank, self.ranks, self.block = group.rank(), group.size(), block
        own_seed = int(np.random.SeedSequence((seed, self.rank)).generate_state(1)[0])
        self.averager = _chosen(averager, self.ranks, bits, rounding, own_seed)
        CodeBuffers.of([], self.averager.bits, block)  # checks both
        self.statistics = OpticalStatistics()
        self._buffers: dict[tuple[int, ...], BucketBuffers] = {}
        self._error: LightloomError | None = None
        super().__init__("optical")
        own_group = ExchangeGroup(group, timeout) if self.ranks > 1 else None
        self._exchange = OpticalExchange(self.averager, own_group, self.rank, self.ranks)

    def average(self, bucket: GradBucket) -> Future[Tensor]:
        """Begin to average a bucket over ranks; raises what ``DdpHookState.average`` does, and InputError.

        Raises:
            InputError: the gradients of a rank cannot be quantised, in this bucket or an earlier one of the step;
                raised on all ranks.
        """
        buffer, last = dense_buffer(bucket), bucket.is_last()
        check_fits_float32(buffer.dtype, "an averager of codes")
        return self._start(last, self._average, buffer, self._buffers_of(bucket), last)

    def close(self) -> None:
        """Stop the thread and close its connections. May be called any number of times."""
        super().close()
        self._exchange.group = None

    def state_dict(self) -> StateDict:
        """State of the generator of this rank's noise and errors, under its rank, if there is one."""
        rng = getattr(self.averager, "rng", None)
        return {"ranks": self.ranks} | ({f"rank{self.rank}": rng.bit_generator.state} if rng is not None else {})

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Continue from a checkpoint of this rank.

        Raises:
            ConfigError: it is of another rank, number of ranks or kind of averager.
        """
        if state_dict.get("ranks") != self.ranks:
            raise ConfigError(f"the checkpoint is of {state_dict.get('ranks')} ranks, this run has {self.ranks}")
        expected, keys = sorted(self.state_dict()), sorted(state_dict)
        if expected != keys:
            raise ConfigError(f"the checkpoint holds {', '.join(keys)}: expected {', '.join(expected)}")
        rng = getattr(self.averager, "rng", None)
        if rng is not None:
            rng.bit_generator.state = state_dict[f"rank{self.rank}"]

    def _average(self, buffer: Tensor, buffers: BucketBuffers, last: bool) -> Tensor:
        """Replace a bucket by its mean over ranks, in the hook's thread."""
        if self._error is None:
            self._error = self._attempt(buffer, buffers, last)
        error = self._error
        if error is None:
            return buffer
        # The last bucket raises from backward() itself. An error that all ranks have in common ends with the step.
        if last and isinstance(error, InputError):
            self._error = None
        raise error

    def _attempt(self, buffer: Tensor, buffers: BucketBuffers, last: bool) -> LightloomError | None:
        began = time.perf_counter()
        try:
            values = buffer.detach().to(torch.float32)
            counts = self._exchange.average(values.numpy(), buffers)
            if values.data_ptr() != buffer.data_ptr():
                buffer.detach().copy_(values)
        except InputError as error:
            return error
        except Exception as error:
            words = (str(error).strip() or type(error).__name__).splitlines()[0]
            broken = TransportError(f"rank {self.rank}: averaging with {self.ranks} ranks broke: {words}")
            broken.__cause__ = error
            return broken
        counts.seconds = time.perf_counter() - began
        self.statistics.add(counts, last=last)
        return None

    def _buffers_of(self, bucket: GradBucket) -> BucketBuffers:
        sizes = tuple(real_length(parameter) for parameter in bucket.parameters())
        if sizes not in self._buffers:
            spans = consecutive_spans((f"number {k}", p) for k, p in enumerate(bucket.parameters()))
            check_cover(spans, bucket.buffer().numel())
            self._buffers[sizes] = BucketBuffers.of(sizes, self.ranks, self.averager.bits, self.block)
        return self._buffers[sizes]


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
