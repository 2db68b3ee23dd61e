"""Figure 5: chips, the trends over batch sizes, the best strategy, and the one case whose EDP gets worse."""

from __future__ import annotations

from itertools import pairwise

from lightloom.core.claims import Claim
from lightloom.parallelism.dadiannao import chips_needed
from lightloom.studies.dadiannao import PAPER
from lightloom.studies.dadiannao.model import FITTED, Savings, chip, exchanged, mean, savings
from lightloom.studies.dadiannao.networks import all_counted, printed
from lightloom.studies.dadiannao.paper import BATCHES


def claims() -> tuple[Claim, ...]:
    """Return rows on the text about Fig. 5."""
    found = savings(FITTED)
    return (*_chips(), *_worse(found), *_with_batch(found), _recent(found), *_strategy())


def _chips() -> list[Claim]:
    rows = []
    for name, network in printed().items():
        ours, from_graph = (
            "/".join(str(chips_needed(each, batch, chip())) for batch in BATCHES)
            for each in (network, all_counted()[name])
        )
        rows.append(
            PAPER.claim(
                "figure5.chips_{network}",
                ours,
                why="printed only inside images; ours: printed synapses and neurons over 36 MiB a chip"
                + (f" (as counted from the graph: {from_graph})" if from_graph != ours else ""),
                network=name.lower().replace("-", "_"),
            )
        )
    return rows


def worse(found: Savings) -> list[str]:
    """Return the cases whose EDP rises, as text."""
    return [
        f"{name}, batch {batch}, {speed} Gb/s"
        for speed, figures in found.edp.items()
        for (name, batch), value in figures.items()
        if value < 0
    ]


def _worse(found: Savings) -> list[Claim]:
    value = found.edp["400"]["DenseNet121", 256]
    return [PAPER.claim("figure5.edp_worse", "; ".join(worse(found)), value=value)]


def _with_batch(found: Savings) -> list[Claim]:
    rows = []
    for speed in ("100", "400"):
        data_parallel = {case: value for case, value in found.time[speed].items() if case[0] != "AlexNet"}
        means = [mean(data_parallel, batch) for batch in BATCHES]
        falls = [a - b for a, b in pairwise(means)]
        shape = "falls, ever less" if falls[0] > falls[1] > 0 else "otherwise"
        rows.append(
            PAPER.claim(
                "figure5.saved_with_batch_{speed}",
                shape,
                why=" → ".join(f"{value:.1f}" for value in means) + " % of time saved, mean over all but AlexNet",
                speed=speed,
            )
        )
    return rows


def _recent(found: Savings) -> Claim:
    by_network = {name: sum(found.time["400"][name, batch] for batch in BATCHES) / len(BATCHES) for name in printed()}
    return PAPER.claim(
        "figure5.every_network_gains",
        f"all {sum(value > 0 for value in by_network.values())}",
        why="time saved at 400 Gb/s, mean over batches: "
        + ", ".join(f"{name} {value:.0f}" for name, value in by_network.items())
        + " %",
    )


def _strategy() -> list[Claim]:
    rows = []
    for batch, best in zip(BATCHES, ("model", "model", "data"), strict=True):
        moved = exchanged(printed()["AlexNet"], batch)
        rows.append(
            PAPER.claim(
                "figure5.strategy_alexnet_batch{batch}",
                min(moved, key=lambda way: moved[way]),
                paper=best,
                why=f"broadcast in a pass: {moved['data'] / 2**20:.1f} MiB of synapses or {moved['model'] / 2**20:.1f} "
                "MiB of inputs",
                batch=batch,
            )
        )
    others = [name for name in printed() if name != "AlexNet"]
    for batch in BATCHES:
        data = [name for name in others if exchanged(printed()[name], batch)["data"] < _model_bytes(name, batch)]
        rows.append(
            PAPER.claim(
                "figure5.data_parallel_best_batch{batch}",
                f"{len(data)} of {len(others)}",
                why="fewer bytes to broadcast"
                if len(data) == len(others)
                else "the paper shows data parallelism only, as the better one. With one image the inputs of all "
                "layers are fewer bytes than the synapses, but for " + ", ".join(data),
                batch=batch,
            )
        )
    return rows


def _model_bytes(name: str, batch: int) -> float:
    return exchanged(printed()[name], batch)["model"]
