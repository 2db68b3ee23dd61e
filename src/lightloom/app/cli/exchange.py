"""``lightloom exchange``: gradient exchanges, what they send, and what they do to training."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from rich.table import Table

from lightloom.app.cli.options import FigureFile, Several, Shown, draw
from lightloom.core.fields import Count
from lightloom.core.results import provenance
from lightloom.core.units import format_bandwidth, format_size, format_time, parse
from lightloom.exchange.method import Gradient, accuracy_note, evidence_of
from lightloom.exchange.methods import families, find
from lightloom.machines.clusters.cluster import Cluster
from lightloom.machines.clusters.load import load_cluster
from lightloom.models.zoo import load_workload
from lightloom.planning.gradients import model_gradient, sized
from lightloom.planning.pricing.collective_prices import phase_document
from lightloom.planning.search.break_even import SetUp, Trial, break_even_bandwidth, set_ups
from lightloom.reports.console import plain_table
from lightloom.reports.progress import progress

# ``lightloom exchange list`` and ``show``: methods, and what one sends and computes.


def list_methods() -> Shown:
    """Name all methods by which replicas exchange gradients, with their defaults and what is known of accuracy."""
    rows = [
        {
            "name": family.name,
            "summary": family.summary,
            "default": find(family.name).name,
            "options": dict(family.options),
            "accuracy": accuracy_note(find(family.name).name),
        }
        for family in families().values()
    ]
    cells = [[str(row[name]) for name in ("name", "summary", "default", "accuracy")] for row in rows]
    table = plain_table(["method", "what it does", "with its defaults", "accuracy of the default"], cells)
    document = {"schema": "lightloom.exchanges/1", "methods": rows, "provenance": provenance([rows])}
    return Shown(document, [table])


def show(method: str, *, ranks: Several = 8, model: str | None = None, values: Count = 1 << 20) -> Shown:
    """Say what a method sends and computes in one exchange.

    Args:
        method: A method with options, e.g. int4:block=128,feedback.
        ranks: Ranks that exchange.
        model: Tensors of this model, else one vector.
        values: Values of that vector.
    """
    chosen = find(method)
    gradient = Gradient.flat(values) if model is None else model_gradient(load_workload(model, batch=1))
    sent, plain = (each.sent_bytes(gradient, ranks) for each in (chosen, find("float32")))
    document: dict[str, Any] = {
        "schema": "lightloom.exchange/1",
        "method": chosen.name,
        "options": dict(families()[chosen.name.partition(":")[0]].options),
        "ranks": ranks,
        "values": gradient.values,
        "every": chosen.every,
        "synchronous": chosen.synchronous,
        "feedback": chosen.feedback,
        "scale_free": chosen.scale_free,
        "bytes_depend_on_values": chosen.needs_values,
        "phases": [phase_document(phase) for phase in chosen.phases(gradient, ranks)],
        "work": asdict(chosen.work(gradient, ranks)),
        "sent_bytes": sent,
        "ratio": plain / sent,
        "state_bytes_per_parameter": 4 * chosen.state_values,
        "accuracy": accuracy_note(chosen.name),
        "evidence": [row.to_json() for row in evidence_of(chosen.name)],
    }
    document["provenance"] = provenance([chosen.name, ranks, gradient.values])
    return Shown(document, _show_parts(document))


def _show_parts(document: dict[str, Any]) -> Iterator[str | Table]:
    """Yield a table of the method's collectives (kind, size, place, whether the backward pass hides it), and lines on
    bytes, computing, memory, options and accuracy."""
    cells = [
        [phase["kind"], format_size(phase["bytes"]), phase["where"], "yes" if phase["hideable"] else "no"]
        for phase in document["phases"]
    ]
    title = f"{document['method']}: {document['values']:,} values on {document['ranks']} ranks"
    yield plain_table(["collective", "size", "where", "behind the backward pass"], cells, title=title)
    least = ", at the most: its bytes depend on the gradient" if document["bytes_depend_on_values"] else ""
    often = "" if document["every"] == 1 else f", every {document['every']} steps"
    yield (
        f"a rank sends {format_size(document['sent_bytes'])}, {document['ratio']:.3g} times less than "
        f"float32{often}{least}"
    )
    work = document["work"]
    yield (
        f"codes {work['encoded_values']:,.0f} values in {work['encoded_messages']:g} messages, decodes "
        f"{work['decoded_values']:,.0f} in {work['decoded_messages']:g}"
    )
    yield (
        f"{work['flops']:,.0f} FLOPs in {work['calls']:g} calls beside; keeps "
        f"{document['state_bytes_per_parameter']:g} bytes a parameter between steps"
    )
    yield from (f"  {name}: {meaning}" for name, meaning in document["options"].items())
    yield f"accuracy: {document['accuracy']}"


# ``lightloom exchange break-even``: when an exchange of gradients shortens a step.

MODELS = ("alexnet", "vgg16", "resnet50", "densenet121", "inception-v3", "transformer-big", "gpt2-355m")
METHODS = ("bf16", "int8", "int4", "lloyd2", "topk", "powersgd")
LINKS = ("1Gbps", "10Gbps", "25Gbps", "50Gbps", "100Gbps", "200Gbps", "400Gbps")
RANKS = (8, 32, 128, 512)
SCHEMA = "lightloom.exchange-break-even/1"
_SLOWEST, _FASTEST = 1e7, 1e12
"""Bytes per second between which lines are searched."""
_CLEAR = 1.1
"""Speed-ups from here on are called clear: less is within what the assumptions decide."""


def break_even(
    *,
    model: list[str] | None = None,
    exchange: list[str] | None = None,
    link: list[str] | None = None,
    ranks: list[Several] | None = None,
    batch: Count = 32,
    cluster: str = "h100-512-two-tier",
    engine: str = "accelerator",
    figure: FigureFile = None,
) -> Shown:
    """Say in how many set-ups of models, link speeds and ranks a method shortens the step of data parallelism.

    Args:
        model: 7 of the zoo without it; repeatable.
        exchange (METHOD): Synchronous methods; repeatable.
        link: Speeds of a rank's link, e.g. 10Gbps; repeatable.
        ranks: Numbers of ranks; repeatable.
        batch: Samples of a rank.
        cluster: Accelerator and library; its ranks have one link each, in domains of one.
        engine: What codes, as plan --exchange-engine.
        figure: Draw the break-even lines of the first model (.svg, .png, .pdf).
    """
    names, methods = model or list(MODELS), [find(name) for name in exchange or METHODS]

    def on(ranks: int, bandwidth: float) -> Cluster:
        """Return the cluster with so many ranks, each with a link of its own."""
        return load_cluster(cluster, {"ranks": ranks, "fabric.domain_size": 1, "fabric.bandwidth": f"{bandwidth}B/s"})

    speeds = [parse(speed, "bandwidth") for speed in link or LINKS]
    trials = []
    for name in names:
        graph = load_workload(name, batch=1)
        exchanges = tuple(sized(method, name, graph, None, None, engine) for method in methods)
        trials.append(Trial(graph, exchanges, batch))
    counts = ranks or list(RANKS)
    with progress("Set-ups", len(trials) * len(counts) * len(speeds)) as advance:
        rows = set_ups(trials, counts, speeds, on, lambda: advance(1))
    shown = [name for name, _ in rows[0].methods]
    speedups = {name: [row.speedup(name) for row in rows] for name in shown}
    speedups["best"] = [row.best(shown)[1] for row in rows]
    coders = [exchange.on(on(2, speeds[0]).accelerator).coder for exchange in trials[0].exchanges]
    by_source: dict[str, list[str]] = {}
    for method, coder in zip(methods, coders, strict=True):
        by_source.setdefault(coder.source, []).append(method.name)
    sources = "; ".join(f"{', '.join(names)}: {source}" for source, names in by_source.items())
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "cluster": cluster,
        "batch_per_rank": batch,
        "engine": coders[0].name,
        "engine_source": sources if len(by_source) > 1 else coders[0].source,
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
    document["provenance"] = provenance([names, [method.name for method in methods], speeds, counts, batch, cluster])
    if figure is not None:
        from lightloom.reports.figures.comparisons import break_even_figure

        document["lines"] = _lines(trials[0], counts, on)
        title = f"{trials[0].graph.name}, {batch} samples a rank, {cluster}: an exchange pays below its line"
        draw(figure, partial(break_even_figure, document["lines"], title), document)
    return Shown(document, _break_even_parts(rows, document), {"figure": figure})


def _lines(trial: Trial, ranks: Sequence[int], on: Any) -> dict[str, list[tuple[int, float | None]]]:
    """Return, by method, pairs of a number of ranks and the largest speed of a link (bytes per second) at which the
    method shortens the step there; None where it does not even at the slowest, the fastest that is tried where it still
    does."""
    found: dict[str, list[tuple[int, float | None]]] = {}
    with progress("Lines", len(trial.exchanges) * len(ranks)) as advance:
        for exchange in trial.exchanges:
            alone = Trial(trial.graph, (exchange,), trial.samples)
            for count in ranks:
                speed = break_even_bandwidth(alone, count, on, (_SLOWEST, _FASTEST))
                found.setdefault(exchange.name, []).append((count, speed))
                advance(1)
    return found


def _break_even_parts(rows: Sequence[SetUp], document: dict[str, Any]) -> Iterator[str | Table]:
    """Yield a table of how many set-ups each method shortens, a table of the best method's least and most speed-up over
    ranks by model and link, and notes on accuracy."""
    counts, clear = document["counts"], f"at_least_{_CLEAR:g}"
    total = counts["best"]["set_ups"]
    cells = [
        [name, f"{row['shorter']} of {total}", f"{row[clear]} of {total}", f"{row['most']:.3g} x"]
        for name, row in counts.items()
    ]
    title = f"{total} set-ups of data parallelism, {document['batch_per_rank']} samples a rank, {document['cluster']}"
    yield plain_table(["method", "shorter step", f"{_CLEAR:g} times or more", "most"], cells, title=title)
    links = sorted({row.bandwidth for row in rows})
    methods = [name for name, _ in rows[0].methods]
    table = []
    for name in dict.fromkeys(row.model for row in rows):
        own = [row for row in rows if row.model == name]
        best = [[row.best(methods)[1] for row in own if row.bandwidth == link] for link in links]
        spans = [f"{min(ups):.3g} to {max(ups):.3g}" for ups in best]
        table.append([name, format_time(min(row.plain for row in own)), *spans])
    columns = ["model", "shortest step", *(format_bandwidth(link) for link in links)]
    yield plain_table(columns, table, title="speed-up by the best method, over ranks")
    yield (
        "Agarwal et al. (MLSys 2022) measured a shorter step in 6 of more than 200 set-ups, on V100s and 10 Gb/s, with "
        "the kernels of their day; this is a model of "
        f"{document['engine_source']}"
    )
    yield from (f"accuracy of {name}: {note}" for name, note in document["accuracy"].items())
    yield "a shorter step is no shorter training unless the loss stays"
