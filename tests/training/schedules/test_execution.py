"""Schedules over real processes against ``torch.distributed``, and what happens when processes disagree or die."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="schedules are executed over a torch process group")

from lightloom.collectives.collective import Collective
from lightloom.collectives.files.document import write_schedule
from lightloom.collectives.registry import build, find
from lightloom.exchange.transport.launch import launch
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.optical_averager import OpticalAverager
from lightloom.machines.fabrics.wdm_ring import WdmRing
from tests.cli.commands import run
from tests.launched import Processes
from tests.training.schedules import execution_workers as workers


@pytest.fixture
def laws(processes: Processes) -> list[dict[str, Any]]:
    """Results of ``execution_workers.everything``, by rank."""
    return processes.results("schedules")


def found(laws: list[dict[str, Any]], name: str) -> list[Any]:
    """Results of one law, by rank."""
    return [results[name] for results in laws]


def test_random_schedules_to_the_bit(laws: list[dict[str, Any]]) -> None:
    assert all(cases >= workers.CASES for cases in found(laws, "anything"))


def test_every_algorithm_of_a_ring_to_the_bit(laws: list[dict[str, Any]]) -> None:
    for each in found(laws, "every_algorithm"):
        assert each["schedules"] >= 60 and each["wrong"] == []


def test_floats_repeat_and_replicas_agree(laws: list[dict[str, Any]]) -> None:
    assert all(found(laws, "repeated"))


def test_gradients_are_those_of_plain_ddp(laws: list[dict[str, Any]]) -> None:
    for each in found(laws, "averaged"):
        assert each["equal"] and each["off"] <= 1 + 1e-6


def test_all_ranks_say_who_brings_something_else(laws: list[dict[str, Any]]) -> None:
    for schedule, length, dtype in found(laws, "disagreements"):
        assert schedule.startswith("rank 3 brings") and "to schedule" in schedule
        assert "rank 3 brings 11 values of float32" in length and "rank 0 brings 10 values of float32" in length
        assert "rank 3 brings 10 values of int32" in dtype and "rank 0 brings 10 values of float32" in dtype


def test_what_cannot_be_executed_is_refused(laws: list[dict[str, Any]]) -> None:
    assert [text.split(":")[0] for text in found(laws, "refusals")[0]] == [
        "a schedule for 3 ranks in a group of 4",
        "in-network adds up inside a switch",
        "5 values to reduce-scatter",
        "a torch.strided tensor of torch.complex64 on cpu",
        "a schedule of reduce-scatter",
        "ranks of this schedule add up in different orders",
    ]


def test_a_rank_that_does_not_come_is_named(laws: list[dict[str, Any]]) -> None:
    assert found(laws, "kept_waiting")[0] == f"rank 0: rank {workers.VICTIM} was silent for 0.5 s"


def test_a_rank_that_is_killed_is_named(processes: Processes) -> None:
    assert processes.outcomes[workers.VICTIM].exit_code == -9
    for rank in (0, 3):
        assert f"rank {workers.VICTIM} has gone" in processes.outcomes[rank].value["left_alone"]


@pytest.mark.long
def test_the_command_executes_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fabric = WdmRing(ranks=2, wavelengths=2)
    path = write_schedule(
        tmp_path / "schedule.json", build(find("ring"), Collective("all-reduce", 2, 1e3), fabric), fabric
    )
    command = ["schedule", str(path), "--execute", "--nbytes", "1001", "--set", "rounds=1", "--json"]
    done = run(monkeypatch, capsys, *command)
    document = json.loads(done.out)
    assert done.code == 0 and document["right"] and document["same_bits"] and document["error_over_bound"] == 0
    assert (document["values"], document["chunks"], document["padding"]) == (125, 2, 1)
    assert document["messages"] == 4 and document["seconds"] > 0


@pytest.mark.long
def test_sums_of_floats_within_their_bound_are_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever order of additions torch.distributed takes; by the command's former name."""
    arguments = (str(_file(tmp_path, "ring", 4)), "--dtype", "float32", "--nbytes", "4096", "--rounds", "1")
    done = run(monkeypatch, capsys, "execute", *arguments, "--json")
    document = json.loads(done.out)
    assert "warning: `execute` is spelt `schedule --execute` now" in done.err
    assert done.code == 0 and 0 < document["error_over_bound"] <= 1 and document["right"] is True
    assert "equal" not in document and isinstance(document["same_bits"], bool)


def _file(folder: Path, algorithm: str, ranks: int, fabric: type[Fabric] = WdmRing) -> Path:
    """A schedule of an all-reduce."""
    on = fabric(ranks=ranks)
    schedule = build(find(algorithm), Collective("all-reduce", ranks, 1e3), on)
    return write_schedule(folder / "schedule.json", schedule, on)


@pytest.mark.parametrize(
    ("algorithm", "ranks", "settings", "complaint"),
    [
        ("ring", 8, ("dtype=int7",), "dtype 'int7': expected one of int64"),
        ("ring", 65, (), "65 ranks: expected at most 64 processes on this host"),
        ("ring", 8, ("rounds=0",), "--set: field 'rounds': 0: Input should be greater than or equal to 1"),
        ("in-network", 4, (), "in-network adds up inside a switch"),
        ("ring", 2, ("timeout=0.1s",), "--set timeout=0.1s: rank 0 of 2: no result within"),
        ("ring", 2, ("wavelengths=2",), "--fabric and --ranks go together, and --set needs both"),
    ],
)
def test_the_command_refuses_in_one_line(
    algorithm: str,
    ranks: int,
    settings: tuple[str, ...],
    complaint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = _file(tmp_path, algorithm, ranks, OpticalAverager if algorithm == "in-network" else WdmRing)
    done = run(
        monkeypatch,
        capsys,
        "schedule",
        str(path),
        "--execute",
        *(word for text in settings for word in ("--set", text)),
    )
    assert (done.code, done.out) == (2, "") and done.err.count("\n") == 1
    assert complaint in done.err


@pytest.mark.slow
def test_eight_processes_every_algorithm_type_and_length() -> None:
    for outcome in launch(workers.all_types_and_lengths, 8, 500):
        assert outcome.value["schedules"] >= 60 and outcome.value["wrong"] == {}, json.dumps(outcome.value)


def test_the_former_command_says_what_to_call_where_it_built_the_schedule(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done = run(monkeypatch, capsys, "execute", "--algorithm", "ring", "--ranks", "8")
    assert (done.code, done.out) == (2, "") and done.err.count("\n") == 1
    assert (
        "expected `lightloom collective KIND --algorithm NAME --out FILE`, then `schedule FILE --execute`" in done.err
    )
