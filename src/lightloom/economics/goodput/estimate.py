"""The goodput of a job on a cluster: causes of its bill, the best responses, the spares that pay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial

from lightloom.core.errors import ConfigError
from lightloom.economics.goodput.causes import Cause, causes_of
from lightloom.economics.goodput.daly import Checkpoint, Interruption, Shares
from lightloom.economics.goodput.job import Job, total_job
from lightloom.economics.goodput.logs import load_log
from lightloom.economics.goodput.options import GoodputOptions
from lightloom.economics.goodput.recovery import CHECKPOINT_DEFAULTS, Recovery
from lightloom.economics.goodput.remedies import Response, responses
from lightloom.fabrics.base import Fabric
from lightloom.parts.bill import Bill, Total, missing_text

MONTH = 30 * 86400.0
"""Seconds of a month of 30 days."""
REPAIR = 86400.0
_REPAIR_SOURCE = (
    "assumption: nodes are back after 24 h in the mean; at Llama 3's rates they then work 99.6 % of the time, within "
    "the 99.0 to 99.9 % of TPU v4's paper"
)
_OUT = ("accelerator", "host", "all")
"""Groups whose failures take a node out of service."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What is estimated: ranks on a fabric, their bill, and which of them fail together."""

    name: str
    ranks: int
    fabric: Fabric
    bill: Bill
    """Boards, hosts and fabric, per rank."""
    node_ranks: int
    node_source: str
    """Where ``node_ranks`` comes from."""

    @property
    def nodes(self) -> int:
        """Nodes of the job."""
        return -(-self.ranks // self.node_ranks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A cause, what follows it, and what else could."""

    cause: Cause
    chosen: Response | None
    """None where the cause is no link: its restart is ``restart``."""
    restart: float
    alternatives: tuple[tuple[Response, float | None], ...] = ()
    """Every response to a failed link, with the goodput that it would give."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What a month of training keeps, and why."""

    machine: Machine
    options: GoodputOptions
    job: Job
    speed: float
    """Mean speed of steps, 1 where nothing is left damaged."""
    answers: tuple[Answer, ...]
    recovery: Recovery
    spare_ratio: float
    """Price of a spare node over that of a node in use."""
    node_price: Total
    """Dollars of a node in use."""

    @cached_property
    def shares(self) -> Shares:
        """Where the time goes."""
        return self.job.shares().at_speed(self.speed)

    @property
    def most_goodput(self) -> float:
        """Share of the time that trains, as far as causes are known: an upper bound where any is missing."""
        return self.shares.useful

    @property
    def goodput(self) -> float | None:
        """Share of the time that trains and is kept; None where the rate of a cause is missing."""
        return None if self.missing else self.most_goodput

    @property
    def cost(self) -> float:
        """Price of the job's nodes and of its spares, in nodes in use."""
        return self.job.nodes + self.job.spares * self.spare_ratio

    @cached_property
    def dollars(self) -> float | None:
        """Dollars of the nodes and their spares, as far as prices are known; None where none is."""
        return None if self.node_price.value is None else self.node_price.value * self.cost

    @cached_property
    def missing(self) -> tuple[str, ...]:
        """Causes whose rate nothing states."""
        return tuple(_lacking(answer.cause) for answer in self.answers if answer.cause.rate is None)

    @cached_property
    def assumptions(self) -> tuple[str, ...]:
        """Defaults that decide the result, each with its source."""
        options, lines = self.options, list(self.recovery.assumptions())
        checkpoint = self.job.checkpoint
        if options.stall is None:
            lines += [
                f"checkpoint: {name} {step.seconds:g} s, {step.source}" for name, step in CHECKPOINT_DEFAULTS.items()
            ]
        elif checkpoint.save == 0:
            lines.append("checkpoints block: training waits until they are written")
        if options.interruption_time is not None:
            return tuple(lines)
        if options.repair is None:
            lines.append(_REPAIR_SOURCE)
        if options.node_ranks is None:
            lines.append(self.machine.node_source)
        if options.spares is None:
            lines.append(f"spares: as many as pay, at {self.spare_ratio:.3g} times the price of a node in use")
        rates = [
            f"{answer.cause.name}: {answer.cause.source}" for answer in self.answers if answer.cause.rate is not None
        ]
        return (*lines, *(line for line in rates if not line.endswith(": given")))


def checkpoint_of(options: GoodputOptions) -> Checkpoint:
    """Return the checkpoint that options state: blocking with a stall alone, asynchronous with both or by default."""
    if options.stall is None:
        return Checkpoint(stall=CHECKPOINT_DEFAULTS["stall"].seconds, save=CHECKPOINT_DEFAULTS["save"].seconds)
    return Checkpoint(stall=options.stall, save=options.save or 0.0)


def recovery_of(machine: Machine, options: GoodputOptions) -> Recovery:
    """Return the parts of restarts on a machine: rewiring and link-up as its circuit switches have them."""
    fabric = machine.fabric
    components = (line.part for line in machine.bill.lines)
    parts = [each for each in components if each.kind in ("circuit-switch", "circuit-switch-port")]
    recovery = Recovery.of(options.recovery, circuits=bool(parts) or fabric.switch_planes, whole=options.restart)
    for part in parts[:1]:
        for step, seconds in (("rewiring", part.reconfiguration_time), ("link_up", part.link_up_time)):
            if seconds is not None:
                field = "reconfiguration_time" if step == "rewiring" else "link_up_time"
                recovery = recovery.with_step(step, seconds, f"{part.name}: {part.sources.get(field, 'its part')}")
    for step, field in (("rewiring", "reconfiguration_time"), ("link_up", "link_up_time")):
        value = getattr(fabric, field, None)
        if value is not None:
            recovery = recovery.with_step(step, value, f"the fabric's {field}")
    return recovery


def estimate(machine: Machine, options: GoodputOptions, *, price_damage: bool = True) -> Estimate:
    """Return the goodput of a job on a machine.

    Raises:
        UnknownNameError: a part, group, log or step of a restart that does not exist.
        ConfigError: a remedy that the fabric does not offer; a price of spares beside no price of nodes.
    """
    recovery = recovery_of(machine, options)
    price = _node_price(machine, options)
    ratio = _spare_ratio(options, price)
    result_with = partial(
        Estimate, machine=machine, options=options, recovery=recovery, spare_ratio=ratio, node_price=price
    )
    if options.interruption_time is not None:
        job = total_job(options.interruption_time, recovery.seconds("node"), checkpoint_of(options), options.interval)
        rate = 1 / options.interruption_time / machine.ranks
        cause = Cause(name="all", group="all", kind=None, rate=rate, source="given")
        alone = (Answer(cause=cause, chosen=None, restart=job.node_restart),)
        return result_with(job=replace(job, nodes=machine.nodes), speed=1.0, answers=alone)
    log = None if options.rates is None else load_log(options.rates)
    causes = causes_of(machine.bill, log, options.mtbf)
    choices = {
        cause.name: responses(cause, machine.fabric, recovery, options, price_damage)
        for cause in causes
        if cause.group == "network" and cause.rate
    }
    chosen = {name: _first(given, options) for name, given in choices.items()}

    def job_with(picked: Mapping[str, Response]) -> Estimate:
        job, speed = _job(machine, options, recovery, causes, picked, ratio)
        return result_with(job=job, speed=speed, answers=())

    alternatives: dict[str, tuple[tuple[Response, float | None], ...]] = {}
    for name, given in choices.items():
        outcomes = {r.remedy: job_with({**chosen, name: r}) for r in given if r.possible}
        alternatives[name] = tuple((r, outcomes[r.remedy].most_goodput if r.possible else None) for r in given)
        if options.remedy is None:
            best = max(outcomes, key=lambda remedy: outcomes[remedy].most_goodput / outcomes[remedy].cost)
            chosen[name] = next(r for r in given if r.remedy == best)
    answers = tuple(
        Answer(
            cause=cause,
            chosen=chosen.get(cause.name),
            restart=chosen[cause.name].restart if cause.name in chosen else _restart(cause, recovery),
            alternatives=alternatives.get(cause.name, ()),
        )
        for cause in causes
    )
    return replace(job_with(chosen), answers=answers)


def _restart(cause: Cause, recovery: Recovery) -> float:
    return recovery.seconds("node" if cause.group in _OUT else "software")


def _first(given: tuple[Response, ...], options: GoodputOptions) -> Response:
    """Return the response to begin with: the one asked for, or a restart."""
    response = next(r for r in given if r.remedy == (options.remedy or "restart"))
    if not response.possible:
        raise ConfigError(f"remedy {response.remedy}: {response.why}")
    return response


def _job(
    machine: Machine,
    options: GoodputOptions,
    recovery: Recovery,
    causes: tuple[Cause, ...],
    chosen: Mapping[str, Response],
    ratio: float,
) -> tuple[Job, float]:
    """Return the job with these responses, and the mean speed of its steps."""
    repair = REPAIR if options.repair is None else options.repair
    out, others, speed = 0.0, [], 1.0
    for cause in causes:
        rate = (cause.rate or 0.0) * machine.ranks
        response = chosen.get(cause.name)
        if cause.group in _OUT or (response is not None and response.remedy == "restart"):
            out += cause.rate or 0.0
        elif rate:
            restart = _restart(cause, recovery) if response is None else response.restart
            times = 1 if response is None else response.restarts
            others.append(Interruption(name=cause.name, rate=rate * times, restart=restart))
            speed *= 1.0 if response is None else response.speed(rate, repair)
    job = Job(
        nodes=machine.nodes,
        node_rate=out * machine.ranks / machine.nodes,
        node_restart=recovery.seconds("node"),
        repair=repair,
        others=tuple(others),
        checkpoint=checkpoint_of(options),
        fixed_interval=options.interval,
    )
    spares = best_spares(job, ratio) if options.spares is None else options.spares
    return job.with_spares(spares), speed


def best_spares(job: Job, ratio: float) -> int:
    """Return the number of spares with the most goodput for the price of nodes and spares.

    Spares change nothing but the availability. One more pays while it raises the goodput by more than it raises the
    price; where even a job that never waits would not pay for one more, no larger number does.
    """
    best, most = 0, 0.0
    for spares in range(100_000):
        available = job.with_spares(spares).availability
        value = available / (job.nodes + spares * ratio)
        if value > most:
            best, most = spares, value
        if 1 / (job.nodes + (spares + 1) * ratio) <= most or available > 1 - 1e-12:
            break
    return best


def _node_price(machine: Machine, options: GoodputOptions) -> Total:
    """Return the dollars of a node in use."""
    if options.node_price is not None:
        return Total("dollars", options.node_price, options.node_price, options.node_price)
    return machine.bill.dollars.times(machine.node_ranks)


def _spare_ratio(options: GoodputOptions, node: Total) -> float:
    if options.spare_price is None:
        return 1.0
    if node.missing or not node.value:
        raise ConfigError(
            f"spare_price {options.spare_price:g}: how many spares pay depends on the price of a node in use, "
            f"which lacks {missing_text(node.missing)}: expected node_price beside it"
        )
    return options.spare_price / node.value


def _lacking(cause: Cause) -> str:
    return cause.name if cause.kind is None else f"mean time between failures of {cause.name}"
