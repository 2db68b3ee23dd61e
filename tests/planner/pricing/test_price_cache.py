"""Prices come back from the disk as they were, and never in place of others."""

from __future__ import annotations

import json
import logging
from collections import OrderedDict
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from lightloom.collectives.bounds.lower_bound import lower_bound
from lightloom.collectives.collective import Collective, Kind
from lightloom.collectives.registry import find
from lightloom.core.errors import BoundError
from lightloom.core.files import read_entry, write_entry
from lightloom.exchange.method import CodedSums, Gradient
from lightloom.machines.clusters.cluster import Cluster
from lightloom.machines.clusters.load import load_cluster
from lightloom.planning.pricing import schedule_prices
from lightloom.planning.pricing.schedule_prices import PriceKey, SchedulePrices, prices_path
from lightloom.planning.search.plans import PlanSearch
from lightloom.planning.search.request import SearchRequest
from lightloom.planning.search.search import search
from lightloom.planning.simulation.engine import Priced
from tests.collectives.strategies import wdm_ring
from tests.planner.gradients.exchanges import by_name, coded
from tests.planner.jobs import transformer


def searched() -> PlanSearch:
    request = SearchRequest(global_batches=(16,), strategies=("ddp", "tensor-pipeline"))
    return search(transformer(1), cluster(), request)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LIGHTLOOM_CACHE", str(tmp_path))
    return tmp_path / "prices"


def cluster(**settings: Any) -> Cluster:
    return load_cluster("terarack-64", set={"ranks": 4, "fabric.wavelengths": 8, **settings})


def rows(found: PlanSearch) -> list[tuple[Any, ...]]:
    """Everything that a ranking says."""
    return [
        (plan.label, plan.step_time, plan.breakdown, plan.communication_time, plan.energy, plan.exchanges)
        for plan in (*found.ranking, *found.reference)
    ]


@pytest.mark.long
def test_a_plan_made_again_is_the_same_and_builds_the_winner_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = rows(searched())
    assert list(folder.iterdir())

    def built(algorithm: Any, *_: Any) -> Any:
        raise AssertionError(f"{algorithm.name} is on the disk")

    monkeypatch.setattr("lightloom.planning.pricing.schedule_prices._of_structures", OrderedDict())
    monkeypatch.setattr("lightloom.collectives.registry.build_with_loads", built)
    # The proof of the winner takes its rows.
    monkeypatch.setattr("lightloom.planning.search.rows.verify_winner", lambda _: None)
    assert rows(searched()) == first


@pytest.mark.long
def test_damaged_files_are_priced_again(folder: Path) -> None:
    first = rows(searched())
    for place, path in enumerate(sorted(folder.iterdir())):
        path.write_text(["", "[{}]", "null", '[{"kind": 3}]', "[[[[", "{"][place % 6])
    assert rows(searched()) == first


@pytest.mark.long
def test_prices_that_somebody_made_cheaper_are_named_and_made_again(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = rows(searched())

    def cheaper(path: Path) -> bytes:
        prices = json.loads(read_entry(path) or b"")
        for row in prices:
            row["cost"]["time"] /= 1000
        return json.dumps(prices).encode()

    for path in sorted(folder.iterdir()):
        head, _, _ = path.read_bytes().partition(b"\n")
        path.write_bytes(head + b"\n" + cheaper(path))
    with caplog.at_level(logging.WARNING):
        assert rows(searched()) == first
    assert f"cache entry {sorted(folder.iterdir())[0]}" in caplog.text
    # Also where the digest is made to fit.
    for path in sorted(folder.iterdir()):
        write_entry(path, cheaper(path))
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        assert rows(searched()) == first
    assert "does not keep to its lower bound" in caplog.text


def test_a_price_is_held_against_the_bound_that_takes_longest_where_it_is_told() -> None:
    fabric, nbytes = wdm_ring(64, 4, conversion_time=1e-6), 1e5
    quick, whole = (lower_bound(Collective("all-gather", 64, nbytes), fabric, quick=each) for each in (True, False))
    assert quick.time < whole.time * (1 - 1e-3)
    prices = SchedulePrices(find("ring"), fabric, "physical")
    own = prices("all-gather", nbytes)
    assert own.bound == whole and own.cost.time >= whole.time
    key: PriceKey = "all-gather", 0.0, nbytes
    cheap = replace(own.cost, time=(quick.time + whole.time) / 2)
    prices.preload({key: Priced(cost=cheap, algorithm="ring")})
    found = prices("all-gather", nbytes)
    assert found.cost == cheap
    with pytest.raises(BoundError, match=r"^ring on 64 ranks costs .* below the lower bound of"):
        _ = found.bound


def test_anything_that_changes_a_price_changes_where_it_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    ring = find("ring")
    paths = [
        prices_path(SchedulePrices(ring, cluster().fabric, "physical")),
        prices_path(SchedulePrices(find("ring-striped"), cluster().fabric, "physical")),
        prices_path(SchedulePrices(ring, cluster(ranks=9).fabric, "physical")),
        prices_path(SchedulePrices(ring, cluster(**{"fabric.hop_latency": "1ns"}).fabric, "physical")),
        prices_path(SchedulePrices(ring, cluster().fabric, "paper")),
    ]
    sizes: dict[Kind, int] = {"all-reduce": 4}
    plain = SchedulePrices(ring, cluster().fabric, "physical")
    methods = [
        replace(by_name("inceptionn", rate=rate), gradient=Gradient(((8, 8),), (CodedSums("inceptionn:2^-10", bits),)))
        for rate in (1e9, 2e9)
        for bits in (((1, 8.0),), ((1, 4.0),))
    ]
    paths += [prices_path(plain.coded(method, sizes)) for method in methods]
    assert prices_path(plain.coded(coded(2.0), sizes)) is None, "a method from elsewhere"
    monkeypatch.setattr(schedule_prices, "source_hash", lambda *_: "another")
    paths.append(prices_path(SchedulePrices(ring, cluster().fabric, "physical")))
    assert None not in paths and len(set(paths)) == len(paths)


def test_what_is_searched_for_each_size_is_kept_for_the_effort_of_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    before = prices_path(SchedulePrices(find("synthesized"), cluster().fabric, "physical"))
    monkeypatch.setattr("lightloom.collectives.synthesis.engine.cache.SCALE", 0.5)
    assert before is not None and before != prices_path(
        SchedulePrices(find("synthesized"), cluster().fabric, "physical")
    )


def test_what_lies_elsewhere_is_not_kept_here() -> None:
    assert (
        prices_path(SchedulePrices(replace(find("ring"), build=cast(Any, rows)), cluster().fabric, "physical")) is None
    )
