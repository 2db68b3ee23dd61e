"""Training of ResNet-50 on CIFAR-100 for Fig. 7(a), if the data folder holds CIFAR-100; best on a GPU."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lightloom.core.files import write_atomically
from lightloom.photonics.averaging.averagers import TABLE_II_ERRORS, ErringAverager, IdealAverager
from lightloom.training.datasets.cifar import is_there, read

SEED = 0
VARIANTS: Mapping[str, tuple[int | None, str | None]] = {
    "float32": (None, None),
    "16-bit floor": (16, None),
    "16-bit floor, errors 3-6": (16, "3-6"),
    "16-bit floor, errors 4-8": (16, "4-8"),
}
"""Bits per code, and row of Table II whose errors are injected, by variant."""


def measure(work: Path, data: Path, advance: Callable[[int], None] = lambda _: None) -> Path | None:
    """Run the training runs without results in ``work`` and write ``images.json`` there; None without CIFAR-100.

    Args:
        work: folder for results and checkpoints.
        data: the data folder.
        advance: called with 1 after each run.

    Raises:
        ConfigError: the data set is there, but not as published.
    """
    if not is_there(data):
        advance(len(VARIANTS))
        return None
    records = {}
    for name in VARIANTS:
        records[name] = [_once(name, work, data)]
        advance(1)
        write_atomically(work / "images.json", json.dumps({"runs": records}))
    return work / "images.json"


def _once(name: str, work: Path, data: Path) -> dict[str, Any]:
    folder = work / f"images-{name.replace(',', '').replace(' ', '-')}"
    result = folder / "result.json"
    if not result.exists():
        import torch

        from lightloom.training.runs.images import ImageRecipe, train

        recipe = ImageRecipe(seed=SEED, device="cuda" if torch.cuda.is_available() else "cpu")
        bits, errors = VARIANTS[name]
        averager = None if bits is None else IdealAverager(recipe.servers, bits, "floor")
        erring = averager if averager is None or errors is None else ErringAverager(averager, TABLE_II_ERRORS[errors])
        record = train(read("train", data), read("test", data), recipe, erring, folder=folder)
        write_atomically(result, json.dumps(record))
        (folder / "checkpoint.pt").unlink(missing_ok=True)
    stored: dict[str, Any] = json.loads(result.read_text())
    return stored
