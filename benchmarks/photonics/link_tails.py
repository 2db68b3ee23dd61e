"""Three figures of a prototype beside `onn link`: ``python -m benchmarks.photonics.link_tails [--json FILE]``.

An earlier prototype measured the network of docs/photonics/link.md and kept neither the number of its fabrications nor
intervals. Where errors are static, a few chips hold most of the wrong words: this counts the wrong words of many
fabrications, says what means over 20 of them scatter to, and how often such a mean lies within a factor of two of the
prototype's figure. Other readings of "10 % of power" and of "a skew of 0.1 symbols" stand beside ours.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.support.measure import exit_clearly
from lightloom.core.arrays import Floats
from lightloom.core.files import check_writable, write_atomically
from lightloom.core.results import provenance
from lightloom.photonics.averaging.averagers import IdealAverager
from lightloom.photonics.averaging.construct import build
from lightloom.photonics.averaging.networks import FunctionArguments
from lightloom.photonics.link.settings import Link, ideal
from lightloom.photonics.link.simulate import Chip, FabricatedLink, Senders, design_chip, draw_words
from lightloom.photonics.link.word_errors import bootstrap

SERVERS, BITS, NOISE = 4, 8, 5e-3
LANES = (SERVERS, BITS // 2)
FEW = 20
"""Fabrications of a small sample, as a quick look takes them; 20 is the default of `onn link`."""
_RESAMPLES = 20_000
_QUIET = ideal(Link())
_EVERYTHING = replace(Link(), gain="optical", unit="clip", phase_error=5e-3, calibration="rows")
Draw = Callable[[np.random.Generator], Senders]


def _uniform_power(rng: np.random.Generator) -> Senders:
    return Senders(np.sqrt(1 + rng.uniform(-0.1, 0.1, LANES)), np.zeros(LANES))


def _fixed_power(rng: np.random.Generator) -> Senders:
    return Senders(np.sqrt(1 + 0.1 * rng.choice([-1, 1], LANES)), np.zeros(LANES))


def _levelled_power(rng: np.random.Generator) -> Senders:
    """Gaussian powers, the chip's gain set for their mean: what differs between lanes is left."""
    amplitude = np.sqrt(np.maximum(1 + 0.1 * rng.normal(size=LANES), 0))
    return Senders(amplitude / amplitude.mean(), np.zeros(LANES))


def _fixed_skew(rng: np.random.Generator) -> Senders:
    return Senders(np.ones(LANES), 0.1 * rng.choice([-1.0, 1.0], LANES))


def _linear_skew(rng: np.random.Generator) -> Senders:
    """Skews for which sin²(π s / 2) is the share |s| that a linear transition as long as the symbol leaves."""
    late = np.clip(0.1 * rng.normal(size=LANES), -1, 1)
    return Senders(np.ones(LANES), np.sign(late) * 2 / np.pi * np.arcsin(np.sqrt(np.abs(late))))


CASES: Mapping[str, tuple[Link, float, Draw | None]] = {
    "power 10 %: Gaussian, as onn link": (replace(_QUIET, power_error=0.1), 0.025, None),
    "power 10 %: uniform to 10 %": (_QUIET, 0.025, _uniform_power),
    "power 10 %: 10 % more or less": (_QUIET, 0.025, _fixed_power),
    "power 10 %: Gaussian, gain set for their mean": (_QUIET, 0.025, _levelled_power),
    "skew 0.1: Gaussian, raised cosine, as onn link": (replace(_QUIET, skew=0.1), 0.12, None),
    "skew 0.1: 0.1 early or late": (_QUIET, 0.12, _fixed_skew),
    "skew 0.1: Gaussian, linear over a symbol": (_QUIET, 0.12, _linear_skew),
    "everything, mesh phases 5e-3 rad, gains by rows": (_EVERYTHING, 5.4e-3, None),
}
"""Links with the prototype's figure, and what draws their lanes where `onn link` has no such option."""


def rates(chip: Chip, link: Link, draw: Draw | None, fabrications: int, words: int) -> Floats:
    """Return the share of wrong words of every fabrication, [fabrications]."""
    mean_of, shares = IdealAverager(SERVERS, BITS, "floor"), []
    for number in range(fabrications):
        made = FabricatedLink(chip, link, (0, number))
        if draw is not None:
            made.senders = draw(made.stream("servers"))
        codes = draw_words(SERVERS, BITS, words, np.random.default_rng((0, number, 1)))
        received = made.receive(codes, np.random.default_rng((0, number, 2)))
        shares.append(float((received != mean_of(codes)).any(axis=0).mean()))
    return np.array(shares)


def row(shares: Floats, figure: float) -> dict[str, Any]:
    """Return the mean with its interval, what means over few fabrications scatter to, and how often they agree."""
    rng = np.random.default_rng(0)
    few = shares[rng.integers(0, shares.size, (_RESAMPLES, FEW))].mean(axis=1)
    low, high = np.percentile(few, [2.5, 97.5])
    return {
        "prototype": figure,
        "mean": float(shares.mean()),
        "interval_95": list(bootstrap(shares)),
        "all_right": int((shares == 0).sum()),
        "worst": float(shares.max()),
        "means_of_few_95": [float(low), float(high)],
        "within_a_factor_of_two": float(((few >= figure / 2) & (few <= 2 * figure)).mean()),
    }


def main() -> int:
    """See the module."""
    return exit_clearly(_main)


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.photonics.link_tails")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--fabrications", type=int, default=300)
    parser.add_argument("--only", default="", help="readings whose name has this text")
    parser.add_argument("--words", type=int, default=1000, help="of each fabrication")
    options = parser.parse_args()
    if options.json is not None:
        check_writable(options.json)
    network = build(SERVERS, BITS, noise=NOISE, nonlinearity="clipped").network
    chip = design_chip(network, FunctionArguments(servers=SERVERS, bits=BITS))
    rows = {}
    print(f"{'':50}{'prototype':>10}{'onn link':>10}  95 %{'':14}{FEW} chips, 95 %   within two  all right")
    for name, (link, figure, draw) in CASES.items():
        if options.only not in name:
            continue
        shares = rates(chip, link, draw, options.fabrications, options.words)
        made = rows[name] = row(shares, figure)
        whole, few = ("{:.2g} to {:.2g}".format(*made[key]) for key in ("interval_95", "means_of_few_95"))
        print(
            f"{name:50}{figure:10.2g}{made['mean']:10.2g}  {whole:18}{few:18}{made['within_a_factor_of_two']:8.0%}"
            f"{made['all_right']:8} of {shares.size}",
            flush=True,
        )
    if options.json is not None:
        configuration = {"fabrications": options.fabrications, "words": options.words, "few": FEW}
        document = {**configuration, "rows": rows, "provenance": provenance(configuration, 0)}
        write_atomically(options.json, json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
