"""Fig. 7(a): effect of quantised and erroneous averages on training, on the available data."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from lightloom.core.claims import Claim
from lightloom.studies.optinc import PAPER
from lightloom.studies.optinc.paper import CIFAR_ERRORS, CIFAR_QUANTISED, LLAMA_ERRORS, LLAMA_QUANTISED, ident

_T_95 = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 8: 2.365, 10: 2.262}
"""Student's t, two-sided 95 %, by number of pairs."""
_MISSING = "not among the measurements that are there: lightloom reproduce optinc --work DIR --data DIR makes it"
BASE = "float32"
QUANTISED = "16-bit floor"
ERRORS = ("3-6", "4-8")
MARGIN = 0.1
"""Accuracy in points that an average may cost if the paper has no figure."""


class Pairs(NamedTuple):
    """Differences of runs from the baseline with the same seed."""

    mean: float
    half: float
    """Half width of the 95 % interval; NaN for one pair."""
    seeds: int

    def text(self, digits: int) -> str:
        """Mean ± half width."""
        spread = f" ± {self.half:.{digits}f} (95 %)" if self.seeds > 1 else ""
        return f"{self.mean:+.{digits}f}{spread}, {self.seeds} {'seeds' if self.seeds > 1 else 'seed'} in pairs"


def claims(language: Any, digits: Any, images: Any) -> tuple[Claim, ...]:
    """Rows from the records of the language model, MNIST and CIFAR-100; each may be None."""
    return (*_language(language), *_digits(digits), *_images(images))


def paired(runs: Any, name: str, key: str, scale: float = 1.0, base: str = BASE) -> Pairs | None:
    """(run − baseline) of the last entry of ``key``, over the seeds that both have; None without any."""
    first = {each["recipe"]["seed"]: each[key][-1] for each in runs.get(base, ())}
    found = [
        scale * (each[key][-1] - first[each["recipe"]["seed"]])
        for each in runs.get(name, ())
        if each["recipe"]["seed"] in first
    ]
    if not found:
        return None
    n = len(found)
    half = _T_95[n] * float(np.std(found, ddof=1)) / math.sqrt(n) if n > 1 else math.nan
    return Pairs(float(np.mean(found)), half, n)


def _language(record: Any) -> list[Claim]:
    runs = {} if record is None else record["runs"]
    rows = []
    kinds = [("quantised", QUANTISED, LLAMA_QUANTISED), ("half_up", "16-bit half-up", LLAMA_QUANTISED)]
    kinds += [(f"errors_{ident(row)}", f"{QUANTISED}, errors {row}", LLAMA_ERRORS) for row in ERRORS]
    kinds += [("8_bits", "8-bit floor", LLAMA_QUANTISED)]
    for label, name, paper in kinds:
        found = paired(runs, name, "validation_loss")
        words = f"at most {paper:g} more"
        rows.append(
            PAPER.claim(
                "figure7a.llama_{label}",
                None if found is None else words if found.mean <= paper else f"{found.mean:.3f} more",
                paper=words,
                why=_MISSING if found is None else f"{name} less {BASE}: {found.text(4)}. {_basis(record)}",
                label=label,
            )
        )
    return rows


def _basis(record: Any) -> str:
    recipe = record["runs"][BASE][0]["recipe"]
    tokens = recipe["steps"] * recipe["servers"] * recipe["windows_per_server"] * recipe["sequence"]
    losses = [each["validation_loss"][-1] for each in record["runs"][BASE]]
    reached = " to ".join(dict.fromkeys(f"{loss:.3f}" for loss in (min(losses), max(losses))))
    return (
        f"The paper's network on {record['corpus']}, bytes as tokens, {tokens:,} of them; {BASE} reaches {reached}. "
        f"The paper: Wikipedia-1B, 50,000 steps"
    )


def _digits(record: Any) -> list[Claim]:
    runs = {} if record is None else record["runs"]
    rows = []
    kinds = [("quantised", QUANTISED, CIFAR_QUANTISED), ("half_up", "16-bit half-up", MARGIN)]
    kinds += [(f"errors_{ident(row)}", f"{QUANTISED}, errors {row}", CIFAR_ERRORS) for row in ERRORS]
    kinds += [
        ("8_bits_floor", "8-bit floor", MARGIN),
        ("8_bits_half_up", "8-bit half-up", MARGIN),
        ("constructed_with_noise", "8-bit half-up, constructed, noise 3e-3", MARGIN),
    ]
    for label, name, paper in kinds:
        found = paired(runs, name, "accuracy", 100)
        words = f"at most {paper:g} points less"
        source = "our own margin" if paper == MARGIN else "the paper's figure is for ResNet-50 on CIFAR-100"
        rows.append(
            PAPER.claim(
                "figure7a.mnist_{label}",
                None if found is None else words if found.mean >= -paper else f"{-found.mean:.2f} points less",
                paper=words,
                why=_MISSING
                if found is None
                else f"{name} less {BASE}: {found.text(3)}. A CNN on MNIST, four processes, the DDP hook; {source}",
                label=label,
            )
        )
    return rows


def _images(record: Any) -> list[Claim]:
    runs = {} if record is None else record["runs"]
    rows = []
    for label, name, paper in (
        ("quantised", QUANTISED, CIFAR_QUANTISED),
        ("errors", f"{QUANTISED}, errors {ERRORS[0]}", CIFAR_ERRORS),
    ):
        found = paired(runs, name, "accuracy", 100)
        rows.append(
            PAPER.claim(
                "figure7a.resnet50_{label}",
                None if found is None else round(found.mean, 2),
                paper=-paper,
                why="CIFAR-100 is not at hand, and 300 epochs of ResNet-50 take a CPU days: lightloom reproduce optinc "
                "--work DIR --data DIR trains it where DIR holds cifar-100-python or cifar-100-binary"
                if found is None
                else f"{name} less {BASE}: {found.text(2)}",
                label=label,
            )
        )
    return rows
