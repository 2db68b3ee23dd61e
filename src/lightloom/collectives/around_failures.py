"""Prices of a collective on what failures leave of a fabric, each schedule synthesized anew and verified."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lightloom.collectives.evaluate import evaluate
from lightloom.collectives.registry import find
from lightloom.collectives.spec import Collective
from lightloom.core.results import Document
from lightloom.fabrics.base import Fabric
from lightloom.fabrics.damage import damaged
from lightloom.fabrics.failures import Failure


def around_failures(
    request: Collective,
    sound: Fabric,
    cases: Sequence[Sequence[Failure]],
    advance: Callable[[int], None] | None = None,
) -> list[Document]:
    """Return a row for each case, with its slowdown against the first; every rank's share stays as large as it was.

    Args:
        request: the collective before anything fails.
        sound: the fabric then.
        cases: what has failed, case by case; nothing has in the first, as a rule.
        advance: called with 1 after every case.

    Raises:
        ConfigError: something failed that the fabric does not have, or parts of it cannot reach each other.
    """
    fabrics = [damaged(sound, case) if case else sound for case in cases]
    rows: list[Document] = []
    for case, fabric in zip(cases, fabrics, strict=True):
        remaining = Collective(request.kind, fabric.ranks, request.nbytes_per_rank * fabric.ranks)
        result = evaluate(find("synthesized"), remaining, fabric)
        rows.append(
            {
                "failures": [failure.text() for failure in case],
                "ranks": fabric.ranks,
                "time_s": result.cost.time,
                "slowdown": result.cost.time / rows[0]["time_s"] if rows else 1.0,
                "lower_bound_s": result.bound.time,
                "bound_by": result.bound.bound_by,
                "verified": True,
                "notes": list(result.schedule.notes),
            }
        )
        if advance is not None:
            advance(1)
    return rows
