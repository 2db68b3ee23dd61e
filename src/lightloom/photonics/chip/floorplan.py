"""Floor plan of a whole averager, where every interferometer, heater, unit and port lies, and its layout as GDSII.

    lanes ─▶ blocks of P │ gains │ channel │ blocks of layer 1 │ gains, units │ ... │ blocks of T │ gains ─▶ lanes

Blocks of a part lie below each other, their waveguides in rows of one pitch; columns run from left to right. In a
channel waveguides go to the rows of the next part and cross there. All measures are assumptions until a foundry's
devices replace them.
"""

from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from lightloom.core.arrays import Floats
from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.core.files import check_writable
from lightloom.photonics.averaging.mapped import MappedAverager, Part
from lightloom.photonics.meshes.mapping import MappedMatrix
from lightloom.photonics.meshes.mesh import Mesh

_LONGEST = 1e6
"""Longest measure in micrometres: a metre."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Measures in µm. All of them are assumptions."""

    pitch: float = 25.0
    """Distance of neighbouring waveguides of a mesh. Assumption: heaters without trenches lie this close."""
    heater: float = 100.0
    """Length of a heater. Assumption: columns are then as long as `machines.reducers.hardware.MZI_LENGTH`."""
    coupler: float = 50.0
    """Length of a directional coupler with its bends. Assumption."""
    channel: float = 200.0
    """Least length of a channel between two parts. Assumption."""
    unit: float = 400.0
    """Length of an amplifier, or of a homodyne unit with its modulator and gain. Assumption."""
    margin: float = 100.0
    """Width of the empty border around the chip. Assumption."""

    def __post_init__(self) -> None:
        """Raise ConfigError for a length that is not above 0 and finite, or above a metre."""
        for name, length in asdict(self).items():
            if not (np.isfinite(length) and length > 0):
                raise ConfigError(f"{name}={length}: expected a length above 0 µm")
            if length > _LONGEST:
                raise ConfigError(f"{name}={length:g}: expected at most {_LONGEST:g} µm")

    @property
    def column(self) -> float:
        """Length of a column of interferometers in µm: two heaters and two couplers."""
        return 2 * (self.heater + self.coupler)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A device with its left end and upper waveguide; µm, y upwards."""

    name: str
    x: float
    y: float
    phases: tuple[float, ...]
    """θ and φ of an interferometer, one phase of a phase shifter, none of a waveguide."""
    length: float = 0.0
    """Length of a waveguide."""


Port = tuple[str, float, float]
"""Name and place of a lane."""


@dataclass(slots=True, kw_only=True)
class FloorPlan:
    """Every device of a chip at its place."""

    rules: Rules
    height: float
    crossings: int
    width: float = 0.0
    interferometers: list[Place] = field(default_factory=list)
    attenuators: list[Place] = field(default_factory=list)
    """Interferometers of Σ, whose second waveguide ends in the chip."""
    shifters: list[Place] = field(default_factory=list)
    """Phase shifters at the outputs of meshes."""
    guides: list[Place] = field(default_factory=list)
    units: list[Place] = field(default_factory=list)
    """Amplifiers, in layers with their nonlinear units, named by their part and output."""
    routes: list[tuple[float, float, float, float]] = field(default_factory=list)
    """Start and end, x and y of each, of the waveguides through channels."""
    inputs: list[Port] = field(default_factory=list)
    """Lanes of the senders."""
    outputs: list[Port] = field(default_factory=list)

    @property
    def heaters(self) -> int:
        """Number of heaters of the chip: two for each interferometer and attenuator, one for each phase shifter."""
        return 2 * (len(self.interferometers) + len(self.attenuators)) + len(self.shifters)

    @property
    def area(self) -> float:
        """Area of the chip in square millimetres, its width times its height."""
        return self.width * self.height / 1e6

    def guide(self, x: float, end: float, y: float) -> None:
        """Append to ``guides`` a straight waveguide at ``y`` from ``x`` to ``end``, in µm, unless it would have no
        length."""
        if end > x + 1e-9:
            self.guides.append(Place(name="guide", x=x, y=y, phases=(), length=end - x))

    def mesh(self, name: str, mesh: Mesh, x: float, rows: Floats, live: set[int]) -> tuple[float, set[int]]:
        """Append the devices of a mesh, placed from ``x`` on, to the plan's lists, and return the x of its end in µm
        and its lit outputs.

        Every interferometer of the mesh is placed, by its left end and the upper of its two waveguides, and lights both
        of them. Waveguides are placed where a lit mode has no device; dark modes in front of their first device get
        none. Phase shifters stand at the lit outputs, and the end is behind them.

        Args:
            name: start of the devices' names, which go on with column and upper mode, `` 2,0``, or for a phase shifter
                with `` out`` and its mode.
            mesh: the mesh.
            x: left end, in µm.
            rows: y of its modes, in µm, by number; the first is the uppermost.
            live: numbers of the lit inputs.
        """
        place, column = mesh.layout, self.rules.column
        until = dict.fromkeys(live, x)
        for k, (mode, position) in enumerate(zip(place.modes.tolist(), place.columns.tolist(), strict=True)):
            left = x + position * column
            for neighbour in (mode, mode + 1):
                if neighbour in until:
                    self.guide(until[neighbour], left, rows[neighbour])
                until[neighbour] = left + column
            phases: tuple[float, ...] = (float(mesh.theta[k]), float(mesh.phi[k]))
            device = Place(name=f"{name} {position},{mode}", x=left, y=float(rows[mode]), phases=phases)
            self.interferometers.append(device)
        end = x + place.depth * column
        for mode in sorted(until):
            if mode < mesh.outputs:
                self.guide(until[mode], end, rows[mode])
                phases = (float(mesh.output_phases[mode]),)
                self.shifters.append(Place(name=f"{name} out {mode}", x=end, y=float(rows[mode]), phases=phases))
        return end + self.rules.heater, {mode for mode in until if mode < mesh.outputs}

    def block(self, name: str, block: MappedMatrix, x: float, rows: Floats, inputs: int) -> tuple[float, set[int]]:
        """Append the devices of V†, Σ (an attenuator at each lit waveguide that it has) and U of a block, placed from
        ``x`` on, to the plan's lists, and return the x of its end in µm and the numbers of its lit outputs. A block may
        be without U.

        Args:
            name: start of the devices' names, behind which `` v``, `` s`` or `` u`` follows.
            block: the block.
            x: left end, in µm.
            rows: y of its waveguides, in µm, the uppermost first.
            inputs: light enters at so many of the first waveguides.
        """
        end, live = self.mesh(f"{name} v", block.input_mesh, x, rows, set(range(inputs)))
        theta, phi = block.attenuator_phases
        lit = {mode for mode in live if mode < theta.size}
        for mode in sorted(lit):
            phases = (float(theta[mode]), float(phi[mode]))
            self.attenuators.append(Place(name=f"{name} s {mode}", x=end, y=float(rows[mode]), phases=phases))
        end += self.rules.column
        if block.output_mesh is None:
            return end, lit
        return self.mesh(f"{name} u", block.output_mesh, end, rows, lit)


def floor_plan(averager: MappedAverager, rules: Rules | None = None) -> FloorPlan:
    """Return the places in µm of all devices of an averager, with P, every layer and T from left to right, its width
    and height, and the number of crossings of waveguides.

    x counts from the left edge, y from the lower one. In front of every part but P a channel takes the waveguides to
    the part's inputs; it is 1.5 times as long as the longest way up or down in it, and at least as long as the rules
    state. Lanes are named ``in0``, ... and ``out0``, ... by their numbers in P and T. ``rules`` are the measures; None
    takes the default ones.
    """
    measures = rules or Rules()
    stacks = {name: _stack(part) for name, part in averager.parts.items()}
    top = max(sum(rows.size for *_, rows in stack) for stack in stacks.values()) * measures.pitch + measures.margin
    plan = FloorPlan(rules=measures, height=top + measures.margin, crossings=averager.crossings)
    x = measures.margin
    arriving: dict[int, float] = {}
    for name, stack in stacks.items():
        placed = [(block, ends, begins, top - rows * measures.pitch) for block, ends, begins, rows in stack]
        starts = {mode: float(y) for _, _, modes, rows in placed for mode, y in zip(modes, rows, strict=False)}
        if arriving:
            joined = [(arriving[mode], y) for mode, y in starts.items() if mode in arriving]
            end = x + max(measures.channel, 1.5 * max(abs(before - y) for before, y in joined))
            plan.routes += [(x, before, end, y) for before, y in joined]
            x = end
        else:
            plan.inputs = [(f"in{mode}", 0.0, y) for mode, y in sorted(starts.items())]
            for _, _, y in plan.inputs:
                plan.guide(0.0, x, y)
        x, arriving = _place_part(plan, name, placed, x)
    plan.width = x + measures.margin
    for y in arriving.values():
        plan.guide(x, plan.width, y)
    plan.outputs = [(f"out{mode}", plan.width, y) for mode, y in sorted(arriving.items())]
    return plan


def _stack(part: Part) -> list[tuple[MappedMatrix, list[int], list[int], Floats]]:
    """Return for each block of a part the block, the numbers of the part's outputs and of its inputs that it has, and
    the rows of its waveguides.

    Rows are counted from 0 at the top of the part, in units of the pitch. Blocks lie below each other; the dump of Σ
    needs a row below the last waveguide.
    """
    stack, row = [], 0
    for block, outputs, inputs in zip(part.blocks, part.outputs, part.inputs, strict=True):
        meshes = [block.input_mesh, *([block.output_mesh] if block.output_mesh else [])]
        size = max(block.attenuations.size, *(mesh.layout.size for mesh in meshes)) + 1
        stack.append((block, outputs.tolist(), inputs.tolist(), row + np.arange(size, dtype=np.float64)))
        row += size
    return stack


def _place_part(
    plan: FloorPlan, name: str, placed: list[tuple[MappedMatrix, list[int], list[int], Floats]], x: float
) -> tuple[float, dict[int, float]]:
    """Place the blocks of a part from ``x`` on in ``plan``, and behind the end of its longest block a box at every lit
    output: of a layer for gain and unit, of P and T, which have no units, for the gain.

    Args:
        plan: the plan to add to.
        name: name of the part, with which names of devices start, ``P/1`` for its first block.
        placed: each block with its outputs, its inputs and the y of its rows in µm.
        x: left end of the part, in µm.

    Returns:
        The x behind the units, and the y in µm of every lit output by its number in the part.
    """
    ends: dict[int, float] = {}
    finished: list[tuple[float, float]] = []
    for number, (block, outputs, inputs, rows) in enumerate(placed, 1):
        end, live = plan.block(f"{name}/{number}", block, x, rows, len(inputs))
        for place, mode in enumerate(outputs):
            if place in live:
                ends[mode] = float(rows[place])
                finished.append((end, float(rows[place])))
    last = max(end for end, _ in finished)
    for end, y in finished:
        plan.guide(end, last, y)
    for mode, y in ends.items():
        plan.units.append(Place(name=f"{name} {mode}", x=last, y=y, phases=(), length=plan.rules.unit))
    return last + plan.rules.unit, ends


# Layouts as GDSII, written with gdsfactory (the extra ``gds``) in the layers of its generic process.
#
# Waveguides, couplers and bends are gdsfactory's, heaters are rectangles of the heater layer, gains and units are
# boxes of the floor-plan layer to be replaced, as homodyne units hold lasers, detectors and electronics. Couplers are
# drawn at the right place, not designed: their length for half the power depends on the process.

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
    """Write the layout of a floor plan as a GDSII file in the layers of gdsfactory's generic process, and return its
    path; ``name`` is that of the top cell.

    Raises:
        ConfigError: the name of the file does not end in .gds, it cannot be written, or the pitch is below 5 µm, twice
            the width of a heater.
        UnsupportedError: gdsfactory is not installed.
    """
    if path.suffix != ".gds":
        raise ConfigError(f"{str(path)!r}: expected a name that ends in .gds")
    if plan.rules.pitch < 2 * _HEATER_WIDTH:
        why = f"for heaters {_HEATER_WIDTH:g} µm wide not to touch"
        raise ConfigError(f"pitch={plan.rules.pitch:g}: expected at least {2 * _HEATER_WIDTH:g} µm, {why}")
    check_writable(path)
    try:
        gf: Any = import_module("gdsfactory")
    except ModuleNotFoundError as error:
        raise UnsupportedError(f"--gds {INSTALL}") from error
    import_module("gdsfactory.gpdk").PDK.activate()
    gf.clear_cache()
    _Layout(gf, plan).draw(name).write_gds(path, with_metadata=False)
    return path


class _Layout:
    """Cells of one layout; equal devices are one cell, placed often."""

    def __init__(self, gf: Any, plan: FloorPlan) -> None:
        """Make the cells of a coupler, an interferometer, an attenuator and a phase shifter."""
        self.gf, self.plan, self.rules = gf, plan, plan.rules
        self.layers = import_module("gdsfactory.gpdk").LAYER
        dx = self.rules.coupler * (1 - _COUPLED) / 2
        self.coupler = gf.components.coupler(gap=_GAP, length=self.rules.coupler * _COUPLED, dx=dx, dy=self.rules.pitch)
        self.mzi = self._interferometer("mzi", dumped=False)
        self.attenuator = self._interferometer("attenuator", dumped=True)
        self.shifter = self._heated("phase_shifter")

    def _heated(self, name: str) -> Any:
        """Return the gdsfactory cell ``name`` of a waveguide as long as a heater, with metal over the middle 90 % of
        it; its origin is its left end."""
        cell = self.gf.Component(name)
        cell << self.gf.components.straight(length=self.rules.heater)
        half, length = _HEATER_WIDTH / 2, self.rules.heater
        begin, end = (1 - _HEATED) / 2 * length, (1 + _HEATED) / 2 * length
        cell.add_polygon([(begin, -half), (end, -half), (end, half), (begin, half)], layer=self.layers.HEATER)
        return cell

    def _interferometer(self, name: str, *, dumped: bool) -> Any:
        """Return the gdsfactory cell ``name`` of heater φ, coupler, heater θ, coupler; its origin is the left end of
        the upper waveguide.

        If ``dumped``, as in an attenuator of Σ, the lower waveguide begins and ends within the cell.
        """
        cell, rules = self.gf.Component(name), self.rules
        heated = self._heated(f"{name}_heater")
        for x in (0.0, rules.heater + rules.coupler):
            (cell << heated).dmove((x, 0.0))
            if not (dumped and x == 0.0):
                (cell << self.gf.components.straight(length=rules.heater)).dmove((x, -rules.pitch))
            coupler = cell << self.coupler
            coupler.dmove(tuple(coupler.ports["o2"].center), (x + rules.heater, 0.0))
        return cell

    def draw(self, name: str) -> Any:
        """Return the gdsfactory cell ``name`` of the whole chip: all devices and waveguides, boxes for units, the
        outline, and labels.

        Lanes of the senders and receivers are its optical ports, named as in the plan (``in0``, ``out0``, ...).
        """
        top, plan = self.gf.Component(name), self.plan
        cells = (self.mzi, self.attenuator, self.shifter)
        for cell, places in zip(cells, (plan.interferometers, plan.attenuators, plan.shifters), strict=True):
            for place in places:
                (top << cell).dmove((place.x, place.y))
        for place in plan.guides:
            (top << self.gf.components.straight(length=place.length)).dmove((place.x, place.y))
        for x0, y0, x1, y1 in plan.routes:
            straight = abs(y1 - y0) < 1e-9
            parts = self.gf.components
            bend = parts.straight(length=x1 - x0) if straight else parts.bend_s(size=(x1 - x0, y1 - y0))
            (top << bend).dmove((x0, y0))
        half = 0.4 * self.rules.pitch
        for place in plan.units:
            # A box where an amplifier or a unit goes, with the name of its output.
            left, right, low, high = place.x, place.x + place.length, place.y - half, place.y + half
            top.add_polygon([(left, low), (right, low), (right, high), (left, high)], layer=self.layers.DEVREC)
            top.add_label(text=f"unit {place.name}", position=(left, place.y), layer=self.layers.TEXT)
        corners = [(0, 0), (plan.width, 0), (plan.width, plan.height), (0, plan.height)]
        top.add_polygon(corners, layer=self.layers.FLOORPLAN)
        for ports, orientation in ((plan.inputs, 180), (plan.outputs, 0)):
            for label, x, y in ports:
                top.add_port(name=label, center=(x, y), width=0.5, orientation=orientation, layer=self.layers.WG)
                top.add_label(text=label, position=(x, y), layer=self.layers.TEXT)
        return top
