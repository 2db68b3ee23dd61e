"""All training runs of the study: the short ones on more networks, then HDC for Table I's 10,000 iterations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lightloom.studies.inceptionn import network_runs, training_runs
from lightloom.training.datasets.folder import data_folder


def job_count() -> int:
    """Return the number of training runs."""
    return network_runs.job_count() + training_runs.job_count()


def measure(work: Path, data: Path | None, advance: Callable[[int], None] = lambda _: None) -> Path:
    """Run the training runs without results in ``work`` and write ``networks.json`` and ``training.json`` there.

    Raises:
        ConfigError: the data set is missing.
        LaunchError: a run failed; the next call resumes it from its checkpoint.
    """
    folder = data_folder(data)
    network_runs.measure(work, folder, advance)
    training_runs.measure(work, folder, advance)
    return work
