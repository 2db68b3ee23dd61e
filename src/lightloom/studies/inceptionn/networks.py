"""Figures 4, 13, 14 and Table III on a second network, and on HDC under the mean loss and the summed one.

The paper does not say how its loss is scaled, and an absolute bound drops what a small gradient holds: the loss summed
over a worker's 25 images has gradients 25 times as large as their mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean

import numpy as np

from lightloom.core.claims import Basis, Claim
from lightloom.studies.base import Record
from lightloom.studies.inceptionn import PAPER
from lightloom.studies.inceptionn.accuracy import WITHIN, base_at, final, mean_ratio, reached
from lightloom.studies.inceptionn.bitwidths import as_printed, beyond_dropping
from lightloom.studies.inceptionn.paper import BOUNDS, MODELS, TABLE_3, TAG_BITS, ratio, ratio_of_shares
from lightloom.studies.pairs import BASE, paired

LEVEL = 0.9
"""Accuracy to which LeNet's epochs are counted."""
_EPOCH = 600
"""Iterations: 60,000 images, 25 a worker, 4 workers."""
LOSSES = {"mean": "", "summed": " summed"}
"""Losses over a worker's batch, and the words that mark their runs."""
_FEEDBACK = "windowed+feedback 2^-10"
CHANCE = 0.2
"""Accuracy below which a network of ten classes has learned nothing."""


def claims(networks: Record) -> tuple[Claim, ...]:
    """Return the rows from the record of the short runs."""
    runs = networks["runs"]
    return (*_scaled(runs["hdc"]), *_lenet(runs["lenet"]), *_cifar(runs.get("lenet-cifar")))


def shares(run: Record) -> dict[int, list[float]]:
    """Return the percentage of rank 0's gradient in each class, by k, averaged over the run."""
    tags = np.array(run["tags"])
    return {k: (100 * tags[:, place].mean(axis=0)).tolist() for place, k in enumerate(BOUNDS)}


def _scaled(hdc: Record) -> Iterator[Claim]:
    """HDC under both losses: what the printed codec learns, and the sizes of Table III."""
    for loss, mark in LOSSES.items():
        yield _accuracy(hdc, "hdc_scaled", f"printed 2^-10{mark}", f"printed_bound10_{loss}_loss", "reproduced")
    literal = hdc["float32 summed, rate as printed"][0]
    learns = "trains" if literal["accuracy"][-1] > CHANCE else "diverges"
    yield PAPER.claim("example.hdc_summed_loss_at_printed_rate", learns, final=final(literal))
    for loss, mark in LOSSES.items():
        run = hdc[f"float32{mark}"][0]
        for k, ours in shares(run).items():
            for bits, printed, share in zip(TAG_BITS, TABLE_3["HDC", k], ours, strict=True):
                values = {"k": k, "bits": bits, "loss": loss, "iterations": run["iterations"][-1]}
                values |= beyond_dropping(bits, printed)
                row, rounded = "table3.hdc_{loss}_loss_bound{k}_{bits}bit", as_printed(share, printed)
                yield PAPER.claim(row, rounded, paper=printed, **values)


def truncated(runs: Record) -> list[int]:
    """Return the numbers of low bits that were dropped from gradients and, in other runs, from weights."""
    return [bits for bits in (16, 22, 24) if {f"truncate g {bits}", f"truncate w {bits}"} <= set(runs)]


def _lenet(lenet: Record) -> Iterator[Claim]:
    for bits in truncated(lenet):
        accuracy = {what: final(lenet[f"truncate {what} {bits}"][0]) for what in "gw"}
        order = "g no worse than w" if accuracy["g"] >= accuracy["w"] - 0.1 else "g worse than w"
        yield PAPER.claim("figure4.lenet_order_{bits}", order, bits=bits, accuracy=accuracy, **_base(lenet))
    pairs = paired(lenet, _FEEDBACK, "accuracy", 100)
    assert pairs is not None
    yield PAPER.claim("headline.lenet_accuracy_difference", round(pairs.mean, 3), difference=pairs.text(2))
    for name in lenet:
        if name != BASE and not name.startswith("truncate w"):
            yield _accuracy(lenet, "lenet_accuracy", name, _words(name), "stand-in")
    yield _epochs(lenet)
    ratios = {k: ratio_of_shares(ours) for k, ours in shares(lenet[BASE][0]).items()}
    for k, ours in ratios.items():
        printed = sorted(ratio(model, k) for model in MODELS)
        paper = f"{printed[0]:.1f} to {printed[-1]:.1f}"
        within = paper if printed[0] <= ours <= printed[-1] else f"{ours:.1f}"
        yield PAPER.claim("figure14.lenet_ratio_bound{k}", within, paper=paper, k=k, measured=ours)


def _cifar(cifar: Record | None) -> Iterator[Claim]:
    for label in ("printed", "windowed", "windowed+feedback"):
        name = f"{label} 2^-10"
        if cifar is not None and name in cifar:
            yield _accuracy(cifar, "cifar_accuracy", name, _words(name), "stand-in")
        else:
            yield PAPER.claim("figure14.cifar_accuracy_{what}", None, what=_words(name), paper=_SAYS)


_SAYS = f"less than {WITHIN:g} points lost"


def _accuracy(runs: Record, family: str, name: str, what: str, basis: Basis) -> Claim:
    """Return the row of the points that a codec loses to float32, mean over the seeds."""
    records = runs[name]
    lost = fmean(base_at(runs, run) - final(run) for run in records)
    values = {
        "final": fmean(final(run) for run in records),
        "base": fmean(base_at(runs, run) for run in records),
        "ratio": fmean(mean_ratio(run) for run in records),
        "iterations": records[0]["iterations"][-1],
        "seeds": f"{len(records)} {'seeds' if len(records) > 1 else 'seed'}",
        "loss": "summed" if records[0]["recipe"]["gradient_scale"] > 1 else "mean",
    }
    ours = _SAYS if lost < WITHIN else f"{lost:.1f} points lost"
    return PAPER.claim(f"figure14.{family}_{{what}}", ours, paper=_SAYS, what=what, basis=basis, **values)


def _base(runs: Record) -> dict[str, object]:
    base = runs[BASE][0]
    return {"base": final(base), "iterations": base["iterations"][-1]}


def _epochs(lenet: Record) -> Claim:
    runs = zip(lenet[BASE], lenet[_FEEDBACK], strict=True)
    pairs = [(reached(base, LEVEL), reached(run, LEVEL)) for base, run in runs]
    more = [(second - first) / _EPOCH for first, second in pairs if first is not None and second is not None]
    every = lenet[BASE][0]["iterations"][0]
    return PAPER.claim(
        "figure13.lenet_extra_epochs",
        round(fmean(more), 2) if more else None,
        level_percent=100 * LEVEL,
        seeds=len(more),
        resolution=every / _EPOCH,
    )


def _words(name: str) -> str:
    words = name.replace("truncate g ", "truncate_").replace(" 2^-", "_bound").replace("+", "_")
    return words.replace(" summed", "_summed_loss").replace(" ", "_")
