"""The picture of predicted against measured steps, from judged tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from lightloom.calibration.accuracy import Accuracy
from lightloom.reports.figures.accuracy_figure import PredictedSeries, accuracy_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_accuracy(judged: Sequence[Accuracy]) -> Figure:
    """Draw predicted against measured steps, one colour for each table."""
    return accuracy_figure(
        [
            PredictedSeries(
                name=entry.steps.name,
                measured=np.array([step.step_s for step in entry.steps.steps]),
                predicted=entry.predicted.seconds,
                low=entry.predicted.low,
                high=entry.predicted.high,
            )
            for entry in judged
        ]
    )
