"""When an exchange of gradients pays: steps of data parallelism with and without it."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product

from lightloom.core.arrays import Effort
from lightloom.core.errors import UnsupportedError
from lightloom.machines.clusters.cluster import Cluster
from lightloom.models.graph import ComputeGraph
from lightloom.planning.gradients import PricedExchange
from lightloom.planning.parallelism.strategy_space import Strategy
from lightloom.planning.pricing.group_prices import AUTO, GroupPrices
from lightloom.planning.pricing.job import Job
from lightloom.planning.pricing.strategy_step import data_parallel_seconds

# Over models, link speeds and ranks.
#
# Replicas hold the whole model, gradients are exchanged bucket by bucket behind the backward pass: by the fabric's
# collective library where it states one, else by the cheapest of a few algorithms, with and without a method alike.

ALGORITHMS = ("ring", "one-stage")
"""Algorithms without a library: rings for all-reduces and gathers, straight sends for all-to-alls."""
_BISECTIONS: Effort = 14


@dataclass(frozen=True, slots=True)
class SetUp:
    """One model on one number of ranks at one speed of links."""

    model: str
    ranks: int
    bandwidth: float
    """Bytes per second of each rank's link."""
    plain: float
    """Seconds of a step with gradients as they are."""
    methods: tuple[tuple[str, float], ...]
    """(method, seconds of a step)."""

    def speedup(self, method: str) -> float:
        """Return the time of a step with gradients as they are over that of a step with a method, by its name: above 1
        where it pays.

        Raises:
            KeyError: the method was not tried.
        """
        return self.plain / dict(self.methods)[method]

    def best(self, methods: Iterable[str]) -> tuple[str, float]:
        """Return the name of the method of the largest speed-up among these names (of equal ones the first), and that
        speed-up, the time without the method over that with it.

        Raises:
            KeyError: a method was not tried.
            ValueError: there are no names.
        """
        return max(((name, self.speedup(name)) for name in methods), key=lambda entry: entry[1])


@dataclass(frozen=True, slots=True)
class Trial:
    """A model, a batch and exchange methods whose data-parallel steps are compared on any cluster."""

    graph: ComputeGraph
    exchanges: tuple[PricedExchange, ...]
    samples: int
    """Samples of a rank."""

    def seconds(self, cluster: Cluster) -> list[float]:
        """Return the seconds of a data-parallel step on a cluster with gradients as they are, then with each method in
        order. Exchanges go by the fabric's collective library where it states one, else by the cheaper of rings and
        straight sends. Each rank has the trial's number of samples; methods run at the rates of the cluster's
        accelerator where they name no engine.

        Raises:
            UnsupportedError: a method does not serve the ranks.
        """
        exchanges = tuple(exchange.on(cluster.accelerator) for exchange in self.exchanges)
        choices = () if cluster.fabric.library else ALGORITHMS
        prices = GroupPrices(cluster.fabric, cluster.training, exchanges=exchanges, choices=choices)
        job = Job.of(self.graph, cluster.accelerator, cluster.fabric, cluster.training, prices, exchanges=exchanges)
        ranks = cluster.ranks
        plain = Strategy(ranks, 1, 1, 1, self.samples * ranks, "none", "none", AUTO, 0)
        found = [data_parallel_seconds(job, plain)]
        for number in range(1, len(exchanges) + 1):
            if (why := prices.refusal("all-reduce", AUTO, ranks, number)) is not None:
                raise UnsupportedError(f"{exchanges[number - 1].name} on {ranks} ranks: {why}")
            found.append(data_parallel_seconds(job, plain._replace(exchange=number)))
        return found


def set_ups(
    trials: Sequence[Trial],
    ranks: Sequence[int],
    bandwidths: Sequence[float],
    cluster: Callable[[int, float], Cluster],
    advance: Callable[[], None] = lambda: None,
) -> list[SetUp]:
    """Return one set-up for every model on every number of ranks at every speed of links, the speeds varying fastest,
    then the numbers of ranks: ``model``, ``ranks``, ``bandwidth``, ``plain`` (seconds of a step with gradients as they
    are) and ``methods``, pairs of a method's name and the seconds of a step with it.

    Args:
        trials: the models, each with its methods.
        ranks: numbers of ranks.
        bandwidths: speeds of links in bytes per second.
        cluster: makes the cluster of a number of ranks and a speed.
        advance: called after each set-up.

    Raises:
        UnsupportedError: a method does not serve the ranks.
    """
    rows = []
    for trial, count, bandwidth in product(trials, ranks, bandwidths):
        plain, *others = trial.seconds(cluster(count, bandwidth))
        methods = tuple(zip((exchange.name for exchange in trial.exchanges), others, strict=True))
        rows.append(SetUp(trial.graph.name, count, bandwidth, plain, methods))
        advance()
    return rows


def break_even_bandwidth(
    trial: Trial, ranks: int, cluster: Callable[[int, float], Cluster], bandwidths: tuple[float, float]
) -> float | None:
    """Return the largest speed of links, in bytes per second, at which the method of a trial shortens the step.

    It is found by 14 bisections on a logarithmic scale, which takes a method that pays at one speed to pay at lower
    ones too; the result is the geometric middle of what is left. None where it does not pay even at the slower speed,
    the faster speed where it still pays there.

    Args:
        trial: with exactly one method.
        ranks: number of ranks.
        cluster: makes the cluster of a number of ranks and a speed.
        bandwidths: the slowest and the fastest speed, bytes per second.

    Raises:
        UnsupportedError: the method does not serve the ranks.
    """
    slow, fast = bandwidths

    def pays(bandwidth: float) -> bool:
        """Return whether the method's step is shorter than that with gradients as they are."""
        plain, other = trial.seconds(cluster(ranks, bandwidth))
        return other < plain

    if not pays(slow):
        return None
    if pays(fast):
        return fast
    for _ in range(_BISECTIONS):
        middle = (slow * fast) ** 0.5
        slow, fast = (middle, fast) if pays(middle) else (slow, middle)
    return math.sqrt(slow * fast)
