"""Float32 inside a node, another method between nodes; see ``lightloom.exchange.methods.two_level``.

    node 0: ranks 0 1 2 3     slot 1: ranks 1 and 5 exchange piece 1 of every tensor by the method between nodes
    node 1: ranks 4 5 6 7

Ranks of a node follow each other, as torchrun numbers them. Sums inside a node add up in the order of ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from lightloom.core.errors import ConfigError, InputError
from lightloom.exchange.method import ExchangeMethod
from lightloom.exchange.methods.two_level import TwoLevelExchange
from lightloom.training.gradients.exchanger import Exchanger
from lightloom.training.gradients.geometry import Geometry, Piece
from lightloom.training.gradients.group import OwnGroup
from lightloom.training.gradients.state_dict import SavedState, StateDict, with_prefix, without_prefix
from lightloom.training.gradients.tensor_blocks import TensorBlocks
from lightloom.training.transport.errors import AgreedError

Make = Callable[[ExchangeMethod, OwnGroup, Mapping[str, int] | None], Exchanger]


class TwoLevelExchanger(Exchanger):
    """Reduce-scatter in the node, the method among equal slots, all-gather in the node."""

    def __init__(
        self, method: TwoLevelExchange, group: OwnGroup, sizes: Mapping[str, int] | None = None, *, make: Make
    ) -> None:
        """Connect the ranks of the node, and the ranks of this slot.

        Args:
            method: what to run.
            group: all ranks.
            sizes: number of values by tensor, where known.
            make: makes the exchanger between nodes.

        Raises:
            ConfigError: the ranks do not fill nodes.
            TransportError: a rank did not connect in time.
        """
        size = method.node
        if group.ranks % size:
            raise ConfigError(
                f"exchange {method}: {group.ranks} ranks do not fill nodes of {size}: expected node= to divide them"
            )
        node, self._slot = divmod(group.rank, size)
        self._inside = group.subgroup(range(node * size, (node + 1) * size))
        self._between_group = group.subgroup(range(self._slot, group.ranks, size))
        super().__init__(method.name, group, sizes, feedback=method.feedback)
        own = None if sizes is None else {name: self._length(values) for name, values in sizes.items()}
        self._between = make(method.between, self._between_group, own)
        self._cuts: dict[Geometry, tuple[TensorBlocks, Geometry]] = {}

    def average_values(self, values: Tensor, geometry: Geometry) -> None:
        cut, own_geometry = self._cut(geometry)
        before = self._inside.sent + self._between_group.sent
        blocks = torch.empty_like(values)
        cut.gather(values, cut.split(blocks))
        own = self._inside.reduce_scatter_in_order(blocks.div_(self._inside.ranks), cut.sizes)
        if own_geometry.size:
            try:
                self._between.average_values(own, own_geometry)
            except AgreedError as error:  # of the ranks of this slot, not of all
                raise InputError(str(error)) from error
        self._inside.all_gather(blocks, own, cut.sizes)
        for k, block in enumerate(cut.split(blocks)):
            cut.scatter(k, block, values)
        self.group.sent += self._inside.sent + self._between_group.sent - before

    def drain(self, geometry: Geometry, device: torch.device | str = "cpu") -> Tensor | None:
        cut, own_geometry = self._cut(geometry)
        left = self._between.drain(own_geometry, device)
        if left is None:
            return None
        buffer = left.new_zeros(geometry.size)
        # The residual of a slot is one node's, in the units of a mean over its ranks.
        cut.scatter(self._slot, left, buffer, float(self._inside.ranks))
        return buffer

    def state_dict(self) -> StateDict:
        return with_prefix(self._between.state_dict(), self._prefix)

    def load_state_dict(self, state_dict: SavedState) -> None:
        self._between.load_state_dict(without_prefix(state_dict, self._prefix))

    def close(self) -> None:
        self._between.close()
        self._inside.close()
        super().close()

    def _connect(self) -> None:
        self._inside.connect()

    @property
    def _prefix(self) -> str:
        return f"slot{self._slot}/"

    def _length(self, values: int) -> int:
        """Values of this slot of a tensor of so many."""
        return values * (self._slot + 1) // self._inside.ranks - values * self._slot // self._inside.ranks

    def _cut(self, geometry: Geometry) -> tuple[TensorBlocks, Geometry]:
        """Slots of a buffer, and where the tensors lie in this rank's, each as a tensor of its own."""
        if geometry not in self._cuts:
            cut = TensorBlocks(geometry, self._inside.ranks)
            pieces = [Piece(piece.tensor, 0, piece.offset, piece.length) for piece in cut.pieces[self._slot]]
            self._cuts[geometry] = cut, Geometry(pieces, cut.sizes[self._slot])
        return self._cuts[geometry]
