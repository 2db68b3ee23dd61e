"""Systems of timed collectives, the weights of their rows, and jobs of steps: numbers from single rows."""

from __future__ import annotations

import math
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from lightloom.core.errors import ConfigError
from lightloom.machines.accelerators.load import load_accelerator
from lightloom.machines.transports.transport import Scales, load_transport
from lightloom.machines.transports.ways import LibraryTask, Tiers
from lightloom.planning.calibration import accuracy as accuracy_module
from lightloom.planning.calibration.accuracy import accuracy, calibrate
from lightloom.planning.calibration.collectives import (
    MeasuredCollective,
    System,
    fit_scales,
    predicted_collectives,
    read_collectives,
    read_systems,
    row_weights,
)
from lightloom.planning.calibration.fit import Predictions, scores_of
from lightloom.planning.calibration.rows import Jobs, Priors, jobs_of, overlaps, settings_of, strategy_of, transport_of
from lightloom.planning.parallelism.strategy_space import Sharding
from tests.calibration.samples import made_calibration, step, table_of

TIERS = Tiers(8, 370e9, 48e9, True, 3.35e12)
HEADING = "nodes,gpus,collective,nbytes,time_us"


def timed(nodes: int, gpus: int, nbytes: float, time: float = 7.0, kind: str = "all-reduce") -> MeasuredCollective:
    return MeasuredCollective(nodes=nodes, gpus=gpus, collective=kind, nbytes=nbytes, time_us=time)  # type: ignore[arg-type]


def test_rows_of_a_system_are_tasks_of_its_library() -> None:
    system = System("s", [timed(1, 4, 1024, 8.0), timed(2, 16, 4096, 9.0, "broadcast")], TIERS, load_transport("ideal"))
    assert system.tasks == [LibraryTask("all-reduce", 4, 1, 1024), LibraryTask("broadcast", 16, 2, 4096)]
    assert system.measured.tolist() == pytest.approx([8e-6, 9e-6]) and system.across.tolist() == [False, True]
    with pytest.raises(ValueError, match="column 'nodes': 3: expected at most gpus, 2"):
        timed(3, 2, 1.0)
    assert timed(2, 2, 1.0).gpus == 2


def test_weights_of_rows() -> None:
    """Two groups; the first has two rows in the octave of 2^10 to 2^11 and one in the next."""
    rows = [timed(1, 8, 1024), timed(1, 8, 2047), timed(1, 8, 2048), timed(2, 16, 2.0**22)]
    found = row_weights(System("s", rows, TIERS, load_transport("ideal")))
    sizes = np.array([row.nbytes for row in rows])
    error = 0.03 + 0.17 / (1 + sizes / 2**22)
    assert found == pytest.approx(np.array([2, 2, 1, 1]) ** -0.5 * 2**-0.25 / error)


def test_one_row_draws_the_four_numbers_from_their_start() -> None:
    """One small all-reduce inside a node that took twice as long: the latency grows most, those across stay."""
    start = load_transport("nccl-hopper")
    system = System("s", [timed(1, 8, 8.0, 1.0)], TIERS, start)
    (before,) = predicted_collectives(system, start) * 1e6
    system = System("s", [timed(1, 8, 8.0, 2 * before)], TIERS, start)
    found = fit_scales(system, start)
    assert found.scales.network_latency == pytest.approx(start.scales.network_latency, rel=1e-4)
    assert found.scales.network_bandwidth == pytest.approx(start.scales.network_bandwidth, rel=1e-4)
    assert 1.3 < found.scales.latency / start.scales.latency < 2
    assert found.scales.latency == float(f"{found.scales.latency:.6g}")
    (after,) = predicted_collectives(system, found) * 1e6
    assert before < after < 2 * before
    same = System("s", [timed(1, 8, 8.0, before)], TIERS, start)
    for name in Scales.model_fields:
        assert getattr(fit_scales(same, start).scales, name) == pytest.approx(getattr(start.scales, name), rel=1e-5)


def test_a_node_has_the_links_of_its_accelerators(tmp_path: Path) -> None:
    """Data take a share of the links that the transport's generation states; switches add where it says so."""
    path = tmp_path / "t.csv"
    path.write_text(f"{HEADING}\n1,4,all-reduce,1024,9\n1,6,all-reduce,1024,8\n")
    for name in ("h100", "a100"):
        machine = load_accelerator(name)
        transport = transport_of(machine)
        assert transport.generation is not None and machine.node_bandwidth is not None
        ((system,), _) = read_systems([path], accelerator=name)
        links = machine.node_bandwidth * transport.generation.link_share
        adds = transport.generation.reduction_share > 0
        assert system.tiers == Tiers(6, links, math.inf, adds, machine.memory_bandwidth)
        assert adds == (name == "h100") and system.transport == transport and system.name == "t"
    mine = tmp_path / "mine.yaml"
    mine.write_text(_protocols())
    ((system,), _) = read_systems([path], accelerator="h100", transport=str(mine))
    machine = load_accelerator("h100")
    assert system.tiers[:4] == (6, machine.node_bandwidth, math.inf, False) and system.transport.name == "mine"


def _protocols() -> str:
    latencies = "{base: 1 us, domain_step: 1 us, network_step: 1 us}"
    shares = "share: 1, tree_share: 1, network_tree_share: 1"
    return f"protocols: {{Simple: {{ring: {latencies}, tree: {latencies}, {shares}}}}}\n"


def test_a_cluster_names_the_transport_unless_another_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"{HEADING}\n2,16,all-reduce,1024,9\n")
    ((system,), _) = read_systems([path], cluster="dgx-h100-64")
    # The accelerator of the cluster is calibrated to steps, which is no prior of collectives.
    assert system.transport == load_transport("nccl-hopper") and system.tiers.domain == 8
    ((other,), _) = read_systems([path], cluster="dgx-h100-64", transport="nccl-ampere")
    assert other.transport == load_transport("nccl-ampere") and other.tiers == system.tiers


def test_numbers_of_gpus_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"{HEADING}\n1,4,all-reduce,1024,9\n")
    with pytest.raises(ConfigError, match="--gpus 1: expected at least 2"):
        read_collectives(path, gpus=1)
    with pytest.raises(ConfigError, match="states the GPUs of each row in column 'gpus': expected no --gpus"):
        read_collectives(path, gpus=2)
    log = tmp_path / "log.txt"
    lines = "\n".join(f"#  Rank  {rank} Group  0 Pid  7 on host device  {rank} [0x07] X" for rank in range(3))
    log.write_text(f"{lines}\n 1024 256 float sum -1 40.0 1 1 0\n")
    assert [(row.nodes, row.gpus, row.time_us) for row in read_collectives(log, gpus=3)] == [(1, 3, 40.0)]
    with pytest.raises(ConfigError, match="3 lines '# Rank', one for each GPU: expected the 2 of --gpus"):
        read_collectives(log, gpus=2)
    log.write_text(" 1024 256 float sum -1 40.0 1 1 0\n")
    with pytest.raises(ConfigError, match="no '#  Rank' lines that say the number of GPUs"):
        read_collectives(log)
    log.write_text(f"{lines.splitlines()[0]}\n 1024 256 float sum -1 40.0 1 1 0\n")
    with pytest.raises(ConfigError, match="1 lines '# Rank', one for each GPU: expected at least 2"):
        read_collectives(log)
    csv = tmp_path / "s.csv"
    csv.write_text("size(B),count,type,time(ns),busbw(GB/s),time(ns),busbw(GB/s)\n1024,256,float,44000,1\n")
    with pytest.raises(ConfigError, match=r"row 1: column 'time\(ns\)': no cell, the row is too short"):
        read_collectives(csv, gpus=2)


# Steps as jobs.


def test_a_job_takes_the_numbers_of_its_row() -> None:
    machine = load_accelerator("a100")
    jobs = jobs_of([step(memory_bandwidth_gbs=1000), step(row="b", memory_bandwidth_gbs=2000)], machine)
    assert [planned.job.accelerator.memory_bandwidth for planned in jobs.planned] == [1e12, 2e12]
    # Jobs of other bandwidths are priced apart, those of one together; a smaller last micro-batch is alone.
    assert [places.tolist() for places, _ in jobs.groups] == [[0], [1]]
    rows = [step(), step(row="b", micro_batch=4), step(row="c", micro_batch=3), step(row="d", micro_batch=3)]
    jobs = jobs_of(rows, machine)
    assert [places.tolist() for places, _ in jobs.groups] == [[0, 1], [2], [3]]
    plain = [step(row=name, dp=16, tp=1, pp=1, global_batch=32) for name in "ab"]
    assert [places.tolist() for places, _ in jobs_of(plain, machine).groups] == [[0], [1]]
    assert jobs.accelerator is machine


def test_strategies_and_settings_of_steps() -> None:
    """66 sequences on four replicas are 17 each: five micro-batches of four with a rest of one."""
    found = strategy_of(step(global_batch=66, micro_batch=4))
    assert (found.micro_batches, found.global_batch, found.micro_batch) == (5, 68, 4)
    found = strategy_of(step(global_batch=64, micro_batch=4))
    assert (found.micro_batches, found.global_batch, found.micro_batch, found.exchange) == (4, 64, 0, 0)
    found = strategy_of(step(global_batch=8, micro_batch=4))
    assert (found.micro_batches, found.micro_batch) == (1, 0)
    assert not found.sequence_parallel and strategy_of(step(sequence_parallel="yes")).sequence_parallel
    assert found.algorithm == "library"
    kept = settings_of(step(gradient_bytes=4, sharding="none"))
    assert (kept.gradient_bytes, kept.sharded_gradient_bytes, kept.overlap_gradients) == (4, 4, False)
    for name in get_args(Sharding):
        assert overlaps(step(sharding=name)) == (name != "none")
        assert settings_of(step(sharding=name)).overlap_gradients == (name != "none")


def test_sizes_of_rows() -> None:
    row = step()
    assert (row.model, row.tokens) == ("4096x24", 64 * 2048)
    assert row.tokens_per_second_and_gpu == pytest.approx(64 * 2048 / 16 / 5.0)
    assert len(table_of([row, row])) == 2


def test_accelerators_of_a_table_are_predicted_apart() -> None:
    """Rows in turns; those of each are predicted together, and scores are of all."""
    table = table_of([step(row="a"), step(row="b", accelerator="h100"), step(row="c"), step(row="d")])
    asked: list[tuple[str, list[str], list[str]]] = []

    def predict(jobs: Jobs, priors: Priors) -> Predictions:
        asked.append((jobs.accelerator.name, [each.row for each in jobs.steps], priors.names))
        numbers = np.arange(jobs.rows, dtype=np.float64) + 10.0 * len(asked)
        return Predictions(numbers, numbers / 100, jobs.steps)

    whole = accuracy_module._predict_each_accelerator(table, "by hand", predict)
    assert [each[:2] for each in asked] == [("a100", ["a", "c", "d"]), ("h100", ["b"])]
    assert whole.predicted.log_seconds.tolist() == [10, 20, 11, 12]
    assert whole.predicted.half_width.tolist() == [0.1, 0.2, 0.11, 0.12]
    assert [each.row for each in whole.predicted.steps] == list("abcd")
    assert whole.basis == "by hand" and whole.scores.rows == 4 and whole.scores.rank_agreement is None
    with pytest.raises(ConfigError, match="3 rows: expected at least 4 to calibrate on"):
        calibrate(table_of([step(row=name) for name in "abc"]), "a100")


def test_half_widths_of_scores_are_relative() -> None:
    """A logarithm of ± 0.2 is sinh(0.2) of the prediction on average of both sides."""
    found = Predictions(np.log([2.0, 4.0]), np.array([0.2, 0.2]), (step(), step(row="b")))
    assert found.seconds == pytest.approx([2, 4])
    assert found.low == pytest.approx(np.array([2, 4]) * math.exp(-0.2))
    assert found.high == pytest.approx(np.array([2, 4]) * math.exp(0.2))
    scores = scores_of([step(step_s=1.0), step(row="b", step_s=5.0)], found)
    assert scores.half_width == pytest.approx(math.sinh(0.2)) and scores.coverage == 0.0
    assert (scores.mean, scores.median, scores.bias) == pytest.approx((0.6, 0.6, 0.4))
    assert scores.percentile_90 == pytest.approx(0.2 + 0.9 * 0.8)


def test_a_prediction_says_where_its_parameters_are_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accuracy_module, "_predict_each_accelerator", lambda steps, basis, predict: basis)
    calibration, table = made_calibration(), table_of([step()])
    basis: list[object] = [accuracy(table), accuracy(table, calibration)]
    same = calibration.model_copy(update={"rows": calibration.rows.model_copy(update={"sha256": table.sha256})})
    basis.append(accuracy(table, same))
    older = {name: entry for name, entry in calibration.parameters.items() if name != "latency"}
    covariance = np.diag(np.ones(len(older))).tolist()
    basis.append(accuracy(table, calibration.model_copy(update={"parameters": older, "covariance": covariance})))
    assert basis == [
        "priors only",
        "calibrated on made-up",
        "calibrated on made-up, these very rows",
        "calibrated on made-up; latency at priors, as the file is older",
    ]
    with pytest.raises(ConfigError, match=r"row 2 \(b\): column 'accelerator': 'h100': the calibration is of 'a100'"):
        accuracy(table_of([step(), step(row="b", accelerator="h100")]), calibration)
