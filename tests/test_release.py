"""The package, its citation and its changelog name one version and one day."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml

_ROOT = Path(__file__).parents[1]


def test_package_citation_and_changelog_name_the_same_release() -> None:
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]
    citation = yaml.safe_load((_ROOT / "CITATION.cff").read_text())
    headings = re.findall(r"^## (.*)$", (_ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    releases = [heading for heading in headings if heading != "Unreleased"]
    version = project["version"]
    assert citation["version"] == version
    assert releases[0] == f"{version} - {citation['date-released']}"


def test_wheels_hold_every_file_that_the_package_reads() -> None:
    patterns = tomllib.loads((_ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["lightloom"]
    package = _ROOT / "src" / "lightloom"
    held = {path for pattern in patterns for path in package.glob(pattern)}
    made = {"", ".py", ".pyc", ".c", ".h", ".so", ".pyd", ".nbi", ".nbc"}
    left_out = {path for path in package.rglob("*") if path.is_file() and path.suffix not in made} - held
    assert left_out == set()


def test_every_extra_has_a_lower_bound() -> None:
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]
    extras = [line for lines in project["optional-dependencies"].values() for line in lines]
    assert [line for line in [*project["dependencies"], *extras] if ">=" not in line] == []
