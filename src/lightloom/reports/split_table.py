"""Splits side by side for terminals and pages: what each costs a sample, and where its time goes.

#  split                         ranks  samples  step      samples/s  J/sample  memory    where the time goes
1  dp 64 · fsdp · ...        ◆   64     1,024    13.77 ms  74,370     0.262     12.1 GiB  ██████▓
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from lightloom.core.units import format_energy, format_size, format_time
from lightloom.reports.console import breakdown_bar
from lightloom.reports.numbers import format_rate
from lightloom.reports.report import Table as PageTable

FRONT = "◆"
"""Marks what no other split beats in time and energy both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitRow:
    """One split that was simulated."""

    place: int
    """In the ranking, from 1."""
    kind: str
    label: str
    site: str
    """Cluster and ranks."""
    global_batch: int
    step_time: float
    """Seconds."""
    samples_per_second: float
    energy_per_sample: float
    """Joules over all ranks, of the parts that have a source."""
    energy_complete: bool
    """Whether every part has a source."""
    memory: float
    """Bytes of the fullest rank."""
    breakdown: Mapping[str, float]
    """Seconds of a step by what it waits for."""
    on_front: bool

    @property
    def energy(self) -> str:
        """Joules a sample for people, with ``≥`` where a part is missing."""
        return f"{'' if self.energy_complete else '≥ '}{format_energy(self.energy_per_sample)}"

    def per_sample(self) -> dict[str, float]:
        """The breakdown of a step, shared between its samples."""
        return {key: seconds / self.global_batch for key, seconds in self.breakdown.items()}


def split_table(rows: Sequence[SplitRow], width: int, *, title: str = "") -> Table:
    """The rows, in their order; columns are given up where the terminal is narrow. Bars share one scale a sample."""
    table = Table(
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
        header_style="dim",
        title_justify="left",
        title_style="bold",
        title=Text(title) if title else None,
    )
    wide, medium, sites = width >= 130, width >= 90, len({row.site for row in rows}) > 1
    table.add_column("#", justify="right", style="dim")
    table.add_column("split", overflow="fold")
    if sites:
        table.add_column("where", overflow="fold")
    table.add_column("samples", justify="right", no_wrap=True)
    if medium:
        table.add_column("step", justify="right", no_wrap=True)
    table.add_column("samples/s", justify="right", no_wrap=True)
    if medium:
        table.add_column("energy/sample", justify="right", no_wrap=True)
    if wide:
        table.add_column("memory", justify="right", no_wrap=True)
    bar = 20 if wide else 12
    if width >= 64:
        table.add_column("time a sample", no_wrap=True, width=max(bar, 13))
    longest = max((sum(row.per_sample().values()) for row in rows), default=0.0)
    for row in rows:
        name = Text(f"{row.kind}  ", style="dim").append(row.label, style="bold" if row.place == 1 else "")
        cells = [Text(str(row.place)), name.append(f" {FRONT}" if row.on_front else "", style="green")]
        cells += [Text(row.site)] if sites else []
        cells.append(Text(f"{row.global_batch:,}"))
        cells += [Text(format_time(row.step_time))] if medium else []
        cells.append(Text(format_rate(row.samples_per_second), style="bold"))
        cells += [Text(row.energy)] if medium else []
        cells += [Text(format_size(row.memory))] if wide else []
        cells += [breakdown_bar(row.per_sample(), longest, bar)] if width >= 64 else []
        table.add_row(*cells)
    return table


def page_table(rows: Sequence[SplitRow], title: str, caption: str) -> PageTable:
    """The same for a page."""
    return PageTable(
        title=title,
        columns=("#", "kind", "split", "where", "samples", "step", "samples/s", "energy/sample", "memory", "front"),
        rows=tuple(
            (
                str(row.place),
                row.kind,
                row.label,
                row.site,
                f"{row.global_batch:,}",
                format_time(row.step_time),
                format_rate(row.samples_per_second),
                row.energy,
                format_size(row.memory),
                FRONT if row.on_front else "",
            )
            for row in rows
        ),
        caption=caption,
    )
