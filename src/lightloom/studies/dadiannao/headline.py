"""The ten percentages with two fitted constants and with one, and a bound for any constants."""

from __future__ import annotations

from lightloom.core.claims import Claim
from lightloom.studies.dadiannao import PAPER
from lightloom.studies.dadiannao.model import (
    BOTH_DIRECTIONS,
    FITTED,
    MIXED,
    ONE_DIRECTION,
    ONE_FITTED,
    PEAK,
    Bandwidths,
    Constants,
    best,
    savings,
)
from lightloom.studies.dadiannao.networks import all_counted
from lightloom.studies.dadiannao.paper import BEST, HEADLINE, TOLERANCE

_UNITS = "electrical links at 6.4 GB/s (both directions), optical at 12.5 and 50 GB/s (one direction)"


def claims() -> tuple[Claim, ...]:
    """Return the rows of the headlines."""
    return (*_fitted(), *_winners(), *_impossible(), *_consistent(), *_unfitted())


def largest_ratio(bandwidths: Bandwidths) -> float:
    """How much more time 400-O can save than 100-O under Eqs. 1 to 3, whatever the compute model.

    A step's time is convex and rising in 1/BW: C + latency + D/BW, or per layer the larger of computation and that. A
    chord over a longer range is therefore no steeper than one that ends at the same slow link, so that
    saved(400)/saved(100) is at most the ratio of the steps in 1/BW; the longer latency of 400-O only lowers it.
    """
    electrical, hundred, four_hundred = (1 / each for each in bandwidths)
    return (electrical - four_hundred) / (electrical - hundred)


def _row(what: str, ours: float, why: str, suffix: str = "", tolerance: float = TOLERANCE) -> Claim:
    return PAPER.claim(
        "headline.{what}{suffix}",
        round(ours, 2),
        paper=HEADLINE[what],
        tolerance=tolerance,
        why=why,
        what=what,
        suffix=suffix,
    )


def _fitted() -> list[Claim]:
    rows = []
    for suffix, constants in (("", FITTED), ("_one_constant", ONE_FITTED)):
        why = f"fitted: R = {constants.passes:g}, β = {constants.synapse:g}; {_UNITS}"
        found = savings(constants).headlines()
        rows += [_row(what, found[what], why, suffix) for what in HEADLINE]
    return rows


def _winners() -> list[Claim]:
    found = savings(FITTED)
    rows = []
    for speed, paper in BEST.items():
        for what, figures in (("time", found.time[speed]), ("edp", found.edp[speed])):
            (name, batch) = best(figures)
            rows.append(
                PAPER.claim(
                    "headline.{what}_best_network_{speed}",
                    name,
                    paper=paper,
                    why=f"batch {batch}: VGG16 {figures['VGG16', 1]:.1f}, VGG19 {figures['VGG19', 1]:.1f} %. Both take "
                    "17 chips, and VGG19 has more multiplications and more layers for each synapse: it saves less at "
                    "either speed",
                    what=what,
                    speed=speed,
                )
            )
    return rows


def _impossible() -> list[Claim]:
    bound, mixed = largest_ratio(BOTH_DIRECTIONS), largest_ratio(MIXED)
    proof = (
        "a step's time is convex in 1/bandwidth and 400-O has no less latency, so that saved(400)/saved(100) <= "
        f"(1 − 6.4/100)/(1 − 6.4/25) = {bound:.3f} in every case, hence for means, with any compute model and with "
        f"overlap. With 6.4, 12.5 and 50 GB/s the bound is {mixed:.3f}"
    )
    rows = [
        PAPER.claim(
            "headline.saved_400_over_100{suffix}",
            round(bound, 3),
            paper=round(HEADLINE[f"{what}_400"] / HEADLINE[f"{what}_100"], 3),
            why=proof,
            suffix=suffix,
        )
        for what, suffix in (("time_average", ""), ("time_batch256", "_batch256"))
    ]
    rows.append(
        PAPER.claim(
            "headline.time_best_100_at_least",
            round(HEADLINE["time_best_400"] / bound, 1),
            paper=HEADLINE["time_best_100"],
            bound=bound,
        )
    )
    return rows


def _consistent() -> list[Claim]:
    why = "the fitted computation, with one kind of bandwidth for all links: {}. The paper would understate optics"
    rows = []
    for suffix, bandwidths, rates in (
        ("_one_direction", ONE_DIRECTION, "3.2, 12.5 and 50 GB/s"),
        ("_both_directions", BOTH_DIRECTIONS, "6.4, 25 and 100 GB/s, Table 1"),
    ):
        found = savings(FITTED, bandwidths).headlines()
        rows += [
            _row(f"time_average_{speed}", found[f"time_average_{speed}"], why.format(rates), suffix)
            for speed in ("100", "400")
        ]
    return rows


def _unfitted() -> list[Claim]:
    rows = []
    for suffix, bandwidths, rates in (
        ("_peak_mixed", MIXED, _UNITS),
        ("_peak_table1", BOTH_DIRECTIONS, "6.4, 25 and 100 GB/s, Table 1"),
    ):
        rows += _average(
            suffix,
            PEAK,
            bandwidths,
            "nothing fitted: three passes of arithmetic at the peak rate for "
            f"two of broadcasts, eDRAM free; {rates}. The chips must be far from their peak",
        )
    graph = savings(FITTED, networks=all_counted()).headlines()
    rows += [
        _row(
            f"time_average_{speed}",
            graph[f"time_average_{speed}"],
            "the fitted constants with sizes counted from the graphs, Inception-v3 as published",
            "_counted",
        )
        for speed in ("100", "400")
    ]
    return rows


def _average(suffix: str, constants: Constants, bandwidths: Bandwidths, why: str) -> list[Claim]:
    found = savings(constants, bandwidths).headlines()
    return [
        PAPER.claim(
            "headline.time_average_{speed}{suffix}",
            round(found[f"time_average_{speed}"], 2),
            paper=HEADLINE[f"time_average_{speed}"],
            tolerance=TOLERANCE,
            why=why,
            speed=speed,
            suffix=suffix,
        )
        for speed in ("100", "400")
    ]
