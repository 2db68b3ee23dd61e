"""Figure 5: chips, the trends over batch sizes, the best strategy, and the one case whose EDP gets worse."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from statistics import fmean

from lightloom.core.claims import Claim
from lightloom.parallelism.dadiannao import broadcast_bytes, chips_needed
from lightloom.studies.dadiannao import PAPER
from lightloom.studies.dadiannao.model import FITTED, Savings, chip, mean, savings
from lightloom.studies.dadiannao.networks import all_counted, printed
from lightloom.studies.dadiannao.paper import BATCHES


def claims() -> tuple[Claim, ...]:
    """Return rows on the text about Fig. 5."""
    changes = savings(FITTED)
    edp = PAPER.claim("figure5.edp_worse", "; ".join(worse(changes)), value=changes.edp["400"]["DenseNet121", 256])
    return (*_chips(), edp, *_with_batch(changes), _every_network(changes), *_strategy())


def _chips() -> Iterator[Claim]:
    for name, network in printed().items():
        ours, from_graph = (
            "/".join(str(chips_needed(each, batch, chip())) for batch in BATCHES)
            for each in (network, all_counted()[name])
        )
        yield PAPER.claim(
            "figure5.chips_{network}",
            ours,
            remark=f" (as counted from the graph: {from_graph})" if from_graph != ours else "",
            network=name.lower().replace("-", "_"),
        )


def worse(changes: Savings) -> list[str]:
    """Return the cases whose EDP rises, as text."""
    return [
        f"{name}, batch {batch}, {speed} Gb/s"
        for speed, figures in changes.edp.items()
        for (name, batch), value in figures.items()
        if value < 0
    ]


def _with_batch(changes: Savings) -> Iterator[Claim]:
    for speed in ("100", "400"):
        data_parallel = {case: value for case, value in changes.time[speed].items() if case[0] != "AlexNet"}
        means = [mean(data_parallel, batch) for batch in BATCHES]
        falls = [a - b for a, b in pairwise(means)]
        shape = "falls, ever less" if falls[0] > falls[1] > 0 else "otherwise"
        text = " → ".join(f"{value:.1f}" for value in means)
        yield PAPER.claim("figure5.saved_with_batch_{speed}", shape, speed=speed, means=text)


def _every_network(changes: Savings) -> Claim:
    by_network = {name: fmean(changes.time["400"][name, batch] for batch in BATCHES) for name in printed()}
    gaining = f"all {sum(value > 0 for value in by_network.values())}"
    text = ", ".join(f"{name} {value:.0f}" for name, value in by_network.items())
    return PAPER.claim("figure5.every_network_gains", gaining, saved=text)


def _strategy() -> Iterator[Claim]:
    def sent(name: str, batch: int) -> tuple[float, float]:
        """Return the bytes that a pass broadcasts under data and under model parallelism."""
        network = printed()[name]
        return broadcast_bytes(network, batch, "data"), broadcast_bytes(network, batch, "model")

    for batch in BATCHES:
        data, model = sent("AlexNet", batch)
        best = "data" if data <= model else "model"
        values = {"batch": batch, "data": data / 2**20, "model": model / 2**20}
        yield PAPER.claim("figure5.strategy_alexnet_batch{batch}", best, **values)
    others = [name for name in printed() if name != "AlexNet"]
    for batch in BATCHES:
        sizes = {name: sent(name, batch) for name in others}
        names = [name for name, (data, model) in sizes.items() if data < model]
        ours = f"{len(names)} of {len(others)}"
        yield PAPER.claim("figure5.data_parallel_best_batch{batch}", ours, batch=batch, names=", ".join(names))
