"""Fig. 7(a): effect of quantised and erroneous averages on training, on the available data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lightloom.core.claims import Claim
from lightloom.studies.optinc import PAPER
from lightloom.studies.pairs import BASE, Pairs, paired

_MISSING = "not among the measurements: python -m lightloom.studies.optinc.language_runs DIR makes what they lack"


def claims(language: Any, small: Any, digits: Any, images: Any) -> tuple[Claim, ...]:
    """Rows from the records of the language model, a small one, MNIST and CIFAR-100; each may be None."""
    return (*_language("llama", language), *_language("llama_small", small), *_digits(digits), *_images(images))


def _compared(model: str, record: Any, key: str, scale: float) -> Iterator[tuple[str, str, float, Pairs | None]]:
    """Yield the compared runs of a model: label of the row, name, the paper's figure, differences from the baseline."""
    runs = {} if record is None else record["runs"]
    for label, (name, paper) in PAPER.tables["training"][model].items():
        yield label, name, paper, paired(runs, name, key, scale)


def _language(model: str, record: Any) -> Iterator[Claim]:
    basis = {} if record is None else _basis(record)
    for label, name, paper, pairs in _compared(model, record, "validation_loss", 1.0):
        values: dict[str, Any] = {"label": label, "paper": f"at most {paper:g} more"}
        if pairs is None:
            yield PAPER.claim(f"figure7a.{model}_{{label}}", None, why=_MISSING, **values)
        else:
            ours = values["paper"] if pairs.mean <= paper else f"{pairs.mean:.3f} more"
            yield PAPER.claim(
                f"figure7a.{model}_{{label}}", ours, name=name, difference=pairs.text(4), **values, **basis
            )


def _basis(record: Any) -> dict[str, Any]:
    """Return the corpus, the numbers of steps and tokens, and the losses that the baseline reaches."""
    recipe = record["runs"][BASE][0]["recipe"]
    tokens = recipe["steps"] * recipe["servers"] * recipe["windows_per_server"] * recipe["sequence"]
    losses = [run["validation_loss"][-1] for run in record["runs"][BASE]]
    reached = " to ".join(dict.fromkeys(f"{loss:.3f}" for loss in (min(losses), max(losses))))
    return {"corpus": record["corpus"], "steps": recipe["steps"], "tokens": tokens, "reached": reached}


def _digits(record: Any) -> Iterator[Claim]:
    for label, name, paper, pairs in _compared("mnist", record, "accuracy", 100):
        values = {"label": label, "paper": f"at most {paper:g} points less"}
        if pairs is None:
            yield PAPER.claim("figure7a.mnist_{label}", None, why=_MISSING, **values)
        else:
            ours = values["paper"] if pairs.mean >= -paper else f"{-pairs.mean:.2f} points less"
            yield PAPER.claim("figure7a.mnist_{label}", ours, name=name, difference=pairs.text(3), **values)


def _images(record: Any) -> Iterator[Claim]:
    for label, name, paper, pairs in _compared("resnet50", record, "accuracy", 100):
        measured = {} if pairs is None else {"why": f"{name} less {BASE}: {pairs.text(2)}"}
        ours = None if pairs is None else round(pairs.mean, 2)
        yield PAPER.claim("figure7a.resnet50_{label}", ours, paper=-paper, label=label, **measured)
