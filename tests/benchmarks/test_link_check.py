"""The second field simulation reads exported files alone and agrees with ``onn link``."""

from __future__ import annotations

import ast
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.photonics.link_check import compared, settings
from benchmarks.support import field_simulation
from benchmarks.support.field_simulation import Part, read_network, wrong_words

from lightloom.photonics.averaging.construct import build
from lightloom.photonics.averaging.networks import FunctionArguments, save_network
from lightloom.photonics.link.settings import Link, ideal
from lightloom.photonics.link.simulate import Chip, design_chip
from lightloom.photonics.link.word_errors import word_errors
from lightloom.photonics.meshes.files import save_phases


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Chip, Any, Any]:
    """A small chip, and its files as the second simulation reads them."""
    folder = tmp_path_factory.mktemp("link")
    network, arguments = build(2, 4, nonlinearity="clipped").network, FunctionArguments(servers=2, bits=4)
    chip = design_chip(network, arguments)
    save_network(folder / "net.npz", network, arguments)
    save_phases(chip.mapped.parts, folder / "phases.json")
    return chip, read_network(folder / "net.npz"), json.loads((folder / "phases.json").read_text())


def test_it_shares_no_code_with_the_package() -> None:
    tree = ast.parse(Path(field_simulation.__file__).read_text())
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {node.module if isinstance(node, ast.ImportFrom) else node.names[0].name for node in imports}
    assert not any("lightloom" in str(name) for name in names)


def test_its_meshes_carry_out_the_designed_matrices(exported: tuple[Chip, Any, Any]) -> None:
    chip, _, phases = exported
    for document, part in zip(phases["parts"], chip.mapped.parts.values(), strict=True):
        made = Part(document, asdict(ideal(Link())), np.random.default_rng(0))
        matrix = made.gains[:, None] * made(np.eye(part.shape[1], dtype=complex))
        assert matrix == pytest.approx(part.matrix(), abs=1e-9)


@pytest.mark.parametrize(
    "link",
    [
        ideal(Link()),
        replace(ideal(Link()), phase_lock=0.4),
        Link(gain="optical", full_scale=2e-5, phase_error=0.0, coupler_error=0.0, loss_db=0.0),
    ],
    ids=["ideal", "phase lock", "optical"],
)
def test_both_count_as_many_wrong_words(exported: tuple[Chip, Any, Any], link: Link) -> None:
    chip, network, phases = exported
    theirs = wrong_words(network, phases, asdict(link), 4, 2000, 0)
    ours = word_errors(chip, link, words=2000, fabrications=16).wrong
    spread = np.sqrt(max(ours.mean(), 1.0) / 4 + ours.var() / 4)
    assert abs(theirs.mean() - ours.mean()) <= 4 * spread
    assert (ours.any() and theirs.any()) or link == ideal(Link())


def test_twenty_links_are_compared() -> None:
    assert len(settings()) == 20
    row = compared(np.array([10, 12, 11, 9]), np.array([11, 10, 12, 9]))
    assert row["agrees"] and row["telling"]
    assert not compared(np.array([100, 101]), np.array([11, 10]))["agrees"]
