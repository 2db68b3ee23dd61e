"""The notebook and the README's Python run as they are printed; the notebook shows pictures and tables."""

from __future__ import annotations

import ast
import json
import re
import sys
from pathlib import Path

import pytest

import lightloom as ll

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "examples" / "quickstart.ipynb"


def execute(source: str, names: dict[str, object]) -> object:
    """Run a cell; the value of its last expression, as a notebook displays it."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<cell>", "exec"), names)
    return eval(compile(ast.Expression(last.value), "<cell>", "eval"), names) if isinstance(last, ast.Expr) else None


def cells() -> list[str]:
    """The notebook's code."""
    document = json.loads(NOTEBOOK.read_text())
    return ["".join(cell["source"]) for cell in document["cells"] if cell["cell_type"] == "code"]


def test_the_notebook_has_no_outputs() -> None:
    document = json.loads(NOTEBOOK.read_text())
    assert document["nbformat"] == 4
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in document["cells"])


@pytest.mark.long
def test_the_notebook_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """All cells but the last, which launches two processes."""
    pytest.importorskip("torch", reason="needs lightloom[torch]")
    monkeypatch.chdir(NOTEBOOK.parent)
    names: dict[str, object] = {"__name__": "__main__"}
    *quick, launch = cells()
    assert "torch.distributed.run" in launch
    shown = [execute(cell, names) for cell in quick]
    pages = [page() for value in shown if (page := getattr(value, "_repr_html_", None))]
    assert len(pages) == 3 and all("<svg" in page and "<table>" in page and "<script" not in page for page in pages)
    text = capsys.readouterr().out
    assert "optree: all-gather of 15.26 MiB over 16 ranks" in text and "verified" in text
    assert re.search(r"(rank|chunk|lightpath|step) \d+", text.splitlines()[1])


@pytest.mark.slow
def test_the_notebook_trains(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch", reason="needs lightloom[torch]")
    monkeypatch.chdir(NOTEBOOK.parent)
    monkeypatch.setenv("PYTHONPATH", ":".join(path for path in sys.path if path))
    execute(cells()[-1], {"__name__": "__main__"})
    loss = re.search(r"loss ([\d.]+) -> ([\d.]+); gradients ([\d.]+) times smaller", capsys.readouterr().out)
    assert loss and float(loss[2]) < float(loss[1]) and float(loss[3]) > 1.5


def test_the_readme_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    assert blocks
    for block in blocks:
        names: dict[str, object] = {}
        execute(block, names)
        printed = re.findall(r"^print\(.*?# (.+)$", block, flags=re.MULTILINE)
        assert printed and capsys.readouterr().out.splitlines() == printed
    assert isinstance(ll.verify(tmp_path / "all-gather.json").time, float)
