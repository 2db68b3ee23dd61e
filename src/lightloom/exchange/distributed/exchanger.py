"""Exchangers run a method among the ranks of a group: means of flat float32 buffers, the same bits on every rank."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.exchange.distributed.adaptive import AdaptiveCompression, Counts, Statistics
from lightloom.exchange.distributed.group import OwnGroup
from lightloom.exchange.distributed.residuals import (
    Geometry,
    Residuals,
    SavedState,
    StateDict,
    with_prefix,
    without_prefix,
)
from lightloom.exchange.transport.channel import Stamp


def real_shape(tensor: Tensor) -> tuple[int, ...]:
    """Return the shape of a tensor in real values: that of a complex tensor with a last dimension of 2 appended."""
    return (*tensor.shape, 2) if tensor.is_complex() else tuple(tensor.shape)


def check_writable(tensor: Tensor, device: str) -> None:
    """Check that a tensor is dense, on a device of type ``device``, no DTensor, and that each of its elements has
    memory of its own.

    Raises:
        UnsupportedError: it is not.
    """
    if tensor.layout != torch.strided or tensor.device.type != device or hasattr(tensor, "device_mesh"):
        kind = "DTensor" if hasattr(tensor, "device_mesh") else tensor.layout
        raise UnsupportedError(f"a {kind} on {tensor.device}: expected a dense tensor on {device}")
    if not tensor.is_contiguous() and elements_overlap(tensor):
        raise UnsupportedError(
            f"elements of a tensor of shape {tuple(tensor.shape)} and strides {tensor.stride()} share memory, so that "
            "it cannot hold a mean: expected for example tensor.clone()"
        )


def elements_overlap(tensor: Tensor) -> bool:
    """Return whether two elements of a strided tensor share memory; False for an empty one."""
    if not tensor.numel():
        return False
    axes = sorted((stride, size) for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1)
    ends = np.cumsum([stride * (size - 1) for stride, size in axes]).tolist()
    if all(stride > end for (stride, _), end in zip(axes, [0, *ends], strict=False)):
        return False  # every axis steps over all that the smaller strides reach
    offsets = np.zeros(1, np.int64)
    for stride, size in axes:
        if stride == 0:
            return True
        offsets = np.add.outer(offsets, stride * np.arange(size)).reshape(-1)
    return np.unique(offsets).size < offsets.size


class Exchanger(ABC):
    """An exchange with the state of one rank; a ``Stateful``. Used by one thread, in the same order by all ranks."""

    residuals: Residuals | None = None
    """Errors of the encodings so far, by tensor; None without error feedback."""
    any_type = False
    """True if ``average`` works in the type of the values, False if it works in float32."""
    shards = False
    """True if ``reduce_scatter`` is implemented."""
    host_only = False
    """True if tensors must be in CPU memory."""
    remark = ""
    """End of the description by which ranks check that all exchange the same, for messages."""

    def __init__(
        self, name: str, group: OwnGroup, sizes: Mapping[str, int] | None = None, *, feedback: bool = False
    ) -> None:
        """Connect the ranks and begin without residuals.

        Args:
            name: what it is called in messages.
            group: connections, which the exchanger makes and closes.
            sizes: number of values by tensor, where known: a checkpoint must then hold just these.
            feedback: whether the error of each encoding is added to the next gradient.

        Raises:
            UnsupportedError: tensors are not in CPU memory, where they must be.
            TransportError: a rank did not connect in time.
        """
        if self.host_only and group.device != "cpu":
            raise UnsupportedError(f"exchange {name} runs in CPU memory, the tensors are on {group.device}")
        self.name, self.group = name, group
        self._connect()
        if feedback:
            self.residuals = Residuals(group.rank, group.ranks, sizes)

    def average(self, values: Tensor, geometry: Geometry) -> None:
        """Replace ``values`` (flat, float32 unless the exchanger works in any type) by their mean over ranks, in place,
        the same bits on every rank.

        Args:
            values: gradients of this rank; where there are none, ranks only check that they exchange the same.
            geometry: tensors in ``values``, the same on all ranks.

        Raises:
            AgreedError: all ranks refuse the values together, as optical averaging does NaN.
            TransportError: a rank left, fell silent or exchanges something else.
        """
        self._exchange("mean", values.dtype, geometry, lambda: self.average_values(values, geometry))

    @abstractmethod
    def average_values(self, values: Tensor, geometry: Geometry) -> None:
        """Replace ``values`` by their mean over ranks, in place; ``average`` calls it once all ranks state the same
        exchange.

        Args:
            values: gradients of this rank, flat and not empty.
            geometry: tensors in ``values``, the same on all ranks.
        """

    def average_tensor(self, tensor: Tensor, geometry: Geometry, scale: float = 1.0) -> None:
        """Replace a dense tensor of floating-point or complex values, of any shape and strides, by its mean over ranks,
        in place; call it under ``torch.no_grad``.

        A tensor that is refused is refused on all ranks, before any value is sent.

        Args:
            tensor: the values; complex ones are exchanged as pairs of real ones.
            geometry: tensors in its real values, flat, in row-major order of the tensor.
            scale: values are divided by it for the exchange and multiplied again; taken as 1 where the method works in
                the values' own type (``any_type``), while other methods convert them to float32 and back.

        Raises:
            UnsupportedError: the tensor's type has no means or is wider than the method's, elements share memory, or it
                is not dense on the group's device.
            AgreedError: all ranks refuse the values together, as optical averaging does NaN.
            TransportError: a rank left, fell silent, exchanges something else, or refuses its tensor.
        """
        try:
            self.check_type(tensor.dtype)
            check_writable(tensor, self.group.device)
        except UnsupportedError as error:
            self.group.refuse(str(error))
            raise
        dense = tensor.detach().resolve_conj().resolve_neg().contiguous()
        row = (torch.view_as_real(dense) if dense.is_complex() else dense).view(-1)
        scale = 1.0 if self.any_type else scale
        # 8-bit floats have no arithmetic of their own.
        values = row if self.any_type and row.dtype.itemsize > 1 else row.to(torch.float32)
        values = values / scale if scale != 1.0 else values
        self._exchange("mean", tensor.dtype, geometry, lambda: self.average_values(values, geometry), scale)
        values = values.mul_(scale) if scale != 1.0 else values
        if values.data_ptr() != row.data_ptr():
            row.copy_(values)
        if dense.data_ptr() != tensor.data_ptr():
            tensor.detach().copy_(dense)

    def reduce_scatter(self, values: Tensor, geometry: Geometry, output: Tensor) -> None:
        """Put this rank's shard of the mean of ``values`` over ranks into ``output``; ``values`` may be overwritten.

        Args:
            values: float32, flat: the shards of all ranks, equally long, by rank.
            geometry: tensors in ``values``, the same on all ranks.
            output: float32, flat, as long as a shard.

        Raises:
            NotImplementedError: the exchanger cannot shard (``shards`` is False).
            TransportError: a rank left, fell silent or exchanges something else.
        """
        run = partial(self.reduce_scatter_values, values, geometry, output)
        self._exchange("mean of shards", values.dtype, geometry, run)

    def reduce_scatter_values(self, values: Tensor, geometry: Geometry, output: Tensor) -> None:
        """Put this rank's shard of the mean of ``values`` over ranks into ``output``; ``reduce_scatter`` calls it once
        all ranks state the same exchange. Here it raises NotImplementedError.

        Args:
            values: the shards of all ranks, equally long, by rank, flat and not empty; may be overwritten.
            geometry: tensors in ``values``, the same on all ranks.
            output: flat, as long as a shard.
        """
        raise NotImplementedError

    def check_type(self, dtype: torch.dtype) -> None:
        """Check that this exchanger can average values of a type: they must have means in that type, and, unless it
        works in the values' own type, lose nothing when converted to float32.

        Raises:
            UnsupportedError: they are no floating-point or complex numbers, or float64 or complex128 where it works in
                float32.
        """
        if not (dtype.is_floating_point or dtype.is_complex):
            raise UnsupportedError(
                f"tensors of {dtype} have no means of their type, and exchange {self.name} would round them: expected "
                "floating-point or complex values, for example tensor.double() and the exchange 'float32'"
            )
        if not self.any_type and dtype in (torch.float64, torch.complex128):
            raise UnsupportedError(
                f"gradients of {dtype} would lose digits and range, as exchange {self.name} works in float32: expected "
                "float32 or narrower, or the exchange 'float32'"
            )

    def check_shards(self) -> None:
        """Check that the method can reduce-scatter (``shards`` is True).

        Raises:
            UnsupportedError: it works on whole gradients only.
        """
        if not self.shards:
            raise UnsupportedError(
                f"exchange {self.name} averages whole gradients and cannot shard them: expected float32, bf16, fp16, "
                "fp8, int8, int4, int3, lloyd2, sign, inceptionn or truncate"
            )

    def drain(self, geometry: Geometry, device: torch.device | str = "cpu") -> Tensor | None:
        """Return the residuals to add to this rank's next gradients where these are averaged without this exchange, and
        forget them, flat and in the places of ``geometry``, zeros where nothing was kept yet; None without error
        feedback, or where they were drained and have not been used since.

        Args:
            geometry: tensors of the gradients.
            device: where the result, flat float32, is to lie.
        """
        return None if self.residuals is None else self.residuals.drain(geometry, device)

    def state_dict(self) -> StateDict:
        """Return a checkpoint of what the rank needs to continue bit for bit: its residuals, flat float32 under
        ``rank<i>/<tensor>``, and the number of ranks under ``ranks``; empty without error feedback."""
        return {} if self.residuals is None else self.residuals.state_dict()

    def load_state_dict(self, state_dict: SavedState) -> None:
        """Continue from a checkpoint of this rank, as ``state_dict`` returned it.

        Raises:
            ConfigError: it is of another rank, number of ranks, model or method.
        """
        if self.residuals is not None:
            self.residuals.load_state_dict(state_dict)
        elif state_dict:
            raise ConfigError(f"the checkpoint holds state of another exchange than {self.name}")

    def close(self) -> None:
        """Close the connections to the other ranks, who are told. May be called any number of times."""
        self.group.close()

    def _connect(self) -> None:
        """Connect the ranks; an exchanger that works on several groups overrides it."""
        self.group.connect()

    def _exchange(
        self, kind: str, dtype: torch.dtype, geometry: Geometry, run: Callable[[], None], scale: float = 1.0
    ) -> None:
        """Call ``run`` in an exchange of which all ranks must state the same method, error feedback, kind, type, scale,
        tensors and version of this package; where ``geometry`` has no values, only compare these.

        Args:
            kind: what is computed, for messages, such as ``mean``.
            dtype: type of the values.
            geometry: tensors in the values.
            run: sends and receives; not called without values.
            scale: number by which values were divided.

        Raises:
            TransportError: a rank states something else, left or fell silent.
        """
        feedback = "" if self.residuals is None or "feedback" in self.name else " with feedback"
        scaled = "" if scale == 1.0 else f" scaled by {scale:g}"
        words = f"{self.name}{feedback}{self.remark}: the {kind} of {geometry.description}, {dtype}{scaled}"
        stamp = Stamp.of(words, _version(), geometry.digest)
        with self.group.exchanging(stamp, empty=not geometry.size):
            if geometry.size:
                run()


@cache
def _version() -> str:
    """Return the version of this package, which all ranks of an exchange must have; empty where it is not installed."""
    try:
        return version("lightloom")
    except PackageNotFoundError:
        return ""


# All-reduce of gradients as they are.


class PlainExchanger(Exchanger):
    """Averages in the buffer's own type."""

    any_type = True
    shards = True

    def average_values(self, values: Tensor, geometry: Geometry) -> None:
        """Replace ``values``, flat, by their mean over ranks, in place; they are divided by the number of ranks, then
        added up in their own type, in CPU memory in the order of ranks. ``geometry`` is not used."""
        values /= self.group.ranks
        self.group.all_reduce(values)

    def reduce_scatter_values(self, values: Tensor, geometry: Geometry, output: Tensor) -> None:
        """Put this rank's shard of the mean over ranks into ``output``; terms are added in the order of ranks, and
        ``values`` are left divided by the number of ranks.

        Args:
            values: the shards of all ranks, equally long, by rank, flat.
            geometry: not used.
            output: flat, as long as a shard.
        """
        values /= self.group.ranks
        output.copy_(self.group.reduce_scatter_in_order(values, [output.numel()] * self.group.ranks))


# What hooks keep beside an exchanger: whether to step aside for the plain exchange, the loss scale, statistics.


class Stepwise:
    """An exchanger in a training run; a ``Stateful`` whose checkpoint is the method's state and the last decision."""

    def __init__(
        self,
        exchanger: Exchanger,
        *,
        adaptive: bool = False,
        loss_scale: Callable[[], float] | None = None,
        plain_name: str = "plain all-reduce",
        prefix: str = "",
        statistics: Statistics | None = None,
    ) -> None:
        """Keep an exchanger and start its statistics.

        Args:
            exchanger: what to run; over its process group ranks agree whether to step aside.
            adaptive: use the plain exchange while it is faster.
            loss_scale: ``scaler.get_scale`` of a ``GradScaler``; None for 1.
            plain_name: what the plain exchange is called in messages.
            prefix: what keys of checkpoints begin with.
            statistics: where to count; new ones unless given.
        """
        self.statistics = Statistics() if statistics is None else statistics
        self._exchanger, self._group, self._prefix = exchanger, exchanger.group.base, prefix
        self._loss_scale = loss_scale
        self.adaptive: AdaptiveCompression | None = None
        if adaptive and exchanger.group.ranks > 1 and not exchanger.any_type:
            exchanger.remark += ", stepping aside where plain is faster"
            self.adaptive = AdaptiveCompression(
                self._mean_over_ranks, log=exchanger.group.rank == 0, plain_name=plain_name
            )
            self.statistics.decisions = self.adaptive.decisions

    def close(self) -> None:
        """Close the connections to the other ranks, who are told. May be called any number of times."""
        self._exchanger.close()

    def state_dict(self) -> StateDict:
        """Return a checkpoint of this rank: the state of the method (its residuals with error feedback), and the
        adaptive choice under ``adaptive`` where there is one; all keys begin with the ``prefix`` given at the start,
        none by default. Statistics are left out."""
        choice = {} if self.adaptive is None else {"adaptive": self.adaptive.state_dict()}
        return with_prefix(self._exchanger.state_dict() | choice, self._prefix)

    def load_state_dict(self, state_dict: SavedState) -> None:
        """Continue from a checkpoint of this rank, as ``state_dict`` returned it; an adaptive choice is taken over only
        if this object has one.

        Raises:
            ConfigError: it is of another rank, number of ranks, model or method.
        """
        state = without_prefix(state_dict, self._prefix)
        choice = state.pop("adaptive", state.pop("step_aside", None))  # the latter is the key of version 0.1
        if self.adaptive is not None and choice is not None:
            self.adaptive.load_state_dict(choice)
        self._exchanger.load_state_dict(state)

    @property
    def _scale(self) -> float:
        """Loss scale: the number by which gradients are divided for the exchange, 1 where none was given."""
        return 1.0 if self._loss_scale is None else float(self._loss_scale())

    @contextmanager
    def _counted(self, geometry: Geometry, *, last: bool, halves: int = 2) -> Iterator[None]:
        """Return a context manager that adds the bytes and seconds of the exchange in its body to the statistics, as
        one bucket, beside the bytes that a ring would send of plain float32: ``halves`` times 4 n (p - 1) / p, rounded
        down, for n values and p ranks. Nothing is counted where the body raises.

        Args:
            geometry: tensors of the buffer that is exchanged.
            last: whether it is the last buffer of the step.
            halves: 2 for an all-reduce, 1 for a reduce-scatter.
        """
        began, group, sent = time.perf_counter(), self._exchanger.group, self._exchanger.group.sent
        yield
        # What each rank of a ring all-reduce of float32 values sends, rounded down.
        raw = 2 * (group.ranks - 1) * 4 * geometry.size // group.ranks * halves // 2
        self._count(Counts(raw, group.sent - sent, time.perf_counter() - began, buckets=1), geometry, last=last)

    def _count(self, counts: Counts, geometry: Geometry, *, last: bool) -> None:
        """Add the counts of one bucket to the statistics; ``last`` ends the step. Subclasses add counts of their own,
        which may depend on ``geometry``."""
        self.statistics.add(counts, last=last)

    def _plain(self, values: Tensor, geometry: Geometry, *, last: bool) -> bool:
        """Return whether the present step uses the plain exchange; where it does, add this rank's residuals, times the
        loss scale, to ``values`` in place, so that none is lost, and count a plain bucket (with ``last`` a plain step
        too). False without an adaptive choice.

        Args:
            values: gradients, real and flat, still multiplied by the loss scale.
            geometry: tensors in ``values``.
            last: whether it is the last buffer of the step.
        """
        if self.adaptive is None or not self.adaptive.use_plain:
            return False
        if (residual := self._exchanger.drain(geometry, values.device)) is not None:
            values += residual.mul_(self._scale).to(values.dtype)
        self.statistics.plain_steps += last
        self.statistics.add(Counts(plain_buckets=1), last=last)
        return True

    def _end_step(self, arrived: float) -> None:
        """Choose the kind of the next step where that is adaptive; ``arrived`` is when the last gradients of this one
        came, in seconds on a clock that is the same in all calls. All ranks call it after every step."""
        if self.adaptive is not None:
            self.adaptive.end_step(arrived)

    def _mean_over_ranks(self, numbers: list[float]) -> list[float]:
        """Return the mean over ranks of each number, the same on all ranks, by an all-reduce of the model's process
        group; all ranks call it with equally many numbers."""
        values = torch.tensor(numbers, dtype=torch.float64, device=self._exchanger.group.device) / self._group.size()
        dist.all_reduce(values, group=self._group)
        return values.tolist()
