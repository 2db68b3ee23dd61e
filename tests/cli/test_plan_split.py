"""``lightloom plan --split``: one ranking of all kinds, files where asked, one clear line where it cannot be done."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lightloom.planner.search.plans import KINDS
from tests.cli.commands import Done, run

Command = Callable[..., Done]
_ON = ("--cluster", "sip-ocs-1024", "--ranks", "8")
_SMALL = ("hdc", "--split", *_ON, "--global-batch", "64")


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    def call(*arguments: str) -> Done:
        return run(monkeypatch, capsys, "plan", *arguments)

    return call


def document(done: Done) -> dict[str, Any]:
    assert done.code == 0, done.err
    found: dict[str, Any] = json.loads(done.out)
    return found


def test_the_document_ranks_every_kind_together(plan: Command) -> None:
    done = plan(
        "hdc",
        "--split",
        "--cluster",
        "sip-ocs-1024",
        "--cluster",
        "sip-ring-1024",
        "--ranks",
        "4",
        "--ranks",
        "8",
        "--global-batch",
        "8",
        "--global-batch",
        "64",
        "--quantum",
        "1us",
        "--quantum",
        "10us",
        "--json",
    )
    found = document(done)
    assert done.err == "" and found["schema"] == "lightloom.splits/1"
    rows = found["ranking"]
    assert [row["rank"] for row in rows] == list(range(1, len(rows) + 1))
    times = [row["sample_time_s"] for row in rows]
    assert times == sorted(times)
    assert {row["kind"] for row in rows} == set(KINDS) == set(found["best_of_kind"])
    assert {(row["cluster"], row["ranks"]) for row in rows} == {
        (name, ranks) for name in ("sip-ocs-1024", "sip-ring-1024") for ranks in (4, 8)
    }
    for row in rows:
        batch = row["choice"]["global_batch"]
        assert batch in (8, 64)
        assert row["sample_time_s"] == pytest.approx(row["step_time_s"] / batch)
        assert row["energy_per_sample_j"] == pytest.approx(row["energy"]["known_j"] / batch)
        assert sum(row["breakdown"].values()) == pytest.approx(row["step_time_s"])
        assert row["bound_s"] <= row["step_time_s"] * (1 + 1e-9)
        assert row["memory_bytes"] > 0
        assert (row["placed"] is not None) == (row["kind"] == "placed")
        degrees = [row["choice"][name] for name in (("k", "l") if row["placed"] else ("dp", "tp", "pp"))]
        assert _product(degrees) == row["ranks"]
    for kind, place in found["best_of_kind"].items():
        assert place == min(row["rank"] for row in rows if row["kind"] == kind)
    front = [rows[place - 1] for place in found["front"]]
    for row in rows:
        beaten = any(
            other["sample_time_s"] <= row["sample_time_s"]
            and other["energy_per_sample_j"] <= row["energy_per_sample_j"]
            for other in front
        )
        assert beaten and row["on_front"] == (row in front)
    counts = found["counts"]
    assert counts["simulated"] == len(rows) and counts["rows"] >= counts["bounded"] >= counts["simulated"]
    assert rows[0]["label"] in found["explanation"]


def _product(values: list[int]) -> int:
    product = 1
    for value in values:
        product *= value
    return product


def test_every_file_is_written(plan: Command, tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("report.html", "trace.json", "figure.svg", "job.toml", "arguments.sh")}
    done = plan(
        *_SMALL,
        "--report",
        str(files["report.html"]),
        "--trace",
        str(files["trace.json"]),
        "--figure",
        str(files["figure.svg"]),
        "--export-torchtitan",
        str(files["job.toml"]),
        "--export-megatron",
        str(files["arguments.sh"]),
        "--pictures",
        str(tmp_path / "pictures"),
        "--json",
    )
    found = document(done)
    page = files["report.html"].read_text()
    for title in ("Where the time goes", "Time and energy of a sample", "Placement", "Traffic and circuits"):
        assert title in page
    assert page.count("<svg") >= 5
    assert json.loads(files["trace.json"].read_text())["traceEvents"]
    exported = found["ranking"][found["exported"]["rank"] - 1]
    read = tomllib.loads(files["job.toml"].read_text())
    assert read["parallelism"]["tensor_parallel_degree"] == exported["choice"]["tp"]
    assert read["training"]["global_batch_size"] == 64
    assert "--global-batch-size 64" in files["arguments.sh"].read_text()
    pictures = sorted(Path(path).name for path in found["pictures"])
    assert {"breakdown.png", "pareto.png", "placement.png", "timeline.png", "traffic.png"} <= set(pictures)
    assert sorted(path.name for path in (tmp_path / "pictures").iterdir()) == pictures
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*files, "pictures"])


def test_a_placed_winner_exports_the_best_that_can_be(plan: Command, tmp_path: Path) -> None:
    """On a packet switch hdc is fastest in one group, for which no framework has settings."""
    path = tmp_path / "arguments.sh"
    options = ("hdc", "--split", "--cluster", "h100-512-two-tier", "--ranks", "16", "--global-batch", "64")
    done = plan(*options, "--export-megatron", str(path), "--json")
    found = document(done)
    assert found["ranking"][0]["kind"] == "placed"
    exported = found["ranking"][found["exported"]["rank"] - 1]
    assert all(row["kind"] == "placed" for row in found["ranking"][: exported["rank"] - 1])
    assert exported["kind"] != "placed" and exported["label"] in path.read_text()
    assert "no framework has settings for" in done.err and done.err.count("\n") == 1


def test_the_table_shows_the_best_of_each_kind(plan: Command) -> None:
    done = plan(*_SMALL)
    assert done.code == 0
    for kind in KINDS:
        assert f"{kind}  " in done.out
    assert "◆" in done.out and "wins" in done.out


BAD: list[tuple[list[str], str]] = [
    # Contradictory options.
    (["hdc", "--ranks", "8"], "--ranks needs --split"),
    (["hdc", "--global-batch", "8"], "--global-batch needs --split"),
    (["hdc", "--quantum", "1us"], "--quantum needs --split"),
    (["hdc", "--kind", "ddp"], "--kind needs --split"),
    (["hdc", "--pictures", "p"], "--pictures needs --split"),
    (["hdc", "--export-torchtitan", "x.toml"], "--export-torchtitan needs --split"),
    (["hdc", "--export-megatron", "x.sh"], "--export-megatron needs --split"),
    (["hdc", "--cluster", "terarack-64", "--cluster", "sip-ocs-1024"], "expected one, or --split"),
    (["hdc", "--algorithm", "ring", "--algorithm", "binomial-tree"], "expected one, or --split"),
    (["hdc", "--split", "--batch", "8"], "--batch is not for --split"),
    (["hdc", "--split", "--strategy", "ddp"], "--strategy is not for --split"),
    (["hdc", "--split", "--cost-model", "paper"], "--cost-model is not for --split"),
    (["hdc", "--split", "--no-overlap"], "--no-overlap is not for --split"),
    ([*_SMALL, "--kind", "placed", "--export-megatron", "x.sh"], "no framework has settings for"),
    ([*_SMALL, "--set", "ranks=4"], "--set ranks=4 and --ranks 8"),
    # Names and counts.
    (["hdc", "--split", "--kind", "pipeline"], "unknown kind of split 'pipeline'"),
    (["hdc", "--split", "--algorithm", "rnig"], "unknown algorithm 'rnig': did you mean 'ring'"),
    (["hdc", "--split", "--cluster", "sip-osc-1024"], "unknown cluster 'sip-osc-1024': did you mean"),
    (["hdc", "--split", "--ranks", "0"], "'ranks': 0"),
    (["hdc", "--split", "--ranks", "many"], "--ranks 'many': expected a whole number"),
    (["hdc", "--split", "--ranks", "1000000000"], "'ranks': 1000000000"),
    (["hdc", "--split", "--global-batch", "0"], "--global-batch 0: expected 1 to 10,000,000 samples"),
    (["hdc", "--split", "--global-batch", "1000000000"], "--global-batch 1000000000: expected 1 to"),
    (["hdc", "--split", "--global-batch", "8.5"], "--global-batch '8.5': expected a whole number"),
    (["hdc", "--split", "--quantum", "0us"], "--quantum 0us: expected more than 0"),
    (["hdc", "--split", "--quantum", "-1us"], "finite and not negative"),
    (["hdc", "--split", "--quantum", "1 parsec"], "unknown time unit 'parsec'"),
    (["resnet51", "--split", *_ON], "unknown model 'resnet51'"),
    # Places that cannot be written.
    ([*_SMALL, "--export-torchtitan", "/proc/x.toml"], "cannot write '/proc/x.toml'"),
    ([*_SMALL, "--export-megatron", "/proc/x.sh"], "cannot write '/proc/x.sh'"),
    ([*_SMALL, "--report", "/proc/x.html"], "cannot write '/proc/x.html'"),
    ([*_SMALL, "--pictures", "/proc/pictures"], "cannot write '/proc/pictures"),
    ([*_SMALL, "--figure", "x.bmp"], "x.bmp"),
    # Splits that cannot be had, and what would do.
    (["hdc", "--split", *_ON, "--kind", "ddp", "--global-batch", "7"], "expected a multiple of 8, one sample a rank"),
    (
        ["hdc", "--split", *_ON, "--kind", "placed", "--global-batch", "7", "--set", "fabric.degree=1"],
        "of a degree D of 1: expected D of at least 3",
    ),
    ([*_SMALL, "--set", "accelerator.memory=1KiB"], "expected more memory, more ranks or a smaller global batch"),
    (
        ["hdc", "--split", "--cluster", "optinc-4", "--kind", "placed"],
        "expected wdm-ring, circuit-switch, switch or two-tier-switch",
    ),
    ([*_SMALL, "--compression-ratio", "8"], "--compression-ratio needs --compression CODEC"),
]


@pytest.mark.parametrize(("arguments", "complaint"), BAD)
def test_bad_input_is_one_clear_line(
    plan: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], complaint: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = plan(*arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: ") and done.err.count("\n") == 1
    assert complaint in done.err
    assert not list(tmp_path.iterdir())
