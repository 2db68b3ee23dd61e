"""Section III-C: two levels of averagers for 16 servers, with and without the decimals carried between them."""

from __future__ import annotations

from functools import cache

from lightloom.core.claims import Claim
from lightloom.photonics.averaging.cascade import Cascade, build_cascade, end_to_end
from lightloom.photonics.averaging.realised.area import TABLE_I
from lightloom.photonics.meshes.counts import approximated_count
from lightloom.studies.optinc.paper import CASCADE_OVERHEAD

TUPLES = 1_000_000
"""Number of tuples that are drawn; the slow tests draw ten times as many."""


def claims() -> tuple[Claim, ...]:
    """Return the rows on the cascade."""
    cascade = built()
    first, second = cascade.first.verify(), cascade.second.verify()
    tuples = end_to_end(cascade, TUPLES)
    loses = "errors"
    return (
        Claim(
            id="optinc.example.cascade_basic",
            paper=loses,
            ours=loses if tuples["wrong_without_decimals"] else "no errors",
            unit="",
            why=f"eq. 9, which floors twice: {100 * tuples['share_wrong_without_decimals']:.1f} % of {TUPLES:,} "
            "tuples of 16 servers are wrong, by -1 at most; a fifth of the tuples are near-equal",
        ),
        Claim(
            id="optinc.example.cascade_level1_wrong_outputs",
            paper=0,
            ours=first.wrong_outputs,
            unit="outputs",
            why=f"all {first.checked_inputs:,} inputs, decimals in the last output included",
        ),
        Claim(
            id="optinc.example.cascade_level2_wrong_outputs",
            paper=0,
            ours=second.wrong_outputs,
            unit="outputs",
            why=f"all {second.checked_inputs:,} inputs that level 1 can give",
        ),
        Claim(
            id="optinc.example.cascade_end_to_end_wrong_outputs",
            paper=0,
            ours=tuples["wrong_with_decimals"],
            unit="outputs",
            why=f"eq. 10, analogue from the servers to the receivers, {TUPLES:,} tuples; slow tests try 10 million. "
            "No receiver decides between the levels, so that 100 % at each alone would not suffice",
        ),
        _overhead(),
    )


@cache
def built() -> Cascade:
    """Return the cascade of five averagers of 8 bits for 16 servers."""
    return build_cascade(4, 4, 8)


def _overhead() -> Claim:
    network = TABLE_I[0]
    more = 2 * approximated_count(64, 64)
    alone, units = (100 * more / network.area(units=units) for units in (False, True))
    return Claim(
        id="optinc.example.cascade_hardware_overhead",
        paper=CASCADE_OVERHEAD,
        ours=round(alone, 2),
        unit="%",
        tolerance=0.05,
        why=f"two approximated 64 x 64 matrices, {more:,} MZIs, to the {network.area(units=False):,} of scenario 1's "
        f"network; {units:.2f} % with P and T. No convention that we tried gives 10.5 %",
    )
