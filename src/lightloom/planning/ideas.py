"""The five papers' ideas together: the best plan with every set of them, and what each idea is worth.

    v(S)      least seconds of a sample of any plan that may use the ideas in S, on networks of equal bandwidth a rank
    Shapley   mean, over all orders in which ideas arrive, of what an idea takes off v when it arrives; exact, and the
              five add up to v({}) - v(all)

A plan uses the ideas of its network and its exchange. Every rank has one network, so that sets of ideas which need two
have no plan of their own; their v is that of their best part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from math import comb
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np

from lightloom.core.errors import InputError, UnsupportedError
from lightloom.machines.clusters.cluster import Cluster
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.joined import JoinedFabric
from lightloom.machines.fabrics.load import load_fabric
from lightloom.models.graph import ComputeGraph
from lightloom.planning.economics.ledger import ClusterLedger, Site
from lightloom.planning.gradients import PricedExchange
from lightloom.planning.pricing.group_prices import GroupPrices
from lightloom.planning.search.plans import Plan
from lightloom.planning.search.request import STRATEGIES, SearchRequest
from lightloom.planning.search.search import fastest, search

IDEAS: Mapping[str, str] = {
    "placement": "split and placement (SiP-ML)",
    "wavelengths": "trees on wavelengths (OpTree)",
    "mesh": "optical mesh (DaDianNao)",
    "compression": "compression (INCEPTIONN)",
    "averaging": "averaging in light (OptINC)",
}
"""Each paper's proposal in a few words."""
Ideas = frozenset[str]
NONE: Ideas = frozenset()
ALL: Ideas = frozenset(IDEAS)
Equal = Literal["bandwidth", "power", "dollars"]
WAVELENGTH_RATE = 25e9 / 8
"""Bytes per second of a wavelength, as in SiP-ML: a rank of a ring of light has as many as its bandwidth holds."""
_MOST_WAVELENGTHS = 256
"""Wavelengths of a fibre; more bandwidth makes each faster."""
_PASSED_ON = ("ring-two-way-striped", "ring-two-way", "ring-striped", "ring")
"""Algorithms that need no trees of light: shares are passed on around the ring."""
_TREES = (*_PASSED_ON, "optree-striped", "optree")
GROUP = 8
"""Ranks of each of the rings or meshes that averagers join: as many as a node has."""
_ONE_NETWORK = "a rank has one network, and these need two"
_NO_TREES = "operators that are placed send along circuits of their own, and no tree carries that"


class Network(NamedTuple):
    """A network of equal bandwidth a rank, and the ideas that a plan on it may use."""

    name: str
    ideas: Ideas
    fabric: Fabric
    algorithms: tuple[str, ...] = ()
    """Those that exchanges choose among; all of them where empty."""
    method: str = ""
    """Exchange of gradients that the network itself is built for: it adds up light, which takes no compressed
    streams."""


def networks(ranks: int, bandwidth: float) -> list[Network]:
    """Return the networks of ``ranks`` ranks that are compared, an electrical ring first, each with its fabric, the
    algorithms to choose among (all where empty), the exchange method that it is built for ("" for none) and the ideas
    that a plan on it may use (of "placement", "wavelengths", "mesh" and "averaging", each a paper's proposal; none on
    electrical networks): an electrical ring and switch, rings of light (placed, with trees, synthesized), planes of
    circuits, an optical mesh, an averager, and, of a multiple of eight ranks from 16 on, groups of eight that averagers
    join.

    Each rank has ``bandwidth`` bytes per second in all for sending, and as much for receiving: half of it each way
    around a ring, a quarter for each of four planes or links of a mesh. Wavelengths of a ring are of about 25 Gbit/s
    each, at most 256 of them, which together have half the bandwidth, that of one way. Software delays none of the
    networks.
    """
    wavelengths = min(max(1, round(bandwidth / 2 / WAVELENGTH_RATE)), _MOST_WAVELENGTHS)
    light = {"wavelengths": wavelengths, "wavelength_bandwidth": bandwidth / 2 / wavelengths}
    ring = load_fabric("wdm-ring", ranks, set=light)
    planes = load_fabric("circuit-switch", ranks, set={"degree": 4, "bandwidth": bandwidth / 4})
    split, trees, averaging = map(frozenset, (["placement"], ["wavelengths"], ["averaging"]))
    return [
        Network("electrical ring", NONE, load_fabric("ring", ranks, set={"bandwidth": bandwidth / 2})),
        Network("electrical switch", NONE, load_fabric("switch", ranks, set={"bandwidth": bandwidth})),
        Network("ring of light, placed", split, ring, _PASSED_ON),
        Network("planes of circuits", split, planes),
        Network("ring of light, trees", trees, ring, _TREES),
        Network("ring of light, synthesized", trees, ring),
        Network("optical mesh", frozenset({"mesh"}), load_fabric("mesh", ranks, set={"bandwidth": bandwidth / 4})),
        Network(
            "averager",
            averaging,
            load_fabric("optical-averager", ranks, set={"bandwidth": bandwidth}),
            method="optical",
        ),
        *_with_averagers(ranks, bandwidth, light),
    ]


def _with_averagers(ranks: int, bandwidth: float, light: Mapping[str, float]) -> Iterator[Network]:
    """Yield networks of groups of eight ranks on rings of light, planes of circuits or meshes, of which averagers join
    the ranks at the same place of all groups, groups and averagers each with half of ``bandwidth`` (bytes per second of
    a rank); nothing unless the ranks are a multiple of eight and at least 16. ``light`` are the fields of a ring of
    light at full bandwidth."""
    if ranks % GROUP or ranks < 2 * GROUP:
        return
    between = load_fabric("optical-averager", ranks // GROUP, set={"bandwidth": bandwidth / 2})
    ring = load_fabric("wdm-ring", GROUP, set={**light, "wavelength_bandwidth": light["wavelength_bandwidth"] / 2})
    planes = load_fabric("circuit-switch", GROUP, set={"degree": 4, "bandwidth": bandwidth / 8})
    for name, idea, inside, algorithms in (
        ("rings of light", "wavelengths", ring, ()),
        ("rings of light, placed,", "placement", ring, (*_PASSED_ON, "in-network")),
        ("planes of circuits", "placement", planes, ()),
        ("meshes", "mesh", load_fabric("mesh", GROUP, set={"bandwidth": bandwidth / 8}), ()),
    ):
        joined = JoinedFabric(ranks=ranks, inside=inside, between=between)
        method = f"two-level:node={GROUP},between=(optical)"
        yield Network(f"{name} with averagers", frozenset({idea, "averaging"}), joined, algorithms, method)


def equal_networks(ranks: int, bandwidth: float, equal: Equal, site: Site) -> tuple[list[Network], dict[str, str]]:
    """Return the networks of :func:`networks` (electrical and optical ones, with the ideas that a plan may use on each)
    at equal bandwidth a rank, or of at most the power or the price of the electrical ring with that bandwidth, each
    with the most bandwidth, tried up to about 360 times as much, that costs no more; and, by name, the reasons of
    networks that are left out because a part has no such figure or they cost more at any bandwidth tried, down to 1/256
    of that given.

    Args:
        ranks: ranks of each network.
        bandwidth: bytes per second of a rank, that of the electrical ring.
        equal: what is equal, "bandwidth", "power" or "dollars".
        site: choices and prices of parts.

    Raises:
        UnsupportedError: the power or the price of the electrical ring is not known.
    """
    found = networks(ranks, bandwidth)
    if equal == "bandwidth":
        return found, {}
    most, lacks = _spent(found[0].fabric, equal, site)
    if lacks:
        why = f"no {equal} of {lacks[0]} is known"
        raise UnsupportedError(f"--equal {equal}: {why}: expected another --bandwidth, or --equal bandwidth")
    kept, refused = found[:1], dict[str, str]()
    for place, network in enumerate(found[1:], 1):

        def fits(rate: float, place: int = place) -> bool:
            """Return whether the network with so many bytes per second a rank costs no more, and all of it is known."""
            spent, missing = _spent(networks(ranks, rate)[place].fabric, equal, site)
            return spent <= most and not missing

        low = next((rate for rate in bandwidth * _FACTORS if fits(rate)), None)
        if low is None:
            _, missing = _spent(network.fabric, equal, site)
            refused[network.name] = (
                f"no {equal} of {missing[0]} is known" if missing else f"more {equal} at any bandwidth"
            )
            continue
        high = low * _FACTORS[0] / _FACTORS[1]
        for _ in range(12):
            middle = (low * high) ** 0.5
            low, high = (middle, high) if fits(middle) else (low, middle)
        kept.append(networks(ranks, low)[place])
    return kept, refused


_FACTORS = 2.0 ** np.arange(8, -8.5, -0.5)
"""Factors of a bandwidth, the largest first, at which a network is tried for what it costs."""


def _spent(fabric: Fabric, equal: Equal, site: Site) -> tuple[float, tuple[str, ...]]:
    """Return the watts (``equal`` "power") or else dollars of a rank's share of a fabric, as far as known, and the
    names of the parts without a figure."""
    ledger = ClusterLedger.of_fabric(fabric, site)
    total = ledger.static_power if equal == "power" else ledger.dollars
    return total.value or 0.0, tuple(part.removeprefix("power of ").removeprefix("price of ") for part in total.missing)


class Best(NamedTuple):
    """The best plan of a network, with the ideas that it uses."""

    ideas: Ideas
    network: str
    plan: Plan
    request: SearchRequest
    """Request whose winner it is, on the cluster of the plan."""

    @property
    def time(self) -> float:
        """Seconds of a sample by the plan."""
        return self.plan.sample_time


@dataclass(frozen=True, kw_only=True)
class Composed:
    """The best plans of a model with every set of ideas."""

    graph: ComputeGraph
    found: tuple[Best, ...]
    """The best plan of each network and exchange."""
    tried: frozenset[Ideas]
    """Sets of ideas of which a plan was found that may use them all."""
    refused: Mapping[str, str]
    """Why networks and exchanges have no plan, by name."""

    @cached_property
    def values(self) -> Mapping[Ideas, Best]:
        """The fastest plan of all networks (with its network and the ideas that it uses) that uses no ideas but those
        of the set, for each of the 32 sets of the five ideas (placement, wavelengths, mesh, compression, averaging); of
        equally fast ones that of fewer ideas."""
        return {
            ideas: min(
                (best for best in self.found if best.ideas <= ideas), key=lambda best: (best.time, len(best.ideas))
            )
            for ideas in subsets()
        }

    @property
    def baseline(self) -> Best:
        """The best electrical plan, which uses no idea."""
        return self.values[NONE]

    @property
    def best(self) -> Best:
        """The fastest plan of all sets of ideas."""
        return self.values[ALL]

    def shapley(self) -> dict[str, float]:
        """Return the Shapley value of each idea by name, in seconds of a sample that it takes off; they add up to what
        all ideas together take off."""
        return shapley({ideas: best.time for ideas, best in self.values.items()})

    def impossible(self) -> dict[Ideas, str]:
        """Return the sets of ideas that no plan was found to use together, each with the reason in words; only the
        smallest ones, without sets that hold another such set; sets that are part of one used together are possible."""
        found: dict[Ideas, str] = {}
        for ideas in subsets():
            if not any(ideas <= each for each in self.tried) and not any(smaller < ideas for smaller in found):
                found[ideas] = self.refused.get(" + ".join(sorted(ideas)), _ONE_NETWORK)
        return found


def subsets() -> Iterator[Ideas]:
    """Yield all 32 sets of the five ideas, the smaller ones first, the empty one included."""
    for size in range(len(IDEAS) + 1):
        yield from map(frozenset, combinations(IDEAS, size))


def shapley(times: Mapping[Ideas, float]) -> dict[str, float]:
    """Return the Shapley value of each idea: the mean, over all orders in which ideas arrive, of the seconds that it
    takes off. ``times`` has the seconds of a sample of every one of the 32 sets."""
    count = len(IDEAS)
    return {
        idea: sum(
            (times[ideas] - times[ideas | {idea}]) / (count * comb(count - 1, len(ideas)))
            for ideas in times
            if idea not in ideas
        )
        for idea in IDEAS
    }


def compose(
    graph: ComputeGraph,
    cluster: Cluster,
    candidates: Sequence[Network],
    exchanges: Sequence[PricedExchange],
    request: SearchRequest,
    *,
    built_in: Mapping[str, PricedExchange] = MappingProxyType({}),
    advance: Callable[[], None] = lambda: None,
) -> Composed:
    """Return the best plan of each network, with the ideas that it uses, with gradients as they are and with compressed
    ones (of which one that does not compress may be the best); on networks with the idea "placement" the best placed
    plan takes its place where that is faster. On electrical networks each method of ``exchanges`` gives a plan of its
    own, on others the best of them counts, and networks that are built for a method have that (gradients as they are
    only where it gives no plan). Networks without a plan are left out, with the reason by their name in ``refused`` of
    what is returned, which also says why sets of ideas cannot be used together.

    Args:
        graph: the model, at any batch.
        cluster: accelerators and training settings; its fabric is replaced.
        candidates: networks of as many ranks, an electrical one first.
        exchanges: methods that compress gradients.
        request: batch and pins; its strategies, algorithms and exchanges are replaced by those of each network. Where
            it states no batch, all networks have that of the first plan found.
        built_in: the methods that networks are built for, by the network's ``method``.
        advance: called before each search.

    Raises:
        UnsupportedError: no electrical network has a plan.
    """
    found: list[Best] = []
    tried: set[Ideas] = set()
    refused = {"placement + wavelengths": _NO_TREES}
    request = replace(request, compare=False, divisions=1)

    def best(network: Network, methods: tuple[PricedExchange, ...]) -> Best | None:
        """Return the fastest plan on a network with gradients as they are or by one of the methods; None, with the
        reason among ``refused``, where there is none."""
        nonlocal request
        advance()
        asked = replace(request, strategies=STRATEGIES, algorithms=network.algorithms, exchanges=methods)
        own = replace(cluster, name=network.name, fabric=network.fabric, reference=None, sources={})
        try:
            plan = search(graph, own, asked).winner
        except InputError as error:
            refused[network.name] = str(error)
            return None
        if request.global_batches is None:
            request = replace(request, global_batches=(plan.global_batch,))
            asked = replace(asked, global_batches=request.global_batches)
        if "placement" in network.ideas:
            placing = replace(asked, strategies=("placed",))
            with suppress(InputError):
                exchanged = placing.exchanges_on(own.accelerator)
                prices = GroupPrices(own.fabric, own.training, placing.cost_model, exchanged, placing.algorithms)
                # An error where no placed plan is faster, which is cheaper to find than the fastest one.
                fastest(graph, own, placing, plan.sample_time, prices=prices)
                plan, asked = search(graph, own, placing, prices=prices).winner, placing
        tried.add(network.ideas | ({"compression"} if methods and not network.method else NONE))
        used = network.ideas | ({"compression"} if plan.gradient_exchange and not network.method else NONE)
        return Best(used, network.name, plan, asked)

    for network in candidates:
        if network.method:
            ways: list[tuple[PricedExchange, ...]] = [(built_in[network.method],)]
            if exchanges:
                refused["averaging + compression"] = exchanges[0].refusal("all-reduce", in_network=True, stride=1) or ""
        else:
            # Each method has a row on the electrical networks; elsewhere the best of them counts.
            ways = [(method,) for method in exchanges] if network.ideas == NONE else [tuple(exchanges)]
        plans = [each for methods in ways if (each := best(network, methods)) is not None]
        found += plans
        # Without a compressed winner, gradients as they are have been found already.
        if all("compression" in each.ideas for each in plans) and ways != [()]:
            found += filter(None, [best(network, ())])
    if not any(each.ideas == NONE for each in found):
        reasons = [refused[network.name] for network in candidates if network.name in refused]
        raise UnsupportedError(f"no electrical network has a plan: {(*reasons, 'none was given')[0]}")
    return Composed(graph=graph, found=tuple(found), tried=frozenset(tried), refused=refused)
