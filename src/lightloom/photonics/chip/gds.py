"""Layouts as GDSII, written with gdsfactory (the extra ``gds``) in the layers of its generic process.

Waveguides, couplers and bends are gdsfactory's, heaters are rectangles of the heater layer, gains and units are boxes
of the floor-plan layer to be replaced, as homodyne units hold lasers, detectors and electronics. Couplers are drawn at
the right place, not designed: their length for half the power depends on the process.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.core.files import check_writable
from lightloom.photonics.chip.floorplan import FloorPlan, Place

_GAP = 0.236
"""Gap of the couplers in µm, gdsfactory's default."""
_HEATER_WIDTH = 2.5
"""Width of the heaters in µm. An assumption."""
_HEATED = 0.9
"""Share of a heater's length that metal covers, so that heaters in a row do not touch. An assumption."""
_COUPLED = 0.2
"""Share of a coupler's length in which its waveguides are parallel."""
INSTALL = "needs gdsfactory: pip install 'lightloom[gds]', best in an environment of its own"


def write_gds(plan: FloorPlan, path: Path, name: str = "averager") -> Path:
    """Write the layout of a floor plan.

    Raises:
        ConfigError: the name of the file does not end in .gds, it cannot be written, or heaters of neighbouring
            waveguides would touch.
        UnsupportedError: gdsfactory is not installed.
    """
    if path.suffix != ".gds":
        raise ConfigError(f"{str(path)!r}: expected a name that ends in .gds")
    if plan.rules.pitch < 2 * _HEATER_WIDTH:
        raise ConfigError(
            f"pitch={plan.rules.pitch:g}: expected at least {2 * _HEATER_WIDTH:g} µm, for heaters {_HEATER_WIDTH:g} µm "
            "wide not to touch"
        )
    check_writable(path)
    try:
        gf: Any = import_module("gdsfactory")
    except ModuleNotFoundError as error:
        raise UnsupportedError(f"--gds {INSTALL}") from error
    import_module("gdsfactory.gpdk").PDK.activate()
    gf.clear_cache()
    layout = _Layout(gf, plan)
    layout.draw(name).write_gds(path, with_metadata=False)
    return path


class _Layout:
    """Cells of one layout; equal devices are one cell, placed often."""

    def __init__(self, gf: Any, plan: FloorPlan) -> None:
        self.gf, self.plan, self.rules = gf, plan, plan.rules
        self.layers = import_module("gdsfactory.gpdk").LAYER
        dx = self.rules.coupler * (1 - _COUPLED) / 2
        self.coupler = gf.components.coupler(gap=_GAP, length=self.rules.coupler * _COUPLED, dx=dx, dy=self.rules.pitch)
        self.mzi = self._interferometer("mzi", dumped=False)
        self.attenuator = self._interferometer("attenuator", dumped=True)
        self.shifter = self._heated("phase_shifter")

    def _heated(self, name: str) -> Any:
        """A waveguide under a heater; its origin is its left end."""
        cell = self.gf.Component(name)
        cell << self.gf.components.straight(length=self.rules.heater)
        half, length = _HEATER_WIDTH / 2, self.rules.heater
        begin, end = (1 - _HEATED) / 2 * length, (1 + _HEATED) / 2 * length
        corners = [(begin, -half), (end, -half), (end, half), (begin, half)]
        cell.add_polygon(corners, layer=self.layers.HEATER)
        return cell

    def _interferometer(self, name: str, *, dumped: bool) -> Any:
        """Heater φ, coupler, heater θ, coupler; its origin is the left end of the upper waveguide.

        The lower waveguide of an attenuator of Σ begins and ends within the cell.
        """
        cell, rules = self.gf.Component(name), self.rules
        heated = self._heated(f"{name}_heater")
        step = rules.heater + rules.coupler
        for x in (0.0, step):
            (cell << heated).dmove((x, 0.0))
            if not (dumped and x == 0.0):
                (cell << self.gf.components.straight(length=rules.heater)).dmove((x, -rules.pitch))
            coupler = cell << self.coupler
            coupler.dmove(tuple(coupler.ports["o2"].center), (x + rules.heater, 0.0))
        return cell

    def draw(self, name: str) -> Any:
        """Return the cell of the whole chip, with optical ports."""
        top, plan = self.gf.Component(name), self.plan
        for cell, places in (
            (self.mzi, plan.interferometers),
            (self.attenuator, plan.attenuators),
            (self.shifter, plan.shifters),
        ):
            for place in places:
                (top << cell).dmove((place.x, place.y))
        for place in plan.guides:
            (top << self.gf.components.straight(length=place.length)).dmove((place.x, place.y))
        for route in plan.routes:
            (x0, y0), (x1, y1) = route.start, route.end
            straight = abs(y1 - y0) < 1e-9
            parts = self.gf.components
            bend = parts.straight(length=x1 - x0) if straight else parts.bend_s(size=(x1 - x0, y1 - y0))
            (top << bend).dmove((x0, y0))
        for place in plan.units:
            self._unit(top, place)
        corners = [(0, 0), (plan.width, 0), (plan.width, plan.height), (0, plan.height)]
        top.add_polygon(corners, layer=self.layers.FLOORPLAN)
        for ports, orientation in ((plan.inputs, 180), (plan.outputs, 0)):
            for label, x, y in ports:
                top.add_port(name=label, center=(x, y), width=0.5, orientation=orientation, layer=self.layers.WG)
                top.add_label(text=label, position=(x, y), layer=self.layers.TEXT)
        return top

    def _unit(self, top: Any, place: Place) -> None:
        """A box where an amplifier or a unit goes, with the name of its output."""
        half = 0.4 * self.rules.pitch
        left, right = place.x, place.x + place.length
        corners = [(left, place.y - half), (right, place.y - half), (right, place.y + half), (left, place.y + half)]
        top.add_polygon(corners, layer=self.layers.DEVREC)
        top.add_label(text=f"unit {place.name}", position=(left, place.y), layer=self.layers.TEXT)
