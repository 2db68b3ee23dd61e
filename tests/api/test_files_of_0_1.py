"""Files that version 0.1 wrote are read by this version: schedules, a sweep, a network, a profile, a cluster."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import lightloom as ll
from lightloom.core.journal import open_journal
from lightloom.exchange.compression.profile import read_profile
from lightloom.photonics.averaging.networks import load_network
from lightloom.photonics.averaging.proof import verify
from lightloom.planning.sweeps.experiment import points_of, read_experiment

FILES = Path(__file__).parent / "files_of_0_1"
SCHEDULES = {
    "optree.json": ("optree", "all-gather", 6),
    "queued.parquet": ("synthesized", "all-gather", 8),
    "ring.arrow": ("ring", "all-reduce", 4),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules(name: str) -> None:
    if not name.endswith(".json"):
        pytest.importorskip("pyarrow", reason="needs lightloom[arrow]")
    read = ll.verify(FILES / name)
    collective = read.schedule.collective
    assert (read.algorithm, collective.kind, collective.ranks) == SCHEDULES[name]
    assert read.time >= read.lower_bound.time > 0


@pytest.mark.parametrize("files", [FILES, FILES.with_name("files_of_0_2")], ids=lambda files: files.name)
def test_a_sweep_keeps_its_rows(files: Path, tmp_path: Path) -> None:
    folder = tmp_path / "sweep"
    shutil.copytree(files / "sweep", folder)
    with open_journal(folder, "tiny") as journal:
        rows = dict(journal.rows)
    assert len(rows) == len(points_of(read_experiment(files / "experiment.yaml"))) == 4
    assert {row["status"] for row in rows.values()} == {"done"}
    assert all(row["time_s"] >= row["lower_bound_s"] > 0 for row in rows.values())


def test_a_network() -> None:
    network, arguments = load_network(FILES / "averager.npz")
    assert (arguments.servers, arguments.bits) == (2, 4)
    assert verify(network, arguments.function()).wrong_outputs == 0


_MESSAGE = ("encode_message", "decode_message")


def test_a_profile() -> None:
    profile = read_profile(FILES / "profile.json")
    assert profile.of("inceptionn:2^-10") is not None
    document = profile.to_json()
    for codec in document["codecs"]:
        # Not measured then.
        assert codec.pop("sums") == {}
        engine = [codec["engine"]] if codec["engine"] else []
        assert {rates.pop(name) for rates in (*codec["host"], *engine) for name in _MESSAGE} == {None}
    assert document == json.loads((FILES / "profile.json").read_text())


def test_a_cluster() -> None:
    cluster = ll.load_cluster(FILES / "cluster.yaml")
    assert cluster.ranks == 32 and cluster.fabric.wavelength_routed
