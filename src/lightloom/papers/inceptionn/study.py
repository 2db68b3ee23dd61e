"""The INCEPTIONN study, with the figures of sections II, III and VIII drawn anew.

Bars are the paper's where its text gives numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lightloom.papers.inceptionn import BOUNDS, ITERATIONS, MODELS, PAPER, TABLE_2, TABLE_3, TAG_BITS, ratio_of_shares
from lightloom.papers.inceptionn.rows import (
    DROPPED,
    FURTHER,
    MEASURED,
    base_at,
    claims,
    curves,
    final,
    mean_ratio,
    settled,
    steps,
)
from lightloom.papers.inceptionn.runs import LAYERS, LOWEST, SETTLED
from lightloom.papers.page import BLUE, GREEN, GREY, ORANGE, RED, SKY, canvas, stacked_bars
from lightloom.papers.study import BASE, Record, Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_COLOURS = (BLUE, ORANGE, GREEN, RED, SKY, GREY)


def study(work: Path | None = None) -> Study:
    """Return the INCEPTIONN study with all rows and figures.

    Args:
        work: a folder whose ``training.json``, ``table3.json`` and ``networks.json``, where they exist, replace those
            of the package; all other measurements are the package's. Without any ``networks.json`` the rows and the
            figure of the short runs are left out.

    Raises:
        ConfigError: a file of measurements cannot be read.
    """
    training, networks = PAPER.measured("training", work), PAPER.measured("networks", work, optional=True)
    table3 = PAPER.measured("table3", work)["runs"]
    loop, codec, exchange, links = (PAPER.measured(name) for name in ("software", "codec", "exchange", "links"))
    gradients = (partial(truncation, training), partial(distribution, training["gradients"]))
    times = (partial(software_loop, loop), training_time, partial(measured_exchange, exchange), partial(hooks, links))
    runs = (partial(learning, training), partial(bit_widths, table3))
    short = () if networks is None else (partial(other_networks, networks, table3),)
    draws = (communication_share, *gradients, *times, *runs, *short, scalability)
    return PAPER.study(claims(training, table3, networks, loop, codec, exchange), *draws, loop=loop, exchange=exchange)


def communication_share() -> Figure:
    """Draw Figure 3(b): percent of training time that is communication, by model, a bar from Table II beside one from
    our model of worker-aggregator training (WA, :func:`steps`)."""
    figure, (axes,) = canvas(1)
    paper = [100 * TABLE_2[model].communicate / TABLE_2[model].total for model in MODELS]
    ours = [100 * steps(model)["WA"].communicate / steps(model)["WA"].total for model in MODELS]
    bars(axes, MODELS, {"paper, Table II": paper, "our communication model": ours}, "{:.0f}")
    axes.set_ylabel("communication, % of training time")
    return figure


def truncation(training: Record) -> Figure:
    """Draw Figure 4: test accuracy of HDC trained with truncated gradients, weights, or both, by dropped bits, from the
    first seeds' runs in ``training``; a dashed line is float32 of that seed after as many iterations."""
    figure, (axes,) = canvas(1)
    runs, drops = training["runs"], DROPPED
    _truncation_bars(axes, runs, drops, {"gradients only": "g", "weights only": "w", "both": "w+g"}, "{:.1f}")
    axes.axhline(base_at(runs, runs["truncate g 16"][0]), color=GREY, lw=1, ls="--", label="float32")
    axes.set_ylabel("accuracy on the test set, %")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.14), ncols=4)
    return figure


def _truncation_bars(axes: Axes, runs: Record, drops: Sequence[int], labels: Mapping[str, str], number: str) -> None:
    """Draw the last test accuracy in percent of the first seed's runs with truncation.

    Args:
        axes: panel to draw in.
        runs: runs of one network by name (``truncate w+g 16``), each a list by seed.
        drops: numbers of dropped bits, a group of bars for each.
        labels: what was truncated (``g``, ``w`` or ``w+g``) by the label of its bars.
        number: format of the values above the bars, such as ``{:.1f}``.
    """
    series = {label: [final(runs[f"truncate {what} {bits}"][0]) for bits in drops] for label, what in labels.items()}
    bars(axes, [f"{bits}b-T" for bits in drops], series, number)


def distribution(gradients: Record) -> Figure:
    """Draw Figure 5: percent of gradient values by binade, a panel for each stage of training in ``gradients`` (counts
    of :func:`~lightloom.papers.inceptionn.runs.count_binades`), negative values downward.

    A linear axis would show everything as one spike at 0. Dotted lines mark the bounds 2^-10, 2^-8 and 2^-6.
    """
    figure, panels = canvas(len(gradients), sharey=True)
    exponents = range(LOWEST, 1)
    for axes, (stage, counts) in zip(panels, gradients.items(), strict=True):
        for sign, colour, side in (("negative", ORANGE, -1), ("positive", BLUE, 1)):
            shares = [side * 100 * count / counts["values"] for count in counts[sign]]
            axes.bar(exponents, shares, color=colour, width=0.9, label=sign)
        for k in BOUNDS:
            axes.axvline(-k - 0.5, color=GREY, lw=0.8, ls=":")
        words = f"largest {counts['largest']:.2g}, {100 * counts['small'] / counts['values']:.0f} % below 2^{LOWEST}"
        axes.set(title=f"{stage}, iteration {counts['iteration']}\n{words}", xlabel="binade: exponent of |gradient|")
    panels[0].set_ylabel("% of values (negative ones downward)")
    panels[0].legend(loc="upper left")
    return figure


def software_loop(loop: Record) -> Figure:
    """Draw Figure 7: milliseconds of a step with each codec in the loop, as computation, exchange and time inside the
    codec; above each bar, the step over that without a codec. ``loop`` has under ``rows`` the codec's name and the
    seconds ``step_s``, ``exchange_s`` (the codec's within them) and ``codec_s``."""
    figure, (axes,) = canvas(1)
    rows = loop["rows"]
    names = [row["codec"].replace(":", "\n") for row in rows]
    rest = [1e3 * (row["step_s"] - row["exchange_s"]) for row in rows]
    codec = [1e3 * row["codec_s"] for row in rows]
    wire = [1e3 * (row["exchange_s"] - row["codec_s"]) for row in rows]
    stacked_bars(axes, names, [("computation", rest, GREY), ("exchange", wire, BLUE), ("inside the codec", codec, RED)])
    for place, row in enumerate(rows):
        axes.annotate(f"{row['step_of_none']:.2f}", (place, 1e3 * row["step_s"]), ha="center", va="bottom")
    axes.set_ylabel("ms a step (above: times none)")
    axes.legend(loc="upper right")
    return figure


def training_time() -> Figure:
    """Draw Figure 12: computation and communication of an iteration by our model, over the total of WA
    (worker-aggregator), a panel for each model and a bar for each of WA, WA+C, INC and INC+C; a diamond at WA is Table
    II's total."""
    figure, panels = canvas(len(MODELS), sharey=True)
    for axes, model in zip(panels, MODELS, strict=True):
        by_exchange = steps(model)
        whole = by_exchange["WA"].total
        local = [step.local / whole for step in by_exchange.values()]
        wire = [step.communicate / whole for step in by_exchange.values()]
        stacked_bars(axes, list(by_exchange), [("computation", local, GREY), ("communication", wire, BLUE)])
        axes.plot([0], [TABLE_2[model].total / ITERATIONS / whole], "D", color=RED, ms=5, label="Table II, total")
        axes.set_title(model)
    panels[0].set_ylabel("time of an iteration over WA's")
    panels[-1].legend(loc="upper right")
    return figure


def measured_exchange(exchange: Record) -> Figure:
    """Draw Figure 12 as measured on limited links: milliseconds of a step by configuration, computation and
    communication, a panel for each model that was measured."""
    models = list(exchange["models"])
    figure, panels = canvas(len(models))
    for axes, model in zip(panels, models, strict=True):
        rows = exchange["models"][model]
        names = [row["configuration"] for row in rows]
        wire = [1e3 * row["communication_s"] for row in rows]
        rest = [1e3 * (row["step_s"] - row["communication_s"]) for row in rows]
        stacked_bars(axes, names, [("computation", rest, GREY), ("communication", wire, BLUE)])
        axes.set(title=model, ylabel="ms a step")
    panels[-1].legend(loc="upper right")
    return figure


def hooks(links: Record) -> Figure:
    """Draw the step of DDP with each hook (fp16, PowerSGD, ours) over that without one, with the range over rounds as
    error bars, the milliseconds of the step in the bar, and the step without a hook as the first bar; a panel for each
    rate of the links in the record."""
    figure, panels = canvas(len(links["tables"]), sharey=True)
    for axes, (rate, table) in zip(panels, links["tables"].items(), strict=True):
        rows = list(table["rows"].values())
        middle = [row["over_none"] for row in rows]
        low = [row["over_none"] - row["over_none_range"][0] for row in rows]
        high = [row["over_none_range"][1] - row["over_none"] for row in rows]
        drawn = axes.bar(range(len(rows)), middle, yerr=[low, high], color=_COLOURS[: len(rows)], ecolor=GREY)
        axes.bar_label(drawn, [f"{1e3 * row['step_s']:.0f} ms" for row in rows], label_type="center", color="white")
        axes.set(xticks=range(len(rows)), xticklabels=["no hook", "fp16", "PowerSGD", "ours"], title=rate)
    panels[0].set_ylabel("step over that without a hook")
    return figure


def learning(training: Record) -> Figure:
    """Draw HDC's test accuracy over iterations of the first seed, a panel for each bound, float32 beside the codec as
    printed, windowed, and windowed with error feedback: what Figs. 13 and 14(b) come from. Labels state the float32
    bytes over those sent."""
    figure, panels = canvas(len(BOUNDS), sharey=True)
    runs = training["runs"]
    for axes, k in zip(panels, BOUNDS, strict=True):
        drawn = {"float32": (runs["float32"][0], GREY)}
        for label, colour in (("printed", RED), ("windowed", ORANGE), ("windowed+feedback", BLUE)):
            run = runs[f"{label} 2^-{k}"][0]
            drawn[f"{label}, ratio {mean_ratio(run):.1f}"] = (run, colour)
        for label, (run, colour) in drawn.items():
            axes.plot(run["iterations"], [100 * share for share in run["accuracy"]], color=colour, label=label, lw=1.5)
        axes.set(title=f"bound 2^-{k}", xlabel="iteration")
        axes.legend(loc="center right")
    panels[0].set_ylabel("accuracy on the test set, %")
    return figure


def bit_widths(table3: Record) -> Figure:
    """Draw Table III and Figure 14(a) for HDC: percent of values of each of the four sizes, as stacked bars from 60 %
    up, the paper's beside ours, by bound, with the ratio (float32 bits per sent bit) above each bar; ours by the
    reading that agrees most, mean over seeds; ``table3`` holds the runs for Table III by network."""
    figure, (axes,) = canvas(1)
    names, columns = [], []
    for k, ours in zip(BOUNDS, settled(table3), strict=True):
        names += [f"paper\n2^-{k}", f"ours\n2^-{k}"]
        columns += [TABLE_3["HDC", k], ours]
    heights = list(zip(*columns, strict=True))
    stacked_bars(axes, names, [(f"{bits} bits", heights[i], _COLOURS[i]) for i, bits in enumerate(TAG_BITS)])
    for place, column in enumerate(columns):
        axes.annotate(f"{ratio_of_shares(column):.1f} ×", (place, 100), ha="center", va="bottom")
    axes.set(ylim=(60, 103), ylabel="% of values (above: compression ratio)")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.14), ncols=4)
    return figure


def scalability() -> Figure:
    """Draw Figure 15 and beyond: exchange time by section VIII-D's forms over WA's with four workers, against workers,
    a panel for 4 to 8 and one, with logarithmic axes, for powers of two from 4 to 1,024; bands span the four models,
    each over its own WA, with a line along their upper ends."""
    figure, (near, far) = canvas(2)
    for axes, counts in ((near, list(MEASURED)), (far, list(FURTHER))):
        for name, colour in (("WA", ORANGE), ("INC", BLUE)):
            lines = [[curves(model)[name][p] / curves(model)["WA"][MEASURED[0]] for p in counts] for model in MODELS]
            low, high = ([ends(each) for each in zip(*lines, strict=True)] for ends in (min, max))
            axes.fill_between(counts, low, high, color=colour, alpha=0.3, lw=0)
            axes.plot(counts, high, color=colour, marker="o", ms=3, label=f"{name}, all four models")
        axes.set_xlabel("workers")
    near.set(xticks=list(MEASURED), ylim=(0, None), ylabel="exchange time over WA's with 4 workers")
    far.set_xscale("log", base=2)
    far.set_yscale("log")
    near.legend(loc="upper left")
    return figure


def bars(axes: Axes, names: Sequence[str], series: dict[str, list[float]], number: str) -> None:
    """Draw groups of bars, a group for each of ``names`` and in it a bar for each of ``series`` (values of all groups
    by label), labelled with its value in the format ``number``, such as ``{:.0f}``."""
    width = 0.8 / len(series)
    for place, (label, values) in enumerate(series.items()):
        at = [i + (place - (len(series) - 1) / 2) * width for i in range(len(names))]
        drawn = axes.bar(at, values, width * 0.94, color=_COLOURS[place], label=label)
        axes.bar_label(drawn, [number.format(value) for value in values], padding=1)
    axes.set_xticks(range(len(names)), list(names))
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.14), ncols=len(series))


# The figure of the short runs, LeNet on MNIST, and of HDC under the summed loss.

_LENET = {
    BASE: (GREY, "-"),
    "printed 2^-10": (RED, "-"),
    "printed 2^-10 summed": (RED, "--"),
    "windowed 2^-10": (ORANGE, "-"),
    "windowed+feedback 2^-10": (BLUE, "-"),
}
_HDC = {BASE: (GREY, "-"), "printed 2^-10": (RED, "-"), "printed 2^-8": (ORANGE, "-"), "printed 2^-6": (BLUE, "-")}


def other_networks(networks: Record, table3: Record) -> Figure:
    """Draw three panels of test accuracy: LeNet over iterations, with float32 and the codecs at 2^-10; LeNet's last
    after truncation of gradients and of weights by 16, 22 and 24 bits, as far as measured, float32 as a dashed line;
    and HDC over iterations under the summed loss, with float32 and the codec as printed at 2^-10, 2^-8 and 2^-6.

    Args:
        networks: the record of the short runs, by network under ``runs``.
        table3: the runs for Table III, by network and then by name.
    """
    figure, (left, middle, right) = canvas(3, size=(13, 4.4))
    lenet = networks["runs"]["lenet"]
    _learning(left, lenet, _LENET)
    left.set_title("LeNet on MNIST")
    there = [bits for bits in DROPPED if f"truncate g {bits}" in lenet]
    _truncation_bars(middle, lenet, there, {"gradients": "g", "weights": "w"}, "{:.0f}")
    middle.axhline(final(lenet[BASE][0]), color=GREY, lw=1, ls="--")
    middle.set(ylim=(0, 109), ylabel="accuracy of LeNet, %")
    _learning(right, table3[LAYERS[SETTLED[0]]], _HDC)
    right.set(title="HDC on MNIST, summed loss")
    return figure


def _learning(axes: Axes, runs: Record, styles: Mapping[str, tuple[str, str]]) -> None:
    """Plot test accuracy in percent over iterations, a line for each name in ``styles`` (colour and style of the line)
    that has runs, as the mean over its seeds; ``runs`` are lists of records, one a seed, by name."""
    for name, (colour, style) in styles.items():
        if records := runs.get(name):
            mean = 100 * np.mean([record["accuracy"] for record in records], axis=0)
            label = name if len(records) == 1 else f"{name} ({len(records)} seeds)"
            axes.plot(records[0]["iterations"], mean, style, color=colour, label=label, lw=1.5)
    axes.set(ylim=(0, 102), xlabel="iteration", ylabel="accuracy on the test set, %")
    axes.legend(loc="center right", fontsize=7)
