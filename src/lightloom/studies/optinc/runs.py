"""All long runs of the study in turn: MNIST through DDP, the language model, CIFAR-100 where it is there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lightloom.studies.optinc import images_runs, language_runs, training_runs


def jobs() -> int:
    """How many runs there are."""
    return len(training_runs.jobs()) + len(language_runs.jobs()) + len(images_runs.VARIANTS)


def measure(work: Path, data: Path, advance: Callable[[int], None] = lambda _: None) -> Path:
    """Do what is not done yet; ``work`` then holds ``training.json`` and ``language.json``, perhaps ``images.json``.

    Raises:
        ConfigError: a data set is not there.
        LaunchError: a run failed; calling again goes on from its checkpoint.
    """
    for part in (training_runs, language_runs, images_runs):
        part.measure(work, data, advance)
    return work
