"""Programs of ranks: they never block each other, and compute what the collective promises, at any relative speed."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lightloom.collectives.collective import KINDS, Collective, Sizes
from lightloom.collectives.registry import build, find
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.synthesis.synthesized import synthesized
from lightloom.collectives.verify.verifier import verify
from lightloom.core.errors import ConfigError, VerificationError
from lightloom.exchange.execution import (
    Movement,
    movement_of,
    program_of,
    replicas_agree,
    uneven_memory,
    values_of_parts,
)
from lightloom.machines.fabrics.wdm_ring import Ring, WdmRing
from tests.collectives.strategies import collective_of
from tests.training.schedules.random_schedules import fabric_of, random_schedules

RING = WdmRing(ranks=8, wavelengths=8, conversion_time=1e-6)


def played(movement: Movement, inputs: list[NDArray[np.generic]], seed: int) -> list[NDArray[np.generic]]:
    """What ranks end with, one value a chunk, where one random rank at a time takes a step.

    What is sent in place stays where it is until it is taken, and what is received in place is garbage until then.
    """
    random = np.random.default_rng(seed)
    programs = [program_of(movement, rank) for rank in range(movement.collective.ranks)]
    wires: dict[tuple[int, int], deque[NDArray[np.generic]]] = defaultdict(deque)
    work = [np.zeros(len(each.chunks), inputs[0].dtype) for each in programs]
    for rank, program in enumerate(programs):
        work[rank][program.held] = inputs[rank]
        for each in program.receives:
            if each.in_place:
                work[rank][each.cells] = 99
    sent, received = [0] * movement.collective.ranks, [0] * movement.collective.ranks
    running = set(range(movement.collective.ranks))
    while running:
        able = []
        for rank in sorted(running):
            program = programs[rank]
            due = sent[rank] < len(program.sends) and program.sends[sent[rank]].after <= received[rank]
            taken = received[rank] < len(program.receives)
            if due or (taken and wires[program.receives[received[rank]].peer, rank]):
                able.append(rank)
            elif not taken and sent[rank] == len(program.sends):
                running.remove(rank)
        assert able or not running, "every rank waits"
        for rank in random.permutation(able)[:1].tolist():
            program = programs[rank]
            if sent[rank] < len(program.sends) and program.sends[sent[rank]].after <= received[rank]:
                send = program.sends[sent[rank]]
                carried = work[rank][send.cells]
                wires[rank, send.peer].append(carried if send.in_place else carried.copy())
                sent[rank] += 1
            else:
                message = program.receives[received[rank]]
                come = wires[message.peer, rank].popleft()
                work[rank][message.cells] = work[rank][message.cells] + come if message.adds else come
                received[rank] += 1
    assert not any(wires.values()), "something was sent that nobody takes"
    return [work[rank][program.wanted] for rank, program in enumerate(programs)]


def test_sums_and_copies_between_two_ranks_are_a_message_each() -> None:
    schedule = build(find("ring"), Collective("all-reduce", 8, 8e3), RING).unfolded(RING.fibre_channels)
    rows = np.flatnonzero((schedule.step == 0) & (schedule.source == 0))[:1].repeat(4)
    mixed = schedule.with_rows(rows).with_columns(
        {"chunk": np.arange(4), "reduces": np.array([True, False, True, False])}
    )
    movement = movement_of(mixed)
    assert [np.sort(movement.chunk[a:b]).tolist() for a, b in pairwise(movement.first)] == [[1, 3], [0, 2]]


def promised(movement: Movement, inputs: list[NDArray[np.generic]]) -> list[NDArray[np.generic]]:
    """What ranks shall end with."""
    ranks, everyone = movement.collective.ranks, np.stack(inputs)
    if movement.collective.kind == "all-gather":
        return [everyone.ravel()] * ranks
    if movement.collective.kind == "all-to-all":
        return [everyone.reshape(ranks, ranks, -1)[:, rank].ravel() for rank in range(ranks)]
    total = everyone.sum(0)
    return [total] * ranks if movement.collective.kind == "all-reduce" else list(total.reshape(ranks, -1))


def inputs_of(movement: Movement, seed: int) -> list[NDArray[np.generic]]:
    random = np.random.default_rng(seed)
    return [random.integers(-(10**9), 10**9, len(movement.held(rank))) for rank in range(movement.collective.ranks)]


@given(random_schedules(), st.integers(0, 2**32 - 1))
def test_every_rank_gets_what_it_should_whoever_is_faster(schedule: Schedule, seed: int) -> None:
    verify(schedule, fabric_of(schedule.collective.ranks))
    movement = movement_of(schedule)
    inputs = inputs_of(movement, seed)
    for ours, right in zip(played(movement, inputs, seed), promised(movement, inputs), strict=True):
        np.testing.assert_array_equal(ours, right)


@pytest.mark.parametrize("kind", KINDS[:3])
@pytest.mark.parametrize(("ranks", "wavelengths"), [(7, 4), (12, 8)])
def test_synthesized_and_folded_schedules(kind: str, ranks: int, wavelengths: int) -> None:
    fabric = WdmRing(ranks=ranks, wavelengths=wavelengths, conversion_time=1e-6)
    schedule = synthesized(Collective(kind, ranks, 1e5), fabric)  # type: ignore[arg-type]
    verify(schedule, fabric)
    movement = movement_of(schedule)
    inputs = inputs_of(movement, ranks)
    assert schedule.queued and len(movement.chunk) == len(schedule.unfolded(fabric.fibre_channels))
    for ours, right in zip(played(movement, inputs, 1), promised(movement, inputs), strict=True):
        np.testing.assert_array_equal(ours, right)


@given(random_schedules())
def test_a_message_is_all_that_goes_between_two_ranks_in_a_level(schedule: Schedule) -> None:
    """Messages ascend by level, source, destination, and copies before sums; so do the chunks of each."""
    movement = movement_of(schedule)
    keys = list(
        zip(
            *(column.tolist() for column in (movement.level, movement.source, movement.destination, movement.reduces)),
            strict=True,
        )
    )
    assert keys == sorted(set(keys))
    for begin, end in pairwise(movement.first.tolist()):
        chunks = movement.chunk[begin:end].tolist()
        assert chunks and chunks == sorted(chunks)
    assert movement.first[0] == 0 and movement.first[-1] == len(movement.chunk)


@given(random_schedules(), st.integers(0, 2**32 - 1))
def test_what_moves_data_alike_has_one_digest(schedule: Schedule, seed: int) -> None:
    movement = movement_of(schedule)
    elsewhere = schedule.with_columns({"fibre": schedule.fibre + 1, "route": 1 - schedule.route})
    assert movement_of(elsewhere).digest == movement.digest
    row = seed % len(schedule)
    chunk = schedule.chunk.copy()
    chunk[row] = (chunk[row] + 1) % schedule.chunks
    if not schedule.queued:
        assert movement_of(schedule.with_columns({"chunk": chunk})).digest != movement.digest


def test_rows_of_a_step_between_two_ranks_are_one_message() -> None:
    movement = movement_of(build(find("recursive-doubling"), Collective("all-gather", 8, 1e3), RING))
    assert len(movement.source) == 8 * 3 and np.diff(movement.first).tolist() == [1] * 8 + [2] * 8 + [4] * 8


def floats(movement: Movement, seed: int) -> list[NDArray[np.generic]]:
    """What ranks end with of floats that round."""
    random = np.random.default_rng(seed)
    inputs = [
        random.standard_normal(len(movement.held(rank))).astype(np.float32) for rank in range(movement.collective.ranks)
    ]
    return played(movement, list(inputs), seed)


@pytest.mark.parametrize("name", ["ring", "recursive-doubling", "one-stage", "binomial-tree", "halving-doubling"])
def test_replicas_that_agree_have_the_same_bits(name: str) -> None:
    movement = movement_of(build(find(name), Collective("all-reduce", 8, 1e3), RING))
    assert replicas_agree(movement)
    first, *others = floats(movement, 0)
    assert all(np.array_equal(first, each) for each in others)


def test_replicas_that_add_in_different_orders_are_found() -> None:
    # Representatives exchange everything, and each begins with its own.
    movement = movement_of(build(find("wrht"), Collective("all-reduce", 8, 1e3), RING))
    assert not replicas_agree(movement)
    assert any(len(set(np.concatenate(floats(movement, seed)).tolist())) > 1 for seed in range(40))


def test_what_never_ends_is_refused_before_it_begins() -> None:
    schedule = build(find("ring"), Collective("all-gather", 4, 1e3), WdmRing(ranks=4))
    with pytest.raises(VerificationError, match="in a circle"):
        movement_of(replace(schedule, dependencies=np.array([[0, 1], [1, 0]])))
    fabric = fabric_of(4)
    queued = synthesized(Collective("all-gather", 4, 1e3), fabric).unfolded(fabric.fibre_channels)
    late = replace(queued, source=queued.destination, destination=queued.source)
    with pytest.raises(VerificationError, match="is never sent"):
        movement_of(late)


@pytest.mark.parametrize("kind", KINDS[4:])
@pytest.mark.parametrize("name", ["binomial-tree", "ring-two-way", "one-stage"])
def test_kinds_whose_ranks_bring_different_parts(kind: str, name: str) -> None:
    if find(name).refusal(kind, RING) is not None:
        return
    movement = movement_of(build(find(name), collective_of(kind, 8, 1e5), RING))
    inputs = inputs_of(movement, 3)
    at = [dict(zip(movement.held(rank).tolist(), inputs[rank].tolist(), strict=True)) for rank in range(8)]
    for rank, ours in enumerate(played(movement, inputs, 5)):
        right = [sum(held.get(chunk, 0) for held in at) for chunk in movement.wanted(rank).tolist()]
        assert ours.tolist() == right


def test_parts_of_any_size_are_cut_into_padded_chunks() -> None:
    """Sizes that give 0, 1, 2, ... values, in two chunks each; what has bytes but no whole value is sent as padding."""
    sizes = Sizes(np.arange(16.0).reshape(4, 4) + 0.4 * np.eye(4, k=1))
    schedule = build(find("ring-two-way-striped"), Collective("all-to-all-v", 4, 8 * 30.3, sizes=sizes), Ring(ranks=4))
    movement = movement_of(schedule)
    assert movement.pieces == 2
    values = values_of_parts(movement, 8)
    assert abs(values - np.arange(16.0)).max() <= 1
    for rank in range(4):
        memory = uneven_memory(movement, program_of(movement, rank), 8)
        assert len(memory.brought) == values[4 * rank : 4 * rank + 4].sum()
        assert len(memory.kept) == values[rank::4].sum()
        assert memory.padding == sum(-(-v // 2) * 2 - v for v in values[4 * rank : 4 * rank + 4])
        with pytest.raises(ConfigError, match=f"of rank {rank}: expected {len(memory.brought)}, by the sizes"):
            memory.check(len(memory.brought) + 1)
