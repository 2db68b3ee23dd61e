"""``lightloom collective``: the answer first, changes of the question as their own command answers them, files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import lightloom as ll
from lightloom.core.answer import MOST_ROWS
from tests.cli.commands import lightloom
from tests.cli.test_terminal import in_terminal

_RING = ["collective", "all-gather", "--fabric", "wdm-ring", "--ranks", "4"]
GATHER = [*_RING, "--nbytes", "1MB"]


def test_the_answer_is_on_one_screen_and_the_rest_on_request() -> None:
    brief, whole = (lightloom(*GATHER, *more).out for more in ([], ["--all", "--explain", "--worth"]))
    document = json.loads(lightloom(*GATHER, "--json").out)
    best, names = document["rows"][0], [row["algorithm"] for row in document["rows"]]
    assert len(brief.splitlines()) <= 25 and f"{len(names) - MOST_ROWS} more: --all" in brief
    assert f"BEST     {best['algorithm']}" in brief and "verified" in brief and best["bound_by"] in brief
    assert "dollars" not in brief and "refused" not in brief
    assert all(f"\n{name} " in whole for name in names) and "more: --all" not in whole
    assert "transmission" in whole and "refused mesh-broadcast" in whole and "dollars a rank" in whole


@pytest.mark.long
@pytest.mark.parametrize("arguments", [GATHER, [*GATHER, "--without", "node:1", "--straggler", "late=1us"]])
def test_screens_of_eighty_columns(arguments: list[str]) -> None:
    screen = in_terminal(arguments, NO_COLOR="1", TERM="dumb").splitlines()
    assert len(screen) <= 25 and max(map(len, screen)) <= 80


def test_rows_are_the_best_of_each_family() -> None:
    ranking = ll.collective("all-gather", "wdm-ring", 8, "1MB")
    best = [schedule.algorithm for schedule in ranking.families()]
    assert best[0] == ranking.winner.algorithm and len([name for name in best if name.startswith("ring")]) == 1
    assert [schedule for schedule in ranking if schedule.algorithm in best] == ranking.families()


QUESTIONS = [
    ("all-gather", "wdm-ring", "wavelength_bandwidth=80Gbps", "reconfiguration_time=12.5us"),
    ("all-reduce", "torus", "bandwidth=25GB/s", None),
    ("all-to-all", "circuit-switch", "bandwidth=100GB/s", "reconfiguration_time=5ms"),
    ("all-reduce", "tiers", "tiers.package.bandwidth=100GB/s tiers.network.bandwidth=200Gbps", None),
]
_TIERS = """kind: tiers
tiers:
  - {name: package, shape: full-mesh, size: 4, bandwidth: 50GB/s, latency: 50ns}
  - {name: network, shape: switch, ports: 2, bandwidth: 100Gbps, latency: 500ns, taper: 2}
"""


@pytest.mark.parametrize(("kind", "fabric", "faster", "setup"), QUESTIONS)
def test_what_ifs_are_what_the_changed_question_answers(
    tmp_path: Path, kind: str, fabric: str, faster: str, setup: str | None
) -> None:
    if fabric == "tiers":
        fabric = str(tmp_path / "tiers.yaml")
        Path(fabric).write_text(_TIERS)
    ranking = ll.collective(kind, fabric, 8, "1MB")
    found = {words: changed.winner.time for words, changed in ranking.what_ifs()}
    asked = {
        "twice the bandwidth": ("1MB", faster),
        "ten times the bytes": ("10MB", ""),
        "a tenth of the bytes": ("100kB", ""),
    }
    asked |= {} if setup is None else {"half the set-up time": ("1MB", setup)}
    assert found.keys() == asked.keys()
    for words, (nbytes, settings) in asked.items():
        options = [word for text in settings.split() for word in ("--set", text)]
        command = ["collective", kind, "--fabric", fabric, "--ranks", "8", "--nbytes", nbytes, *options, "--json"]
        assert json.loads(lightloom(*command).out)["rows"][0]["time_s"] == found[words], words


def test_several_algorithms_are_ranked() -> None:
    document = json.loads(lightloom(*GATHER, "--algorithm", "ring", "--algorithm", "optree", "--json").out)
    assert {row["algorithm"] for row in document["rows"]} == {"ring", "optree"} and not document["refused"]
    refused = lightloom(*GATHER, "--algorithm", "hierarchical", "--algorithm", "mesh-broadcast")
    assert refused.code == 2 and "composes packets" in refused.err and "needs a grid" in refused.err


def test_the_fastest_schedule_is_saved(tmp_path: Path) -> None:
    file = tmp_path / "fastest.json"
    document = json.loads(lightloom(*GATHER, "--out", str(file), "--json").out)
    assert document["files"] == [str(file)]
    assert ll.verify(file).time == document["rows"][0]["time_s"]


def test_the_former_spelling_of_wavelengths_answers_the_same() -> None:
    then, now = (lightloom(*GATHER, *words, "--json") for words in (["--wavelengths", "2"], ["--set", "wavelengths=2"]))
    assert then.out == now.out and now.err == ""
    assert then.err == (
        "warning: --wavelengths is spelt `--set wavelengths=...` now; the former spelling works in this release\n"
    )
