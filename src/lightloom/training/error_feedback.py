"""What the codec took away is added to the next gradient instead of being lost.

Without it an absolute bound drops every gradient below the bound for good; with it they add up until they pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch

from lightloom.core.errors import ConfigError
from lightloom.training.bucket_layout import Floats, Span

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
        self.residuals: dict[str, Floats] = {n: np.zeros(size, np.float32) for n, size in (sizes or {}).items()}
        self._complete = sizes is not None

    def add_to(self, flat: Floats, spans: Iterable[Span]) -> None:
        """Add each parameter's residual to its gradient.

        Raises:
            ConfigError: a loaded residual does not fit its parameter.
        """
        for span in spans:
            residual = self.residuals.setdefault(span.name, np.zeros(span.length, np.float32))
            if residual.size != span.length:
                raise ConfigError(
                    f"the residual of {span.name!r} has {residual.size} values, the parameter {span.length}: "
                    "the checkpoint is of another model"
                )
            flat[span.slice] += residual

    def keep(self, flat: Floats, spans: Iterable[Span]) -> None:
        """Remember what the exchange took away."""
        for span in spans:
            self.residuals[span.name][:] = flat[span.slice]

    def state_dict(self) -> dict[str, Any]:
        """Copies of the residuals, as tensors under ``rank<i>/<parameter>``, and the number of ranks."""
        tensors = {self._key(name): torch.from_numpy(values.copy()) for name, values in self.residuals.items()}
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
        if self._complete and names != set(self.residuals):
            odd = sorted(names ^ set(self.residuals))[0]
            raise ConfigError(f"checkpoint and model differ in parameter {odd!r}")
        for name in names:
            values = torch.as_tensor(state_dict[self._key(name)]).detach().float().flatten().numpy().copy()
            if self._complete and values.size != self.residuals[name].size:
                raise ConfigError(f"the residual of {name!r} has {values.size} values, {self.residuals[name].size} due")
            self.residuals[name] = values

    def _key(self, name: str) -> str:
        return f"rank{self.rank}/{name}"
