"""The links that transfers occupy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lightloom.core.arrays import Ints


class Footprint(NamedTuple):
    """The links that transfers occupy, as runs of consecutive links on cyclic tracks.

    Each array has shape [transfer, run]. Run ``r`` of transfer ``t`` occupies the links
    ``base + (start + k) % period`` for ``k < length``.
    """

    base: Ints
    start: Ints
    length: Ints
    period: Ints

    @classmethod
    def of(cls, runs: Sequence[tuple[Any, Any, Any, Any]]) -> Footprint:
        """Stack ``(base, start, length, period)`` runs, each broadcast to one entry a transfer."""
        transfers = np.broadcast_shapes(*(np.shape(value) for run in runs for value in run))
        columns = np.empty((4, *transfers, len(runs)), np.int64)
        for position, run in enumerate(runs):
            for column, value in zip(columns, run, strict=True):
                column[..., position] = value
        return cls(*columns)


def links_of(footprint: Footprint) -> tuple[Ints, Ints]:
    """The links that transfers occupy: (transfer, link), one entry a link."""
    length = footprint.length.ravel()
    run = np.repeat(np.arange(len(length)), length)
    step = np.arange(len(run)) - np.repeat(np.cumsum(length) - length, length)
    base, start, period = (part.ravel()[run] for part in (footprint.base, footprint.start, footprint.period))
    return run // max(footprint.length.shape[1], 1), base + (start + step) % period
