"""The OptINC study, with Figs. 6, 7(a) and 7(b) drawn anew, and figures of Table II and of noise."""

from __future__ import annotations

from functools import partial
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lightloom.papers.optinc import PAPER, rows
from lightloom.papers.optinc.rows import ACCURACY, PHASES, RING_TRAFFIC, ROWS, SAVED, TOKENS, error_shares, rms, sent
from lightloom.papers.page import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, canvas, stacked_bars
from lightloom.papers.study import BASE, Record, Study, differences, paired
from lightloom.photonics.averaging.function import AveragingFunction
from lightloom.photonics.averaging.proof import input_bound

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LINES = {
    "16-bit half-up": (BLUE, "-"),
    "16-bit floor": (GREEN, "-"),
    "8-bit half-up": (PURPLE, "-"),
    "8-bit floor": (RED, "-"),
    "16-bit floor, errors 3-6": (ORANGE, "--"),
    "16-bit floor, errors 4-8": (SKY, "--"),
    "16-bit floor, errors 4-7": (ORANGE, ":"),
    "16-bit floor, errors 3-7": (SKY, ":"),
}
"""Colour and style of a variant, the same in all panels."""
_IMAGES = tuple(2**k for k in range(10))
_SEQUENCES = tuple(2**k for k in range(8))
_SHORT = (1, 2, 4, 8)

_LEAST = 1e-5
"""Smallest share drawn; of 169 points and 50 fabrications one is 1.2e-4."""


def study(work: Path | None = None) -> Study:
    """Return the OptINC study with all rows and figures.

    Args:
        work: a folder whose ``constructed.json``, ``trained.json``, ``training.json``, ``language.json``,
            ``language-small.json`` and ``images.json``, where they exist, replace those of the package; the records of
            noise, of training with errors and of the trained cascade are the package's. Without any ``images.json`` the
            runs on MNIST stand for ResNet-50's.

    Raises:
        ConfigError: one of the files cannot be read.
    """
    noisy, aware, cascade = (rows.kept(name) for name in ("noise", "aware", "cascade"))
    files = {"language": "language", "small": "language-small", "digits": "training"}
    runs = {name: PAPER.measured(file, work) for name, file in files.items()}
    images = {"images": PAPER.measured("images", work, optional=True)}
    constructed, trained = (PAPER.measured(file, work) for file in ("constructed", "trained"))
    claims = rows.claims(noisy, aware, cascade, constructed, trained, runs | images)
    figures = (
        *(traffic, partial(training, runs["language"], runs["digits"]), partial(in_pairs, **runs)),
        *(savings, breakdown, errors, partial(noise, noisy), partial(aware_training, aware)),
    )
    return PAPER.study(claims, *figures)


def traffic() -> Figure:
    """Draw Fig. 6: bytes that a server sends over bytes of the gradient, by servers (4, 8 and 16), with the ring and
    with OptINC, as counted in schedules; diamonds are the paper's."""
    figure, (axes,) = canvas(1)
    servers = list(RING_TRAFFIC)
    for shift, label, algorithm, colour in ((-0.2, "ring", "ring", GREY), (0.2, "OptINC", "in-network", BLUE)):
        values = [sent(algorithm, n) for n in servers]
        drawn = axes.bar([i + shift for i in range(len(servers))], values, 0.37, color=colour, label=label)
        axes.bar_label(drawn, [f"{value:g}" for value in values], padding=5)
    axes.plot([i - 0.2 for i in range(3)], list(RING_TRAFFIC.values()), "D", color=RED, ms=5, label="paper")
    axes.plot([i + 0.2 for i in range(3)], [1, 1, 1], "D", color=RED, ms=5)
    axes.set_xticks(range(len(servers)), [f"{n} servers" for n in servers])
    axes.set(ylim=(0, 2.2), ylabel="bytes a server sends over bytes of the gradient")
    axes.legend(loc="upper left", ncols=3)
    return figure


def training(language: Record, digits: Record) -> Figure:
    """Draw Figure 7(a): validation loss (nats a byte) over thousand tokens of the language model in ``language``, and
    test accuracy in percent on MNIST over iterations from ``digits``, a line for each variant as the mean over its
    seeds."""
    figure, (left, right) = canvas(2)
    runs = language["runs"]
    recipe = runs[BASE][0]["recipe"]
    tokens = recipe["servers"] * recipe["windows_per_server"] * recipe["sequence"]
    _means(left, runs, "steps", "validation_loss", tokens / 1e3, 1.0)
    left.set(xlabel=f"thousand tokens of {language['corpus']}", ylabel="validation loss, nats a byte (mean over seeds)")
    left.legend(loc="upper right")
    _means(right, digits["runs"], "iterations", "accuracy", 1.0, 100.0)
    right.set(xlabel="iteration, CNN on MNIST", ylabel="test accuracy, % (mean over seeds)")
    right.legend(loc="lower right", fontsize=7)
    return figure


def _means(axes: Axes, runs: Record, along: str, key: str, stretch: float, scale: float) -> None:
    """Plot the mean over seeds, a line for each variant; float32 broad, as the others lie on it. The label of a variant
    with fewer seeds than float32 says how many it has.

    Args:
        axes: panel to draw in.
        runs: records of all seeds by variant.
        along: field of the records along x, such as ``steps``.
        key: field along y.
        stretch: factor of x.
        scale: factor of y.
    """
    for name, records in runs.items():
        mean = scale * np.mean([record[key] for record in records], axis=0)
        at = [stretch * each for each in records[0][along]]
        if name == BASE:
            axes.plot(at, mean, color=GREY, lw=5, alpha=0.5, label=name)
        else:
            colour, style = _LINES.get(name, (PURPLE, "--"))
            fewer = "" if len(records) == len(runs[BASE]) else f" ({len(records)} of {len(runs[BASE])} seeds)"
            axes.plot(at, mean, style, color=colour, lw=1.3, label=name + fewer)


def in_pairs(language: Record, small: Record, digits: Record) -> Figure:
    """Draw how much the last validation loss (nats a byte) or test accuracy (points) is above that of float32 with the
    same seed, a row for each variant: single runs, their mean and its 95 % interval where there are several seeds; a
    panel each for the language model, the small one, and MNIST."""
    figure, panels = canvas(3, size=(13, 4.4))
    sources = (
        (language, "validation_loss", 1.0, "validation loss less float32's, nats a byte"),
        (small, "validation_loss", 1.0, "the same, 1.9 million parameters"),
        (digits, "accuracy", 100.0, "test accuracy less float32's, points (MNIST)"),
    )
    for axes, (record, key, scale, label) in zip(panels, sources, strict=True):
        runs = record["runs"]
        names = [name for name in runs if name != BASE]
        for place, name in enumerate(reversed(names)):
            pairs, single = paired(runs, name, key, scale), differences(runs, name, key, scale)
            assert pairs is not None
            axes.plot(single, [place] * len(single), "o", color=SKY, ms=4, alpha=0.9)
            half = pairs.half if pairs.seeds > 1 else 0.0
            axes.errorbar([pairs.mean], [place], xerr=[half], fmt="D", color=BLUE, ms=5, capsize=3)
        axes.set_yticks(range(len(names)), [name.replace(", ", ",\n", 1) for name in reversed(names)])
        axes.axvline(0, color=GREY, lw=1)
        axes.grid(True, axis="x", color="0.92")
        axes.locator_params(axis="x", nbins=5)
        axes.set_xlabel(label)
    return figure


def savings() -> Figure:
    """Draw Figure 7(b) as percent saved against samples a server, a panel for each model (images or tokens), with
    16-bit codes on both networks and with float32 on the ring, and for ResNet-50 also with a stem of stride 1. Lines
    are the paper's two figures, marked where they lie on our curves, and the bound for equal widths."""
    figure, (left, right) = canvas(2, sharey=True)
    for nbytes, style, label in (
        (rows.CODE_BYTES, "-", "16-bit codes in both"),
        (rows.FLOAT_BYTES, "--", "ring in float32"),
    ):
        left.plot(_IMAGES, [rows.step("resnet50", b, nbytes).saving for b in _IMAGES], style, color=BLUE, label=label)
        small = [rows.step("resnet50-small-stem", b, nbytes).saving for b in _IMAGES]
        left.plot(_IMAGES, small, style, color=ORANGE, label=f"{label}, stem of stride 1")
        points = [(b * TOKENS, rows.step("llama-short", b, nbytes).saving) for b in _SHORT]
        points += [(b * 256, rows.step("llama", b, nbytes).saving) for b in _SEQUENCES]
        right.plot(*zip(*points, strict=True), style, color=GREEN, label=label)
        for axes, model, key, size in ((left, "resnet50", "resnet50", 1), (right, "llama-short", "llama", 16)):
            at = rows.batch_of(model, SAVED[key], nbytes) * size
            axes.plot([at], [SAVED[key]], "D", color=RED, ms=7, zorder=5)
            number = f"{at:.0f}" if at >= 10 else f"{at:.1f}"
            axes.annotate(number, (at, SAVED[key]), (7, 5), textcoords="offset points", color=RED)
    for axes, key, what in ((left, "resnet50", "images"), (right, "llama", "tokens")):
        axes.axhline(SAVED[key], color=RED, lw=0.8, ls=":", label=f"the paper's {SAVED[key]:g} %")
        axes.axhline(rows.bound(4), color=GREY, lw=0.8, ls="-.", label="bound for equal widths")
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.set_xlabel(f"{what} a server and step")
        axes.legend(loc="upper right")
    left.set_title("ResNet-50 on 32 × 32 pixels")
    right.set_title("LLaMA-like network")
    left.set(ylabel="less time than with the ring, %", ylim=(0, 72))
    return figure


def breakdown() -> Figure:
    """Draw Figure 7(b) as bars: computing and network of a step over the ring's whole step, for three batches of each
    model; the ring and OptINC side by side, with 16-bit codes in both."""
    figure, panels = canvas(2, sharey=True)
    chosen = (
        ("ResNet-50", "resnet50", (2, 8, 32), "{} images", 1),
        ("LLaMA-like network", "llama-short", (2, 16, 128), "{:,} tokens", TOKENS),
    )
    for axes, (title, model, batches, words, size) in zip(panels, chosen, strict=True):
        ticks = [2.6 * group + bar for group in range(len(batches)) for bar in (0, 1)]
        steps = [rows.step(model, batch) for batch in batches]
        for bar, (label, colour) in enumerate((("ring", ORANGE), ("OptINC", BLUE))):
            wholes = [step.compute + step.ring for step in steps]
            computing = [step.compute / whole for step, whole in zip(steps, wholes, strict=True)]
            network = [(step.optical if bar else step.ring) / whole for step, whole in zip(steps, wholes, strict=True)]
            parts = [("" if bar else "computing", computing, GREY), (f"network, {label}", network, colour)]
            _, drawn = stacked_bars(axes, ticks[bar::2], parts)
            totals = [f"{low + high:.2f}" for low, high in zip(computing, network, strict=True)]
            axes.bar_label(drawn, totals, padding=1)
        for group, batch in enumerate(batches):
            below: dict[str, Any] = {"ha": "center", "va": "top", "transform": axes.get_xaxis_transform()}
            axes.text(2.6 * group + 0.5, -0.13, words.format(batch * size), **below)
        axes.set_xticks(ticks, ["ring", "OptINC"] * len(batches))
        axes.set_title(title)
    panels[0].set(ylabel="time of a step over the ring's", ylim=(0, 1.1))
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return figure


def errors() -> Figure:
    """Draw Table II as RMS error against share of wrong outputs, in units of a mean code's last place, on logarithmic
    axes, a point for each row with errors, and a line at the size of floor's bias (0.375): how often a network errs
    says little about how much its errors weigh."""
    figure, (axes,) = canvas(1)
    for row in ROWS[1:]:
        wrong = 1 - ACCURACY[row] / 100
        axes.plot([wrong], [rms(row)], "o", color=BLUE, ms=8)
        axes.annotate(f"layers {row}: {ACCURACY[row]} %", (wrong, rms(row)), xytext=(8, -3), textcoords="offset points")
    axes.axhline(0.375, color=RED, lw=1, ls="--", label="size of floor's bias at N = 4")
    axes.set(xscale="log", yscale="log", xlim=(1e-08, 0.02))
    axes.grid(True, which="major", color="0.92")
    axes.set(xlabel="share of wrong outputs", ylabel="RMS error of a mean code, last places")
    axes.legend(loc="upper left")
    return figure


def noise(comparison: Record) -> Figure:
    """Draw the share of wrong outputs against noise as a share of full scale, for the trained and constructed networks
    of scenario 1 in ``comparison`` (the kept record ``noise``), on logarithmic axes, with a line at 99.99 % right and
    one at the noise beyond which no network has as many right; shares of 0 are left out."""
    figure, (axes,) = canvas(1)
    sigmas = np.array(comparison["sigmas"])
    trained, constructed = cycle((RED, ORANGE, PURPLE, "#882255")), cycle((BLUE, GREEN, SKY, "#222255"))
    for row in comparison["networks"]:
        ours = row["kind"] == "constructed"
        rates = np.array(row["error_rates"])
        shown = rates > 0
        label = f"{row['kind']}: {row['name']}, {row['mzi_count']:,} MZIs, {row['nonlinearity']} units"
        colour = next(constructed if ours else trained)
        axes.plot(sigmas[shown], rates[shown], "-" if ours else "--", color=colour, lw=1.6, label=label)
    axes.axhline(1e-4, color=GREY, lw=1, ls=":")
    axes.annotate("99.99 % right", (0.01, 1e-4), xycoords=("axes fraction", "data"), va="bottom", color=GREY)
    bound, label = input_bound(AveragingFunction.of(4, 8)), "beyond: 99.99 % out of any network's reach"
    axes.axvline(bound, color=GREY, lw=1, ls="-.", label=label)
    axes.set(xscale="log", yscale="log", xlim=(sigmas[0], sigmas[-1]), ylim=(2e-06, 1))
    axes.set(xlabel="noise on every signal, share of its full scale", ylabel="share of wrong outputs")
    figure.legend(loc="outside lower center", ncols=2, fontsize=7)
    return figure


def aware_training(aware: Record) -> Figure:
    """Draw, from the kept record ``aware``, the share of wrong averages against phase errors in rad (logarithmic axes,
    none wrong at the bottom), of the networks trained without and with errors and of the constructed ones, and for
    every seed the percentage of wrong ones without and with errors in training, at the phase errors of the record's
    verdict."""
    figure, (left, right) = canvas(2)
    phases = list(PHASES.values())
    for arm, colour in (("unaware", ORANGE), ("aware", BLUE)):
        for index, row in enumerate(row for row in aware["trainings"] if row["arm"] == arm):
            rates = [max(row["wrong"][name], _LEAST) for name in PHASES]
            label = f"trained, {arm} of errors, {row['mzi_count']:,} MZIs" if index == 0 else None
            left.plot(phases, rates, "o-", color=colour, lw=1, ms=3, label=label)
    for row, style in zip(aware["constructed"], ("--", ":"), strict=False):
        rates = [max(row["wrong"][name], _LEAST) for name in PHASES]
        left.plot(phases, rates, style, color=GREEN, lw=1.6, label=f"{row['name']}, {row['mzi_count']:,} MZIs")
    left.set(xscale="log", yscale="log", ylabel="share of wrong averages")
    left.set_xlabel("phase error, rad (none wrong is drawn at the bottom)")
    left.legend(loc="upper left", fontsize=7)
    at = aware["verdict"]["at"]
    for before, after in zip(error_shares(aware, "unaware", at), error_shares(aware, "aware", at), strict=False):
        right.plot([0, 1], [100 * before, 100 * after], "o-", color=GREY, lw=1, ms=4)
    right.set_xticks([0, 1], ["unaware", "aware"])
    right.set_xlim(-0.3, 1.3)
    right.set_ylim(bottom=0)
    right.set_ylabel("wrong at 3e-3 rad, %, each seed a line")
    return figure
