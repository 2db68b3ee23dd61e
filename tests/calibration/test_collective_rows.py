"""Timed collectives: three forms of files."""

from __future__ import annotations

from pathlib import Path

import pytest

from lightloom.core.errors import ConfigError
from lightloom.planning.calibration.collectives import read_collectives

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


def test_what_nccl_tests_prints_is_read(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text(PRINTED)
    measured = read_collectives(path)
    assert [(row.nodes, row.gpus, row.collective) for row in measured] == [(2, 2, "all-reduce")] * 2
    assert [row.time_us for row in measured] == pytest.approx([45.0, 54.0])
    path.write_text(PRINTED.replace("55.00", "soon"))
    with pytest.raises(ConfigError, match=r"line 10: column 'time': 'soon'"):
        read_collectives(path)


def test_csv_of_sizes_needs_the_number_of_gpus(tmp_path: Path) -> None:
    path = tmp_path / "reduce.csv"
    heading = "size(B),count,type,time(ns),busbw(GB/s),time(ns),busbw(GB/s)"
    path.write_text(f"{heading}\n1048576,262144,float,44000,23,46000,22\n")
    assert read_collectives(path, gpus=4)[0].time_us == pytest.approx(45)
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
