"""The graphs that the package brings along are those that tracing gives, and are taken only where they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from lightloom.models import zoo
from lightloom.models.zoo import (
    ARCHIVE,
    ZOO,
    compared_versions,
    load_workload,
    shipped_graph,
    trace_key,
    trace_zoo,
    write_archive,
)

_STALE = "the tracer, the zoo or the form of graphs has changed: run python -m scripts.trace_zoo"
_FEW = ("alexnet-2012", "hdc", "resnet50")


def _key(name: str) -> str:
    return trace_key(ZOO[name], ZOO[name].sequence_length)


def test_every_model_of_the_zoo_is_shipped() -> None:
    assert [name for name in ZOO if zoo._member(_key(name), ARCHIVE) is None] == [], _STALE


@pytest.mark.parametrize("name", [name if name in _FEW else pytest.param(name, marks=pytest.mark.slow) for name in ZOO])
def test_what_is_shipped_is_what_tracing_gives(name: str) -> None:
    assert shipped_graph(_key(name), None) == trace_zoo(ZOO[name]), _STALE


def test_nothing_is_traced_or_cached_where_the_package_has_the_graph(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIGHTLOOM_CACHE", str(tmp_path))
    monkeypatch.setattr(zoo, "tracer", None)
    monkeypatch.setattr(zoo, "torch_version", lambda: compared_versions()[-1])
    assert load_workload("resnet50", batch=32).batch == 32
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("changed", ["source", "arguments", "torch"])
def test_a_change_of_what_decides_the_graph_is_traced_anew(changed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    key, torch = _key("hdc"), compared_versions()[0]
    assert shipped_graph(key, torch) is not None
    if changed == "source":
        monkeypatch.setattr(zoo, "source_hash", lambda *_: "another tracer")
        key = _key("hdc")
    elif changed == "arguments":
        key = trace_key(ZOO["hdc"], 7)
    else:
        torch = "2.5.1"
    assert shipped_graph(key, torch) is None


def test_without_torch_the_graph_is_taken_as_it_is() -> None:
    assert shipped_graph(_key("hdc"), None) is not None


@pytest.mark.parametrize("content", [b"", b"PK\x05\x06", None])
def test_a_damaged_archive_is_no_obstacle(content: bytes | None, tmp_path: Path) -> None:
    archive = tmp_path / "zoo.zip"
    whole = ARCHIVE.read_bytes()
    # Every byte in the middle of the file overturned, where the compressed graphs are.
    archive.write_bytes(whole[:100] + bytes(255 - byte for byte in whole[100:90_000]) + whole[90_000:])
    if content is not None:
        archive.write_bytes(content)
    assert shipped_graph(_key("alexnet"), None, archive) is None


def test_equal_graphs_make_equal_files(tmp_path: Path) -> None:
    graphs = {_key("hdc"): load_workload("hdc", batch=13)}
    for name in ("one.zip", "two.zip"):
        write_archive(graphs, ["2.13.0"], tmp_path / name)
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()
    assert shipped_graph(_key("hdc"), "2.13.0", tmp_path / "one.zip") == graphs[_key("hdc")]
