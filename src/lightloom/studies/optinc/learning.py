"""Fig. 7(a): effect of quantised and erroneous averages on training, on the available data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lightloom.core.claims import Claim
from lightloom.studies.optinc import PAPER
from lightloom.studies.optinc.paper import CIFAR_ERRORS, CIFAR_QUANTISED, LLAMA_ERRORS, LLAMA_QUANTISED, ident
from lightloom.studies.pairs import BASE, paired

_MISSING = "not among the measurements that are there: lightloom reproduce optinc --work DIR --data DIR makes it"
QUANTISED = "16-bit floor"
ERRORS = ("3-6", "4-8")
MARGIN = 0.1
"""Accuracy in points that an average may cost if the paper has no figure."""


def claims(language: Any, digits: Any, images: Any) -> tuple[Claim, ...]:
    """Rows from the records of the language model, MNIST and CIFAR-100; each may be None."""
    return (*_language(language), *_digits(digits), *_images(images))


def _language(record: Any) -> Iterator[Claim]:
    runs = {} if record is None else record["runs"]
    kinds = [("quantised", QUANTISED, LLAMA_QUANTISED), ("half_up", "16-bit half-up", LLAMA_QUANTISED)]
    kinds += [(f"errors_{ident(row)}", f"{QUANTISED}, errors {row}", LLAMA_ERRORS) for row in ERRORS]
    kinds += [("8_bits", "8-bit floor", LLAMA_QUANTISED)]
    for label, name, paper in kinds:
        found = paired(runs, name, "validation_loss")
        words = f"at most {paper:g} more"
        yield PAPER.claim(
            "figure7a.llama_{label}",
            None if found is None else words if found.mean <= paper else f"{found.mean:.3f} more",
            paper=words,
            why=_MISSING if found is None else f"{name} less {BASE}: {found.text(4)}. {_basis(record)}",
            label=label,
        )


def _basis(record: Any) -> str:
    recipe = record["runs"][BASE][0]["recipe"]
    tokens = recipe["steps"] * recipe["servers"] * recipe["windows_per_server"] * recipe["sequence"]
    losses = [each["validation_loss"][-1] for each in record["runs"][BASE]]
    reached = " to ".join(dict.fromkeys(f"{loss:.3f}" for loss in (min(losses), max(losses))))
    return (
        f"The paper's network on {record['corpus']}, bytes as tokens, {tokens:,} of them; {BASE} reaches {reached}. "
        f"The paper: Wikipedia-1B, 50,000 steps"
    )


def _digits(record: Any) -> Iterator[Claim]:
    runs = {} if record is None else record["runs"]
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
        yield PAPER.claim(
            "figure7a.mnist_{label}",
            None if found is None else words if found.mean >= -paper else f"{-found.mean:.2f} points less",
            paper=words,
            why=_MISSING
            if found is None
            else f"{name} less {BASE}: {found.text(3)}. A CNN on MNIST, four processes, the DDP hook; {source}",
            label=label,
        )


def _images(record: Any) -> Iterator[Claim]:
    runs = {} if record is None else record["runs"]
    for label, name, paper in (
        ("quantised", QUANTISED, CIFAR_QUANTISED),
        ("errors", f"{QUANTISED}, errors {ERRORS[0]}", CIFAR_ERRORS),
    ):
        found = paired(runs, name, "accuracy", 100)
        yield PAPER.claim(
            "figure7a.resnet50_{label}",
            None if found is None else round(found.mean, 2),
            paper=-paper,
            why="CIFAR-100 is not at hand, and 300 epochs of ResNet-50 take a CPU days: lightloom reproduce optinc "
            "--work DIR --data DIR trains it where DIR holds cifar-100-python or cifar-100-binary"
            if found is None
            else f"{name} less {BASE}: {found.text(2)}",
            label=label,
        )
