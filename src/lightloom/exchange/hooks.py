"""Communication hooks of ``DistributedDataParallel`` and FSDP2 that take objects rather than names of methods.

    state = attach_schedule(ddp_model, schedule)            # an all-reduce by the rows of a schedule

``lightloom.exchange.attach`` and ``attach_fsdp`` take any method by name. ``attach_inceptionn``,
``attach_inceptionn_fsdp`` and ``attach_optical_average`` are older names of the same hooks and warn where the newer
ones do the same; only here are counts of tags, addresses of ranks, averagers as objects, their rounding and seeds.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from math import prod
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from lightloom.collectives.schedule.columns import Schedule
from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.exchange.compression.codec import Codec
from lightloom.exchange.compression.inceptionn import Inceptionn
from lightloom.exchange.distributed.adaptive import Counts, OpticalCounts, OpticalStatistics, Statistics
from lightloom.exchange.distributed.ddp import DdpHookState, ExchangerState, attach_hook, average_hook
from lightloom.exchange.distributed.exchanger import Exchanger, PlainExchanger, real_shape
from lightloom.exchange.distributed.fsdp import FsdpState, all_shards, common_group, sharded_modules, tensor_sizes
from lightloom.exchange.distributed.group import OwnGroup
from lightloom.exchange.distributed.residuals import Geometry
from lightloom.exchange.distributed.ring_exchange import OpticalExchanger, RingExchanger, rank_seed
from lightloom.exchange.execution import ScheduleExecutor, replicas_agree
from lightloom.exchange.transport.channel_group import DEFAULT_TIMEOUT
from lightloom.exchange.transport.gloo import group_or_default
from lightloom.photonics.averaging.averagers import Averager
from lightloom.photonics.averaging.block_quantisation import Rounding
from lightloom.photonics.registry import find_averager

if TYPE_CHECKING:
    from torch._C._distributed_c10d import GradBucket

__all__ = [
    "InceptionnFsdpState",
    "InceptionnState",
    "OpticalAverageState",
    "ScheduleState",
    "attach_inceptionn",
    "attach_inceptionn_fsdp",
    "attach_optical_average",
    "attach_schedule",
    "average_hook",
]

_ONLY_HERE = {"tag_histogram", "host", "parameters", "rounding", "seed"}
"""Options that ``lightloom.exchange`` does not have."""


def _warn_of(old: str, new: str, options: Iterable[str]) -> None:
    """Warn the caller's caller (DeprecationWarning) that the function ``old`` is to be replaced by
    ``lightloom.exchange.<new>``; nothing is warned of where one of the given ``options``, names of keywords, has no
    counterpart there (``tag_histogram``, ``host``, ``parameters``, ``rounding``, ``seed``)."""
    if not _ONLY_HERE.intersection(options):
        warnings.warn(f"{old} is deprecated: use lightloom.exchange.{new}", DeprecationWarning, stacklevel=3)


def _method_name(codec: Codec | None, options: dict[str, Any]) -> str:
    """Return the name of the exchange method that runs a codec with these options, for messages:
    ``inceptionn:bound=2^-10,feedback``, ``codec:name=(int8:256),feedback=no``.

    Args:
        codec: the codec; one that is not ``Inceptionn`` itself becomes a ``codec:`` method. None stands for INCEPTIONN
            with its default bound.
        options: options of the state, of which only ``error_feedback`` (on unless given) is looked at.
    """
    feedback = "feedback" if options.get("error_feedback", True) else "feedback=no"
    if codec is None or type(codec) is Inceptionn:
        return f"inceptionn:bound=2^-{(codec or Inceptionn()).exponent},{feedback}"
    return f"codec:name=({codec.name}),{feedback}"


# INCEPTIONN, or any other codec, around a ring: as a hook of ``DistributedDataParallel``, and as the reduce-scatter of
# FSDP2. Gathering parameters stays torch's: weights are not gradients, they do not compress.


def ring_exchanger(
    codec: Codec | None,
    group: dist.ProcessGroup,
    sizes: Mapping[str, int] | None,
    *,
    error_feedback: bool = True,
    tag_histogram: bool = False,
    host: str | None = None,
    timeout: float = DEFAULT_TIMEOUT,
) -> tuple[Exchanger, Statistics]:
    """Return the exchanger of a codec around a ring, or of plain float32 all-reduces for None, and the statistics of
    the run, to which the ring adds what it observes. All ranks call it, as it connects them.

    Args:
        codec: codec of the gradients; for None, ``sizes`` and ``error_feedback`` are not used.
        group: process group of the ranks.
        sizes: number of values by name of the tensor; None where not known.
        error_feedback: add the error of each encoding to the next gradient.
        tag_histogram: count the values by size in ``statistics.tags`` (INCEPTIONN's codecs only).
        host: address of this rank, IPv4 or IPv6; None takes the one from which it reaches the store.
        timeout: time without progress after which an exchange fails, in seconds; 300 by default.

    Raises:
        TransportError: a rank did not connect in time, or cannot be reached.
        ConfigError: ``tag_histogram`` with a codec that has no tags.
    """
    own, counts = OwnGroup(group, timeout, host=host), Statistics.of(codec, tag_histogram=tag_histogram)
    if codec is None:
        return PlainExchanger("float32", own), counts
    return RingExchanger(codec, own, sizes, feedback=error_feedback, observe=counts.observe), counts


class InceptionnState(ExchangerState):
    """State of the hook of one rank; a ``Stateful`` whose checkpoint is the rank's residuals and the last decision.

    Creating it connects the ring, so all ranks of the group must create theirs, in the same order.
    """

    def __init__(
        self,
        codec: Codec | None,
        process_group: dist.ProcessGroup | None = None,
        *,
        adaptive: bool = True,
        parameters: Iterable[tuple[str, Tensor]] | None = None,
        loss_scale: Callable[[], float] | None = None,
        **options: Any,
    ) -> None:
        """Connect to the neighbours.

        Args:
            codec: codec of the gradients, which must fit float32; None exchanges them as they are.
            process_group: the process group of the model; the default group unless given.
            adaptive: use plain all-reduce while it is faster. Timing then decides which steps lose bits: turn it off
                for runs that must repeat bit for bit.
            parameters: ``net.named_parameters()``, the names in checkpoints. Otherwise parameters are numbered in the
                order in which DDP first passes them, which depends on the model and on bucket sizes.
            loss_scale: ``scaler.get_scale`` of a ``GradScaler``: gradients are divided by it for the exchange, as
                scaled ones would be too large to compress.
            options: ``error_feedback``, ``tag_histogram``, ``host`` and ``timeout``, as ``ring_exchanger`` takes them.

        Raises:
            TransportError: a rank did not connect in time, or cannot be reached.
            ConfigError: ``tag_histogram`` with a codec that has no tags.
        """
        group = group_or_default(process_group)
        named = None if parameters is None else [(name, value) for name, value in parameters if value.requires_grad]
        sizes = None if named is None else {name: prod(real_shape(value)) for name, value in named}
        self.codec = codec
        exchanger, counts = ring_exchanger(codec, group, sizes, **options)
        super().__init__(exchanger, named or (), adaptive=adaptive, loss_scale=loss_scale, statistics=counts)


def attach_inceptionn(model: DistributedDataParallel, codec: Codec | None = None, **options: Any) -> InceptionnState:
    """Attach a hook to a DDP model by which its gradients are exchanged encoded from now on, around a ring, and return
    its state; all ranks call this, before the first backward pass.

    Deprecated: unless one of the options ``tag_histogram``, ``host`` and ``parameters`` is given, it warns that
    `lightloom.exchange.attach` replaces it.

    Args:
        model: the model, whose process group is used.
        codec: codec of the gradients; ``Inceptionn(bound=2**-10)`` by default.
        options: ``adaptive`` (exchange plainly while that is measured faster; on by default), ``parameters`` (pairs of
            name and parameter, those of the model unless given), ``loss_scale`` (function whose number gradients are
            divided by for the exchange), ``error_feedback`` (on by default), ``tag_histogram`` (count values by tag),
            ``host`` (address of this rank) and ``timeout`` (seconds), as ``InceptionnState`` takes them.

    Raises:
        TransportError: a rank did not connect in time.
        LightloomError: the model has a hook already, or its backward pass has begun.
        ConfigError: ``tag_histogram`` with a codec that has no tags.
    """
    _warn_of("attach_inceptionn", f"attach(model, {_method_name(codec, options)!r})", options)
    options.setdefault("parameters", model.module.named_parameters())
    state = InceptionnState(codec or Inceptionn(), model.process_group, **options)
    attach_hook(model, state)
    return state


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
        adaptive: bool = True,
        loss_scale: Callable[[], float] | None = None,
        **options: Any,
    ) -> None:
        """Connect to the neighbours, as ``attach_inceptionn_fsdp`` does; options are those of ``InceptionnState``."""
        self.codec = codec
        exchanger, counts = ring_exchanger(codec, group, tensor_sizes(geometries), **options)
        own = {"loss_scale": loss_scale, "plain_name": "plain reduce-scatter", "statistics": counts}
        super().__init__(exchanger, geometries, adaptive=adaptive, **own)


def attach_inceptionn_fsdp(model: nn.Module, codec: Codec | None = None, **options: Any) -> InceptionnFsdpState:
    """Replace the reduce-scatters of an FSDP2 model by ones that encode gradients, from now on, and return their state;
    all ranks call this, after ``fully_shard``.

    Deprecated: unless ``tag_histogram`` or ``host`` is given, it warns that `lightloom.exchange.attach_fsdp` replaces
    it.

    Args:
        model: sharded over one dimension of a mesh, in CPU memory; its root need not be sharded itself.
        codec: codec of the gradients; ``Inceptionn(bound=2**-10)`` by default.
        options: ``adaptive`` (exchange plainly while that is measured faster; on by default), ``loss_scale`` (function
            whose number gradients are divided by for the exchange), ``error_feedback`` (on by default),
            ``tag_histogram`` (count values by tag), ``host`` (address of this rank) and ``timeout`` (seconds), as
            ``InceptionnState`` takes them.

    Raises:
        UnsupportedError: the model does not use FSDP2, is not in CPU memory, or torch does not let its reduce-scatter
            be replaced.
        TransportError: a rank did not connect in time.
        ConfigError: ``tag_histogram`` with a codec that has no tags.
    """
    _warn_of("attach_inceptionn_fsdp", f"attach_fsdp(model, {_method_name(codec, options)!r})", options)
    modules = sharded_modules(model)
    group = common_group(modules, "lightloom.exchange.attach_fsdp compresses between the nodes of hybrid sharding")
    for name, parameter in (pair for module in modules for pair in module.parameters):
        if parameter.device.type != "cpu":
            raise UnsupportedError(f"{name} is on {parameter.device}: expected cpu")
    geometries = [all_shards(module, group.size()) for module in modules]
    state = InceptionnFsdpState(codec or Inceptionn(), group, geometries, **options)
    state.replace_reduce_scatters(modules)
    return state


# OptINC's averaging as a communication hook of ``DistributedDataParallel``.
#
# Gradients are quantised to blocks of one power-of-two scale, the codes of all ranks are averaged by an averager
# (exact, a network with its noise, Table II's errors), and every rank restores the same mean codes: replicas stay
# bit-identical. Buckets are exchanged in order by one thread, over connections of its own, while the backward pass
# goes on.


class OpticalAverageState(ExchangerState):
    """State of the hook of one rank; a ``Stateful`` whose checkpoint is the generator of noise and errors.

    Creating it connects the ranks, so all ranks must create theirs, in the same order.
    """

    statistics: OpticalStatistics
    _exchanger: OpticalExchanger

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
        if averager is None or isinstance(averager, str):
            own_seed, bits = rank_seed(seed, self.rank), 16 if bits is None else bits
            averager = find_averager(averager or "ideal", group.size(), bits, rounding or "half-up", own_seed)
        else:
            _check_averager(averager, group.size(), bits, rounding)
        self.averager = averager
        exchanger = OpticalExchanger(averager, OwnGroup(group, timeout), block=block)
        super().__init__(exchanger, statistics=OpticalStatistics())

    def _count(self, counts: Counts, geometry: Geometry, *, last: bool) -> None:
        """Add the counts of one bucket to the statistics, with the bytes that optical averaging would send: codes of
        ``bits`` bits a value up, rounded up to bytes, as many down, and one byte of exponent for each block.

        Args:
            counts: counts of the bucket, with the bytes that the emulation really sent.
            geometry: tensors of the bucket.
            last: whether it is the step's last bucket.
        """
        codes, exponents = -(-geometry.size * self.averager.bits // 8), self._exchanger.blocks(geometry)
        optical = OpticalCounts(**asdict(counts), nbytes_up=codes, nbytes_down=codes, nbytes_exponents=exponents)
        self.statistics.add(optical, last=last)


def _check_averager(averager: Averager, ranks: int, bits: int | None, rounding: Rounding | None) -> None:
    """Raise ConfigError unless an averager is for ``ranks`` servers, and for these bits and this rounding; None accepts
    any."""
    own = (averager.servers, averager.bits, averager.rounding)
    expected = (ranks, averager.bits if bits is None else bits, averager.rounding if rounding is None else rounding)
    if own != expected:
        words = [f"{servers} servers, {bits} bits, {kind}" for servers, bits, kind in (own, expected)]
        raise ConfigError(f"the averager is for {words[0]}: expected {words[1]}")


def attach_optical_average(
    model: DistributedDataParallel, averager: Averager | str | None = None, **options: Any
) -> OpticalAverageState:
    """Attach a hook to a DDP model that averages its gradients from now on as OptINC, an optical in-network averager,
    does (emulated here: gradients quantised to codes in blocks of one scale, codes averaged), and return its state; all
    ranks call this, before the first backward pass.

    Deprecated for averagers by name: unless ``rounding`` or ``seed`` is given, it warns then that
    `lightloom.exchange.attach` replaces it.

    Args:
        model: the model, whose process group is used unless ``options`` name another.
        averager: an averager or its name; the exact mean of the codes (``ideal``) by default.
        options: ``bits``, ``block``, ``rounding``, ``process_group``, ``seed`` and ``timeout`` of
            ``OpticalAverageState``; by default 16 bits (or those of the averager), blocks of 256 values, ``half-up``
            and seed 0.

    Raises:
        ConfigError, UnknownNameError: an option is invalid.
        TransportError: a rank did not connect in time.
        LightloomError: the model has a hook already, or its backward pass has begun.
    """
    if averager is None or isinstance(averager, str):
        bits, block = options.get("bits") or 16, options.get("block", 256)
        text = f"optical:averager=({averager or 'ideal'}),bits={bits},block={block}"
        _warn_of("attach_optical_average", f"attach(model, {text!r})", options)
    options.setdefault("process_group", model.process_group)
    state = OpticalAverageState(averager, **options)
    attach_hook(model, state)
    return state


class ScheduleState(DdpHookState):
    """State of the hook of one rank."""

    def __init__(self, execute: ScheduleExecutor) -> None:
        """Check that the schedule averages gradients.

        Raises:
            UnsupportedError: the schedule is not an all-reduce, or ranks add up in different orders, so that the
                weights of replicas would diverge.
        """
        if execute.kind != "all-reduce":
            raise UnsupportedError(f"a schedule of {execute.kind}: gradients need an all-reduce")
        if not replicas_agree(execute.movement):
            raise UnsupportedError("ranks of this schedule add up in different orders: replicas would diverge")
        super().__init__("schedule")
        self._execute = execute

    def average(self, bucket: GradBucket) -> Future[Tensor]:
        """Begin to average a bucket by the schedule, and return the future of the bucket's own buffer, which then holds
        the mean over ranks. The future raises what the executor does (ConfigError for ranks that bring different
        buckets, UnsupportedError, TransportError); for the last bucket this call does."""
        return self._start(bucket.is_last(), self._exchange, bucket.buffer())

    def _exchange(self, buffer: Tensor) -> Tensor:
        """Replace a buffer by its mean over ranks, in place, and return it; values are divided by the number of ranks
        before they are added."""
        # As DDP itself does: divided before they are added, so that sums do not overflow.
        with torch.no_grad():
            buffer.copy_(self._execute(buffer.div_(self._execute.ranks)))
        return buffer


def attach_schedule(
    model: DistributedDataParallel, schedule: Schedule, *, timeout: float = DEFAULT_TIMEOUT
) -> ScheduleState:
    """Attach a hook to a DDP model that averages its gradients from now on by a schedule, whose messages processes send
    over gloo, and return its state; all ranks call this, before the first backward pass.

    Args:
        model: the model.
        schedule: a verified all-reduce over the ranks of the model's process group.
        timeout: seconds that a rank may keep another one waiting for a message, 300 by default.

    Raises:
        UnsupportedError: the schedule is not an all-reduce of as many ranks, needs a reducing switch, or lets ranks add
            up in different orders; or the process group is not gloo's.
        LightloomError: the model has a hook already, or its backward pass has begun.
    """
    state = ScheduleState(ScheduleExecutor(schedule, model.process_group, timeout=timeout))
    attach_hook(model, state)
    return state
