"""Results show themselves in four ways, and their documents are those of the commands."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import lightloom as ll
from lightloom.app.api import collectives
from lightloom.core.results import Result, html_table
from tests.cli.commands import run

RING: dict[str, Any] = {"fabric": "wdm-ring", "ranks": 8, "nbytes": "64KiB"}
OPTIONS = ("--fabric", "wdm-ring", "--ranks", "8", "--nbytes", "64KiB")


def printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    """The document of a command."""
    done = run(monkeypatch, capsys, *arguments, "--json")
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_a_ranking_is_the_commands_document(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ranking = ll.collective("all-gather", **RING, wavelengths=4, set={"conversion_time": "1us"})
    command = ("collective", "all-gather", *OPTIONS, "--wavelengths", "4", "--set", "conversion_time=1us")
    assert json.loads(json.dumps(ranking.to_json())) == printed(monkeypatch, capsys, *command)
    assert [schedule.time for schedule in ranking] == sorted(schedule.time for schedule in ranking)
    assert ranking.winner is ranking[0] and len(ranking) == len(ranking.rows())


def test_a_ranking_has_families_and_changed_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    ranking = ll.collective("all-gather", **RING, wavelengths=4, set={"conversion_time": "1us"})
    shown = ranking.display_rows()
    assert [row["algorithm"] for row in shown] == [row["algorithm"] for row in ranking.rows()]
    assert [schedule.display_rows() for schedule in ranking] == [[row] for row in shown]
    families = ranking.families()
    assert families[0] is ranking.winner and len(families) > 1
    stems = [re.sub("(-two-way|-pairs|-both-axes|-striped)+$", "", each.algorithm) for each in families]
    assert len(set(stems)) == len(stems)
    assert [each.time for each in families] == sorted(each.time for each in families)
    changed = dict(ranking.what_ifs())
    words = ["twice the bandwidth", "half the set-up time", "ten times the bytes", "a tenth of the bytes"]
    assert list(changed) == words
    assert [changed[each].collective.nbytes for each in words] == [65536, 65536, 655360, 6553.6]
    assert changed[words[1]].fabric.setup_time == ranking.fabric.setup_time / 2 > 0
    before, after = (each.fabric.stated_fields()["wavelength_bandwidth"] for each in (ranking, changed[words[0]]))
    assert (before, after) == (5e9, 10e9)
    ring = ll.collective("all-gather", **RING, algorithm="ring", set={"reconfiguration_time": "0s"})
    told = dict(ring.what_ifs())
    assert list(told) == [words[0], *words[2:]] and {each.algorithm for each in told.values()} == {"ring"}
    assert ranking.library_time is None
    monkeypatch.setattr(collectives, "MOST_CHANGED", 7)
    assert list(ranking.what_ifs()) == []


def test_a_library_takes_no_less_than_the_lower_bound() -> None:
    asked: dict[str, Any] = {"fabric": "dgx-h100", "ranks": 8, "nbytes": "1GB", "transport": "nccl-hopper"}
    ranking = ll.collective("all-reduce", **asked, algorithm="ring")
    assert ranking.library_time is not None
    assert ranking.library_time >= ranking.winner.lower_bound.time
    assert ranking.to_json()["library_time_s"] == ranking.library_time


def test_a_schedule_is_the_commands_document(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    made = ll.synthesize("all-reduce", **RING)
    made.save(tmp_path / "schedule.json")
    assert made.to_json() == printed(monkeypatch, capsys, "schedule", "check", str(tmp_path / "schedule.json"))
    read = ll.verify(tmp_path / "schedule.json")
    assert (read.cost, read.lower_bound) == (made.cost, made.lower_bound)
    assert ll.cost(made) == ll.cost(made.schedule, "wdm-ring") == made.cost
    assert ll.lower_bound("all-reduce", **RING) == made.lower_bound


def test_an_averager_is_the_commands_document(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = ll.averager(servers=2, bits=4, evaluations=2000)
    command = ("onn", "build", "--servers", "2", "--bits", "4", "--evaluations", "2000")
    assert json.loads(json.dumps(made.to_json())) == printed(monkeypatch, capsys, *command)
    assert made.verification.wrong_outputs == 0 and made.proof
    (row,) = made.display_rows()
    layers = made.construction.network.layers
    assert (row["signals"], row["MZIs"]) == ("-".join(map(str, layers)), made.construction.mzi_count)
    assert (row["wrong outputs"], row["inputs tried"]) == (0, made.verification.checked_inputs)
    assert made.to_json()["provenance"]["seed"] == 0


def test_a_plan_is_the_commands_document(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch", reason="needs lightloom[torch]")
    ranking = ll.plan("hdc", cluster="inceptionn-4", batch=16, strategy="ddp")
    command = ("plan", "hdc", "--cluster", "inceptionn-4", "--batch", "16", "--strategy", "ddp", "--no-what-if")
    assert json.loads(json.dumps(ranking.to_json())) == printed(monkeypatch, capsys, *command)
    assert "hdc on inceptionn-4" in repr(ranking) and "<svg" in ranking._repr_html_()
    assert len(ranking.rows()) == len(ranking) > 1
    for row, told in zip(ranking.rows(), ranking.to_json()["ranking"], strict=True):
        spent = told["ledger"]
        assert row["dollars_per_rank"] == spent["dollars_per_rank"]["value"] > 0
        assert row["least_dollars_per_step"] == spent["dollars_per_step"]["value"] > 0
        assert row["compute_s"] == told["breakdown"]["compute_s"] > 0


def test_prices_may_be_of_the_fabric_that_a_cluster_is_compared_with() -> None:
    """They change the configuration; a site without a statement does not."""
    asked: dict[str, Any] = {"cluster": "terarack-64", "strategy": "ddp", "algorithm": "ring", "global_batch": 64}
    plain, same, priced, dearer = (
        ll.plan("hdc", **asked, every_algorithm=False, dp=64, site=site).origin["configuration"]
        for site in (None, {}, {"prices": {"transceiver-400g": 5}}, {"prices": {"transceiver-400g": 6}})
    )
    assert plain == same != priced != dearer != plain
    with pytest.raises(ll.LightloomError, match="the price of splitter changes nothing here"):
        ll.plan("hdc", **asked, site={"prices": {"splitter": 5}})


def test_a_wrong_schedule_is_refused_with_the_place() -> None:
    made = ll.synthesize("all-gather", **RING, algorithm="ring")
    wrong = made.schedule.with_columns({"chunk": (made.schedule.chunk + 1) % made.schedule.chunks})
    with pytest.raises(ll.LightloomError, match=r"rank \d+|chunk \d+"):
        ll.verify(wrong, made.fabric)
    with pytest.raises(ll.LightloomError, match="without a fabric"):
        ll.verify(made.schedule)


def test_models_of_every_kind_have_the_same_graph() -> None:
    torch = pytest.importorskip("torch", reason="needs lightloom[torch]")
    module = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
    graph = ll.trace(module, inputs=torch.zeros(2, 16), batch=8, name="small")
    assert graph.batch == 8 and graph.parameters == 16 * 32 + 32 + 32 * 4 + 4
    assert ll.trace(graph, batch=4) == graph.with_batch(4)
    assert graph.name == "small" and ll.trace(module, inputs=torch.zeros(2, 16), batch=8).name == "Sequential"
    with pytest.raises(ll.LightloomError, match="expected a model's name"):
        ll.trace(3)  # type: ignore[arg-type]


def test_objects_are_changed_by_keyword() -> None:
    ring = ll.load_fabric("wdm-ring", 8, wavelengths=4)
    assert ll.load_fabric(ring) is ring
    assert ll.load_fabric(ring, 16).ranks == 16 and ll.load_fabric(ring, wavelengths=2).channels == ring.channels // 2
    assert ll.load_cluster("terarack-64", 32, set={"fabric.wavelengths": 16}).fabric.ranks == 32
    cases: dict[str, dict[str, Any]] = {
        "expected a number of ranks": {"fabric": "ring", "nbytes": 1},
        "give either the total size": {"fabric": ring},
        "unknown field 'wavelenths'": {"fabric": ring, "nbytes": 1, "wavelenths": 3},
    }
    for message, arguments in cases.items():
        with pytest.raises(ll.LightloomError, match=message):
            ll.collective("all-gather", **arguments)


def test_lines_and_tables() -> None:
    made = ll.synthesize("all-gather", **RING, algorithm="ring")
    for result in (made, made.cost, made.lower_bound, made.schedule, ll.load_cluster("terarack-64")):
        assert "\n" not in repr(result) and 10 < len(repr(result)) < 200 and "array" not in repr(result)
    page = made._repr_html_()
    assert page.count("<svg") == 1 and "<table>" in page and "<script" not in page
    assert len(made.rows()) == 7 * 8 and {row["source"] for row in made.rows()} == set(range(8))
    assert html_table([{"a<b": 1}, {"a<b": 2}], most=1).endswith("<p>and 1 more rows</p>")
    assert "a&lt;b" in html_table([{"a<b": 1}])


def test_fabrics_and_accelerators_show_their_fields() -> None:
    ring = ll.load_fabric("wdm-ring", 8, wavelengths=4, hop_latency="20ns")
    assert str(ring) == repr(ring) and "array" not in repr(ring)
    assert repr(ring).startswith("wdm-ring of 8 ranks: hop latency 20 ns; wavelengths 4; wavelength bandwidth 40 Gb/s")
    chip = ll.load_cluster("terarack-64").accelerator
    assert "peak" in repr(chip) and "TFLOP/s" in repr(chip) and "\n" not in repr(chip)
    for shown in (ring, chip, ll.load_fabric("optical-averager", 8), ll.load_fabric("torus", 64).group(8, 2)):
        assert shown is not None and len(repr(shown)) < 260
        assert "<table>" in shown._repr_html_() and "None" not in shown._repr_html_()
    assert "data sheet" in chip._repr_html_()


def test_a_verified_schedule_has_its_parts() -> None:
    made = ll.synthesize("all-gather", **RING, algorithm="ring")
    for result in (made, ll.verify(made)):
        assert isinstance(result.schedule, ll.Schedule) and isinstance(result.fabric, ll.Fabric)
        assert result.collective == ll.Collective("all-gather", 8, 65536)
        assert ll.cost(result.schedule, result.fabric).time == result.time >= ll.lower_bound("all-gather", **RING).time


class Odd(Result):
    """A result that holds what JSON lacks."""

    def summary(self) -> str:
        return "odd"

    def to_json(self) -> dict[str, Any]:
        return {"number": 1, "list": [1], "text": "x"}


def test_pandas_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    ranking = ll.collective("all-gather", **RING, wavelengths=4)
    frame = ranking.to_dataframe()
    assert isinstance(frame, pandas.DataFrame) and len(frame) == len(ranking)
    assert list(frame["time_s"]) == [schedule.time for schedule in ranking]
    assert ranking.winner.to_dataframe()["source"].nunique() == 8
    assert Odd().to_dataframe().to_dict("records") == [{"number": 1, "text": "x"}]
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ll.LightloomError, match="pip install pandas"):
        Odd().to_dataframe()


def test_a_module_that_the_tracer_lacks_is_not_taken_for_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setitem(sys.modules, "lightloom.models.torch.trace", None)
    with pytest.raises(ModuleNotFoundError, match=r"lightloom\.models\.torch\.trace"):
        ll.plan(torch.nn.Linear(3, 3), "terarack-64")
