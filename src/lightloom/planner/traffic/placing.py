"""Where jobs lie: the part of a cluster's fabric that each one has, and which of them divide wavelengths.

packets       the ranks on the links of the whole fabric, which other jobs load too
planes        a switch of as many ranks: circuits of jobs end at different ports, and share nothing
wavelengths   ranks at even distances; jobs whose arcs overlap divide the wavelengths, so that none is used twice
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from lightloom.core.arrays import Ints
from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.fabrics.base import Fabric
from lightloom.fabrics.footprint import links_of
from lightloom.fabrics.part import PartFabric
from lightloom.planner.traffic.spec import TrafficJob


def job_fabric(job: TrafficJob, fabric: Fabric, channels: int | None = None) -> Fabric:
    """The fabric of a job's ranks, with so many channels of each of its links, or with all.

    Raises:
        ConfigError: ranks of a ring that do not lie at even distances.
        UnsupportedError: a fabric whose parts nobody knows.
    """
    ranks = len(job.ranks)
    if not fabric.exclusive:
        if fabric.in_network_reduction:
            raise UnsupportedError(f"jobs on a {fabric.kind_name}: expected links that transfers share, or circuits")
        return PartFabric.on(fabric, job.ranks)
    held = fabric.shared_channels if channels is None else channels
    if fabric.wavelength_routed:
        stride = ring_stride(job)
        part = fabric.share(ranks, stride, held * stride)
    else:
        part = fabric.share(ranks, 1, held)
    if part is None:
        raise UnsupportedError(
            f"job {job.label}: {ranks} ranks of a {fabric.kind_name} with {held} channels have no circuits among them"
        )
    return part


def ring_stride(job: TrafficJob) -> int:
    """The even distance between neighbouring ranks of a job on a ring.

    Raises:
        ConfigError: distances differ.
    """
    strides = set(np.diff(job.ranks).tolist())
    if len(strides) != 1:
        raise ConfigError(f"job {job.label}: ranks {job.ranks_text} of a ring: expected even distances, e.g. 0-62/2")
    return int(strides.pop())


def held_links(job: TrafficJob, fabric: Fabric) -> Ints:
    """Links that circuits of a job may use: on a ring those between its first and its last rank, both ways."""
    members = np.array(job.ranks)
    if not fabric.wavelength_routed:
        _, link = links_of(fabric.footprint(members, np.roll(members, 1), np.zeros(len(members), np.int64)))
        return np.unique(link)
    onward = np.roll(members, -1) if len(members) * ring_stride(job) == fabric.ranks else members[1:]
    before = members[: len(onward)]
    ways = [
        links_of(fabric.footprint(a, b, np.full(len(a), way)))[1]
        for way, a, b in ((0, before, onward), (1, onward, before))
    ]
    return np.unique(np.concatenate(ways))


def neighbours(jobs: Sequence[TrafficJob], fabric: Fabric) -> list[list[int]]:
    """Jobs that divide channels, as sets of their numbers: those whose links overlap, directly or by way of others."""
    if not fabric.wavelength_routed:
        return [[number] for number in range(len(jobs))]
    links = [set(held_links(job, fabric).tolist()) for job in jobs]
    left, parts = set(range(len(jobs))), []
    while left:
        part, found = set(), {min(left)}
        while found:
            part |= found
            reached = set().union(*(links[number] for number in part))
            found = {number for number in left - part if links[number] & reached}
        parts.append(sorted(part))
        left -= part
    return parts


def splits(total: int, jobs: int, most: int = 8) -> Iterator[tuple[int, ...]]:
    """Ways to share out all of ``total`` channels among jobs, in whole parts of them, at most ``most`` parts."""
    parts = min(total, most)

    def compose(left: int, count: int) -> Iterator[tuple[int, ...]]:
        if count == 1:
            yield (left,)
            return
        for first in range(1, left - count + 2):
            for rest in compose(left - first, count - 1):
                yield (first, *rest)

    for counts in compose(parts, jobs):
        channels = [count * total // parts for count in counts]
        channels[-1] += total - sum(channels)
        yield tuple(channels)
