"""Changed questions: which are asked of a winner, what each changes, which are answered, and what is told of them."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lightloom.core.errors import UnsupportedError
from lightloom.machines.clusters.load import load_cluster
from lightloom.machines.fabrics.load import load_fabric
from lightloom.planning.pricing.broadcast_step import BroadcastStep
from lightloom.planning.pricing.group_prices import GroupPrices
from lightloom.planning.search import what_if
from lightloom.planning.search.request import KINDS, SearchRequest
from lightloom.planning.search.search import LatencySensitivity
from lightloom.planning.search.what_if import Change, WhatIf, WhatIfs, Winner, counterpart, faster

WINNER = Winner("data 16", 64, 192.0, 3.0)
RING = load_cluster("terarack-64", set={"ranks": 16})
"""Circuits on a ring, with an electrical reference."""


def question(*, ranks: int = 16, batch: int = 64, runnable: bool = True, on: Any = None, **asked: Any) -> Any:
    """A search whose winner runs on so many ranks."""
    cluster = on or (RING if ranks == 16 else load_cluster("terarack-64", set={"ranks": ranks}))
    winner = SimpleNamespace(
        cluster=cluster,
        global_batch=batch,
        runnable=runnable,
        sample_time=2.0,
        step=None,
        job=SimpleNamespace(pricing=None),
    )
    return SimpleNamespace(graph="graph", winner=winner, request=SearchRequest(**asked))


def refused(*_: object, **__: object) -> Any:
    raise UnsupportedError("too small")


def names(found: Any, method: Any = None) -> list[str]:
    return [change.name for change in WhatIfs(found, method).changes()]


def test_network_batch_and_accelerator_are_changed_one_at_a_time() -> None:
    asked = WhatIfs(question(largest_batches=True, divisions=7))
    links, reference, half, twice, chip = asked.changes()
    assert [each.name for each in (links, reference, half, twice, chip)] == [
        "80 Gb/s a wavelength", "electrical switch", "half the batch", "twice the batch", "H100"
    ]  # fmt: skip
    assert links.arguments == {"set": {"fabric.wavelength_bandwidth": 1e10}}
    assert [each.arguments for each in (reference, half, twice, chip)] == [
        {}, {"global_batch": 32}, {"global_batch": 128}, {"accelerator": "h100"}
    ]  # fmt: skip
    assert [each.network for each in (links, reference, half, twice, chip)] == [True, True, False, False, False]
    assert RING.reference is not None
    assert reference.cluster == replace(RING, fabric=RING.reference, reference=None)
    assert links.cluster == replace(RING, fabric=RING.fabric.model_copy(update={"wavelength_bandwidth": 1e10}))
    assert half.cluster is twice.cluster is RING and chip.cluster.accelerator.chip == "h100"
    kinds = tuple(kind for kind in KINDS if kind != "placed")
    request = SearchRequest(global_batches=(64,), compare=False, divisions=1, strategies=kinds)
    assert links.request == reference.request == chip.request == request
    assert [each.request for each in (half, twice)] == [replace(request, global_batches=(n,)) for n in (32, 128)]


def test_changes_are_asked_where_they_apply() -> None:
    """A sample a rank is the least, one rank has no network, and no chip follows the last one."""
    method: Any = SimpleNamespace(name="int8:feedback")
    network = ["80 Gb/s a wavelength", "electrical switch"]
    assert names(question(batch=16)) == [*network, "twice the batch", "H100"]
    assert names(question(batch=32)) == [*network, "half the batch", "twice the batch", "H100"]
    assert names(question(), method)[2] == "int8 gradients"
    *_, coded, _, _, _ = WhatIfs(question(), method).changes()
    assert coded.arguments == {"exchange": "int8:feedback"} and coded.network and coded.cluster is RING
    assert coded.request.exchanges == (method,)
    assert names(question(exchanges=(method,)), method) == names(question())
    alone = question(ranks=1, batch=1)
    assert names(alone, method) == ["twice the batch", "H100"]
    assert names(question(ranks=2, batch=2), method) == [*network, "int8 gradients", "twice the batch", "H100"]
    last = replace(RING, accelerator=RING.accelerator.model_copy(update={"name": "mine", "base": None}))
    if last.accelerator.chip not in what_if._SUCCESSORS:
        assert names(question(on=last)) == names(question())[:-1]
    bare = replace(RING, reference=None)
    assert names(question(on=bare))[:2] == ["80 Gb/s a wavelength", "half the batch"]
    packets = replace(bare, fabric=load_fabric("ethernet-400g", 16, set={"transport": "ideal"}))
    changes = [*WhatIfs(question(on=packets)).changes()]
    assert [each.name for each in changes][:2] == ["800 Gb/s links", "optical circuits"]
    assert changes[1].network and changes[1].cluster.fabric == counterpart(packets.fabric)
    assert WhatIfs(question(runnable=False))._request.strategies == KINDS


def test_circuits_of_eight_planes_have_the_bandwidth_of_a_packet_switch() -> None:
    packets = load_fabric("ethernet-400g", 16, set={"transport": "ideal"})
    circuits: Any = counterpart(packets)
    assert (circuits.kind_name, circuits.ranks, circuits.degree) == ("circuit-switch", 16, 8)
    assert circuits.bandwidth == 6.25e9
    assert counterpart(RING.fabric) is None
    states: dict[str, Any] = {"exclusive": False, "in_network_reduction": False, "library": None, "ranks": 16}
    for other in ({"in_network_reduction": True, "bandwidth": 1e9}, {"library": "some", "bandwidth": 1e9}, {}):
        one: Any = SimpleNamespace(**states | other)
        assert counterpart(one) is None
    one = SimpleNamespace(**states, bandwidth=8e9)
    circuits = counterpart(one)
    assert circuits.bandwidth == 1e9


def test_links_are_faster_but_those_within_nodes() -> None:
    tiers = load_cluster("h100-512-two-tier", set={"ranks": 16}).fabric
    inner, outer = tiers.model_dump()["tiers"]
    found, settings = faster(tiers, 3.0)
    assert settings == {"tiers.1.bandwidth": 3 * outer["bandwidth"]}
    assert [tier["bandwidth"] for tier in found.model_dump()["tiers"]] == [inner["bandwidth"], 3 * outer["bandwidth"]]
    one = found.model_copy(update={"ranks": 8, "tiers": found.tiers[:1]})  # type: ignore[attr-defined]
    assert faster(one, 2.0)[1] == {"tiers.0.bandwidth": 2 * inner["bandwidth"]}
    silent: Any = SimpleNamespace(ranks=4, model_dump=lambda **_: {"ranks": 4})
    assert faster(silent, 2.0) == (silent, {})


class Told(WhatIfs):
    """Changes of these names, those of the network in capitals, where a network without delay leaves so much."""

    def __init__(self, changes: str, limit: float) -> None:
        super().__init__(question())
        self.asked, self.__dict__["limit"] = changes, limit

    def changes(self) -> Any:
        for name in self.asked:
            yield Change(name, {}, RING, self._request, network=name.isupper())

    def _answer(self, change: Change, advance: Any) -> WhatIf:
        advance()
        return WhatIf(change=change, winner=None, step=1.0)


@pytest.mark.parametrize(
    ("changes", "limit", "answered"),
    [
        ("abcdefg", 0.5, "abcde"),
        ("ABcd", 0.5, "ABcd"),
        # The bound answers the first of the network; it counts as an answer.
        ("aBCdEfghi", 0.99, "aB!dfg"),
        ("AbcdeF", 0.99, "A!bcde"),
        # A gain of exactly what matters is worth a search.
        ("ABc", 0.75, "ABc"),
    ],
)
def test_five_changes_are_answered_and_no_network_that_hardly_matters(
    changes: str, limit: float, answered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if limit == 0.75:
        monkeypatch.setattr(what_if, "MATTERS", 0.25)
    told: list[int] = []
    found = [*Told(changes, limit).answers(lambda: told.append(0))]
    assert "".join(each.change.name + "!" * (each.step == limit) for each in found) == answered
    assert all(each.winner is None for each in found) and len(told) == len(found) - answered.count("!")


def test_an_answer_is_the_ratio_of_samples_or_why_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WhatIfs, "_path", lambda *_: None)
    asked = WhatIfs(question())
    change = next(asked.changes())
    seen: list[object] = []

    def searched(graph: object, cluster: object, request: object, *, prices: GroupPrices, advance: Any) -> Any:
        seen.extend((graph, cluster, request, prices.fabric, advance))
        return SimpleNamespace(winner=WINNER)

    monkeypatch.setattr(what_if, "search", searched)
    found = asked._answer(change, print)
    assert (found.step, found.why, found.change) == (1.5, "", change) and found.winner == WINNER
    assert seen == ["graph", change.cluster, change.request, change.cluster.fabric, print]
    monkeypatch.setattr(what_if, "search", refused)
    found = asked._answer(change, print)
    assert (found.step, found.why, found.winner) == (inf, "too small", None)


def test_winners_and_limits_are_read_from_the_disk_where_the_same_was_asked_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For the same model, cluster and request alone, and not where plug-ins are installed; refusals are not kept."""
    monkeypatch.setenv("LIGHTLOOM_CACHE", str(tmp_path))
    asked = question()
    asked.graph, asked.winner.job.splits_neurons = SimpleNamespace(to_json=lambda: {"name": "graph"}), False
    first, second, *others = WhatIfs(asked).changes()
    times = iter((3.0, 5.0))
    monkeypatch.setattr(what_if, "search", refused)
    assert WhatIfs(asked)._answer(first, print).why == "too small"
    monkeypatch.setattr(
        what_if, "search", lambda *_, **__: SimpleNamespace(winner=WINNER._replace(sample_time=next(times)))
    )
    answers = [WhatIfs(asked)._answer(change, print) for change in (first, second)]
    assert [answer.step for answer in answers] == [1.5, 2.5]
    monkeypatch.setattr(what_if, "search", refused)
    assert [WhatIfs(asked)._answer(change, print) for change in (first, second)] == answers
    assert all(WhatIfs(asked)._answer(change, print).why for change in others)
    monkeypatch.setattr(what_if, "free_rows", lambda *_, **__: "rows")
    monkeypatch.setattr(what_if, "Floor", SimpleNamespace(of=lambda *_: SimpleNamespace(per_sample=[0.5])))
    assert WhatIfs(asked).limit == 0.25
    monkeypatch.setattr(what_if, "free_rows", refused)
    assert WhatIfs(asked).limit == 0.25
    asked.winner.sample_time = 4.0
    assert WhatIfs(asked).limit == 0.0
    monkeypatch.setattr(what_if, "any_installed", lambda: True)
    assert WhatIfs(asked)._answer(first, print).why == "too small"


def test_no_network_is_faster_than_a_step_without_exchanges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WhatIfs, "_path", lambda *_: None)
    found = question()
    found.winner.step = BroadcastStep(chips=4, computation=3.0, communication_time=1.0)
    found.winner.step_time = 4.0
    assert WhatIfs(found).limit == 0.75
    found = question(exchanges=(), algorithms=("ring",))
    found.winner.job.splits_neurons = "as said"
    asked: Any = []

    def rows(graph: object, cluster: object, request: SearchRequest, *, splits_neurons: object) -> str:
        asked.extend((graph, cluster, request.algorithms, request.exchanges, splits_neurons))
        return "rows"

    def floor(times: list[float]) -> Any:
        return SimpleNamespace(
            of=lambda free, batches: asked.extend((free, batches)) or SimpleNamespace(per_sample=times)
        )

    monkeypatch.setattr(what_if, "free_rows", rows)
    for times, limit in (([0.5, 0.1], 0.25), ([2.5], 1.0), ([], 0.0)):
        monkeypatch.setattr(what_if, "Floor", floor(times))
        assert WhatIfs(found).limit == limit
    assert asked[:7] == ["graph", RING, (), (), "as said", "rows", (64,)]

    monkeypatch.setattr(what_if, "free_rows", refused)
    assert WhatIfs(found).limit == 0.0


def test_answers_say_what_decided_them() -> None:
    change = Change("twice", {"global_batch": 2}, RING, SearchRequest())
    plan: Any = SimpleNamespace(label="data 2", global_batch=2, step_time=3.0)
    common = {"change": "twice", "arguments": {"global_batch": 2}}
    nothing = {"winner": None, "global_batch": None, "iteration_time_s": None}
    assert WhatIf(change=change, winner=plan, step=0.5).to_json() == common | {
        "sample_time_ratio": 0.5, "decided_by": "search", "why": None,
        "winner": "data 2", "global_batch": 2, "iteration_time_s": 3.0,
    }  # fmt: skip
    assert WhatIf(change=change, winner=None, step=0.9).to_json() == common | nothing | {
        "sample_time_ratio": 0.9, "decided_by": "bound", "why": None
    }  # fmt: skip
    assert WhatIf(change=change, winner=None, step=inf, why="too small").to_json() == common | nothing | {
        "sample_time_ratio": None, "decided_by": "refusal", "why": "too small"
    }  # fmt: skip
    assert LatencySensitivity(1e-9, None, None, None).to_json() == {
        "own_hop_latency_s": 1e-9, "changes_at_hop_latency_s": None, "winner": None, "iteration_time_s": None,
        "slower": None,
    }  # fmt: skip
    assert LatencySensitivity(1e-9, 2e-9, plan, 1.5).to_json() == {
        "own_hop_latency_s": 1e-9, "changes_at_hop_latency_s": 2e-9, "winner": "data 2", "iteration_time_s": 3.0,
        "slower": 1.5,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("shapes", "places"),
    [
        (["switch", "ring"], [1]),
        (["ring", "switch"], [0, 1]),
        (["switch", "ring", "switch"], [1, 2]),
        (["switch"], [0]),
        (["ring"], [0]),
    ],
)
def test_only_an_innermost_switch_below_others_is_a_node(
    shapes: list[str], places: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(what_if, "fabric_from", lambda fields, ranks, settings, *, where: (ranks, settings))
    tiers = [{"shape": shape, "bandwidth": 10.0**place} for place, shape in enumerate(shapes)]
    fabric: Any = SimpleNamespace(ranks=8, model_dump=lambda **_: {"tiers": tiers})
    wanted = {f"tiers.{place}.bandwidth": 4 * 10.0**place for place in places}
    changed: Any = faster(fabric, 4.0)
    assert changed == ((8, wanted), wanted)
