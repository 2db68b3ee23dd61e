"""The index of the zoo and its archive: names, versions, dates and what damage or a wrong number says."""

from __future__ import annotations

import importlib.metadata
import pickle
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from lightloom.core.errors import UnknownNameError, WorkloadError
from lightloom.models import zoo
from lightloom.models.graph import ComputeGraph, Operator
from lightloom.models.zoo import (
    ARCHIVE,
    TRACE_BATCH,
    ZOO,
    compared_versions,
    is_model_name,
    load_workload,
    resolve,
    search_path,
    shipped_graph,
    torch_version,
    trace_key,
    write_archive,
)

GRAPH = ComputeGraph(name="g", batch=13, operators=(Operator(name="a", kind="input", dimensions={"sample": 13}),))


def test_archives_are_dated_as_the_one_that_is_shipped(tmp_path: Path) -> None:
    path = tmp_path / "zoo.zip"
    write_archive({"g-1": GRAPH, "g-2": GRAPH}, ["2.1.0", "2.2.0"], path)
    with zipfile.ZipFile(path) as made, zipfile.ZipFile(ARCHIVE) as shipped:
        assert made.namelist() == ["torch", "g-1", "g-2"]
        assert {each.date_time for each in made.infolist()} == {each.date_time for each in shipped.infolist()}
        assert {each.compress_type for each in made.infolist()} == {zipfile.ZIP_DEFLATED}


def test_graphs_of_an_archive_are_taken_for_versions_that_were_compared(tmp_path: Path) -> None:
    path = tmp_path / "zoo.zip"
    assert compared_versions(path) == [] and shipped_graph("g-1", None, path) is None
    write_archive({"g-1": GRAPH}, ["2.1.0", "2.2.0"], path)
    assert compared_versions(path) == ["2.1.0", "2.2.0"]
    taken = [shipped_graph("g-1", version, path) for version in ("2.1.0", "2.2.0", "2.3.0", "2.1", None)]
    assert taken == [GRAPH, GRAPH, None, None, GRAPH]
    assert shipped_graph("g-2", None, path) is None
    with zipfile.ZipFile(path, "w") as members:
        members.writestr("g-1", "[]")
        members.writestr("g-2", "{")
        members.writestr("g-3", "[" * 100_000)
    assert [shipped_graph(f"g-{number}", None, path) for number in (1, 2, 3)] == [None] * 3
    assert compared_versions(path) == []


def test_versions_of_torch_are_without_their_build(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"torch": "2.13.0+cu129"}
    monkeypatch.setattr(zoo, "version", versions.__getitem__)
    assert torch_version() == "2.13.0"

    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(zoo, "version", missing)
    assert torch_version() is None


@pytest.mark.parametrize(
    ("numbers", "complaint"),
    [
        ({"batch": 0}, "the batch is 0, expected a whole number of at least 1"),
        ({"batch": True}, "the batch is True, expected a whole number of at least 1"),
        ({"batch": 2.0}, "the batch is 2.0, expected a whole number of at least 1"),
        ({"batch": 1, "sequence_length": 0}, "the sequence length is 0, expected a whole number of at least 1"),
        ({"batch": 1, "sequence_length": -7}, "the sequence length is -7, expected a whole number of at least 1"),
        ({"batch": 1, "sequence_length": 1}, f"takes no sequence length, its sample is {ZOO['resnet50'].example}"),
    ],
)
def test_numbers_that_no_model_takes_are_refused(numbers: dict[str, Any], complaint: str) -> None:
    with pytest.raises(WorkloadError) as refused:
        load_workload("resnet50", **numbers)
    assert str(refused.value) == f"resnet50: {complaint}"


def test_models_of_the_zoo_come_at_the_batch_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Traced at a prime that no layer size has."""
    monkeypatch.setattr(zoo, "torch_version", lambda: None)
    entry = ZOO["hdc"]
    shipped = shipped_graph(trace_key(entry, entry.sequence_length), None)
    assert shipped is not None and shipped.batch == TRACE_BATCH
    assert load_workload("hdc", batch=1) == shipped.with_batch(1)
    assert load_workload("hdc", batch=TRACE_BATCH) == shipped


@pytest.mark.parametrize("kept", ["same", "other", "damaged", "none"])
def test_a_kept_trace_is_taken_if_it_is_of_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: str
) -> None:
    monkeypatch.setenv("LIGHTLOOM_CACHE", str(tmp_path))
    monkeypatch.setattr(zoo, "torch_version", lambda: "0.0.1")
    named = ComputeGraph(name="hdc", batch=13, operators=GRAPH.operators)
    monkeypatch.setattr(zoo, "trace_zoo", lambda entry, length: named)
    assert load_workload("hdc", batch=13) == named
    (path,) = (tmp_path / "workloads").iterdir()
    assert path.name == f"{trace_key(ZOO['hdc'], ZOO['hdc'].sequence_length)}-0.0.1.json"
    anew = ComputeGraph(name="hdc", batch=13, operators=(Operator(name="b", kind="input"),))
    monkeypatch.setattr(zoo, "trace_zoo", lambda entry, length: anew)
    if kept == "other":
        monkeypatch.setattr(zoo, "_graph_from", lambda text: None if text is None else GRAPH)
    elif kept == "damaged":
        path.write_text("{")
    elif kept == "none":
        path.unlink()
    assert load_workload("hdc", batch=13) == (named if kept == "same" else anew)


def test_names_of_models_are_told_from_files() -> None:
    names = ("resnet50", "a:b", "model.py", "folder/model.py", "C:/x", "resnet51", "model.json", "py", "model.py.txt")
    assert [name for name in names if is_model_name(name)] == ["resnet50", "a:b", "model.py", "folder/model.py", "C:/x"]


def test_a_name_that_is_none_is_refused_with_those_that_are() -> None:
    with pytest.raises(UnknownNameError, match="resnet5"):
        load_workload("resnet5O", batch=1)


def test_imports_find_what_lies_beside_a_file_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, here = list(sys.path), tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    for spec, folder in ((f"{tmp_path}/model.py:build", tmp_path), ("package.module:build", here)):
        with search_path(spec):
            assert sys.path == [str(folder.resolve()), *before]
        assert sys.path == before
    with search_path("package.module:build"):
        sys.path.remove(str(here.resolve()))
    assert sys.path == before


def test_what_a_file_makes_can_be_pickled(tmp_path: Path) -> None:
    """As its module stays loaded, under a name of its own."""
    path = tmp_path / "model.py"
    path.write_text("class Sizes:\n    width = 7\n\ndef build():\n    return Sizes()\n")
    made = resolve(f"{path}:build")()
    assert pickle.loads(pickle.dumps(made)).width == 7
    assert type(made).__module__.startswith("lightloom_model_") and type(made).__module__ in sys.modules
    assert resolve(f"{path}:Sizes.width") == 7


@pytest.mark.parametrize(
    ("text", "spec", "complaint"),
    [
        (None, "PATH:build", "PATH:build: there is no file 'PATH'"),
        ("", "PATH:build", "PATH:build: 'PATH' has no 'build'"),
        ("b = int\n_d = a = c = lambda: 0\n", "PATH:build", "PATH:build: 'PATH' has no 'build'; it has a, c"),
        ("1 / 0", "PATH:build", "PATH:build: cannot import 'PATH': ZeroDivisionError: division by zero"),
        ("raise ValueError", "PATH:build", "PATH:build: cannot import 'PATH': ValueError: no message"),
        (
            "raise ValueError(' a\\n b\\n c')", "PATH:build", "PATH:build: cannot import 'PATH': ValueError: a",
        ),
        (
            "", "PATH:1st",
            "'PATH:1st' is no file here and names no factory: expected package.module:factory or path/file.py:factory",
        ),
        (
            "", "no module:build",
            "'no module:build' is no file here and names no factory: expected package.module:factory or "
            "path/file.py:factory",
        ),
        (
            "", "json.1st:build",
            "'json.1st:build' is no file here and names no factory: expected package.module:factory or "
            "path/file.py:factory",
        ),
    ],
)  # fmt: skip
def test_what_names_no_factory_says_why(tmp_path: Path, text: str | None, spec: str, complaint: str) -> None:
    path, loaded = tmp_path / "model.py", set(sys.modules)
    if text is not None:
        path.write_text(text)
    with pytest.raises(WorkloadError) as refused:
        resolve(spec.replace("PATH", str(path)))
    assert str(refused.value) == complaint.replace("PATH", str(path))
    assert not any(name.startswith("lightloom_model_") for name in set(sys.modules) - loaded) or "has no" in complaint


def test_modules_are_imported_by_their_names() -> None:
    assert resolve("json.decoder:JSONDecoder.decode").__name__ == "decode"
