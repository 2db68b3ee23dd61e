"""Files of schedules, programs and traces at their limits: the smallest ones, what is missing, and what is counted."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lightloom.collectives.collective import Collective
from lightloom.collectives.files.chakra import read_traces, trace_path, write_traces
from lightloom.collectives.files.msccl.check import _check_result
from lightloom.collectives.files.msccl.program import OWN, Gpu, Step, ThreadBlock, Value
from lightloom.collectives.files.msccl.rules import _check_step
from lightloom.collectives.registry import build, find
from lightloom.core.errors import ConfigError
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
