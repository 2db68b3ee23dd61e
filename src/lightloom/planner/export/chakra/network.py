"""The network of ASTRA-sim's analytical backends that stands for a plan's fabric: one dimension, or one for each axis.

Every dimension joins its ranks in pairs (``FullyConnected``), at the rate and latency that the plan's schedules have
between two ranks: schedules are verified to share no wavelength and to load no link more than is priced, so that pairs
do not disturb each other. Where all messages go to neighbours on a ring, ``Ring`` is the same and says more.

ASTRA-sim reads ``bandwidth`` in GiB/s and ``latency`` in ns, and counts time in whole nanoseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from lightloom.core.units import format_bandwidth, format_time
from lightloom.planner.export.chakra.carriers import CarriedCollective, Line
from lightloom.planner.export.chakra.operations import CollectiveUse

_GIB = float(1 << 30)
_NOTHING = Line(_GIB, 0.0, 0.0)
"""Of a network over which nothing is sent."""


class Dimension(NamedTuple):
    """One dimension of the network."""

    topology: str
    ranks: int
    line: Line


class Network(NamedTuple):
    """The dimensions of ASTRA-sim's analytical network, as ``network.yml`` states them."""

    dimensions: tuple[Dimension, ...]

    @property
    def backend(self) -> str:
        """The analytical backend that runs it; only one of them takes several dimensions."""
        return "Congestion_Aware" if len(self.dimensions) == 1 else "Congestion_Unaware"

    def to_yaml(self) -> str:
        """Return the text of ``network.yml``."""
        columns = {
            "topology": [dimension.topology for dimension in self.dimensions],
            "npus_count": [str(dimension.ranks) for dimension in self.dimensions],
            "bandwidth": [repr(dimension.line.rate / _GIB) for dimension in self.dimensions],
            "latency": [repr(dimension.line.latency * 1e9) for dimension in self.dimensions],
        }
        comment = "# bandwidth in GiB/s, latency in ns"
        return "\n".join([comment, *(f"{name}: [{', '.join(values)}]" for name, values in columns.items())]) + "\n"


def network_of(
    sizes: Sequence[tuple[str, int]], lines: Mapping[str, Sequence[tuple[float, Line]]], *, around: bool
) -> tuple[Network, list[str]]:
    """Return the network, and what it says otherwise than the plan.

    Args:
        sizes: name and ranks of each axis, the one whose ranks are neighbours first; they multiply to all ranks.
        lines: by axis, bytes of each collective or send in the whole step, and what its messages take.
        around: whether all messages go to neighbours on one ring of all ranks.
    """
    notes: list[str] = []
    means = {name: _mean(name, lines[name], notes) for name, _ in sizes if lines.get(name)}
    axes = [(name, ranks) for name, ranks in sizes if ranks > 1]
    # An axis along which nothing is sent has no rate of its own.
    of_axis = [means.get(name) or next(iter(means.values()), _NOTHING) for name, _ in axes]
    if all(line.alike(of_axis[0]) for line in of_axis):
        total = int(np.prod([ranks for _, ranks in axes], initial=1))
        line = of_axis[0] if of_axis else _NOTHING
        return Network((Dimension("Ring" if around and total > 2 else "FullyConnected", total, line),)), notes
    notes.append(
        "axes have rates of their own, so that each is a dimension: the backend of several dimensions lets messages of "
        "one pair of ranks overlap"
    )
    dimensions = (Dimension("FullyConnected", ranks, line) for (_, ranks), line in zip(axes, of_axis, strict=True))
    return Network(tuple(dimensions)), notes


def goes_around(carriers: Mapping[CollectiveUse, CarriedCollective], ranks: int) -> bool:
    """Whether all ranks exchange together and every message goes to a neighbour on a ring."""
    for use, carrier in carriers.items():
        if use.ranks != ranks or carrier.schedule is None or carrier.fabric is None:
            return False
        distance = np.abs(carrier.schedule.source.astype(np.int64) - carrier.schedule.destination)
        if not np.isin(distance, (1, ranks - 1)).all():
            return False
    return bool(carriers)


def _mean(name: str, lines: Sequence[tuple[float, Line]], notes: list[str]) -> Line:
    """Return the mean of lines over all bytes and messages; a note says where they differ."""
    nbytes = np.array([size for size, _ in lines])
    rates, latencies, messages = (np.array([line[column] for _, line in lines]) for column in range(3))
    often = np.divide(nbytes, messages, out=np.zeros_like(nbytes), where=messages > 0)
    rate = float(nbytes.sum() / (nbytes / rates).sum())
    latency = float(np.average(latencies, weights=often if often.any() else None))
    mean = Line(rate, latency, float(messages.mean()))
    if any(line.spread or not line.alike(mean) for _, line in lines):
        slowest, fastest = format_bandwidth(float(rates.min())), format_bandwidth(float(rates.max()))
        notes.append(
            f"{name}: messages between pairs of ranks take longer or shorter, by link and collective (means of a "
            f"collective: {slowest} to {fastest}, {format_time(float(latencies.min()))} to "
            f"{format_time(float(latencies.max()))}): the network has the mean of all"
        )
    return mean
