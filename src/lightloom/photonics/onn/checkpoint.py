"""Checkpoints, from which interrupted trainings resume with the same result."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from lightloom.core.errors import ConfigError
from lightloom.core.files import write_atomically
from lightloom.photonics.onn.recipe import TrainingRecipe

SAVE_EVERY = 10.0
"""Interval of checkpoints, in seconds."""


class Checkpoint:
    """``checkpoint.pt`` in a folder, while its training lasts."""

    def __init__(self, folder: Path, recipe: TrainingRecipe) -> None:
        self.path = folder / "checkpoint.pt"
        self._recipe = json.dumps(recipe.to_json())
        self._saved = time.monotonic()

    def load(self) -> dict[str, Any] | None:
        """Return the state that was saved last, or None.

        Raises:
            ConfigError: it cannot be read, or belongs to another recipe.
        """
        if not self.path.exists():
            return None
        try:
            content = torch.load(self.path, weights_only=True)
            recipe, state = content["recipe"], content["state"]
        except Exception as error:
            raise ConfigError(f"cannot resume from {str(self.path)!r}: not a checkpoint of a training") from error
        if recipe != self._recipe:
            raise ConfigError(f"{str(self.path)!r} is of another recipe: finish that training, or give another folder")
        return dict(state)

    def save_if_due(self, state: Callable[[], dict[str, Any]]) -> None:
        """Save the state if the last checkpoint is older than `SAVE_EVERY`."""
        if time.monotonic() - self._saved >= SAVE_EVERY:
            self.save(state())

    def save(self, state: dict[str, Any]) -> None:
        """Save the state of the training.

        Raises:
            ConfigError: the folder cannot be written to.
        """
        buffer = io.BytesIO()
        torch.save({"recipe": self._recipe, "state": state}, buffer)
        write_atomically(self.path, buffer.getvalue())
        self._saved = time.monotonic()

    def remove(self) -> None:
        """Remove the checkpoint of a finished training."""
        self.path.unlink(missing_ok=True)
