"""``lightloom plan`` takes traces as models, says what they do not hold, and refuses what is malformed in one line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from lightloom.collectives.files.chakra_nodes import Node
from tests.cli.commands import run
from tests.interchange.test_chakra_workload import step, written

SMALL = ("--set", "ranks=4", "--algorithm", "ring", "--json")


def heavy_step(layers: int) -> list[Node]:
    """A step whose layers have as much work as those of a network."""
    nodes = step(layers)
    return [
        replace(node, attributes={k: 1000 * v if k == "num_ops" else v for k, v in node.attributes.items()})
        for node in nodes
    ]


@pytest.mark.long
def test_a_chakra_trace_is_planned_and_what_it_lacks_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done = run(monkeypatch, capsys, "plan", str(written(tmp_path, heavy_step(3))), *SMALL)
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert found["parameters"] == 1 + 2 + 3
    assert any("parameters" in each for each in found["not_in_trace"])
    page = tmp_path / "page.html"
    assert run(monkeypatch, capsys, "plan", str(tmp_path / "step.et"), *SMALL, "--report", str(page)).code == 0
    assert "Of the model&#39;s file: activations" in page.read_text()


def test_a_chakra_trace_is_planned_on_fewer_ranks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = str(written(tmp_path, heavy_step(3)))
    done = run(monkeypatch, capsys, "plan", trace, "--ranks", "4", "--algorithm", "ring", "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert found["ranking"] and found["not_in_trace"]


@pytest.mark.long
def test_an_execution_trace_of_pytorch_is_planned_for_the_batch_of_the_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    from tests.interchange.test_execution_trace import recorded, traced

    done = run(monkeypatch, capsys, "plan", str(recorded(tmp_path, "residual")), "--batch", "10", *SMALL)
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert (found["parameters"], found["batch_per_rank"]) == (traced("residual").parameters, 10)


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("none.et", None, "cannot read"),
        ("odd.et", b"\xff\xff", "not a Chakra trace"),
        ("odd.json", b"{\n]", "line 2"),
        ("odd.json", b'{"schema": "1.1.1-chakra.0.0.4", "nodes": [{"id": 3, "name": "a"}]}', "node 3"),
    ],
)
def test_malformed_traces_are_refused_in_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    content: bytes | None,
    complaint: str,
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    done = run(monkeypatch, capsys, "plan", str(path))
    assert done.code == 2 and done.out == ""
    assert complaint in done.err and len(done.err.strip().splitlines()) == 1


def test_a_trace_keeps_its_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done = run(monkeypatch, capsys, "plan", str(written(tmp_path, step(1))), "--sequence-length", "8")
    assert done.code == 2 and "--sequence-length 8" in done.err
