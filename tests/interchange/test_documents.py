"""Schedules as documents: what is written comes back, and nothing else is let in."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.collectives.collective import Collective
from lightloom.collectives.files.document import read_schedule, write_schedule
from lightloom.collectives.registry import build, find
from lightloom.collectives.schedule.columns import COLUMNS
from lightloom.core.errors import ConfigError, InputError, UnsupportedError
from lightloom.machines.fabrics.fabric import Fabric, GroupFabric
from lightloom.machines.fabrics.switches import PartFabric
from lightloom.machines.fabrics.wdm_ring import Ring, WdmRing
from tests.collectives.strategies import two_tiers
from tests.interchange.schedules import Made, made, ring, same

SUFFIXES = (".json", ".parquet", ".arrow")


def needs(suffix: str) -> None:
    if suffix != ".json":
        pytest.importorskip("pyarrow", reason="needs pyarrow (extra: arrow)")


def small() -> Made:
    fabric = ring(4)
    return build(find("ring"), Collective("all-gather", 4, 1e6), fabric).unfolded(fabric.fibre_channels), fabric


@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(deadline=None, max_examples=60)
@given(drawn=made())
def test_a_schedule_comes_back_as_it_left(tmp_path_factory: pytest.TempPathFactory, suffix: str, drawn: Made) -> None:
    needs(suffix)
    schedule, fabric = drawn
    path = tmp_path_factory.mktemp("out") / f"schedule{suffix}"
    read, on = read_schedule(write_schedule(path, schedule, fabric))
    assert on == fabric
    assert same(read, schedule)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_steps_that_name_others_come_back(tmp_path: Path, suffix: str) -> None:
    needs(suffix)
    schedule, fabric = small()
    chain = np.array([[1, 0], [2, 1]])
    path = write_schedule(tmp_path / f"s{suffix}", replace(schedule, dependencies=chain, notes=("a «note»",)), fabric)
    read, _ = read_schedule(path)
    assert read.dependencies is not None
    assert read.dependencies.tolist() == chain.tolist()
    assert read.notes == ("a «note»",)


@pytest.mark.parametrize(
    "part",
    [
        WdmRing(ranks=12, wavelengths=8).group(4, 3),
        WdmRing(ranks=12, wavelengths=8).group(4, 1),
        two_tiers(ranks=16, domain_size=4).group(4, 2),
        GroupFabric.of(Ring(ranks=8), 4, 2),
        PartFabric.on(Ring(ranks=8), (0, 2, 4, 6)),
    ],
    ids=["ring group around", "ring group", "two tiers", "group", "part"],
)
def test_a_schedule_on_a_part_of_a_fabric_comes_back(tmp_path: Path, part: Fabric) -> None:
    path = tmp_path / "part.json"
    schedule = build(find("ring"), Collective("all-gather", 4, 1e6), part).unfolded(part.fibre_channels)
    write_schedule(path, schedule, part)
    read, fabric = read_schedule(path)
    assert same(read, schedule) and fabric == part


def test_a_schedule_is_verified_on_the_fabric_that_is_given(tmp_path: Path) -> None:
    schedule, fabric = small()
    path = write_schedule(tmp_path / "s.json", schedule, None)
    with pytest.raises(ConfigError, match="names no fabric"):
        read_schedule(path)
    assert read_schedule(path, fabric)[1] == fabric
    with pytest.raises(ConfigError, match="schedule for 4 ranks on a fabric of 5"):
        read_schedule(path, ring(5))


def put(*place: str | int, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(document: Any) -> None:
        for key in place[:-1]:
            document = document[key]
        document[place[-1]] = value

    return change


def drop(*place: str) -> Callable[[dict[str, Any]], None]:
    def change(document: Any) -> None:
        for key in place[:-1]:
            document = document[key]
        del document[place[-1]]

    return change


BAD: list[tuple[Callable[[dict[str, Any]], None], str]] = [
    (
        put("schema", value="lightloom.schedule/2"),
        "field 'schema': 'lightloom.schedule/2': Input should be 'lightloom.schedule/1'",
    ),
    (drop("steps"), "field 'steps' is missing"),
    (put("colour", value=1), "unknown field 'colour'"),
    (put("algorithm", value=3), "field 'algorithm': 3: Input should be a valid string"),
    (
        put("collective", "kind", value="shuffle"),
        "field 'collective.kind': 'shuffle': Input should be 'all-gather', 'reduce-scatter'",
    ),
    (put("collective", "ranks", value=4.0), "field 'collective.ranks': 4.0: Input should be a valid integer"),
    (
        put("collective", "nbytes", value=-1),
        "field 'collective.nbytes': -1: Input should be greater than or equal to 0",
    ),
    (put("collective", "nbytes", value="1MB"), "field 'collective.nbytes': '1MB'"),
    (put("chunks", value=10**12), "field 'chunks': 1000000000000: Input should be less than"),
    (put("chunks", value=25), "field 'chunks': 25: expected at most 24 with 12 rows"),
    (put("chunks", value=0), "field 'chunks': 0"),
    (put("chunks", value=5), "5 chunks"),
    (put("steps", value=10**9), "field 'steps': 1000000000: expected at most 12 with 12 rows"),
    (put("steps", value=True), "field 'steps': True"),
    (put("queued", value=0), "field 'queued': 0: Input should be a valid boolean"),
    (put("queued", value=True), "lightpaths share wavelength 0"),
    (put("notes", value="none"), "field 'notes': 'none': Input should be a valid list"),
    (put("notes", value=[1]), "field 'notes.0': 1: Input should be a valid string"),
    (put("dependencies", value=[[0, 1], [1]]), "field 'dependencies.1.1' is missing"),
    (put("dependencies", value=[[0, 7]]), "a dependency names a step outside 0..2: [0 7]"),
    (put("dependencies", value=[[0, 1], [1, 0]]), "cycle among steps"),
    (put("folding", value={"period": 1}), "field 'folding.channel' is missing"),
    (
        put("folding", value={"period": 1, "channel": [[0], [0, 1]]}),
        "field 'folding.channel': [[0], [0, 1]]: copy 1 has 2 channels: expected 1",
    ),
    (put("folding", value={"period": 0, "channel": [[0]]}), "field 'folding.period': 0"),
    (put("folding", value={"period": 1, "channel": [[0]]}), "a divisor of the ranks and (4, 0) or (4, 12)"),
    (put("fabric", value="ring"), "field 'fabric': 'ring': Input should be a valid dictionary"),
    (put("fabric", "kind", value="rings"), "unknown fabric kind 'rings'"),
    (put("fabric", "wavelengths", value=0), "fabric: field 'wavelengths'"),
    (put("columns", value=[]), "columns: expected a mapping"),
    (drop("columns", "route"), "columns: field 'route' is missing"),
    (put("columns", "hop", value=[]), "columns: unknown field 'hop': expected one of step, lightpath"),
    (put("columns", "chunk", value=[0]), "columns.chunk has 1 rows: columns.step has 12"),
    (put("columns", "chunk", 7, value=1.5), "columns: field 'chunk.7': 1.5: Input should be a valid integer"),
    (put("columns", "chunk", 7, value=True), "columns: field 'chunk.7': True"),
    (put("columns", "route", 2, value=300), "columns: field 'route.2': 300: Input should be less than or equal to 127"),
    (put("columns", "reduces", 3, value=0), "columns: field 'reduces.3': 0: Input should be a valid boolean"),
    (put("columns", "source", 5, value=-1), "source -1 is not in 0..3"),
    (put("columns", "source", 5, value=99), "source 99 is not in 0..3"),
    (put("columns", "chunk", 5, value=2), "does not hold the chunk"),
]


@pytest.mark.parametrize(("change", "complaint"), BAD)
def test_a_wrong_document_is_refused_in_one_line(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], complaint: str
) -> None:
    path = write_schedule(tmp_path / "s.json", *small())
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    with pytest.raises(InputError) as refused:
        read_schedule(path)
    assert complaint in str(refused.value)
    assert str(path) in str(refused.value) or "unknown fabric kind" in complaint
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "line 1, column 1: not JSON"),
        ("{\n\n  oops", "line 3"),
        ("[1]", "expected an object"),
        ('{"columns": {}, "columns": {}}', "field 'columns' occurs twice"),
        ('{"columns": NaN}', "NaN is not a number"),
        ("[" * 100_000, "not JSON"),
        ("9" * 10_000, "not JSON"),
    ],
)
def test_what_is_no_document_is_refused_with_its_line(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "s.json"
    path.write_text(text)
    with pytest.raises(ConfigError) as refused:
        read_schedule(path)
    assert complaint in str(refused.value)


@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_a_file_cut_short_is_refused(
    tmp_path_factory: pytest.TempPathFactory, suffix: str, data: st.DataObject
) -> None:
    needs(suffix)
    path = write_schedule(tmp_path_factory.mktemp("out") / f"s{suffix}", *small())
    content = path.read_bytes()
    path.write_bytes(content[: data.draw(st.integers(0, len(content) - 3))])
    with pytest.raises(ConfigError) as refused:
        read_schedule(path)
    assert str(path) in str(refused.value)


@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_whatever_is_changed_the_verifier_decides(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """A changed entry is refused, or leaves a schedule that is still right: nothing else happens."""
    path = write_schedule(tmp_path_factory.mktemp("out") / "s.json", *data.draw(made()))
    document = json.loads(path.read_text())
    column = document["columns"][data.draw(st.sampled_from(sorted(COLUMNS)))]
    if column:
        column[data.draw(st.integers(0, len(column) - 1))] = data.draw(st.integers(-3, 70000) | st.booleans())
    path.write_text(json.dumps(document))
    try:
        schedule, _ = read_schedule(path)
    except ConfigError as refused:
        assert "\n" not in str(refused)
    else:
        assert schedule.columns().keys() == COLUMNS.keys()


def test_an_arrow_table_must_have_the_columns(tmp_path: Path) -> None:
    arrow: Any = pytest.importorskip("pyarrow", reason="needs pyarrow (extra: arrow)")
    parquet: Any = pytest.importorskip("pyarrow.parquet")
    path = write_schedule(tmp_path / "s.parquet", *small())
    table = parquet.read_table(path)
    metadata = table.schema.metadata
    chunk = table.column_names.index("chunk")
    nulls = arrow.array([None, *[0] * 11], arrow.int32())
    for bad, complaint in [
        (table.drop_columns(["route"]), "column 'route' is missing"),
        (table.append_column("hop", table["step"]), "column 'hop'"),
        (table.set_column(chunk, "chunk", table["chunk"].cast("int64")), "column 'chunk' has type int64"),
        (table.set_column(chunk, "chunk", nulls), "column 'chunk', row 0: null"),
        (table.replace_schema_metadata({}), "metadata 'lightloom.schedule' is missing"),
        (table.replace_schema_metadata({b"lightloom.schedule": b"{"}), "metadata .*, line 1, column 2: not JSON"),
    ]:
        kept = bad.schema.metadata == metadata or "metadata" in complaint
        parquet.write_table(bad if kept else bad.replace_schema_metadata(metadata), path)
        with pytest.raises(ConfigError, match=complaint):
            read_schedule(path)


def test_an_unknown_suffix_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"unknown suffix '\.csv'"):
        write_schedule(tmp_path / "s.csv", *small())
    assert not list(tmp_path.iterdir())
