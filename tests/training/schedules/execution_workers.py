"""What the processes of the execution tests do; each function runs in every rank of a gloo group."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
import torch.distributed as dist
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from lightloom.collectives.collective import (
    FROM_ALL_GATHER,
    KINDS,
    SIZED,
    Collective,
)
from lightloom.collectives.registry import admitted, build, find
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.synthesis.engine import cache as search_cache
from lightloom.collectives.synthesis.synthesized import synthesized
from lightloom.collectives.verify.verifier import verify
from lightloom.core.errors import ConfigError, InputError
from lightloom.exchange.execution import ScheduleExecutor
from lightloom.exchange.execution_trial import (
    draw_input,
    error_over_bound,
    input_values,
    torch_result,
)
from lightloom.exchange.hooks import ScheduleState, attach_schedule
from lightloom.exchange.transport.channel import TransportError
from lightloom.exchange.transport.worker import Worker
from lightloom.machines.fabrics.load import load_fabric
from lightloom.machines.fabrics.wdm_ring import WdmRing
from tests.collectives.strategies import collective_of
from tests.training.hooks.workers import backward, loss_of, wrapped
from tests.training.schedules.random_schedules import fabric_of, random_schedules

RING: dict[str, Any] = {"wavelengths": 8, "wavelength_bandwidth": 5e9, "conversion_time": 1e-6}


VICTIM = 1
CASES = 12
"""Random schedules executed."""


def prepare(ranks: int) -> None:
    """Make all schedules; before ranks are forked, so that they share them."""
    search_cache.SCALE = 1 / 300
    schedules(ranks)
    synthesized_all_reduce(ranks)
    random_cases(ranks)


@cache
def random_cases(ranks: int) -> list[tuple[Schedule, int]]:
    """Random schedules of two to so many ranks, verified, and a number of values for each."""
    cases: list[tuple[Schedule, int]] = []

    @settings(
        max_examples=CASES, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(random_schedules(ranks), st.integers(0, 40))
    def drawn(schedule: Schedule, length: int) -> None:
        verify(schedule, fabric_of(schedule.collective.ranks))
        cases.append((schedule, length))

    drawn()
    return cases


@cache
def schedules(ranks: int) -> dict[str, Schedule]:
    """Every registered algorithm that a ring of wavelengths admits, that of a waveguide past all ranks, and synthesized
    ones."""
    fabric, found = WdmRing(ranks=ranks, **RING), {}
    waveguide = WdmRing(ranks=ranks, **RING | {"wavelengths": ranks, "multicast_taps": ranks})
    for kind in ("all-gather", "broadcast"):
        found[f"{kind} serpentine"] = build(find("serpentine"), collective_of(kind, ranks, 1e6), waveguide)
    for kind in KINDS:
        collective = collective_of(kind, ranks, 1e4 if kind in SIZED else 1e6)
        for algorithm in admitted(kind, fabric):
            found[f"{kind} {algorithm.name}"] = build(algorithm, collective, fabric)
        if kind in FROM_ALL_GATHER:
            for wavelengths, nbytes in ((2, 1e6), (8, 1e4), (8, 1e6)):
                on = WdmRing(ranks=ranks, **RING | {"wavelengths": wavelengths})
                schedule = synthesized(Collective(collective.kind, ranks, nbytes), on)
                verify(schedule, on)
                found[f"{kind} synthesized for {wavelengths} wavelengths, {nbytes:g} bytes"] = schedule
    return found


@cache
def synthesized_all_reduce(ranks: int) -> Schedule:
    """An all-reduce synthesized for a ring of wavelengths."""
    return synthesized(Collective("all-reduce", ranks, 1e6), WdmRing(ranks=ranks, **RING))


def all_types_and_lengths(worker: Worker) -> dict[str, Any]:
    """By schedule, for each type and length, what was wrong (empty: nothing)."""
    torch.set_num_threads(1)
    wrong: dict[str, list[str]] = {}
    found = schedules(worker.size)
    for name, schedule in found.items():
        execute = ScheduleExecutor(schedule)
        complaints = []
        for dtype in (torch.int64, torch.float32, torch.bfloat16):
            for length in (0, 1, 13, 1000):
                tensor = draw_input(worker.rank, input_values(execute, length, dtype.itemsize), dtype, length)
                before = tensor.clone()
                ours = execute(tensor)
                worst = error_over_bound(execute, ours, tensor)
                if worst > 1 or not torch.equal(before, tensor):
                    complaints.append(f"{dtype}, {length}: {worst} times the allowed error")
        if complaints:
            wrong[name] = complaints
    return {"schedules": len(found), "wrong": wrong}


def everything(worker: Worker) -> dict[str, Any]:
    """All that a healthy group shows."""
    prepare(worker.size)
    runs = (anything, disagreements, refusals, repeated, averaged, every_algorithm, kept_waiting)
    return {run.__name__: run(worker) for run in runs}


def expected(kind: str, rank: int, ranks: int, values: int, dtype: torch.dtype, seed: int) -> Tensor:
    """What the collective promises, from everyone's input."""
    everyone = torch.stack([draw_input(other, values, dtype, seed) for other in range(ranks)])
    if kind == "all-gather":
        return everyone.reshape(-1)
    if kind == "all-to-all":
        return everyone.view(ranks, ranks, -1)[:, rank].reshape(-1)
    total = everyone.sum(0, dtype=dtype)
    return total if kind == "all-reduce" else total.view(ranks, -1)[rank]


def anything(worker: Worker) -> int:
    """Random schedules of two to four ranks, to the bit; all processes judge together."""
    groups = {size: dist.new_group(list(range(worker.size - size, worker.size))) for size in range(2, worker.size + 1)}
    cases = random_cases(worker.size)
    for schedule, length in cases:
        ranks, kind = schedule.collective.ranks, schedule.collective.kind
        right, group = True, groups[ranks]
        if worker.rank >= worker.size - ranks:
            rank, values = dist.get_rank(group), length * (ranks if kind in ("reduce-scatter", "all-to-all") else 1)
            ours = ScheduleExecutor(schedule, group)(draw_input(rank, values, torch.int64, length))
            right = torch.equal(ours, expected(kind, rank, ranks, values, torch.int64, length))
        verdict = torch.tensor(int(right))
        dist.all_reduce(verdict, dist.ReduceOp.MIN)
        assert verdict, schedule
    return len(cases)


def disagreements(worker: Worker) -> list[str]:
    """What each rank is told where the last one brings something else; afterwards the group works as before."""
    odd = worker.rank == worker.size - 1
    fabric, collective = WdmRing(ranks=worker.size, **RING), Collective("all-reduce", worker.size, 1e6)
    names = ("one-stage" if odd else "ring", "ring")
    other, same = (ScheduleExecutor(build(find(name), collective, fabric)) for name in names)
    told = []
    for execute, tensor in (
        (other, torch.zeros(10)),
        (same, torch.zeros(11 if odd else 10)),
        (same, torch.zeros(10, dtype=torch.int32 if odd else torch.float32)),
    ):
        try:
            execute(tensor)
        except ConfigError as error:
            told.append(str(error))
    assert torch.equal(same(torch.ones(10)), torch.full((10,), float(worker.size)))
    return told


def refusals(worker: Worker) -> list[str]:
    """What is refused before anything is sent, by rank 0 alone."""
    if worker.rank:
        return []
    ring = WdmRing(ranks=worker.size, **RING)
    scatter = build(find("ring"), Collective("reduce-scatter", worker.size, 1e3), ring)
    fewer = build(find("ring"), Collective("all-reduce", 3, 1e3), WdmRing(ranks=3, **RING))
    averager = load_fabric("optical-averager", worker.size, set={})
    in_network = build(find("in-network"), Collective("all-reduce", worker.size, 1e3), averager)
    wrht = build(find("wrht"), Collective("all-reduce", worker.size, 1e3), ring)
    attempts: list[Callable[[], Any]] = [
        lambda: ScheduleExecutor(fewer),
        lambda: ScheduleExecutor(in_network),
        lambda: ScheduleExecutor(scatter)(torch.zeros(worker.size + 1)),
        lambda: ScheduleExecutor(scatter)(torch.zeros(worker.size, dtype=torch.complex64)),
        lambda: ScheduleState(ScheduleExecutor(scatter)),
        lambda: ScheduleState(ScheduleExecutor(wrht)),
    ]
    said = []
    for attempt in attempts:
        try:
            attempt()
        except InputError as error:
            said.append(str(error))
    return said


def repeated(worker: Worker) -> bool:
    """Whether floats come out the same each time, and on all ranks."""
    schedule = synthesized_all_reduce(worker.size)
    execute = ScheduleExecutor(schedule)
    tensor = draw_input(worker.rank, 999, torch.float32, 1)
    found = [execute(tensor) for _ in range(3)]
    first = found[0].clone()
    dist.broadcast(first, 0)
    return all(torch.equal(first, each) for each in found)


def averaged(worker: Worker) -> dict[str, Any]:
    """Gradients averaged by a schedule against DDP's own: whole numbers to the bit, others as a share of the bound."""
    whole = [_gradients(worker, True, ours) for ours in (False, True)]
    plain, close = (_gradients(worker, False, ours) for ours in (False, True))
    own = wrapped().module
    backward(loss_of(own, worker.rank, 0))
    magnitude = _flat(own).double().abs()
    dist.all_reduce(magnitude)
    # Twice, as both sums round; gradients have been divided by the ranks before.
    allowed = 2 * (worker.size - 1) * 2.0**-24 * (magnitude / worker.size)
    off = (plain.double() - close.double()).abs()
    return {
        "equal": torch.equal(*whole) and bool(whole[0].abs().max() > 0),
        "off": float((off / allowed)[off > 0].max()) if bool(off.any()) else 0.0,
    }


def _gradients(worker: Worker, whole: bool, ours: bool) -> Tensor:
    model = wrapped()
    schedule = synthesized_all_reduce(worker.size)
    state = attach_schedule(model, schedule) if ours else None
    loss = loss_of(model, worker.rank, 0)
    if whole:
        # No order of additions rounds whole numbers.
        draws = torch.Generator().manual_seed(worker.rank)
        loss = 0.0 * loss
        for p in model.parameters():
            loss = loss + (p * 4 * torch.randint(-9, 9, p.shape, generator=draws)).sum()
    backward(loss)
    if state is not None:
        state.close()
    return _flat(model)


def _flat(model: nn.Module) -> Tensor:
    return torch.cat([p.grad.ravel() for p in model.parameters() if p.grad is not None])


def every_algorithm(worker: Worker) -> dict[str, Any]:
    """The cases of ``all_types_and_lengths``, whole numbers only."""
    wrong = []
    found = schedules(worker.size)
    for name, schedule in found.items():
        execute = ScheduleExecutor(schedule)
        tensor = draw_input(worker.rank, input_values(execute, 13, 8), torch.int64, 13)
        if not torch.equal(execute(tensor), torch_result(execute, tensor, tensor.dtype.itemsize)):
            wrong.append(name)
    return {"schedules": len(found), "wrong": wrong}


def kept_waiting(worker: Worker) -> str:
    """One rank of a group of two does not come; what the other one says. The rest of the ranks has nothing to say."""
    group = dist.new_group([0, VICTIM])
    message = "nothing"
    dist.barrier()
    if worker.rank == 0:
        execute = ScheduleExecutor(
            build(find("ring"), Collective("all-gather", 2, 1e6), WdmRing(ranks=2, **RING)), group, timeout=0.5
        )
        try:
            execute(torch.ones(10))
        except TransportError as error:
            message = str(error)
    dist.barrier()
    return message


def left_alone(worker: Worker, group: dist.ProcessGroup) -> str:
    """A rank of a group is killed between two executions; return the errors of the others."""
    execute = ScheduleExecutor(synthesized_all_reduce(group.size()), group, timeout=20)
    tensor = torch.ones(100_000)
    execute(tensor)
    if worker.rank == VICTIM:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        while True:
            execute(tensor)
    except TransportError as error:
        return str(error)
