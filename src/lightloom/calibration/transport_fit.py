"""A transport fitted to timed collectives: four numbers for a system, and constants that many systems share.

Every octave of sizes of each number of ranks and kind counts once, however densely a table samples it. Large
collectives repeat within a few per cent, small ones do not: a row's error is taken to be 20 % at the smallest sizes and
3 % at the largest, half way at 4 MiB.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lightloom.calibration.collective_rows import MeasuredCollective
from lightloom.calibration.document import rounded
from lightloom.core.arrays import Floats, Mask
from lightloom.core.errors import ConfigError
from lightloom.transports.base import PARAMETERS, Scales, Transport
from lightloom.transports.price import Constants, WayColumns, columns, scales_array, seconds
from lightloom.transports.ways import Task, Tiers, task_of

ANCHORS = 6
"""Sizes that the four numbers of a system are fitted to, at most."""
_FROM = 2.0**20
_SMALL_ERROR, _LARGE_ERROR, _HALF_WAY = 0.2, 0.03, 4 * 2.0**20
_SCALE_SPREADS = np.array([PARAMETERS[name].spread for name in Scales.model_fields])
"""Standard deviations of the logarithms of a system's four numbers around those of the transport."""


@dataclass(frozen=True)
class System:
    """Timed collectives of one system."""

    name: str
    rows: Sequence[MeasuredCollective]
    tiers: Tiers
    transport: Transport
    """Of the system's architecture, uncalibrated."""
    machine: str = ""
    """Systems of one machine count together as one, and are left out together."""

    @cached_property
    def tasks(self) -> list[Task]:
        """The rows as collectives."""
        return [task_of(row.collective, row.gpus, row.nodes, row.nbytes, self.tiers) for row in self.rows]

    @cached_property
    def ways(self) -> WayColumns:
        """The ways of every row."""
        return columns(self.tasks, self.tiers, self.transport)

    @cached_property
    def measured(self) -> Floats:
        """Measured seconds of each collective: [rows]."""
        return np.array([row.time_us for row in self.rows]) * 1e-6

    @cached_property
    def nbytes(self) -> Floats:
        """Bytes of each collective, as nccl-tests counts them: [rows]."""
        return np.array([row.nbytes for row in self.rows])

    @cached_property
    def across(self) -> Mask:
        """Rows that cross domains: [rows]."""
        return np.array([task.domains > 1 for task in self.tasks])

    @cached_property
    def anchors(self) -> Mask:
        """Rows of the sizes that the system's numbers are fitted to: [rows]."""
        chosen = anchor_sizes(self.nbytes)
        return np.array([size in chosen for size in self.nbytes])

    def subset(self, rows: Mask) -> System:
        """Return the same system with some of its rows."""
        some = [row for row, chosen in zip(self.rows, rows, strict=True) if chosen]
        return System(self.name, some, self.tiers, self.transport, self.machine)


def anchor_sizes(nbytes: Floats) -> set[float]:
    """Return at most six sizes, and at most half of those that there are, rounded up.

    The smallest, and the others spread evenly over the logarithms from 1 MiB (or the smallest, if that is larger) to
    the largest.
    """
    sizes = np.unique(nbytes)
    count = min(ANCHORS, (len(sizes) + 1) // 2)
    first = [] if sizes[0] >= _FROM else [sizes[0]]
    spread = np.geomspace(min(max(sizes[0], _FROM), sizes[-1]), sizes[-1], max(count - len(first), 1))
    return {float(sizes[np.abs(np.log(sizes / size)).argmin()]) for size in [*first, *spread][:count]}


def fit_scales(system: System, transport: Transport) -> Transport:
    """Return a transport with the four numbers of a system fitted to all of its rows, from those that it has.

    Raises:
        ConfigError: there are no rows.
    """
    if not system.rows:
        raise ConfigError(f"{system.name}: no rows to fit a transport to")
    from scipy.optimize import least_squares

    center, weights = np.log(scales_array(transport.scales)), row_weights(system)
    constants = Constants.of(transport)

    def residuals(logarithms: Floats) -> Floats:
        model = Constants(constants.factors, constants.shared, np.exp(logarithms))
        errors = np.log(seconds(system.ways, model) / system.measured) * weights
        return np.concatenate([errors, (logarithms - center) / _SCALE_SPREADS])

    solved = least_squares(residuals, center, x_scale=_SCALE_SPREADS, loss="soft_l1")
    numbers = dict(zip(Scales.model_fields, map(rounded, np.exp(solved.x)), strict=True))
    return transport.model_copy(update={"scales": Scales(**numbers)})


def predicted(system: System, transport: Transport) -> Floats:
    """Return the seconds of every row: [rows]."""
    return seconds(system.ways, Constants.of(transport))


def row_weights(system: System) -> Floats:
    """Weight of each row's error, one over its standard deviation: [rows]."""
    groups = [(row.gpus, row.nodes, row.collective) for row in system.rows]
    octaves = np.floor(np.log2(system.nbytes)).astype(int).tolist()
    keys = list(zip(groups, octaves, strict=True))
    counts = {key: keys.count(key) for key in set(keys)}
    error = _LARGE_ERROR + (_SMALL_ERROR - _LARGE_ERROR) / (1 + system.nbytes / _HALF_WAY)
    weights: Floats = np.array([counts[key] for key in keys]) ** -0.5 * len(set(groups)) ** -0.25 / error
    return weights
