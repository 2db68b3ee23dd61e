"""What runs a method among the ranks of a group: averages of flat float32 buffers, the same bits on every rank."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version

import torch
from torch import Tensor

from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.training.gradients.geometry import Geometry
from lightloom.training.gradients.group import OwnGroup
from lightloom.training.gradients.layout import check_writable, flat_copy, flat_view, write_back
from lightloom.training.gradients.residuals import Residuals
from lightloom.training.gradients.state_dict import SavedState, StateDict
from lightloom.training.transport.channel import Stamp


class Exchanger(ABC):
    """An exchange with the state of one rank; a ``Stateful``. Used by one thread, in the same order by all ranks."""

    residuals: Residuals | None = None
    """What encodings took away so far; None without error feedback."""
    any_type = False
    """Whether ``average`` works in the type of the values; others work in float32."""
    shards = False
    """Whether it has a ``reduce_scatter``."""
    remark = ""
    """What else all ranks must have in common, for messages."""

    def __init__(
        self, name: str, group: OwnGroup, sizes: Mapping[str, int] | None = None, *, feedback: bool = False
    ) -> None:
        """Begin without history.

        Args:
            name: what it is called in messages.
            group: connections, which the exchanger makes and closes.
            sizes: number of values by tensor, where known: a checkpoint must then hold just these.
            feedback: whether the error of each encoding is added to the next gradient.

        Raises:
            TransportError: a rank did not connect in time.
        """
        self.name = name
        self.group = group
        self._connect()
        if feedback:
            self.residuals = Residuals(group.rank, group.ranks, sizes)

    def average(self, values: Tensor, geometry: Geometry) -> None:
        """Replace ``values`` (float32, flat) by their mean over ranks.

        Raises:
            TransportError: a rank left, fell silent or exchanges something else.
        """
        self._exchange("mean", values.dtype, geometry, lambda: self.average_values(values, geometry))

    @abstractmethod
    def average_values(self, values: Tensor, geometry: Geometry) -> None:
        """Do what ``average`` says, in an exchange that has begun, of one value at least."""

    def average_tensor(self, tensor: Tensor, geometry: Geometry, scale: float = 1.0) -> None:
        """Replace a dense tensor of floating-point values, of any shape and strides, by its mean over ranks; call it
        without gradients.

        A tensor that is refused is refused on all ranks, before any value is sent.

        Args:
            tensor: the values; complex ones are exchanged as pairs of real ones.
            geometry: of its real values, flat.
            scale: values are divided by it for the exchange and multiplied again.

        Raises:
            UnsupportedError: the tensor's type has no means or is wider than the method's, elements share memory, or
                it is not dense on the group's device.
            TransportError: as ``average``, or another rank refuses its tensor.
        """
        try:
            self.check_type(tensor.dtype)
            check_writable(tensor, self.group.device)
        except UnsupportedError as error:
            self.group.refuse(str(error))
            raise
        in_place = flat_view(tensor)
        row = flat_copy(tensor) if in_place is None else in_place
        scale = 1.0 if self.any_type else scale
        # 8-bit floats have no arithmetic of their own.
        values = row if self.any_type and row.dtype.itemsize > 1 else row.to(torch.float32)
        values = values / scale if scale != 1.0 else values
        self._exchange("mean", tensor.dtype, geometry, lambda: self.average_values(values, geometry), scale)
        values = values.mul_(scale) if scale != 1.0 else values
        if values.data_ptr() != row.data_ptr():
            row.copy_(values)
        if in_place is None:
            write_back(row, tensor)

    def reduce_scatter(self, values: Tensor, geometry: Geometry, shards: Sequence[slice], output: Tensor) -> None:
        """Put the mean over ranks of this rank's shard of ``values`` into ``output``; ``values`` may be overwritten.

        Args:
            values: float32, flat; ``shards`` are its parts by rank.
            geometry: its tensors.
            output: float32, flat.

        Raises:
            TransportError: as ``average``.
        """
        run = partial(self.reduce_scatter_values, values, geometry, shards, output)
        self._exchange("mean of shards", values.dtype, geometry, run)

    def reduce_scatter_values(
        self, values: Tensor, geometry: Geometry, shards: Sequence[slice], output: Tensor
    ) -> None:
        """Do what ``reduce_scatter`` says, in an exchange that has begun, of one value at least."""
        raise NotImplementedError

    def check_type(self, dtype: torch.dtype) -> None:
        """Check that values of a type have means in that type, and that converting them to float32 would lose nothing.

        Raises:
            UnsupportedError: they have none, or it would.
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
        """Check that the method can reduce-scatter.

        Raises:
            UnsupportedError: it works on whole gradients only.
        """
        if not self.shards:
            raise UnsupportedError(
                f"exchange {self.name} averages whole gradients and cannot shard them: expected float32, bf16, fp16, "
                "fp8, int8, int4, int3, lloyd2, sign, inceptionn or truncate"
            )

    def drain(self, geometry: Geometry, device: torch.device | str = "cpu") -> Tensor | None:
        """Return what to add to this rank's next gradients, if they are averaged without this exchange, and forget it;
        None if there is nothing."""
        return None if self.residuals is None else self.residuals.drain(geometry, device)

    def state_dict(self) -> StateDict:
        """Return what the rank needs to continue bit for bit."""
        return {} if self.residuals is None else self.residuals.state_dict()

    def load_state_dict(self, state_dict: SavedState) -> None:
        """Continue from a checkpoint of this rank.

        Raises:
            ConfigError: it is of another rank, number of ranks, model or method.
        """
        if self.residuals is not None:
            self.residuals.load_state_dict(state_dict)
        elif state_dict:
            raise ConfigError(f"the checkpoint holds state of another exchange than {self.name}")

    def close(self) -> None:
        """Leave the group. May be called any number of times."""
        self.group.close()

    def _connect(self) -> None:
        self.group.connect()

    def _exchange(
        self, kind: str, dtype: torch.dtype, geometry: Geometry, run: Callable[[], None], scale: float = 1.0
    ) -> None:
        """Call ``run`` in an exchange that all ranks must mean alike; with no values, only compare what they mean."""
        feedback = "" if self.residuals is None or "feedback" in self.name else " with feedback"
        scaled = "" if scale == 1.0 else f" scaled by {scale:g}"
        words = f"{self.name}{feedback}{self.remark}: the {kind} of {geometry.description}, {dtype}{scaled}"
        stamp = Stamp.of(words, _version(), geometry.digest)
        with self.group.exchanging(stamp, empty=not geometry.size):
            if geometry.size:
                run()


@cache
def _version() -> str:
    """Version of this package, which all ranks must have."""
    try:
        return version("lightloom")
    except PackageNotFoundError:
        return ""
