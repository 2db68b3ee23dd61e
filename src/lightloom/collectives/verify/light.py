"""Where light cannot go: lightpaths longer than it reaches, over channels that something has broken.

Both verifiers ask; it shares no code with what makes schedules.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lightloom.core.arrays import Ints
from lightloom.core.errors import VerificationError
from lightloom.fabrics.base import Fabric


def check_light(
    fabric: Fabric, source: Ints, destination: Ints, route: Ints, channel: Ints, count: Ints, name: Callable[[int], str]
) -> None:
    """Prove that light gets from every source to its destination on these channels.

    Args:
        channel: fibre · wavelengths + wavelength, the first of ``count``.
        name: an entry for people.

    Raises:
        VerificationError: the first lightpath that is too long, or whose light is blocked.
    """
    if fabric.reach is not None:
        links = fabric.hops(source, destination, route)
        if len(links) and links.max() > fabric.reach:
            worst = int(np.argmax(links))
            raise VerificationError(f"{name(worst)}: passes {links[worst]} links: light reaches at most {fabric.reach}")
    ends = fabric.blocked_ends()
    if ends is not None:
        dead = np.concatenate([np.zeros((*ends.shape[:2], 1), np.int64), np.cumsum(ends, axis=2)], axis=2)
        for verb, rank in (("begin", source), ("end", destination)):
            broken = np.flatnonzero(dead[rank, route, channel + count] > dead[rank, route, channel])
            if len(broken):
                at = int(broken[0])
                raise VerificationError(
                    f"{name(at)}: no lightpath can {verb} at rank {rank[at]} on one of the {count[at]} channels from "
                    f"{channel[at]} on: its transceiver has failed"
                )
    _check_links(fabric, source, destination, route, channel, count, name)


def _check_links(
    fabric: Fabric, source: Ints, destination: Ints, route: Ints, channel: Ints, count: Ints, name: Callable[[int], str]
) -> None:
    blocked = fabric.blocked()
    if blocked is None:
        return
    from lightloom.collectives.verify import _replay_kernels as kernels

    runs = fabric.footprint(source, destination, route)
    at, link, clash = kernels.first_blocked(runs, channel, count, blocked)
    if at >= 0:
        raise VerificationError(
            f"{name(at)}: no light passes wavelength {clash % fabric.fibre_channels} of fibre "
            f"{clash // fabric.fibre_channels} on the {fabric.link_name(link)}"
        )
