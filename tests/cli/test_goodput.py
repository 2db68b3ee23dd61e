"""The command ``goodput``: what it prints, and what it refuses in one line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from lightloom.app.api.goodput import GoodputSettings
from lightloom.machines.clusters.cluster import ClusterFile
from tests.cli.commands import lightloom

CLUSTER = "h100-1024-no-nvlink-400g"


def test_the_answer_comes_first_and_the_rest_on_request() -> None:
    settings = ("--set", "stall=0.6s", "--set", "save=51s", "--set", "node_price=3e5")
    asked = ("goodput", CLUSTER, "--slice", "512", *settings)
    done = lightloom(*asked)
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0] == f"How much of a month trains on 1,024 ranks of {CLUSTER}?"
    assert re.match(r"BEST     99\.\d\d% of the time trains", lines[1])
    assert len(lines) <= 25
    for words in ("3 spare nodes", "transceiver-400g", "one more spare node", "slices of 512", "Limit    without"):
        assert words in done.out, words
    assert "does not serve a fabric of kind tiers" not in done.out
    explained = lightloom(*asked, "--explain", "--assumptions").out
    for words in ("fixed slices", "3 (chosen)", "does not serve a fabric of kind tiers", "nodes are back after 24 h"):
        assert words in explained, words


def test_the_document() -> None:
    asked = ("interruption_time=3.093h", "restart=5min", "stall=30s")
    options = [word for text in asked for word in ("--set", text)]
    document = json.loads(lightloom("goodput", CLUSTER, "--ranks", "16384", *options, "--json").out)
    assert document["schema"] == "lightloom.goodput/1"
    assert document["goodput"] == pytest.approx(0.904, abs=5e-4)
    assert document["interruptions"] == pytest.approx(720 / 3.093)
    unknown = json.loads(lightloom("goodput", "sip-ocs-1024", "--json").out)
    assert unknown["goodput"] is None
    assert unknown["missing"] == ["mean time between failures of circuit-switch-port"]


def test_a_file_states_the_same_as_options(tmp_path: Path) -> None:
    file = tmp_path / "goodput.yaml"
    file.write_text("mtbf: {host: 60000h}\nrack: {nodes: 4, mtbf: 20000h}\nweibull: 0.7\nruns: 2\nspares: 3\n")
    fields = ("mtbf.host=60000h", "rack.nodes=4", "rack.mtbf=20000h", "weibull=0.7", "runs=2", "spares=2")
    options = [word for text in fields for word in ("--set", text)]
    stated = json.loads(lightloom("goodput", CLUSTER, *options, "--json").out)
    read = json.loads(lightloom("goodput", CLUSTER, "--settings", str(file), "--set", "spares=2", "--json").out)
    assert read == stated
    assert read["spare_nodes"] == 2 and read["simulated"]["runs"] == 2


def test_settings_and_fields_of_the_cluster_differ_by_their_first_names() -> None:
    assert not GoodputSettings.model_fields.keys() & ClusterFile.model_fields.keys()
    document = json.loads(lightloom("goodput", CLUSTER, "--set", "ranks=256", "--set", "node_ranks=4", "--json").out)
    assert (document["ranks"], document["node_ranks"]) == (256, 4)


def test_each_setting_is_described() -> None:
    properties = json.loads(lightloom("catalog", "--schema", "goodput").out)["properties"]
    assert properties.keys() == GoodputSettings.model_fields.keys()
    assert all(each["description"] for each in properties.values())


@pytest.mark.parametrize(
    ("former", "options"),
    [
        ("--checkpoint 0.6s,51s", "--set stall=0.6s --set save=51s"),
        ("--checkpoint 30s --interval 10min", "--set stall=30s --set interval=10min"),
        ("--mtbf host=60000h --recovery swap=60s", "--set mtbf.host=60000h --set recovery.swap=60s"),
        (
            "--runs 2 --weibull 0.7 --crews 2 --rack 4,20000h",
            "--set runs=2 --set weibull=0.7 --set crews=2 --set rack.nodes=4 --set rack.mtbf=20000h",
        ),
        ("--slice 64 --block 32 --host-availability 99%", "--slice 64 --set block=32 --set host_availability=99%"),
    ],
)
def test_former_options_give_the_same_and_warn(former: str, options: str) -> None:
    before = lightloom("goodput", CLUSTER, *former.split(), "--json")
    now = lightloom("goodput", CLUSTER, *options.split(), "--json")
    assert json.loads(before.out) == json.loads(now.out)
    assert now.err == ""
    assert before.err.count("\n") == sum(word.startswith("--") and word != "--slice" for word in former.split())
    assert all(line.startswith("warning: --") for line in before.err.splitlines())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--set", "stall=-1s"], "field 'stall': '-1s': a time must be finite and not negative"),
        (["--set", "months=many"], "field 'months': 'many'"),
        (["--set", "repair=24"], "field 'repair': '24' has no unit"),
        (["--set", "months=0"], "expected more than 0"),
        (["--set", "mtbf.host=soon"], "field 'mtbf.host': 'soon' is not a time"),
        (["--set", "sparez=3"], "unknown field 'sparez': did you mean 'spares'"),
        (["--set", "host_availability=99", "--slice", "64"], "field 'host_availability': 99"),
        (["--set", "rack.nodes=4"], "field 'rack.mtbf' is missing"),
        (["--set", "rack.nodez=4"], "rack"),
        (["--set", "weibull=0"], "expected 0.2 to 20"),
        (["--set", "spares=2", "--set", "spare_price=10"], "contradict each other"),
        (["--settings", "none.yaml"], "none.yaml"),
        (["--slice", "2.5"], "--slice '2.5': expected a whole number"),
        (["--slice", "0"], "--slice 0: expected at least 1"),
    ],
)
def test_bad_input_is_one_line(options: list[str], words: str) -> None:
    done = lightloom("goodput", CLUSTER, *options)
    assert done.code == 2
    assert done.out == ""
    assert words in done.err and done.err.count("\n") == 1
