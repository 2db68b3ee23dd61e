"""Reports made up for tests."""

from __future__ import annotations

import io
from dataclasses import replace
from functools import cache

from rich.console import Console
from rich.table import Table as TerminalTable

from lightloom.collectives.bounds.lower_bound import Bound
from lightloom.collectives.cost.price import Cost
from lightloom.core.claims import Claim, status_counts
from lightloom.reports.figures.canvas import to_svg
from lightloom.reports.figures.comparisons import breakdown_figure
from lightloom.reports.report import (
    CollectiveRow,
    Picture,
    RankingRow,
    Report,
    Table,
)

HOSTILE = "<script>alert('$x$ & \"y\"')</script>"


def to_text(table: TerminalTable, width: int = 120) -> str:
    """A table of a terminal as plain text."""
    buffer = io.StringIO()
    Console(file=buffer, width=width, no_color=True, color_system=None, highlight=False).print(table)
    return buffer.getvalue()


def row(strategy: str, algorithm: str, *seconds: float) -> RankingRow:
    """A row from compute, communication, reconfiguration, idle seconds."""
    keys = ("compute_s", "exposed_communication_s", "exposed_reconfiguration_s", "idle_s")
    return RankingRow(
        strategy=strategy,
        label=algorithm,
        step_time=sum(seconds),
        breakdown=dict(zip(keys, seconds, strict=False)),
        verified=True,
        lower_bound_ratio=1.25,
    )


ROWS = (
    row("ddp", "optree-striped", 0.010, 0.001, 0.0005),
    replace(row("fsdp", "ring", 0.012, 0.030), exchange="inceptionn", fits=False, energy=1234.0),
    replace(row("ddp", "one-stage", 0.010, 0.100, 0.005, 0.001), verified=False),
)

COST = Cost(steps=2, time=2e-3, transmission=2e-3, conversion=0, reconfiguration=0, setup=0, static=False, energy=None)
CLAIMS = (
    Claim(id="optree.table1.steps", paper=70, ours=70, unit="steps"),
    Claim(id="optree.figure4.time", paper=1.5, ours=2.5, unit="s", why="charged once a lightpath", fitted=True),
    Claim(id="optree.table1.rounded", paper=2, ours=2, unit="%", basis="derived", why="from the row above"),
    Claim(id="optree.figure5.shorter", paper=2, ours=2, unit="%", basis="stand-in", why="192 steps for 50,000"),
    Claim(id="optree.figure6.testbed", paper=1.5, ours=None, unit="s", why="needs the testbed"),
)


@cache
def sample_report() -> Report:
    """A report with everything in it."""
    return Report(
        title="resnet50 on terarack-64",
        headline="ddp over optree-striped wins",
        facts=(("model", "resnet50"), ("batch", "32")),
        ranking=ROWS,
        reference=(row("ddp", "ring", 0.01, 0.02),),
        reference_name="400 Gb/s Ethernet",
        not_sourced=("fabric.energy_per_bit",),
        notes=("half of the roofline",),
        pictures=(
            Picture(title="Bars", svg=to_svg(breakdown_figure([("a", {"compute_s": 1.0})])), caption="one bar"),
            Picture(title="Bars again", svg=to_svg(breakdown_figure([("a", {"compute_s": 1.0})]))),
        ),
        collectives=(CollectiveRow("optree", COST, Bound(1e-3, "a port")),),
        memory={"parameters": 1e9, "activations": 3e9},
        memory_capacity=8e9,
        claims=CLAIMS,
        counts=status_counts(CLAIMS),
        tables=(Table(title="Radices", columns=("algorithm", "share"), rows=(("optree", "83%"), ("ring", "9 ms"))),),
        provenance={"lightloom": "0.1.0", "configuration": "abc", "seed": None},
    )
