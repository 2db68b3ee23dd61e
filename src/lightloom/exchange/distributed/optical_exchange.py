"""Averages by light as an exchange: ``training.hooks.optical_exchange`` over the connections of exchanges."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from lightloom.core.arrays import Bytes, Codes
from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.exchange.distributed.exchanger import Exchanger
from lightloom.exchange.distributed.geometry import Geometry
from lightloom.exchange.distributed.group import OwnGroup
from lightloom.exchange.methods.optical import OpticalExchange
from lightloom.photonics.registry import find_averager
from lightloom.training.hooks.optical_exchange import BucketBuffers
from lightloom.training.hooks.optical_exchange import OpticalExchange as CodeExchange
from lightloom.training.hooks.state_dict import SavedState, StateDict

_SEED = 0


class OpticalExchanger(Exchanger):
    """Quantises gradients and lets an averager average the codes."""

    def __init__(self, method: OpticalExchange, group: OwnGroup, sizes: Mapping[str, int] | None = None) -> None:
        """Choose the averager, whose noise and errors differ between ranks, and connect.

        Raises:
            UnsupportedError: tensors are not in CPU memory.
            ConfigError, UnknownNameError: the averager cannot be made for these ranks and bits.
            TransportError: a rank did not connect in time.
        """
        if group.device != "cpu":
            raise UnsupportedError(f"exchange {method} runs in CPU memory, the tensors are on {group.device}")
        seed = int(np.random.SeedSequence((_SEED, group.rank)).generate_state(1)[0])
        self._averager = find_averager(method.averager, group.ranks, method.bits, seed=seed)
        super().__init__(method, group, sizes)
        self._block = method.block
        own = _CodeGroup(group) if group.ranks > 1 else None
        self._exchange = CodeExchange(self._averager, own, group.rank, group.ranks)
        self._buffers: dict[Geometry, BucketBuffers] = {}

    def average(self, values: Tensor, geometry: Geometry) -> None:
        """Replace ``values`` by their mean over ranks.

        Raises:
            InputError: a rank has NaN, an infinity or a size of 2^127 or more; raised on all ranks.
            TransportError: a rank left or fell silent.
        """
        if geometry not in self._buffers:
            lengths = [piece.length for piece in geometry.pieces]
            self._buffers[geometry] = BucketBuffers.of(lengths, self.group.ranks, self._averager.bits, self._block)
        self._exchange.average(values.numpy(), self._buffers[geometry])

    def state_dict(self) -> StateDict:
        """Return the state of the generator of this rank's noise and errors, if there is one."""
        rng = getattr(self._averager, "rng", None)
        return {} if rng is None else {f"rank{self.group.rank}": rng.bit_generator.state}

    def load_state_dict(self, state_dict: SavedState) -> None:
        expected = self.state_dict()
        if sorted(state_dict) != sorted(expected):
            raise ConfigError(
                f"the checkpoint holds {', '.join(map(str, state_dict)) or 'nothing'}, expected "
                f"{', '.join(expected) or 'nothing'}: it is of another rank or averager than {self.method}"
            )
        for key, state in state_dict.items():
            assert key in expected
            self._averager.rng.bit_generator.state = state  # type: ignore[attr-defined]


class _CodeGroup:
    """What the emulation of an averager needs of connections."""

    def __init__(self, group: OwnGroup) -> None:
        self._group = group

    def largest(self, values: Bytes) -> Bytes:
        """Maximum over ranks of each value."""
        rows = torch.empty((self._group.ranks, values.size), dtype=torch.uint8)
        self._group.all_gather(rows.view(-1), torch.from_numpy(values), [values.size] * self._group.ranks)
        return np.asarray(rows.numpy().max(axis=0))

    def transpose(self, rows: Codes, incoming: Codes) -> None:
        """Send row k of ``rows`` to rank k; both arrays have shape (ranks, n)."""
        sizes = [rows[0].nbytes] * self._group.ranks
        self._group.all_to_all(_bytes(incoming), _bytes(rows), sizes, sizes)

    def gather(self, rows: Codes) -> None:
        """Send row k of rank k to all ranks, in place."""
        own = _bytes(rows[self._group.rank : self._group.rank + 1].copy())
        self._group.all_gather(_bytes(rows), own, [own.numel()] * self._group.ranks)


def _bytes(codes: Codes) -> Tensor:
    """The same memory as flat bytes, as gloo has no unsigned integers of more than one byte."""
    return torch.from_numpy(codes.view(np.uint8)).view(-1)
