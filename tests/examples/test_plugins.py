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
from lightloom.collectives.registry import Algorithm, find

def build(collective, fabric, *, striped=False):
    schedule = find("ring").build(collective, fabric)
    return replace(schedule, destination=(schedule.destination + 1) % collective.ranks)

LAZY = Algorithm(name="lazy", build=build, summary="sends to the wrong ranks")
"""
_USE = """
import json
import numpy as np
from lightloom.accelerators.load import load_accelerator
from lightloom.collectives.evaluate import evaluate
from lightloom.collectives.registry import find
from lightloom.collectives.spec import Collective
from lightloom.compression import find as find_codec
from lightloom.fabrics.conformance import check_fabric
from lightloom.fabrics.load import load_fabric
from lightloom.planner.pricing.placed_space import peers

rail, switch = load_fabric("rail", 64), load_fabric("two-tier-400g", 64, {"bandwidth": 50e9})
check_fabric(load_fabric("rail", 16, {"hop_latency": 1e-6}))
exchange = Collective("all-reduce", 8, 256e6)
seconds = [evaluate(find("ring"), exchange, fabric.group(8, 8)).cost.time for fabric in (rail, switch)]
codec = find_codec("float16:2")
values = np.array([0.5, -3.25, 1e9], np.float32)
print(json.dumps({
    "seconds": seconds,
    "star": evaluate(find("star"), Collective("all-gather", 8, 8e6), load_fabric("switch", 8)).cost.steps,
    "synthesized": find("synthesized").refusal("all-gather", rail),
    "peers": peers(rail),
    "decoded": codec.decode(codec.encode(values), out=np.empty(3, np.float32)).tolist(),
    "rate": load_accelerator("throttled-chip").peak_rate("bf16"),
}))
"""
_CLUSTER = """
ranks: 16
accelerator: {base: throttled-chip}
fabric: {kind: rail}
training: {precision: bf16}
"""


class Environment:
    """A fresh virtual environment with the plug-ins, and this one's packages behind it."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder / "venv", with_pip=False, symlinks=True)
        self.python = folder / "venv" / "bin" / "python"
        site = next((folder / "venv" / "lib").glob("python*")) / "site-packages"
        source = shutil.copytree(PLUGINS, folder / "plugins")
        command = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--no-build-isolation", "--quiet"]
        subprocess.run([*command, "--target", str(site), str(source)], check=True)
        paths = [str(Path(lightloom.__file__).parents[1]), sysconfig.get_path("purelib")]
        (site / "behind.pth").write_text("\n".join(paths))
        self.folder, self.site = folder, site

    def add_a_faulty_algorithm(self) -> None:
        (self.site / "lazy_plugin.py").write_text(_LAZY)
        information = self.site / "lazy-1.0.dist-info"
        information.mkdir()
        (information / "METADATA").write_text("Metadata-Version: 2.1\nName: lazy\nVersion: 1.0\n")
        (information / "entry_points.txt").write_text("[lightloom.algorithms]\nlazy = lazy_plugin:LAZY\n")

    def run(self, *arguments: str) -> str:
        kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
        done = subprocess.run(
            [str(self.python), *arguments], capture_output=True, text=True, check=False, env=kept, cwd=self.folder
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def command(self, *arguments: str) -> Any:
        code = "from lightloom.cli.main import main; main()"
        return json.loads(self.run("-c", code, *arguments, "--json"))


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return Environment(tmp_path_factory.mktemp("plugins"))


def test_each_plug_in_works_from_python(environment: Environment) -> None:
    values = json.loads(environment.run("-c", _USE))
    rail, switch = values["seconds"]
    assert rail == pytest.approx(switch, rel=0.01) and rail > 8e-3
    assert values["star"] == 2
    assert "joins_ranks" in values["synthesized"] and values["peers"] == 64
    assert values["decoded"][:2] == [0.5, -3.25] and values["rate"] == 50e12


def test_each_plug_in_works_by_command(environment: Environment) -> None:
    catalog = environment.command("catalog")
    for section, name in (
        ("models", "small-mlp"),
        ("fabrics", "rail"),
        ("accelerators", "throttled-chip"),
        ("codecs", "float16"),
        ("algorithms", "star"),
    ):
        assert name in {row["name"] for row in catalog[section]}, section
    (environment.folder / "rails.yaml").write_text(_CLUSTER)
    profile = environment.command("compress", "profile", "small-mlp", "--codec", "float16:0", "--steps", "2")
    assert "float16:0" in json.dumps(profile)
    plan = environment.command("plan", "small-mlp", "--cluster", "rails.yaml", "--compression", "float16:0")
    assert plan["ranking"] and all(row["verified"] for row in plan["ranking"])
    environment.add_a_faulty_algorithm()
    ranked = environment.command("collective", "all-reduce", "--fabric", "rail", "--ranks", "16", "--nbytes", "256MB")
    assert "star" in {row["algorithm"] for row in ranked["rows"]} and all(row["verified"] for row in ranked["rows"])
    assert [row["why"] for row in ranked["refused"] if row["algorithm"] == "lazy"] != []
    assert "lazy" not in {row["algorithm"] for row in ranked["rows"]}


def test_the_page_shows_the_files_of_the_distribution() -> None:
    page = (ROOT / "docs" / "extending.md").read_text()
    shown = dict(re.findall(r"```\w+\n# (examples/plugins/\S+)\n(.*?)```\n", page, flags=re.DOTALL))
    files = [PLUGINS / "pyproject.toml", *(PLUGINS / "lightloom_example_plugins").glob("[!_]*.py")]
    assert shown == {path.relative_to(ROOT).as_posix(): path.read_text() for path in files}
