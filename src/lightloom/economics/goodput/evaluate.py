"""The goodput of a cluster from its description: what the command, the Python API and plans call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from lightloom.clusters.base import Cluster
from lightloom.core.errors import ConfigError
from lightloom.economics.goodput.estimate import MONTH, Estimate, Machine, estimate
from lightloom.economics.goodput.events import Played, World, simulate
from lightloom.economics.goodput.options import GoodputOptions, options_of
from lightloom.economics.ledger import ClusterLedger

_MOST_RANKS = 10_000_000


def machine_of(cluster: Cluster, options: GoodputOptions, ledger: ClusterLedger | None = None) -> Machine:
    """Return what is estimated of a cluster: its bill, and how many ranks fail together.

    Raises:
        ConfigError: a node with more ranks than the cluster.
    """
    ledger = ledger or ClusterLedger.of(cluster)
    (host,) = (line.part for line in ledger.hosts.lines)
    if options.node_ranks is not None:
        ranks, source = options.node_ranks, "given"
    elif host.serves > 1:
        ranks, source = min(host.serves, cluster.ranks), f"a node has {host.serves} ranks: {host.name}"
    elif cluster.fabric.node_ranks < cluster.ranks:
        ranks = cluster.fabric.node_ranks
        source = f"assumption: a node has {ranks} ranks, those of the fabric's innermost domain"
    else:
        ranks, source = 1, "assumption: every rank is a node of its own"
    if ranks > cluster.ranks:
        raise ConfigError(f"node_ranks={ranks}: expected at most the {cluster.ranks} ranks of {cluster.name}")
    return Machine(
        name=cluster.name,
        ranks=cluster.ranks,
        fabric=cluster.fabric,
        bill=ledger.bill,
        node_ranks=ranks,
        node_source=source,
    )


def estimate_cluster(
    cluster: Cluster,
    options: GoodputOptions | Mapping[str, object] | None = None,
    *,
    ranks: int | None = None,
    price_damage: bool = True,
) -> Estimate:
    """Return the goodput of a job on all of a cluster.

    Args:
        cluster: where the job runs.
        options: inputs; see :class:`GoodputOptions`.
        ranks: ranks of the job in the place of the cluster's, with as many parts for each.
        price_damage: whether damage is priced by synthesis, which takes seconds on rings of wavelengths.

    Raises:
        InputError: an option that cannot be read, is out of range or contradicts another.
    """
    chosen = options_of(options)
    machine = machine_of(cluster, chosen)
    if ranks is not None:
        if not machine.node_ranks <= ranks <= _MOST_RANKS:
            raise ConfigError(
                f"{ranks} ranks of the job: expected {machine.node_ranks}, one node, to {_MOST_RANKS:,} ranks"
            )
        machine = replace(machine, ranks=ranks)
    return estimate(machine, chosen, price_damage=price_damage)


def play(estimated: Estimate, months: float, runs: int, seed: int, world: World) -> Played:
    """Return months of training, played event by event; steps that damage slows enter by their mean speed.

    Raises:
        ConfigError: no run, or more nodes than can be played.
    """
    played = simulate(estimated.job, months * MONTH, runs=runs, seed=seed, world=world)
    speed = estimated.speed
    return replace(
        played, goodput=played.goodput * speed, error=played.error * speed, shares=played.shares.at_speed(speed)
    )


class ClusterGoodput(NamedTuple):
    """What plans show of goodput."""

    most: float
    """Share of the time that trains, an upper bound where causes are missing."""
    missing: tuple[str, ...]
    """Causes of failures that nothing states."""
    spare_share: float
    """Spare nodes over the nodes in use; they cost and draw as much."""


def goodput_of(cluster: Cluster, ledger: ClusterLedger) -> ClusterGoodput:
    """Return the goodput that plans show.

    Checkpoints, restarts, repairs and spares are the defaults of ``lightloom goodput``; damage is not priced.
    """
    options = GoodputOptions()
    result = estimate(machine_of(cluster, options, ledger), options, price_damage=False)
    return ClusterGoodput(result.most_goodput, result.missing, result.job.spares / result.job.nodes)
