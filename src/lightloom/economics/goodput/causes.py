"""What interrupts a job, and how often: the parts of the cluster's bill, and software.

Parts fail at the mean times of their catalog entries. Software is no part: its rate is Llama 3's, unless a user states
another or a log of interruptions replaces all of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import get_args

from lightloom.core.errors import ConfigError, UnknownNameError
from lightloom.economics.goodput.logs import Group, InterruptionLog, load_log
from lightloom.parts.bill import Bill
from lightloom.parts.part import Kind

SOFTWARE = "llama-3"
"""The log whose rate of interruptions by software is the default."""
_GROUPS: Mapping[Kind, Group] = {"board": "accelerator", "host": "host"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One cause of interruptions."""

    name: str
    """A part, or a group of causes."""
    group: Group
    kind: Kind | None
    """The part's kind; None where the cause is no part."""
    rate: float | None
    """Interruptions a second, per rank; None where nothing states it."""
    source: str
    assumed: bool = False
    """Whether no publication states the rate."""


def causes_of(bill: Bill, log: InterruptionLog | None, mtbf: Mapping[str, float]) -> tuple[Cause, ...]:
    """Return the causes of interruptions of a rank.

    Args:
        bill: the parts of a rank: boards, hosts and fabric.
        log: interruptions of all causes, in the place of the parts' and of software's; None for these.
        mtbf: mean seconds between failures of one part by name, or of a rank by group, in the place of these.

    Raises:
        UnknownNameError: ``mtbf`` names neither a part of the bill nor a group.
        ConfigError: ``mtbf`` names a group and a part of it.
    """
    causes = _of_bill(bill) if log is None else _of_log(log)
    for name, seconds in mtbf.items():
        causes = _stated(causes, name, seconds, bill if log is None else None)
    order = get_args(Group)
    return tuple(sorted(causes, key=lambda cause: order.index(cause.group)))


def _of_log(log: InterruptionLog) -> list[Cause]:
    source = f"{log.name}: {log.source}"
    return [
        Cause(name=group, group=group, kind=None, rate=log.rate(group), source=source) for group in log.interruptions
    ]


def _of_bill(bill: Bill) -> list[Cause]:
    causes: dict[str, Cause] = {}
    for line in bill.lines:
        part, total = line.part, line.total("mtbf")
        if total.value == 0 and not total.missing:
            continue
        known = causes.get(part.name)
        if known is not None and known.rate is not None and total.value is not None:
            causes[part.name] = replace(known, rate=known.rate + total.value)
            continue
        figure = part.figure("mtbf")
        causes[part.name] = Cause(
            name=part.name,
            group=_GROUPS.get(part.kind, "network"),
            kind=part.kind,
            rate=total.value,
            source="no source was found" if figure is None else figure.source,
            assumed=figure is not None and figure.assumed,
        )
    for missing in bill.missing:
        causes[missing] = Cause(name=missing, group="network", kind=None, rate=None, source="no source was found")
    log = load_log(SOFTWARE)
    software = Cause(
        name="software",
        group="software",
        kind=None,
        rate=log.rate("software"),
        source=f"assumption: {log.source}; per rank, as if interruptions by software grew with the ranks",
        assumed=True,
    )
    return [*causes.values(), software]


def _stated(causes: list[Cause], name: str, seconds: float, bill: Bill | None) -> list[Cause]:
    """Return the causes with one mean time stated: of a group for each rank, of a part for each one."""
    group = next((group for group in get_args(Group) if group == name), None)
    if group is not None:
        if any(cause.group == group and cause.source == "given" for cause in causes):
            raise ConfigError(f"mtbf of {name} and of a part of it: expected one of them")
        given = Cause(name=name, group=group, kind=None, rate=1 / seconds, source="given")
        kept = [] if group == "all" else [cause for cause in causes if cause.group != group]
        return [*kept, given]
    counts = [line.per_rank for line in bill.lines if line.part.name == name] if bill is not None else []
    place = next((place for place, cause in enumerate(causes) if cause.name == name), None)
    if counts and place is None:
        raise ConfigError(f"mtbf of {name} and of the group that holds it: expected one of them")
    if not counts or place is None:
        known = [*get_args(Group), *(cause.name for cause in causes if cause.kind is not None)]
        raise UnknownNameError("part or group with a mean time between failures", name, known)
    causes[place] = replace(causes[place], rate=sum(counts) / seconds, source="given", assumed=False)
    return causes
