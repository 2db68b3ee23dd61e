"""``lightloom exchange break-even``: when an exchange of gradients shortens a step."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from lightloom.app.cli.options import FigureFile, Several, Shown, draw, read_settings
from lightloom.core.answer import MOST_ROWS
from lightloom.core.configfile import read_config
from lightloom.core.fields import Config, Count
from lightloom.core.results import provenance
from lightloom.core.units import parse
from lightloom.exchange.method import accuracy_note, evidence_of
from lightloom.exchange.methods import find
from lightloom.machines.clusters.cluster import Cluster
from lightloom.machines.clusters.load import load_cluster
from lightloom.models.zoo import load_workload
from lightloom.planning.gradients import sized
from lightloom.planning.search.break_even import SetUp, Trial, break_even_bandwidth, set_ups
from lightloom.reports.console import Parts, screen
from lightloom.reports.progress import progress

MODELS = ("alexnet", "vgg16", "resnet50", "densenet121", "inception-v3", "transformer-big", "gpt2-355m")
METHODS = ("bf16", "int8", "int4", "lloyd2", "topk", "powersgd")
LINKS = ("1Gbps", "10Gbps", "25Gbps", "50Gbps", "100Gbps", "200Gbps", "400Gbps")
RANKS = (8, 32, 128, 512)
SCHEMA = "lightloom.exchange-break-even/1"
_SLOWEST, _FASTEST = 1e7, 1e12
"""Bytes per second between which lines are searched."""
_CLEAR = 1.1
"""Speed-ups from here on are called clear: less is within what the assumptions decide."""
_MOST_LINKS = 7
"""Links on the terminal."""


class SetUps(Config):
    """Settings that all compared set-ups share: fields of ``lightloom exchange break-even --set``."""

    batch: Count = 32
    """Samples of a rank."""
    cluster: str = "h100-512-two-tier"
    """Accelerator and library; its ranks have one link each, in domains of one."""
    engine: str = "accelerator"
    """What codes, as ``lightloom plan --exchange-engine``."""


def break_even(
    *,
    model: list[str] | None = None,
    exchange: list[str] | None = None,
    link: list[str] | None = None,
    ranks: list[Several] | None = None,
    set: list[str] | None = None,
    figure: FigureFile = None,
) -> Shown:
    """Say in how many set-ups of models, link speeds and ranks a method shortens the step of data parallelism.

    `lightloom exchange break-even --model resnet50 --exchange int8 --link 10Gbps --link 100Gbps` asks it of one model.

    Args:
        model: A model; 7 of the zoo are tried if none is given; repeatable.
        exchange (METHOD): A synchronous method; 6 are tried if none is given; repeatable.
        link: The speed of a rank's link, e.g. 10Gbps; 1 to 400 Gb/s are tried if none is given; repeatable.
        ranks: A number of ranks; 8 to 512 are tried if none is given; repeatable.
        set: field=value of what all set-ups have in common: batch=32 samples a rank, the cluster whose accelerators
            and library compute (h100-512-two-tier), and the engine that codes (accelerator, local or nic); repeatable.
        figure: Draw the break-even lines of the first model (.svg, .png, .pdf).

    Returns:
        The result to print: how many set-ups each method shortens, and by how much; with ``figure`` also the break-even
            lines.

    Raises:
        InputError: no such model, method or cluster, or a speed that cannot be read.
    """
    fixed = read_config(SetUps, "break-even", None, read_settings(set))
    names, methods = model or list(MODELS), [find(name) for name in exchange or METHODS]

    def on(ranks: int, bandwidth: float) -> Cluster:
        """Return the cluster with so many ranks, each with a link of its own."""
        link = {"fabric.tiers.domain.size": 1, "fabric.tiers.network.bandwidth": f"{bandwidth}B/s"}
        return load_cluster(fixed.cluster, set={"ranks": ranks, **link})

    speeds = [parse(speed, "bandwidth") for speed in link or LINKS]
    trials = []
    for name in names:
        graph = load_workload(name, batch=1)
        exchanges = tuple(sized(method, name, graph, None, None, fixed.engine) for method in methods)
        trials.append(Trial(graph, exchanges, fixed.batch))
    counts = ranks or list(RANKS)
    with progress("Set-ups", len(trials) * len(counts) * len(speeds)) as advance:
        rows = set_ups(trials, counts, speeds, on, lambda: advance(1))
    shown = [name for name, _ in rows[0].methods]
    speedups = {name: [row.speedup(name) for row in rows] for name in shown}
    speedups["best"] = [row.best(shown)[1] for row in rows]
    coders = [exchange.on(on(2, speeds[0]).accelerator).coder for exchange in trials[0].exchanges]
    sources = {method.name: coder.source for method, coder in zip(methods, coders, strict=True)}
    by_source = {each: [name for name, source in sources.items() if source == each] for each in sources.values()}
    listed = "; ".join(f"{', '.join(names)}: {source}" for source, names in by_source.items())
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "cluster": fixed.cluster,
        "batch_per_rank": fixed.batch,
        "engine": coders[0].name,
        "engine_source": listed if len(by_source) > 1 else coders[0].source,
        "set_ups": [asdict(row) | {"methods": dict(row.methods)} for row in rows],
        "counts": {
            name: {
                "set_ups": len(values),
                "shorter": sum(value > 1 for value in values),
                f"at_least_{_CLEAR:g}": sum(value >= _CLEAR for value in values),
                "most": max(values),
            }
            for name, values in speedups.items()
        },
        "accuracy": {method.name: accuracy_note(method.name) for method in methods},
    }
    chosen = [names, [method.name for method in methods], speeds, counts, fixed.batch, fixed.cluster]
    document["provenance"] = provenance(chosen)
    if figure is not None:
        from lightloom.reports.figures.comparisons import break_even_figure

        document["lines"] = _lines(trials[0], counts, on)
        title = (
            f"{trials[0].graph.name}, {fixed.batch} samples a rank, {fixed.cluster}: an exchange pays below its line"
        )
        draw(figure, partial(break_even_figure, document["lines"], title), document)
    return Shown(document, _answer(rows, document, link or LINKS, sources), {"figure": figure})


def _lines(trial: Trial, ranks: Sequence[int], on: Any) -> dict[str, list[tuple[int, float | None]]]:
    """Return, by method, pairs of a number of ranks and the largest speed of a link (bytes per second) at which the
    method shortens the step there.

    The speed is None where the method does not even at the slowest link that is tried (10 MB/s), and the fastest (1
    TB/s) where it still does. ``on(ranks, bytes per second)`` makes the cluster.
    """
    found: dict[str, list[tuple[int, float | None]]] = {}
    with progress("Lines", len(trial.exchanges) * len(ranks)) as advance:
        for exchange in trial.exchanges:
            alone = Trial(trial.graph, (exchange,), trial.samples)
            for count in advance.over(ranks):
                speed = break_even_bandwidth(alone, count, on, (_SLOWEST, _FASTEST))
                found.setdefault(exchange.name, []).append((count, speed))
    return found


def _loss(method: str) -> str:
    """Return the loss of a method less that of plain training, as the first row of its evidence has it, with its sign
    and two significant digits; "–" where none was measured. ``method`` is its full name."""
    return next((f"{row.loss_difference:+.2g}" for row in evidence_of(method)), "–")


def _answer(rows: Sequence[SetUp], document: dict[str, Any], links: Sequence[str], sources: Mapping[str, str]) -> Parts:
    """Return what the terminal shows: the method that clearly shortens most steps (1.1 times shorter or more), how many
    it shortens at all and by how much at most, and a row for each of the first eight methods: in how many set-ups of
    each link speed (the first seven) it clearly does, and its measured loss less that of plain training.

    Args:
        rows: set-ups of all models, numbers of ranks and speeds, the speed of the link changing from row to row.
        document: the command's document.
        links: the speeds, as texts.
        sources: where the speed of each method's kernels is from, by method.
    """
    counts, clear = document["counts"], f"at_least_{_CLEAR:g}"
    methods = [name for name in counts if name != "best"]
    best = max(methods, key=lambda name: (counts[name][clear], counts[name]["most"]))
    short = [name.partition(":")[0] for name in methods]
    table = []
    for title, name in zip(short if len({*short}) == len(methods) else methods, methods, strict=True):
        faster = [[row.speedup(name) >= _CLEAR for row in rows[place :: len(links)]] for place in range(len(links))]
        cells = {link: str(sum(each)) for link, each in zip(links, faster, strict=True)}
        table.append({"method": title, **dict(list(cells.items())[:_MOST_LINKS]), "loss": _loss(name)})
    models, ranks = (len({getattr(row, name) for row in rows}) for name in ("model", "ranks"))
    unmeasured = any(row["loss"] == "–" for row in table[:MOST_ROWS])
    return screen(
        f"Does compressing gradients shorten a step of data parallelism? Models: {models}; speeds of links: "
        f"{len(links)}; numbers of ranks: {ranks}; {document['batch_per_rank']} samples a rank, {document['cluster']}",
        (
            f"{best} shortens {counts[best]['shorter']} of {len(rows)} steps, up to {counts[best]['most']:.3g} times",
            f"its kernels: {sources[best]}",
        ),
        table,
        legend=f"of {models * ranks} steps over each link, those that are {_CLEAR:g} times shorter or more; loss: as "
        f"measured on a small task, less that of plain training{'; – not measured' * unmeasured}",
        everything="--json",
        limit=f"a shorter step is shorter training only while the loss stays: {document['accuracy'][best]}",
        more=("--figure lines.png", f"lightloom catalog {best.partition(':')[0]}"),
    )
