"""All training runs of the study: MNIST through DDP, the language model, and CIFAR-100 if it is available."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lightloom.studies.optinc import images_runs, language_runs, training_runs
from lightloom.training.datasets.folder import data_folder


def job_count() -> int:
    """Return the number of training runs."""
    return len(training_runs.jobs()) + language_runs.job_count() + len(images_runs.VARIANTS)


def measure(work: Path, data: Path | None, advance: Callable[[int], None] = lambda _: None) -> Path:
    """Run the training runs without results in ``work`` and write their records there.

    The records are ``training.json``, ``language-small.json`` and ``language.json``, and ``images.json`` if CIFAR-100
    is available.

    Raises:
        ConfigError: a data set is missing.
        LaunchError: a run failed; the next call resumes it from its checkpoint.
    """
    folder = data_folder(data)
    for part in (training_runs, language_runs, images_runs):
        part.measure(work, folder, advance)
    return work
