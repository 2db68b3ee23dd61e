"""Worker functions for ``test_digits``: training on made-up digits, several times in one process group."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from lightloom.exchange.datasets import Digits
from lightloom.exchange.transport.worker import Worker
from lightloom.papers.runs.digits import train


def resumed(worker: Worker) -> dict[str, Any]:
    """A run in one go, and the same run in two; what both recorded."""
    whole = _train(worker, "whole", iterations=4)
    _train(worker, "halves", iterations=2)
    return {"whole": whole, "halves": _train(worker, "halves", iterations=4)}


def _train(worker: Worker, folder: str, iterations: int) -> dict[str, Any]:
    recipe = {"seed": 3, "gradients": "inceptionn:2^-10", "error_feedback": True, "weights": "truncate:16"}
    place = Path(worker.arguments["folder"]) / folder
    place.mkdir(exist_ok=True)
    arguments = {
        "recipe": {**recipe, "iterations": iterations, "record_every": 2, "checkpoint_every": 2},
        "data": "",
        "folder": str(place),
    }
    with (
        patch("lightloom.exchange.datasets.training_digits", lambda _: _digits(200)),
        patch("lightloom.exchange.datasets.test_digits", lambda _: _digits(40)),
    ):
        record = train(Worker(worker.rank, worker.size, {**arguments, "snapshots": [4]}))
    record.pop("seconds")
    return record


def _digits(count: int) -> Digits:
    chance = np.random.default_rng(count)
    images = chance.integers(0, 256, (count, 784), dtype=np.uint8)
    return Digits(images, chance.integers(0, 10, count, dtype=np.uint8))
