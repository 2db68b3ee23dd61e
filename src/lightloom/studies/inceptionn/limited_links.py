"""Figure 12 measured: worker-aggregator and ring, with and without compression, on four workers and limited links."""

from __future__ import annotations

from lightloom.core.claims import Claim
from lightloom.studies.base import Record
from lightloom.studies.inceptionn import PAPER
from lightloom.studies.inceptionn.paper import INC_C, INC_C_OVER_INC, INC_COMMUNICATION, INC_TOTAL, WA_C

_PRINTED = {
    "total, INC against WA": INC_TOTAL["HDC"],
    "communication, INC against WA": INC_COMMUNICATION["HDC"],
    "communication, WA+C against WA": WA_C,
    "communication, INC+C against WA": INC_C,
    "communication, INC+C against INC": INC_C_OVER_INC,
}


def claims(exchange: Record) -> tuple[Claim, ...]:
    """Return the rows of the figure."""
    orders = (
        PAPER.claim("figure12.measured_{model}_order", order, model=_slug(model), exchange=exchange)
        for model, order in exchange["order"].items()
    )
    reductions = (
        PAPER.claim(
            "figure12.measured_{model}_{what}",
            round(row["percent"], 1),
            paper=_PRINTED[row["what"]],
            model=_slug(model),
            what=_slug(row["what"]),
            range=row["range"],
        )
        for model, rows in exchange["reductions"].items()
        for row in rows
    )
    return (*orders, *reductions)


def _slug(text: str) -> str:
    words = text.lower().replace("+", "_").replace(",", "").replace("-", "").split()
    return "_".join(word for word in words if word != "against")
