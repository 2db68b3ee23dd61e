"""What of a cluster has no publication behind it, part by part, for clusters whose sources are written here."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from lightloom.machines.accelerators.load import SYSTEM_ORIGIN as SYSTEM
from lightloom.machines.clusters.astra_sim import ORIGIN
from lightloom.machines.clusters.cluster import Cluster
from lightloom.machines.clusters.load import load_cluster
from lightloom.planning.parallelism.strategy_space import Strategy
from lightloom.planning.pricing.broadcast_step import BroadcastStep
from lightloom.planning.pricing.placed_space import PlacedChoice
from lightloom.planning.search import assumptions as module
from lightloom.planning.search.assumptions import (
    Assumption,
    assumed,
    assumed_lines,
    assumed_values,
    assumptions,
    built_lines,
    carried_lines,
    imported_lines,
    plan_assumptions,
    warning_lines,
)

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


WHOLE = Strategy(8, 1, 1, 1, 8, "none", "none", "ring", 0)


def planned(choice: Any, *, exclusive: bool = False, overlap: bool = True, **facts: Any) -> Any:
    """A plan on packets whose gradients may leave beside backward passes."""
    on = SimpleNamespace(
        training=SimpleNamespace(overlap_gradients=overlap), fabric=SimpleNamespace(exclusive=exclusive)
    )
    none: dict[str, Any] = {"step": None, "splits_neurons": False, "spent": None}
    return SimpleNamespace(choice=choice, cluster=on, **none | facts)


@pytest.mark.parametrize(
    ("plan", "begins"),
    [
        (planned(PlacedChoice(2, 4, 1e-6, 8, 0, 1.0), spent={}), []),
        (planned(WHOLE), []),
        (planned(WHOLE, step=BroadcastStep(4, 1.0, 1.0), splits_neurons=True), ["multipliers pass"]),
        (planned(WHOLE, splits_neurons=True), ["neurons of every layer"]),
        (planned(WHOLE, spent={}), ["gradients that are exchanged once"]),
        (planned(WHOLE._replace(dp=1), spent={}), []),
        (planned(WHOLE, spent={}, overlap=False), []),
        (planned(WHOLE._replace(tp=2)), ["exchanges of tensor groups go first"]),
        (planned(WHOLE._replace(tp=2), exclusive=True), []),
        (planned(WHOLE._replace(dp=1, tp=2)), []),
        (planned(WHOLE._replace(tp=2, ep=2)), ["exchanges of tensor and expert groups go first"]),
        (
            planned(WHOLE._replace(dp=1, cp=2), spent={}),
            ["gradients that", "exchanges of context groups", "ranks of a context group have equal work"],
        ),
    ],
)
def test_plans_rest_on_what_they_use(plan: Any, begins: list[str]) -> None:
    lines = [*plan_assumptions(plan)]
    assert len(lines) == len(begins)
    assert all(line.startswith(begin) for line, begin in zip(lines, begins, strict=True))


def test_what_moves_the_step_most_is_listed_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the accelerator and its kernels by their own intervals, of others by none; fitted numbers that have one."""
    values = [
        ("accelerator", "efficiency", "0.5", "guess 1"),
        ("accelerator.kernels", "fusion", "0.8", "guess 2"),
        ("fabric", "fusion", "3", "guess 3"),
    ]
    moves = {"gemm_depth": 0.25, "fusion": 0.5, "dispatch": 0.125, "unknown": 0.75}
    kernels, link = {"gemm_depth": (400.25, "a fit"), "fusion": (0.8, "no")}, {"dispatch": (1.5e-6, "a paper")}

    def priors(of: dict[str, tuple[float, str]]) -> Any:
        return lambda: {name: SimpleNamespace(value=value, source=source) for name, (value, source) in of.items()}

    library = SimpleNamespace(transport=SimpleNamespace(priors=priors(link)))
    accelerator = SimpleNamespace(kernels=SimpleNamespace(priors=priors(kernels)))
    cluster = SimpleNamespace(accelerator=accelerator, fabric=SimpleNamespace(library=library))
    winner = SimpleNamespace(cluster=cluster, global_batch=4096)
    clusters = [SimpleNamespace(ranks=ranks) for ranks in (2, 8, 4)]
    request = SimpleNamespace(global_batches=None)
    search: Any = SimpleNamespace(winner=winner, graph="graph", clusters=clusters, request=request)
    batch = SimpleNamespace(published=SimpleNamespace(assumed=True, source="a rule"))
    asked: Any = []
    monkeypatch.setattr(module, "influences", lambda plan: moves if plan is winner else {})
    monkeypatch.setattr(module, "assumed_values", lambda of: iter(values if of is cluster else ()))
    monkeypatch.setattr(module, "plan_assumptions", lambda plan: iter(["one", "two"] if plan is winner else []))
    monkeypatch.setattr(module, "default_batch", lambda *of: asked.append(of) or batch)
    expected = [
        Assumption("accelerator.kernels", "fusion", "0.8", "guess 2", 0.5),
        Assumption("prices", "gemm_depth", "400.2", "a fit", 0.25, fitted=True),
        Assumption("prices", "dispatch", "1.5e-06", "a paper", 0.125, fitted=True),
        Assumption("accelerator", "efficiency", "0.5", "guess 1"),
        Assumption("fabric", "fusion", "3", "guess 3"),
        Assumption("plan", "", "", "one"),
        Assumption("plan", "", "", "two"),
        Assumption("batch", "global batch", "4,096", "a rule"),
    ]
    assert assumed(search) == expected and asked == [("graph", 8)]
    # A batch that was asked for or is published is no assumption, nor one that no rule gives.
    request.global_batches = (4096,)
    assert assumed(search) == expected[:-1]
    request.global_batches, batch.published.assumed = None, False
    assert assumed(search) == expected[:-1]
    monkeypatch.setattr(module, "default_batch", lambda *_: None)
    assert assumed(search) == expected[:-1]
    # Without kernels and a library nothing else is fitted.
    accelerator.kernels = cluster.fabric.library = None
    assert [row.about for row in assumed(search)] == [
        "accelerator.kernels", "accelerator", "fabric", "plan", "plan"
    ]  # fmt: skip


def named(name: str, **facts: Any) -> Any:
    """A cluster of this name, on a fabric and accelerators of which only these facts are asked for."""
    fabric = {"kind_name": "switch", "library": None, "built_of": "", "warnings": ()} | facts.pop("fabric", {})
    chip = {"name": "v1", "calibration": None, "transport": "nccl", "sources": {}} | facts.pop("chip", {})
    known: dict[str, Any] = {"fabric": SimpleNamespace(**fabric), "accelerator": SimpleNamespace(**chip)}
    return SimpleNamespace(name=name, **known | {"sources": {}, "description": f"as {name} is"} | facts)


def test_carriers_take_arithmetic_by_a_source_an_assumption_or_as_stated() -> None:
    def carrier(share: float, source: str = "") -> dict[str, Any]:
        transport = SimpleNamespace(
            name="nccl", arithmetic_share=share, priors=lambda: {"arithmetic_share": SimpleNamespace(source=source)}
        )
        return {"library": SimpleNamespace(transport=transport)}

    begins = "transport of switch: nccl, in closed form; its constants are fitted; exchanges take "
    shares = [carrier(0.125, "a paper"), carrier(0.25, "assumption: a guess"), carrier(0.0, "unread"), carrier(0.5)]
    clusters = [named(f"c{number}", fabric=each) for number, each in enumerate([*shares, {}, shares[0]])]
    assert carried_lines(clusters) == [
        f"{begins}12% of the arithmetic beside them, a paper",
        f"{begins}25% of the arithmetic beside them, an assumption",
        f"{begins}0% of the arithmetic beside them, as stated",
        f"{begins}50% of the arithmetic beside them, as stated",
    ]


def test_what_was_read_and_built_and_is_warned_of_is_told_once() -> None:
    read = {"fabric": f"{ORIGIN} network.yml"}
    system = {"sources": {"name": f"{SYSTEM} file"}}
    clusters = [named("a", sources=read, chip=system), named("b", sources=read), named("a", sources=read), named("c")]
    assert imported_lines(clusters) == [
        f"{ORIGIN} network.yml: as a is", f"{ORIGIN} network.yml: as b is", f"{SYSTEM} file"
    ]  # fmt: skip
    averagers = [named("a", fabric={"built_of": "mirrors"}), named("b"), named("a", fabric={"built_of": "lenses"})]
    assert built_lines(averagers) == ["averager of a: lenses"]
    warned = [named("a", fabric={"warnings": ("hot", "dim")}), named("b", fabric={"warnings": ("far",)}), named("c")]
    assert warning_lines(warned) == ["switch of a: hot", "switch of a: dim", "switch of b: far"]


def test_values_of_a_part_are_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """A calibration says what it lacks of the library's transport only where the accelerator names that one."""
    values = [
        ("accelerator", "peak_rate", "2", "guess"),
        ("accelerator.kernels", "fusion", "0.8", "guess"),
        ("accelerator.kernels", "dispatch", "", "guess"),
        ("fabric", "taper", "1", "guess"),
        ("reference", "bandwidth", "3", "guess"),
        ("cluster", "ranks", "4", "guess"),
    ]
    monkeypatch.setattr(module, "assumed_values", lambda cluster: iter(values if cluster.name == "a" else values[-1:]))
    assert assumed_lines([named("a"), named("a"), named("b")]) == [
        "assumed of v1: peak rate 2",
        "assumed of v1's kernels: fusion 0.8, dispatch",
        "assumed of switch: taper 1",
        "assumed of the electrical reference: bandwidth 3",
        "assumed of a: ranks 4",
        "assumed of b: ranks 4",
    ]

    class Fit(SimpleNamespace):
        """A calibration that has none of the parameters that it is asked for."""

        def __str__(self) -> str:
            return "a fit"

        def at_priors(self, names: list[str]) -> list[str]:
            return ["fusion", *names]

    transport = SimpleNamespace(name="nccl", priors=lambda: {"rate": None})
    library = {"library": SimpleNamespace(transport=transport)}
    begins, ends = ["calibrated: v1: a fit"], ", as it is older: {}; priors take their places"
    for fabric, chip, absent in (
        (library, {}, "fusion, rate"),
        (library, {"transport": "mpi"}, "fusion"),
        ({}, {}, "fusion"),
    ):
        lines = assumed_lines([named("b", fabric=fabric, chip={"calibration": Fit()} | chip)])
        assert lines[:2] == [*begins, "not in that calibration" + ends.format(absent)]
    monkeypatch.setattr(Fit, "at_priors", lambda *_: [])
    assert assumed_lines([named("b", chip={"calibration": Fit()})]) == [*begins, "assumed of b: ranks 4"]
