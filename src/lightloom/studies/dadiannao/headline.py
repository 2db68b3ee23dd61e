"""The ten percentages with two fitted constants and with one, and a bound for any constants."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

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
    savings,
)
from lightloom.studies.dadiannao.networks import all_counted
from lightloom.studies.dadiannao.paper import BEST, HEADLINE

_UNITS = "electrical links at 6.4 GB/s (both directions), optical at 12.5 and 50 GB/s (one direction)"
_TABLE_1 = "6.4, 25 and 100 GB/s, Table 1"


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


def _row(template: str, what: str, ours: dict[str, float], **values: Any) -> Claim:
    """Return the row of one headline, where ``ours`` are all ten."""
    return PAPER.claim(f"headline.{template}", round(ours[what], 2), paper=HEADLINE[what], what=what, **values)


def _averages(suffix: str, ours: dict[str, float], template: str = "{what}{suffix}", **values: Any) -> list[Claim]:
    return [
        _row(template, f"time_average_{speed}", ours, suffix=suffix, speed=speed, **values) for speed in ("100", "400")
    ]


def _fitted() -> Iterator[Claim]:
    for suffix, constants in (("", FITTED), ("_one_constant", ONE_FITTED)):
        why = f"fitted: R = {constants.passes:g}, β = {constants.synapse:g}; {_UNITS}"
        ours = savings(constants).headlines()
        yield from (_row("{what}{suffix}", what, ours, why=why, suffix=suffix) for what in HEADLINE)


def _winners() -> Iterator[Claim]:
    fitted = savings(FITTED)
    for speed, paper in BEST.items():
        for what, figures in (("time", fitted.time[speed]), ("edp", fitted.edp[speed])):
            (name, batch) = max(figures, key=lambda case: figures[case])
            yield PAPER.claim(
                "headline.{what}_best_network_{speed}",
                name,
                paper=paper,
                what=what,
                speed=speed,
                batch=batch,
                vgg16=figures["VGG16", 1],
                vgg19=figures["VGG19", 1],
            )


def _impossible() -> Iterator[Claim]:
    bound, mixed = largest_ratio(BOTH_DIRECTIONS), largest_ratio(MIXED)
    for what, suffix in (("time_average", ""), ("time_batch256", "_batch256")):
        paper = round(HEADLINE[f"{what}_400"] / HEADLINE[f"{what}_100"], 3)
        yield PAPER.claim(
            "headline.saved_400_over_100{suffix}", round(bound, 3), paper=paper, suffix=suffix, bound=bound, mixed=mixed
        )
    least = round(HEADLINE["time_best_400"] / bound, 1)
    yield PAPER.claim("headline.time_best_100_at_least", least, paper=HEADLINE["time_best_100"], bound=bound)


def _consistent() -> Iterator[Claim]:
    why = "the fitted computation, with one kind of bandwidth for all links: {}. The paper would understate optics"
    for suffix, bandwidths, rates in (
        ("_one_direction", ONE_DIRECTION, "3.2, 12.5 and 50 GB/s"),
        ("_both_directions", BOTH_DIRECTIONS, _TABLE_1),
    ):
        yield from _averages(suffix, savings(FITTED, bandwidths).headlines(), why=why.format(rates), basis="stand-in")


def _unfitted() -> Iterator[Claim]:
    for suffix, bandwidths, rates in (("_peak_mixed", MIXED, _UNITS), ("_peak_table1", BOTH_DIRECTIONS, _TABLE_1)):
        ours = savings(PEAK, bandwidths).headlines()
        yield from _averages(suffix, ours, "time_average_{speed}{suffix}", rates=rates)
    why = "the fitted constants with sizes counted from the graphs, Inception-v3 as published"
    yield from _averages("_counted", savings(FITTED, networks=all_counted()).headlines(), why=why, basis="stand-in")
