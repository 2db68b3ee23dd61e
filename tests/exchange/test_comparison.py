"""Comparisons are paired with plain training, their front is not beaten, and finished runs are not repeated."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.app.cli.exchange_training import compare
from lightloom.core.errors import ConfigError, UnknownNameError
from lightloom.core.files import write_atomically
from lightloom.exchange import comparison as comparisons
from lightloom.exchange.comparison import (
    REFERENCE,
    Case,
    Result,
    cases,
    compare_runs,
    read_result,
    run_all,
)
from lightloom.exchange.measuring import measurable
from lightloom.exchange.method import Evidence, merge_evidence
from lightloom.exchange.methods import compared, families, find


def result(method: str, seed: int, loss: float, sent: float) -> Result:
    case = Case(task="chars", method=method, seed=seed, steps=4, ranks=2)
    return Result(case, [2, 4], [2 * loss, loss], sent, 1000.0, True, "", 0.01)


losses = st.dictionaries(
    st.sampled_from(["a", "b", "c", "d"]), st.tuples(st.floats(0.1, 9), st.floats(1, 1000)), min_size=1
)


@given(losses, st.lists(st.floats(-1, 1), min_size=1, max_size=3))
def test_rows_are_paired_and_the_front_is_not_beaten(
    methods: dict[str, tuple[float, float]], shifts: list[float]
) -> None:
    results = [
        result(method, seed, loss + 2 * shift, sent)
        for seed, shift in enumerate(shifts)
        for method, (loss, sent) in {REFERENCE: (5.0, 1000.0), **methods}.items()
    ]
    rows = compare_runs(results, 1e6)
    assert [row.method for row in rows] == [REFERENCE, *methods]
    for row in rows[1:]:
        assert row.difference == pytest.approx(methods[row.method][0] - 5.0)  # what seeds share cancels
        assert row.spread == pytest.approx(0, abs=1e-9)
    front = [row for row in rows if row.on_front]
    assert front
    assert not any(a.ratio > b.ratio and a.loss < b.loss for a in rows for b in front)


def test_what_seeds_share_is_no_spread_of_a_method(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Evidence holds the spread of the differences from plain training, seed by seed."""
    plain, method = {0: 1.0, 1: 2.0, 2: 4.0}, {0: 1.1, 1: 2.2, 2: 4.3}
    runs = [
        result(name, seed, loss, 1e3)
        for name, losses in ((REFERENCE, plain), ("int8", method))
        for seed, loss in losses.items()
    ]
    monkeypatch.setattr("lightloom.app.cli.exchange_training.run_all", lambda *_, **__: runs)
    monkeypatch.setattr("lightloom.app.cli.exchange_training.default_steps", lambda *_: 4)
    table = tmp_path / "evidence.json"
    compare(exchange=["int8"], seeds=3, set=["steps=4", f"folder={tmp_path}"], ranks=2, out=table)
    (row,) = json.loads(table.read_text())["rows"]
    assert row["loss_difference"] == pytest.approx(0.2) and row["spread"] == pytest.approx(0.1)


def test_a_seed_without_plain_training_is_refused() -> None:
    with pytest.raises(ConfigError, match="no plain run of seed 1"):
        compare_runs([result(REFERENCE, 0, 1, 1), result("a", 1, 1, 1)], 1e6)


def test_finished_runs_are_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launched: list[int] = []

    def launch(_: object, ranks: int, __: float, arguments: dict[str, list[dict[str, object]]]) -> None:
        launched.append(len(arguments["cases"]))
        for fields in arguments["cases"]:
            case = Case(**fields)  # type: ignore[arg-type]
            write_atomically(tmp_path / case.file, json.dumps(asdict(Result(case, [1], [1.0], 1, 1))))

    monkeypatch.setattr(comparisons, "launch", launch)
    first = cases("chars", ["int8"], 2, 2, 4)
    run_all(first, tmp_path)
    write_atomically(tmp_path / first[0].file, "{")  # cut off
    results = run_all(cases("chars", ["int8", "bf16"], 2, 2, 4), tmp_path)
    assert launched == [2, 2, 2, 1]
    assert len(results) == 6
    assert read_result(tmp_path / "none.json") is None


def row(method: str, task: str, difference: float) -> Evidence:
    return Evidence(
        method=method, task=task, steps=1, seeds=1, ranks=2, loss_difference=difference, spread=0.0, command="c"
    )


def test_evidence_replaces_the_rows_of_its_method_and_task(tmp_path: Path) -> None:
    table = tmp_path / "evidence.json"
    table.write_text(merge_evidence(table, [row("int8", "a", 0.1), row("int8", "b", 0.2)]))
    table.write_text(merge_evidence(table, [row("int8", "a", 0.3), row("int4", "a", 0.4)]))
    rows = {(each["method"], each["task"]): each["loss_difference"] for each in json.loads(table.read_text())["rows"]}
    assert rows == {("int8", "a"): 0.3, ("int8", "b"): 0.2, ("int4", "a"): 0.4}
    table.write_text("[]")
    with pytest.raises(ConfigError, match="cannot be read"):
        merge_evidence(table, [])


def test_unknown_tasks_missing_data_and_wrong_ranks_are_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="task"):
        compare(task="cifar", exchange=["int8"])
    with pytest.raises(ConfigError, match="4 ranks: expected a multiple of node=3"):
        cases("chars", ["two-level:node=3"], 1, 4, 1)
    with pytest.raises(ConfigError, match="has no tinyshakespeare"):
        compare(task="chars", exchange=["int8"], set=[f"data={tmp_path}"])


def test_every_family_is_compared_or_says_why_not() -> None:
    methods = [find(name) for name in compared()]
    left_out = {"codec", "two-level", "optical"}  # any codec; nodes; emulated light takes other time than it would
    assert {method.name.partition(":")[0] for method in methods} == set(families()) - left_out
    assert [method.name for method in methods if not measurable(method)] == [
        *("float32", "localsgd:every=20"),
        "diloco:every=20,inner=float32,fragments=1,outer_lr=0.7,outer_momentum=0.9",
    ]
