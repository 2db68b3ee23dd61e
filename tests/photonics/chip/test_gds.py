"""A layout, written with gdsfactory and read with gdstk: an environment of its own has both (``make test-gds``)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.photonics.averaging.mapped import MappedAverager
from lightloom.photonics.chip.floorplan import Rules, floor_plan, write_gds

WAVEGUIDES, HEATERS, FLOOR, UNITS = 1, 47, 64, 68


def test_another_library_reads_the_layout(averager: MappedAverager, tmp_path: Path) -> None:
    pytest.importorskip("gdsfactory", reason="gdsfactory pins an older typer and pydantic: make test-gds")
    gdstk: Any = pytest.importorskip("gdstk")
    plan = floor_plan(averager)
    library = gdstk.read_gds(write_gds(plan, tmp_path / "chip.gds"))
    (top,) = library.top_level()
    np.testing.assert_allclose(np.ravel(top.bounding_box()), [0.0, 0.0, plan.width, plan.height], atol=1e-3)
    polygons = top.flatten().polygons
    assert sum(polygon.layer == HEATERS for polygon in polygons) == plan.heaters
    assert sum(polygon.layer == FLOOR for polygon in polygons) == 1
    names = {label.text for label in top.labels}
    assert {name for name, _, _ in (*plan.inputs, *plan.outputs)} <= names
    guides = [polygon for polygon in polygons if polygon.layer == WAVEGUIDES]
    for _, x, y in plan.outputs:
        assert any(gdstk.inside([(x - 0.5, y)], [guide])[0] for guide in guides)
    # Waveguides that touch lead every input through its first interferometer.
    joined = gdstk.boolean(guides, [], "or", precision=1e-2)
    behind = plan.rules.margin + plan.rules.column
    for _, x, y in plan.inputs:
        shapes = [shape for shape in joined if gdstk.inside([(x + 0.5, y)], [shape])[0]]
        assert any(shape.bounding_box()[1][0] >= behind for shape in shapes)


def test_no_heaters_or_units_touch(averager: MappedAverager, tmp_path: Path) -> None:
    """What touches is one conductor: as many separate pieces as heaters, and as many boxes as units."""
    pytest.importorskip("gdsfactory", reason="gdsfactory pins an older typer and pydantic: make test-gds")
    gdstk: Any = pytest.importorskip("gdstk")
    for rules in (Rules(), Rules(pitch=10.0, heater=20.0)):
        plan = floor_plan(averager, rules)
        (top,) = gdstk.read_gds(write_gds(plan, tmp_path / "chip.gds")).top_level()
        polygons = top.flatten().polygons
        for layer, count in ((HEATERS, plan.heaters), (UNITS, len(plan.units))):
            # A nanometre wider on every side: shapes that abut merge.
            wider = gdstk.offset([polygon for polygon in polygons if polygon.layer == layer], 1e-3, use_union=True)
            assert len(wider) == count


def test_heaters_that_would_touch_are_refused(averager: MappedAverager, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="pitch=2: expected at least 5 µm"):
        write_gds(floor_plan(averager, Rules(pitch=2.0)), tmp_path / "chip.gds")


def test_other_names_and_a_missing_library_are_refused(
    averager: MappedAverager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match=r"expected a name that ends in \.gds"):
        write_gds(floor_plan(averager), tmp_path / "chip.oas")
    monkeypatch.setitem(__import__("sys").modules, "gdsfactory", None)
    with pytest.raises(UnsupportedError, match="needs gdsfactory: pip install 'lightloom"):
        write_gds(floor_plan(averager), tmp_path / "chip.gds")
    assert not list(tmp_path.iterdir())
