"""``lightloom catalog NAME --out FILE`` writes a file that loads as the entry; schemas and exchanges have names too."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lightloom.core.errors import UnknownNameError
from lightloom.machines.accelerators import load as accelerator_load
from lightloom.machines.clusters import load as cluster_load
from lightloom.machines.fabrics import load as fabric_load
from lightloom.machines.parts import part as part_load
from lightloom.models.files.model_file import FileRequest
from lightloom.models.files.read import read_model_file
from lightloom.models.zoo import ZOO, load_workload
from tests.cli.commands import lightloom

_LOADERS: dict[str, tuple[Any, Callable[[str], Any]]] = {
    "cluster": (cluster_load, cluster_load.load_cluster),
    "fabric": (fabric_load, lambda name: fabric_load.load_fabric(name, 64)),
    "accelerator": (accelerator_load, accelerator_load.load_accelerator),
    "part": (part_load, part_load.load_part),
}
_ENTRIES = [(kind, name) for kind, (module, _) in _LOADERS.items() for name in module.names()]


@pytest.mark.parametrize(("kind", "name"), _ENTRIES)
def test_a_written_entry_is_the_entry(kind: str, name: str, tmp_path: Path) -> None:
    load = _LOADERS[kind][1]
    try:
        entry = load(name)
    except ValueError as refusal:
        pytest.skip(str(refusal))
    path = tmp_path / f"{name}.yaml"
    assert lightloom("catalog", name, "--out", str(path)).code == 0
    assert load(str(path)) == entry


@pytest.mark.parametrize("name", ZOO)
def test_a_written_model_is_the_model(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.json"
    assert lightloom("catalog", name, "--out", str(path)).code == 0
    assert read_model_file(path, FileRequest(batch=3)).graph == load_workload(name, batch=3)


@pytest.mark.long
def test_edited_entries_take_the_place_of_names(tmp_path: Path) -> None:
    for name, file in (("h100", "mine.yaml"), ("dgx-h100-64", "cluster.yaml"), ("hdc", "hdc.json")):
        assert lightloom("catalog", name, "--out", file, folder=tmp_path).code == 0
    plan = ["--ranks", "8", "--strategy", "ddp", "--json"]
    mine = lightloom("plan", "hdc.json", "--cluster", "cluster.yaml", *plan, folder=tmp_path)
    named = lightloom("plan", "hdc", "--cluster", "dgx-h100-64", *plan)
    steps = [[row["iteration_time_s"] for row in json.loads(done.out)["ranking"]] for done in (mine, named)]
    assert steps[0] == steps[1]
    text = (tmp_path / "mine.yaml").read_text()
    (tmp_path / "mine.yaml").write_text(text.replace("memory_bandwidth: 3.35 TB/s", "memory_bandwidth: 6.7 TB/s"))
    assert accelerator_load.load_accelerator(str(tmp_path / "mine.yaml")).memory_bandwidth == 6.7e12


def test_every_list_and_entry_answers_on_one_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    names = ["clusters", "parts", "exchanges", "h100", "dgx-h100", "transceiver-400g", "resnet50", "int4", "optree"]
    for words in ([], *([name] for name in names)):
        done = lightloom("catalog", *words)
        assert done.code == 0 and 0 < done.out.count("\n") <= 25, (words, done.out)
    assert "* an assumption" in lightloom("catalog", "h100").out
    assert "tiers.rail.ports" in lightloom("catalog", "dgx-h100").out


@pytest.mark.parametrize(
    ("former", "now"),
    [
        ("exchange list --json", "catalog exchanges --json"),
        ("exchange show topk --ranks 16 --values 1000 --json", "catalog topk --ranks 16 --model 1000 --json"),
        ("schema site", "catalog --schema site"),
        ("schema", "catalog --schema cluster"),
    ],
)
def test_former_spellings_of_the_catalog_warn(former: str, now: str) -> None:
    old, new = lightloom(*former.split()), lightloom(*now.split())
    assert (old.code, old.out) == (0, new.out) and not new.err
    assert old.err.startswith("warning: ") and "former spelling works in this release" in old.err


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["ring", "mesh"], "unknown thing 'rign': did you mean 'ring'? expected one of mesh, ring"),
        ([f"ring{n}" for n in range(9)], "unknown thing 'rign': did you mean 'ring8' or 'ring7' or 'ring6'?"),
        ([f"{n}-others" for n in range(9)], "expected one of 0-others, 1-others"),
    ],
)
def test_an_unknown_name_is_answered_by_three_near_ones(names: list[str], message: str) -> None:
    assert message in str(UnknownNameError("thing", "rign", names))
    assert "expected one that `lightloom catalog parts` lists" in str(UnknownNameError("part", "x", map(str, range(9))))
