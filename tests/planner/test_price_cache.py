"""Prices come back from the disk as they were, and never in place of others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lightloom.clusters.base import Cluster
from lightloom.clusters.load import load_cluster
from lightloom.collectives.registry import build, find
from lightloom.planner.pricing import price_cache
from lightloom.planner.pricing.price_cache import prices_path
from lightloom.planner.search.plans import PlanSearch
from lightloom.planner.search.search import search
from tests.planner.jobs import transformer


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LIGHTLOOM_CACHE", str(tmp_path))
    return tmp_path / "prices"


def cluster(**settings: Any) -> Cluster:
    return load_cluster("terarack-64", {"ranks": 8, "fabric.wavelengths": 8, **settings})


def rows(found: PlanSearch) -> list[tuple[Any, ...]]:
    """Everything that a ranking says."""
    return [
        (plan.label, plan.step_time, plan.breakdown, plan.communication_time, plan.energy, plan.exchanges)
        for plan in (*found.ranking, *found.reference)
    ]


def test_a_plan_made_again_is_the_same_and_builds_nothing_but_what_keeps_itself(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = rows(search(transformer(2), cluster()))
    assert list(folder.iterdir())

    def only_by_size(algorithm: Any, *rest: Any) -> Any:
        assert algorithm.by_size, algorithm.name
        return build(algorithm, *rest)

    monkeypatch.setattr("lightloom.planner.pricing.schedule_prices.build", only_by_size)
    assert rows(search(transformer(2), cluster())) == first


def test_damaged_files_are_priced_again(folder: Path) -> None:
    first = rows(search(transformer(2), cluster()))
    for place, path in enumerate(sorted(folder.iterdir())):
        path.write_text(["", "[{}]", "null", '[{"kind": 3}]', "[[[[", "{"][place % 6])
    assert rows(search(transformer(2), cluster())) == first


def test_anything_that_changes_a_price_changes_where_it_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    ring = find("ring")
    paths = [
        prices_path(ring, cluster().fabric, "physical"),
        prices_path(find("ring-striped"), cluster().fabric, "physical"),
        prices_path(ring, cluster(ranks=9).fabric, "physical"),
        prices_path(ring, cluster(**{"fabric.hop_latency": "1ns"}).fabric, "physical"),
        prices_path(ring, cluster().fabric, "paper"),
    ]
    monkeypatch.setattr(price_cache, "_code_hash", lambda: "another")
    paths.append(prices_path(ring, cluster().fabric, "physical"))
    assert None not in paths and len(set(paths)) == len(paths)


def test_what_keeps_itself_or_lies_elsewhere_is_not_kept_here() -> None:
    assert prices_path(find("synthesized"), cluster().fabric, "physical") is None
