"""``lightloom goodput``: how much of a month trains on a cluster, what interrupts it, and what changes are worth."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Annotated

import typer
from rich.table import Table

from lightloom.app.api.goodput import Goodput
from lightloom.app.api.goodput import goodput as estimate
from lightloom.app.cli.options import Json, count_option, option, print_result, read_settings
from lightloom.core.errors import ConfigError
from lightloom.core.units import parse
from lightloom.machines.parts.part import format_amount
from lightloom.planning.economics.job import Shares, World
from lightloom.reports.console import plain_table

_SHARES = {
    "useful": "training that is kept",
    "stalled": "waiting for checkpoints",
    "recomputed": "computed again after failures",
    "restarting": "restarts",
    "waiting": "waiting for repairs",
    "slowed": "steps slowed by damage",
}
_Pairs = list[str] | None

_Ranks = Annotated[int | None, count_option("--ranks", "Ranks of the job, with the cluster's parts for each.")]
_Checkpoint = Annotated[
    str | None,
    option("Time that training stops for one; STALL,SAVE: an asynchronous one, durable SAVE later.", "TIME[,TIME]"),
]
_Recovery = Annotated[
    _Pairs,
    option(
        "part=time of a restart: detection, network_detection, swap, rewiring, link_up, initialisation, loading; "
        "repeatable."
    ),
]
_Rates = Annotated[
    str | None, option("Log of interruptions for all causes: llama-3, rsc-1, rsc-2 or a YAML file.", "NAME")
]
_Mtbf = Annotated[
    _Pairs, option("name=time between failures of a part, or of accelerator, host, network, software; repeatable.")
]
_Remedy = Annotated[str | None, option("After a failed link: restart, rewire or damaged; the best without it.", "NAME")]
_SpareChannels = Annotated[
    int | None, count_option("--spare-channels", "Spare wavelengths or ports of every rank.", least=0)
]
_Communication = Annotated[str | None, option("Share of a step that waits for communication, as 30% or 0.3.", "SHARE")]
_DamageSlowdown = Annotated[str | None, option("Times as long as collectives take around a failed link.", "TIMES")]
_HostAvailability = Annotated[str | None, option("Share of the time that a host works, for slices.", "SHARE")]
_Crews = Annotated[
    int | None, count_option("--crews", "Repairs at once that are simulated; any number without it.", least=1)
]
_Rack = Annotated[
    str | None, option("Racks that fail as a whole, simulated: nodes and time between failures.", "NODES,TIME")
]


def goodput(
    *,
    cluster: Annotated[str, typer.Argument(help="A cluster of the catalog, or a YAML file.")],
    settings: Annotated[_Pairs, option("field=value of the cluster; repeatable.", name="--set")] = None,
    ranks: _Ranks = None,
    months: Annotated[str, option("Months of 30 days that are counted and simulated.", "N")] = "1",
    checkpoint: _Checkpoint = None,
    interval: Annotated[str | None, option("Useful time between checkpoints; the optimum without it.", "TIME")] = None,
    restart: Annotated[str | None, option("Time of every restart.", "TIME")] = None,
    recovery: _Recovery = None,
    rates: _Rates = None,
    mtbf: _Mtbf = None,
    interruption_time: Annotated[str | None, option("Time between interruptions of the whole job.", "TIME")] = None,
    spares: Annotated[int | None, count_option("--spares", "Spare nodes; as many as pay without it.", least=0)] = None,
    repair: Annotated[str | None, option("Time until a failed node works again.", "TIME")] = None,
    node_ranks: Annotated[int | None, count_option("--node-ranks", "Ranks that fail together.", least=1)] = None,
    remedy: _Remedy = None,
    spare_channels: _SpareChannels = None,
    communication: _Communication = None,
    damage_slowdown: _DamageSlowdown = None,
    node_price: Annotated[str | None, option("Price of a node in use, e.g. 300 k$.", "PRICE")] = None,
    spare_price: Annotated[str | None, option("Price of a spare node, beside --node-price.", "PRICE")] = None,
    slices: Annotated[list[str] | None, option("Ranks of a slice; repeatable.", "RANKS", "--slice")] = None,
    block: Annotated[int | None, count_option("--block", "Ranks of a block of slices.", least=1)] = None,
    host_availability: _HostAvailability = None,
    simulate: Annotated[bool, option("Play the months event by event as well.", name="--simulate")] = False,
    runs: Annotated[int, count_option("--runs", "How often the months are played.", least=1)] = 8,
    seed: Annotated[int, count_option("--seed", "Seed of the simulation.", least=0)] = 0,
    weibull: Annotated[str | None, option("Shape of the lifetimes that are simulated; 1 is exponential.", "K")] = None,
    crews: _Crews = None,
    rack: _Rack = None,
    as_json: Json = False,
) -> None:
    """Show how much of a month trains, what interrupts it, and what spares and faster checkpoints are worth."""
    stall, save = _checkpoint(checkpoint)
    world = _world(weibull, crews, rack)
    result = estimate(
        cluster,
        set=read_settings(settings),
        ranks=ranks,
        months=_number(months, "--months"),
        slices=[int(_number(text, "--slice")) for text in slices or ()],
        block=block,
        host_availability=_share(host_availability, "--host-availability"),
        simulate=world or simulate,
        runs=runs,
        seed=seed,
        stall=stall,
        save=save,
        interval=interval,
        restart=restart,
        recovery=_pairs(recovery, "--recovery"),
        rates=rates,
        mtbf=_pairs(mtbf, "--mtbf"),
        interruption_time=interruption_time,
        spares=spares,
        repair=repair,
        node_ranks=node_ranks,
        remedy=remedy,
        spare_channels=spare_channels,
        communication=_share(communication, "--communication"),
        damage_slowdown=_optional(damage_slowdown, "--damage-slowdown"),
        node_price=node_price,
        spare_price=spare_price,
    )
    print_result(result.to_json(), as_json, _parts(result))


def _checkpoint(text: str | None) -> tuple[str | None, str | None]:
    if text is None:
        return None, None
    stall, comma, save = text.partition(",")
    return stall.strip(), save.strip() if comma else None


def _world(weibull: str | None, crews: int | None, rack: str | None) -> World | None:
    """Return what the simulation is to have beside the closed form; None where nothing was asked for."""
    if weibull is None and crews is None and rack is None:
        return None
    shape = 1.0 if weibull is None else _number(weibull, "--weibull")
    if rack is None:
        return World(shape=shape, crews=crews or 0)
    nodes, comma, seconds = rack.partition(",")
    mean = parse(seconds.strip(), "time") if comma else 0.0
    if not mean:
        raise ConfigError(f"--rack {rack!r}: expected nodes and a time between failures of a rack, e.g. 4,20000h")
    return World(shape=shape, crews=crews or 0, rack=int(_number(nodes, "--rack")), rack_rate=1 / mean)


def _pairs(texts: list[str] | None, name: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    example = "loading=60s" if name == "--recovery" else "host=60000h"
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not equals or not key.strip() or not value.strip():
            raise ConfigError(f"{name} {text!r}: expected name=time, e.g. {example}")
        if key.strip() in pairs:
            raise ConfigError(f"{name} {text!r}: {key.strip()} is given twice: expected it once")
        pairs[key.strip()] = value.strip()
    return pairs


def _number(text: str, name: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not number >= 0 or number == float("inf"):
        raise ConfigError(f"{name} {text!r}: expected a number, 0 or more")
    return number


def _optional(text: str | None, name: str) -> float | None:
    return None if text is None else _number(text, name)


def _share(text: str | None, name: str) -> float | None:
    """Return a share between 0 and 1, which may be written in per cent."""
    if text is None:
        return None
    percent = text.strip().endswith("%")
    share = _number(text.strip().removesuffix("%"), name) / (100 if percent else 1)
    if share > 1:
        raise ConfigError(f"{name} {text!r}: expected 0 to 1, or per cent as 99%")
    return share


def _parts(result: Goodput) -> Iterator[str | Table]:
    yield result.summary()
    yield ""
    yield _shares(result)
    yield ""
    yield from _causes(result)
    yield ""
    yield from _worth(result)
    if result.slices:
        yield ""
        yield _slices(result)
    if result.missing:
        yield ""
        yield f"at most, for nothing states: {'; '.join(result.missing)}; --mtbf NAME=TIME gives it"
    yield ""
    yield from result.estimate.assumptions


def _shares(result: Goodput) -> Table:
    played = result.simulated
    exact: Callable[[Shares, str], str] = lambda shares, name: f"{getattr(shares, name):.3%}"  # noqa: E731
    names = [field.name for field in fields(Shares) if getattr(result.estimate.shares, field.name) > 0]
    rows = [(_SHARES[name], exact(result.estimate.shares, name)) for name in names]
    columns: tuple[str, ...] = ("where the time goes", "closed form")
    if played is not None:
        columns += (f"simulated, {played.runs} × {result.months:g} months",)
        rows = [(*row, exact(played.shares, name)) for row, name in zip(rows, names, strict=True)]  # type: ignore[misc]
        if played.runs > 1:
            rows.append(("standard error of what is kept", "", f"{played.error:.3%}"))  # type: ignore[arg-type]
    return plain_table(columns, rows)


def _causes(result: Goodput) -> Iterator[str | Table]:
    rows = [tuple(str(value) for value in row.values()) for row in result.display_rows()]
    title = f"{result.interruptions:.4g} interruptions in {result.months:g} months of 30 days"
    yield plain_table(("cause", "interruptions", "restart", "then"), rows, title=title)
    said: dict[str, list[str]] = {}
    for answer in result.estimate.answers:
        for response, goodput in answer.alternatives:
            kept = "" if goodput is None else f", keeps {goodput:.4%}"
            missing = "" if response.possible else "cannot: "
            said.setdefault(f"{response.remedy}: {missing}{response.why}{kept}", []).append(answer.cause.name)
    for text, names in said.items():
        yield f"{', '.join(names)}: {text}"


def _worth(result: Goodput) -> Iterator[str | Table]:
    price = result.estimate.node_price
    least = f"{price.bound} ".lstrip()
    rows = [
        (
            change.name,
            f"{change.goodput:.3%}",
            f"{change.gain:.3%}",
            "not sourced" if change.dollars is None else least + format_amount(change.dollars, "dollars"),
        )
        for change in result.changes
    ]
    yield plain_table(("change", "kept", "share of the machine's price", "worth"), rows)
    if price.value is not None:
        total = format_amount(result.estimate.dollars or 0, "dollars")
        yield f"a node in use: {price.text()}; the machine with its spares: {least}{total}"
    if result.spare_counts:
        counts = [
            (
                f"{row.spares}{' (chosen)' if row.chosen else ''}",
                f"{row.goodput:.3%}",
                "" if not row.spares else f"{row.relative_worth:.3g} nodes",
                "" if row.worth is None else least + format_amount(row.worth, "dollars"),
            )
            for row in result.spare_counts
        ]
        yield ""
        yield plain_table(("spare nodes", "kept", "the last pays below", "in dollars"), counts)


def _slices(result: Goodput) -> Table:
    rows = [
        (
            f"{row.ranks:,}",
            f"{row.block_ranks:,}",
            f"{row.host_availability:.2%}",
            f"{row.reconfigurable:.3%}",
            f"{row.static:.3%}",
        )
        for row in result.slices
    ]
    return plain_table(("slice", "block", "hosts that work", "circuit switches", "fixed slices"), rows)
