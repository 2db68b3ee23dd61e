"""Error feedback: the error of each encoding is added to the next gradient.

Without it a codec with an absolute bound drops every gradient below the bound; with it such gradients add up until they
exceed the bound.

Residuals belong to parameters, but are stored in the blocks that the ring exchanges: a block plus its gradient is what
is encoded, and encoding leaves the next residuals in the same memory. When DDP rebuilds its buckets, residuals move.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from lightloom.core.arrays import Float32s
from lightloom.core.errors import ConfigError
from lightloom.training.hooks.bucket_layout import BucketLayout
from lightloom.training.hooks.state_dict import SavedState, StateDict

_RANKS = "ranks"


class ErrorFeedback:
    """Residuals of one rank by parameter, in the units of the sum over ranks; a ``Stateful`` for checkpoints.

    Every rank has its own residuals, and a checkpoint needs all of them. Keys contain the rank, so that
    ``torch.distributed.checkpoint`` distinguishes them.
    """

    def __init__(self, rank: int, ranks: int, sizes: Mapping[str, int] | None = None) -> None:
        """Begin with zeros for the parameters in ``sizes`` (values by name), or without any residuals."""
        self.rank = rank
        self.ranks = ranks
        self._complete = sizes is not None
        self._stored: dict[str, Float32s] = {n: np.zeros(size, np.float32) for n, size in (sizes or {}).items()}
        self._in_blocks: dict[BucketLayout, list[Float32s]] = {}
        self._zero: set[BucketLayout] = set()

    @property
    def residuals(self) -> dict[str, Float32s]:
        """Copies of all residuals, by parameter, in the order in which parameters were first seen."""
        residuals = {name: values.copy() for name, values in self._stored.items()}
        for layout in self._in_blocks:
            residuals |= self._collect(layout)
        return residuals

    def blocks(self, layout: BucketLayout) -> list[Float32s]:
        """Residuals of a bucket's parameters, not copied: the caller adds gradients and encodes them in place.

        Raises:
            ConfigError: a loaded residual does not fit its parameter.
        """
        self._zero.discard(layout)
        if layout not in self._in_blocks:
            self._move_into_blocks(layout)
        return self._in_blocks[layout]

    def drain(self, layout: BucketLayout) -> Float32s | None:
        """Return a bucket's residuals and set them to zero; None if they are zero already.

        Raises:
            ConfigError: a loaded residual does not fit its parameter.
        """
        if layout in self._zero:
            return None
        blocks = self.blocks(layout)
        flat = layout.bucket(blocks)
        for block in blocks:
            block[:] = 0
        self._zero.add(layout)
        return flat

    def state_dict(self) -> StateDict:
        """Return copies of the residuals, as tensors under ``rank<i>/<parameter>``, and the number of ranks."""
        tensors = {self._key(name): torch.from_numpy(values) for name, values in self.residuals.items()}
        return {_RANKS: self.ranks, **tensors}

    def load_state_dict(self, state_dict: SavedState) -> None:
        """Continue from a checkpoint of this rank.

        Raises:
            ConfigError: it is of another rank, number of ranks or model.
        """
        if state_dict.get(_RANKS) != self.ranks:
            raise ConfigError(f"the checkpoint is of {state_dict.get(_RANKS)} ranks, this run has {self.ranks}")
        prefix = self._key("")
        names = {str(key).removeprefix(prefix) for key in state_dict if str(key).startswith(prefix)}
        if len(names) != len(state_dict) - 1:
            raise ConfigError(f"the checkpoint holds residuals of another rank than {self.rank}")
        present = self.residuals
        if self._complete and names != set(present):
            name = sorted(names ^ set(present))[0]
            raise ConfigError(f"checkpoint and model differ in parameter {name!r}")
        loaded = {}
        for name in names:
            values = torch.as_tensor(state_dict[self._key(name)]).detach().float().flatten().numpy().copy()
            if self._complete and values.size != present[name].size:
                raise ConfigError(f"the residual of {name!r} has {values.size} values: expected {present[name].size}")
            loaded[name] = values
        self._stored = present | loaded
        self._in_blocks.clear()
        self._zero.clear()

    def _move_into_blocks(self, layout: BucketLayout) -> None:
        """Move the residuals of a bucket's parameters into its blocks, from storage or from other blocks."""
        names = {span.name for span in layout.spans}
        for other in [other for other in self._in_blocks if any(span.name in names for span in other.spans)]:
            self._stored |= self._collect(other)
            del self._in_blocks[other]
            self._zero.discard(other)
        flat = layout.bucket()
        for span in layout.spans:
            residual = self._stored.get(span.name)
            if residual is not None and residual.size != span.length:
                raise ConfigError(
                    f"the residual of {span.name!r} has {residual.size} values, the parameter {span.length}: "
                    "the checkpoint is of another model"
                )
            flat[span.slice] = 0 if residual is None else residual
        for name in names:
            self._stored.pop(name, None)
        self._in_blocks[layout] = layout.blocks()
        layout.gather(flat, self._in_blocks[layout])

    def _collect(self, layout: BucketLayout) -> dict[str, Float32s]:
        flat = layout.bucket(self._in_blocks[layout])
        return {span.name: flat[span.slice].copy() for span in layout.spans}

    def _key(self, name: str) -> str:
        return f"rank{self.rank}/{name}"
