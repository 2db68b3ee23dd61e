"""The command ``goodput``: what it prints, and what it refuses in one line."""

from __future__ import annotations

import json

import pytest

from tests.cli.commands import lightloom

CLUSTER = "h100-1024-fat-tree-400g"


def test_what_it_prints() -> None:
    done = lightloom("goodput", CLUSTER, "--slice", "512", "--checkpoint", "0.6s,51s", "--node-price", "300000")
    assert done.code == 0
    for words in ("where the time goes", "transceiver-400g", "one more spare node", "3 (chosen)", "fixed slices"):
        assert words in done.out, words
    assert "lightloom damage does not serve a fabric of kind tiers" in done.out
    assert "assumption: nodes are back after 24 h" in done.out


def test_the_document() -> None:
    asked = ("--ranks", "16384", "--interruption-time", "3.093h", "--restart", "5min", "--checkpoint", "30s", "--json")
    document = json.loads(lightloom("goodput", CLUSTER, *asked).out)
    assert document["schema"] == "lightloom.goodput/1"
    assert document["goodput"] == pytest.approx(0.904, abs=5e-4)
    assert document["interruptions"] == pytest.approx(720 / 3.093)
    unknown = json.loads(lightloom("goodput", "sip-ocs-1024", "--json").out)
    assert unknown["goodput"] is None
    assert unknown["missing"] == ["mean time between failures of circuit-switch-port"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--checkpoint", "-1s"], "finite and not negative"),
        (["--months", "many"], "--months 'many': expected a number"),
        (["--mtbf", "host"], "expected name=time, e.g. host=60000h"),
        (["--recovery", "swap=1s", "--recovery", "swap=2s"], "swap is given twice"),
        (["--host-availability", "99", "--slice", "64"], "99%"),
        (["--rack", "4"], "e.g. 4,20000h"),
        (["--weibull", "0"], "expected 0.2 to 20"),
        (["--spares", "2", "--spare-price", "10"], "contradict each other"),
    ],
)
def test_bad_input_is_one_line(options: list[str], words: str) -> None:
    done = lightloom("goodput", CLUSTER, *options)
    assert done.code == 2
    assert done.out == ""
    assert words in done.err and done.err.count("\n") == 1
