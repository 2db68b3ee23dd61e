"""The goodput of a job on a cluster: causes of its bill, the best responses, the spares that pay."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

from lightloom.core.errors import ConfigError
from lightloom.core.results import attributes
from lightloom.machines.clusters.cluster import Cluster
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.parts.bill import Bill, Total, missing_text
from lightloom.planning.economics.causes import (
    CHECKPOINT_DEFAULTS,
    Cause,
    Recovery,
    Response,
    causes_of,
    load_log,
    responses,
)
from lightloom.planning.economics.job import (
    Checkpoint,
    GoodputOptions,
    Interruption,
    Job,
    Played,
    Shares,
    World,
    host_availability,
    options_of,
    reconfigurable_share,
    simulate,
    static_share,
    total_job,
)
from lightloom.planning.economics.ledger import ClusterLedger

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
    """The cluster whose goodput is estimated: ranks on a fabric, their bill, and which of them fail together."""

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
        """Number of nodes of the job, rounded up: the last one may have fewer ranks."""
        return -(-self.ranks // self.node_ranks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A cause of interruptions, the response that was chosen to it, and the other responses."""

    cause: Cause
    chosen: Response | None
    """None where the cause is no link: its restart is ``restart``."""
    restart: float
    alternatives: tuple[tuple[Response, float | None], ...] = ()
    """Every response to a failed link, with the goodput that it would give."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Goodput of a job: the share of the time that trains, and the causes of the rest."""

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
        """Shares of the time by where it goes, which add up to 1: useful, stalled by checkpoints, recomputed,
        restarting, waiting for repairs, and slowed by steps that take longer after damage. Causes whose rate is missing
        count as never."""
        return self.job.shares().at_speed(self.speed)

    @property
    def most_goodput(self) -> float:
        """Share of the time that trains and is kept, between 0 and 1, without causes whose rate is missing: an upper
        bound where any is."""
        return self.shares.useful

    @property
    def goodput(self) -> float | None:
        """Share of the time that trains and is kept, between 0 and 1; None where the rate of a cause is missing."""
        return None if self.missing else self.most_goodput

    @property
    def cost(self) -> float:
        """Price of the job's nodes and of its spares, in prices of one node in use."""
        return self.job.nodes + self.job.spares * self.spare_ratio

    @cached_property
    def dollars(self) -> float | None:
        """Dollars of the nodes and their spares, as far as prices of its parts are known; None where nothing of a
        node's price is."""
        return None if self.node_price.value is None else self.node_price.value * self.cost

    @cached_property
    def missing(self) -> tuple[str, ...]:
        """Names in words of the causes whose rate nothing states, which the goodput leaves out; those of a kind of part
        as "mean time between failures of" and its name."""
        causes = [answer.cause for answer in self.answers if answer.cause.rate is None]
        return tuple(("" if cause.kind is None else "mean time between failures of ") + cause.name for cause in causes)

    @cached_property
    def assumptions(self) -> tuple[str, ...]:
        """Defaults that decide the goodput (restarts, checkpoints, repairs, nodes, spares, rates of failures), a line
        each with its source, and that checkpoints block where only ``stall`` was given; inputs that were given are left
        out, and with an ``interruption_time`` all but restarts and checkpoints."""
        options, lines = self.options, list(self.recovery.assumptions())
        checkpoint = self.job.checkpoint
        if options.stall is None:
            defaults = CHECKPOINT_DEFAULTS.items()
            lines += [f"checkpoint: {name} {part.seconds:g} s, {part.source}" for name, part in defaults]
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
        causes = [answer.cause for answer in self.answers if answer.cause.rate is not None]
        return (*lines, *(f"{cause.name}: {cause.source}" for cause in causes if cause.source != "given"))


def checkpoint_of(options: GoodputOptions) -> Checkpoint:
    """Return the checkpoint that options state: blocking where only ``stall`` is given, asynchronous where ``save`` is
    too; the asynchronous default where neither is."""
    if options.stall is None:
        return Checkpoint(stall=CHECKPOINT_DEFAULTS["stall"].seconds, save=CHECKPOINT_DEFAULTS["save"].seconds)
    return Checkpoint(stall=options.stall, save=options.save or 0.0)


def recovery_of(machine: Machine, options: GoodputOptions) -> Recovery:
    """Return the parts of restarts on a machine, whose nodes circuits join where its bill has circuit switches or its
    fabric has planes. Rewiring and link-up take the seconds of the fabric's fields, else of its circuit switches, else
    the defaults; seconds that options give come before all of these.

    Raises:
        UnknownNameError: options name a part that restarts do not have.
    """
    fabric = machine.fabric
    components = (line.part for line in machine.bill.lines)
    switch = next((each for each in components if each.kind in ("circuit-switch", "circuit-switch-port")), None)
    circuits = switch is not None or fabric.switch_planes
    recovery = Recovery.of(options.recovery, circuits=circuits, whole=options.restart)
    for name, field in (("rewiring", "reconfiguration_time"), ("link_up", "link_up_time")):
        if switch is not None and (seconds := getattr(switch, field)) is not None:
            recovery = recovery.with_part(name, seconds, f"{switch.name}: {switch.sources.get(field, 'its part')}")
        if (seconds := getattr(fabric, field, None)) is not None:
            recovery = recovery.with_part(name, seconds, f"the fabric's {field}")
    return recovery


def estimate(machine: Machine, options: GoodputOptions, *, price_damage: bool = True) -> Estimate:
    """Return the goodput of a job on a machine: an :class:`Estimate` with the ``job`` (nodes, spares, interruptions,
    checkpoint), the mean ``speed`` of steps, and an answer for each cause: the seconds of its restart, and for a failed
    link with a rate the remedy chosen and the goodput by each possible one.

    A failed link is followed by the remedy that ``options`` name, else by the one with the most goodput for the price
    of nodes and spares, chosen for one cause after the other, each with the remedies chosen so far for the others (at
    first a restart). Causes without a rate count as never; :attr:`Estimate.missing` names them. Where options state no
    number of spares, as many are taken as pay (:func:`best_spares`). Where options state an ``interruption_time``, one
    cause "all" stands for everything, repairs take no part, and there are no spares and no choice of remedies. Repairs
    take 24 hours in the mean where options state nothing else.

    Args:
        machine: ranks on a fabric with their bill.
        options: inputs of the user.
        price_damage: whether the remedy of going on with damage is priced by synthesis; otherwise it is left out unless
            options state its slowdown.

    Raises:
        UnknownNameError: a part, group, log or step of a restart that does not exist.
        ConfigError: options name a remedy that is not possible for a failed link; a price of spares where the price of
            nodes is not known.
    """
    recovery = recovery_of(machine, options)
    price = machine.bill.dollars.times(machine.node_ranks)
    if options.node_price is not None:
        price = Total("dollars", options.node_price, options.node_price, options.node_price)
    ratio = _spare_ratio(options, price)
    shared: dict[str, Any] = {"machine": machine, "options": options, "recovery": recovery}
    result_with = partial(Estimate, **shared, spare_ratio=ratio, node_price=price)
    if options.interruption_time is not None:
        job = total_job(options.interruption_time, recovery.seconds("node"), checkpoint_of(options), options.interval)
        rate = 1 / options.interruption_time / machine.ranks
        cause = Cause(name="all", group="all", rate=rate, source="given")
        alone = (Answer(cause=cause, chosen=None, restart=job.node_restart),)
        return result_with(job=replace(job, nodes=machine.nodes), speed=1.0, answers=alone)
    causes = causes_of(machine.bill, None if options.rates is None else load_log(options.rates), options.mtbf)
    choices = {
        cause.name: responses(cause, machine.fabric, recovery, options, price_damage)
        for cause in causes
        if cause.group == "network" and cause.rate
    }
    # To begin with the response that is asked for, or a restart.
    wanted = options.remedy or "restart"
    chosen = {cause.name: _only_response(cause, recovery) for cause in causes}
    chosen |= {name: next(r for r in given if r.remedy == wanted) for name, given in choices.items()}
    for response in chosen.values():
        if not response.possible:
            raise ConfigError(f"remedy {response.remedy}: {response.why}")

    repair = REPAIR if options.repair is None else options.repair

    def job_with(picked: Mapping[str, Response]) -> Estimate:
        """Return the estimate in which each cause has the response of ``picked``, without answers."""
        out, others, speed = 0.0, [], 1.0
        for cause in causes:
            rate, response = (cause.rate or 0.0) * machine.ranks, picked[cause.name]
            if response.remedy == "restart":
                out += cause.rate or 0.0
            elif rate:
                others.append(Interruption(name=cause.name, rate=rate * response.restarts, restart=response.restart))
                speed *= response.speed(rate, repair)
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
        return result_with(job=replace(job, spares=spares), speed=speed, answers=())

    alternatives: dict[str, tuple[tuple[Response, float | None], ...]] = {}
    for name, given in choices.items():
        outcomes = {r.remedy: job_with({**chosen, name: r}) for r in given if r.possible}
        alternatives[name] = tuple((r, outcomes[r.remedy].most_goodput if r.possible else None) for r in given)
        if options.remedy is None:
            best = max(outcomes, key=lambda remedy: outcomes[remedy].most_goodput / outcomes[remedy].cost)
            chosen[name] = next(r for r in given if r.remedy == best)
    answers = []
    for cause in causes:
        response, others = chosen[cause.name], alternatives.get(cause.name, ())
        link = response if cause.name in choices else None
        answers.append(Answer(cause=cause, chosen=link, restart=response.restart, alternatives=others))
    return replace(job_with(chosen), answers=tuple(answers))


def _only_response(cause: Cause, recovery: Recovery) -> Response:
    """Return the response to a cause that is no failed link: a restart on other nodes (remedy "restart") for groups
    "accelerator", "host" and "all", else (remedy "rewire") a restart on the same nodes, with the seconds of a restart
    by software. Both are without slower steps."""
    if cause.group in _OUT:
        return Response(remedy="restart", restart=recovery.seconds("node"))
    return Response(remedy="rewire", restart=recovery.seconds("software"))


def best_spares(job: Job, ratio: float) -> int:
    """Return the number of spare nodes, below 100,000, with the most availability of a job for the price of nodes and
    spares; a spare costs ``ratio`` times a node in use. The job's own spares are ignored.

    Spares change nothing but the availability. One more pays while it raises the goodput by more than it raises the
    price; where even a job that never waits would not pay for one more, no larger number does.
    """
    best, most = 0, 0.0
    for spares in range(100_000):
        available = replace(job, spares=spares).availability
        value = available / (job.nodes + spares * ratio)
        if value > most:
            best, most = spares, value
        if 1 / (job.nodes + (spares + 1) * ratio) <= most or available > 1 - 1e-12:
            break
    return best


def _spare_ratio(options: GoodputOptions, node: Total) -> float:
    """Return the price of a spare node over that of a node in use, 1 where options state no price of a spare; ``node``
    is the price of a node in use.

    Raises:
        ConfigError: a price of a spare is stated, and the node's is not fully known.
    """
    if options.spare_price is None:
        return 1.0
    if node.missing or not node.value:
        raise ConfigError(
            f"spare_price {options.spare_price:g}: how many spares pay depends on the price of a node in use, "
            f"which lacks {missing_text(node.missing)}: expected node_price beside it"
        )
    return options.spare_price / node.value


# The goodput of a cluster from its description: what the command, the Python API and plans call.

_MOST_RANKS = 10_000_000


def machine_of(cluster: Cluster, options: GoodputOptions, ledger: ClusterLedger | None = None) -> Machine:
    """Return the machine that is estimated for a cluster: its bill, and the number of ranks that fail together.

    That number is what ``options`` state, else the accelerators of the host (if above 1; at most the cluster's ranks),
    else the ranks of the fabric's innermost domain (if fewer than the cluster's), else one; ``node_source`` of the
    machine says which, in words. ``ledger`` is the cluster's, None to make it.

    Raises:
        ConfigError: options state a node with more ranks than the cluster.
    """
    ledger = ledger or ClusterLedger.of(cluster)
    (host,) = (line.part for line in ledger.hosts.lines)
    if options.node_ranks is not None:
        ranks, source = options.node_ranks, "given"
    elif host.serves > 1:
        ranks, source = min(host.serves, cluster.ranks), f"a node has {host.serves} ranks: {host.name}"
    elif cluster.fabric.node_ranks < cluster.ranks:
        ranks = cluster.fabric.node_ranks
        source = f"assumption: a node has {ranks} ranks, those of the fabric's innermost domain"
    else:
        ranks, source = 1, "assumption: every rank is a node of its own"
    if ranks > cluster.ranks:
        raise ConfigError(f"node_ranks={ranks}: expected at most the {cluster.ranks} ranks of {cluster.name}")
    return Machine(bill=ledger.bill, node_ranks=ranks, node_source=source, **attributes(cluster, "name ranks fabric"))


def estimate_cluster(
    cluster: Cluster, options: GoodputOptions | Mapping[str, object] | None = None, *, ranks: int | None = None
) -> Estimate:
    """Return the goodput of a job on all of a cluster; going on with damaged links is priced by synthesis, which takes
    seconds on rings of wavelengths.

    Args:
        cluster: where the job runs.
        options: inputs, or a mapping of them by field of :class:`GoodputOptions` (rates or mean times between failures,
            durations of restarts, checkpoints and repairs, spares, remedy, prices). None for the defaults.
        ranks: number of ranks of the job in place of the cluster's, with as many parts for each; None for the
            cluster's.

    Raises:
        InputError: an option that cannot be read, is out of range or contradicts another, or a number of ranks below a
            node's or above 10,000,000.
    """
    chosen = options_of(options)
    machine = machine_of(cluster, chosen)
    if ranks is not None:
        if not machine.node_ranks <= ranks <= _MOST_RANKS:
            raise ConfigError(
                f"{ranks} ranks of the job: expected {machine.node_ranks}, one node, to {_MOST_RANKS:,} ranks"
            )
        machine = replace(machine, ranks=ranks)
    return estimate(machine, chosen)


def play(estimated: Estimate, months: float, runs: int, seed: int, world: World) -> Played:
    """Return the result of simulating ``months`` months (of 30 days) of training event by event, the mean of ``runs``
    runs; slower steps after damage enter by their mean speed, which multiplies the simulated goodput and its error, and
    makes a part of the useful share slowed.

    Args:
        estimated: whose job is played.
        months: length of a run.
        runs: number of runs.
        seed: of the random numbers.
        world: departures from the assumptions of the closed form (Weibull lifetimes of nodes, repair crews, and racks
            that fail as a whole).

    Raises:
        ConfigError: no run, or no time to play.
    """
    played, speed = simulate(estimated.job, months * MONTH, runs=runs, seed=seed, world=world), estimated.speed
    slowed: dict[str, Any] = {"goodput": played.goodput * speed, "error": played.error * speed}
    return replace(played, **slowed, shares=played.shares.at_speed(speed))


class ClusterGoodput(NamedTuple):
    """Goodput of a cluster as plans show it."""

    most: float
    """Share of the time that trains, an upper bound where causes are missing."""
    missing: tuple[str, ...]
    """Causes of failures that nothing states."""
    spare_share: float
    """Spare nodes over the nodes in use; they cost and draw as much."""


def goodput_of(cluster: Cluster, ledger: ClusterLedger) -> ClusterGoodput:
    """Return the goodput of a cluster that plans show, an upper bound where causes have no rate, by the bill of
    ``ledger``, which is the cluster's, with the names of the causes that have no rate and the number of spare nodes
    over that of the nodes in use.

    Checkpoints, restarts, repairs and spares are the defaults of ``lightloom goodput``; going on with damaged links is
    not priced.
    """
    options = GoodputOptions()
    result = estimate(machine_of(cluster, options, ledger), options, price_damage=False)
    return ClusterGoodput(result.most_goodput, result.missing, result.job.spares / result.job.nodes)


# Worth of a change: the price at which a machine with it trains as much for a dollar as without it.
#
# A machine that costs X keeps the share g of its time, and g' with the change. Both train as much for a dollar if the
# change costs X (g'/g − 1). Cheaper than that, it pays.

_SHOWN = 2
"""Numbers of spares shown on either side of the one that is chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change to a machine or to how a job runs there."""

    name: str
    goodput: float
    """Share of the time kept with it."""
    gain: float
    """How much more is kept, relative to without it: the share of the machine's price that it is worth."""
    dollars: float | None
    """Dollars that the change is worth; None where no price of the machine is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpareCount:
    """A number of spare nodes."""

    spares: int
    goodput: float
    worth: float | None
    """Dollars below which the last of these pays; None where no price is known, and for none."""
    relative_worth: float
    """``worth`` in prices of a node in use; 0 for no spares."""
    chosen: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Slices:
    """Slices of one size, and the share of the ranks that can run in them."""

    ranks: int
    block_ranks: int
    host_availability: float
    reconfigurable: float
    static: float


def changes(base: Estimate) -> tuple[Change, ...]:
    """Return single changes, each with the goodput that it gives and what it is worth, the most valuable first:
    checkpoints of half the time, restarts a minute shorter, half the interruptions, one more spare node (unless options
    state an ``interruption_time``) and, where links can be rewired and options settle nothing of it, a spare channel of
    every rank. Each change is made to the present remedies and spares. The gain is relative to the present goodput (new
    over present, less 1), the worth in dollars that gain times the price of the nodes with spares, None where no price
    is known."""
    job, options, checkpoint = base.job, base.options, base.job.checkpoint
    faster = Checkpoint(stall=checkpoint.stall / 2, save=checkpoint.save / 2)
    sooner = tuple(replace(kind, restart=max(kind.restart - 60, 0)) for kind in job.others)
    rarer = tuple(replace(kind, rate=kind.rate / 2) for kind in job.others)
    changed = {
        "checkpoints that take half as long": replace(job, checkpoint=faster),
        "restarts that are a minute shorter": replace(job, others=sooner, node_restart=max(job.node_restart - 60, 0)),
        "half the interruptions": replace(job, others=rarer, node_rate=job.node_rate / 2),
    }
    if options.interruption_time is None:
        changed["one more spare node"] = replace(job, spares=job.spares + 1)
    goodputs = {name: better.goodput * base.speed for name, better in changed.items()}
    links = [answer.cause.rate for answer in base.answers if answer.cause.group == "network"]
    settled = options.spare_channels or options.remedy is not None or options.interruption_time is not None
    if not settled and (base.recovery.circuits or base.machine.fabric.wavelength_routed) and links and all(links):
        fields = {"spare_channels": 1, "spares": job.spares, "spare_price": None}
        spare = estimate(base.machine, options.model_copy(update=fields), price_damage=False)
        channel = "wavelength" if base.machine.fabric.wavelength_routed else "port"
        # Damage is not priced again: what was chosen without a spare channel stays possible.
        goodputs[f"a spare {channel} of every rank"] = max(spare.most_goodput, base.most_goodput)
    found = []
    for name, goodput in goodputs.items():
        gain = goodput / base.most_goodput - 1 if base.most_goodput else 0.0
        dollars = None if base.dollars is None else gain * base.dollars
        found.append(Change(name=name, goodput=goodput, gain=gain, dollars=dollars))
    return tuple(sorted(found, key=lambda change: -change.gain))


def spare_counts(base: Estimate) -> tuple[SpareCount, ...]:
    """Return a row for each number of spares from two below to two above the chosen one, which is marked, ascending,
    none below 0, each with its goodput and the price below which its last node pays: in prices of a node in use
    (``relative_worth``: infinite where nothing trains without that node, 0 for no spares), and in dollars (``worth``:
    None where no price is known, and for no spares)."""
    job = base.job
    price = base.node_price.value

    def row(spares: int) -> SpareCount:
        """Return the goodput with so many spares, and the price below which the last of them pays."""
        here, worth = replace(job, spares=spares).goodput * base.speed, 0.0
        if spares:
            before = replace(job, spares=spares - 1).goodput * base.speed
            worth = (job.nodes + (spares - 1) * base.spare_ratio) * (here / before - 1) if before else float("inf")
        dollars = None if price is None or not spares else worth * price
        return SpareCount(spares=spares, goodput=here, worth=dollars, relative_worth=worth, chosen=spares == job.spares)

    return tuple(row(spares) for spares in range(max(job.spares - _SHOWN, 0), job.spares + _SHOWN + 1))


def slices_of(base: Estimate, ranks: int, block_ranks: int | None = None, host: float | None = None) -> Slices:
    """Return the expected share of the machine's ranks that can run in slices of ``ranks``, both with blocks that
    circuits join into slices, any that work (``reconfigurable``), and with fixed slices (``static``). The machine has
    as many whole blocks as fit, and a slice takes whole blocks, rounded up.

    Args:
        base: the estimate, whose machine is divided.
        ranks: ranks of a slice.
        block_ranks: ranks of a block, which works while all its hosts do; None for those that the fabric's circuit
            switches join, at least a node.
        host: share of the time that a host works, between 0 and 1; None for that of the estimate's rates and repairs, 1
            where these tell no nodes apart (an ``interruption_time``).

    Raises:
        ConfigError: a slice larger than the machine or than its whole blocks, a block smaller than a node or larger
            than the machine, or a ``host`` that is not from 0 to 1.
    """
    if host is None:
        host = host_availability(1 / base.job.node_rate if base.job.node_rate else float("inf"), base.job.repair)
    machine = base.machine
    if block_ranks is None:
        block_ranks = max(machine.fabric.circuit_block or 1, machine.node_ranks)
    if not 1 <= ranks <= machine.ranks or not machine.node_ranks <= block_ranks <= machine.ranks:
        raise ConfigError(
            f"slices of {ranks} ranks in blocks of {block_ranks}: expected 1 to {machine.ranks} ranks, and blocks of a "
            f"node of {machine.node_ranks} ranks or more"
        )
    blocks = machine.ranks // block_ranks, -(-ranks // block_ranks), host ** (block_ranks / machine.node_ranks)
    shares = {"reconfigurable": reconfigurable_share(*blocks), "static": static_share(*blocks)}
    return Slices(ranks=ranks, block_ranks=block_ranks, host_availability=host, **shares)
