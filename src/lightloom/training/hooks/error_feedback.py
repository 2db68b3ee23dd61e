"""What the codec took away is added to the next gradient instead of being lost.

Without it an absolute bound drops every gradient below the bound for good; with it they add up until they pass.

Residuals belong to parameters, but live in blocks as the ring exchanges them: adding a gradient to them makes what is
encoded, and encoding leaves the next residuals in the same memory. When DDP rebuilds its buckets they move.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from lightloom.core.arrays import Float32s
from lightloom.core.errors import ConfigError
from lightloom.training.hooks.bucket_layout import BucketLayout

_RANKS = "ranks"


class ErrorFeedback:
    """One rank's residuals by parameter, in the units of the sum over ranks; a ``Stateful`` for checkpoints.

    Every rank has residuals of its own: save all of them. Keys carry the rank, so that
    ``torch.distributed.checkpoint`` keeps them apart.
    """

    def __init__(self, rank: int, ranks: int, sizes: Mapping[str, int] | None = None) -> None:
        """With ``sizes`` (values by parameter name) residuals exist, as zeros, from the start."""
        self.rank = rank
        self.ranks = ranks
        self._complete = sizes is not None
        self._at_rest: dict[str, Float32s] = {n: np.zeros(size, np.float32) for n, size in (sizes or {}).items()}
        self._at_work: dict[BucketLayout, list[Float32s]] = {}
        self._zero: set[BucketLayout] = set()

    @property
    def residuals(self) -> dict[str, Float32s]:
        """Copies of all residuals, by parameter, in the order in which parameters were first seen."""
        found = {name: values.copy() for name, values in self._at_rest.items()}
        for layout in self._at_work:
            found |= self._collect(layout)
        return found

    def blocks(self, layout: BucketLayout) -> list[Float32s]:
        """The residuals of a bucket's parameters, themselves: to be added to, encoded from, and left with the losses.

        Raises:
            ConfigError: a loaded residual does not fit its parameter.
        """
        self._zero.discard(layout)
        if layout not in self._at_work:
            self._settle(layout)
        return self._at_work[layout]

    def drain(self, layout: BucketLayout) -> Float32s | None:
        """What a bucket's residuals add to its gradients; they are zero from then on. None if they were.

        Raises:
            ConfigError: a loaded residual does not fit its parameter.
        """
        if layout in self._zero:
            return None
        blocks = self.blocks(layout)
        flat = np.zeros(max((span.offset + span.length for span in layout.spans), default=0), np.float32)
        layout.scatter(blocks, flat)
        for block in blocks:
            block[:] = 0
        self._zero.add(layout)
        return flat

    def state_dict(self) -> dict[str, Any]:
        """Copies of the residuals, as tensors under ``rank<i>/<parameter>``, and the number of ranks."""
        tensors = {self._key(name): torch.from_numpy(values) for name, values in self.residuals.items()}
        return {_RANKS: self.ranks, **tensors}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue from a checkpoint of this rank.

        Raises:
            ConfigError: of another rank, another number of ranks, or another model.
        """
        if state_dict.get(_RANKS) != self.ranks:
            raise ConfigError(f"the checkpoint is of {state_dict.get(_RANKS)} ranks, this run has {self.ranks}")
        prefix = self._key("")
        names = {str(key).removeprefix(prefix) for key in state_dict if str(key).startswith(prefix)}
        if len(names) != len(state_dict) - 1:
            raise ConfigError(f"the checkpoint holds residuals of another rank than {self.rank}")
        present = self.residuals
        if self._complete and names != set(present):
            odd = sorted(names ^ set(present))[0]
            raise ConfigError(f"checkpoint and model differ in parameter {odd!r}")
        loaded = {}
        for name in names:
            values = torch.as_tensor(state_dict[self._key(name)]).detach().float().flatten().numpy().copy()
            if self._complete and values.size != present[name].size:
                raise ConfigError(f"the residual of {name!r} has {values.size} values, {present[name].size} due")
            loaded[name] = values
        self._at_rest = present | loaded
        self._at_work.clear()
        self._zero.clear()

    def _settle(self, layout: BucketLayout) -> None:
        """Move the residuals of a bucket's parameters from wherever they are into its blocks."""
        names = {span.name for span in layout.spans}
        for other in [other for other in self._at_work if any(span.name in names for span in other.spans)]:
            self._at_rest |= self._collect(other)
            del self._at_work[other]
            self._zero.discard(other)
        flat = np.zeros(max((span.offset + span.length for span in layout.spans), default=0), np.float32)
        for span in layout.spans:
            residual = self._at_rest.get(span.name)
            if residual is not None and residual.size != span.length:
                raise ConfigError(
                    f"the residual of {span.name!r} has {residual.size} values, the parameter {span.length}: "
                    "the checkpoint is of another model"
                )
            flat[span.slice] = 0 if residual is None else residual
        for name in names:
            self._at_rest.pop(name, None)
        self._at_work[layout] = layout.blocks()
        layout.gather(flat, self._at_work[layout])

    def _collect(self, layout: BucketLayout) -> dict[str, Float32s]:
        flat = np.zeros(max((span.offset + span.length for span in layout.spans), default=0), np.float32)
        layout.scatter(self._at_work[layout], flat)
        return {span.name: flat[span.slice].copy() for span in layout.spans}

    def _key(self, name: str) -> str:
        return f"rank{self.rank}/{name}"
