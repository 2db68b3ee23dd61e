"""Times of pipeline stages for tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

import numpy as np

from lightloom.core.arrays import Floats
from lightloom.planning.simulation.pipelined import StageTimes

OF_STAGES = ("gather", "exchange", "tied", "update")
"""Fields of shape [stages]; the others have one number for each chunk."""


def stage_times(stages: int, virtual: int = 1, *, given: Mapping[str, Floats]) -> StageTimes:
    """Zero seconds of everything but what is given."""
    sizes = {each.name: stages if each.name in OF_STAGES else stages * virtual for each in fields(StageTimes)}
    return StageTimes(**{name: np.zeros(size) for name, size in sizes.items()} | dict(given))
