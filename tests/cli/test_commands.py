"""The commands keep their contracts: one JSON document with the agreed words, tables for people, files where asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from runpy import run_module
from typing import Any

import pytest

from lightloom.papers.sipml import runs
from lightloom.papers.study import Experiment
from tests.cli.commands import lightloom

ROOT = Path(__file__).parents[2]


def document(*arguments: str) -> dict[str, Any]:
    done = lightloom(*arguments, "--json", folder=ROOT)
    assert done.code == 0, done.err
    assert done.err == ""
    found: dict[str, Any] = json.loads(done.out)
    assert set(found["provenance"]) == {"lightloom", "configuration", "seed"}
    return found


def test_collective_rows_are_verified_and_fastest_first() -> None:
    found = document(
        "collective",
        "all-gather",
        "--fabric",
        "ring",
        "--ranks",
        "64",
        "--nbytes",
        "64MiB",
        "--set",
        "bandwidth=50GiB/s",
        "--set",
        "hop_latency=0.5us",
    )
    rows = {row["algorithm"]: row for row in found["rows"]}
    assert rows["ring-two-way"]["time_s"] == pytest.approx(641.0e-6, rel=0.002)
    assert rows["ring"]["time_s"] == pytest.approx(1262.0e-6, rel=0.002)
    times = [row["time_s"] for row in found["rows"]]
    assert times == sorted(times)
    for row in found["rows"]:
        assert row["verified"] is True and row["energy_j"] is None and row["bound_by"]
        assert row["time_s"] >= row["lower_bound_s"] > 0
        assert row["steps"] >= 1


def test_total_and_share_are_the_same_collective() -> None:
    common = ["collective", "all-reduce", "--fabric", "wdm-ring", "--ranks", "16", "--set", "wavelengths=8"]
    whole, share = (
        document(*common, "--cost-model", "paper", *size)["rows"]
        for size in (["--nbytes", "16 MB"], ["--nbytes-per-rank", "1 MB"])
    )
    assert whole == share


def test_all_to_all_is_a_collective_like_the_others() -> None:
    found = document("collective", "all-to-all", "--fabric", "switch", "--ranks", "16", "--nbytes-per-rank", "1MB")
    row, *others = found["rows"]
    # Fifteen blocks through a port of 50 GB/s, and what the switch adds; passed on around a ring they cross it again.
    assert row["algorithm"] == "one-stage" and row["verified"] is True
    assert {each["algorithm"] for each in others} == {"ring-two-way", "ring-two-way-striped", "synthesized"}
    assert row["time_s"] == pytest.approx(row["lower_bound_s"]) and row["time_s"] >= 15e6 / 50e9
    assert any("serves all-gather" in each["why"] for each in found["refused"])


FABRICS = ("wdm-ring", "ring", "mesh", "torus", "switch", "circuit-switch", "optical-averager")


@pytest.mark.parametrize("fabric", FABRICS)
def test_every_fabric_name_answers(fabric: str) -> None:
    rows = document("collective", "all-reduce", "--fabric", fabric, "--ranks", "16", "--nbytes", "1MB")["rows"]
    assert rows and all(row["verified"] for row in rows)


@pytest.mark.long
def test_plan_of_a_users_model_on_a_users_cluster() -> None:
    pytest.importorskip("torch", reason="needs lightloom[torch]")
    found = document(
        "plan", "examples/my_transformer.py:build", "--cluster", "examples/cluster.yaml", "--strategy", "ddp"
    )
    assert found["schema"] == "lightloom.plan/2"
    order = [(not row["fits"], row["sample_time_s"]) for row in found["ranking"]]
    assert order == sorted(order) and order[0][1] > 0
    for row in found["ranking"]:
        assert row["verified"] is True
        assert sum(row["breakdown"].values()) == pytest.approx(row["iteration_time_s"])
        assert row["strategy"] in found["strategies"] and "compression" in row
    energy = found["ranking"][0]["energy"]
    assert energy["known_j"] > 0 and energy["missing"] == ["power of the host of our-chip"]
    assert found["reference"] and found["explanation"]


@pytest.mark.slow
def test_plan_writes_a_page_and_a_trace(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs lightloom[torch]")
    page, trace = tmp_path / "report.html", tmp_path / "trace.json"
    done = lightloom("plan", "hdc", "--report", str(page), "--trace", str(trace))
    assert done.code == 0, done.err
    assert str(page) in done.out and str(trace) in done.out
    text = page.read_text()
    assert "ring-two-way-striped" in text and "http://" not in text.replace("http://www.w3.org", "")
    assert json.loads(trace.read_text())["traceEvents"]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["report.html", "trace.json"]


def test_catalog_and_schema() -> None:
    done = lightloom("catalog", "--json")
    found = json.loads(done.out)
    sections = found.keys() - {"schema", "provenance"}
    names = {section: {row["name"] for row in found[section]} for section in sections}
    assert {"terarack-64", "sip-ring-1024", "sip-ocs-1024", "dadiannao-100g", "optinc-16"} <= names["clusters"]
    assert set(FABRICS) <= names["fabrics"]
    assert {"alexnet-2012", "resnet50", "transformer-big", "llama2-7b"} <= names["models"]
    schema = json.loads(lightloom("catalog", "--schema", "cluster").out)
    assert schema["$schema"].startswith("https://json-schema.org/")
    assert "source" in lightloom("catalog", "terarack-64", "--all").out
    assert "lightloom catalog --schema site" in lightloom("catalog", "--schema").out


def test_a_study_names_what_deviates_most_and_all_says_why() -> None:
    done = lightloom("reproduce", "economics")
    assert done.code == 0 and done.out.count("\n") <= 25
    shares = [float(line.split()[-1][:-1]) for line in done.out.splitlines() if line.endswith("%") and "." in line]
    assert shares == sorted(shares, reverse=True) and len(shares) > 3
    document = json.loads(lightloom("reproduce", "economics", "--json").out)
    rows = document["rows"]
    assert document["counts"] == {"economics": {"findings": len(rows)}} and not document["numbers"]["economics"]
    assert f"{len(rows)} findings of ours" in done.out and not any(row["status"] for row in rows)
    every = lightloom("reproduce", "economics", "--all").out
    assert all(row["id"] in every for row in rows) and "assumed: " in every


@pytest.mark.long
def test_one_experiment_of_a_study_is_run_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Path] = []

    def measure(work: Path, data: Path, advance: Callable[[int], object]) -> None:
        asked.append(work)
        advance(1)

    monkeypatch.setattr(runs, "EXPERIMENTS", {"comparison": Experiment(lambda: 1, measure, data=False)})
    for options in ([], ["--work", str(tmp_path / "here")]):
        assert lightloom("reproduce", "sipml", "--run", "comparison", *options, folder=tmp_path).code == 0
    assert asked == [Path("runs", "sipml"), tmp_path / "here"]
    done = lightloom("reproduce", "sipml", "--run", "compare")
    assert done.code == 2 and "comparison" in done.err and done.err.count("\n") == 1


def test_help_and_version_answer() -> None:
    assert "plan" in lightloom("--help").out
    assert lightloom("--version").out.startswith("lightloom ")
    for command in ("plan", "collective", "compress", "reproduce", "catalog"):
        assert lightloom(command, "--help").code == 0


def test_the_module_is_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["lightloom", "--version"])
    with pytest.raises(SystemExit) as ended:
        run_module("lightloom", run_name="__main__")
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("lightloom ")
