"""The distribution in ``examples/plugins``: installed into a fresh environment, each plug-in works by name."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import Any

import pytest

import lightloom

ROOT = Path(__file__).parents[2]
PLUGINS = ROOT / "examples" / "plugins"
_LAZY = """
from dataclasses import replace
from lightloom.collectives.algorithm import Algorithm
from lightloom.collectives.registry import find

def build(collective, fabric, *, striped=False):
    schedule = find("ring").build(collective, fabric)
    return replace(schedule, destination=(schedule.destination + 1) % collective.ranks)

LAZY = Algorithm(name="lazy", build=build, summary="sends to the wrong ranks")
"""
_USE = """
import contextlib, io, json, sys
import numpy as np
from lightloom.machines.accelerators.load import load_accelerator
from lightloom.collectives.registry import evaluate
from lightloom.collectives.registry import find
from lightloom.collectives.collective import Collective
from lightloom.exchange.compression import find as find_codec
from lightloom.machines.fabrics.conformance import check_fabric
from lightloom.machines.fabrics.load import load_fabric
from lightloom.collectives.synthesis.engine import cache
from lightloom.exchange.compression import profile
from lightloom.core.errors import UnsupportedError
from lightloom.planning.pricing.placed_space import peers

cache.SCALE = 1 / 300  # any design will do
profile._RATE_VALUES = 1 << 12  # and any rate
network = {"tiers.network.bandwidth": 50e9, "tiers.network.wire_efficiency": 1}
ideal = {**network, "hop_latency": 0, "transport": None}
rail, switch = load_fabric("rail", 64), load_fabric("two-tier-400g", 64, set=ideal)
check_fabric(load_fabric("rail", 16, set={"hop_latency": 1e-6}))
exchange = Collective("all-reduce", 8, 256e6)
seconds = [evaluate(find("ring"), exchange, fabric.group(8, 8)).cost.time for fabric in (rail, switch)]
codec = find_codec("float16:2")
values = np.array([0.5, -3.25, 1e9], np.float32)


def refusal(fabric):
    try:
        peers(fabric)
    except UnsupportedError as error:
        return str(error)


def command(line):
    from lightloom.app.cli.main import main

    sys.argv, output = ["lightloom", *line.split(), "--json"], io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.suppress(SystemExit):
        main()
    return json.loads(output.getvalue())


print(json.dumps({
    "commands": {line.split()[0]: command(line) for line in sys.argv[1:]},
    "seconds": seconds,
    "star": evaluate(find("star"), Collective("all-gather", 8, 8e6), load_fabric("switch", 8)).cost.steps,
    "synthesized": find("synthesized").refusal("all-gather", rail),
    "placed": refusal(rail),
    "decoded": codec.decode(codec.encode(values), out=np.empty(3, np.float32)).tolist(),
    "rate": load_accelerator("throttled-chip").peak_rate("bf16"),
}))
"""
_CLUSTER = """
ranks: 8
accelerator: {base: throttled-chip}
fabric: {kind: rail}
training: {precision: bf16}
"""


_COMMANDS = (
    "catalog",
    "compress profile small-mlp --codec float16:0 --steps 1",
    "plan small-mlp --cluster rails.yaml --exchange codec:name=float16:0 --exchange-engine local --strategy ddp",
    "collective all-reduce --fabric rail --ranks 8 --nbytes 256MB",
)


def _install(folder: Path) -> Path:
    """Install the plug-ins and a faulty algorithm beside this environment's packages; return the interpreter."""
    venv.create(folder / "venv", with_pip=False, symlinks=True)
    site = next((folder / "venv" / "lib").glob("python*")) / "site-packages"
    source = shutil.copytree(PLUGINS, folder / "plugins")
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--no-build-isolation", "--quiet"]
    options = ["--no-compile", "--disable-pip-version-check", "--target", str(site)]
    subprocess.run([*command, *options, str(source)], check=True)
    paths = [str(Path(lightloom.__file__).parents[1]), sysconfig.get_path("purelib")]
    (site / "behind.pth").write_text("\n".join(paths))
    (site / "lazy_plugin.py").write_text(_LAZY)
    information = site / "lazy-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: lazy\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[lightloom.algorithms]\nlazy = lazy_plugin:LAZY\n")
    return folder / "venv" / "bin" / "python"


@pytest.fixture(scope="module")
def values(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a script in a fresh virtual environment computes with the plug-ins, and the documents of commands there."""
    folder = tmp_path_factory.mktemp("plugins")
    python = _install(folder)
    (folder / "rails.yaml").write_text(_CLUSTER)
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        [str(python), "-c", _USE, *_COMMANDS], capture_output=True, text=True, check=False, env=environment, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@pytest.mark.long
def test_each_plug_in_works_from_python(values: dict[str, Any]) -> None:
    rail, switch = values["seconds"]
    assert rail == pytest.approx(switch, rel=0.01) and rail > 8e-3
    assert values["star"] == 2
    assert values["synthesized"] is None and values["placed"].endswith("(ports)")
    assert values["decoded"][:2] == [0.5, -3.25] and values["rate"] == 50e12


@pytest.mark.long
def test_each_plug_in_works_by_command(values: dict[str, Any]) -> None:
    documents = values["commands"]
    for section, name in (
        ("models", "small-mlp"),
        ("fabrics", "rail"),
        ("accelerators", "throttled-chip"),
        ("codecs", "float16"),
        ("algorithms", "star"),
    ):
        assert name in {row["name"] for row in documents["catalog"][section]}, section
    assert "float16:0" in json.dumps(documents["compress"])
    assert "star" in {row["algorithm"] for row in documents["collective"]["rows"]}


@pytest.mark.long
@pytest.mark.parametrize(("command", "rows"), [("plan", "ranking"), ("collective", "rows")])
def test_a_faulty_plug_in_is_refused_with_a_reason_and_the_others_are_ranked(
    values: dict[str, Any], command: str, rows: str
) -> None:
    document = values["commands"][command]
    assert document[rows] and all(row["verified"] for row in document[rows])
    assert "lazy" not in json.dumps(document[rows])
    (refusal,) = (row for row in document["refused"] if row["algorithm"] == "lazy")
    assert "chunk" in refusal["why"] or "rank" in refusal["why"]


def test_the_page_shows_the_files_of_the_distribution() -> None:
    page = (ROOT / "docs" / "extending.md").read_text()
    shown = dict(re.findall(r"```\w+\n# (examples/plugins/\S+)\n(.*?)```\n", page, flags=re.DOTALL))
    files = [PLUGINS / "pyproject.toml", *(PLUGINS / "lightloom_example_plugins").glob("[!_]*.py")]
    assert shown == {path.relative_to(ROOT).as_posix(): path.read_text() for path in files}
