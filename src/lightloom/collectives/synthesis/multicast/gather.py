"""All-gather by light that is tapped on its way: every rank's share over standing lightpaths with several destinations.

Drop and continue serves ranks that follow each other with one use of every link, however few the hops; with a limit on
the taps of a lightpath, pieces hop from one to the next. Whether light is bright enough for so many taps:
:mod:`lightloom.photonics.link_budget`.
"""

from __future__ import annotations

from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.spec import Collective
from lightloom.collectives.synthesis.engine.effort import effort
from lightloom.collectives.synthesis.engine.queues import ring_schedule
from lightloom.collectives.synthesis.engine.trees import Timing
from lightloom.collectives.synthesis.multicast.search import MulticastSearch
from lightloom.collectives.synthesis.multicast.trees import Arc, MulticastDesign
from lightloom.core.errors import UnsupportedError
from lightloom.fabrics.base import Fabric

_EFFORT = 0.6
"""Of the effort of a search for chords: taps make a reception dearer."""


def multicast(collective: Collective, fabric: Fabric) -> Schedule:
    """A queued schedule on standing lightpaths with taps, not yet verified.

    Raises:
        UnsupportedError: no all-gather, or lightpaths that serve one rank only.
    """
    if collective.kind != "all-gather":
        raise UnsupportedError(f"multicast of light serves all-gather, not {collective.kind}")
    if fabric.taps < 2:
        raise UnsupportedError("multicast of light needs lightpaths with taps: set multicast_taps")
    ranks, channels = fabric.ranks, fabric.usable_channels
    nbytes = max(collective.nbytes_per_rank, 1.0)
    timing = Timing(fabric.channel_bandwidth, fabric.step_overhead, fabric.hop_latency, fabric.piece_overhead)
    bound = timing.hop + fabric.neighbour_latency() + (ranks - 1) * nbytes / (2 * channels * timing.bandwidth)
    search = MulticastSearch(ranks, channels, fabric.taps, fabric.reach, nbytes, timing, bound=bound)
    design, trees = search.run(int(_EFFORT * effort(ranks)))
    return ring_schedule(collective, fabric, trees, _note(design, fabric))


def _note(design: MulticastDesign, fabric: Fabric) -> str:
    kinds = "; ".join(_arc(arc, fabric.ranks) for arc in design.arcs)
    return f"{kinds}; every share travels in {design.pieces} pieces"


def _arc(arc: Arc, ranks: int) -> str:
    hubs = "every rank" if arc.hubs == ranks else f"each of {arc.hubs} hubs"
    stride = "next" if arc.spacing == 1 else f"{arc.spacing} apart"
    stride += f" and {arc.between} between any two" if arc.between else ""
    return f"lightpaths from {hubs} to {arc.taps} ranks {stride}, {arc.width} wavelengths wide"
