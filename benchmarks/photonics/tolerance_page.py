"""The page of the tolerance benchmark: docs/photonics/tolerance.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lightloom.core.results import provenance_line

_OPENING = """# What averagers bear

Which network of interferometers averages the codes of N servers in spite of the errors of its devices, and how much
more of each error does it bear?

    lightloom onn build --servers 8 --bits 8 --tolerate {request} --out n8.npz
    python -m benchmarks.photonics.tolerance --kept tolerance.json --page docs/photonics/tolerance.md   # this page

The averager with the fewest interferometers, P and T included, for {errors}, all at once, at most {target:g} wrong
words (8 bits; {fabrications} fabrications, upper end of the 95 % interval). *Share borne*: how much of all these
errors at once it bears, noise falling with the root of the power; then what it bears of each alone.
"""

_TRAINED = """
Trained networks for 4 servers and 8 bits under the same errors, wrong words (4 fabrications, 500 words on each;
rectangles of all signals, `sigma-u` for the one trained to it):
"""

_CLOSING = """

* Trained networks spread signals over large meshes: each error alone does little, but at once most words are wrong.
  Light passes hundreds of columns, whose loss amplifiers make up for; probably their noise with that gain is what
  fails.
* Errors reach an output in proportion to how many levels its signal has: constructions that carry analogue sums of 49
  levels through many layers fail first. *Digits decided* ([averaging](averaging.md)) exists for that.
* Lanes, outputs of units, amplifiers and receivers are set for the loss of their paths, once, with known light. That
  is an assumption about the set-up, and why loss of 0.1 dB costs little; `onn link --set calibration=levels` sets the
  same levels and counts as many wrong words ([the link](link.md)), which has the terms that are not here (lasers,
  phase of the servers, polarisation, skew, receivers). Crossings have no loss.
* Amplifier noise alone, for 1e-3 wrong words in the network of [onn](onn.md): 0.33 mW with a gain for each output,
  0.4 W with one for all ([link](link.md#against-a-second-simulation)).
* What each error alone may be is the largest value at which the upper end of the interval of one run of 100
  fabrications stays below the target. A handful of fabrications hold most of the wrong words near such a limit: other
  draws exceed the target there.
"""


def page(document: Mapping[str, Any]) -> str:
    """Return the page in Markdown for kept rows."""
    rows, errors = document["rows"], document["errors"]
    constructed = sorted(
        (row for name, row in rows.items() if name.endswith(" servers")), key=lambda row: int(row["servers"])
    )
    trained = [row for name, row in rows.items() if name.startswith("trained ")]
    opening = _OPENING.format(
        request=",".join(f"{name}={_asked(name, value)}" for name, value in errors.items()),
        errors=", ".join(
            f"{name} {value * (1e3 if name == 'power' else 1):g} {_UNITS.get(name, '')}".strip()
            for name, value in errors.items()
        ),
        target=document["target"],
        fabrications=document["fabrications"],
    )
    parts = [opening, _constructed_table(constructed, list(errors))]
    if trained:
        parts += [_TRAINED, _trained_table(trained, list(errors))]
    seconds = sum(row["cpu_seconds"] for row in rows.values())
    closing = f"{seconds:.0f} CPU seconds in all, one thread of a {document['cpu']}.\n"
    return "\n".join(
        part.strip("\n") + "\n" for part in [*parts, _CLOSING, closing + provenance_line(document["provenance"])]
    )


def _constructed_table(rows: list[Mapping[str, Any]], names: list[str]) -> str:
    heads = ["servers", "network", "MZIs", "crossings", "gain", "wrong words (95 %)", "share borne"]
    heads += [f"{name}, {_UNITS.get(name, '')}".removesuffix(", ") for name in names] + ["CPU-s"]
    lines = ["| " + " | ".join(heads) + " |", "| ---: | --- |" + " ---: |" * (len(heads) - 2)]
    for row in rows:
        low, high = row["interval_95"]
        network = row["network"] if row["tolerated"] else f"none; the sturdiest is {row['network']}"
        cells = [
            f"{row['servers']}",
            network,
            f"{row['mzi_count']:,}",
            f"{row['crossings']:,}",
            f"{row['gain_db']:.1f} dB",
            f"{row['word_error_rate']:.1g} ({low:.1g} to {high:.1g})",
            f"{row['share']:.2f}",
            *(_alone(name, row["alone"][name]) for name in names),
            f"{row['cpu_seconds']:.0f}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _trained_table(rows: list[Mapping[str, Any]], names: list[str]) -> str:
    heads = ["network", "MZIs", "gain", "all at once", *(f"{name} alone" for name in names)]
    lines = ["| " + " | ".join(heads) + " |", "| --- |" + " ---: |" * (len(heads) - 1)]
    for row in rows:
        rates = [f"{row['rates'][name][0]:.2g}" for name in ("all", *names)]
        cells = [row["network"], f"{row['mzi_count']:,}", f"{row['gain_db']:.1f} dB", *rates]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


_UNITS = {"phase-error": "rad", "coupler-error": "rad", "loss": "dB", "loss-spread": "dB", "power": "mW"}


def _asked(name: str, value: float) -> str:
    return f"{value * 1e3:g}mW" if name == "power" else f"{value:g}{'dB' if name.startswith('loss') else ''}"


def _alone(name: str, value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value * 1e3:.2g}" if name == "power" else f"{value:.2g}"
