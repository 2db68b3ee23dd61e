"""Timed collectives: three forms of files, and the links that are fitted to them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lightloom.accelerators.load import load_accelerator
from lightloom.calibration.collective_rows import MeasuredCollective, MeasuredCollectives, read_collectives
from lightloom.calibration.tiers import collective_seconds, fit_tiers
from lightloom.clusters.measured_links import Tier
from lightloom.core.errors import ConfigError
from tests.cli.commands import run

TRUE = Tier(base_latency=30e-6, latency_per_peer=4e-6, bandwidth=270e9, pass_bandwidth=500e9)
PRINTED = """\
# nThread 1 nGpus 1 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20
# Using devices
#  Rank  0 Group  0 Pid  71 on node-1 device  0 [0x07] NVIDIA A100-SXM4-80GB
#  Rank  1 Group  0 Pid  72 on node-2 device  0 [0x0b] NVIDIA A100-SXM4-80GB
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     1048576        262144     float     sum      -1    44.00   23.83   23.83      0    46.00   22.80   22.80      0
     2097152        524288     float     sum      -1    55.00   38.13   38.13    N/A    53.00   39.57   39.57    N/A
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 31.5
"""


def timed(nodes: int = 1) -> MeasuredCollectives:
    """Return collectives that take as long as :data:`TRUE` says."""
    rows = [
        MeasuredCollective(nodes=nodes, gpus=gpus, collective=kind, nbytes=2.0**power, time_us=1.0)
        for gpus in (2, 4, 8)
        for kind in ("all-reduce", "all-gather")
        for power in range(12, 31)
    ]
    seconds = collective_seconds(rows, TRUE)
    exact = [row.model_copy(update={"time_us": time * 1e6}) for row, time in zip(rows, seconds, strict=True)]
    return MeasuredCollectives(name="made-up", sha256="0", rows=tuple(exact))


@pytest.mark.parametrize(("nodes", "tier"), [(1, "node"), (2, "network")])
def test_links_are_found(nodes: int, tier: str) -> None:
    (fitted,) = fit_tiers(timed(nodes), load_accelerator("a100"))
    assert fitted.tier == tier
    for name in Tier.model_fields:
        assert getattr(fitted.values, name) == pytest.approx(getattr(TRUE, name), rel=0.1), name
    assert fitted.mean_error < 0.01


def test_bus_bandwidth_grows_with_ranks() -> None:
    rows = [
        MeasuredCollective(nodes=1, gpus=gpus, collective="all-reduce", nbytes=1e9, time_us=1) for gpus in (2, 4, 8)
    ]
    moved = np.array([2 * (gpus - 1) / gpus * 1e9 for gpus in (2, 4, 8)])
    assert (np.diff(moved / collective_seconds(rows, TRUE)) > 0).all()


def test_what_nccl_tests_prints_is_read(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text(PRINTED)
    measured = read_collectives(path)
    assert [(row.nodes, row.gpus, row.collective) for row in measured.rows] == [(2, 2, "all-reduce")] * 2
    assert [row.time_us for row in measured.rows] == pytest.approx([45.0, 54.0])
    path.write_text(PRINTED.replace("55.00", "soon"))
    with pytest.raises(ConfigError, match=r"line 10: column 'time': 'soon'"):
        read_collectives(path)


def test_csv_of_sizes_needs_the_number_of_gpus(tmp_path: Path) -> None:
    path = tmp_path / "reduce.csv"
    heading = "size(B),count,type,time(ns),busbw(GB/s),time(ns),busbw(GB/s)"
    path.write_text(f"{heading}\n1048576,262144,float,44000,23,46000,22\n")
    assert read_collectives(path, gpus=4).rows[0].time_us == pytest.approx(45)
    with pytest.raises(ConfigError, match="--gpus"):
        read_collectives(path)
    path.write_text(f"{heading}\n1048576,262144,float,fast,23,46000,22\n")
    with pytest.raises(ConfigError, match=r"row 1: column 'time\(ns\)': 'fast'"):
        read_collectives(path, gpus=4)


def test_tables_name_bad_cells(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("nodes,gpus,collective,nbytes,time_us\n1,8,all-reduce,1024,9\n1,8,gossip,1024,9\n")
    with pytest.raises(ConfigError, match="row 2: column 'collective': 'gossip'"):
        read_collectives(path)


def test_the_command_fits_links(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path, out = tmp_path / "table.csv", tmp_path / "links.yaml"
    lines = [f"{row.nodes},{row.gpus},{row.collective},{row.nbytes:.0f},{row.time_us}" for row in timed().rows]
    path.write_text("\n".join(["nodes,gpus,collective,nbytes,time_us", *lines]) + "\n")
    told = run(monkeypatch, capsys, "calibrate", "--collectives", str(path), "--accelerator", "a100", "-o", str(out))
    assert (told.code, told.err) == (0, "")
    assert "base_latency" in out.read_text()
    refused = run(monkeypatch, capsys, "calibrate", "--accelerator", "a100")
    assert refused.code == 2
    assert "one of the three" in refused.err
