"""What a change is worth: the price at which a machine with it trains as much for a dollar as without it.

A machine that costs X keeps the share g of its time, and g' with the change. Both train as much for a dollar if the
change costs X (g'/g − 1). Cheaper than that, it pays.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from lightloom.core.errors import ConfigError
from lightloom.economics.goodput.availability import host_availability, reconfigurable_share, static_share
from lightloom.economics.goodput.daly import Checkpoint
from lightloom.economics.goodput.estimate import Estimate, estimate
from lightloom.economics.goodput.job import Job

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
    """What it is worth; None where no price of the machine is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpareCount:
    """A number of spare nodes."""

    spares: int
    goodput: float
    worth: float | None
    """Dollars below which the last of these pays; None where no price is known, and for none."""
    relative_worth: float
    """The same in prices of a node in use; 0 for no spares."""
    chosen: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Slices:
    """Slices of one size: what share of the ranks can run in them."""

    ranks: int
    block_ranks: int
    host_availability: float
    reconfigurable: float
    static: float


def changes(base: Estimate) -> tuple[Change, ...]:
    """Return what single changes are worth, the most valuable first."""
    return tuple(sorted(_changes(base), key=lambda change: -change.gain))


def _changes(base: Estimate) -> Iterator[Change]:
    job, options = base.job, base.options
    checkpoint = job.checkpoint
    faster = Checkpoint(stall=checkpoint.stall / 2, save=checkpoint.save / 2)
    yield _change(base, "checkpoints that take half as long", replace(job, checkpoint=faster))
    sooner = tuple(replace(kind, restart=max(kind.restart - 60, 0)) for kind in job.others)
    name = "restarts that are a minute shorter"
    yield _change(base, name, replace(job, others=sooner, node_restart=max(job.node_restart - 60, 0)))
    rarer = tuple(replace(kind, rate=kind.rate / 2) for kind in job.others)
    yield _change(base, "half the interruptions", replace(job, others=rarer, node_rate=job.node_rate / 2))
    if options.interruption_time is None:
        yield _change(base, "one more spare node", job.with_spares(job.spares + 1))
        if _spare_channels_help(base):
            fields = {"spare_channels": 1, "spares": job.spares, "spare_price": None}
            spare = estimate(base.machine, options.model_copy(update=fields), price_damage=False)
            name = f"a spare {'wavelength' if base.machine.fabric.wavelength_routed else 'port'} of every rank"
            # Damage is not priced again: what was chosen without a spare channel stays possible.
            yield _gain(base, name, max(spare.most_goodput, base.most_goodput))


def _spare_channels_help(base: Estimate) -> bool:
    """Whether rewiring to spare channels is an option that is not taken yet, and failures of links are known."""
    links = [answer.cause for answer in base.answers if answer.cause.group == "network"]
    if base.options.spare_channels or base.options.remedy is not None or not links:
        return False
    return all(cause.rate for cause in links) and (base.recovery.circuits or base.machine.fabric.wavelength_routed)


def _change(base: Estimate, name: str, job: Job) -> Change:
    return _gain(base, name, job.goodput * base.speed)


def _gain(base: Estimate, name: str, goodput: float) -> Change:
    gain = goodput / base.most_goodput - 1 if base.most_goodput else 0.0
    return Change(name=name, goodput=goodput, gain=gain, dollars=None if base.dollars is None else gain * base.dollars)


def spare_counts(base: Estimate) -> tuple[SpareCount, ...]:
    """Return numbers of spares around the chosen one, each with the price below which its last node pays."""
    job = base.job
    price = base.node_price.value
    rows = []
    for spares in range(max(job.spares - _SHOWN, 0), job.spares + _SHOWN + 1):
        here = job.with_spares(spares).goodput * base.speed
        worth = 0.0
        if spares:
            before = job.with_spares(spares - 1).goodput * base.speed
            cost = job.nodes + (spares - 1) * base.spare_ratio
            worth = cost * (here / before - 1) if before else float("inf")
        rows.append(
            SpareCount(
                spares=spares,
                goodput=here,
                worth=None if price is None or not spares else worth * price,
                relative_worth=worth,
                chosen=spares == job.spares,
            )
        )
    return tuple(rows)


def slices_of(base: Estimate, ranks: int, block_ranks: int | None = None, host: float | None = None) -> Slices:
    """Return the share of the machine's ranks that can run in slices of ``ranks``.

    Args:
        base: the machine.
        ranks: ranks of a slice.
        block_ranks: ranks of a block, which works while all its hosts do; None: those that the fabric's circuit
            switches join, or a node.
        host: share of the time that a host works; None: that of the estimate's rates and repairs.

    Raises:
        ConfigError: a slice larger than the machine, or a share that is none.
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
    blocks, needed = machine.ranks // block_ranks, -(-ranks // block_ranks)
    block = host ** (block_ranks / machine.node_ranks)
    return Slices(
        ranks=ranks,
        block_ranks=block_ranks,
        host_availability=host,
        reconfigurable=reconfigurable_share(blocks, needed, block),
        static=static_share(blocks, needed, block),
    )
