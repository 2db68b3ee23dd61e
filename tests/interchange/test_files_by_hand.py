"""Files of schedules, programs and traces at their limits: the smallest ones, what is missing, and what is counted."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lightloom.collectives.collective import Collective, Kind
from lightloom.collectives.files.chakra import read_traces, trace_path, write_traces
from lightloom.collectives.files.msccl.check import _check_result, check
from lightloom.collectives.files.msccl.program import OWN, Gpu, Program, Step, ThreadBlock, Value
from lightloom.collectives.files.msccl.rules import _check_step
from lightloom.collectives.files.msccl.write import ProgramWriter, program_of
from lightloom.collectives.files.row_order import row_order
from lightloom.collectives.registry import build, find
from lightloom.collectives.synthesis.engine.queues import ring_schedule
from lightloom.collectives.synthesis.engine.trees import Design, RingTask, Timing, make_trees
from lightloom.collectives.verify.verifier import verify
from lightloom.core.errors import ConfigError
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.models.traces.calls import Call, TraceTensor, leaves
from lightloom.models.traces.kineto import _precision, result_shape
from lightloom.models.traces.operators import TracedExchange, exchange_lines
from tests.interchange.schedules import ring, same


def test_two_ranks_are_enough_for_traces(tmp_path: Path) -> None:
    fabric = ring(2)
    schedule = build(find("ring"), Collective("all-gather", 2, 1e4), fabric)
    paths = write_traces(tmp_path / "two", schedule, fabric)
    assert paths == [trace_path(tmp_path / "two", rank) for rank in (0, 1)]
    again, own = read_traces(tmp_path / "two")
    assert same(again, schedule.unfolded(fabric.fibre_channels)) and own == fabric


def test_a_buffer_that_there_is_not_holds_nothing() -> None:
    gpu, block = Gpu(chunks={"i": 2, "o": 2, "s": 0}), ThreadBlock(send=1)
    _check_step(gpu, block, 0, Step(type="s", source=("i", 1)), "step 0", "x.xml")
    for buffer, first, held in (("x", 0, 0), ("s", 0, 0), ("i", 2, 2), ("i", -1, 2)):
        what = f"x.xml: step 0: chunks {first} and 0 more of buffer {buffer!r}: there are {held}"
        with pytest.raises(ConfigError, match=what):
            _check_step(gpu, block, 0, Step(type="s", source=(buffer, first)), "step 0", "x.xml")


@pytest.mark.parametrize(
    ("wrong", "more"), [(1, ""), (2, "; 1 more chunks are wrong"), (3, "; 2 more chunks are wrong")]
)
def test_the_first_wrong_chunk_of_a_result_is_named_and_the_others_are_counted(wrong: int, more: str) -> None:
    """Four chunks summed over two GPUs, the last of which lack the second one."""
    memory = {(0, "o", k): Value(k, 3 if k < 4 - wrong else 1, OWN) for k in range(4)}
    condition = SimpleNamespace(
        root=lambda _: 0,
        expected=lambda _: [(0, k, k, 3) for k in range(4)],
        place=lambda rank, buffer, k: (rank, buffer, k),
        ranks=2,
        in_place=False,
        collective="allreduce",
    )
    run: Any = SimpleNamespace(condition=condition, memory=memory, written_on={(0, "o", 4 - wrong): 17}, root=None)
    with pytest.raises(ConfigError) as caught:
        _check_result(run, "x.xml")
    has = f"chunk {4 - wrong} of the output is chunk {4 - wrong} of GPU 0"
    needs = f"allreduce out of place needs chunk {4 - wrong} summed over all 2 GPUs"
    assert str(caught.value) == f"x.xml, line 17: GPU 0: {has}: {needs}{more}"
    run.written_on = {}
    with pytest.raises(ConfigError, match=r"^x\.xml: GPU 0: chunk"):
        _check_result(run, "x.xml")
    run.memory = {(0, "o", k): Value(k, 3, OWN) for k in range(4)}
    _check_result(run, "x.xml")
    assert run.root == 0


def call(name: str, *calls: Call, schema: str = "", shapes: tuple[tuple[int, ...], ...] = ()) -> Call:
    return Call(
        1, name, schema, -1, [TraceTensor(-1, 0, shape, 4, True, "") for shape in shapes], [], [], calls=[*calls]
    )


def test_calls_of_threads_with_marks_are_left_out_only_where_that_is_asked() -> None:
    operator = call("aten::relu", schema="s")
    thread = call("thread 1", call("ProfilerStep#3", operator), call("outside"))
    assert [each.name for each in leaves([thread])] == ["aten::relu", "outside"]
    assert list(leaves([thread], without_marks=True)) == []


def test_what_reads_nothing_has_no_shape_and_no_precision() -> None:
    assert result_shape(call("aten::odd")) == ()
    inner = call("aten::one", shapes=((2, 3),)), call("aten::two", shapes=((4,), (5, 6))), call("aten::three")
    assert result_shape(call("aten::odd", *inner, shapes=((9, 9),))) == (5, 6)
    assert _precision(iter([])) == _precision(iter([call("aten::odd")])) == ""


def test_exchanges_without_a_time_or_bytes_say_so() -> None:
    plain = TracedExchange("all-reduce", 2048)
    assert (plain.group, plain.seconds, plain.ranks) == ("", 0.0, None)
    assert exchange_lines([plain, plain]) == ["2 x all-reduce: 4 KiB put in"]
    assert exchange_lines([plain, TracedExchange("all-reduce", None)]) == ["2 x all-reduce: bytes not recorded"]
    timed = TracedExchange("send", 1024, "dp", 2e-3, 8)
    assert exchange_lines([timed]) == ["1 x send in group 'dp' of 8 ranks: 1 KiB put in, 2 ms"]


def test_a_step_waits_for_the_last_step_of_another_threadblock_once() -> None:
    """And not for its own threadblock; each wait but the last is that of a nop before it."""
    writer: Any = ProgramWriter.__new__(ProgramWriter)
    mine, other, third = (0, "send", 1, 0), (0, "receive", 1, 0), (0, "receive", 2, 0)
    writer.steps = defaultdict(list, {other: [Step(type="r") for _ in range(5)], third: [Step(type="r")]})
    writer.waits, writer._waited = {}, {}
    assert writer._add(mine, "s", ("i", 0), [(other, 1), (other, 2), (other, 0), (mine, 7)]) == (mine, 0)
    assert writer.waits == {(mine, 0): (other, 2)}
    assert writer._add(mine, "s", ("i", 1), [(other, 2)]) == (mine, 1) and len(writer.waits) == 1
    assert writer._add(mine, "s", ("i", 2), [(other, 3), (third, 0), (other, 1)]) == (mine, 3)
    assert writer.waits == {(mine, 0): (other, 2), (mine, 2): (other, 3), (mine, 3): (third, 0)}
    assert [step.type for step in writer.steps[mine]] == ["s", "s", "nop", "s"]
    assert [(step.source, step.destination) for step in writer.steps[mine][:2]] == [(("i", 0),) * 2, (("i", 1),) * 2]
    assert [step.awaited for step in writer.steps[other]] == [False, False, True, True, False]
    assert writer.steps[third][0].awaited and not any(step.awaited for step in writer.steps[mine])


@pytest.mark.parametrize("kind", ["all-gather", "reduce-scatter", "all-reduce"])
@pytest.mark.parametrize("queued", [False, True])
def test_rows_may_be_listed_in_any_order(kind: Kind, queued: bool) -> None:
    """Those of steps, and those of queues of lightpaths: they wait for the same rows, and run in the same order."""
    fabric: Fabric = ring(5)
    if queued:
        task = RingTask(5, 8, 1e4, Timing(bandwidth=5e9, hop=1e-6), 1e-6)
        trees = make_trees(Design((), pieces=2), task)
        assert trees is not None
        schedule = ring_schedule(Collective(kind, 5, 5e4), fabric, trees).unfolded(fabric.fibre_channels)
    else:
        schedule = build(find("ring"), Collective(kind, 5, 5e4), fabric).unfolded(fabric.fibre_channels)
    assert schedule.queued == queued
    place = np.random.default_rng(1).permutation(len(schedule))
    columns: dict[str, Any] = {name: column[place] for name, column in schedule.columns().items()}
    shuffled = replace(schedule, **columns)
    verify(shuffled, fabric)
    found, expected = row_order(shuffled), row_order(schedule)
    names = place.tolist()
    groups = [sorted(names[row] for row in group) for group in found.groups]
    assert sorted(groups) == sorted(sorted(group) for group in expected.groups)
    if not queued:
        assert groups == [sorted(group) for group in expected.groups]
    for reason in ("reads", "after_reads", "after_writes"):
        for row, waits in enumerate(getattr(found, reason)):
            assert sorted(names[each] for each in waits) == sorted(getattr(expected, reason)[names[row]]), reason
    program = program_of(shuffled, fabric)
    assert sum(len(block.steps) for gpu in program.gpus for block in gpu.blocks) >= 2 * len(schedule)


def test_messages_of_two_chunks_fill_two_places() -> None:
    """Two GPUs send each other the two chunks of their inputs, which lie in their outputs."""

    def gpu(rank: int) -> Gpu:
        sends = ThreadBlock(send=1 - rank, steps=[Step(type="s", source=("i", 0), count=2)])
        step = Step(type="r", destination=("o", 2 * (1 - rank)), count=2)
        receives = ThreadBlock(receive=1 - rank, steps=[step])
        return Gpu(chunks={"i": 2, "o": 4, "s": 0}, blocks=[sends, receives])

    program = Program(name="x", collective="allgather", chunks=4, gpus=[gpu(0), gpu(1)])
    (run,) = check(program, "x.xml")
    assert (run.messages, len(run.arrivals), run.in_parts) == (2, 4, True)
