"""What ``lightloom catalog NAME`` prints is a file that can be edited and loaded again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lightloom.app.cli.main import app
from lightloom.machines.accelerators import load as accelerator_load
from lightloom.machines.clusters import load as cluster_load
from lightloom.machines.fabrics import load as fabric_load
from lightloom.machines.parts import part as part_load

_LOADERS: dict[str, tuple[Any, Callable[[str], Any]]] = {
    "cluster": (cluster_load, cluster_load.load_cluster),
    "fabric": (fabric_load, lambda name: fabric_load.load_fabric(name, 64)),
    "accelerator": (accelerator_load, accelerator_load.load_accelerator),
    "part": (part_load, part_load.load_part),
}
_ENTRIES = [(kind, name) for kind, (module, _) in _LOADERS.items() for name in module.names()]


@pytest.mark.parametrize(("kind", "name"), _ENTRIES)
def test_a_printed_entry_is_the_entry(kind: str, name: str, tmp_path: Path) -> None:
    load = _LOADERS[kind][1]
    try:
        entry = load(name)
    except ValueError as refusal:
        pytest.skip(str(refusal))
    path = tmp_path / f"{name}.yaml"
    path.write_text(CliRunner().invoke(app, ["catalog", name]).stdout)
    assert load(str(path)) == entry
