"""Figure 2: share of communication in a step on electrical links."""

from __future__ import annotations

from lightloom.core.claims import Claim
from lightloom.studies.dadiannao import PAPER
from lightloom.studies.dadiannao.model import FITTED, MIXED, PEAK, Constants, links, run, savings
from lightloom.studies.dadiannao.networks import printed

DOMINATED = ("VGG16", "VGG19", "ResNet50", "ResNet101", "ResNet152")
"""Networks for which the text calls communication dominant."""
BATCHES = (1, 32)
"""Batch sizes that the text names for Fig. 2."""


def share(name: str, batch: int, constants: Constants = FITTED) -> float:
    """Return the share of communication in a step on 25-E, from 0 to 1."""
    result = run(printed()[name], batch, links(MIXED)["25-E"], constants)
    return result.communication / result.time


def claims() -> tuple[Claim, ...]:
    """Return rows on the text about Fig. 2; its bars exist only as an image."""
    rows = [_dominant(name, batch) for name in DOMINATED for batch in BATCHES]
    alone, many = (share("AlexNet", batch) for batch in BATCHES)
    rows.append(
        PAPER.claim(
            "figure2.share_alexnet_with_batch",
            "grows" if many > alone else "falls",
            alone_percent=100 * alone,
            many_percent=100 * many,
        )
    )
    return tuple(rows)


def _dominant(name: str, batch: int) -> Claim:
    ours, at_peak = share(name, batch), share(name, batch, PEAK)
    implied = savings(PEAK).headlines()["time_average_400"]
    return PAPER.claim(
        "figure2.communication_{network}_batch{batch}",
        "dominant" if ours > 0.5 else "not dominant",
        network=name.lower(),
        batch=batch,
        ours_percent=100 * ours,
        at_peak_percent=100 * at_peak,
        implied=implied,
    )
