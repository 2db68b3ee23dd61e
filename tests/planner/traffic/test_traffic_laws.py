"""Jobs together: what they slow each other down by, in closed form, and what is found among all divisions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.collectives.collective import Collective
from lightloom.collectives.registry import build, find
from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.machines.fabrics.derived import links_of
from lightloom.machines.fabrics.load import load_fabric
from lightloom.machines.fabrics.switches import PacketSwitch, PartFabric
from lightloom.planning.pricing.strategy_step import ExchangeUse
from lightloom.planning.simulation.pipelined import StageTimes
from lightloom.planning.traffic import jobs as exchanges_module
from lightloom.planning.traffic import together
from lightloom.planning.traffic.jobs import (
    DATA,
    PASSES,
    SENDS,
    Exchange,
    TrafficJob,
    Work,
    check_jobs,
    link_load,
    plan_exchanges,
    sort_of,
    splits,
)
from lightloom.planning.traffic.together import link_shares
from tests.collectives.strategies import wdm_ring

SORTS = (PASSES, DATA, SENDS)
JOB = TrafficJob(what="all-reduce", ranks=(0, 1))


def work(
    base: float,
    parts: list[tuple[float, int]],
    links: int = 3,
    *,
    alone: float | None = None,
    usage: float = 1.0,
    flows: int = 1,
) -> Work:
    """A job of ``base`` seconds and exchanges of so many seconds, each on one link, in so many flows."""
    exchanges = [
        Exchange(sort, busy, usage * np.eye(links)[link], usage * np.eye(links)[link] / flows)
        for sort, (busy, link) in zip(SORTS, parts, strict=False)
    ]

    def slowed(slowdown: Mapping[str, float]) -> float:
        return base + sum(each.busy * slowdown.get(each.sort, 1.0) for each in exchanges)

    seconds = slowed({}) if alone is None else alone
    fabric: Any = None
    return Work(job=JOB, fabric=fabric, seconds=seconds, label="made up", exchanges=exchanges, slowed=slowed)


JOBS = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.lists(st.tuples(st.integers(1, 5), st.integers(0, 2)), min_size=1, max_size=2, unique=True),
    ),
    min_size=2,
    max_size=3,
)


@settings(max_examples=30)
@given(JOBS, st.sampled_from([1.0, 1.5]))
def test_an_exchange_shares_its_link_with_whoever_is_on_it(jobs: Any, scale: float) -> None:
    """On a link that exchanges fill, each takes as many times longer as there are; on average one more than the shares
    of their steps of those of other jobs. Steps grow until shares and slowdowns agree."""
    works = [work(base, parts, alone=scale * (base + sum(busy for busy, _ in parts))) for base, parts in jobs]
    found = together._on_packets(works)
    for own, result in zip(works, found, strict=True):
        assert result.alone is own and result.together is own
        assert result.slowdowns.keys() == {each.sort for each in own.exchanges}
        for each in own.exchanges:
            beside = 0.0
            for other in found:
                if other is not result:
                    busy = [part.busy * other.slowdowns[part.sort] / other.seconds for part in other.alone.exchanges]
                    for part, share in zip(other.alone.exchanges, busy, strict=True):
                        beside += share / max(sum(busy), 1) * float(part.usage @ each.usage)
            assert result.slowdowns[each.sort] == pytest.approx(1 + beside, rel=1e-4)
        assert result.seconds == pytest.approx(scale * own.slowed(result.slowdowns), rel=1e-4)
        assert result.slowdown == pytest.approx(result.seconds / own.seconds)


@pytest.mark.parametrize(("flows", "slowdowns"), [((1, 4), (5, 1.25)), ((1, 1), (2, 2)), ((2, 6), (4, 4 / 3))])
def test_flows_share_a_link_and_not_exchanges(flows: tuple[int, int], slowdowns: tuple[float, float]) -> None:
    """While two jobs send without a pause, each flow has as much of the link as any other."""
    jobs = [work(0.0, [(1.0, 0)], flows=count) for count in flows]
    assert [each.slowdown for each in together._on_packets(jobs)] == pytest.approx(list(slowdowns))


@pytest.mark.parametrize("algorithm", ["one-stage", "ring"])
def test_flows_on_a_link_are_the_pairs_of_ranks_whose_bytes_cross_it(algorithm: str) -> None:
    """Weighed by bytes, step by step; of a pair that sends several chunks, one."""
    ring = PartFabric.on(load_fabric("ring", 8, set={"bandwidth": "1GB/s"}), range(8))
    schedule = build(find(algorithm), Collective("all-gather", 8, 8e6), ring).unfolded(ring.fibre_channels)
    crossing: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for step, source, to, route in zip(
        schedule.step, schedule.source, schedule.destination, schedule.route, strict=True
    ):
        ends = (np.array([each]) for each in (source, to, route))
        for link in links_of(ring.footprint(*ends))[1].tolist():
            crossing.setdefault((int(step), link), []).append((int(source), int(to)))
    wanted = np.zeros(ring.links)
    for link in range(ring.links):
        steps = [pairs for (_, crossed), pairs in crossing.items() if crossed == link]
        if steps:
            wanted[link] = sum(len(pairs) * len(set(pairs)) for pairs in steps) / sum(map(len, steps))
    assert link_load(schedule, ring)[1] == pytest.approx(wanted)
    assert (wanted.max() > 1) == (algorithm == "one-stage")


def test_jobs_that_take_no_time_are_not_slowed_down() -> None:
    nothing, busy = work(0.0, [(0.0, 0)]), work(1.0, [(2.0, 0)])
    found = together._on_packets([nothing, busy])
    assert [each.slowdown for each in found] == [1.0, 1.0] and [each.seconds for each in found] == [0.0, 3.0]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 3)), min_size=0, max_size=3), st.integers(0, 9))
def test_shares_of_a_step_and_what_is_left_of_it_are_one(parts: list[tuple[int, int]], seconds: int) -> None:
    of = work(1.0, [(float(busy), 0) for busy, _ in parts])
    slowdown = {each.sort: float(longer) for each, (_, longer) in zip(of.exchanges, parts, strict=True)}
    found = together._shares(of, slowdown, float(seconds))
    busy = [each * longer / (seconds or 1) for each, longer in parts]
    assert found[:-1] == pytest.approx([each / max(sum(busy), 1) for each in busy])
    assert found.sum() == pytest.approx(1) and len(found) == len(parts) + 1 and found[-1] >= 0


@given(st.integers(2, 3), st.integers(2, 12), st.integers(0, 999))
def test_the_division_of_the_least_worst_slowdown_is_taken(count: int, channels: int, seed: int) -> None:
    """Of equal ones the first; divisions with which a job has no circuits are left out."""
    rng = np.random.default_rng(seed)
    alone: Any = [SimpleNamespace(seconds=float(rng.integers(1, 4))) for _ in range(count)]
    table = {key: float(rng.choice([2.0, 3.0, 4.0, 5.0, np.inf])) for key in product(range(count), range(channels + 1))}
    requests: Any = [SimpleNamespace(job=SimpleNamespace(label=f"job {number}")) for number in range(count)]
    on: Any = SimpleNamespace(fabric=SimpleNamespace(shared_channels=channels))
    asked: list[tuple[int, int]] = []

    def made(request: Any, cluster: Any, own: int, same: Any) -> Any:
        number = requests.index(request)
        assert cluster is on and same is alone[number]
        asked.append((number, own))
        if table[number, own] == np.inf:
            raise UnsupportedError("no circuits")
        return SimpleNamespace(seconds=table[number, own], key=(number, own))

    ways = list(splits(channels, count)) if channels >= count else []
    worst = [max(table[number, own] / alone[number].seconds for number, own in enumerate(way)) for way in ways]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(together, "_work", made)
        if min(worst, default=np.inf) == np.inf:
            with pytest.raises(ConfigError, match=f"jobs job 0 and job 1.* meet on links of {channels} channels"):
                together._divided(requests, alone, range(count), on)
        else:
            found: Any = together._divided(requests, alone, range(count), on)
            assert [each.key for each in found] == list(enumerate(ways[worst.index(min(worst))]))
    assert len(set(asked)) == len(asked)


@pytest.mark.parametrize(("exclusive", "channels", "held"), [(False, None, None), (True, None, 16), (True, 3, 3)])
@pytest.mark.parametrize("graph", [None, "model"])
def test_a_job_holds_all_channels_unless_it_gets_some(
    exclusive: bool, channels: int | None, held: int | None, graph: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = SimpleNamespace(ranks=4)
    parts: dict[Any, Any] = {("job", "fabric", channels): part}
    monkeypatch.setattr(together, "job_fabric", lambda job, fabric, own: parts[job, fabric.name, own])
    monkeypatch.setattr(together, "replace", lambda of, **changes: changes)
    monkeypatch.setattr(together, "_collective", lambda *told: ("collective", *told))
    monkeypatch.setattr(together, "_plan", lambda *told: ("plan", *told))
    request: Any = SimpleNamespace(job="job", graph=graph, training=None)
    fabric = SimpleNamespace(exclusive=exclusive, shared_channels=16, name="fabric")
    on: Any = SimpleNamespace(fabric=fabric, training=None)
    found: Any = together._work(request, on, channels, "same")  # type: ignore[arg-type]
    cluster = {"fabric": part, "ranks": 4, "reference": None, "training": None}
    assert found == (("collective", request, part, held) if graph is None else ("plan", request, cluster, held, "same"))


@pytest.mark.parametrize("algorithm", [None, "ring"])
@pytest.mark.parametrize("held", [None, 2])
def test_a_collective_asks_for_the_algorithm_that_is_named_or_for_all(
    algorithm: str | None, held: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    part = PartFabric.on(PacketSwitch(ranks=4, bandwidth=1e9), range(3))
    schedule = build(find("ring"), Collective("all-reduce", 3, 3e6), part)
    one = SimpleNamespace(cost=SimpleNamespace(repeated_time=2.0), algorithm=find("ring"), schedule=schedule)
    answers: list[Any] = [([], [SimpleNamespace(why="no such links")]), ([one], [])]

    def evaluated(collective: Collective, fabric: Any, candidates: Any) -> Any:
        asked.append((collective, fabric, None if candidates is None else [each.name for each in candidates]))
        return answers[len(asked) - 1]

    monkeypatch.setattr(together, "evaluate_all", evaluated)
    request: Any = SimpleNamespace(job=JOB, nbytes=3e6, algorithm=algorithm)
    with pytest.raises(UnsupportedError, match="job all-reduce: no such links"):
        together._collective(request, part, held)
    found = together._collective(request, part, held)
    assert asked == [(Collective("all-reduce", 3, 3e6), part, None if algorithm is None else ["ring"])] * 2
    assert (len(found.parts), len(found.exchanges), found.channels) == ((0, 1, None) if held is None else (1, 0, 2))
    if held is None:
        assert found.exchanges[0].busy == 2.0
        assert found.exchanges[0].usage == pytest.approx(link_load(schedule, part)[0] / 2.0)


def test_links_are_busy_with_all_bytes_that_cross_them() -> None:
    ring = load_fabric("ring", 5, set={"bandwidth": "1GB/s"})
    around = link_load(build(find("ring"), Collective("all-reduce", 5, 5e6), ring), ring)[0]
    assert sorted(around)[-5:] == pytest.approx([2 * 4 * 1e6 / ring.link_bandwidth()[0]] * 5)
    assert around.sum() == pytest.approx(around.max() * 5)
    switch = PacketSwitch(ranks=8, bandwidth=1e9)
    for name in ("ring", "halving-doubling", "double-binary-tree"):
        found = link_load(build(find(name), Collective("all-reduce", 8, 8e6), switch), switch)[0]
        # Every rank's sum needs what all others have, and they its.
        assert found.sum() == pytest.approx(2 * 2 * 7 * 8e6 / switch.link_bandwidth()[0], rel=1e-6)
    nothing = exchanges_module.collective_exchange(SimpleNamespace(schedule=None), switch, 0.0)  # type: ignore[arg-type]
    assert nothing.usage.tolist() == [0.0] * switch.links and nothing.sort == DATA


def stage_times(rng: np.random.Generator, stages: int, chunks: int) -> StageTimes:
    by_stage = ("gather", "exchange", "tied", "update")
    sizes = {each.name: stages if each.name in by_stage else chunks for each in fields(StageTimes)}
    return StageTimes(**{name: rng.uniform(1, 9, size) for name, size in sizes.items()})


@pytest.mark.parametrize("seed", range(3))
def test_a_stage_exchanges_passes_of_every_micro_batch_and_the_rest_once(seed: int) -> None:
    rng, stages, micro = np.random.default_rng(seed), 2 + seed, 1 + seed
    times = stage_times(rng, stages, 2 * stages)
    strategy: Any = SimpleNamespace(micro_batches=micro)
    found = exchanges_module._busy(strategy, SimpleNamespace(stages=SimpleNamespace(times=times)))  # type: ignore[arg-type]
    passes = micro * sum([*times.forward_exchange, *times.backward_exchange])
    sends = micro * sum([*times.send, *times.send, *times.forward_ring, *times.backward_ring])
    data = micro * sum([*times.forward_gather, *times.backward_gather]) + sum(
        [*times.early_exchange, *times.late_exchange, *times.gather, *times.exchange, *times.tied]
    )
    assert [found[sort] * stages for sort in (PASSES, DATA, SENDS)] == pytest.approx([passes, data, sends])
    alone: Any = SimpleNamespace(stages=None, communication_time=3.0)
    assert exchanges_module._busy(strategy, alone) == {PASSES: 0.0, DATA: 3.0, SENDS: 0.0}


@given(st.tuples(*[st.integers(0, 2)] * 3), st.lists(st.sampled_from(["tensor", "expert", "data"]), max_size=3))
def test_a_plan_has_an_exchange_of_each_sort_that_takes_time(busy: tuple[int, ...], uses: list[str]) -> None:
    """Whose links are those of its largest collective."""
    made = {
        "tensor": ExchangeUse("all-reduce", 4, 1, 9.0, "ring"),
        "expert": ExchangeUse("all-to-all", 2, 4, 8.0, "ring"),
        "data": ExchangeUse("all-reduce", 2, 4, 7.0, "ring"),
    }
    strategy: Any = SimpleNamespace(tp=4)
    step: Any = SimpleNamespace(exchanges=[made[name] for name in uses])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(exchanges_module, "_busy", lambda *_: dict(zip(SORTS, map(float, busy), strict=True)))
        patched.setattr(
            exchanges_module, "_group_exchange", lambda sort, own, job, strategy, use, part: (sort, own, use)
        )
        patched.setattr(exchanges_module, "_send_exchange", lambda own, strategy, part: (SENDS, own, "sends"))
        found = plan_exchanges(None, strategy, step, None)  # type: ignore[arg-type]
    firsts = {
        PASSES: next((made[name] for name in uses if name != "data"), None),
        DATA: made["data"] if "data" in uses else None,
        SENDS: "sends",
    }
    expected = [(sort, own, firsts[sort]) for sort, own in zip(SORTS, busy, strict=True) if own and firsts[sort]]
    assert [*found] == expected  # type: ignore[comparison-overlap]


@given(st.integers(1, 4), st.sampled_from(["all-reduce", "all-to-all"]), st.integers(1, 4), st.integers(1, 2))
def test_tensor_groups_are_neighbours(tp: int, kind: Any, ranks: int, stride: int) -> None:
    strategy: Any = SimpleNamespace(tp=tp)
    inside = kind == "all-to-all" or (1 < tp == ranks and stride == 1)
    assert sort_of(strategy, kind, ranks, stride) == (PASSES if inside else DATA)


@pytest.mark.parametrize(("stride", "ranks"), [(2, 4), (1, 2), (4, 8)])
def test_all_ranks_send_to_the_next_stage_at_once(stride: int, ranks: int) -> None:
    ring = load_fabric("ring", 8, set={"bandwidth": "1GB/s"})
    part = PartFabric.on(ring, range(0, 8, 8 // ranks))
    strategy: Any = SimpleNamespace(replicas=stride, tp=1)
    _, _, found, flow_rate = exchanges_module._send_exchange(1.0, strategy, part)
    load = np.zeros(ring.links)
    for rank in range(ranks):
        one, to = (np.array([each]) for each in (rank, (rank + stride) % ranks))
        assert part.route(one, to).shape == (1,)
        _, links = links_of(part.footprint(one, to, part.route(one, to)))
        load[links] += 1
    assert found == pytest.approx(load / load.max()) and load.sum() > 0
    assert flow_rate == pytest.approx(found * 1e9 / np.maximum(load, 1))


def test_a_collective_uses_links_for_the_share_of_its_time_in_which_it_sends() -> None:
    ring = PartFabric.on(load_fabric("ring", 8, set={"bandwidth": "1GB/s"}), range(8))
    for ranks, stride in ((8, 1), (4, 2)):
        use = ExchangeUse("all-reduce", ranks, stride, 8e6, "ring")
        group = ring if ranks == 8 else ring.group(ranks, stride)
        assert group is not None
        seconds = link_load(build(find("ring"), Collective("all-reduce", ranks, 8e6), group), group)[0]
        for longer in (0.5, 4.0):
            time = longer * float(seconds.max())
            price = SimpleNamespace(cost=SimpleNamespace(time=time))
            asked: list[Any] = []
            job: Any = SimpleNamespace(
                pricing=SimpleNamespace(
                    price=lambda *told, to=asked, answer=price: to.append(told) or (lambda *_: answer)
                )
            )
            strategy: Any = SimpleNamespace(algorithm="auto", exchange=0)
            found = exchanges_module._group_exchange("data", 1.0, job, strategy, use, ring).usage
            assert asked == [("auto", ranks, 0, stride)]
            assert found == pytest.approx(np.minimum(seconds / time, 1.0)) and found.max() == min(1, 1 / longer)


def test_jobs_take_a_share_of_each_link_or_hold_channels_of_it() -> None:
    ring = wdm_ring(8, 4)
    exchange = [Exchange(PASSES, 2.0, np.eye(16)[3], np.eye(16)[3]), Exchange(DATA, 1.0, np.full(16, 0.5), np.ones(16))]
    sending = replace(work(0.0, []), exchanges=exchange, seconds=4.0)
    holding = replace(work(0.0, []), job=TrafficJob(what="all-reduce", ranks=(1, 2, 3)), channels=3)
    idle = replace(sending, seconds=0.0, exchanges=[Exchange(DATA, 0.0, np.ones(16), np.ones(16))])
    jobs: Any = [SimpleNamespace(together=each) for each in (sending, holding, idle)]
    found = link_shares(jobs, ring)
    assert found[0] == pytest.approx(2 / 4 * np.eye(16)[3] + 1 / 4 * 0.5)
    assert found[1].tolist() == [3 / 4 * (link % 8 in (1, 2)) for link in range(16)]
    assert not found[2].any()


@given(
    st.sampled_from(["gpt2-355m", "all-reduce"]),
    st.tuples(st.integers(0, 9), st.integers(1, 30), st.integers(1, 5)),
    st.dictionaries(st.sampled_from(["tp", "global-batch", "name"]), st.sampled_from(["1", "64MiB"])),
)
def test_jobs_are_read_as_they_are_written(what: str, ranks: tuple[int, int, int], options: dict[str, str]) -> None:
    first, further, step = ranks
    members = tuple(range(first, first + further + 1, step))
    written = ",".join(f" {name.replace('-', '_')} = {value} " for name, value in options.items())
    text = f"{what} @{first}-{first + further}" + (f"/{step}" if step > 1 else "") + (f":{written}" if written else "")
    if len(members) == 1:
        with pytest.raises(ConfigError, match="expected at least two ranks"):
            TrafficJob.parse(text)
        return
    job = TrafficJob.parse(text)
    name = options.pop("name", "")
    assert job == TrafficJob(what=what, ranks=members, options=options, name=name) and job.label == (name or what)
    assert TrafficJob.parse(f"{what}@{job.ranks_text}").ranks == members


@pytest.mark.parametrize("text", ["@0-3", "a", "a@0-3:=1", "a@0-3:b=", "a@0-3:b", "a@3", "a@3-3", "a@0-3/0", "a@5-3"])
def test_jobs_without_a_part_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="expected"):
        TrafficJob.parse(text)


@given(st.lists(st.lists(st.integers(-1, 6), min_size=1, max_size=3, unique=True), max_size=3))
def test_jobs_run_at_once_where_each_rank_is_there_and_in_one_job_at_most(ranks: list[list[int]]) -> None:
    jobs = [TrafficJob(what="all-reduce", ranks=tuple(each)) for each in ranks]
    every = [rank for each in ranks for rank in each]
    if len(jobs) >= 2 and len(set(every)) == len(every) and all(0 <= rank < 6 for rank in every):
        check_jobs(jobs, 6)
    else:
        with pytest.raises(ConfigError):
            check_jobs(jobs, 6)


def test_of_algorithms_as_fast_as_each_other_a_collective_takes_the_first_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Once circuits stand, however long they take to be set up."""
    part = PartFabric.on(PacketSwitch(ranks=4, bandwidth=1e9), range(4))

    def evaluated(name: str, repeated: float) -> Any:
        schedule = build(find(name), Collective("all-reduce", 4, 4e6), part)
        return SimpleNamespace(cost=SimpleNamespace(repeated_time=repeated), algorithm=find(name), schedule=schedule)

    request: Any = SimpleNamespace(job=JOB, nbytes=4e6, algorithm=None)
    for times, label in (
        ({"ring": 2.0, "halving-doubling": 2.0}, "halving-doubling"),
        ({"ring": 1.0, "halving-doubling": 2.0}, "ring"),
    ):
        evaluations = [evaluated(*each) for each in times.items()]
        monkeypatch.setattr(together, "evaluate_all", lambda *_, found=evaluations, **__: (found, []))
        assert together._collective(request, part, None).label == label
