"""Figures 4, 13 and 14(b), and the effect of error feedback: accuracy of HDC on MNIST, trained here."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean

from lightloom.core.claims import Basis, Claim
from lightloom.studies.base import Record
from lightloom.studies.inceptionn import PAPER
from lightloom.studies.inceptionn.paper import BOUNDS, ratio
from lightloom.studies.inceptionn.training_runs import RANKS
from lightloom.studies.pairs import BASE, paired

_FEEDBACK = "windowed+feedback 2^-10"
WITHIN = 2.0
"""Points that section VIII-C says compression costs at most ("< 2 % in absolute accuracy")."""
_UNSTATED = "The paper does not state its initialisation"
_CORRECTED = "Our correction stands for the printed codec"
_LEVEL = 0.98
_EPOCH = 600
"""Iterations: 60,000 images, 25 a worker, 4 workers."""


def claims(training: Record) -> tuple[Claim, ...]:
    """Return the rows from the training record."""
    runs = training["runs"]
    return (*_paired(runs), *_truncated(runs), *_codecs(runs), _epochs(runs))


def final(run: Record) -> float:
    """Return the final test accuracy, in percent."""
    return 100 * float(run["accuracy"][-1])


def base_at(runs: Record, run: Record) -> float:
    """Return the accuracy of float32 with the same seed after as many iterations as ``run``, in percent."""
    base = next(base for base in runs[BASE] if base["recipe"]["seed"] == run["recipe"]["seed"])
    return 100 * float(base["accuracy"][base["iterations"].index(run["iterations"][-1])])


def mean_ratio(run: Record) -> float:
    """Return float32 bytes over bytes sent in the run; all ranks send equally many."""
    return float(run["nbytes_raw"] / run["nbytes_sent"])


def _paired(runs: Record) -> Iterator[Claim]:
    pairs = paired(runs, _FEEDBACK, "accuracy", 100)
    assert pairs is not None
    ratios = [mean_ratio(run) for run in runs[_FEEDBACK]]
    yield PAPER.claim("headline.accuracy_difference", round(pairs.mean, 3), pairs=pairs)
    yield PAPER.claim("headline.mean_ratio", round(fmean(ratios), 2), paper=round(ratio("HDC", 10), 2), ranks=RANKS)


def _truncated(runs: Record) -> Iterator[Claim]:
    for bits in (16, 22, 24):
        accuracy = {what: final(runs[f"truncate {what} {bits}"][0]) for what in ("g", "w", "w+g")}
        yield PAPER.claim(
            "figure4.hdc_order_{bits}",
            "g no worse than w" if accuracy["g"] >= accuracy["w"] - 0.1 else "g worse than w",
            bits=bits,
            accuracy=accuracy,
            **_against_base(runs, runs[f"truncate g {bits}"][0]),
        )


def _codecs(runs: Record) -> Iterator[Claim]:
    for k in BOUNDS:
        for label in ("printed", "windowed", "windowed+feedback"):
            remark = _UNSTATED if label == "printed" else f"{_CORRECTED}. {_UNSTATED}"
            basis: Basis = "reproduced" if label == "printed" else "stand-in"
            yield _loss(runs, f"{label.replace('+', '_')}_bound{k}", f"{label} 2^-{k}", remark, basis)
    for bits in (16, 22, 24):
        yield _loss(runs, f"truncate_{bits}", f"truncate g {bits}", "Section VIII-C calls truncation suitable for HDC")


def _loss(runs: Record, what: str, name: str, remark: str, basis: Basis = "reproduced") -> Claim:
    run = runs[name][0]
    lost, within = base_at(runs, run) - final(run), f"less than {WITHIN:g} points lost"
    return PAPER.claim(
        "figure14.hdc_accuracy_{what}",
        within if lost < WITHIN else f"{lost:.1f} points lost",
        paper=within,
        basis=basis,
        what=what,
        final=final(run),
        mean_ratio=mean_ratio(run),
        remark=remark,
        **_against_base(runs, run),
    )


def _against_base(runs: Record, run: Record) -> dict[str, object]:
    """Return the accuracy of float32 in percent, and the seed and length of both runs in words."""
    length = f"seed {run['recipe']['seed']}, {run['iterations'][-1]} iterations"
    return {"base": base_at(runs, run), "length": length}


def reached(run: Record, level: float = _LEVEL) -> int | None:
    """Return the first recorded iteration with that accuracy."""
    hits = (i for i, accuracy in zip(run["iterations"], run["accuracy"], strict=True) if accuracy >= level)
    return next(hits, None)


def _epochs(runs: Record) -> Claim:
    pairs = [(reached(plain), reached(packed)) for plain, packed in zip(runs[BASE], runs[_FEEDBACK], strict=True)]
    more = [(second - first) / _EPOCH for first, second in pairs if first is not None and second is not None]
    return PAPER.claim(
        "figure13.hdc_extra_epochs",
        round(fmean(more), 2) if more else None,
        level_percent=100 * _LEVEL,
        seeds=len(more),
        resolution=250 / _EPOCH,
    )
