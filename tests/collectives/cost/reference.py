"""A slow, obvious price of a schedule: dictionaries over its rows, with nothing of the cost models' loops."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from lightloom.collectives.schedule.columns import COLUMNS, Schedule
from lightloom.machines.fabrics.fabric import Fabric

Row = dict[str, int]


class Price(NamedTuple):
    """What the cost models say of one run, in seconds and joules."""

    transmission: float
    conversion: float
    reconfiguration: float
    static: bool
    energy: float | None


def rows_of(schedule: Schedule) -> list[Row]:
    columns = {name: getattr(schedule, name).tolist() for name in COLUMNS}
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def nbytes_of_rows(schedule: Schedule) -> list[float]:
    """Bytes that each row sends."""
    sizes, chunks = schedule.collective.sizes, schedule.chunk.tolist()
    if sizes is None:
        return [schedule.chunk_nbytes] * len(chunks)
    share = sizes.share.ravel().tolist()
    pieces = schedule.chunks // len(share)
    return [schedule.collective.distinct_nbytes * share[chunk // pieces] / pieces for chunk in chunks]


def shuffled(schedule: Schedule, order: list[int]) -> Schedule:
    """The same schedule with its rows in another order."""
    return schedule.with_columns({name: getattr(schedule, name)[order] for name in COLUMNS})


def latencies(schedule: Schedule, fabric: Fabric) -> list[float]:
    """Seconds of propagation: [row]."""
    seconds: list[float] = fabric.latency(*schedule.ends(slice(None))).tolist()
    return seconds


def links(schedule: Schedule, fabric: Fabric) -> list[list[int]]:
    """Links that each row occupies."""
    runs = fabric.footprint(*schedule.ends(slice(None)))
    columns = (runs.base.tolist(), runs.start.tolist(), runs.period.tolist(), runs.length.tolist())
    return [
        [base + (start + k) % period for base, start, period, length in zip(*row, strict=True) for k in range(length)]
        for row in zip(*columns, strict=True)
    ]


def step_order(schedule: Schedule) -> list[int]:
    """Steps in an order in which they can run."""
    left = {step: {b for a, b in _pairs(schedule) if a == step} for step in range(schedule.steps)}
    order: list[int] = []
    while left:
        step = next(step for step in sorted(left) if left[step] <= set(order))
        order.append(step)
        del left[step]
    return order


def _pairs(schedule: Schedule) -> list[tuple[int, int]]:
    if schedule.dependencies is None:
        return [(step, step - 1) for step in range(1, schedule.steps)]
    return [(int(after), int(before)) for after, before in schedule.dependencies]


def stepped_price(schedule: Schedule, fabric: Fabric, model: str) -> Price:
    """The price of a schedule of steps."""
    rows, steps = rows_of(schedule), schedule.steps
    nbytes = nbytes_of_rows(schedule)
    sent: dict[int, float] = defaultdict(float)
    first: dict[int, int] = {}
    for row, row_bytes in zip(rows, nbytes, strict=True):
        if row["destination"] == first.setdefault(row["lightpath"], row["destination"]):
            sent[row["lightpath"]] += row_bytes
    transmission = [0.0] * steps
    if fabric.exclusive:
        for row, propagation in zip(rows, latencies(schedule, fabric), strict=True):
            seconds = sent[row["lightpath"]]
            seconds /= row["wavelength_count"] * fabric.channel_bandwidth
            seconds += propagation if model == "physical" else 0.0
            transmission[row["step"]] = max(transmission[row["step"]], seconds)
    else:
        loads: dict[tuple[int, int], float] = defaultdict(float)
        away = [0.0] * steps
        bandwidth = fabric.link_bandwidth().tolist()
        used_links, propagations = links(schedule, fabric), latencies(schedule, fabric)
        for row, row_bytes, used, propagation in zip(rows, nbytes, used_links, propagations, strict=True):
            for link in used:
                loads[row["step"], link] += row_bytes / bandwidth[link]
            far = fabric.diameter_latency() if fabric.in_network_reduction else propagation
            away[row["step"]] = max(away[row["step"]], far)
        for (step, _), seconds in loads.items():
            transmission[step] = max(transmission[step], seconds)
        transmission = [busy + far for busy, far in zip(transmission, away, strict=True)]
    setups, static = [0.0] * steps, True
    if fabric.exclusive and model == "paper":
        setups, static = [fabric.setup_time] * steps, False
    elif fabric.exclusive and rows:
        changed, static = _circuit_changes(schedule, fabric)
        setups = [fabric.setup_time * (step in changed) for step in range(steps)]
    if schedule.dependencies is not None and not fabric.exclusive:
        transmission = _sharing(schedule, steps, dict(loads), away, fabric.step_overhead)
    step_seconds = [a + fabric.step_overhead + b for a, b in zip(transmission, setups, strict=True)]
    critical = _critical(schedule, step_seconds)
    return Price(
        sum(transmission[step] for step in critical),
        fabric.step_overhead * len(critical),
        sum(setups[step] for step in critical),
        static,
        _energy(schedule, fabric, sum(sent.values())),
    )


def _sharing(
    schedule: Schedule, steps: int, loads: dict[tuple[int, int], float], away: list[float], lead: float
) -> list[float]:
    """Seconds of steps, some at once: all that use a full link are equally slow, and every other one is quicker."""
    alone = [max((seconds for (s, _), seconds in loads.items() if s == step), default=0.0) for step in range(steps)]
    waits = {step: {b for a, b in _pairs(schedule) if a == step} for step in range(steps)}
    begin: dict[int, float] = {}
    end: dict[int, float] = {}
    left = dict(enumerate(alone))
    now = 0.0
    while len(end) < steps:
        for step in range(steps):
            if step not in begin and all(b in end and end[b] <= now * (1 + 1e-12) for b in waits[step]):
                begin[step] = max((end[b] for b in waits[step]), default=0.0)
        at_work = [s for s in begin if s not in end and begin[s] + lead <= now * (1 + 1e-12)]
        for step in [s for s in at_work if left[s] <= 1e-12 * max(alone[s], now)]:
            end[step] = now + away[step]
            at_work.remove(step)
        speed = _fair_speeds(at_work, alone, loads)
        changes = [begin[s] + lead for s in begin if s not in end] + list(end.values())
        changes += [now + left[s] / speed[s] for s in at_work]
        later = [time for time in changes if time > now * (1 + 1e-12)]
        if not later:
            continue
        for step in at_work:
            left[step] -= speed[step] * (min(later) - now)
        now = min(later)
    return [end[step] - begin[step] - lead for step in range(steps)]


def _fair_speeds(steps: list[int], alone: list[float], loads: dict[tuple[int, int], float]) -> dict[int, float]:
    """Raise all speeds together; those that use a link stop when it is full."""
    speed: dict[int, float] = {}
    links = {link for step, link in loads if step in steps}
    share = {(s, link): seconds / alone[s] for (s, link), seconds in loads.items() if s in steps and alone[s] > 0}
    while len(speed) < len(steps):
        levels = {
            link: (1 - sum(speed[s] * share.get((s, link), 0.0) for s in speed)) / rate
            for link in links
            if (rate := sum(share.get((s, link), 0.0) for s in steps if s not in speed)) > 0
        }
        least = min([1.0, *levels.values()])
        full = {link for link, level in levels.items() if level <= least * (1 + 1e-9)}
        stop = [s for s in steps if s not in speed and (least == 1 or any((s, link) in share for link in full))]
        speed |= dict.fromkeys(stop, least)
    return speed


def _energy(schedule: Schedule, fabric: Fabric, lightpath_bytes: float) -> float | None:
    if fabric.energy_per_bit is None:
        return None
    if fabric.exclusive:
        return lightpath_bytes * 8 * fabric.energy_per_bit
    hops: list[int] = fabric.hops(*schedule.ends(slice(None))).tolist()
    crossing: float = sum(
        fabric.wire_bytes(sent) * links for sent, links in zip(nbytes_of_rows(schedule), hops, strict=True)
    )
    return crossing * 8 * fabric.energy_per_bit


def _circuit_changes(schedule: Schedule, fabric: Fabric) -> tuple[set[int], bool]:
    tuned: dict[tuple[int, int], tuple[int, ...]] = {}
    changed, overwritten, rows, used = set(), False, rows_of(schedule), links(schedule, fabric)
    for step in step_order(schedule):
        for i, row in enumerate(rows):
            if row["step"] != step:
                continue
            first = row["fibre"] * fabric.fibre_channels + row["first_wavelength"]
            circuit = row["source"], row["destination"], row["route"], first, row["wavelength_count"]
            for link in used[i]:
                for channel in range(first, first + row["wavelength_count"]):
                    if tuned.get((link, channel)) != circuit:
                        overwritten = overwritten or (link, channel) in tuned
                        tuned[link, channel] = circuit
                        changed.add(step)
    return (changed, False) if overwritten else ({min(row["step"] for row in rows)}, True)


def _critical(schedule: Schedule, seconds: list[float]) -> list[int]:
    """Steps of a longest chain of steps that wait for each other."""
    if schedule.dependencies is None:
        return list(range(schedule.steps))
    chain: dict[int, list[int]] = {}
    length = lambda steps: sum(seconds[step] for step in steps)  # noqa: E731
    for step in step_order(schedule):
        before = [chain[b] for a, b in _pairs(schedule) if a == step]
        chain[step] = [*max(before, key=length, default=[]), step]
    return max(chain.values(), key=length)


def queued_times(schedule: Schedule, fabric: Fabric) -> tuple[list[float], float, int]:
    """When each row of an unfolded queued schedule begins, the last arrival, and the number of transmissions."""
    rows, nbytes = rows_of(schedule), nbytes_of_rows(schedule)
    ranks, kind = schedule.collective.ranks, schedule.collective.kind
    share = max(schedule.chunks // ranks, 1)
    arrivals: dict[tuple[int, int], list[float]] = defaultdict(list)
    due: dict[tuple[int, int], int] = defaultdict(int)
    for row in rows:
        due[row["destination"], row["chunk"]] += 1
    queues: dict[int, list[int]] = defaultdict(list)
    for i in sorted(range(len(rows)), key=lambda i: rows[i]["step"]):
        queues[rows[i]["lightpath"]].append(i)
    propagation = latencies(schedule, fabric)
    begin, free, end, sent = [0.0] * len(rows), dict.fromkeys(queues, 0.0), 0.0, 0
    last: dict[int, tuple[int, int, float]] = {}
    while any(queues.values()):
        for path, queue in queues.items():
            while queue:
                i = queue[0]
                row = rows[i]
                cell = row["source"], row["chunk"]
                owner = 0 if kind in ("broadcast", "reduce") else row["chunk"] // share
                starts = row["reduces"] or owner == row["source"]
                if len(arrivals[cell]) < _awaited(rows, cell, row, due, starts=bool(starts)):
                    break
                queue.pop(0)
                busy = nbytes[i] / (row["wavelength_count"] * fabric.channel_bandwidth)
                busy += fabric.piece_overhead
                place = row["step"], row["chunk"]
                if path in last and last[path][:2] == place:
                    begin[i] = last[path][2]
                else:
                    begin[i] = max([free[path], *arrivals[cell]])
                    free[path], sent = begin[i] + busy, sent + 1
                last[path] = *place, begin[i]
                arrives = begin[i] + busy + fabric.step_overhead + propagation[i]
                arrivals[row["destination"], row["chunk"]].append(arrives)
                end = max(end, arrives)
    return begin, end, sent


def _awaited(rows: list[Row], cell: tuple[int, int], row: Row, due: dict[tuple[int, int], int], *, starts: bool) -> int:
    """Arrivals at a cell that a row of it waits for: the sums before it; the store as well where it has no data."""
    adds = sum(r["reduces"] for r in rows if (r["destination"], r["chunk"]) == cell)
    return int(adds) if starts else due[cell]


def coded_chunks(schedule: Schedule, *, in_line: bool) -> tuple[list[int], list[int]]:
    """The most chunks that a rank encodes, and decodes, in each step."""
    rows = rows_of(schedule.unfolded(1))
    encoded, decoded = [0] * schedule.steps, [0] * schedule.steps
    plain: dict[tuple[int, int], bool] = defaultdict(lambda: True)
    beams: dict[tuple[int, int], int] = {}
    for step in step_order(schedule):
        encodes: dict[int, int] = defaultdict(int)
        decodes: dict[int, int] = defaultdict(int)
        now = [row for row in rows if row["step"] == step]
        for row in now:
            cell = row["source"], row["chunk"]
            if in_line:
                encodes[row["source"]] += beams.get(cell) != row["lightpath"]
                beams[cell] = row["lightpath"]
            elif plain[cell]:
                plain[cell] = False
                encodes[row["source"]] += 1
                decodes[row["source"]] += not row["reduces"]
        for row in now:
            decodes[row["destination"]] += 1
            plain[row["destination"], row["chunk"]] = bool(row["reduces"])
        encoded[step], decoded[step] = max(encodes.values(), default=0), max(decodes.values(), default=0)
    return encoded, decoded
