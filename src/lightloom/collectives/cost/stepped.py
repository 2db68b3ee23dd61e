"""What a schedule costs on a fabric, under two models that are never mixed.

``paper``
    every step of a circuit-switched fabric costs d/B + a: the bytes on its fullest wavelength over the wavelength's
    bandwidth, plus conversion and reconfiguration, always; propagation is free (OpTree, Eq. 3; WRHT).
``physical``
    a step costs its slowest lightpath: bytes over the bundled bandwidth plus propagation, plus conversion;
    reconfiguration is paid only when a circuit really changes, and once if one set of circuits serves all steps.

On packet fabrics there is nothing to reconfigure and both models agree: a step costs its busiest link plus the longest
propagation. That is exact when the busiest link lies on the longest path, and an upper estimate otherwise. Steps that
nothing orders run at once and share links (:mod:`lightloom.collectives.cost.concurrent`).

A codec adds its seconds to each step, or, in line with the links, makes the step wait for the slower of the two
(:mod:`lightloom.collectives.cost.codec_work`); the schedule's size is then that of the compressed data.
"""

from __future__ import annotations

from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import cast, get_args

import numpy as np

from lightloom.collectives.cost.concurrent import shared_times
from lightloom.collectives.cost.loads import StepLoads, step_loads
from lightloom.collectives.cost.order import steps_before
from lightloom.collectives.cost.price import Cost, CostModel
from lightloom.collectives.cost.queued import queued_cost
from lightloom.collectives.schedule.columns import Schedule
from lightloom.core.arrays import Floats, Mask
from lightloom.core.errors import UnknownNameError
from lightloom.fabrics.base import Fabric

COST_MODELS: tuple[str, ...] = get_args(CostModel)


def known_cost_model(name: str) -> CostModel:
    """The cost model of that name.

    Raises:
        UnknownNameError: no such cost model.
    """
    if name not in COST_MODELS:
        raise UnknownNameError("cost model", str(name), COST_MODELS)
    return cast(CostModel, name)


@dataclass(frozen=True, slots=True)
class CodecTimes:
    """Seconds of coding in each step, each array of shape [steps]."""

    encode: Floats
    decode: Floats
    in_line: bool
    """Whether coding runs beside sending, so that a step waits for the slower of the two; else one after the other."""


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Seconds of each step, by cause; each array has shape [steps].

    Where steps have dependencies, seconds are those of a step that shares links and codecs with those beside it.
    """

    transmission: Floats
    conversion: Floats
    reconfiguration: Floats
    encode: Floats
    decode: Floats
    static: bool

    @property
    def duration(self) -> Floats:
        return self.transmission + self.conversion + self.reconfiguration + self.encode + self.decode


def cost(schedule: Schedule, fabric: Fabric, model: CostModel = "physical", codec: CodecTimes | None = None) -> Cost:
    """Time and energy of one run from dark fibres.

    Raises:
        UnknownNameError: no such cost model.
    """
    model = known_cost_model(model)
    if schedule.queued:
        return queued_cost(schedule, fabric, model)
    return loads_cost(step_loads(schedule, fabric, model), fabric, codec)


def loads_cost(loads: StepLoads, fabric: Fabric, codec: CodecTimes | None = None) -> Cost:
    """Time and energy of one run from dark fibres.

    Args:
        loads: what the steps of the schedule carry on the fabric, at the size that is sent.
        fabric: the same, or the same with smaller packets.
        codec: seconds of coding in each step.
    """
    times = loads_times(loads, fabric, codec)
    critical = np.ones(loads.steps, np.bool_) if loads.dependencies is None else _critical_steps(loads, times.duration)
    transmission, conversion, reconfiguration, encode, decode = (
        float(part[critical].sum())
        for part in (times.transmission, times.conversion, times.reconfiguration, times.encode, times.decode)
    )
    energy = None
    if fabric.energy_per_bit is not None:
        crossings = loads.crossings * loads.pieces
        energy = crossings * fabric.wire_bytes(loads.chunk_nbytes) * 8 * fabric.energy_per_bit
    return Cost(
        steps=loads.steps,
        time=transmission + conversion + reconfiguration + encode + decode,
        transmission=transmission,
        conversion=conversion,
        reconfiguration=reconfiguration,
        setup=min(fabric.setup_time, reconfiguration),
        static=times.static,
        energy=energy,
        encode=encode,
        decode=decode,
    )


def step_times(
    schedule: Schedule, fabric: Fabric, model: CostModel = "physical", codec: CodecTimes | None = None
) -> StepTimes:
    """The seconds of each step of a schedule and what they go to.

    Raises:
        UnknownNameError: no such cost model.
    """
    return loads_times(step_loads(schedule, fabric, known_cost_model(model)), fabric, codec)


def loads_times(loads: StepLoads, fabric: Fabric, codec: CodecTimes | None = None) -> StepTimes:
    """The seconds of each step and what they go to; arguments as in :func:`loads_cost`."""
    steps, transmission = loads.steps, loads.transmission(fabric)
    conversion, setups, static = np.full(steps, fabric.step_overhead), np.zeros(steps), True
    if loads.changes is not None:
        setups, static = np.where(loads.changes.changed, fabric.setup_time, 0.0), loads.changes.static
    elif fabric.exclusive:
        setups, static = np.full(steps, fabric.setup_time), False
    encode = decode = np.zeros(steps)
    if codec is not None and codec.in_line:
        # What leaves the slower of link and engine still has to cross at least to the nearest rank.
        away = fabric.neighbour_latency() if loads.model == "physical" or not fabric.exclusive else 0.0
        transmission = np.maximum(transmission, np.maximum(codec.encode, codec.decode) + away)
    elif codec is not None:
        encode, decode = codec.encode, codec.decode
    if loads.dependencies is not None:
        coding, lead = None if codec is None else (codec.encode, codec.decode), conversion + setups
        in_line = codec is not None and codec.in_line
        transmission, encode, decode = shared_times(loads, fabric, transmission, lead, coding, in_line=in_line)
    return StepTimes(transmission, conversion, setups, encode, decode, static)


def _critical_steps(loads: StepLoads, duration: Floats) -> Mask:
    """The steps on the longest chain of dependencies."""
    before, end = steps_before(loads.steps, loads.dependencies), np.zeros(loads.steps)
    for step in TopologicalSorter(dict(enumerate(before))).static_order():
        end[step] = max((end[b] for b in before[step]), default=0.0) + duration[step]
    critical = np.zeros(loads.steps, np.bool_)
    at: int | None = int(np.argmax(end))
    while at is not None:
        critical[at] = True
        at = max(before[at], key=lambda b: float(end[b]), default=None)
    return critical
