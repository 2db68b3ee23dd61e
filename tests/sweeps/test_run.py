"""Stopped anywhere and resumed, a sweep has the bytes of one that was not stopped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from lightloom.core.journal import JOURNAL
from lightloom.planning.sweeps.experiment import Point
from lightloom.planning.sweeps.run import RESULTS, Swept, sweep
from lightloom.planning.sweeps.workers import Workers
from tests.sweeps.experiments import PLANS, SMALL, points

_HERE = Workers(jobs=1)


class _Stopped(Exception):
    pass


def _stopping_at(most: int) -> Callable[[int], None]:
    done: Counter[str] = Counter()

    def advance(count: int) -> None:
        done["rows"] += count
        if done["rows"] >= most:
            raise _Stopped

    return advance


def _kept(folder: Path) -> list[str]:
    return (folder / JOURNAL).read_text().splitlines()


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Point]:
    return points(tmp_path_factory.mktemp("experiment"), SMALL + PLANS)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, wanted: dict[str, Point]) -> Swept:
    return sweep("small", wanted, tmp_path_factory.mktemp("whole"), _HERE)


def test_stopped_at_any_row_and_resumed_it_has_the_same_bytes(
    tmp_path: Path, wanted: dict[str, Point], whole: Swept
) -> None:
    for most in (1, 7, 30, 55, len(wanted)):
        with pytest.raises(_Stopped):
            sweep("small", wanted, tmp_path, _HERE, _stopping_at(most))
        assert len(_kept(tmp_path)) >= most
    found = sweep("small", wanted, tmp_path, _HERE)
    assert found.computed == 0
    assert found.rows == whole.rows
    assert (tmp_path / RESULTS).read_bytes() == whole.results.read_bytes()
    assert len(_kept(tmp_path)) == len(set(_kept(tmp_path))) == len(wanted)


def test_rows_stand_in_the_order_of_the_experiment(wanted: dict[str, Point], whole: Swept) -> None:
    table = parquet.read_table(whole.results).to_pylist()
    assert len(table) == len(wanted)
    for row, point in zip(table, wanted.values(), strict=True):
        said = point.columns()
        assert {name: row[name] for name in said} == said
        assert (row["status"] == "done") == (row["time_s"] is not None) == (row["why"] is None)


def test_a_changed_experiment_takes_what_is_the_same(tmp_path: Path, wanted: dict[str, Point], whole: Swept) -> None:
    fewer = dict(list(wanted.items())[10:40])
    first = sweep("small", fewer, tmp_path, _HERE)
    assert (first.computed, first.unused) == (30, 0)
    second = sweep("small", wanted, tmp_path, _HERE)
    assert (second.computed, second.unused) == (len(wanted) - 30, 0)
    assert second.results.read_bytes() == whole.results.read_bytes()
    third = sweep("small", fewer, tmp_path, _HERE)
    assert (third.computed, third.unused) == (0, len(wanted) - 30)
    assert third.rows == first.rows


def test_other_code_computes_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: dict[str, Point], tmp_path_factory: pytest.TempPathFactory
) -> None:
    from lightloom.planning.sweeps import experiment as module

    few = dict(list(wanted.items())[:5])
    sweep("small", few, tmp_path, _HERE)
    monkeypatch.setattr(module, "code_version", lambda: "another")
    again = {point.key: point for point in few.values()}
    found = sweep("small", again, tmp_path, _HERE)
    assert (found.computed, found.unused) == (5, 5)
