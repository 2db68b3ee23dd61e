"""Each tutorial runs from top to bottom in a fresh kernel and prints what is stored with it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.ipynb"))


@pytest.mark.slow  # ``.ci/run`` runs them in a step of their own
@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_a_tutorial_prints_what_is_stored(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("nbclient", reason="needs lightloom[docs]")
    nbformat = pytest.importorskip("nbformat")
    from scripts.website.run import executed, printed

    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "src"), *filter(None, sys.path)]))
    stored = printed(nbformat.read(path, as_version=4))
    assert printed(executed(path)) == stored
