"""Shares of every link that jobs take: what their exchanges load on average, or the wavelengths that they hold."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lightloom.core.arrays import Floats
from lightloom.fabrics.base import Fabric
from lightloom.planner.traffic.placing import held_links
from lightloom.planner.traffic.together import JobTraffic


def link_shares(jobs: Sequence[JobTraffic], fabric: Fabric) -> Floats:
    """Share of each link that each job takes on average over its step alone, or of its channels: [job, link]."""
    shares = np.zeros((len(jobs), fabric.links))
    for row, each in zip(shares, jobs, strict=True):
        work = each.together
        if work.channels is not None:
            row[held_links(work.job, fabric)] = work.channels / fabric.shared_channels
        for exchange in work.exchanges:
            row += exchange.usage * exchange.busy / (work.seconds or 1.0)
    return shares
