"""Results that no refactoring may change (:mod:`scripts.kept_results`), but for what processors add up differently."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scripts.kept_cases import CASES, Case
from scripts.kept_results import SETTINGS, differences, normalised, read_results, run, write_results

from lightloom.collectives.synthesis.engine import cache

ROOT = Path(__file__).parents[2]
NAMES = {case.name for case in CASES}
KEPT = ROOT / "tests" / "kept_results"
WITHIN = 1e-9
"""Share by which numbers may differ: the tests run on processors of other kinds than the one of the kept results."""
FEW = (
    "bill.terarack.64.set.wdm=devices",
    "catalog.dgx-h100",
    "collective.all-gather.wdm-ring.16",
    "collective.all-reduce.dgx-h100.16",
    "collective.all-to-all.torus.16",
    "collective.permute.circuit-switch.8",
    "exchange.show.int4",
    "goodput.dgx-h100-64",
    "plan.hdc.inceptionn-4",
    "plan.option.paper",
    "reproduce.economics",
    "schedule.export.optree",
)
"""Cases of many commands that take two seconds together."""


@pytest.mark.long
def test_a_few_results_are_as_kept() -> None:
    only = [word for name in FEW for word in ("--only", name)]
    command = [sys.executable, "-m", "scripts.kept_results", "--compare", str(KEPT), "--within", str(WITHIN), *only]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.long
def test_every_case_has_a_kept_result_and_most_succeed() -> None:
    kept = read_results(KEPT)
    assert set(kept) == NAMES
    exits = [result["exit"] for result in kept.values()]
    assert set(exits) == {0, 2} and exits.count(0) > 0.9 * len(exits)
    counts = {"plan": 60, "collective": 200, "onn": 30, "reproduce": 6, "design": 20, "bill": 12, "goodput": 12}
    for group, least in counts.items():
        succeeded = [name for name, result in kept.items() if name.startswith(f"{group}.") and not result["exit"]]
        assert len(succeeded) >= least, group


def test_every_difference_is_found_and_provenance_is_none(tmp_path: Path) -> None:
    old: dict[str, Any] = {
        "exit": 0,
        "output": {"rows": [{"time_s": 0.1, "name": "a"}, {"time_s": 1, "why": "takes 3 steps"}]},
    }
    write_results(tmp_path, {"plan.x": old, "bill.y": {"exit": 2, "error": "error: no"}})
    assert read_results(tmp_path) == {"plan.x": old, "bill.y": {"exit": 2, "error": "error: no"}}
    changes = {
        "$.output.rows[0].time_s: 0.1 -> 0.10000000000000002": ("time_s", 0, 0.10000000000000002),
        "$.output.rows[1].time_s: 1 -> 1.0": ("time_s", 1, 1.0),
        '$.output.rows[0].name: "a" -> "b"': ("name", 0, "b"),
        '$.output.rows[1].why: "takes 3 steps" -> "takes 4 steps"': ("why", 1, "takes 4 steps"),
        "$.output.rows[0].more: (absent) -> null": ("more", 0, None),
    }
    for line, (key, row, value) in changes.items():
        new = copy.deepcopy(old)
        new["output"]["rows"][row][key] = value
        assert list(differences(old, new, "$", False)) == list(differences(old, new, "$", True)) == [line]
    other = copy.deepcopy(old)
    other["output"]["rows"][1]["why"] = "3 steps are taken"
    assert len(list(differences(old, other, "$", False))) == 1
    assert not list(differences(old, other, "$", True))
    old["output"]["rows"][0]["time_s"], other = 0.1, copy.deepcopy(old)
    other["output"]["rows"][0]["time_s"] = 0.1 * (1 + 1e-10)
    assert not list(differences(old, other, "$", False, 1e-9)) and list(differences(old, other, "$", False, 1e-11))
    named = {"provenance": {"seed": 1}, "path": "/there/out.json", "seconds": 3.0}
    assert normalised(named, {"/there": "."}) == {"path": "./out.json", "seconds": 3.0}
    assert normalised(["as :mod:`there.x` has"], {}) == ["as :`...` has"]
    assert normalised({"rows": [{"cpu_seconds": 2.0, "seconds": 3.0, "epochs": 4}]}, {}) == {"rows": [{"epochs": 4}]}


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Kept results, in the environment in which they were computed: synthesis makes its whole effort."""
    for library in ("onnx", "pyarrow", "torch", "transformers"):
        pytest.importorskip(library, reason="needs lightloom[torch,transformers,onnx,arrow]")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache, "SCALE", 1.0)
        for name, value in SETTINGS.items():
            patch.setenv(name, value)
        patch.setenv("LIGHTLOOM_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield read_results(KEPT)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_result_is_as_kept(case: Case, kept: dict[str, Any], tmp_path: Path) -> None:
    if case.needs and case.needs not in os.environ:
        pytest.skip(f"needs {case.needs}")
    result = run(case, tmp_path / "case").result
    assert not list(differences(kept[case.name], result, "$", reworded=False, within=WITHIN))
