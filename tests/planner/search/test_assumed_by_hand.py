"""What of a cluster has no publication behind it, part by part, for clusters whose sources are written here."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lightloom.machines.clusters.cluster import Cluster
from lightloom.machines.clusters.load import load_cluster
from lightloom.planning.search.assumptions import assumed_values, assumptions

PLAIN = load_cluster("terarack-64", set={"ranks": 16})
GUESS = "assumption: a guess"


def sourced(part: Any, **sources: str) -> Any:
    """A part of a cluster with these sources and no others."""
    return part.model_copy(update={"sources": sources})


def stated(**parts: Any) -> Cluster:
    """A cluster with a flat efficiency and its reference, all of whose values have a publication unless said."""
    assert PLAIN.reference is not None
    published: dict[str, Any] = {
        "accelerator": sourced(PLAIN.accelerator.flat(), memory="a data sheet"),
        "fabric": sourced(PLAIN.fabric, hop_latency="a paper"),
        "reference": sourced(PLAIN.reference, hop_latency="a paper"),
        "sources": {"ranks": "a paper"},
    }
    return replace(PLAIN, **published | parts)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({}, []),
        (
            {"accelerator": sourced(PLAIN.accelerator.flat(), efficiency=GUESS, memory="a data sheet")},
            [("accelerator", "efficiency", "0.5", GUESS)],
        ),
        (
            {"fabric": sourced(PLAIN.fabric, hop_latency=GUESS, fibres="two, an assumption", transport=GUESS)},
            [
                ("fabric", "hop_latency", "5 ns", GUESS),
                ("fabric", "fibres", "2", "two, an assumption"),
                ("fabric", "transport", PLAIN.fabric.software, GUESS),
            ],
        ),
        ({"fabric": sourced(PLAIN.fabric)}, [("fabric", "hop_latency", "5 ns", "not sourced")]),
        (
            {"reference": sourced(PLAIN.reference, **{"tiers.network.bandwidth": GUESS, "taper": GUESS})},
            [("reference", "tiers.network.bandwidth", "400 Gb/s", GUESS), ("reference", "taper", "", GUESS)],
        ),
        (
            {"sources": dict.fromkeys(("ranks", "accelerator", "fabric", "reference", "precision"), GUESS)},
            [
                ("cluster", "ranks", "16", GUESS),
                ("cluster", "accelerator", "a100", GUESS),
                ("cluster", "fabric", "wdm-ring", GUESS),
                ("cluster", "reference", "switch", GUESS),
                ("cluster", "precision", PLAIN.training.precision, GUESS),
            ],
        ),
    ],
)
def test_values_without_a_publication_are_listed(parts: dict[str, Any], expected: list[tuple[str, ...]]) -> None:
    cluster = stated(**parts)
    assert [*assumed_values(cluster)] == expected
    assert assumptions(cluster) == tuple(
        f"{part}.{field}: " + ("5 ns, not sourced" if source == "not sourced" else source)
        for part, field, _, source in expected
    )


def test_parts_are_listed_in_order_and_efficiency_only_without_kernels() -> None:
    guessed = sourced(PLAIN.accelerator, efficiency=GUESS, memory=GUESS)
    cluster = stated(accelerator=guessed, reference=None, sources={"ranks": GUESS, "reference": GUESS})
    found = [row[:3] for row in assumed_values(cluster) if row[0] != "accelerator.kernels"]
    assert found[0][:2] == ("accelerator", "memory")
    # A cluster without a reference has no value of one.
    assert found[1:] == [("cluster", "ranks", "16"), ("cluster", "reference", "")]
    parts = [row[0] for row in assumed_values(cluster)]
    assert parts[1:-2] == ["accelerator.kernels"] * (len(parts) - 3) and len(parts) > 5
