"""``lightloom exchange``: methods by name, what they send, this host's rates, and where an exchange pays."""

import json
import os
from pathlib import Path

import pytest

from lightloom.exchange.methods import names
from tests.cli.commands import assert_refused, lightloom

_TRAINING = "exchange compare --ranks 2 --seeds 1"


def test_all_methods_are_listed_and_shown() -> None:
    done = lightloom("catalog", "exchanges", "--json")
    assert done.code == 0, done.err
    rows = json.loads(done.out)["methods"]
    assert [row["name"] for row in rows] == names()
    assert {row["accuracy"] for row in rows} == {"not measured"} or all(row["accuracy"] for row in rows)
    done = lightloom("catalog", "int4:block=128", "--ranks", "4", "--json")
    document = json.loads(done.out)
    assert document["ratio"] == pytest.approx(512 / 66)
    assert [phase["kind"] for phase in document["phases"]] == ["all-to-all", "all-gather"]
    shown = lightloom("catalog", "diloco:every=50,inner=int4")
    assert shown.code == 0 and "every 50 steps" in " ".join(shown.out.split())
    assert_refused(lightloom("catalog", "int5"), "unknown catalog entry 'int5': did you mean 'int8'")


def test_rates_of_this_host_price_plans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="needs lightloom[torch]")
    monkeypatch.setenv("LIGHTLOOM_CACHE", str(tmp_path))
    monkeypatch.setattr("lightloom.exchange.measuring._LARGE", 1 << 14)
    plan = ["plan", "hdc", "--cluster", "inceptionn-4", "--strategy", "ddp", "--algorithm", "one-stage"]
    plan += ["--exchange", "int8", "--exchange-engine", "local", "--json"]
    assert_refused(lightloom(*plan), "measure them with: lightloom exchange measure 'int8:block=256'")
    done = lightloom("exchange", "measure", "int8", "topk", "powersgd", "inceptionn", "bf16", "--json")
    assert done.code == 0, done.err
    rows = json.loads(done.out)["methods"]
    assert all(row["encode"] > 0 and row["decode_message"] > 0 for row in rows)
    done = lightloom(*plan)
    assert done.code == 0, done.err
    [row] = [row["compression"] for row in json.loads(done.out)["ranking"] if row["compression"]][:1]
    assert row["encode_bytes_per_second"] == rows[0]["encode"] and "measured on this host" in row["engine_source"]
    assert_refused(lightloom("exchange", "measure", "float32"), "codes nothing")


def test_break_even_counts_set_ups_and_draws_lines(tmp_path: Path) -> None:
    command = ["exchange", "break-even", "--model", "hdc", "--exchange", "int8", "--link", "1Gbps", "--link", "400Gbps"]
    done = lightloom(*command, "--ranks", "16", "--figure", str(tmp_path / "lines.png"), "--json")
    assert done.code == 0, done.err
    document = json.loads(done.out)
    assert len(document["set_ups"]) == 2 and document["counts"]["best"]["set_ups"] == 2
    slow, fast = (row["plain"] / row["methods"]["int8:block=256"] for row in document["set_ups"])
    assert slow > 1.5 and slow > fast
    [(ranks, speed)] = document["lines"]["int8:block=256"]
    assert ranks == 16 and speed > 1e9 / 8
    assert (tmp_path / "lines.png").stat().st_size > 5000
    assert "assumption" in document["engine_source"]
    shown = lightloom(*command, "--ranks", "16")
    assert "BEST     int8:block=256 shortens" in shown.out and shown.out.count("\n") <= 25
    former = lightloom(*command, "--ranks", "16", "--batch", "8", "--json")
    now = lightloom(*command, "--ranks", "16", "--set", "batch=8", "--json")
    assert (former.code, former.out) == (0, now.out) and json.loads(now.out)["batch_per_rank"] == 8
    assert former.err == "warning: --batch is spelt `--set batch=...` now; the former spelling works in this release\n"


@pytest.mark.long
def test_a_comparison_names_the_best_method_and_former_spellings_repeat_it(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs lightloom[torch]")
    data = Path(os.environ.get("LIGHTLOOM_DATA", "absent"))
    if not (data / "tinyshakespeare").is_dir():
        pytest.skip("needs tinyshakespeare in LIGHTLOOM_DATA")
    now = ["--exchange", "int8", "--set", "steps=4", "--set", f"folder={tmp_path}"]
    shown = lightloom(*_TRAINING.split(), *now, "--out", "evidence.json", folder=tmp_path)
    assert shown.code == 0 and shown.out.count("\n") <= 25, shown.err
    assert "plain training" in shown.out and "less plain" in shown.out
    assert json.loads((tmp_path / "evidence.json").read_text())
    former = ["--method", "int8", "--steps", "4", "--folder", str(tmp_path), "--data", str(data), "--json"]
    old = lightloom(*_TRAINING.split(), *former)
    new = lightloom(*_TRAINING.split(), *now, "--json")
    assert (old.code, old.out) == (0, new.out) and old.err.count("warning: ") == 4
