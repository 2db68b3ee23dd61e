"""What hypothesis draws: fabrics of every kind, collectives, and an algorithm that fits both."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from hypothesis import strategies as st

from lightloom.collectives.algorithm import Algorithm
from lightloom.collectives.collective import KINDS, SIZED, Collective, Sizes, zipf_sizes
from lightloom.collectives.registry import admitted
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.graph import Edge, Graph
from lightloom.machines.fabrics.load import kinds
from lightloom.machines.fabrics.tiers.tier import Tier
from lightloom.machines.fabrics.tiers.tiers import Tiers
from lightloom.machines.fabrics.wdm_ring import WdmRing

LATENCY = st.sampled_from([0.0, 1e-7, 1e-6, 1e-4])
SIZE = st.one_of(st.just(0.0), st.floats(min_value=1.0, max_value=1e10))


def wdm_ring(ranks: int, wavelengths: int, **fields: object) -> WdmRing:
    """A WDM ring as OpTree simulates it, but for the given fields."""
    return WdmRing.model_validate({"ranks": ranks, "wavelengths": wavelengths} | fields)


def two_tiers(
    ranks: int,
    *,
    domain_size: int = 8,
    domain_bandwidth: float = 450e9,
    domain_latency: float = 0.0,
    bandwidth: float = 50e9,
    taper: float = 1.0,
    **fields: Any,
) -> Tiers:
    """Domains of a few ranks on a fast switch, joined by a fat tree through one network port a rank."""
    domain = Tier(name="domain", shape="switch", size=domain_size, bandwidth=domain_bandwidth, latency=domain_latency)
    network = Tier(name="network", shape="switch", bandwidth=bandwidth, taper=taper)
    return Tiers(ranks=ranks, tiers=(domain, network), **fields)


@st.composite
def wdm_rings(draw: st.DrawFn, largest: int = 40) -> WdmRing:
    return WdmRing(
        ranks=draw(st.integers(2, largest)),
        wavelengths=draw(st.integers(1, 20)),
        fibres=draw(st.integers(1, 3)),
        hop_latency=draw(LATENCY),
        reconfiguration_time=draw(LATENCY),
        conversion_time=draw(LATENCY),
        transceivers=draw(st.none() | st.integers(2, 60)),
    )


@st.composite
def _sizes(draw: st.DrawFn, largest: int) -> tuple[int, ...]:
    """One to three sizes from 2 on whose product is at most ``largest``."""
    sizes = [draw(st.integers(2, min(largest, 6)))]
    while len(sizes) < 3 and prod(sizes) * 2 <= largest and draw(st.booleans()):
        sizes.append(draw(st.integers(2, min(largest // prod(sizes), 6))))
    return tuple(sizes)


@st.composite
def _tier(draw: st.DrawFn, size: int, child: int, beneath: Tier | None) -> Tier:
    """A tier of ``size`` children of ``child`` ranks each."""
    shape = draw(st.sampled_from(["switch", "switch", "ring", "torus", "mesh", "full-mesh", "circuit-switch"]))
    fields = {
        "shape": shape,
        "size": size,
        "bandwidth": draw(st.sampled_from([1e9, 8e9, 50e9])),
        "latency": draw(st.none() | LATENCY),
        "through_switch": beneath is not None and beneath.shape == "switch" and draw(st.booleans()),
        "ports": draw(st.none() | st.sampled_from([n for n in range(1, child + 1) if child % n == 0])),
    }
    if shape in ("torus", "mesh", "circuit-switch") and size % 2 == 0 and size > 2:
        fields |= {"size": None, "dims": (2, size // 2)}
    if shape == "circuit-switch" and beneath is not None and beneath.shape in ("torus", "mesh", "circuit-switch"):
        # Circuits that continue a torus make a larger one, which the next ones continue.
        fields |= {"bandwidth": beneath.bandwidth, "ports": beneath.ports, "latency": None}
    if shape == "switch":
        fields["separate_rails"] = draw(st.booleans())
        if not fields["separate_rails"] or fields["through_switch"]:
            fields["taper"] = draw(st.none() | st.sampled_from([1.0, 2.0]))
    return Tier.model_validate(fields)


@st.composite
def tier_fabrics(draw: st.DrawFn, largest: int = 40) -> Tiers:
    """Up to three tiers of every shape around each other."""
    tiers: list[Tier] = []
    child = 1
    for size in draw(_sizes(largest)):
        tiers.append(draw(_tier(size, child, tiers[-1] if tiers else None)))
        child *= size
    return Tiers(ranks=child, tiers=tuple(tiers), hop_latency=draw(LATENCY))


@st.composite
def graphs(draw: st.DrawFn, largest: int = 40) -> Graph:
    """Ranks and up to three switches on a random tree, with some more links."""
    ranks = draw(st.integers(2, largest))
    names: list[int | str] = [*range(ranks), *(f"switch {number}" for number in range(draw(st.integers(0, 3))))]
    bandwidth = st.sampled_from([1e9, 8e9])
    edges = [
        Edge(name, names[draw(st.integers(0, place - 1))], draw(bandwidth), draw(st.none() | LATENCY))
        for place, name in enumerate(names)
        if place
    ]
    for _ in range(draw(st.integers(0, 5))):
        one, other = draw(st.permutations(range(len(names))))[:2]
        edges.append(Edge(names[one], names[other], draw(bandwidth)))
    return Graph(ranks=ranks, edges=tuple(edges), hop_latency=draw(LATENCY))


@st.composite
def fabrics(draw: st.DrawFn, largest: int = 40) -> Fabric:
    kind = draw(st.sampled_from(sorted(set(kinds()) - {"damaged-wdm-ring", "joined"})))
    if kind == "wdm-ring":
        return draw(wdm_rings(largest))
    fields: dict[str, object] = {"ranks": draw(st.integers(2, largest)), "hop_latency": draw(LATENCY)}
    if kind == "graph":
        return draw(graphs(largest))
    if kind == "tiers":
        return draw(tier_fabrics(largest))
    if kind in ("mesh", "torus") and draw(st.booleans()):
        fields["dims"] = dims = draw(_sizes(largest))
        fields["ranks"] = prod(dims)
    if kind == "circuit-switch":
        fields["degree"] = draw(st.integers(1, 9))
        fields["reconfiguration_time"] = draw(LATENCY)
    return kinds()[kind].model_validate(fields)


@st.composite
def packet_fabrics(draw: st.DrawFn, largest: int = 40) -> Fabric:
    """Fabrics whose ranks send packets to each other."""
    return draw(fabrics(largest).filter(lambda fabric: not fabric.exclusive and not fabric.in_network_reduction))


@st.composite
def jobs(
    draw: st.DrawFn, fabric: st.SearchStrategy[Fabric] | None = None, names: tuple[str, ...] = ()
) -> tuple[Algorithm, Collective, Fabric]:
    """An algorithm, one of these names where there are some, and a collective and fabric that it serves."""
    on = draw(fabric if fabric is not None else fabrics())
    choices = [(a, kind) for kind in KINDS for a in admitted(kind, on) if not names or a.name in names]
    algorithm, kind = draw(st.sampled_from(choices))
    return algorithm, draw(collectives(kind, on.ranks)), on


@st.composite
def collectives(draw: st.DrawFn, kind: str, ranks: int) -> Collective:
    """One of a kind, of any size, permutation and sizes of parts."""
    nbytes, destinations, sizes = 0.0 if kind == "barrier" else draw(SIZE), None, None
    if kind == "permute":
        moved = st.permutations(range(ranks)).filter(lambda to: to != list(range(ranks)))
        destinations = draw(st.none() | moved.map(tuple))
    if kind in SIZED:
        sizes = draw(sizes_of_parts(ranks, pairs=kind == "all-to-all-v"))
    return Collective(kind, ranks, nbytes, destinations, sizes)  # type: ignore[arg-type]


@st.composite
def sizes_of_parts(draw: st.DrawFn, ranks: int, *, pairs: bool) -> Sizes:
    """Sizes by Zipf's law, or any, most of them none."""
    exponent, seed = draw(st.floats(0, 3)), draw(st.integers(0, 9))
    sizes = zipf_sizes(ranks, exponent, seed, pairs=pairs)
    if draw(st.booleans()):
        return sizes
    rng = np.random.default_rng(seed)
    share = rng.exponential(size=sizes.share.shape) * (
        rng.random(sizes.share.shape) < draw(st.sampled_from([0.1, 0.9]))
    )
    share.flat[1] += 1.0
    return Sizes(share)


def collective_of(kind: str, ranks: int, nbytes: float) -> Collective:
    """One of a kind: skewed where its parts have sizes of their own, without bytes where it has none."""
    sizes = zipf_sizes(ranks, 1.2, pairs=kind == "all-to-all-v") if kind in SIZED else None
    return Collective(kind, ranks, 0.0 if kind == "barrier" else nbytes, sizes=sizes)  # type: ignore[arg-type]
