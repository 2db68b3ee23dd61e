"""Figures 4, 13 and 14(b), and the effect of error feedback: accuracy of HDC on MNIST, trained here."""

from __future__ import annotations

import math

import numpy as np

from lightloom.core.claims import Claim
from lightloom.studies.base import Record
from lightloom.studies.inceptionn import PAPER
from lightloom.studies.inceptionn.paper import BOUNDS, ratio
from lightloom.studies.inceptionn.training_runs import RANKS

_FEEDBACK = "windowed+feedback 2^-10"
_BASIS = "our HDC on MNIST, 4 processes, Table I; PyTorch's initialisation and mean loss"
_T_95 = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 8: 2.365, 10: 2.262}
"""Student's t, two-sided 95 %, by number of pairs."""
MARGIN = 0.2
"""Tolerated loss of accuracy with error feedback, in points."""
WITHIN = 2.0
"""Points that section VIII-C says compression costs at most ("< 2 % in absolute accuracy")."""
_LEVEL = 0.98
_EPOCH = 600
"""Iterations: 60,000 images, 25 a worker, 4 workers."""


def claims(training: Record) -> tuple[Claim, ...]:
    """Return the rows from the training record."""
    runs = training["runs"]
    return (*_paired(runs), *_truncated(runs), *_codecs(runs), *_epochs(runs))


def final(run: Record) -> float:
    """Return the final test accuracy, in percent."""
    return 100 * float(run["accuracy"][-1])


def base_at(runs: Record, run: Record) -> float:
    """Return the accuracy of float32 with the same seed after as many iterations as ``run``, in percent."""
    base = next(each for each in runs["float32"] if each["recipe"]["seed"] == run["recipe"]["seed"])
    return 100 * float(base["accuracy"][base["iterations"].index(run["iterations"][-1])])


def paired(runs: Record, name: str) -> tuple[float, float, int]:
    """Return the mean of (run − float32) in points over seeds, half its 95 % interval, and the number of seeds."""
    base = {each["recipe"]["seed"]: final(each) for each in runs["float32"]}
    differences = np.array([final(each) - base[each["recipe"]["seed"]] for each in runs[name]])
    n = len(differences)
    half = _T_95[n] * float(differences.std(ddof=1)) / math.sqrt(n) if n > 1 else math.nan
    return float(differences.mean()), half, n


def mean_ratio(run: Record) -> float:
    """Return float32 bytes over bytes sent in the run; all ranks send equally many."""
    return float(run["nbytes_raw"] / run["nbytes_sent"])


def _paired(runs: Record) -> list[Claim]:
    mean, half, n = paired(runs, _FEEDBACK)
    ratios = [mean_ratio(each) for each in runs[_FEEDBACK]]
    return [
        PAPER.claim("headline.accuracy_difference", round(mean, 3), n=n, mean=mean, half=half),
        PAPER.claim(
            "headline.mean_ratio", round(float(np.mean(ratios)), 2), paper=round(ratio("HDC", 10), 2), ranks=RANKS
        ),
    ]


def _truncated(runs: Record) -> list[Claim]:
    rows = []
    for bits in (16, 22, 24):
        run = runs[f"truncate g {bits}"][0]
        accuracy = {what: final(runs[f"truncate {what} {bits}"][0]) for what in ("g", "w", "w+g")}
        claim = "g no worse than w"
        rows.append(
            PAPER.claim(
                "figure4.hdc_order_{bits}",
                claim if accuracy["g"] >= accuracy["w"] - 0.1 else "g worse than w",
                bits=bits,
                accuracy=accuracy,
                base_at=base_at(runs, run),
                length=_length(run),
            )
        )
    return rows


def _codecs(runs: Record) -> list[Claim]:
    codecs = [
        (f"{label.replace('+', '_')}_bound{k}", f"{label} 2^-{k}", "The paper does not state its initialisation")
        for k in BOUNDS
        for label in ("printed", "windowed", "windowed+feedback")
    ]
    truncated = [
        (f"truncate_{bits}", f"truncate g {bits}", "Section VIII-C calls truncation suitable for HDC")
        for bits in (16, 22, 24)
    ]
    return [_loss(runs, *each) for each in (*codecs, *truncated)]


def _loss(runs: Record, what: str, name: str, remark: str) -> Claim:
    run = runs[name][0]
    base, within = base_at(runs, run), f"less than {WITHIN:g} points lost"
    lost = base - final(run)
    return PAPER.claim(
        "figure14.hdc_accuracy_{what}",
        within if lost < WITHIN else f"{lost:.1f} points lost",
        paper=within,
        what=what,
        final=final(run),
        base=base,
        length=_length(run),
        mean_ratio=mean_ratio(run),
        remark=remark,
    )


def reached(run: Record, level: float = _LEVEL) -> int | None:
    """Return the first recorded iteration with that accuracy."""
    hits = (i for i, accuracy in zip(run["iterations"], run["accuracy"], strict=True) if accuracy >= level)
    return next(hits, None)


def _epochs(runs: Record) -> list[Claim]:
    more = []
    for plain, packed in zip(runs["float32"], runs[_FEEDBACK], strict=True):
        first, second = reached(plain), reached(packed)
        if first is not None and second is not None:
            more.append((second - first) / _EPOCH)
    return [
        PAPER.claim(
            "figure13.hdc_extra_epochs",
            round(float(np.mean(more)), 2) if more else None,
            level_percent=100 * _LEVEL,
            seeds=len(more),
            resolution=250 / _EPOCH,
        )
    ]


def _length(run: Record) -> str:
    return f"seed {run['recipe']['seed']}, {run['iterations'][-1]} iterations"
