"""Checkpoints of hooks: what ``state_dict`` returns and ``load_state_dict`` takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from lightloom.core.errors import ConfigError

StateDict: TypeAlias = dict[str, Any]
"""Tensors and plain values by key, for ``torch.save`` and ``torch.distributed.checkpoint``."""
SavedState: TypeAlias = Mapping[str, Any]
"""The same, as a checkpoint gives it back."""


def with_prefix(state: SavedState, prefix: str) -> StateDict:
    """Return the state with every key behind ``prefix``."""
    return {f"{prefix}{key}": value for key, value in state.items()}


def without_prefix(state: SavedState, prefix: str) -> StateDict:
    """Undo ``with_prefix``.

    Raises:
        ConfigError: a key has another prefix, which names the rank.
    """
    for key in state:
        if not str(key).startswith(prefix):
            raise ConfigError(f"the checkpoint holds {key!r}, expected {prefix}...: it is of another rank")
    return {str(key).removeprefix(prefix): value for key, value in state.items()}
