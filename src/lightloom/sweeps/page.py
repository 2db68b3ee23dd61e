"""A sweep on one page."""

from __future__ import annotations

from collections import Counter

from lightloom.reports.report import Report, Table
from lightloom.sweeps.run import Swept


def sweep_report(found: Swept, description: str) -> Report:
    """The page of a finished sweep."""
    reasons = Counter(row["why"] for row in found.rows if row.get("why"))
    return Report(
        title=f"sweep {found.name}",
        headline=description or found.name,
        facts=(("points", f"{len(found.rows):,}"), *((name, f"{count:,}") for name, count in found.statuses.items())),
        tables=(
            Table(
                title="Refused", columns=("points", "why"),
                rows=tuple((str(count), why) for why, count in reasons.most_common()),
            ),
        ),
        provenance=found.provenance,
    )  # fmt: skip
