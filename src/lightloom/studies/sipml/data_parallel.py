"""The exchange between groups: 2 · weights · 8 / B in the authors' scripts, and the bytes of our models."""

from __future__ import annotations

from lightloom.core.claims import Claim
from lightloom.studies.sipml import PAPER
from lightloom.studies.sipml.paper import JOBS, RANKS, RING_MS
from lightloom.workloads.catalog import ZOO

GRADIENT_BYTES = 4
"""Bytes of one gradient in float32."""


def ring_time(nbytes: float, gbps: float, ranks: int | None = None) -> float:
    """Seconds of a ring all-reduce over links of so many Gb/s; without ``ranks`` the limit of many."""
    share = 1.0 if ranks is None else (ranks - 1) / ranks
    return 2 * share * nbytes * 8 / (gbps * 1e9)


def gradient_bytes(key: str) -> float:
    """Return the bytes of our model's gradients."""
    return float(ZOO[JOBS[key].model].parameters * GRADIENT_BYTES)


def claims() -> tuple[Claim, ...]:
    """The scripts' term with their weights, and with our models' gradients."""
    rows = []
    for key, job in JOBS.items():
        for gbps, printed in RING_MS[key].items():
            rows.append(
                PAPER.claim(
                    "example.exchange_{model}_{gbps}",
                    round(1e3 * ring_time(job.weights, gbps, RANKS), 4),
                    paper=printed,
                    tolerance=0.002 * printed,
                    model=key,
                    gbps=gbps,
                )
            )
        parameters = ZOO[job.model].parameters
        rows.append(
            PAPER.claim(
                "example.weights_{model}",
                round(gradient_bytes(key) / 1e6, 1),
                paper=job.weights / 1e6,
                model=key,
                millions=parameters / 1e6,
                nbytes=job.weights / parameters,
            )
        )
    return tuple(rows)
