"""Timed collectives: three forms of files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from lightloom.collectives.collective import Kind
from lightloom.core.errors import ConfigError, InputError
from lightloom.machines.accelerators.load import load_accelerator
from lightloom.machines.transports.transport import load_transport
from lightloom.machines.transports.ways import Tiers
from lightloom.planning.calibration.collectives import (
    MeasuredCollective,
    System,
    is_collectives,
    read_collectives,
    read_systems,
    row_weights,
)
from tests.calibration.samples import write_rows

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
    rows = read_collectives(path, gpus=4)
    assert rows[0].time_us == pytest.approx(45)
    path.write_text(path.read_text().replace("\n", "\n\n"))
    assert read_collectives(path, gpus=4) == rows
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


def timed(nodes: int, gpus: int, nbytes: float, kind: Kind = "all-reduce") -> MeasuredCollective:
    return MeasuredCollective(nodes=nodes, gpus=gpus, collective=kind, nbytes=nbytes, time_us=7.0)


def system(rows: Sequence[MeasuredCollective]) -> System:
    return System("s", rows, Tiers(8, 370e9, 48e9, True, 3.35e12), load_transport("nccl-hopper"))


def test_every_octave_of_a_group_counts_once_however_densely_it_is_sampled() -> None:
    single = row_weights(system([timed(1, 8, 1024)]))
    octave = row_weights(system([timed(1, 8, 1024), timed(1, 8, 1024), timed(1, 8, 1024), timed(1, 8, 1024)]))
    assert octave == pytest.approx(single.repeat(4) / 2)
    apart = row_weights(system([timed(1, 8, 1024), timed(1, 8, 2047), timed(1, 8, 2048)]))
    assert apart[0] == pytest.approx(single[0] / np.sqrt(2)) and apart[2] > apart[0] * 1.4


@pytest.mark.parametrize("other", [timed(1, 4, 1024), timed(2, 8, 1024), timed(1, 8, 1024, "all-gather")])
def test_groups_are_of_the_same_gpus_nodes_and_kind(other: MeasuredCollective) -> None:
    alone, both = row_weights(system([timed(1, 8, 1024)])), row_weights(system([timed(1, 8, 1024), other]))
    assert both == pytest.approx(alone.repeat(2) * 2**-0.25)


def test_errors_are_a_fifth_at_small_sizes_and_three_per_cent_at_large_ones() -> None:
    errors = [1 / float(row_weights(system([timed(1, 8, nbytes)]))[0]) for nbytes in (1, 2**22, 2**50)]
    assert errors == pytest.approx([0.2, 0.115, 0.03], rel=1e-4)


def test_seconds_and_nodes_of_a_system_are_those_of_its_rows() -> None:
    whole = system([timed(1, 8, 1024), timed(2, 16, 4096)])
    assert whole.measured.tolist() == pytest.approx([7e-6, 7e-6])
    assert whole.nbytes.tolist() == [1024, 4096]
    assert whole.across.tolist() == [False, True]


@pytest.mark.parametrize(
    ("program", "kind"),
    [
        ("all_gather_perf", "all-gather"),
        ("./build/all_reduce_perf -b 8", "all-reduce"),
        ("sendrecv_perf", "all-reduce"),
        ("reduce_scatter_perf", "reduce-scatter"),
        ("reduce_perf", "reduce"),
        ("alltoall_perf", "all-to-all"),
    ],
)
def test_the_program_that_printed_says_which_collective_it_timed(tmp_path: Path, program: str, kind: str) -> None:
    path = tmp_path / "log.txt"
    path.write_text(f"# {program}\n{PRINTED}")
    assert {row.collective for row in read_collectives(path)} == {kind}


def test_times_printed_once_are_taken_alone_and_empty_sizes_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    heading = "\n".join(PRINTED.splitlines()[:4])
    once = "0 0 float 44.0 1 1 0\n 1024 256 float 40.0 1 1 0\n 2048 512 float sum -1 50.0 1 1 0 60.0 1 1 0\n"
    path.write_text(f"{heading}\n{once.replace('float 44', 'float sum 44').replace('float 40', 'float sum 40')}")
    assert [(row.nbytes, row.time_us) for row in read_collectives(path)] == [(1024, 40), (2048, 55)]
    path.write_text(f"{heading}\n 1024 256 float 40.0 1 1 0 50.0 1 1 0\n 1024 256 float sum 40.0 1 1 0 60.0 1 1 0\n")
    assert [row.time_us for row in read_collectives(path)] == [45, 50]
    path.write_text(f"{heading}\n 1024 256 float 40.0 1 1 0\n")
    with pytest.raises(ConfigError, match="line 5: 7 columns"):
        read_collectives(path)
    path.write_text(f"{heading}\n 1024 256 float sum -1 0 40.0 1 1 0\n")
    with pytest.raises(ConfigError, match="line 5: 10 columns"):
        read_collectives(path)
    path.write_text(f"{heading}\n 0 0 float sum 44.0 1 1 0\n")
    with pytest.raises(ConfigError, match="no rows of timed collectives"):
        read_collectives(path)


def test_the_number_of_gpus_may_be_given_where_it_is_that_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text(PRINTED)
    assert read_collectives(path, gpus=2) == read_collectives(path)
    path.write_text("\n".join(line for line in PRINTED.splitlines() if "Rank" not in line))
    assert {(row.nodes, row.gpus) for row in read_collectives(path, gpus=2)} == {(1, 2)}


def test_csv_of_one_time_is_taken_alone(tmp_path: Path) -> None:
    path = tmp_path / "reduce.csv"
    path.write_text("size(B),count,type,time(ns),busbw(GB/s)\n1024,256,float,44000,23\n2048,512,float,50000,23\n")
    found = read_collectives(path, gpus=2)
    assert [(row.nodes, row.gpus, row.collective, row.nbytes, row.time_us) for row in found] == [
        (1, 2, "all-reduce", 1024, 44),
        (1, 2, "all-reduce", 2048, 50),
    ]


@pytest.mark.parametrize("cell", ["0", "-1", "inf", "nan", "many"])
def test_times_that_are_none_are_refused(tmp_path: Path, cell: str) -> None:
    path = tmp_path / "reduce.csv"
    path.write_text(f"size(B),count,type,time(ns),busbw(GB/s)\n1024,256,float,{cell},23\n")
    with pytest.raises(ConfigError, match=rf"row 1: column 'time\(ns\)': '{cell}': expected a"):
        read_collectives(path, gpus=2)


def test_tables_of_steps_are_told_from_those_of_collectives(tmp_path: Path) -> None:
    assert not is_collectives(write_rows(tmp_path / "steps.csv", {}))
    path = tmp_path / "table.csv"
    for text, told in (
        ("nodes,gpus,collective,nbytes,time_us\n", True),
        (PRINTED, True),
        ("a,row\n", False),
        ("a,rows\n", True),
        ("step_s\n", False),
        ("", False),
    ):
        path.write_text(text)
        assert is_collectives(path) is told, text


def test_systems_are_those_of_the_tables_in_order(tmp_path: Path) -> None:
    plain, named = tmp_path / "plain.csv", tmp_path / "named.csv"
    plain.write_text("nodes,gpus,collective,nbytes,time_us\n1,8,all-reduce,1024,9\n1,4,all-reduce,1024,8\n")
    named.write_text(
        "nodes,gpus,collective,nbytes,time_us,cluster,transport\n"
        "1,8,all-reduce,1024,9,dgx-h100-64,nccl-hopper\n1,8,all-reduce,1024,9,dgx-a100-64,nccl-ampere\n"
        "1,4,all-reduce,1024,9,dgx-h100-64,nccl-hopper\n"
    )
    systems, digests = read_systems([plain, named], accelerator="h100")
    assert [(each.name, [row.gpus for row in each.rows]) for each in systems] == [
        ("plain", [8, 4]),
        ("named, dgx-h100-64", [8, 4]),
        ("named, dgx-a100-64", [8]),
    ]
    assert len(digests) == 2 and len(set(digests)) == 2
    assert systems[0].tiers.domain == 8 and systems[0].tiers.network == float("inf")
    assert systems[0].tiers.bandwidth < (load_accelerator("h100").node_bandwidth or 0.0)
    (clustered,), _ = read_systems([plain], cluster="dgx-h100-64", accelerator="a100")
    assert clustered.tiers == systems[1].tiers
    assert clustered.transport == systems[1].transport


def test_what_names_no_system_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("nodes,gpus,collective,nbytes,time_us\n2,8,all-reduce,1024,9\n1,8,all-reduce,1024,9\n")
    with pytest.raises(ConfigError, match="nothing says what was measured: expected --cluster"):
        read_systems([path])
    with pytest.raises(ConfigError, match="1 rows of several nodes, whose network an accelerator does not state"):
        read_systems([path], accelerator="h100")
    path.write_text("nodes,gpus,collective,nbytes,time_us\n1,8,all-reduce,1024,9\n")
    with pytest.raises(ConfigError, match="transport 'ideal' costs nothing and predicts no collectives"):
        read_systems([path], accelerator="h100", transport="ideal")
    with pytest.raises(InputError):
        read_systems([path], accelerator="titan-xp")
