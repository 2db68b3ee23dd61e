"""Rows say what the commands say; batches hold every point once."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from typing import Any, cast

import pytest

from lightloom.collectives import registry as evaluate_module
from lightloom.collectives.algorithm import Algorithm
from lightloom.collectives.collective import Collective
from lightloom.collectives.registry import evaluate, find
from lightloom.core.errors import ConfigError, UnsupportedError, VerificationError
from lightloom.machines.clusters.load import load_cluster
from lightloom.models.zoo import load_workload
from lightloom.planning.pricing import schedule_prices
from lightloom.planning.search.request import Pins, SearchRequest
from lightloom.planning.search.search import search
from lightloom.planning.sweeps.experiment import CollectivePoint, PlanPoint, Point
from lightloom.planning.sweeps.run import COLUMNS
from lightloom.planning.sweeps.workers import (
    DONE,
    FAILED,
    REFUSED,
    Batch,
    Row,
    batches,
    compute,
)
from tests.sweeps.experiments import PLANS, SMALL, points


def _rows(found: dict[str, Point]) -> dict[str, Row]:
    return dict(row for batch in batches(found.items()) for row in compute(batch))


def test_batches_hold_every_point_once(tmp_path: Path) -> None:
    found = points(tmp_path, SMALL + PLANS)
    made = batches(found.items())
    keys = [key for batch in made for key, _ in batch.points]
    assert sorted(keys) == sorted(found)
    assert len(keys) == len(set(keys))
    for batch in made:
        assert len({point.family for _, point in batch.points}) == 1


def test_rows_of_collectives_are_those_of_evaluate(tmp_path: Path) -> None:
    found = points(tmp_path, SMALL)
    rows = _rows(found)
    assert rows.keys() == found.keys()
    for key, point in found.items():
        assert isinstance(point, CollectivePoint)
        wanted = Collective(cast(Any, point.kind), point.site.ranks, point.nbytes)
        try:
            told = evaluate(find(point.algorithm), wanted, point.site.fabric)
        except UnsupportedError as error:
            assert (rows[key]["status"], rows[key]["why"]) == (REFUSED, str(error))
            continue
        row = rows[key]
        assert row["status"] == DONE
        assert (row["time_s"], row["energy_j"], row["steps"]) == (told.cost.time, told.cost.energy, told.cost.steps)
        assert (row["lower_bound_s"], row["bound_by"]) == (told.bound.time, told.bound.bound_by)
    assert {row["status"] for row in rows.values()} == {DONE, REFUSED}


@pytest.mark.long
def test_rows_of_plans_are_those_of_search(tmp_path: Path) -> None:
    found = points(tmp_path, f"name: plans{PLANS}")
    rows = _rows(found)
    for key, point in found.items():
        assert isinstance(point, PlanPoint)
        cluster = load_cluster(
            "terarack-64", set={"ranks": point.site.ranks, "training.batch_per_rank": point.batch, "reference": None}
        )
        graph = load_workload("hdc", batch=point.batch)
        try:
            request = SearchRequest(
                global_batches=(point.batch * cluster.ranks,),
                strategies=(point.strategy,),
                algorithms=(point.algorithm,),
                pins=Pins(recomputation="none"),
                must_fit=False,
            )
            told = search(graph, cluster, request).winner
        except UnsupportedError as error:
            assert (rows[key]["status"], rows[key]["why"]) == (REFUSED, str(error))
            continue
        assert rows[key]["time_s"] == told.step_time
        assert rows[key]["energy_j"] == told.energy.total_j
        assert {name: rows[key][name] for name in told.breakdown} == told.breakdown


def test_every_figure_has_a_column(tmp_path: Path) -> None:
    for row in _rows(points(tmp_path, SMALL + PLANS)).values():
        assert row.keys() <= COLUMNS.keys()


def test_a_model_that_cannot_be_built_is_kept_with_its_reason(tmp_path: Path) -> None:
    text = "name: x\nplans: [{model: hdc, cluster: terarack-64, algorithm: ring, strategy: ddp, sequence_length: 8}]"
    (row,) = _rows(points(tmp_path, text)).values()
    assert row["status"] == REFUSED
    assert "takes no sequence length" in row["why"]


def test_an_algorithm_that_fails_is_a_row_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(algorithm: Algorithm, *rest: Any) -> None:
        if algorithm.name == "optree":
            raise VerificationError("rank 3 lacks chunk 2")
        if algorithm.name == "ring":
            raise IndexError("rank 9 of 8")
        raise UnsupportedError("not today")

    for module in (evaluate_module, schedule_prices):
        monkeypatch.setattr(module, "build_with_loads", wrong)
    monkeypatch.setattr(schedule_prices, "_of_structures", OrderedDict())  # what other tests built is not built again
    rows = _rows(points(tmp_path, SMALL)).values()
    failed = [row for row in rows if row["status"] == FAILED]
    assert {(row["algorithm"], row["why"]) for row in failed} == {
        ("optree", "VerificationError: rank 3 lacks chunk 2"),
        ("ring", "IndexError: rank 9 of 8"),
    }


def test_a_worker_with_other_code_is_refused(tmp_path: Path) -> None:
    first = batches(points(tmp_path, SMALL).items())[0]
    with pytest.raises(ConfigError, match="the same lightloom everywhere"):
        compute(Batch("0" * 16, first.points))
