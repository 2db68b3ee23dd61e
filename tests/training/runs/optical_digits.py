"""Worker functions for ``test_optical_training``: training on made-up digits, several times in one process group."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from lightloom.exchange.transport.worker import Worker
from lightloom.papers.runs.device_noise import train_both
from lightloom.papers.runs.digits import lenet_recipe, train
from tests.training.runs.digits_workers import _digits


def several(worker: Worker) -> dict[str, Any]:
    """A run in one go and in two; a run with errors, in two; both trainings on devices."""
    with (
        patch("lightloom.exchange.datasets.training_digits", lambda _: _digits(400)),
        patch("lightloom.exchange.datasets.test_digits", lambda _: _digits(40)),
    ):
        whole = _train(worker, "whole", "optical:ideal", 6)
        _train(worker, "halves", "optical:ideal", 4)
        halves = _train(worker, "halves", "optical:ideal", 6)
        _train(worker, "erring", "optical:table2:3-6", 4)
        erring = _train(worker, "erring", "optical:table2:3-6", 6)
        devices = train_both(Worker(worker.rank, worker.size, worker.arguments))
    return {"whole": whole, "halves": halves, "erring": erring, "devices": devices}


def _train(worker: Worker, folder: str, gradients: str, iterations: int) -> dict[str, Any]:
    place = Path(worker.arguments["folder"]) / folder
    place.mkdir(exist_ok=True)
    recipe = replace(
        lenet_recipe(3, iterations, gradients), record_every=2, checkpoint_every=2, iterations_per_division=3
    )
    record = train(Worker(worker.rank, worker.size, {"recipe": asdict(recipe), "data": "", "folder": str(place)}))
    del record["seconds"], record["recipe"]
    return record
