"""Distributions: links of their description, what is inside, one hash for one source, and types once installed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_string
from pathlib import Path

import pytest
import yaml
from scripts.distribution import ROOT, bill_of_materials, description, epoch, project, repository, urls

ADDRESS = "https://example.org/someone/lightloom"
LINKS = re.compile(r"\]\(([^)]*)\)")


def test_description_leads_to_files_of_the_release() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    relative = [target for target in LINKS.findall(readme) if "://" not in target]
    made = LINKS.findall(description(readme, ADDRESS, "1.2"))
    assert relative and len(made) == len(LINKS.findall(readme))
    assert all(target.startswith("https://") for target in made)
    for target in made:
        kind, release, path = target.removeprefix(f"{ADDRESS}/").split("/", 2)
        assert (ROOT / path.partition("#")[0]).exists()
        assert (kind, release) == ("raw" if path.endswith(".png") else "blob", "v1.2")
    assert "[plans](docs/planner.md)" in readme, "README itself stays relative"


def test_description_without_an_address_has_no_link_that_breaks() -> None:
    made = description((ROOT / "README.md").read_text("utf-8"), "", "1.2")
    assert [target for target in LINKS.findall(made) if "://" not in target] == []
    assert "| plans |" in made


def test_code_and_links_elsewhere_stay() -> None:
    text = "[a](https://a.org) [b](#below)\n\n```python\nx = [y](z)\n```\n![c](d.png)\n"
    assert description(text, ADDRESS, "1") == text.replace("(d.png)", f"({ADDRESS}/raw/v1/d.png)")


def test_addresses_are_of_the_repository_that_is_stated() -> None:
    assert urls("", "1") == {}
    assert all(value.startswith(ADDRESS) for value in urls(ADDRESS, "1").values())
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation.get("repository-code", "") == repository()


def test_bill_of_materials_names_every_requirement_once() -> None:
    table = project()
    document = bill_of_materials(table)
    names = [entry["name"] for entry in document["components"]]
    assert names == sorted(set(names))
    required = {entry["name"] for entry in document["components"] if entry["scope"] == "required"}
    assert required == {re.split(r"[\[<>=; ]", line)[0] for line in table["dependencies"]}
    assert document["dependencies"][0]["ref"] == document["metadata"]["component"]["bom-ref"]
    assert document == bill_of_materials(table)


def test_the_recipe_asks_for_what_the_package_asks_for() -> None:
    recipe = yaml.safe_load((ROOT / "recipe" / "recipe.yaml").read_text("utf-8"))
    table, build = project(), tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["build-system"]["requires"]
    stated = {kind: [line.replace(" >", ">") for line in lines] for kind, lines in recipe["requirements"].items()}
    asked = [line for line in table["dependencies"] if not line.endswith("; sys_platform != 'linux'")]
    figures = [f"matplotlib-base{table['optional-dependencies']['figures'][0].removeprefix('matplotlib')}"]
    python = [f"python{table['requires-python']}"]
    assert stated["run"] == python + figures + asked
    assert stated["host"] == [*python, "pip", *build]
    assert recipe["context"]["version"] == table["version"]
    about = recipe["about"]
    assert (about["summary"], about["license"]) == (table["description"], table["license"])


def test_time_of_archives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "12")
    assert epoch() == 12
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    assert epoch() % 86400 == 0 and epoch() > 1.7e9


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two folders with the sdist and the wheel of this tree, built apart, without kernels of Numba."""
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc")
    folders = []
    for number, mask in enumerate((0o022, 0o077)):
        folder = tmp_path_factory.mktemp("build") / ("deeper" * number) / "tree"
        before = os.umask(mask)
        try:
            ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "*.so", "compiled")
            shutil.copytree(ROOT / "src", folder / "src", ignore=ignored, copy_function=shutil.copyfile)
            (folder / "scripts").mkdir()
            for name in ("pyproject.toml", "setup.py", "scripts/distribution.py", *_NAMED):
                shutil.copyfile(ROOT / name, folder / name)
            environment = os.environ | {
                "LIGHTLOOM_COMPILE_AHEAD": "0",
                "PYTHONPATH": "",
                "PYTHONHASHSEED": str(number + 1),
            }
            environment.pop("SOURCE_DATE_EPOCH", None)
            for kind in ("sdist", "wheel"):
                command = [sys.executable, "-c", f"from setuptools import build_meta as b; b.build_{kind}('made')"]
                subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
        finally:
            os.umask(before)
        folders.append(folder / "made")
    return folders


_NAMED = (
    "README.md",
    "LICENSE",
    "NOTICE",
    "MANIFEST.in",
    "CITATION.cff",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "constraints.txt",
)


@pytest.mark.slow
def test_two_builds_have_one_hash(built: list[Path]) -> None:
    first, second = ({path.name: path.read_bytes() for path in folder.iterdir()} for folder in built)
    assert sorted(first) == sorted(second) and len(first) == 2
    assert {name for name in first if first[name] != second[name]} == set()


@pytest.mark.slow
def test_wheel_brings_its_licences_types_and_contents(built: list[Path]) -> None:
    (wheel,), (sdist,) = built[0].glob("*.whl"), built[0].glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        held = {name.partition(".dist-info/")[2]: name for name in names}
        document = json.loads(archive.read(held["sboms/lightloom.cdx.json"]))
        metadata = message_from_string(archive.read(held["METADATA"]).decode())
    assert {"licenses/LICENSE", "licenses/NOTICE"} <= held.keys() and "lightloom/py.typed" in names
    assert {entry["name"] for entry in document["components"] if entry["type"] == "file"} == {
        name for name in names if name.endswith(".so")
    }
    assert metadata["License-Expression"] == project()["license"]
    assert metadata["Description-Content-Type"] == "text/markdown; variant=GFM"
    with tarfile.open(sdist) as archive:
        assert {"NOTICE", "scripts/distribution.py"} <= {name.partition("/")[2] for name in archive.getnames()}


@pytest.mark.slow
def test_a_strict_program_finds_the_types_of_the_installed_package(built: list[Path], tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="needs lightloom[dev]")
    (wheel,) = built[0].glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "venv"], cwd=tmp_path, check=True)
    (packages,) = (tmp_path / "venv").rglob("site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    for entry in filter(os.path.isdir, sys.path):
        if entry.endswith("site-packages"):  # what lightloom depends on; its own editable installation is not read
            (packages / "dependencies.pth").write_text(entry + "\n")
    shutil.copy(Path(__file__).with_name("typed_client.py"), tmp_path)
    command = [sys.executable, "-m", "mypy", "--strict", "--python-executable", "venv/bin/python", "typed_client.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("Success"), done.stdout + done.stderr
