"""Floor plan of a whole averager: where every interferometer, heater, unit and port lies.

    lanes ─▶ blocks of P │ channel │ gains, units │ blocks of layer 1 │ channel │ ... │ blocks of T ─▶ lanes

Blocks of a part lie below each other, their waveguides in rows of one pitch; columns run from left to right. In a
channel waveguides go to the rows of the next part and cross there. All measures are assumptions until a foundry's
devices replace them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lightloom.core.arrays import Floats
from lightloom.core.errors import ConfigError
from lightloom.photonics.averaging.mapped import MappedAverager, Part
from lightloom.photonics.meshes.mapping import MappedBlocks, MappedMatrix
from lightloom.photonics.meshes.mesh import Mesh

_LONGEST = 1e6
"""Longest measure in micrometres: a metre."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Measures in µm. All of them are assumptions."""

    pitch: float = 25.0
    """Distance of neighbouring waveguides of a mesh. Assumption: heaters without trenches lie this close."""
    heater: float = 100.0
    """Length of a heater. Assumption, as in `hardware.Parts.mzi_length`."""
    coupler: float = 50.0
    """Length of a directional coupler with its bends. Assumption."""
    channel: float = 200.0
    """Least length of a channel between two parts. Assumption."""
    unit: float = 400.0
    """Length of an amplifier or a homodyne unit with its modulator. Assumption."""
    margin: float = 100.0
    """Width of the empty border around the chip. Assumption."""

    def __post_init__(self) -> None:
        for name in ("pitch", "heater", "coupler", "channel", "unit", "margin"):
            if not (np.isfinite(getattr(self, name)) and getattr(self, name) > 0):
                raise ConfigError(f"{name}={getattr(self, name)}: expected a length above 0 µm")
            if getattr(self, name) > _LONGEST:
                raise ConfigError(f"{name}={getattr(self, name):g}: expected at most {_LONGEST:g} µm")

    @property
    def column(self) -> float:
        """Length of a column: two heaters and two couplers."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A waveguide through a channel."""

    start: tuple[float, float]
    end: tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class FloorPlan:
    """Every device of a chip at its place."""

    rules: Rules
    interferometers: tuple[Place, ...]
    attenuators: tuple[Place, ...]
    """Interferometers of Σ, whose second waveguide ends in the chip."""
    shifters: tuple[Place, ...]
    """Phase shifters at the outputs of meshes."""
    guides: tuple[Place, ...]
    units: tuple[Place, ...]
    """Amplifiers and nonlinear units, named by their part."""
    routes: tuple[Route, ...]
    inputs: tuple[tuple[str, float, float], ...]
    """Name and place of every lane of the senders."""
    outputs: tuple[tuple[str, float, float], ...]
    width: float
    height: float
    crossings: int

    @property
    def heaters(self) -> int:
        """Number of heaters: two an interferometer, one a phase shifter."""
        return 2 * (len(self.interferometers) + len(self.attenuators)) + len(self.shifters)

    @property
    def area(self) -> float:
        """Area in square millimetres."""
        return self.width * self.height / 1e6


class _Plan:
    """Devices placed so far."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.interferometers: list[Place] = []
        self.attenuators: list[Place] = []
        self.shifters: list[Place] = []
        self.guides: list[Place] = []
        self.units: list[Place] = []
        self.routes: list[Route] = []

    def guide(self, x: float, end: float, y: float) -> None:
        if end > x + 1e-9:
            self.guides.append(Place(name="guide", x=x, y=y, phases=(), length=end - x))

    def mesh(self, name: str, mesh: Mesh, x: float, rows: Floats, live: set[int]) -> tuple[float, set[int]]:
        """Place a mesh from ``x`` on whose modes lie at ``rows``, and return its end and the lit modes."""
        place, column = mesh.layout, self.rules.column
        until = dict.fromkeys(live, x)
        for k, (mode, position) in enumerate(zip(place.modes.tolist(), place.columns.tolist(), strict=True)):
            left = x + position * column
            for neighbour in (mode, mode + 1):
                if neighbour in until:
                    self.guide(until[neighbour], left, rows[neighbour])
                until[neighbour] = left + column
            self.interferometers.append(
                Place(
                    name=f"{name} {position},{mode}",
                    x=left,
                    y=float(rows[mode]),
                    phases=(float(mesh.theta[k]), float(mesh.phi[k])),
                )
            )
        end = x + place.depth * column
        for mode in sorted(until):
            if mode < mesh.outputs:
                self.guide(until[mode], end, rows[mode])
                phases = (float(mesh.output_phases[mode]),)
                self.shifters.append(Place(name=f"{name} out {mode}", x=end, y=float(rows[mode]), phases=phases))
        return end + self.rules.heater, {mode for mode in until if mode < mesh.outputs}

    def block(self, name: str, block: MappedMatrix, x: float, rows: Floats, inputs: int) -> tuple[float, set[int]]:
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
    """Return the places of all devices of an averager."""
    measures = rules or Rules()
    plan, top = _Plan(measures), max(_rows(part) for part in averager.parts.values()) * measures.pitch
    x = measures.margin
    arriving: dict[int, float] = {}
    inputs: list[tuple[str, float, float]] = []
    for name, part in averager.parts.items():
        starts = _starts(part, top + measures.margin, measures.pitch)
        if arriving:
            reach = max(abs(arriving[mode] - y) for mode, y in starts.items() if mode in arriving)
            end = x + max(measures.channel, 1.5 * reach)
            plan.routes += [
                Route(start=(x, arriving[mode]), end=(end, y)) for mode, y in starts.items() if mode in arriving
            ]
            x = end
        else:
            inputs = [(f"in{mode}", 0.0, y) for mode, y in sorted(starts.items())]
            for _, _, y in inputs:
                plan.guide(0.0, x, y)
        x, arriving = _place_part(plan, name, part, x, top + measures.margin)
    width = x + measures.margin
    for y in arriving.values():
        plan.guide(x, width, y)
    return FloorPlan(
        rules=measures,
        interferometers=tuple(plan.interferometers),
        attenuators=tuple(plan.attenuators),
        shifters=tuple(plan.shifters),
        guides=tuple(plan.guides),
        units=tuple(plan.units),
        routes=tuple(plan.routes),
        inputs=tuple(inputs),
        outputs=tuple((f"out{mode}", width, y) for mode, y in sorted(arriving.items())),
        width=width,
        height=top + 2 * measures.margin,
        crossings=averager.crossings,
    )


def _blocks(part: Part) -> list[tuple[MappedMatrix, list[int], list[int]]]:
    """Return each block of a part with the outputs and inputs of the part that it has."""
    if isinstance(part, MappedBlocks):
        ends = zip(part.blocks, part.outputs, part.inputs, strict=True)
        return [(block, rows.tolist(), columns.tolist()) for block, rows, columns in ends]
    return [(part, list(range(part.shape[0])), list(range(part.shape[1])))]


def _size(block: MappedMatrix) -> int:
    """Number of rows of a block; the dump of Σ needs one below the last waveguide."""
    meshes = [block.input_mesh] + ([block.output_mesh] if block.output_mesh else [])
    return max(block.attenuations.size, *(mesh.layout.size for mesh in meshes)) + 1


def _rows(part: Part) -> int:
    return sum(_size(block) for block, _, _ in _blocks(part))


def _starts(part: Part, top: float, pitch: float) -> dict[int, float]:
    """Return the y of every input of a part."""
    row = 0
    starts: dict[int, float] = {}
    for block, _, columns in _blocks(part):
        starts |= {mode: top - (row + place) * pitch for place, mode in enumerate(columns)}
        row += _size(block)
    return starts


def _place_part(plan: _Plan, name: str, part: Part, x: float, top: float) -> tuple[float, dict[int, float]]:
    """Place the blocks of a part below each other, and gains and units behind; return its end and its outputs' y."""
    rules, row = plan.rules, 0
    ends: dict[int, float] = {}
    finished: list[tuple[float, float]] = []
    for number, (block, outputs, columns) in enumerate(_blocks(part), 1):
        rows: Floats = top - (row + np.arange(_size(block), dtype=np.float64)) * rules.pitch
        end, live = plan.block(f"{name}/{number}", block, x, rows, len(columns))
        for place, mode in enumerate(outputs):
            if place in live:
                ends[mode] = float(rows[place])
                finished.append((end, float(rows[place])))
        row += _size(block)
    last = max(end for end, _ in finished)
    for end, y in finished:
        plan.guide(end, last, y)
    for mode, y in ends.items():
        plan.units.append(Place(name=f"{name} {mode}", x=last, y=y, phases=(), length=rules.unit))
    return last + rules.unit, ends
