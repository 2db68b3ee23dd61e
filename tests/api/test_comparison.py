"""Two rankings side by side: a ranking beside itself, parts that add up, what was asked differently, bad files."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lightloom as ll
from lightloom.core.errors import ConfigError


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    ranking = ll.plan(
        "hdc", cluster="terarack-64", ranks=4, strategy=["ddp", "fsdp"], algorithm=["ring", "optree", "wrht"]
    )
    return ranking.to_json()


def test_a_ranking_beside_itself_is_unchanged(document: dict[str, Any]) -> None:
    same = ll.compare(document, copy.deepcopy(document))
    assert not same.inputs and not same.gone and not same.new
    assert len(same.changes) == len(document["ranking"])
    assert {change.why for change in same.changes} == {"unchanged"}
    assert all(change.ratio == 1 and not any(change.parts().values()) for change in same.changes)
    assert "the same plan wins" in same.summary()


@given(st.lists(st.floats(2**-20, 1), min_size=4, max_size=4), st.integers(1, 64))
def test_parts_of_a_change_add_up_whatever_the_batch(
    document: dict[str, Any], seconds: list[float], batch: int
) -> None:
    other = copy.deepcopy(document)
    row = other["ranking"][0]
    row["breakdown"] = dict(zip(row["breakdown"], seconds, strict=True))
    row["iteration_time_s"], row["global_batch"] = sum(seconds), batch
    row["sample_time_s"] = sum(seconds) / batch
    change = next(each for each in ll.compare(document, other).changes if each.after is row)
    before = document["ranking"][0]["sample_time_s"]
    assert sum(change.parts().values()) == pytest.approx(row["sample_time_s"] - before, abs=1e-12)
    assert ll.compare(document, other).to_json()["rows"][0]["sample_time_ratio"] == pytest.approx(
        row["sample_time_s"] / before
    )


def test_dollars_and_inputs_of_the_site_are_set_side_by_side(document: dict[str, Any]) -> None:
    other, old = copy.deepcopy(document), copy.deepcopy(document)
    other["site"]["pue"] = 1.1
    other["ranking"][0]["ledger"]["dollars_per_step"]["value"] *= 2
    found = ll.compare(document, other)
    assert [(each.field, each.before, each.after) for each in found.inputs] == [("site.pue", 1.4, 1.1)]
    row = found.to_json()["rows"][0]
    assert row["dollars_per_sample_after"] == pytest.approx(2 * row["dollars_per_sample_before"])
    assert row["joules_per_sample_after"] == row["joules_per_sample_before"] > 0
    del old["site"], old["ranking"][0]["ledger"]
    older = ll.compare(old, other)
    assert not older.inputs and older.to_json()["rows"][0]["dollars_per_sample_before"] is None
    assert older.display_rows()[0]["dollars a sample"].startswith("unknown → ")  # type: ignore[attr-defined]


def test_what_was_asked_and_what_is_absent_is_said(document: dict[str, Any]) -> None:
    after = ll.plan(
        "hdc",
        cluster="terarack-64",
        ranks=4,
        strategy="ddp",
        algorithm=["ring", "optree"],
        set={"fabric.wavelengths": 3},
    )
    result = ll.compare(document, after)
    changes = {each.field: (each.before, each.after) for each in result.inputs}
    assert changes["cluster.fabric.wavelengths"] == (64, 3)
    assert changes["strategies"] == (["ddp", "fsdp"], ["ddp"])
    assert {row["algorithm"] for row in result.gone if row["strategy"] == "ddp"} == {"wrht"}
    assert {result.absence(row, result.after) for row in result.gone if row["strategy"] == "fsdp"} == {
        "its kind was not searched"
    }
    back = ll.compare(after, document)
    assert [row["label"] for row in back.new] == [row["label"] for row in result.gone]
    assert {c.label: c.ratio for c in back.changes} == {c.label: pytest.approx(1 / c.ratio) for c in result.changes}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not JSON"),
        ("[]", "no schema"),
        ('{"schema": "lightloom.traffic/1"}', "lightloom.traffic/1"),
        ('{"schema": "lightloom.plan/2"}', "no model"),
    ],
)
def test_other_files_are_refused_in_one_line(document: dict[str, Any], tmp_path: Path, text: str, words: str) -> None:
    whole, other = tmp_path / "whole.json", tmp_path / "other.json"
    whole.write_text(json.dumps(document))
    other.write_text(text)
    for pair in ((whole, other), (other, whole)):
        with pytest.raises(ConfigError, match="lightloom plan --json") as caught:
            ll.compare(*pair)
        assert words in str(caught.value) and "\n" not in str(caught.value)
    with pytest.raises(ConfigError, match="No such file"):
        ll.compare(whole, tmp_path / "absent.json")
