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
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from lightloom.core.errors import ConfigError, InputError, LightloomError, UnsupportedError
from lightloom.photonics.averaging.averagers import Averager
from lightloom.photonics.averaging.registry import find_averager
from lightloom.photonics.block_quantisation import BlockQuantisation, Rounding
from lightloom.training.hooks.hook_thread import bucket_future, register
from lightloom.training.hooks.optical_exchange import Links, OpticalExchange, Place
from lightloom.training.hooks.optical_statistics import OpticalStatistics
from lightloom.training.transport.errors import TransportError

if TYPE_CHECKING:
    from torch._C._distributed_c10d import GradBucket

_TIMEOUT = 300.0


class OpticalAverageState:
    """What the hook keeps between steps; a ``Stateful`` (its checkpoint: where noise and errors come from).

    Making one connects the ranks, so all of them must make theirs, in the same order.
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
        timeout: float = _TIMEOUT,
    ) -> None:
        """Choose the averager and connect the ranks.

        Args:
            averager: itself, or its name (``find_averager``); the exact mean unless given.
            bits: of a code, 2 to 32; 16 unless given, an averager's own where one is.
            block: values that share a scale; no block reaches over the end of a parameter.
            rounding: of the mean, ``half-up`` unless given. Gradients are always quantised half-up.
            process_group: the model's; the default group unless given.
            seed: of named averagers' noise and errors, drawn differently on every rank.
            timeout: seconds before an exchange fails.

        Raises:
            ConfigError: the averager is for another number of ranks, bits or rounding, or an option is out of range.
            UnknownNameError: no averager of that name.
        """
        group = process_group if process_group is not None else dist.group.WORLD
        if group is None:
            raise UnsupportedError("no process group: call torch.distributed.init_process_group first")
        self.rank, self.ranks, self.block = group.rank(), group.size(), block
        self.averager = _chosen(averager, self.ranks, bits, rounding, _seed_of(seed, self.rank))
        BlockQuantisation(bits=self.averager.bits, block=block)
        self.statistics = OpticalStatistics()
        self._places: dict[tuple[int, ...], Place] = {}
        self._error: LightloomError | None = None
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="lightloom-optical")
        links = Links(group, timeout) if self.ranks > 1 else None
        self._exchange = OpticalExchange(self.averager, links, self.rank, self.ranks)

    def average(self, bucket: GradBucket) -> Future[Tensor]:
        """Begin to average a bucket over ranks.

        Raises:
            UnsupportedError: the gradients are sparse or not in CPU memory.
            InputError: on all ranks, when the gradients of one cannot be quantised, in this bucket or an earlier one of
                the step.
            TransportError: a rank was lost.
        """
        buffer = bucket.buffer()
        if buffer.layout != torch.strided or buffer.device.type != "cpu":
            raise UnsupportedError(f"gradients are {buffer.layout} on {buffer.device}: expected dense ones on cpu")
        job = self._worker.submit(self._average, buffer, self._place(bucket), bucket.is_last())
        return bucket_future(job, last=bucket.is_last())

    def close(self) -> None:
        """Stop the thread and drop its connections. May be called any number of times."""
        self._worker.shutdown(wait=True, cancel_futures=True)
        self._exchange.links = None

    def state_dict(self) -> dict[str, Any]:
        """Where this rank's noise and errors come from, under its rank; nothing where there are none."""
        rng = getattr(self.averager, "rng", None)
        return {"ranks": self.ranks} | ({f"rank{self.rank}": rng.bit_generator.state} if rng is not None else {})

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a checkpoint of this rank.

        Raises:
            ConfigError: it is of another rank, number of ranks or kind of averager.
        """
        if state_dict.get("ranks") != self.ranks:
            raise ConfigError(f"the checkpoint is of {state_dict.get('ranks')} ranks, this run has {self.ranks}")
        due, found = sorted(self.state_dict()), sorted(state_dict)
        if due != found:
            raise ConfigError(f"the checkpoint holds {', '.join(found)}: expected {', '.join(due)}")
        rng = getattr(self.averager, "rng", None)
        if rng is not None:
            rng.bit_generator.state = state_dict[f"rank{self.rank}"]

    def _average(self, buffer: Tensor, place: Place, last: bool) -> Tensor:
        """In the hook's thread: the mean over ranks, in place."""
        if self._error is None:
            self._error = self._attempt(buffer, place, last)
        error = self._error
        if error is None:
            return buffer
        # The last bucket raises from backward() itself. What all ranks refuse alike ends with the step.
        if last and isinstance(error, InputError):
            self._error = None
        raise error

    def _attempt(self, buffer: Tensor, place: Place, last: bool) -> LightloomError | None:
        began = time.perf_counter()
        try:
            values = buffer.detach().to(torch.float32)
            counts = self._exchange.average(values.numpy(), place)
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

    def _place(self, bucket: GradBucket) -> Place:
        sizes = _sizes(bucket.buffer(), bucket.gradients())
        if sizes not in self._places:
            self._places[sizes] = Place.of(sizes, self.ranks, self.averager.bits, self.block)
        return self._places[sizes]


def _chosen(
    averager: Averager | str | None, ranks: int, bits: int | None, rounding: Rounding | None, seed: int
) -> Averager:
    if averager is None or isinstance(averager, str):
        return find_averager(averager or "ideal", ranks, 16 if bits is None else bits, rounding or "half-up", seed)
    found = (averager.servers, averager.bits, averager.rounding)
    due = (ranks, averager.bits if bits is None else bits, averager.rounding if rounding is None else rounding)
    if found != due:
        words = [f"{servers} servers, {bits} bits, {kind}" for servers, bits, kind in (found, due)]
        raise ConfigError(f"the averager is for {words[0]}: expected {words[1]}")
    return averager


def _seed_of(seed: int, rank: int) -> int:
    return int(np.random.SeedSequence((seed, rank)).generate_state(1)[0])


def _sizes(buffer: Tensor, gradients: list[Tensor]) -> tuple[int, ...]:
    """Values of each gradient in the order in which they lie in the buffer; a gap belongs to the one before it."""
    start, width = buffer.data_ptr(), buffer.element_size()
    offsets = sorted((gradient.data_ptr() - start) // width for gradient in gradients)
    return tuple(end - begin for begin, end in pairwise([0, *offsets[1:], buffer.numel()]))


def optical_average(state: OpticalAverageState, bucket):  # type: ignore[no-untyped-def]  # DDP refuses annotations as text
    """Average a bucket over ranks; for ``DistributedDataParallel.register_comm_hook(state, optical_average)``.

    Raises:
        InputError, TransportError: see ``OpticalAverageState.average``.
    """
    return state.average(bucket)


def attach_optical_average(
    model: DistributedDataParallel, averager: Averager | str | None = None, **options: Any
) -> OpticalAverageState:
    """Average this model's gradients as OptINC does from now on; all ranks call it, before the first backward pass.

    Args:
        averager: itself, or its name; the exact mean unless given.
        options: of ``OpticalAverageState``.

    Raises:
        ConfigError, UnknownNameError: an option is wrong.
        LightloomError: the model has a hook already, or its backward pass has begun.
    """
    options.setdefault("process_group", model.process_group)
    state = OpticalAverageState(averager, **options)
    register(model, state, optical_average)
    return state
