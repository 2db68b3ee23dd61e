"""Figure 2: share of communication in a step on electrical links."""

from __future__ import annotations

from lightloom.core.claims import Claim
from lightloom.studies.dadiannao.model import FITTED, MIXED, PEAK, Constants, links, run, savings
from lightloom.studies.dadiannao.networks import printed

DOMINATED = ("VGG16", "VGG19", "ResNet50", "ResNet101", "ResNet152")
"""Networks for which the text calls communication dominant."""
BATCHES = (1, 32)
"""Batch sizes that the text names for Fig. 2."""


def share(name: str, batch: int, constants: Constants = FITTED) -> float:
    """Return the share of communication in a step on 25-E, from 0 to 1."""
    found = run(printed()[name], batch, links(MIXED)["25-E"], constants)
    return found.communication / found.time


def claims() -> tuple[Claim, ...]:
    """Return rows on the text about Fig. 2; its bars exist only as an image."""
    rows = [_dominant(name, batch) for name in DOMINATED for batch in BATCHES]
    alone, many = (share("AlexNet", batch) for batch in BATCHES)
    rows.append(
        Claim(
            id="dadiannao.figure2.share_alexnet_with_batch",
            paper="grows",
            ours="grows" if many > alone else "falls",
            unit="communication, batch 1 to 32",
            fitted=True,
            why=f"{100 * alone:.0f} % to {100 * many:.0f} %: model parallelism broadcasts neurons",
        )
    )
    return tuple(rows)


def _dominant(name: str, batch: int) -> Claim:
    ours, at_peak = share(name, batch), share(name, batch, PEAK)
    implied = savings(PEAK).headlines()["time_average_400"]
    return Claim(
        id=f"dadiannao.figure2.communication_{name.lower()}_batch{batch}",
        paper="dominant",
        ours="dominant" if ours > 0.5 else "not dominant",
        unit="above half of the step",
        fitted=True,
        why=f"{100 * ours:.0f} % with the constants that the headlines need; {100 * at_peak:.0f} % with arithmetic at "
        f"the peak rate, but then 400 Gb/s would save {implied:.0f} % of all time on average, not 35.6 %",
    )
