"""Bounds of placed plans are what their description says, worked out operator by operator and byte by byte."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lightloom.core.arrays import Floats
from lightloom.core.errors import UnsupportedError
from lightloom.models.graph import ComputeGraph, Operator
from lightloom.planning.parallelism.circuits.circuits import GroupCircuits, Timing
from lightloom.planning.parallelism.operators import loss_bytes
from lightloom.planning.parallelism.placement.place import EFFORT, place
from lightloom.planning.parallelism.placement.placement import HybridPlan, Link
from lightloom.planning.parallelism.plan import local_graph
from lightloom.planning.pricing.job import Job
from lightloom.planning.pricing.placed_space import (
    PartTable,
    PlacedChoice,
    PlacedRows,
    peers,
    reach,
    shared_state_bytes,
    state_bytes,
)
from lightloom.planning.search import rows as placed_plans
from lightloom.planning.search.bounds import (
    ROUNDING,
    _bytes,
    _flows,
    _Pairs,
    _path,
    coarse_bound,
    exchange_latency,
    fastest_link,
    placed_bound,
)
from lightloom.planning.search.rows import PlacedPlans
from tests.planner.gradients.exchanges import coded
from tests.planner.jobs import BATCH, transformer, verified_job, with_model
from tests.planner.test_split_bounds import cluster_on

CHOICE = PlacedChoice(4, 2, 1e-6, 16, 2, 1.0)


def with_input(graph: ComputeGraph) -> ComputeGraph:
    """The graph with an operator that stands for its samples, which nothing computes, and parameters of one value."""
    first = replace(graph.operators[0], inputs=("samples",))
    samples = Operator(name="samples", kind="input", dimensions={"sample": BATCH}, activation_bytes=4 * BATCH)
    others = (
        replace(each, parameters=1 if each.kind == "activation" else each.parameters) for each in graph.operators[1:]
    )
    return replace(graph, operators=(samples, first, *others))


@cache
def job_on(fabric: int, hidden: int = 256, ranks: int = 8) -> Job:
    """A small transformer on one of the fabrics."""
    return verified_job(with_input(transformer(2, hidden)), cluster_on(fabric, ranks))


def coarse(job: Job, table: PartTable, choice: PlacedChoice) -> tuple[list[float], float, float]:
    """Seconds by what bounds a row, those of its earlier micro-batches, and the bytes of a device."""
    rows, settings = PlacedRows.of([choice]), job.settings
    launches = [each[0] for each in job.operators.launches(rows.recomputation)]
    cut = table.parts(rows, job.operators)
    passes, shortest = ([each[0] for each in seconds] for seconds in (cut.total, cut.least))
    operators = [x for x, each in enumerate(job.graph.operators) if each.kind != "input"]
    names = {each.name: x for x, each in enumerate(job.graph.operators)}
    sources = {
        x: [y for y in map(names.__getitem__, job.graph.operators[x].inputs) if y in operators] for x in operators
    }
    there, back = dict.fromkeys(operators, 0.0), dict.fromkeys(operators, 0.0)
    for x in operators:
        there[x] = max((there[y] for y in sources[x]), default=0.0) + shortest[0][x]
    for x in operators[::-1]:
        back[x] = max([there[x], *(back[y] for y in operators if x in sources[y])]) + shortest[1][x]
    total = sum(
        max(sum(seconds[x] for x in operators), sum(launched[x] for x in operators if seconds[x] > 0))
        for seconds, launched in zip(passes, launches, strict=True)
    )
    held = {x: job.graph.operators[x].parameters for x in operators}
    parameters, every_step = sum(held.values()), job.accelerator.update_time(0.0)
    update = job.accelerator.update_time(float(parameters * settings.optimizer_traffic_bytes)) - every_step
    exchanging = 0.0
    if choice.l > 1 and parameters:
        sent = 2 * (choice.l - 1) / choice.l * parameters * settings.gradient_bytes / choice.k
        ratio = 1.0 if choice.ratio == 1 else choice.ratio * settings.gradient_bytes / 4
        link, stride = fastest_link(job.fabric), min(choice.k, job.fabric.ranks - choice.k)
        sending = max(sent / ratio / link.rate, sent / ratio * stride / link.link_rate)
        exchanging = min(back[x] for x in operators if held[x]) + sending + exchange_latency(job.fabric, choice.k)
    whole, (of_copy, of_owned) = state_bytes(settings), shared_state_bytes(settings, float(choice.l))
    (kept,) = job.model.columns.kept(rows.samples)
    keeping = [x for x in operators if choice.recomputation == "none" or not job.graph.operators[x].block]
    memory = parameters * min(whole, of_copy + of_owned) + sum(kept[x] for x in keeping)
    last = max(back.values())
    computing = (total + update / choice.l) / choice.k + every_step
    return [computing, last, exchanging], (choice.micro_batches - 1) * max(total / choice.k, last), memory / choice.k


def test_rows_are_bounded_by_computing_by_the_longest_chain_and_by_their_exchange() -> None:
    decided: list[int] = []
    for fabric, hidden, flat in ((0, 256, False), (1, 1024, True), (4, 1024, False), (6, 64, False)):
        job = job_on(fabric, hidden)
        job = replace(job, accelerator=job.accelerator.flat()) if flat else job
        if hidden == 64:
            graph = job.graph
            graph = replace(graph, operators=tuple(replace(each, parameters=0) for each in graph.operators))
            job = verified_job(graph, cluster_on(fabric, 8))
        choices = [
            PlacedChoice(k, 8 // k, quantum, 8 * samples * parts, k, 1.0, parts, kind)
            for k in (1, 2, 4, 8)
            for quantum, samples, parts, kind in ((1e-7, 1, 1, "none"), (1e-5, 4, 3, "full"), (1e-6, 2, 2, "none"))
        ]
        choices += [each._replace(ratio=3.0) for each in choices if each.l > 1]
        table = PartTable(job.model)
        found = coarse_bound(job, table, PlacedRows.of(choices))
        for row, choice in enumerate(choices):
            parts, earlier, memory = coarse(job, table, choice)
            assert found.bound[row] == pytest.approx(ROUNDING * (max(parts) + earlier), rel=1e-12)
            assert found.memory[row] == pytest.approx(memory, rel=1e-12)
            assert 0.999 < ROUNDING < 1
            decided.append(int(np.argmax(parts)))
    assert set(decided) == {0, 1, 2}


def placed(job: Job, choice: PlacedChoice) -> tuple[HybridPlan, PlacedPlans]:
    """The plan of a choice."""
    plans = PlacedPlans(job, {3.0: coded(3.0, "nic", 3.2e9)})
    return plans.plan(choice), plans


def of_all_pairs(sent: Floats) -> _Pairs:
    """What every device of a group sends to every other of it and of the next."""
    sender, receiver = np.indices(sent.shape).reshape(2, -1)
    return _Pairs.of(sender, receiver, sent.ravel())


def flows(job: Job, plan: HybridPlan, ratio: float) -> tuple[Floats, Floats]:
    """Bytes of a device to those of its group, and to its counterpart: of all, and of gradients of parameters."""
    balanced, device, k = plan.balanced, plan.placement.device, plan.k
    gradients = np.zeros((k, 2 * k))
    for x in range(1, balanced.size):
        if balanced.synchronised[x] and device[x] != device[x - 1]:
            gradients[device[x], device[x - 1]] += balanced.synchronised[x]
            gradients[device[x - 1], device[x]] += balanced.synchronised[x]
    total = gradients.copy()
    activations = plan.activation_traffic.toarray()
    smaller = 1.0 if ratio == 1 else ratio * job.settings.gradient_bytes / 4
    for d in range(k):
        total[d, :k] += activations[d, :k]
        total[d, k + d] = gradients[d, k + d] = plan.all_reduce_bytes[d] / smaller
    return total, gradients


def path(job: Job, plan: HybridPlan, transfer: Floats, sending: Floats) -> tuple[float, float]:
    """The longest way there and back; a device's work from its first input on, and what follows it."""
    balanced, device, k = plan.balanced, plan.placement.device.tolist(), plan.k
    edges = [
        [
            (int(balanced.parent[e]), float(transfer[e]) if device[balanced.parent[e]] != device[x] else 0.0)
            for e in rows
        ]
        for x in range(balanced.size)
        for rows in [range(balanced.parent_start[x], balanced.parent_start[x + 1])]
    ]
    there, back = [0.0] * balanced.size, [0.0] * balanced.size
    for x, parents in enumerate(edges):
        there[x] = balanced.forward[x] + max((there[y] + delay for y, delay in parents), default=0.0)
    arrived = list(there)
    for x in range(balanced.size - 1, -1, -1):
        back[x] = arrived[x] + balanced.backward[x]
        for y, delay in edges[x]:
            arrived[y] = max(arrived[y], back[x] + delay)
    owners = {int(balanced.operator[x]) for x in range(balanced.size) if balanced.parameters[x]}
    longest = []
    for d in range(k):
        own = [x for x in range(balanced.size) if device[x] == d]
        parameters = sum(int(balanced.parameters[x]) for x in own)
        update = job.accelerator.update_time(parameters / plan.groups * job.settings.optimizer_traffic_bytes)
        busy = sum(balanced.forward[x] + balanced.backward[x] for x in own)
        ends = [min((there[x] - balanced.forward[x] for x in own), default=0.0) + busy if busy else 0.0]
        ends += [back[x] for x in own]
        if plan.all_reduce_bytes[d] and parameters:
            ends.append(min(back[x] for x in own if balanced.parameters[x]) + float(sending[d]))
        longest.append(max(ends) + float(update))
    first = min((back[x] for x in range(balanced.size) if balanced.operator[x] in owners), default=0.0)
    return max(longest), first


CASES = [
    (0, CHOICE),
    (1, CHOICE._replace(ratio=3.0)),
    (2, CHOICE._replace(k=2, l=4, most_exchanging=1)),
    (3, CHOICE._replace(quantum=1e-9, most_exchanging=1)),
    (4, CHOICE._replace(k=8, l=1, quantum=1e-8, most_exchanging=8)),
    (6, CHOICE._replace(k=1, l=8)),
]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_placed_plans_are_bounded_by_devices_paths_gradients_and_bytes(case: int) -> None:
    fabric, choice = CASES[case]
    job = job_on(fabric)
    plan, plans = placed(job, choice)
    link, k, latency = fastest_link(job.fabric), plan.k, exchange_latency(job.fabric, plan.k)
    total, gradients = flows(job, plan, choice.ratio)
    for found, wanted in zip(_flows(job, plan, choice.ratio), (total, gradients), strict=True):
        dense = np.zeros_like(wanted)
        dense[found.sender, found.receiver] = found.value
        assert dense == pytest.approx(wanted, rel=1e-12)
    onward = [total[d, k + d] for d in range(k)]
    # As it is, and where transfers or the exchange between groups take longest.
    for slower in ((1.0, 1.0), (1e3, 1.0), (1.0, 1e3)):
        transfer = slower[0] * (plan.balanced.nbytes / link.rate + link.latency)
        sending = slower[1] * (np.array(onward) / link.rate + latency)
        wanted_path = path(job, plan, transfer, sending)
        assert tuple(_path(job, plan, transfer, sending)) == pytest.approx(wanted_path, rel=1e-12)
    transfer, sending = plan.balanced.nbytes / link.rate + link.latency, np.array(onward) / link.rate + latency
    step, first = path(job, plan, transfer, sending)
    least = max(step, _bytes(job, plan, of_all_pairs(total)), first + _bytes(job, plan, of_all_pairs(gradients)))
    assert placed_bound(job, plan, choice.ratio) == pytest.approx(ROUNDING * least, rel=1e-12)
    for circuits in several(plans.circuits(choice)):
        lit = circuits.bandwidth.max(axis=0)
        pipes = {
            (int(a), int(b)): (float(rate), float(seconds))
            for a, b, rate, seconds in zip(circuits.source, circuits.destination, lit, circuits.latency, strict=True)
            if rate
        }

        def seconds(a: int, b: int, nbytes: float, pipes: Any = pipes) -> float:
            rate, wait = pipes.get((a, b), (link.rate, link.latency))
            return float(nbytes / rate + wait)

        device = plan.placement.device.tolist()
        ends = [
            (device[plan.balanced.parent[e]], device[x], float(plan.balanced.nbytes[e]))
            for x in range(plan.balanced.size)
            for e in range(plan.balanced.parent_start[x], plan.balanced.parent_start[x + 1])
        ]
        crossing = np.array([min(seconds(a, b, nbytes), seconds(b, a, nbytes)) for a, b, nbytes in ends])
        away = np.array([onward[d] / pipes.get((d, k + d), (link.rate, 0))[0] + latency for d in range(k)])
        step, first = path(job, plan, crossing, away)
        least = max(step, port_seconds(circuits, total), first + port_seconds(circuits, gradients))
        found_bound = placed_bound(job, plan, choice.ratio, circuits)
        assert found_bound == pytest.approx(ROUNDING * least, rel=1e-12)


def several(circuits: GroupCircuits) -> list[GroupCircuits]:
    """Circuits that stand, and others of which some are slow, some far, some never set, or set in two holds."""
    found, pipes = [circuits], len(circuits.source)
    for seed in range(2):
        rng = np.random.default_rng(seed)
        bandwidth = circuits.bandwidth[:1] * 10 ** rng.uniform(-2, 0, pipes) * (rng.random(pipes) < 0.8)
        latency = 1e-5 * 10 ** rng.uniform(-2, 1, pipes)
        found.append(replace(circuits, bandwidth=bandwidth, latency=latency, timing=None))
    turned = np.concatenate([0.1 * bandwidth, bandwidth])
    return [*found, replace(found[-1], bandwidth=turned, timing=Timing(1e-4, 1e-5))]


def port_seconds(circuits: GroupCircuits, sent: Floats) -> float:
    """Seconds of the busiest port of those that standing pipes have, of the busiest pipe of those that change."""
    loads: dict[tuple[str, int], float] = {}
    for pipe, (a, b) in enumerate(zip(circuits.source.tolist(), circuits.destination.tolist(), strict=True)):
        rates = circuits.bandwidth[:, pipe]
        if not rates.any():
            continue
        spent = sent[a, b] / rates.max()
        if circuits.timing is not None:
            cycle = float(rates.sum()) * circuits.timing.hold
            cycles = max(int(np.ceil(sent[a, b] / cycle)) - 1, 0)
            spent = cycles * len(rates) * circuits.timing.period + (sent[a, b] - cycles * cycle) / rates.max()
        ends = [("out", int(circuits.port[pipe])), ("into", int(circuits.entry[pipe]))]
        for port in ends if circuits.timing is None else [("pipe", pipe)]:
            loads[port] = loads.get(port, 0.0) + float(spent)
    return max(loads.values(), default=0.0)


@pytest.mark.parametrize("fabric", [2, 4])
def test_every_earlier_micro_batch_adds_the_work_of_the_busiest_device(fabric: int) -> None:
    job = job_on(fabric)
    plans = PlacedPlans(job)
    plan = plans.plan(CHOICE)
    passes = plan.balanced.forward + plan.balanced.backward
    busiest = max(sum(passes[plan.placement.device == d]) for d in range(4))
    for count in (1, 2, 5):
        choice = CHOICE._replace(micro_batches=count, global_batch=16 * count)
        more = ROUNDING * (count - 1) * busiest
        for bound in (plans.structure_bound, plans.circuits_bound):
            assert bound(choice) == pytest.approx(bound(CHOICE) + more, rel=1e-12)
    regranted = PlacedPlans(job, regrants=True)
    assert regranted.circuits_bound(CHOICE) == plans.structure_bound(CHOICE)


def test_a_device_alone_holds_what_is_said_of_its_row_and_the_loss() -> None:
    """Parameters, their state shared among groups, and what the backward pass needs of every operator; of blocks that
    are recomputed what leaves them, and all of the largest."""
    job, alone = job_on(4), CHOICE._replace(k=1, l=8)
    plans, graph = PlacedPlans(job), local_graph(job.graph, job.settings.model_copy(update={"batch_per_rank": 2}))
    look = coarse_bound(job, PartTable(job.model), PlacedRows.of([alone]))
    assert plans.simulate(alone).memory == pytest.approx(look.memory + loss_bytes(graph), rel=1e-12)
    again = alone._replace(recomputation="full")
    blocks = {each.block: 0 for each in graph.operators if each.block}
    for each in graph.operators:
        if each.block:
            blocks[each.block] += each.kept_bytes
    held = plans.plan(again).balanced.memory.sum() + max(blocks.values())
    assert plans.simulate(again).memory == pytest.approx([held], rel=1e-12)
    more = job.settings.model_copy(update={"optimizer_state_bytes": job.settings.optimizer_state_bytes + 8})
    larger = with_model(job, settings=more)
    shared = 8 * job.graph.parameters / 8
    assert PlacedPlans(larger).simulate(alone).memory == pytest.approx(plans.simulate(alone).memory + shared)


@pytest.mark.parametrize("fabric", [0, 2, 4])
def test_placing_is_asked_for_the_links_and_the_memory_that_there_are(
    fabric: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A circuit has its share of what a rank receives; the last plan is placed with all effort."""
    job, asked = job_on(fabric), []

    def placing(balanced: Any, k: int, within: Any, memory: Any, link: Link, *, effort: int) -> Any:
        asked.append((k, within, memory, link, effort))
        return place(balanced, k, within, memory, link, effort=effort)

    monkeypatch.setattr(placed_plans, "place", placing)
    plans, best = PlacedPlans(job), fastest_link(job.fabric)
    plans.simulate(CHOICE)
    plans.simulate(CHOICE)
    assert (plans.partitions, plans.placements) == (1, 1)
    plans.simulate_replaced(CHOICE)
    assert (plans.partitions, plans.placements) == (1, 2)
    rate = best.rate / (1 if fabric == 4 else peers(job.fabric))
    link = Link(bandwidth=rate, latency=best.latency)
    given = 4, reach(job.fabric, 2), job.accelerator.memory, link
    assert asked == [(*given, 0), (*given, EFFORT)]


def test_a_plan_without_room_says_so_every_time_and_is_placed_once() -> None:
    job = job_on(4)
    small = replace(job, accelerator=job.accelerator.model_copy(update={"memory": 1e4}))
    plans = PlacedPlans(small)
    for _ in range(2):
        with pytest.raises(UnsupportedError, match=r"too large, .* on 4 devices"):
            plans.plan(CHOICE)
    assert (plans.partitions, plans.placements) == (1, 1)


def test_an_engine_in_line_sends_fewer_bytes_at_its_own_pace() -> None:
    """As many fewer as its ratio says, of gradients as float32, unless the fastest pipe to the next group waits for it;
    where there is none, nothing waits."""
    job = job_on(4)
    engines = {4.0: coded(4.0, "nic", 3e9), 5.0: coded(5.0, "nic", 3e9)}
    slow = engines[5.0].coder.model_copy(update={"decode": 1e9})
    plans = PlacedPlans(job, engines | {5.0: replace(engines[5.0], engine=slow)})
    values = job.settings.gradient_bytes / 4
    for rates, ratio, expected in (
        ([[9e9, 0.5e9], [9e9, 0.25e9]], 4.0, 4.0),
        ([[9e9, 0.5e9], [9e9, 1e9]], 4.0, 3.0),
        ([[9e9, 0.5e9], [9e9, 2e9]], 5.0, 0.5),
        ([[9e9, 0.0], [9e9, 0.0]], 5.0, 5.0),
        ([[9e9, 0.5e9], [9e9, 2e9]], 1.0, None),
    ):
        circuits: Any = SimpleNamespace(destination=np.array([3, 4]), bandwidth=np.array(rates))
        found = plans._ratio(circuits, 4, ratio)
        assert found == (1.0 if expected is None else pytest.approx(expected * values))
    none: Any = SimpleNamespace(destination=np.array([3, 2]), bandwidth=np.ones((1, 2)))
    assert plans._ratio(none, 4, 5.0) == 5.0 * values


def test_circuits_follow_the_step_where_that_is_asked_and_no_codec_is_paced_for_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job, asked = job_on(2), []

    def faster(step: Any, plan: Any, fabric: Any, simulated: Any) -> Any:
        asked.append((step.step_time, plan, fabric))
        return "faster"

    monkeypatch.setattr(placed_plans, "faster_regranted", faster)
    in_line = {3.0: coded(3.0, "nic", 3.2e9)}
    for ratio in (1.0, 3.0):
        choice = CHOICE._replace(ratio=ratio)
        still = PlacedPlans(job, in_line).simulate(choice)
        assert still.step_time > 0 and not asked
        plans = PlacedPlans(job, in_line, regrants=True)
        found: Any = plans.simulate(choice)
        if ratio == 1:
            assert found == "faster" and asked == [(still.step_time, plans.plan(choice), job.fabric)]
            asked.clear()
        else:
            assert found.step_time == still.step_time and not asked


@pytest.mark.parametrize("fabric", [1, 2, 5])
def test_groups_exchange_no_faster_than_over_the_nearest_counterparts(fabric: int) -> None:
    on = cluster_on(fabric, 8).fabric
    for k in (1, 2, 4, 8):
        ways = [
            float(on.latency(np.array([rank]), np.array([(rank + k) % 8]), np.array([way]))[0])
            for rank in range(8)
            for way in range(on.routes)
        ]
        hops = 2 * (8 // k - 1)
        assert exchange_latency(on, k) == pytest.approx(hops * min(ways) if hops else 0)
