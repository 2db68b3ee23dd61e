"""FSDP2 with our reduce-scatter in its place: real processes over gloo and sockets."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch", reason="FSDP2 is torch's")

from lightloom.exchange.transport.launch import launch
from tests.launched import RANKS, TIMEOUT, Processes

pytestmark = pytest.mark.usefixtures("sharding")


def test_fsdp2_with_our_reduce_scatter(processes: Processes) -> None:
    check(processes.results("fsdp"), RANKS)


@pytest.mark.slow
def test_two_ranks_reduce_as_the_stock_reduce_scatter_bit_for_bit() -> None:
    check([outcome.value for outcome in launch("tests.training.hooks.fsdp_workers:everything", 2, TIMEOUT)], 2)


def check(outcomes: list[Any], ranks: int) -> None:
    """Check the results of ``fsdp_workers.everything``, by rank."""

    def run(name: str) -> list[Any]:
        return [outcome[name] for outcome in outcomes]

    # Without a codec it is the stock reduce-scatter: for two ranks there is but one order of addition.
    for r in run("exact"):
        assert r["equal"] or ranks > 2
        assert r["worst"] < 1e-6 * max(r["size"], 1)

    # N - 1 encodings of partial sums, over N ranks; every value counted once.
    for r in run("bounded"):
        assert 0 < r["worst"] < (ranks - 1) / ranks
        assert r["tags"] == r["encoded"]

    assert all(all(names) for names in run("named"))
    for r in run("conserving"):
        assert r["worst"] < 1e-5
        assert r["left"] > 0
        assert r["steps"] == 3
        assert set(r["calls"]) == {3}

    # Reduction in float32 is tested with all methods (tests/exchange/test_fsdp.py).
    runs = run("trained")
    means = [sum(losses) / ranks for losses in zip(*(r["losses"] for r in runs), strict=True)]
    assert means[-1] < 0.8 * means[0]
    assert all(r["ratio"] > 1.2 for r in runs)

    assert run("accumulated") == [2] * ranks
    assert all(run("scaled"))
    for r in run("resumed"):
        assert r["same"]
        assert r["residuals"]
        assert r["keys"] == 7
        assert "residuals of another rank" in r["complaint"]

    steps_aside(run("deciding"), run("alternating"), ranks)

    for no_fsdp, hybrid, unused in run("refused"):
        assert "no fully_shard-ed module" in no_fsdp
        assert "a mesh of 2 dimensions" in hybrid
        assert "every parameter must get a gradient" in unused


def steps_aside(deciding: list[Any], alternating: list[Any], ranks: int) -> None:
    """All ranks decide alike, steps are of one kind, and the change of kind loses nothing."""
    ((step, compressed, plain, choice),) = deciding[0]["decisions"]
    assert step == 21
    assert choice == (plain < compressed)
    kinds = deciding[0]["plain"]
    assert kinds[:21] == [False] * 9 + [True] * 4 + [False] * 4 + [True] * 4
    assert kinds[21:] == [choice] * 2
    means = [sum(losses) / ranks for losses in zip(*(r["losses"] for r in deciding), strict=True)]
    assert means[-1] < 0.8 * means[0]
    for r in deciding:
        assert r["decisions"] == deciding[0]["decisions"]
        assert r["plain"] == kinds
        assert not r["mixed"]
        assert "with plain reduce-scatter" in r["printed"]
        assert (r["saved"]["step"], r["saved"]["use_plain"]) == (23, choice)
    for r in alternating:
        assert r["worst"] < 1e-5
        assert all((left == 0) == (step // 2 % 2 == 1) for step, left in enumerate(r["left"]))
