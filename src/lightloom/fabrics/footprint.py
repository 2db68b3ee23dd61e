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
        columns = [np.broadcast_arrays(*run) for run in runs]
        return cls(*(np.stack([c[i] for c in columns], axis=-1).astype(np.int64) for i in range(4)))


def links_of(footprint: Footprint) -> tuple[Ints, Ints]:
    """The links that transfers occupy: (transfer, link), one entry a link."""
    length = footprint.length.ravel()
    run = np.repeat(np.arange(len(length)), length)
    step = np.arange(len(run)) - np.repeat(np.cumsum(length) - length, length)
    base, start, period = (part.ravel()[run] for part in (footprint.base, footprint.start, footprint.period))
    return run // max(footprint.length.shape[1], 1), base + (start + step) % period
