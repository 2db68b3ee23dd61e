"""Checkpoints of hooks: what ``state_dict`` returns and ``load_state_dict`` takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

StateDict: TypeAlias = dict[str, Any]
"""Tensors and plain values by key, for ``torch.save`` and ``torch.distributed.checkpoint``."""
SavedState: TypeAlias = Mapping[str, Any]
"""The same, as a checkpoint gives it back."""
