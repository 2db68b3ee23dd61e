"""Schedules that ranks execute as threads over queues, and programs, rounds and lengths of small ones by hand."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from queue import Queue
from threading import Barrier
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from lightloom.collectives.collective import Collective, Sizes
from lightloom.collectives.registry import build, find
from lightloom.collectives.schedule.columns import Schedule
from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.exchange import execution, execution_trial
from lightloom.exchange.execution import (
    Message,
    Movement,
    Program,
    ScheduleExecutor,
    movement_of,
    program_of,
    replicas_agree,
    uneven_memory,
    values_of_parts,
)
from lightloom.exchange.execution_trial import ScheduleTrial, draw_input, error_over_bound, input_values, values_of
from lightloom.exchange.transport.channel import TransportError
from lightloom.machines.fabrics.optical_averager import OpticalAverager
from lightloom.machines.fabrics.wdm_ring import Ring, WdmRing


class Wires:
    """Point-to-point messages between threads, in the place of ``torch.distributed``."""

    def __init__(self) -> None:
        self.queues: dict[tuple[int, int, int], Queue[Tensor]] = defaultdict(Queue)
        self.sent: list[tuple[int, int, int]] = []

    def get_backend_config(self, group: Any) -> str:
        return str(group.backend)

    def get_global_rank(self, group: Any, rank: int) -> int:
        return 10 + rank

    def isend(self, buffer: Tensor, peer: int, group: Any, tag: int) -> Any:
        assert buffer.is_contiguous()
        if tag == 0:
            self.sent.append((group.rank(), peer - 10, buffer.numel()))
        self.queues[group.rank(), peer - 10, tag].put(buffer)
        return SimpleNamespace(wait=lambda timeout: None)

    def irecv(self, buffer: Tensor, peer: int, group: Any, tag: int) -> Any:
        wire = self.queues[peer - 10, group.rank(), tag]

        def wait(timeout: Any) -> None:
            try:
                come = wire.get(timeout=timeout.total_seconds())
            except Exception as error:
                raise RuntimeError("Timed out waiting") from error
            assert come.shape == buffer.shape
            buffer.copy_(come)

        return SimpleNamespace(wait=wait)


Work = Callable[[ScheduleExecutor], Any]


def executed(monkeypatch: pytest.MonkeyPatch, schedule: Schedule, work: Work, timeout: float = 20.0) -> list[Any]:
    """Return what ``work`` returns on each rank, given its executor."""
    ranks, wires = schedule.collective.ranks, Wires()
    monkeypatch.setattr(execution, "dist", wires)

    def run(rank: int) -> Any:
        group: Any = SimpleNamespace(rank=lambda: rank, size=lambda: ranks, backend="cpu:gloo")
        return work(ScheduleExecutor(schedule, group, timeout=timeout))

    with ThreadPoolExecutor(ranks) as threads:
        return [future.result() for future in [threads.submit(run, rank) for rank in range(ranks)]]


def made(kind: str, ranks: int, algorithm: str = "ring", **more: Any) -> Schedule:
    return build(find(algorithm), Collective(kind, ranks, 1e3, **more), WdmRing(ranks=ranks))  # type: ignore[arg-type]


@pytest.mark.parametrize("algorithm", ["ring", "halving-doubling", "one-stage", "binomial-tree"])
@pytest.mark.parametrize("values", [0, 1, 10, 16])
def test_sums_of_any_number_of_values(monkeypatch: pytest.MonkeyPatch, algorithm: str, values: int) -> None:
    """Twice by the same executors, whose inputs stay as they are; values that do not divide are padded."""
    inputs = [torch.arange(values) * 10**rank for rank in range(4)]

    def work(execute: ScheduleExecutor) -> tuple[Tensor, Tensor]:
        return execute(inputs[execute.rank]), execute(-inputs[execute.rank])

    schedule = made("all-reduce", 4, algorithm)
    for one, other in executed(monkeypatch, schedule, work):
        assert torch.equal(one, torch.arange(values) * 1111) and torch.equal(other, torch.arange(values) * -1111)
    assert [each.tolist() for each in inputs] == [[k * 10**rank for k in range(values)] for rank in range(4)]


KINDS: dict[str, tuple[int, Callable[[list[np.ndarray]], list[np.ndarray]]]] = {
    "all-gather": (1, lambda all_: [np.concatenate(all_)] * 4),
    "reduce-scatter": (4, lambda all_: np.split(sum(all_), 4)),
    "all-to-all": (4, lambda all_: [np.concatenate([np.split(each, 4)[rank] for each in all_]) for rank in range(4)]),
    "broadcast": (1, lambda all_: [all_[0]] * 4),
    "reduce": (1, lambda all_: [sum(all_), *[np.zeros(0)] * 3]),  # type: ignore[list-item]
    "gather": (1, lambda all_: [np.concatenate(all_), *[np.zeros(0)] * 3]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_do_what_they_promise(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Blocks of three values, which chunks do not divide evenly in all of them."""
    blocks, promised = KINDS[kind]
    algorithm = "ring" if kind in ("all-gather", "reduce-scatter") else "binomial-tree"
    algorithm = "one-stage" if kind == "all-to-all" else algorithm
    inputs = [np.arange(3.0 * blocks) + 100 * rank for rank in range(4)]
    found = executed(
        monkeypatch, made(kind, 4, algorithm), lambda execute: execute(torch.from_numpy(inputs[execute.rank]))
    )
    for ours, right in zip(found, promised(inputs), strict=True):
        assert ours.tolist() == np.asarray(right).tolist()


def test_a_scatter_brings_all_shares_at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = made("scatter", 4, "binomial-tree")

    def work(execute: ScheduleExecutor) -> tuple[list[float], Any]:
        tensor = torch.arange(12.0) if execute.rank == 0 else torch.empty(3)
        return execute(tensor).tolist(), execute.shape(tensor.numel())

    found = executed(monkeypatch, schedule, work)
    assert [values for values, _ in found] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]
    pieces = movement_of(schedule).pieces
    assert [shape for _, shape in found] == [(4, 3, -(-3 // pieces)), *[(1, 3, -(-3 // pieces))] * 3]


def test_blocks_and_chunks_of_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    """An all-reduce around four ranks has four chunks of one block; a reduce-scatter four blocks of a chunk."""

    def work(execute: ScheduleExecutor) -> list[Any]:
        return [execute.shape(10), execute.padding(10, 4), execute.padding(12, 8)]

    assert executed(monkeypatch, made("all-reduce", 4), work)[2] == [(1, 10, 3), 2, 0]

    def scattered(execute: ScheduleExecutor) -> list[Any]:
        with pytest.raises(ConfigError, match="10 values to reduce-scatter: expected a multiple of 4, the ranks"):
            execute.shape(10)
        return [execute.shape(12), execute.padding(12, 4)]

    assert executed(monkeypatch, made("reduce-scatter", 4), scattered)[1] == [(4, 3, 3), 0]


def test_what_ranks_bring_is_compared_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(execute: ScheduleExecutor) -> list[str]:
        told = []
        for tensor in (
            torch.ones(4 + (execute.rank == 1)),
            torch.ones(4, dtype=torch.int32 if execute.rank == 2 else torch.float32),
        ):
            with pytest.raises(ConfigError) as caught:
                execute(tensor)
            told.append(str(caught.value))
        execute(torch.ones(4))
        execute._calls += execute.rank == 3
        with pytest.raises(ConfigError) as caught:
            execute(torch.ones(4))
        for wrong in (torch.ones(2, dtype=torch.complex64), torch.ones(2).to_sparse(), torch.ones(2, device="meta")):
            with pytest.raises(UnsupportedError, match="expected integers or floats, dense, on cpu"):
                execute(wrong)
        return [*told, str(caught.value)]

    found = executed(monkeypatch, made("all-reduce", 4), work)
    assert all(told == found[0] for told in found)
    digest = movement_of(made("all-reduce", 4)).digest.hex()[:12]
    assert found[0] == [
        f"rank 1 brings 5 values of float32 to schedule {digest}, call 0, rank 0 brings 4 values of float32 to "
        f"schedule {digest}, call 0: expected the same",
        f"rank 2 brings 4 values of int32 to schedule {digest}, call 0, rank 0 brings 4 values of float32 to "
        f"schedule {digest}, call 0: expected the same",
        f"rank 3 brings 4 values of float32 to schedule {digest}, call 2, rank 0 brings 4 values of float32 to "
        f"schedule {digest}, call 1: expected the same",
    ]


def test_groups_that_cannot_execute_a_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "dist", Wires())
    group: Any = SimpleNamespace(rank=lambda: 0, size=lambda: 4, backend="cpu:gloo")
    with pytest.raises(UnsupportedError, match="a schedule for 3 ranks in a group of 4: expected as many"):
        ScheduleExecutor(made("all-reduce", 3), group)
    group.backend = "cuda:nccl"
    with pytest.raises(UnsupportedError, match="a process group of cuda:nccl: expected gloo"):
        ScheduleExecutor(made("all-reduce", 4), group)
    switch = build(find("in-network"), Collective("all-reduce", 4, 1e3), OpticalAverager(ranks=4))
    with pytest.raises(UnsupportedError, match="adds up inside a switch"):
        movement_of(switch)


def test_a_rank_that_is_silent_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    together = Barrier(3)

    def work(execute: ScheduleExecutor) -> str:
        together.wait(20.0)
        if execute.rank == 1:
            return ""
        with pytest.raises(TransportError) as caught:
            execute(torch.ones(4))
        return str(caught.value)

    first, _, third = executed(monkeypatch, made("all-reduce", 3), work, timeout=0.25)
    assert first.startswith("rank 0: rank 1 was silent for 0.25 s") and third.startswith("rank 2: rank 1 was silent")


SIZES = np.array([[1.0, 2.0, 0.0], [3.4, 0.0, 5.0], [0.0, 7.0, 0.3]])


def uneven() -> Schedule:
    """Parts of these numbers of values of 8 bytes: 3.4 are 3, and 0.3 are none, but have bytes."""
    wanted = Collective("all-to-all-v", 3, 8 * float(SIZES.sum()) / 3, sizes=Sizes(SIZES))
    return build(find("ring-two-way-striped"), wanted, Ring(ranks=3))


def test_parts_of_different_sizes_reach_their_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = uneven()
    movement = movement_of(schedule)
    counts = np.rint(SIZES).astype(int)
    assert values_of_parts(movement, 8).tolist() == counts.ravel().tolist()
    assert values_of_parts(movement, 4).tolist() == np.rint(2 * SIZES).ravel().tolist()

    def work(execute: ScheduleExecutor) -> tuple[list[int], int, int]:
        rank = execute.rank
        own = torch.cat([torch.full((int(counts[rank, to]),), 10 * rank + to) for to in range(3)])
        with pytest.raises(ConfigError, match=f"{own.numel() + 1} values of rank {rank}: expected {own.numel()}"):
            execute(torch.zeros(own.numel() + 1, dtype=torch.int64))
        return execute(own).tolist(), execute.padding(99, 8), input_values(execute, 99, 8)

    found = executed(monkeypatch, schedule, work)
    for rank, (values, padding, brought) in enumerate(found):
        assert values == [10 * source + rank for source in range(3) for _ in range(counts[source, rank])]
        assert brought == counts[rank].sum()
        chunks = -(-counts[rank] // movement.pieces)
        chunks = np.maximum(chunks, SIZES[rank] > 0)
        assert padding == chunks.sum() * movement.pieces - brought
        memory = uneven_memory(movement, program_of(movement, rank), 8)
        assert memory.values >= brought + padding
        assert len(memory.kept) == counts[:, rank].sum()


def test_programs_in_values() -> None:
    """Cells of 2, 0, 3 and 1 values; a slice stays one, and so do cells whose values follow each other."""
    sends = (Message(1, slice(1, 3), False, 0, True), Message(2, np.array([0, 3]), True, 1, False))
    program = Program(0, np.arange(4), slice(0, 2), np.array([1, 2]), sends, (Message(1, slice(3, 4), True, 0, True),))
    made_ = program.in_values(np.array([2, 0, 3, 1]))
    assert made_.held == slice(0, 2) and made_.wanted == slice(2, 5)
    assert made_.sends[0].cells == slice(2, 5) and made_.sends[1].cells.tolist() == [0, 1, 5]  # type: ignore[union-attr]
    assert made_.receives[0].cells == slice(5, 6)
    assert (made_.sends[1].peer, made_.sends[1].after, made_.sends[1].adds) == (2, 1, True)
    assert made_.rank == 0 and made_.chunks.tolist() == [0, 1, 2, 3]


def movement(rows: list[tuple[int, int, int, bool, list[int]]], kind: str = "all-reduce", chunks: int = 2) -> Movement:
    """Messages (level, source, destination, reduces, chunks) among two or more ranks."""
    ranks = 1 + max(max(row[1:3]) for row in rows)
    level, source, destination, reduces, carried = zip(*rows, strict=True)
    ends = np.cumsum([0, *map(len, carried)])
    wanted = Collective(kind, ranks, 1e3)  # type: ignore[arg-type]
    at, of, to, adds = (np.array(column) for column in (level, source, destination, reduces))
    return Movement(wanted, chunks, at, of, to, adds, ends, np.concatenate(carried))


SWAP = [(0, 0, 1, True, [1]), (0, 1, 0, True, [0]), (1, 0, 1, False, [0]), (1, 1, 0, False, [1])]
"""Two ranks: each adds the half that it keeps, then sends the sum."""


def test_programs_of_two_ranks() -> None:
    """Rank 0 sends chunk 1 at once, which it receives later, and its sum of chunk 0 after one receive; sums are not
    received in place."""
    program = program_of(movement(SWAP), 0)
    assert program.chunks.tolist() == [0, 1] and program.held == program.wanted == slice(0, 2)
    assert [(m.peer, m.cells, m.adds, m.after, m.in_place) for m in program.sends] == [
        (1, slice(1, 2), True, 0, False),
        (1, slice(0, 1), False, 1, True),
    ]
    assert [(m.peer, m.cells, m.adds, m.after, m.in_place) for m in program.receives] == [
        (1, slice(0, 1), True, 0, False),
        (1, slice(1, 2), False, 1, False),
    ]
    # A chunk that is sent first and written later may not be sent in place: rank 1 of a sum that is overwritten.
    later = [(0, 1, 0, True, [0, 1]), (1, 0, 1, False, [0, 1])]
    assert [m.in_place for m in program_of(movement(later), 1).sends] == [False]
    assert [m.in_place for m in program_of(movement(later), 0).sends] == [True]
    # A rank that begins with nothing receives in place where nothing was: a broadcast of two chunks.
    cast = movement([(0, 0, 1, False, [0]), (1, 0, 1, False, [1])], "broadcast")
    program = program_of(cast, 1)
    assert program.held == slice(0, 0) and [m.in_place for m in program.receives] == [True, True]
    assert [m.after for m in program_of(cast, 0).sends] == [0, 0]
    # Chunks that do not follow each other are no slice, and are not in place.
    apart = movement([(0, 0, 1, False, [0, 2])], "broadcast", 3)
    assert program_of(apart, 1).receives[0].in_place is False
    assert program_of(apart, 0).sends[0].cells.tolist() == [0, 2]  # type: ignore[union-attr]


def test_replicas_agree_where_all_add_the_same_terms_in_the_same_pairs() -> None:
    assert replicas_agree(movement(SWAP))
    exchanged = [(0, 0, 1, True, [0, 1]), (0, 1, 0, True, [0, 1])]
    assert replicas_agree(movement(exchanged))  # a + b is b + a
    # Of three ranks two add (a + b) + c, the third (b + c) + a.
    one = [(0, 0, 1, True, [0, 1]), (0, 1, 2, True, [0, 1]), (1, 1, 0, False, [0, 1])]
    assert not replicas_agree(movement([*one, (2, 0, 2, True, [0, 1])]))
    whole = [(0, 0, 1, True, [0, 1]), (1, 2, 1, True, [0, 1]), (2, 1, 0, False, [0, 1]), (2, 1, 2, False, [0, 1])]
    assert replicas_agree(movement(whole))
    assert not replicas_agree(movement(whole[:-1]))
    assert replicas_agree(movement(whole[:-1], "reduce"))


def test_digests_tell_movements_apart() -> None:
    base = movement(SWAP)
    assert base.digest == movement(SWAP).digest and len(base.digest) == 32
    rows: list[list[tuple[int, int, int, bool, list[int]]]] = [
        [SWAP[0], SWAP[1], SWAP[2], (2, 1, 0, False, [1])],
        [SWAP[0], SWAP[1], SWAP[2], (1, 1, 0, True, [1])],
        [SWAP[0], SWAP[1], SWAP[2], (1, 1, 0, False, [0])],
        [SWAP[0], SWAP[1], SWAP[2], (1, 0, 1, False, [1])],
    ]
    others = [movement(each).digest for each in rows]
    others += [movement(SWAP, chunks=4).digest, movement(SWAP, "broadcast").digest]
    turned = [Collective("permute", 3, 1e3, destinations=order) for order in ((1, 2, 0), (2, 0, 1))]
    others += [replace(base, collective=wanted).digest for wanted in turned]
    sized = [
        Collective("reduce-scatter-v", 2, 1e3, sizes=Sizes(np.array(shares))) for shares in ([1.0, 2.0], [2.0, 1.0])
    ]
    others += [replace(base, collective=wanted).digest for wanted in sized]
    assert len({base.digest, *others}) == 1 + len(others)


def test_pieces_and_parts_of_chunks() -> None:
    gathered = movement([(0, 0, 1, False, [0, 1]), (0, 1, 0, False, [2, 3])], "all-gather", 4)
    assert gathered.pieces == 2 and gathered.part.tolist() == [0, 0, 1, 1]
    assert gathered.held(1).tolist() == [2, 3] and gathered.wanted(0).tolist() == [0, 1, 2, 3]
    assert movement(SWAP).pieces == 2 and movement(SWAP).part.tolist() == [0, 0]


def test_rounds_of_queued_rows() -> None:
    """Lightpath 0 sends rows 0 and 1, lightpath 1 row 2, which adds to what row 1 reads; row 3 stores what row 2's
    sum needs no more, after it."""
    schedule: Any = SimpleNamespace(
        chunks=1,
        collective=SimpleNamespace(ranks=4),
        step=np.array([0, 1, 0, 0]),
        lightpath=np.array([0, 0, 1, 2]),
        source=np.array([0, 1, 2, 1]),
        destination=np.array([3, 0, 1, 2]),
        chunk=np.zeros(4, int),
        reduces=np.array([True, False, True, False]),
    )
    assert execution._rounds(schedule).tolist() == [0, 1, 0, 1]
    # A row that stores waits for what stores the chunk that it reads; one that adds does not.
    chain: Any = SimpleNamespace(
        chunks=2,
        collective=SimpleNamespace(ranks=3),
        step=np.array([0, 1, 0]),
        lightpath=np.array([0, 0, 1]),
        source=np.array([0, 0, 1]),
        destination=np.array([1, 1, 2]),
        chunk=np.array([1, 0, 0]),
        reduces=np.array([False, False, False]),
    )
    assert execution._rounds(chain).tolist() == [0, 1, 2]
    chain.reduces = np.array([False, False, True])
    assert execution._rounds(chain).tolist() == [0, 1, 0]


def test_rows_of_a_lightpath_are_sent_in_the_order_of_their_steps() -> None:
    schedule: Any = SimpleNamespace(
        chunks=2,
        collective=SimpleNamespace(ranks=2),
        step=np.array([1, 0]),
        lightpath=np.array([0, 0]),
        source=np.array([0, 0]),
        destination=np.array([1, 1]),
        chunk=np.array([0, 1]),
        reduces=np.array([False, False]),
    )
    assert execution._rounds(schedule).tolist() == [1, 0]


def test_depths_are_longest_paths() -> None:
    schedule: Any = SimpleNamespace(steps=5, dependencies=np.array([[1, 0], [2, 1], [2, 0], [4, 2], [4, 3]]))
    assert execution._depths(schedule).tolist() == [0, 1, 2, 0, 3]
    schedule.dependencies = None
    assert execution._depths(schedule).tolist() == [0, 1, 2, 3, 4]


# Trials of schedules.


def test_inputs_of_trials() -> None:
    """Integers of all sizes; floats of sizes from 2^-8 to 2^8 times a normal one; by seed and rank."""
    one = draw_input(3, 4000, torch.int32, 2)
    assert one.dtype == torch.int32 and one.shape == (4000,) and torch.equal(one, draw_input(3, 4000, torch.int32, 2))
    assert int(one.min()) < -2e9 and int(one.max()) > 2e9
    others = [draw_input(rank, 4000, torch.int32, seed) for rank, seed in ((2, 2), (3, 3), (3, 1))]
    assert not any(torch.equal(one, other) for other in others)
    assert torch.equal(draw_input(1003, 5, torch.int64, 1), draw_input(3, 5, torch.int64, 2))
    floats = draw_input(0, 20_000, torch.float32, 0)
    sizes = floats.abs().log2()
    # The logarithm of a normal value's size has a mean of -0.916 and a standard deviation of 1.6.
    assert floats.dtype == torch.float32 and float(sizes.mean()) == pytest.approx(-0.916, abs=0.15)
    assert float(sizes.std()) == pytest.approx(np.sqrt(24 + 1.6**2), rel=0.03)
    assert float((sizes > 8).float().mean()) == pytest.approx(0.317 / 17 + 0.0455 / 17, rel=0.3)
    assert draw_input(0, 7, torch.bfloat16, 0).dtype == torch.bfloat16


def test_values_of_a_part() -> None:
    """1001 bytes hold 250 values of float32; each of four ranks has 62 of them where parts are shares."""
    counts = {"all-reduce": 250, "broadcast": 250, "reduce": 250, "all-gather": 62, "all-to-all": 62, "gather": 62}
    for kind, count in counts.items():
        wanted: Any = SimpleNamespace(collective=Collective(kind, 4, 1e3))  # type: ignore[arg-type]
        assert values_of(wanted, 1001.0, "float32") == count
        assert values_of(wanted, 1001.0, "int64") == {250: 125, 62: 31}[count]
    wanted = SimpleNamespace(collective=Collective("barrier", 4, 0.0))
    assert values_of(wanted, 1001.0, "float32") == 1
    with pytest.raises(ConfigError, match="dtype 'int7': expected one of int64"):
        values_of(wanted, 1001.0, "int7")


def test_inputs_have_the_values_of_the_parts_that_a_rank_brings(monkeypatch: pytest.MonkeyPatch) -> None:
    def counts(kind: str, algorithm: str) -> list[int]:
        return executed(monkeypatch, made(kind, 4, algorithm), lambda execute: input_values(execute, 5, 8))

    assert counts("all-reduce", "ring") == [5] * 4
    assert counts("all-gather", "ring") == [5] * 4
    assert counts("reduce-scatter", "ring") == [20] * 4
    assert counts("all-to-all", "one-stage") == [20] * 4
    assert counts("broadcast", "binomial-tree") == [5] * 4
    assert counts("scatter", "binomial-tree") == [20, 5, 5, 5]


@pytest.mark.parametrize(("dtype", "extra"), [(torch.float32, 1), (torch.bfloat16, 1), (torch.float64, 2)])
def test_errors_are_told_over_what_a_sum_may_be_off_by(
    monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, extra: int
) -> None:
    """Three ranks bring 2 and -1: sums of 3 and magnitudes of 9 are allowed u / (1 - u) of 9, u being eps."""

    def summed(execute: Any, tensor: Tensor, itemsize: int) -> Tensor:
        assert itemsize == dtype.itemsize
        return tensor.double() * 3

    monkeypatch.setattr(execution_trial, "torch_result", summed)
    execute: Any = SimpleNamespace(ranks=3, movement=movement(SWAP))
    tensor = torch.tensor([1.0, -3.0, 0.0], dtype=dtype)
    exact = tensor.double() * 3
    assert error_over_bound(execute, exact, tensor) == 0.0
    unit = torch.finfo(dtype).eps
    off = exact + torch.tensor([0.0, 16 * unit, 0.0], dtype=torch.float64)
    assert error_over_bound(execute, off, tensor) == pytest.approx(16 * (1 - unit) / 9 / extra)
    assert error_over_bound(execute, exact + torch.tensor([0.0, 0.0, 1.0]), tensor) == float("inf")
    assert error_over_bound(execute, exact[:0], tensor[:0]) == 0.0


def test_what_adds_nothing_or_integers_must_be_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution_trial, "torch_result", lambda execute, tensor, itemsize: tensor)
    gathered: Any = SimpleNamespace(
        ranks=2, movement=movement([(0, 0, 1, False, [0]), (0, 1, 0, False, [1])], "all-gather")
    )
    reduced: Any = SimpleNamespace(ranks=2, movement=movement(SWAP))
    for execute, one in ((gathered, torch.ones(3)), (reduced, torch.ones(3, dtype=torch.int64))):
        assert error_over_bound(execute, one, one) == 0.0
        assert error_over_bound(execute, one + 1, one) == float("inf")


def trial(error: float) -> ScheduleTrial:
    return ScheduleTrial(
        content="c", dtype="float32", values=1, padding=0, messages=1, same_bits=False, error_over_bound=error,
        seconds=1.0, reference_seconds=1.0,
    )  # fmt: skip


def test_a_trial_is_right_up_to_its_bound() -> None:
    assert trial(1.0).right and trial(0.0).right and not trial(1.0001).right


@pytest.mark.parametrize("rounds", [0, 2])
def test_a_trial_takes_the_slowest_rank_of_each_round(monkeypatch: pytest.MonkeyPatch, rounds: int) -> None:
    """Rounds of 1 and 4 s by rank 0, 3 and 2 s by rank 1: the slowest take 3 and 4, and their median is 3.5."""
    asked: list[tuple[int, float, dict[str, Any]]] = []

    def launch(function: object, ranks: int, timeout: float, settings: dict[str, Any]) -> list[Any]:
        assert function is execution_trial.trial
        asked.append((ranks, timeout, settings))
        ours, theirs = ([1.0, 4.0], [3.0, 2.0]), ([10.0, 20.0], [5.0, 40.0])
        values = [
            {
                "seconds": {"ours": ours[rank][:rounds], "theirs": theirs[rank][:rounds]},
                "values": 7 + rank,
                "padding": 3 * (1 - rank),
                "same_bits": rank == 0,
                "error_over_bound": 0.25 + 0.5 * rank,
            }
            for rank in range(2)
        ]
        return [SimpleNamespace(value=value) for value in values]

    monkeypatch.setattr(execution_trial, "launch", launch)
    fabric = WdmRing(ranks=2)
    schedule = build(find("ring"), Collective("all-reduce", 2, 1e3), fabric)
    found = execution_trial.try_schedule(schedule, fabric, "float64", 6, rounds=rounds, seed=9, timeout=11.0)
    ((ranks, timeout, settings),) = asked
    assert (ranks, timeout) == (2, 11.0)
    assert {key: settings[key] for key in ("values", "dtype", "rounds", "seed", "timeout")} == {
        "values": 6, "dtype": "float64", "rounds": rounds, "seed": 9, "timeout": 11.0,
    }  # fmt: skip
    assert (found.values, found.padding, found.same_bits, found.error_over_bound) == (8, 3, False, 0.75)
    assert found.messages == 4 and found.content == movement_of(schedule).digest.hex()[:16]
    assert (found.seconds, found.reference_seconds) == pytest.approx(
        (3.5, 25.0) if rounds else (np.nan, np.nan), nan_ok=True
    )
    if rounds:
        many = WdmRing(ranks=65)
        with pytest.raises(ConfigError, match="65 ranks: expected at most 64 processes"):
            execution_trial.try_schedule(build(find("ring"), Collective("all-reduce", 65, 1e3), many), many, "int64", 1)


@pytest.mark.parametrize("end", ["source", "destination"])
def test_a_switch_at_either_end_of_a_row_is_no_process(end: str) -> None:
    plain = made("all-reduce", 4).unfolded(8)
    ends = getattr(plain, end).copy()
    ends[0] = 4
    with pytest.raises(UnsupportedError, match="adds up inside a switch"):
        movement_of(plain.with_columns({end: ends}))


class Noted:
    """Collectives of ``torch.distributed`` that note who is the root, and leave recognisable values."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def get_global_rank(self, group: Any, rank: int) -> int:
        return 10 + rank

    def broadcast(self, tensor: Tensor, root: int, group: Any) -> None:
        self.calls.append(("broadcast", root))
        tensor += 100

    def reduce(self, tensor: Tensor, root: int, group: Any) -> None:
        self.calls.append(("reduce", root))
        tensor += 200

    def all_reduce(self, tensor: Tensor, group: Any) -> None:
        self.calls.append(("all-reduce",))
        tensor += 300

    def gather(self, tensor: Tensor, into: list[Tensor] | None, root: int, group: Any) -> None:
        self.calls.append(("gather", root, into is not None))
        for k, part in enumerate(into or ()):
            part.copy_(tensor + 1000 * k)

    def all_gather(self, into: list[Tensor], tensor: Tensor, group: Any) -> None:
        self.gather(tensor, into, 0, group)

    def scatter(self, share: Tensor, parts: list[Tensor] | None, root: int, group: Any) -> None:
        self.calls.append(("scatter", root, None if parts is None else [part.tolist() for part in parts]))
        share.fill_(7)

    def all_to_all_single(self, received: Tensor, sent: Tensor, arrives: Any, leaves: Any, group: Any) -> None:
        self.calls.append(("all-to-all", received.numel(), arrives, leaves))
        received.fill_(8)


def test_collectives_of_torch_are_called_as_the_schedule_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three ranks and six values; parts of a sum that is scattered unevenly have 1, 2 and 3."""
    noted = Noted()
    monkeypatch.setattr(execution_trial, "dist", noted)
    monkeypatch.setattr(execution_trial, "reduce_scatter", lambda share, tensor, group: share.fill_(tensor.numel()))
    counts = {"reduce-scatter-v": [1, 2, 3], "all-to-all-v": range(9)}
    monkeypatch.setattr(execution_trial, "values_of_parts", lambda movement, itemsize: np.array(counts[movement.kind]))

    def found(kind: str, rank: int, values: int = 6) -> list[float]:
        wanted = SimpleNamespace(destinations=None, sizes=counts.get(kind))
        moved = SimpleNamespace(kind=kind, collective=wanted)
        execute: Any = SimpleNamespace(kind=kind, ranks=3, rank=rank, movement=moved, group="g")
        tensor = torch.arange(float(values))
        made_ = execution_trial.torch_result(execute, tensor, 4)
        assert tensor.tolist() == list(range(values))
        return made_.tolist()

    assert found("broadcast", 1, 2) == [100, 101] and found("all-reduce", 2, 2) == [300, 301]
    assert found("reduce", 0, 2) == [200, 201] and found("reduce", 1, 2) == []
    assert [found("reduce-scatter-v", rank) for rank in range(3)] == [[300], [301, 302], [303, 304, 305]]
    assert found("gather", 0, 1) == found("barrier", 2, 1) == [0, 1000, 2000] and found("gather", 1, 1) == []
    assert found("all-gather", 1, 1) == [0, 1000, 2000]
    assert found("scatter", 0) == [7, 7] and found("scatter", 1, 2) == [7, 7]
    assert found("all-to-all", 1) == [8] * 6 and found("all-to-all-v", 1, 12) == [8] * (1 + 4 + 7)
    assert found("reduce-scatter", 1) == [6, 6]
    assert noted.calls == [
        ("broadcast", 10),
        ("all-reduce",),
        ("reduce", 10),
        ("reduce", 10),
        *[("all-reduce",)] * 3,
        ("gather", 10, True),
        ("gather", 0, True),
        ("gather", 10, False),
        ("gather", 0, True),
        ("scatter", 10, [[0, 1], [2, 3], [4, 5]]),
        ("scatter", 10, None),
        ("all-to-all", 6, None, None),
        ("all-to-all", 12, [1, 4, 7], [3, 4, 5]),
    ]
