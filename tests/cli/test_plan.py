"""``lightloom plan``: one ranking of all kinds, files on demand, one clear line where no plan is possible."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lightloom.app.cli import plan as plans
from lightloom.planning.search.request import KINDS
from tests.cli.commands import Done, run

Command = Callable[..., Done]
_ON = ("--cluster", "sip-ocs-1024", "--ranks", "8")
_SMALL = ("hdc", *_ON, "--global-batch", "64")


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    def call(*arguments: str) -> Done:
        return run(monkeypatch, capsys, "plan", *arguments)

    return call


def document(done: Done) -> dict[str, Any]:
    assert done.code == 0, done.err
    found: dict[str, Any] = json.loads(done.out)
    return found


@pytest.mark.long
def test_the_document_ranks_every_kind_together(plan: Command) -> None:
    done = plan(
        "hdc",
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
        "--pin",
        "quantum=10us",
        "--json",
    )
    found = document(done)
    assert done.err == "" and found["schema"] == "lightloom.plan/2"
    rows = found["ranking"]
    assert [row["rank"] for row in rows] == list(range(1, len(rows) + 1))
    times = [(not row["runnable"], row["sample_time_s"]) for row in rows]
    assert times == sorted(times) and {row["strategy"] for row in rows if not row["runnable"]} == {"placed"}
    assert {row["strategy"] for row in rows} == set(KINDS) == set(found["best_of_strategy"])
    assert {(row["cluster"], row["ranks"]) for row in rows} == {
        (name, ranks) for name in ("sip-ocs-1024", "sip-ring-1024") for ranks in (4, 8)
    }
    for row in rows:
        batch = row["choice"]["global_batch"]
        assert batch == row["global_batch"] and batch in (8, 64)
        assert row["sample_time_s"] == pytest.approx(row["iteration_time_s"] / batch)
        assert row["energy_per_sample_j"] == pytest.approx(row["energy"]["known_j"] / batch)
        assert sum(row["breakdown"].values()) == pytest.approx(row["iteration_time_s"])
        assert row["bound_s"] <= row["iteration_time_s"] * (1 + 1e-9)
        assert row["memory_bytes"] > 0
        assert (row["placed"] is not None) == (row["strategy"] == "placed")
        degrees = [row["choice"][name] for name in (("k", "l") if row["placed"] else ("dp", "tp", "pp"))]
        assert _product(degrees) == row["ranks"]
    for kind, place in found["best_of_strategy"].items():
        assert place == min(row["rank"] for row in rows if row["strategy"] == kind)
    front = [rows[place - 1] for place in found["front"]]
    for row in rows:
        beaten = any(
            other["sample_time_s"] <= row["sample_time_s"]
            and other["energy_per_sample_j"] <= row["energy_per_sample_j"]
            for other in front
        )
        assert beaten and row["on_front"] == (row in front)
    counts = found["counts"]
    assert counts["simulated"] >= len(rows) and counts["rows"] >= max(counts["bounded"], counts["simulated"])
    assert " wins: " in found["explanation"] and f"with {rows[0]['global_batch']:,} samples" in found["explanation"]


def _product(values: list[int]) -> int:
    product = 1
    for value in values:
        product *= value
    return product


@pytest.mark.long
def test_prices_and_choices_reach_plans(plan: Command) -> None:
    """A price of the fabric is that of the cluster alone; prices of parts and choices hold for its reference, too."""

    def dollars(*given: str) -> list[float]:
        found = document(
            plan("hdc", "--cluster", "sip-ocs-1024", "--ranks", "8", "--strategy", "ddp", *given, "--json")
        )
        rows = found["ranking"][0], found["reference"][0]
        return [row["ledger"]["dollars_per_rank"]["value"] for row in rows]

    base, whole = dollars(), dollars("--site", "fabric_price=1 k$")
    assert whole[1] == base[1] and base[0] > whole[0]
    assert dollars("--site", "fabric_price=3 k$")[0] == pytest.approx(whole[0] + 2000)
    cards = dollars("--price", "nic-400g=0 $")
    assert cards[0] == pytest.approx(base[0] - 8 * 1499) and cards[1] < base[1]
    switches = dollars("--set", "switches=whole")
    assert switches[0] > base[0] and switches[1] >= base[1]


@pytest.mark.long
def test_every_file_is_written(plan: Command, tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("report.html", "trace.json", "figure.svg", "job.toml", "arguments.sh")}
    done = plan(
        *_SMALL,
        "--pin",
        "quantum=10us",
        "--report",
        str(files["report.html"]),
        "--trace",
        str(files["trace.json"]),
        "--figure",
        str(files["figure.svg"]),
        "--export",
        str(files["job.toml"]),
        "--export",
        str(files["arguments.sh"]),
        "--export",
        str(tmp_path / "step"),
        "--json",
    )
    found = document(done)
    drawn = document(plan(*_SMALL, "--pin", "quantum=10us", "--figure", str(tmp_path / "pictures"), "--json"))
    traces = json.loads((tmp_path / "step" / "lightloom.json").read_text())
    assert traces["label"] == found["ranking"][found["exported_step"]["rank"] - 1]["label"]
    assert len(list((tmp_path / "step").glob("step.*.et"))) == traces["ranks"]
    page = files["report.html"].read_text()
    still = page.split("<script>")[0]  # what scripts draw is looked at in a browser, which fetches nothing
    assert "http://" not in still and "https://" not in still
    for title in ("Where the time goes", "Time and energy of a sample", "Placement", "Traffic and circuits"):
        assert title in page
    assert page.count("<svg") >= 5
    assert json.loads(files["trace.json"].read_text())["traceEvents"]
    exported = found["ranking"][found["exported"]["rank"] - 1]
    read = tomllib.loads(files["job.toml"].read_text())
    assert read["parallelism"]["tensor_parallel_degree"] == exported["choice"]["tp"]
    assert read["training"]["global_batch_size"] == 64
    assert "--global-batch-size 64" in files["arguments.sh"].read_text()
    pictures = sorted(Path(path).name for path in drawn["pictures"])
    assert {"breakdown.png", "pareto.png", "placement.png", "timeline.png", "traffic.png"} <= set(pictures)
    assert sorted(path.name for path in (tmp_path / "pictures").iterdir()) == pictures
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*files, "pictures", "step"])


@pytest.mark.long
def test_the_winner_is_exported_though_a_placed_plan_is_faster(plan: Command, tmp_path: Path) -> None:
    """On a packet switch hdc is fastest in one group, for which no framework has settings."""
    path = tmp_path / "arguments.sh"
    options = ("hdc", "--cluster", "h100-512-two-tier", "--ranks", "16", "--global-batch", "64")
    done = plan(*options, "--export", str(path), "--json")
    found = document(done)
    winner, fastest = found["ranking"][0], min(found["ranking"], key=lambda row: row["iteration_time_s"])
    assert (winner["strategy"] == "placed") < (fastest["strategy"] == "placed")
    assert found["exported"]["rank"] == 1 and "why" not in found["exported"]
    assert winner["label"] in path.read_text() and done.err == ""


@pytest.mark.parametrize(("splits", "words"), [(True, "splits neurons"), (False, "is a placed plan")])
def test_why_another_plan_than_the_winner_is_exported(
    splits: bool, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    winner, other = SimpleNamespace(splits_neurons=splits, sample_time=1), SimpleNamespace(label="ddp", sample_time=2)
    search: Any = SimpleNamespace(winner=winner, ranking=[winner, other], graph=None)
    monkeypatch.setattr(plans, "expressible", lambda search: other)
    monkeypatch.setattr(plans, "exported", lambda plan, graph: None)
    monkeypatch.setitem(plans._FRAMEWORKS, ".toml", ("torchtitan", lambda job: "", lambda job: []))
    path, found = tmp_path / "job.toml", dict[str, Any]()
    assert len([*plans._export_settings(path, search, found), *plans._export_settings(path, search, found)]) == 1
    assert found["exported"]["why"] == f"the winner {words}, which no framework has settings for"


BAD: list[tuple[list[str], str]] = [
    # Options that contradict each other.
    (["hdc", "--split"], "No such option: --split"),
    (["hdc", "--batch", "8", "--global-batch", "64"], "--batch 8 and --global-batch 64: expected one of them"),
    (["hdc", "--strategy", "placed", "--pin", "overlap=no"], "--pin overlap=no is not for --strategy placed"),
    (["hdc", "--strategy", "tensor-pipeline", "--cost-model", "paper"], "the paper cost model is not for --strategy"),
    (["hdc", "--strategy", "placed", "--tp", "2"], "a pinned degree or sharding is not for --strategy"),
    (["hdc", *_ON, "--dp", "3"], "--dp 3: 3 ranks in all, expected a divisor of 8"),
    (["hdc", *_ON, "--dp", "2", "--tp", "1", "--pp", "1"], "2 ranks in all, expected 8"),
    (["hdc", *_ON, "--tp", "7"], "--tp 7"),
    (["hdc", *_ON, "--pp", "8", "--pin", "virtual_stages=4"], "expected at most one stage for each"),
    (["hdc", *_ON, "--ep", "2"], "--ep 2: expected a divisor of 1"),
    (["hdc", *_ON, "--pin", "micro_batches=5", "--global-batch", "64"], "expected a multiple of 5"),
    (["hdc", *_ON, "--pin", "micro-batches=8", "--pin", "micro_batches=4"], "micro_batches is given twice"),
    (["hdc", *_ON, "--pin", "sharding=zero"], "unknown sharding 'zero'"),
    (["hdc", *_ON, "--pin", "recompute=some"], "unknown recomputation 'some'"),
    (["hdc", *_ON, "--tp", "0"], "--tp 0: expected at least 1"),
    ([*_SMALL, "--strategy", "placed", "--export", "x.sh"], "no framework or trace has placed plans"),
    ([*_SMALL, "--set", "ranks=4"], "--set ranks=4 and --ranks 8"),
    # Names and counts.
    (["hdc", "--strategy", "pipeline"], "unknown strategy 'pipeline'"),
    (["hdc", "--algorithm", "rnig"], "unknown algorithm 'rnig': did you mean 'ring'"),
    (["hdc", "--cluster", "sip-osc-1024"], "unknown cluster 'sip-osc-1024': did you mean"),
    (["hdc", "--ranks", "0"], "'ranks': 0"),
    (["hdc", "--ranks", "many"], "--ranks 'many': expected a whole number"),
    (["hdc", "--ranks", "1000000000"], "'ranks': 1000000000"),
    (["hdc", "--global-batch", "0"], "--global-batch 0: expected 1 to 10,000,000 samples"),
    (["hdc", "--global-batch", "1000000000"], "--global-batch 1000000000: expected 1 to"),
    (["hdc", "--global-batch", "8.5"], "--global-batch '8.5': expected a whole number"),
    (["hdc", "--pin", "quantum=0us"], "quantum of 0.0 s: expected more than 0"),
    (["hdc", "--pin", "quantum=-1us"], "finite and not negative"),
    (["hdc", "--pin", "quantum=1 parsec"], "unknown time unit 'parsec'"),
    (["resnet51", *_ON], "unknown model 'resnet51'"),
    # Places that cannot be written.
    ([*_SMALL, "--export", "/proc/x.toml"], "cannot write '/proc/x.toml'"),
    ([*_SMALL, "--export", "/proc/x.sh"], "cannot write '/proc/x.sh'"),
    ([*_SMALL, "--export", "/proc/x"], "cannot write '/proc/x"),
    ([*_SMALL, "--export", "/"], "'/': holds other files: expected a new folder, or an earlier export"),
    ([*_SMALL, "--report", "/proc/x.html"], "cannot write '/proc/x.html'"),
    ([*_SMALL, "--figure", "/proc/pictures"], "cannot write '/proc/pictures"),
    ([*_SMALL, "--figure", "x.bmp"], "x.bmp"),
    # Splits that cannot be had, and what would do.
    (["hdc", *_ON, "--strategy", "ddp", "--global-batch", "7"], "expected a multiple of 8, one sample a rank"),
    (
        ["hdc", *_ON, "--strategy", "placed", "--global-batch", "7", "--set", "fabric.degree=1"],
        "of a degree D of 1: expected D of at least 3",
    ),
    ([*_SMALL, "--set", "accelerator.memory=1KiB"], "expected more memory, more ranks or a smaller global batch"),
    (
        ["hdc", "--cluster", "optinc-4", "--strategy", "placed"],
        "wavelengths around a sound ring (wavelength_routed: wdm-ring) or switch planes",
    ),
    ([*_SMALL, "--exchange-ratio", "8"], "--exchange-ratio needs --exchange METHOD"),
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
