"""The headline, 1.3 to 9.1 times the training speed of electrical clusters, on our curves; and what wins beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from math import inf, log
from typing import NamedTuple

from lightloom.core.claims import Claim
from lightloom.studies.sipml import PAPER
from lightloom.studies.sipml.comparison import Comparison
from lightloom.studies.sipml.data_parallel import gradient_bytes
from lightloom.studies.sipml.paper import BANDWIDTHS, HEADLINE, JOBS, NAMES, TODAY
from lightloom.studies.sipml.stored import PARTS, Part, stale
from lightloom.studies.sipml.systems import SYSTEMS, System

OPTICAL: tuple[System, System] = ("ocs", "ring")
FASTEST = BANDWIDTHS[-1]
Speed = Callable[[str, float], float]
"""Function from a bandwidth in Gb/s to the speed-up of a model."""


class Reading(NamedTuple):
    """An interpretation of “training time against electrical”."""

    speed: Speed
    why: str


def fastest(measured: Comparison, model: str, gbps: float, today: float, accelerator: str = "a100") -> float:
    """Return the speed-up of the better optical network, with the best placed splits on all networks."""
    return max(measured.speedup(model, system, gbps, today, accelerator) for system in OPTICAL)


def searched(measured: Comparison, model: str, gbps: float, today: float) -> float:
    """Return the speed-up with the winners of the planner's search."""
    optical = min(measured.rival(model, system, gbps)["step_s"] for system in OPTICAL)
    return float(measured.rival(model, "electrical", min(gbps, today))["step_s"] / optical)


def over_data_parallel(measured: Comparison, model: str, gbps: float, today: float) -> float:
    """Best split on optics against data parallelism alone on an electrical switch."""
    optical = [each.seconds for system in OPTICAL if (each := measured.best(model, system, gbps)) is not None]
    return measured.seconds(model, "electrical", min(gbps, today), 1) / min(optical)


def readings(measured: Comparison) -> dict[str, Reading]:
    """Interpretations by the names of their rows."""
    speeds: dict[str, Callable[..., float]] = {
        "placed": fastest,
        "data_parallel": over_data_parallel,
        "search": searched,
        "script": Comparison.script_speedup,
        "titan_xp": partial(fastest, accelerator="titan-xp"),
    }
    texts = PAPER.tables["readings"]
    return {
        f"{name}_{today:g}": Reading(partial(speed, measured, today=today), texts[name].format(today=today))
        for today in reversed(TODAY)
        for name, speed in speeds.items()
    }


def reached(speed: Callable[[float], float], factor: float) -> float:
    """Gb/s at which a speed-up is first reached, logarithms interpolated between measured ones; infinite if nowhere."""
    before = (0.0, 0.0)
    for gbps in BANDWIDTHS:
        value = speed(gbps)
        if value >= factor:
            low, at = before
            if not low:
                return float(gbps)
            return float(low * (gbps / low) ** (log(factor / at) / log(value / at)))
        before = (gbps, value)
    return inf


def claims(measured: Comparison) -> tuple[Claim, ...]:
    """Return the rows of the headline."""
    return (*_speedups(measured), *_beyond(measured))


def _speedups(measured: Comparison) -> Iterator[Claim]:
    low, high = HEADLINE
    for name, (speed, reading) in readings(measured).items():
        by_model = {model: speed(model, FASTEST) for model in JOBS}
        speedups = "; ".join(
            f"{NAMES[model]} {value:.2f} ({low} {_at(speed, model, low)}, {high} {_at(speed, model, high)})"
            for model, value in by_model.items()
        )
        row = PAPER.claim(
            "headline.speedup_{name}",
            f"{min(by_model.values()):.2f} to {max(by_model.values()):.2f}",
            paper=f"{low} to {high}",
            name=name,
            reading=reading,
            fastest=FASTEST,
            speedups=speedups,
        )
        yield _flagged(row, measured, "rivals" if name.startswith("search_") else "placed")


def _flagged(row: Claim, measured: Comparison, *parts: Part) -> Claim:
    """The row; its explanation begins with what is stale of the results that it rests on."""
    note = stale(measured.inputs, parts)
    return replace(row, why=f"{note}. {row.why}") if note else row


def _at(speed: Speed, model: str, factor: float) -> str:
    gbps = reached(lambda each: speed(model, each), factor)
    return "nowhere" if gbps == inf else f"at {gbps:,.0f} Gb/s"


def _beyond(measured: Comparison) -> list[Claim]:
    return [
        _flagged(row, measured, *parts)
        for model in JOBS
        for row, parts in ((_against_sharded(measured, model), PARTS), (_own_bytes(measured, model), ("placed",)))
    ]


def _against_sharded(measured: Comparison, model: str) -> Claim:
    comparisons, ratio = [], {}
    for system in SYSTEMS:
        best = measured.best(model, system, FASTEST)
        if best is None:
            continue
        winner, sharded = (measured.rival(model, system, FASTEST, which) for which in ("search", "fsdp"))
        split = ", ".join(f"{name} {winner['strategy'][name]}" for name in ("dp", "tp", "pp"))
        ratio[system] = sharded["step_s"] / best.seconds
        plain = measured.seconds(model, system, FASTEST, 1)
        comparisons.append(
            f"{system}: {_ms(best.seconds)} placed (k = {best.k}), {_ms(plain)} plain and {_ms(sharded['step_s'])} "
            f"sharded data parallelism, {_ms(winner['step_s'])} the search's winner ({split}); k > 1 beats sharded "
            f"at {_ahead(measured, model, system)}"
        )
    return PAPER.claim(
        "headline.beyond_placed_over_sharded_{model}",
        round(ratio["ocs"], 3),
        why=f"beyond the paper, {FASTEST:,} Gb/s; sharded data parallelism sends bfloat16, half the bytes. "
        + ". ".join(comparisons),
        model=model,
    )


def _ahead(measured: Comparison, model: str, system: System) -> str:
    """Return the bandwidths at which a placed split with k > 1 is faster than sharded data parallelism."""
    better = [
        f"{gbps:,}"
        for gbps in BANDWIDTHS
        if (best := measured.best(model, system, gbps)) is not None
        and best.k > 1
        and best.seconds < measured.rival(model, system, gbps, "fsdp")["step_s"]
    ]
    return f"{', '.join(better)} Gb/s" if better else "no bandwidth"


def _own_bytes(measured: Comparison, model: str) -> Claim:
    ours = [measured.script_speedup(model, FASTEST, today, gradient_bytes(model)) for today in (400.0, 200.0)]
    theirs = [measured.script_speedup(model, FASTEST, today) for today in (400.0, 200.0)]
    return PAPER.claim(
        "headline.beyond_script_own_gradients_{model}", round(ours[0], 2), model=model, ours=ours, scripts=theirs
    )


def _ms(value: float) -> str:
    return f"{1e3 * value:.2f} ms"
