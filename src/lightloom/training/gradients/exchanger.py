"""What runs a method among the ranks of a group: averages of flat float32 buffers, the same bits on every rank."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.training.gradients.geometry import Geometry
from lightloom.training.gradients.group import OwnGroup
from lightloom.training.gradients.residuals import Residuals
from lightloom.training.gradients.state_dict import SavedState, StateDict


class Exchanger(ABC):
    """An exchange with the state of one rank; a ``Stateful``. Used by one thread, in the same order by all ranks."""

    residuals: Residuals | None = None
    """What encodings took away so far; None without error feedback."""
    any_type = False
    """Whether ``average`` works in the type of the values; others work in float32."""
    shards = False
    """Whether it has a ``reduce_scatter``."""

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

    @abstractmethod
    def average(self, values: Tensor, geometry: Geometry) -> None:
        """Replace ``values`` (float32, flat) by their mean over ranks.

        Raises:
            TransportError: a rank left, fell silent or brought another number of values.
        """

    def average_tensor(self, tensor: Tensor, geometry: Geometry, scale: float = 1.0) -> None:
        """Replace a dense tensor of any type and shape by its mean over ranks; call it without gradients.

        Args:
            tensor: the values; complex ones are exchanged as pairs of real ones.
            geometry: of its real values, flat.
            scale: values are divided by it for the exchange and multiplied again.

        Raises:
            UnsupportedError: the tensor's type is wider than the method's.
            TransportError: as ``average``.
        """
        real = torch.view_as_real(tensor) if tensor.is_complex() else tensor
        self.check_type(tensor.dtype)
        scale = 1.0 if self.any_type else scale
        flat = real.detach().reshape(-1)
        values = flat if self.any_type else flat.to(torch.float32)
        values = values / scale if scale != 1.0 else values
        self.average(values, geometry)
        values = values.mul_(scale) if scale != 1.0 else values
        if values.data_ptr() != real.data_ptr():
            real.copy_(values.view(real.shape))

    def reduce_scatter(self, values: Tensor, geometry: Geometry, shards: Sequence[slice], output: Tensor) -> None:
        """Put the sum over ranks of this rank's shard of ``values`` into ``output``; ``values`` may be overwritten.

        Args:
            values: float32, flat; ``shards`` are its parts by rank.
            geometry: its tensors.
            output: float32, flat.

        Raises:
            TransportError: as ``average``.
        """
        raise NotImplementedError

    def check_type(self, dtype: torch.dtype) -> None:
        """Check that the conversion to float32 would not change gradients of a type.

        Raises:
            UnsupportedError: it would.
        """
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
