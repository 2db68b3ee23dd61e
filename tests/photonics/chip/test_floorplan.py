"""A floor plan holds every device once, and none lies over another."""

from __future__ import annotations

from collections import Counter

import pytest

from lightloom.core.errors import ConfigError
from lightloom.photonics.averaging.mapped import MappedAverager
from lightloom.photonics.chip.floorplan import (
    FloorPlan,
    Place,
    Rules,
    floor_plan,
)
from lightloom.photonics.chip.netlist import chip_netlist


def test_every_device_has_a_place(averager: MappedAverager) -> None:
    plan = floor_plan(averager)
    assert len(plan.interferometers) + len(plan.attenuators) == averager.mzis
    assert plan.heaters == 2 * averager.mzis + len(plan.shifters)
    assert [name for name, _, _ in plan.inputs] == [f"in{lane}" for lane in range(4)]
    assert [name for name, _, _ in plan.outputs] == [f"out{lane}" for lane in range(4)]
    assert plan.area == pytest.approx(plan.width * plan.height / 1e6)


def test_every_gain_of_the_netlist_has_a_box_which_a_unit_shares(averager: MappedAverager) -> None:
    """P and T have gains too."""
    boxes = Counter(place.name.rsplit(" ", 1)[0].replace(" ", "") for place in floor_plan(averager).units)
    devices = chip_netlist(averager)["instances"].items()
    named = [(name.split("_")[0], device["component"]) for name, device in devices]
    assert boxes == Counter(part for part, component in named if component == "amplifier")
    units = Counter(part for part, component in named if component == "unit")
    assert units == {part: count for part, count in boxes.items() if part.startswith("layer")}


def test_devices_do_not_overlap(averager: MappedAverager) -> None:
    plan = floor_plan(averager, Rules(pitch=30.0))
    boxes = [box(plan, place, 2) for place in plan.interferometers] + [
        box(plan, place, 1) for place in plan.attenuators
    ]
    for number, (left, bottom, right, top) in enumerate(boxes):
        assert left >= 0 and right <= plan.width and bottom >= 0 and top <= plan.height
        for other in boxes[:number]:
            apart = right <= other[0] or other[2] <= left or top <= other[1] or other[3] <= bottom
            assert apart


def box(plan: FloorPlan, place: Place, rows: int) -> tuple[float, float, float, float]:
    pitch = plan.rules.pitch
    return place.x, place.y - (rows - 0.55) * pitch, place.x + plan.rules.column, place.y + 0.4 * pitch


def test_larger_rules_make_a_larger_chip(averager: MappedAverager) -> None:
    assert floor_plan(averager, Rules(pitch=50.0)).height > 1.3 * floor_plan(averager).height
    assert floor_plan(averager, Rules(heater=200.0)).width > floor_plan(averager).width


@pytest.mark.parametrize("measure", ["pitch", "heater", "coupler", "channel", "unit", "margin"])
def test_no_measure_may_be_nothing(measure: str) -> None:
    with pytest.raises(ConfigError, match=f"{measure}=0.0: expected a length above 0 µm"):
        Rules(**{measure: 0.0})
