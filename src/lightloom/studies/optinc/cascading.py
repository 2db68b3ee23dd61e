"""Section III-C: two levels of averagers for 16 servers, with and without the decimals carried between them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from lightloom.core.claims import Claim
from lightloom.photonics.averaging.cascade import Cascade, build_cascade, end_to_end
from lightloom.photonics.averaging.realised.area import TABLE_I
from lightloom.photonics.meshes.counts import approximated_count
from lightloom.studies.optinc import PAPER
from lightloom.studies.optinc.paper import CASCADE_OVERHEAD

_NOT_TRAINED = "not among the measurements: lightloom onn train --cascade 4 trains it"
TUPLES = 1_000_000
"""Number of tuples that are drawn; the slow tests draw ten times as many."""


def claims() -> tuple[Claim, ...]:
    """Return the rows on the cascade."""
    cascade = built()
    first, second = cascade.first.verify(), cascade.second.verify()
    tuples = end_to_end(cascade, TUPLES)
    loses = "errors"
    return (
        PAPER.claim(
            "example.cascade_basic",
            loses if tuples["wrong_without_decimals"] else "no errors",
            tuples_percent=100 * tuples["share_wrong_without_decimals"],
            tuples=TUPLES,
        ),
        PAPER.claim("example.cascade_level1_wrong_outputs", first.wrong_outputs, first=first),
        PAPER.claim("example.cascade_level2_wrong_outputs", second.wrong_outputs, second=second),
        PAPER.claim("example.cascade_end_to_end_wrong_outputs", tuples["wrong_with_decimals"], tuples=TUPLES),
        _overhead(),
    )


@cache
def built() -> Cascade:
    """Return the cascade of five averagers of 8 bits for 16 servers."""
    return build_cascade(4, 4, 8)


def trained_levels(record: Any) -> Iterator[Claim]:
    """Yield the rows on the cascade that was trained as the paper's, from its record or None."""
    for number in (1, 2):
        template = "example.cascade_trained_level{number}_wrong_outputs"
        if record is None:
            yield PAPER.claim(template, None, number=number, why=_NOT_TRAINED)
            continue
        level, training = record["levels"][number - 1], record["trainings"][number - 1]
        values = {"inputs": level["checked_inputs"], "cpu_seconds": training["cpu_seconds"]}
        yield PAPER.claim(template, level["wrong_outputs"], number=number, **values)
    template = "example.cascade_trained_end_to_end_wrong_outputs"
    if record is None:
        yield PAPER.claim(template, None, why=_NOT_TRAINED)
    else:
        ends = record["end_to_end"]
        yield PAPER.claim(template, ends["wrong_with_decimals"], tuples=ends["tuples"])


def _overhead() -> Claim:
    network = TABLE_I[0]
    more = 2 * approximated_count(64, 64)
    alone, units = (100 * more / network.area(units=units) for units in (False, True))
    return PAPER.claim(
        "example.cascade_hardware_overhead",
        round(alone, 2),
        paper=CASCADE_OVERHEAD,
        added=more,
        area=network.area(units=False),
        with_units=units,
    )
