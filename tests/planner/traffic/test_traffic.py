"""Jobs alone and together: links of their own cost nothing, alike jobs halve a link, no wavelength is used twice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lightloom as ll
from lightloom.collectives.collective import Collective
from lightloom.collectives.joint import GroupPart
from lightloom.collectives.registry import build, evaluate_all, find
from lightloom.collectives.verify.verifier import verify_joint
from lightloom.core.errors import ConfigError, InputError, VerificationError
from lightloom.machines.clusters.cluster import Cluster
from lightloom.machines.clusters.load import load_cluster
from lightloom.machines.fabrics.fabric import AxisShare, Fabric
from lightloom.planning.search.request import Pins, SearchRequest
from lightloom.planning.traffic.jobs import TrafficJob, Work, job_fabric, neighbours, splits
from lightloom.planning.traffic.together import JobTraffic, Request, traffic, verify_jobs
from tests.planner.jobs import transformer

EVEN, ODD = "all-reduce@0-6/2:nbytes=64MiB,algorithm=ring,name=even", "all-reduce@1-7/2:nbytes=64MiB,name=odd"
LOW, HIGH = "all-reduce@0-3:nbytes=64MiB,name=low", "all-reduce@4-7:nbytes=1MiB,name=high"


def on(fabric: Any, ranks: int = 8) -> Cluster:
    """H100s on a small fabric."""
    return load_cluster("dgx-h100-64", set={"ranks": ranks, "fabric": fabric})


def training(ranks: str, **pins: Any) -> Request:
    """A small transformer."""
    request = SearchRequest(
        global_batches=(16,),
        strategies=("ddp", "fsdp", "tensor-pipeline"),
        pins=Pins(**pins),
        compare=False,
        algorithms=("ring-two-way", "ring-two-way-striped"),
    )
    return Request(job=TrafficJob.parse(f"transformer@{ranks}"), graph=transformer(4, 256), search=request)


def _alone(job: TrafficJob, fabric: Fabric, channels: int) -> Work:
    """A ring all-reduce on so many channels."""
    part = job_fabric(job, fabric, channels)
    schedule = build(find("ring"), Collective("all-reduce", part.ranks, 1e6), part)
    share = AxisShare(part.ranks, 1, 0, part.shared_channels)
    return Work(
        job=job,
        fabric=part,
        seconds=1.0,
        label="ring",
        exchanges=[],
        slowed=lambda _: 1.0,
        parts=[GroupPart("data", share, schedule)],
        channels=channels,
    )


def works(jobs: list[JobTraffic]) -> list[float]:
    """Slowdowns."""
    return [job.slowdown for job in jobs]


def test_alike_jobs_on_the_same_links_take_twice_as_long() -> None:
    job = EVEN, EVEN.replace("0-6", "1-7")
    result = ll.traffic(job, on({"base": "ring", "hop_latency": "0s"}))
    assert [each.slowdown for each in result.jobs] == pytest.approx([2.0, 2.0], rel=1e-6)


@pytest.mark.parametrize("fabric", ["ring", "circuit-switch", "sip-ring"])
def test_jobs_on_links_of_their_own_take_no_longer(fabric: str) -> None:
    result = ll.traffic([LOW.replace("0-3", "1-3"), HIGH.replace("4-7", "5-7")], on(fabric))
    assert [each.slowdown for each in result.jobs] == [1.0, 1.0]


def test_a_model_beside_a_collective_is_slowed_down_by_no_more_than_its_exchanges() -> None:
    cluster, (other,) = on({"base": "ring", "bandwidth": "1GB/s"}), [TrafficJob.parse(ODD)]
    beside = Request(job=other, graph=None, search=None, nbytes=1e8, algorithm="ring")
    for pins in ({"tp": 4}, {"pp": 2, "micro_batches": 2}, {"dp": 4, "micro_batches": 1}):
        model, _ = traffic([training("0-6/2", **pins), beside], cluster, lambda: None)
        assert 1 < model.slowdown <= max(model.slowdowns.values()) <= 2 + 1e-9


def test_rows_say_what_each_exchange_loads_alone() -> None:
    """A row's share of a link is that of its collective's bytes: 1 but for the hops of the steps."""
    jobs = [f"{job},algorithm=ring" for job in (LOW, HIGH)]
    result = ll.traffic(jobs, on({"base": "ring", "hop_latency": "0s"}))
    late = ll.traffic(jobs, on({"base": "ring", "hop_latency": "1ms"}))
    for found, slow, job in zip(result.rows(), late.rows(), result.jobs, strict=True):
        (exchange,), (delayed,) = found["exchanges"].values(), slow["exchanges"].values()
        assert exchange["most_of_a_link"] == pytest.approx(1.0)
        bytes_of_a_link = exchange["busy_alone_s"] / delayed["busy_alone_s"]
        assert delayed["most_of_a_link"] == pytest.approx(bytes_of_a_link) and bytes_of_a_link < 0.9
        assert found["ranks"] == list(job.alone.job.ranks)
    circuits = ll.traffic([LOW, HIGH], on("circuit-switch"))
    assert [row["exchanges"] for row in circuits.rows()] == [{}, {}]
    assert [row["channels_together"] for row in circuits.rows()] == [each.together.channels for each in circuits.jobs]


def test_two_jobs_never_share_a_wavelength() -> None:
    cluster = on({"base": "sip-ring", "wavelengths": 16})
    beside = Request(job=TrafficJob.parse(ODD), graph=None, search=None, nbytes=1e8, algorithm="ring-two-way-striped")
    jobs = traffic([training("0-6/2", tp=2, dp=2), beside], cluster, lambda: None)
    held = [job.together.channels for job in jobs]
    assert None not in held and sum(filter(None, held)) <= 16 and all(slowdown >= 1 for slowdown in works(jobs))
    together = [job.together for job in jobs]
    assert len(verify_jobs(together, cluster.fabric)) > 0
    everything = [replace(work, channels=0) for work in together]
    with pytest.raises(VerificationError, match="share wavelength"):
        verify_jobs(everything, cluster.fabric)


@pytest.mark.parametrize("count", [2, 3, 4])
def test_joined_jobs_keep_their_ranks_steps_lightpaths_and_channels(count: int) -> None:
    """Every row is that of the job's own proof, on numbers and ranks of its own."""
    last, fabric = 3 * count - 1, load_cluster("dgx-h100-64", set={"ranks": 3 * count, "fabric": "sip-ring"}).fabric
    jobs = [TrafficJob(what="all-reduce", ranks=tuple(range(first, last + 1, count))) for first in range(count)]
    each = fabric.shared_channels // (count + 1)
    works = [_alone(job, fabric, each + (number == 1)) for number, job in enumerate(jobs)]
    joined = verify_jobs(works, fabric)
    row = step = path = dependency = channel = 0
    assert joined.dependencies is not None
    for work in works:
        local = work.fabric.embedding()
        own = verify_joint(work.parts, local)
        assert own.dependencies is not None and work.channels is not None
        rows = slice(row, row + len(own.step))
        ranks = np.array(work.job.ranks)
        held = joined.fibre[rows].astype(int) * fabric.fibre_channels + joined.first_wavelength[rows]
        alone = own.fibre.astype(int) * local.fibre_channels + own.first_wavelength
        expected = {
            "step": own.step + step,
            "lightpath": own.lightpath + path,
            "source": ranks[own.source],
            "destination": ranks[own.destination],
            "route": own.route,
            "wavelength_count": own.wavelength_count,
            "chunk": own.chunk,
            "reduces": own.reduces,
        }
        for name, column in expected.items():
            assert np.array_equal(getattr(joined, name)[rows], column), name
        assert np.array_equal(held, alone + channel)
        assert held.min() >= channel and (held + joined.wavelength_count[rows]).max() <= channel + work.channels
        found = joined.dependencies[dependency : dependency + len(own.dependencies)]
        assert np.array_equal(found, own.dependencies + step)
        row, step, dependency = rows.stop, step + own.steps, dependency + len(own.dependencies)
        path, channel = path + len(np.unique(own.lightpath)), channel + work.channels
    assert (row, step, dependency) == (len(joined), joined.steps, len(joined.dependencies))
    assert len(np.unique(joined.lightpath)) == path and joined.chunks == fabric.ranks


def test_a_collective_without_an_algorithm_takes_the_fastest() -> None:
    job = Request(job=TrafficJob.parse("all-reduce@0-7"), graph=None, search=None, nbytes=1e6)
    (chosen,) = traffic([job], on("torus"), lambda: None)
    rows, _ = evaluate_all(Collective("all-reduce", 8, 1e6), chosen.alone.fabric)
    times = {row.algorithm.name: row.cost.repeated_time for row in rows}
    assert chosen.alone.seconds == min(times.values()) < times[min(times)]
    assert chosen.alone.label == min(name for name in times if times[name] == min(times.values()))


@pytest.mark.parametrize("pins", [{"dp": 4}, {"tp": 2, "dp": 2}, {"pp": 2, "dp": 2, "micro_batches": 2}])
def test_light_that_closes_half_a_ring_the_long_way_back_holds_wavelengths_of_its_own(pins: dict[str, int]) -> None:
    cluster = on({"base": "sip-ring", "wavelengths": 16})
    jobs = traffic([training("0-3", **pins), training("4-7", **pins)], cluster, lambda: None)
    assert works(jobs) == [1.0, 1.0]
    assert len(verify_jobs([job.together for job in jobs], cluster.fabric)) > 0


def test_arcs_that_do_not_meet_keep_all_wavelengths() -> None:
    fabric = on("sip-ring").fabric
    parse = TrafficJob.parse
    assert neighbours([parse("all-reduce@0-3"), parse("all-reduce@4-7")], fabric) == [[0], [1]]
    assert neighbours([parse("all-reduce@0-2/2"), parse("all-reduce@1-3/2"), parse("all-reduce@4-7")], fabric) == [
        [0, 1],
        [2],
    ]
    assert neighbours([parse("all-reduce@0-6/2"), parse("all-reduce@1-3")], fabric) == [[0, 1]]


def test_splits_share_out_all_channels() -> None:
    found = list(splits(64, 3))
    assert len(found) == 21 and all(sum(counts) == 64 and min(counts) >= 8 for counts in found)
    assert list(splits(2, 2)) == [(1, 1)]


@pytest.mark.long
@pytest.mark.parametrize(
    ("stated", "stages"),
    [("", "equal"), ("--decoder-first-pipeline-num-layers 3 --decoder-last-pipeline-num-layers 1", (3, 2, 2, 1))],
)
def test_a_script_beside_others_has_the_stages_that_it_states(tmp_path: Path, stated: str, stages: Any) -> None:
    pytest.importorskip("torch")
    path = tmp_path / "run.sh"
    path.write_text(
        "torchrun pretrain_gpt.py --num-layers 8 --hidden-size 512 --num-attention-heads 8 --seq-length 256 "
        "--max-position-embeddings 256 --vocab-size 50257 --pipeline-model-parallel-size 4 --micro-batch-size 2 "
        f"--global-batch-size 64 {stated}\n"
    )

    def alone(settings: dict[str, Any]) -> float:
        there = load_cluster("dgx-h100-64", set={"ranks": 16, **settings})
        return ll.traffic([f"{path}@0-7", "all-reduce@8-15:nbytes=1MiB"], there)[0].alone.seconds

    assert alone({}) == alone({"training.stage_blocks": stages})
    assert alone({}) != pytest.approx(alone({"training.stage_blocks": "balanced"}), rel=1e-3)


@pytest.mark.long
def test_the_document_and_the_picture() -> None:
    result = ll.traffic([EVEN, ODD], on({"base": "sip-ring", "wavelengths": 8}))
    document = result.to_json()
    assert document["schema"] == "lightloom.traffic/1" and document["verified"]
    assert [row["job"] for row in document["rows"]] == ["even", "odd"]
    assert np.isclose(
        document["rows"][0]["slowdown"], document["rows"][0]["together_s"] / document["rows"][0]["alone_s"]
    )
    assert result.figure() is not None and "wavelengths" in result.shared


@pytest.mark.parametrize(
    ("jobs", "message"),
    [
        ([EVEN], "1 jobs: expected at least two"),
        ([EVEN, ODD.replace("1-7/2", "2-3")], "rank 2 is in jobs even@0-6/2 and odd@2-3"),
        ([EVEN, ODD.replace("1-7/2", "7-9")], "odd: rank 8: the cluster has ranks 0 to 7"),
        ([EVEN, "all-reduce@1-7/2"], "expected one of nbytes and nbytes-per-rank"),
        ([EVEN, "all-reduce@1-7/2:size=3"], "option 'size': expected one of nbytes"),
        ([EVEN, "all-reduce:nbytes=3"], "expected WHAT@RANKS"),
        ([EVEN, "all-reduce@a-b:nbytes=3"], "ranks 'a-b': expected first-last"),
        ([EVEN, "all-reduce@7-1:nbytes=3"], "expected at least two ranks in ascending order"),
        ([EVEN, "all-reduce@1-7/7:nbytes=3"], "expected at least two ranks in ascending order"),
        ([EVEN, "all-reduce@1-7/-2:nbytes=3"], "expected at least two ranks in ascending order"),
        ([EVEN, "all-reduce@1-7/2:nbytes"], "option 'nbytes': expected WHAT@RANKS"),
        ([EVEN, "gpt2-355m@1-7/2:tp=none"], "tp=none: expected a whole number"),
        ([EVEN, "gpt2-355m@1-7/2:batch=2,global-batch=8"], "expected one of them"),
        ([EVEN, "no-such-model@1-7/2:tp=2"], "no-such-model"),
    ],
)
def test_bad_jobs_are_one_line(jobs: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message.replace("(", r"\(")):
        ll.traffic(jobs, on("ring"))


@pytest.mark.parametrize(
    ("ranks", "text"),
    [
        ((3,), "3-3"),
        ((0, 1, 2, 3), "0-3"),
        ((1, 4, 7), "1-7/3"),
        ((3, 2, 1), "3, 2, 1"),
        ((0, 1, 3, 4, 5, 7), "0, 1, 3, 4, 5, 7"),
        ((0, 1, 3, 4, 5, 7, 8), "0, 1, 3, 4, 5, 7, ..."),
    ],
)
def test_ranks_are_written_in_a_few_characters(ranks: tuple[int, ...], text: str) -> None:
    assert TrafficJob(what="all-reduce", ranks=ranks, options={}, name="").ranks_text == text


def test_ranks_of_a_ring_lie_at_even_distances() -> None:
    uneven = TrafficJob(what="all-reduce", ranks=(0, 1, 3), options={"nbytes": "1MB"}, name="uneven")
    with pytest.raises(ConfigError, match="uneven: ranks 0, 1, 3 of a ring: expected even distances"):
        ll.traffic([uneven, "all-reduce@5-7:nbytes=1MB"], on("sip-ring"))


def test_sizes_that_do_not_divide_are_one_line() -> None:
    with pytest.raises(InputError, match="tp 3"):
        traffic([training("0-3", tp=3), training("4-7")], on("ring"), lambda: None)
