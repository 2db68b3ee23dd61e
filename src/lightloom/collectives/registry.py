"""Every algorithm by name, what it serves and needs; and the only door through which schedules leave: verified."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from lightloom.collectives.cost.price import CostModel
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.spec import FROM_ALL_GATHER, KINDS, ROOTED, Collective, Kind
from lightloom.collectives.verify.stepped import verify
from lightloom.core.errors import UnknownNameError, UnsupportedError
from lightloom.core.fields import MAXIMUM_RANKS
from lightloom.core.plugins import plugins_of
from lightloom.fabrics.base import Fabric


@dataclass(frozen=True, slots=True, kw_only=True)
class Algorithm:
    """One way to carry a collective. ``build(collective, fabric, striped=...)`` returns the schedule, not yet
    verified."""

    name: str
    build: Callable[..., Schedule]
    summary: str
    kinds: tuple[str, ...] = FROM_ALL_GATHER
    striped: bool = False
    """Whether every transfer bundles all the wavelengths it can get."""
    needs: str = "any"
    """"any", "wdm-ring" (wavelengths on a ring), or "in-network" (a reducing switch)."""
    even_ranks: bool = False
    """Whether an odd number of ranks is refused."""
    halves_shares: bool = False
    """Whether the striped form also splits shares between two directions, which helps without wavelengths."""
    by_size: bool = False
    """Whether another size has another schedule, instead of the same one carrying more; it may be queued."""
    declines: Callable[[str, Fabric], str | None] = lambda kind, fabric: None  # noqa: ARG005 - most decline nothing more
    """Why it cannot serve a kind on a fabric, beside what the other fields say."""
    longest_lightpath: Callable[[str, Fabric], int] | None = None
    """Links of its longest lightpath for a kind on a fabric; None where its schedules keep within the fabric's reach
    by construction."""
    least_channels: int = 0
    """Channels a circuit-switched link must have."""
    all_to_all_ranks: int = MAXIMUM_RANKS
    """The most ranks of an all-to-all; less where blocks are passed on, so that rows grow with the ranks' cube."""

    def refusal(self, kind: str, fabric: Fabric, model: CostModel = "physical") -> str | None:
        """Why this algorithm cannot serve that collective on that fabric, charged so; None when it can."""
        if self.by_size and model == "paper":
            return f"{self.name} has no steps that the paper cost model could charge"
        if kind not in self.kinds:
            return f"{self.name} serves {', '.join(self.kinds)}, not {kind}"
        if (self.needs == "in-network") != fabric.in_network_reduction:
            return f"{self.name} " + (
                "needs a switch that reduces in the network"
                if self.needs == "in-network"
                else "sends from rank to rank, and this fabric only reduces in the network"
            )
        if self.needs == "wdm-ring" and not fabric.wavelength_routed:
            return f"{self.name} needs a ring with wavelengths"
        if fabric.blocked() is not None and not self.by_size:
            return f"{self.name} knows nothing of failures"
        if fabric.exclusive and fabric.usable_channels < 1:
            return f"{self.name} sends both ways around, which takes at least 2 transceivers a node"
        if kind == "all-to-all" and fabric.ranks > self.all_to_all_ranks:
            return f"{self.name} serves all-to-all among at most {self.all_to_all_ranks} ranks, not {fabric.ranks}"
        if self.even_ranks and fabric.ranks % 2:
            return f"{self.name} needs an even number of ranks, not {fabric.ranks}"
        if fabric.usable_channels < self.least_channels:
            return f"{self.name} needs {self.least_channels} wavelengths a link, not {fabric.usable_channels}"
        if self.striped and not fabric.exclusive and not self.halves_shares and not self.by_size:
            return f"{self.name} bundles wavelengths, and this fabric has none"
        return self.declines(kind, fabric) or self._beyond_reach(kind, fabric)

    def _beyond_reach(self, kind: str, fabric: Fabric) -> str | None:
        if fabric.reach is None or self.longest_lightpath is None:
            return None
        links = self.longest_lightpath(kind, fabric)
        if links <= fabric.reach:
            return None
        return f"{self.name} needs lightpaths of {links} links, and light reaches {fabric.reach} on this fabric"


@cache
def algorithms() -> dict[str, Algorithm]:
    """Every algorithm, plug-ins included, by name.

    Raises:
        ConfigError: a plug-in registered something that is not an :class:`Algorithm`.
    """
    return {each.name: each for each in [*_built_in(), *plugins_of("algorithms", Algorithm)]}


def _built_in() -> list[Algorithm]:
    from lightloom.collectives.algorithms import (
        binomial_tree,
        halving_doubling,
        in_network,
        longest,
        neighbour_exchange,
        one_stage,
        optree,
        recursive_doubling,
        ring,
        worker_aggregator,
        wrht,
    )
    from lightloom.collectives.synthesis.synthesized import refusal, synthesized

    plain = [
        Algorithm(
            name="ring",
            build=ring.ring,
            longest_lightpath=longest.between_neighbours,
            kinds=(*FROM_ALL_GATHER, *ROOTED),
            summary="pass shares on around the ring, one way",
        ),
        Algorithm(
            name="ring-two-way",
            build=ring.ring_two_way,
            longest_lightpath=longest.between_neighbours,
            kinds=KINDS,
            all_to_all_ranks=128,
            halves_shares=True,
            summary="pass shares on around the ring, both ways",
        ),
        Algorithm(
            name="recursive-doubling",
            build=recursive_doubling.recursive_doubling,
            longest_lightpath=longest.between_doubling_partners,
            summary="exchange everything with partners at distance 1, 2, 4, ...",
        ),
        Algorithm(
            name="halving-doubling",
            build=halving_doubling.halving_doubling,
            longest_lightpath=longest.between_doubling_partners,
            kinds=("all-reduce",),
            summary="recursive halving, then recursive doubling (Rabenseifner)",
        ),
        Algorithm(
            name="neighbour-exchange",
            build=neighbour_exchange.neighbour_exchange,
            longest_lightpath=longest.between_neighbours,
            even_ranks=True,
            summary="pairs swap what they last received, two shares one after the other",
        ),
        Algorithm(
            name="one-stage",
            build=one_stage.one_stage,
            longest_lightpath=longest.between_all_pairs,
            kinds=(*FROM_ALL_GATHER, "all-to-all"),
            summary="every rank straight to every other",
        ),
        Algorithm(
            name="binomial-tree",
            build=binomial_tree.binomial_tree,
            longest_lightpath=longest.along_binomial_edges,
            kinds=(*FROM_ALL_GATHER, *ROOTED),
            summary="up a binomial tree to rank 0, and back",
        ),
        Algorithm(
            name="worker-aggregator",
            build=worker_aggregator.worker_aggregator,
            longest_lightpath=longest.to_the_root,
            kinds=(*FROM_ALL_GATHER, *ROOTED),
            summary="all to rank 0, and back (parameter server)",
        ),
        Algorithm(
            name="wrht",
            build=wrht.wrht,
            longest_lightpath=longest.within_wrht_groups,
            kinds=("all-reduce",),
            needs="wdm-ring",
            summary="groups of 2w+1 to their middle, representatives exchange, and back",
        ),
        Algorithm(
            name="optree",
            build=optree.optree,
            longest_lightpath=longest.between_optree_parts,
            needs="wdm-ring",
            summary="exchange between parts of the ring, then between parts of the parts, ...",
        ),
    ]
    return [
        *plain,
        *(_striped(each) for each in plain),
        Algorithm(
            name="neighbour-exchange-pairs",
            build=neighbour_exchange.neighbour_exchange_pairs,
            longest_lightpath=longest.between_neighbours,
            even_ranks=True,
            needs="wdm-ring",
            least_channels=2,
            summary="pairs swap two shares side by side on two wavelengths",
        ),
        Algorithm(
            name="synthesized",
            build=synthesized,
            kinds=KINDS,
            striped=True,
            by_size=True,
            declines=refusal,
            summary="circuits and trees found for this fabric and this size",
        ),
        Algorithm(
            name="in-network",
            build=in_network.in_network,
            kinds=("all-reduce", "reduce"),
            needs="in-network",
            summary="one step through the reducing switch",
        ),
    ]


def _striped(plain: Algorithm) -> Algorithm:
    return Algorithm(
        name=f"{plain.name}-striped",
        build=plain.build,
        summary=f"{plain.summary}; all wavelengths bundled",
        kinds=plain.kinds,
        striped=True,
        needs=plain.needs,
        even_ranks=plain.even_ranks,
        halves_shares=plain.halves_shares,
        all_to_all_ranks=plain.all_to_all_ranks,
        longest_lightpath=plain.longest_lightpath,
    )


def find(name: str) -> Algorithm:
    """An algorithm by name.

    Raises:
        UnknownNameError: no such algorithm (lists all).
    """
    if name not in algorithms():
        raise UnknownNameError("algorithm", name, algorithms())
    return algorithms()[name]


def admitted(kind: str, fabric: Fabric, model: CostModel = "physical") -> list[Algorithm]:
    """The algorithms that can serve ``kind`` on this fabric, charged so."""
    return [each for each in algorithms().values() if each.refusal(kind, fabric, model) is None]


def build(algorithm: Algorithm, collective: Collective, fabric: Fabric) -> Schedule:
    """Build and verify.

    Raises:
        UnsupportedError: the algorithm cannot serve this (says why).
        VerificationError: the algorithm is wrong.
    """
    refusal = algorithm.refusal(collective.kind, fabric)
    if refusal:
        raise UnsupportedError(refusal)
    schedule = algorithm.build(collective, fabric, striped=algorithm.striped)
    verify(schedule, fabric)
    return schedule


__all__ = ["KINDS", "Algorithm", "Collective", "Kind", "admitted", "algorithms", "build", "find"]
