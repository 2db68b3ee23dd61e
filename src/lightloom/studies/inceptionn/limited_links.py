"""Figure 12 measured: worker-aggregator and ring, with and without compression, on four workers and limited links."""

from __future__ import annotations

from collections.abc import Iterator

from lightloom.core.claims import Claim
from lightloom.studies.base import Record
from lightloom.studies.inceptionn import PAPER
from lightloom.studies.inceptionn.paper import INC_C, INC_C_OVER_INC, INC_COMMUNICATION, INC_TOTAL, WA_C

_TOLERANCE = 10.0
"""Tolerance of a measured reduction, in percentage points."""
_PRINTED = {
    "total, INC against WA": INC_TOTAL["HDC"],
    "communication, INC against WA": INC_COMMUNICATION["HDC"],
    "communication, WA+C against WA": WA_C,
    "communication, INC+C against WA": INC_C,
    "communication, INC+C against INC": INC_C_OVER_INC,
}


def claims(exchange: Record) -> tuple[Claim, ...]:
    """Return the rows of the figure."""
    return (*_order(exchange), *_reductions(exchange))


def _slug(text: str) -> str:
    words = text.lower().replace("+", "_").replace(",", "").replace("-", "").split()
    return "_".join(word for word in words if word != "against")


def _order(exchange: Record) -> list[Claim]:
    return [
        PAPER.claim("figure12.measured_{model}_order", order, model=_slug(model), exchange=exchange)
        for model, order in exchange["order"].items()
    ]


def _reductions(exchange: Record) -> Iterator[Claim]:
    for model, reductions in exchange["reductions"].items():
        for row in reductions:
            low, high = row["range"]
            yield Claim(
                id=f"inceptionn.figure12.measured_{_slug(model)}_{_slug(row['what'])}",
                paper=_PRINTED[row["what"]],
                ours=round(row["percent"], 1),
                unit="% less",
                tolerance=_TOLERANCE,
                why=f"median, {low:.0f} to {high:.0f} over rounds; paper: HDC for INC, about for the rest, at "
                "10 Gbit/s. "
                "Our ring fills its links, and compressing on the host makes fewer packets, unlike the card",
            )
