"""The page of winners: where another plan wins, and by how much the first one then loses."""

from __future__ import annotations

from typing import Any

from benchmarks.support.winners_page import page


def search(seconds: float, *plans: tuple[str, float]) -> dict[str, Any]:
    """One search whose ranking has these splits and step times."""
    return {
        "cluster": "c",
        "model": "m",
        "hop_latency_s": seconds,
        "cpu_s": 1.0,
        "global_batch": 8,
        "tokens_per_second_per_rank": None,
        "plans": [
            {"split": split, "strategy": "ddp", "algorithms": ["ring"], "step_s": step, "fits": True}
            for split, step in plans
        ],
    }


def written(*searches: dict[str, Any]) -> str:
    return page({"searches": [*searches], "published": [], "cpu": "one"})


def test_the_page_says_where_another_plan_wins() -> None:
    changed = written(search(5e-6, ("b", 1.2), ("a", 1.5)), search(0.0, ("a", 1.0), ("b", 1.1)))
    assert "the winner changes at 5 µs a hop to b · ring" in changed
    assert "takes 1.25 times as long" in changed
    assert "| 5 µs | b | ring | 1.2 s | 1.2 × |" in changed


def test_a_winner_that_ties_stays() -> None:
    same = written(search(0.0, ("a", 1.0), ("b", 1.1)), search(1e-6, ("b", 1.2), ("a", 1.2)))
    assert "Sensitivity: the winner stays the winner up to 1 µs a hop." in same
    assert "1 of 1 winners stay at all latencies" in same
