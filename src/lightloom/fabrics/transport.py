"""What a collective library reaches on the links of nodes and of the network between them.

    inside a node    ring: base latency, a latency for each step, a fraction of the links' bandwidth
    between nodes    every rank of a node sends over its own port: a latency for each doubling of the ranks, a fraction
                     of the ports' bandwidth

Verified schedules and the library's own collectives (:mod:`lightloom.collectives.cost.library`) see the same links.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, NamedTuple, Self, TypeAlias

import numpy as np
from pydantic import Field, model_validator

from lightloom.core.arrays import Ints
from lightloom.core.fields import Config, Seconds
from lightloom.core.priors import Prior
from lightloom.transports.base import Transport as ProtocolTransport
from lightloom.transports.ways import Tiers

Fraction = Annotated[float, Field(gt=0, le=1)]

PRIORS: Mapping[str, Prior] = {
    "node_latency": Prior(
        value=20e-6,
        spread=0.5,
        unit="s",
        meaning="base latency of a collective inside a node",
        source="NCCL, src/graph/tuning.cc: 8.4 us (Simple) or 10 us (LL128) of base latency of a ring; a launch added",
    ),
    "peer_latency": Prior(
        value=5e-6,
        spread=0.5,
        unit="s",
        meaning="latency that each peer of an all-reduce adds",
        source="NCCL, src/graph/tuning.cc: a ring's step on NVLink takes 1.9 us (LL128) or 3.4 us (Simple), two a peer",
    ),
    "node_fraction": Prior(
        value=0.77,
        spread=0.15,
        most=1.0,
        meaning="reached fraction of the bandwidth inside a node",
        source="between 200 GB/s of 300 on 8 A100 (NVIDIA/nccl-tests, issue 149) and what NVLink's packets carry, 282",
    ),
    "network_fraction": Prior(
        value=0.75,
        spread=0.2,
        most=1.0,
        meaning="reached fraction of the bandwidth of a node's network",
        source="assumption",
    ),
    "network_latency": Prior(
        value=30e-6,
        spread=0.7,
        unit="s",
        meaning="latency across nodes: of a send, and of each doubling of a collective's ranks",
        source="assumption",
    ),
    "arithmetic_share": Prior(
        value=0.15,
        spread=1.0,
        most=1.0,
        meaning="share of an accelerator's arithmetic that exchanges take from computing beside them; 1 hides nothing",
        source="assumption: NCCL's kernels hold up to 24 of 108 (A100) to 132 (H100) multiprocessors, not always",
    ),
}
"""Priors of the parameters that a calibration may change, where a :class:`Transport` states no others."""


class Transport(Config):
    """What a collective library reaches; a calibration replaces the values, the catalog's are priors."""

    node_latency: Seconds = PRIORS["node_latency"].value
    """Base latency of a collective inside a node, in seconds."""
    peer_latency: Seconds = PRIORS["peer_latency"].value
    """Seconds that each peer of an all-reduce inside a node adds, in two steps of a ring."""
    node_fraction: Fraction = PRIORS["node_fraction"].value
    """Reached fraction of the bandwidth inside a node."""
    network_fraction: Fraction = PRIORS["network_fraction"].value
    """Reached fraction of the bandwidth of the ports into the network."""
    network_latency: Seconds = PRIORS["network_latency"].value
    """Seconds of a message across nodes, and of each doubling of a collective's ranks."""
    arithmetic_share: Annotated[float, Field(ge=0, le=1)] = PRIORS["arithmetic_share"].value
    """Share of an accelerator's arithmetic that exchanges take from computing beside them, for whatever reason."""
    spreads: dict[str, float] = Field(default_factory=dict)
    """Standard deviation of a parameter's logarithm, where it is not the one of :data:`PRIORS`."""
    sources: dict[str, str] = Field(default_factory=dict)
    """Source of a parameter, where it is not the one of :data:`PRIORS`."""

    @model_validator(mode="after")
    def _known_parameters(self) -> Self:
        unknown = (self.spreads.keys() | self.sources.keys()) - PRIORS.keys()
        if unknown:
            raise ValueError(f"spreads and sources of unknown parameters: {', '.join(sorted(unknown))}")
        return self

    def priors(self) -> dict[str, Prior]:
        """Return the prior of every parameter that a calibration may change."""
        return {
            name: prior._replace(
                value=getattr(self, name),
                spread=self.spreads.get(name, prior.spread),
                source=self.sources.get(name, prior.source),
            )
            for name, prior in PRIORS.items()
        }


class LibraryLinks(NamedTuple):
    """Links of nodes and of the network between them, as a collective library reaches them."""

    node_ranks: int
    """Ranks of a node, which are neighbours."""
    node_rate: float
    """Bytes per second of a rank inside its node, each way."""
    network_rate: float
    """Bytes per second of a rank's port into the network, each way, while all ports are busy."""
    node_latency: float
    """Seconds of a collective inside a node, besides those of its steps."""
    peer_latency: float
    """Seconds that each peer of an all-reduce inside a node adds."""
    network_latency: float
    """Seconds of a message across nodes."""


def ranks_in_node(node_ranks: int, ranks: Ints, stride: Ints) -> Ints:
    """Return how many of the ranks of each group, which lie ``stride`` apart, one node holds: [groups]."""
    together: Ints = np.clip(node_ranks // stride, 1, ranks)
    return together


class LibraryWays(NamedTuple):
    """Ways of a collective library with protocols over two tiers, such as NCCL's (:mod:`lightloom.transports`)."""

    tiers: Tiers
    transport: ProtocolTransport

    @property
    def node_ranks(self) -> int:
        """Ranks of a domain, which are neighbours."""
        return self.tiers.domain

    def group(self, ranks: int, stride: int) -> LibraryWays:
        """The library of a group whose ranks lie ``stride`` apart; fewer of them share a domain."""
        together = ranks_in_node(self.tiers.domain, np.array(ranks), np.array(stride))
        return self._replace(tiers=self.tiers._replace(domain=int(together)))


Library: TypeAlias = LibraryLinks | LibraryWays
"""What a fabric says of its collective library."""
