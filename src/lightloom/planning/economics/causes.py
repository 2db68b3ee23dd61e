"""Causes that interrupt a job and their rates: parts of the cluster's bill, and software.

Parts fail at the mean times of their catalog entries. Software is no part: its rate is Llama 3's, unless a user states
another or a log of interruptions replaces all of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal, get_args

from pydantic import Field

from lightloom.collectives.collective import Collective
from lightloom.collectives.registry import around_failures
from lightloom.core.configfile import catalog_file, catalog_files, read_yaml, validate
from lightloom.core.errors import ConfigError, InputError, UnknownNameError
from lightloom.core.fields import Config, Count
from lightloom.core.units import format_size
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.failures import Failure
from lightloom.machines.parts.bill import Bill
from lightloom.machines.parts.part import Kind
from lightloom.planning.economics.job import GoodputOptions, Remedy

# Published logs of interruptions, by name: how many a number of ranks had in a number of days, and by what cause.

CATALOG = Path(__file__).parent / "catalog"
Group = Literal["accelerator", "host", "network", "software", "all"]
"""Group of causes of an interruption; ``all`` where a log does not tell causes apart."""
_Interruptions = Annotated[float, Field(ge=0)]


class InterruptionLog(Config):
    """Interruptions of jobs, as published or as a user's own YAML file counts them."""

    name: str
    description: str = ""
    """One line for people."""
    ranks: Count
    """Number of accelerators that were observed."""
    days: Annotated[float, Field(gt=0)]
    """Days for which they were observed."""
    interruptions: Annotated[dict[Group, dict[str, _Interruptions]], Field(min_length=1)]
    """Interruptions by group and cause."""
    sources: dict[str, str] = Field(default_factory=dict)
    """Where each field's value comes from."""

    @property
    def source(self) -> str:
        """Publication of the counts; the file's name where the log states none."""
        return self.sources.get("interruptions", f"the file {self.name}")

    @property
    def total(self) -> float:
        """Number of interruptions of every cause together, as observed."""
        return sum(sum(rows.values()) for rows in self.interruptions.values())

    def rate(self, group: Group) -> float:
        """Return the number of interruptions of a group of causes a second, per rank; 0 of a group without any."""
        return sum(self.interruptions.get(group, {}).values()) / (self.ranks * self.days * 86400)


def names() -> list[str]:
    """Return the names of the logs in the catalog, sorted."""
    return sorted(catalog_files(CATALOG))


def load_log(name: str) -> InterruptionLog:
    """Return a log of interruptions by its name in the catalog, or from the path of a YAML file.

    Raises:
        UnknownNameError: neither a catalog name nor a file.
        ConfigError: a field is missing, unknown or out of range.
    """
    path = catalog_file(name, CATALOG)
    if path is None:
        raise UnknownNameError("log of interruptions", name, names(), "or a .yaml file")
    where = name if path.is_relative_to(CATALOG) else str(path)
    return validate(InterruptionLog, {"name": path.stem, **read_yaml(path)}, where)


SOFTWARE = "llama-3"
"""The log whose rate of interruptions by software is the default."""
_GROUPS: Mapping[Kind, Group] = {"board": "accelerator", "host": "host"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One cause of interruptions."""

    name: str
    """A part, or a group of causes."""
    group: Group
    kind: Kind | None = None
    """The part's kind; None where the cause is no part."""
    rate: float | None = None
    """Interruptions a second, per rank; None where nothing states it."""
    source: str = "no source was found"


def causes_of(bill: Bill, log: InterruptionLog | None, mtbf: Mapping[str, float]) -> tuple[Cause, ...]:
    """Return the causes of interruptions with their rates (interruptions a second for each rank, None where nothing
    states it), in the order of their groups: accelerator, host, network, software, all. Without a log there is one for
    each part of the bill that may fail, one without rate for each that the bill misses, and one for software, with a
    log one for each group that it has.

    Args:
        bill: the parts of a rank: boards, hosts and fabric.
        log: interruptions of all causes, in the place of the parts' and of software's; None for these.
        mtbf: mean seconds between failures of one part by its name, or of a rank by group, in the place of the rates of
            the bill or of the log.

    Raises:
        UnknownNameError: ``mtbf`` names neither a part of the bill nor a group.
        ConfigError: ``mtbf`` names a group and a part of it, or ``all`` before a part.
    """
    if log is None:
        causes = _causes_of_parts(bill)
    else:
        source = f"{log.name}: {log.source}"
        causes = [Cause(name=name, group=name, rate=log.rate(name), source=source) for name in log.interruptions]
    for name, seconds in mtbf.items():
        causes = _with_stated_time(causes, name, seconds, bill if log is None else None)
    order = get_args(Group)
    return tuple(sorted(causes, key=lambda cause: order.index(cause.group)))


def _causes_of_parts(bill: Bill) -> list[Cause]:
    """Return a cause for each part of the bill that may fail (of a group "accelerator" for boards, "host" for hosts,
    else "network"), with its rate a second for all that a rank has of it (None where nothing states it); a cause
    without rate for each part that the bill misses; and software at Llama 3's rate."""
    causes: dict[str, Cause] = {}
    for line in bill.lines:
        part, total = line.part, line.total("mtbf")
        if total.value == 0 and not total.missing:
            continue
        known = causes.get(part.name)
        if known is not None and known.rate is not None and total.value is not None:
            causes[part.name] = replace(known, rate=known.rate + total.value)
            continue
        cause = Cause(name=part.name, group=_GROUPS.get(part.kind, "network"), kind=part.kind, rate=total.value)
        figure = part.figure("mtbf")
        causes[part.name] = cause if figure is None else replace(cause, source=figure.source)
    causes |= {missing: Cause(name=missing, group="network") for missing in bill.missing}
    log = load_log(SOFTWARE)
    source = f"assumption: {log.source}; per rank, as if interruptions by software grew with the ranks"
    return [*causes.values(), Cause(name="software", group="software", rate=log.rate("software"), source=source)]


def _with_stated_time(causes: list[Cause], name: str, seconds: float, bill: Bill | None) -> list[Cause]:
    """Return the causes with the stated mean ``seconds`` between failures of the group or the part ``name``; the list
    may be changed in place.

    For a group, the time is that of all its parts at one rank; it takes the place of the group's causes, or for ``all``
    of all causes, also of those stated before; a group stated after ``all`` stands beside it. For a part it is that of
    one such part, and the cause's rate for a rank is as many times higher as a rank has parts of it in ``bill``, which
    is None where a log replaces it.

    Raises:
        ConfigError: a mean time is stated for a group and for a part of it, or for a part after ``all``.
        UnknownNameError: there is no such group, nor such a part.
    """
    group = next((group for group in get_args(Group) if group == name), None)
    if group is not None:
        if any(cause.group == group and cause.source == "given" for cause in causes):
            raise ConfigError(f"mtbf of {name} and of a part of it: expected one of them")
        kept = [] if group == "all" else [cause for cause in causes if cause.group != group]
        return [*kept, Cause(name=name, group=group, rate=1 / seconds, source="given")]
    counts = [line.per_rank for line in bill.lines if line.part.name == name] if bill is not None else []
    place = next((place for place, cause in enumerate(causes) if cause.name == name), None)
    if counts and place is None:
        raise ConfigError(f"mtbf of {name} and of the group that holds it: expected one of them")
    if not counts or place is None:
        known = [*get_args(Group), *(cause.name for cause in causes if cause.kind is not None)]
        raise UnknownNameError("part or group with a mean time between failures", name, known)
    causes[place] = replace(causes[place], rate=sum(counts) / seconds, source="given")
    return causes


# Parts of a restart, from the failure to the next computed step, each with its source.
#
# node, accelerator   detection + swap + (rewiring + link up, over circuits) + initialisation + loading
# link, by rewiring   network detection + rewiring + link up + initialisation + loading
# link, left damaged  network detection + initialisation + loading
# software            detection + initialisation + loading


@dataclass(frozen=True, slots=True)
class RestartPart:
    """Duration of one part of a restart."""

    seconds: float
    source: str
    """Where the seconds come from; begins with ``assumption`` where no publication states them."""


def _durations(name: str) -> Mapping[str, RestartPart]:
    """Return the stated durations of the parts of a ``restart`` or a ``checkpoint`` (``name``), by part, each with its
    ``seconds`` and ``source``, from ``durations.yaml`` beside this module; the mapping cannot be changed."""
    parts = read_yaml(Path(__file__).with_name("durations.yaml"))[name]
    return MappingProxyType({part: RestartPart(**stated) for part, stated in parts.items()})


DEFAULTS = _durations("restart")
"""Parts of a restart by name."""
CHECKPOINT_DEFAULTS = _durations("checkpoint")
"""Seconds that training stops for an asynchronous checkpoint, and until it is durable."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """Durations of the parts of restarts on one cluster."""

    steps: Mapping[str, RestartPart]
    circuits: bool
    """True if optical circuits join the nodes, so that a spare node needs rewiring."""
    whole: float | None = None
    """Seconds of every restart, in the place of its parts."""

    @classmethod
    def of(cls, given: Mapping[str, float], *, circuits: bool, whole: float | None = None) -> Recovery:
        """Return the default parts of restarts, with given seconds in the place of some.

        Args:
            given: seconds by name of a part: ``detection``, ``network_detection``, ``swap``, ``rewiring``, ``link_up``,
                ``initialisation`` or ``loading``.
            circuits: whether optical circuits join the nodes, so that a spare node needs rewiring.
            whole: seconds of every restart, in the place of its parts; None to add these up.

        Raises:
            UnknownNameError: a part that restarts do not have.
        """
        for name in given:
            if name not in DEFAULTS:
                raise UnknownNameError("part of a restart", name, DEFAULTS)
        stated = {name: RestartPart(seconds, "given") for name, seconds in given.items()}
        return cls(MappingProxyType({**DEFAULTS, **stated}), circuits, whole)

    def with_part(self, name: str, seconds: float, source: str) -> Recovery:
        """Return a recovery with the default of one part (``name``, as in :meth:`of`; KeyError for one that restarts do
        not have) replaced by these seconds, such as a fabric's own figure; a part whose seconds a user gave stays, and
        the recovery is returned as it is. ``source`` says where the seconds come from."""
        if self.steps[name].source == "given":
            return self
        return replace(self, steps=MappingProxyType({**self.steps, name: RestartPart(seconds, source)}))

    def parts(self, remedy: str) -> tuple[str, ...]:
        """Return the names of the parts of a restart in order.

        Args:
            remedy: ``node`` (on another node: "detection", "swap", where circuits join the nodes "rewiring" and
                "link_up", "initialisation", "loading"), ``rewire`` ("network_detection", "rewiring", "link_up",
                "initialisation", "loading"), ``damaged`` (the same without rewiring and link-up) or ``software``
                ("detection", "initialisation", "loading"); KeyError otherwise.
        """
        rewiring = ("rewiring", "link_up")
        return {
            "node": ("detection", "swap", *(rewiring if self.circuits else ()), "initialisation", "loading"),
            "rewire": ("network_detection", *rewiring, "initialisation", "loading"),
            "damaged": ("network_detection", "initialisation", "loading"),
            "software": ("detection", "initialisation", "loading"),
        }[remedy]

    def seconds(self, remedy: str) -> float:
        """Return the seconds of a restart, which is ``node`` (on another node), ``rewire``, ``damaged`` or
        ``software``: ``whole`` where it is set, whatever the remedy, else the sum of its parts (KeyError for another
        remedy)."""
        return sum(self.steps[name].seconds for name in self.parts(remedy)) if self.whole is None else self.whole

    def assumptions(self) -> tuple[str, ...]:
        """Return a line for each part that restarts on this cluster take and that was not given, with its seconds and
        source (``link up 20 s, SOURCE``): restarts on another node, by software, and with circuits by rewiring, else
        around damage; empty where ``whole`` is set."""
        if self.whole is not None:
            return ()
        remedies = ("node", "rewire" if self.circuits else "damaged", "software")
        used = dict.fromkeys(name for remedy in remedies for name in self.parts(remedy))
        parts = ((name.replace("_", " "), self.steps[name]) for name in used)
        return tuple(f"{name} {part.seconds:g} s, {part.source}" for name, part in parts if part.source != "given")


# Slowdown of steps that go on without a failed link, as ``lightloom collective --without`` prices it.

MOST_RANKS = 64
"""Larger rings are priced as rings of so many nodes: searches take seconds there, and the slowdown of a long message is
set by channels and broken links, not by the number of nodes."""
_CHANNELS_OF_A_LASER = 16
"""Wavelengths of one light source (a SuperNova of Ayar Labs has 16)."""


def damage_slowdown(fabric: Fabric, kind: Kind | None, nbytes: float) -> tuple[float | None, str]:
    """Return how many times as long, at least 1, an all-reduce of ``nbytes`` takes around one failed part of this kind,
    as a multiple of its time on the sound fabric, and in words what was priced. Schedules are synthesized anew, which
    may take seconds, on a part of 64 ranks where the fabric has more.

    The slowdown is None where the failure cannot be priced (the fabric has no such failures, is damaged already, or no
    schedule goes around it); the text then says why (the InputError of the synthesis; other errors pass). ``kind`` is
    None where the part is not known.
    """
    if not fabric.may_fail or fabric.damaged:
        return None, f"lightloom collective --without does not serve a fabric of kind {fabric.kind_name}"
    failures = [failure for failure in _failures(fabric, kind) if failure.what in fabric.may_fail]
    if not failures:
        return None, f"lightloom collective --without has no failure for a {kind or 'network'} part"
    ranks = min(fabric.ranks, MOST_RANKS)
    part = fabric if ranks == fabric.ranks else fabric.group(ranks)
    if part is None:
        return None, f"a {fabric.kind_name} of {fabric.ranks:,} ranks has no part of {ranks}"
    try:
        slowdown = around_failures(Collective("all-reduce", ranks, nbytes), part, [[], failures])[1]["slowdown"]
    except InputError as error:  # a wrong schedule, or a cost below its bound, is raised
        return None, str(error)
    named = failures[0].text() if len(failures) == 1 else f"{failures[0].text()} to {failures[-1].text()}"
    why = f"{slowdown:.3g} times the time of an all-reduce of {format_size(nbytes)} on {ranks} ranks, around {named}"
    return max(float(slowdown), 1.0), why


def _failures(fabric: Fabric, kind: Kind | None) -> list[Failure]:
    """Return the failures of the fabric that one failed part of a kind makes, at node 0 as all nodes are alike: of an
    engine, transceiver, modulator, receiver, ring or network card its first transceiver, of a light source up to 16
    transceivers of the node, of a fibre, cable or amplifier cable 0; empty for kinds without such a failure."""
    if kind in ("engine", "transceiver", "modulator", "receiver", "ring", "nic"):
        return [Failure.parse("transceiver:0:0")]
    if kind == "light-source":
        lit = min(_CHANNELS_OF_A_LASER, fabric.channels)
        return [Failure.parse(f"transceiver:0:{channel}") for channel in range(lit)]
    return [Failure.parse("cable:0")] if kind in ("fibre", "cable", "amplifier") else []


# Responses to a failed link: a restart on a spare node, a spare channel by rewiring, or slower steps for a while.
#
# restart   the node leaves until it is repaired, and the job restarts on a spare one
# rewire    circuits move to a spare channel, and the job restarts where it was
# damaged the job restarts where it was with schedules around the failure, slower until that is repaired, and restarts
# once more then


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """One way to go on after a failure of one cause; it cannot be chosen where ``possible`` is False, and ``why`` says
    the reason."""

    remedy: Remedy
    restart: float = 0.0
    """Seconds until the job computes again."""
    restarts: int = 1
    """Interruptions that one failure makes."""
    slowdown: float = 1.0
    """Times as long as a step takes until the repair."""
    possible: bool = True
    why: str = ""
    """Basis of its price, or the reason why the response is impossible."""

    def speed(self, rate: float, repair: float) -> float:
        """Return the mean speed of steps, 1 for that of a sound cluster, while ``rate`` failures a second are each
        repaired after ``repair`` seconds in the mean.

        So many failures at once have a Poisson distribution of mean rate · repair, and each multiplies the time of a
        step by ``slowdown``: the mean of slowdown^−n is e^{−rate · repair · (1 − 1/slowdown)}.
        """
        return math.exp(-rate * repair * (1 - 1 / self.slowdown))


def responses(
    cause: Cause, fabric: Fabric, recovery: Recovery, options: GoodputOptions, price: bool
) -> tuple[Response, ...]:
    """Return the three ways to go on after a failure of a network part, in the order restart (the node leaves until it
    is repaired), rewire (to a spare channel, possible where the nodes are joined by circuits or wavelengths and options
    state spare channels) and damaged (:func:`_damaged`); each has ``possible``, ``why`` in words, the seconds of its
    ``restart`` and how many ``restarts`` a failure makes, and ``slowdown`` of steps until the repair.

    Args:
        cause: the failure; only its kind of part counts.
        fabric: where it happens.
        recovery: durations of restarts, and whether circuits join the nodes.
        options: what the user states.
        price: whether damage is priced by synthesis, which takes seconds, where options state no slowdown; otherwise it
            is then not possible.
    """
    restart = Response(remedy="restart", restart=recovery.seconds("node"), why="the node leaves until it is repaired")
    rewire = Response(remedy="rewire", possible=False, why="no rank has a spare channel (spare_channels is 0)")
    if not (recovery.circuits or fabric.wavelength_routed):
        rewire = replace(rewire, why=f"a fabric of kind {fabric.kind_name} has no circuits to rewire")
    elif options.spare_channels:
        spare = f"{options.spare_channels} spare channels of every rank"
        rewire = Response(remedy="rewire", restart=recovery.seconds("rewire"), why=spare)
    return restart, rewire, _damaged(cause, fabric, recovery, options, price)


def _damaged(cause: Cause, fabric: Fabric, recovery: Recovery, options: GoodputOptions, price: bool) -> Response:
    """Return the response (remedy "damaged") of going on around the failure with slower steps until the repair; not
    possible where the slowdown is not given and the damage is not or cannot be priced. Steps take 1 + share · (slowdown
    - 1) times as long, with the share of communication in a step that options state, 1 where they state none; a failure
    makes two restarts, one of them after the repair.

    Args:
        cause: the failure.
        fabric: where it happens.
        recovery: durations of restarts.
        options: what the user states, the slowdown and the share of communication among it.
        price: whether damage is priced by synthesis, which takes seconds, where options state no slowdown.
    """
    slowdown, why = options.damage_slowdown, "not priced here: lightloom goodput does"
    if slowdown is not None:
        why = f"collectives take {slowdown:g} times as long, as given"
    elif price or not fabric.may_fail:
        slowdown, why = damage_slowdown(fabric, cause.kind, options.message)
    if slowdown is None:
        return Response(remedy="damaged", possible=False, why=why)
    share = 1.0 if options.communication is None else options.communication
    note = "assumption: all of a step is communication" if options.communication is None else f"{share:.0%} of a step"
    restart, slower = recovery.seconds("damaged"), 1 + share * (slowdown - 1)
    return Response(remedy="damaged", restart=restart, restarts=2, slowdown=slower, why=f"{why}; {note}")
