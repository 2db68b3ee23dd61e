"""Files appear whole or not at all; configuration complaints name file, field, value and expectation."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from lightloom.core.claims import Claim
from lightloom.core.configfile import read_yaml, validate
from lightloom.core.errors import ConfigError
from lightloom.core.fields import Bandwidth, Config, Count
from lightloom.core.files import cache_directory, write_atomically
from lightloom.core.journal import stored_record
from lightloom.core.results import content_hash, provenance


class Link(Config):
    bandwidth: Bandwidth
    lanes: Count = 1


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "report.html"
    write_atomically(path, "first")
    write_atomically(path, b"second")
    assert path.read_text() == "second"
    assert [each.name for each in path.parent.iterdir()] == ["report.html"]


def test_an_unwritable_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot write"):
        write_atomically(tmp_path / "file" / "report.html", "text")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a: [1, 2", r"link.yaml, line \d+, column \d+: not YAML"),
        ("- 1", "expected a mapping of field names to values, got list"),
        ("1: 2", "expected a mapping"),
        ("a: " + "[" * 3000, "not YAML|inside of each other"),
        ("a: !!python/object/apply:os.system [ls]", "not YAML"),
    ],
)
def test_bad_yaml_is_one_line(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "link.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=complaint) as refusal:
        read_yaml(path)
    assert "\n" not in str(refusal.value).strip()


def test_missing_and_binary_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        read_yaml(tmp_path / "none.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not UTF-8"):
        read_yaml(tmp_path / "binary.yaml")


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"bandwidth": "-3 GB/s"}, r"link.yaml: field 'bandwidth': '-3 GB/s': a bandwidth must be finite"),
        ({"bandwidth": 0}, r"field 'bandwidth': 0.*greater than 0"),
        ({"bandwidth": 1, "lanes": 2.5}, r"field 'lanes': 2.5: Input should be a valid integer"),
        ({"bandwidth": 1, "lane": 2}, r"unknown field 'lane': expected one of bandwidth, lanes"),
        ({}, r"field 'bandwidth' is missing"),
    ],
)
def test_complaints_name_file_field_value_and_expectation(fields: dict[str, object], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        validate(Link, fields, "link.yaml")


class Cable(Config):
    """Links in parts: one, perhaps another, and many."""

    link: Link
    spare: Link | None = None
    many: tuple[Link, ...] = ()


@pytest.mark.parametrize("place", ["link", "spare", "many.1"])
def test_an_unknown_field_of_a_part_is_held_against_the_fields_of_the_part(place: str) -> None:
    good: dict[str, object] = {"bandwidth": 1}
    bad = good | {"lane": 2}
    fields = {"link": good, "spare": good, "many": [good, good]}
    fields |= {"many": [good, bad]} if place == "many.1" else {place: bad}
    with pytest.raises(ConfigError, match=f"x: unknown field '{place}.lane': expected one of bandwidth, lanes$"):
        validate(Cable, fields, "x")


def test_the_cache_obeys_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LIGHTLOOM_CACHE", str(tmp_path))
    assert cache_directory() == tmp_path
    monkeypatch.delenv("LIGHTLOOM_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_directory() == tmp_path / "lightloom"


def test_provenance_depends_on_the_content_not_on_its_order() -> None:
    assert content_hash({"a": 1, "b": 2}) == content_hash({"b": 2, "a": 1}) != content_hash({"a": 1, "b": 3})
    assert provenance([1], seed=7)["seed"] == 7


def test_finished_work_is_read_back_and_what_is_no_record_is_refused(tmp_path: Path) -> None:
    path, calls = tmp_path / "deep" / "result.json", list[int]()

    def compute() -> dict[str, float]:
        calls.append(1)
        return {"loss": math.nan, "best": 1.5}

    for _ in range(2):
        assert stored_record(path, compute)["best"] == 1.5 and len(calls) == 1
    path.write_text("{")
    with pytest.raises(ConfigError, match=r"result.json' is not JSON .*: remove it") as refusal:
        stored_record(path, compute)
    assert "\n" not in str(refusal.value)


def test_a_claim_states_its_status_and_must_explain_itself() -> None:
    assert Claim(id="x", paper=70, ours=71, unit="steps", tolerance=1).status == "match"
    assert Claim(id="x", paper=70, ours=71, unit="steps", why="integer radices").status == "deviates"
    assert Claim(id="x", paper=None, ours=71, unit="steps", why="not printed").status == "not reproducible"
    for basis in ("derived", "stand-in"):
        row = Claim(id="x", paper=70, ours=70, unit="steps", basis=basis, why="192 steps for 50,000")
        assert (row.status, row.to_json()["status"]) == (basis, basis)
        assert Claim(id="x", paper=70, ours=71, unit="steps", basis=basis, why="fewer").status == "deviates"
        with pytest.raises(ValueError, match="must say why"):
            Claim(id="x", paper=70, ours=70, unit="steps", basis=basis)
    with pytest.raises(ValueError, match="must say why"):
        Claim(id="x", paper=70, ours=71, unit="steps")
