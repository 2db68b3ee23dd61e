"""Checkpoints of runs of one process: network, optimiser, record, and the generator of the averager's errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import nn

from lightloom.core.files import write_atomically
from lightloom.photonics.averaging.averagers import Averager


class RunCheckpoint:
    """One checkpoint in a folder, replaced atomically; without a folder nothing is saved."""

    def __init__(
        self, folder: Path | None, net: nn.Module, optimizer: torch.optim.Optimizer, averager: Averager | None
    ) -> None:
        self.folder, self.net, self.optimizer = folder, net, optimizer
        self.rng = getattr(averager, "rng", None)

    def save(self, done: int, record: dict[str, Any]) -> None:
        """Save the state after ``done`` steps or epochs."""
        if self.folder is None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        content = {
            "done": done,
            "net": self.net.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "rng": None if self.rng is None else json.dumps(self.rng.bit_generator.state),
            "record": record,
        }
        path = self.folder / "checkpoint.pt"
        torch.save(content, path.with_suffix(".part"))
        path.with_suffix(".part").replace(path)
        write_atomically(self.folder / "progress.json", json.dumps({"done": done}))

    def load(self) -> tuple[int, dict[str, Any]]:
        """Restore the state; return the number of steps or epochs and the record, 0 and empty without a checkpoint."""
        if self.folder is None or not (self.folder / "checkpoint.pt").exists():
            return 0, {}
        content = torch.load(self.folder / "checkpoint.pt", weights_only=True)
        self.net.load_state_dict(content["net"])
        self.optimizer.load_state_dict(content["optimizer"])
        if self.rng is not None:
            self.rng.bit_generator.state = json.loads(content["rng"])
        return int(content["done"]), content["record"]
