"""What a schedule costs on a fabric, under two models that are never mixed.

``paper``
    every step of a circuit-switched fabric costs d/B + a: the bytes on its fullest wavelength over the wavelength's
    bandwidth, plus conversion and reconfiguration, always; propagation is free (OpTree, Eq. 3; WRHT).
``physical``
    a step costs its slowest lightpath: bytes over the bundled bandwidth plus propagation, plus conversion;
    reconfiguration is paid only when a circuit really changes, and once if one set of circuits serves all steps.

On packet fabrics there is nothing to reconfigure and both models agree: a step costs its busiest link plus the longest
propagation. That is exact when the busiest link lies on the longest path, and an upper estimate otherwise.

A codec adds its seconds to each step, or, in line with the links, makes the step wait for the slower of the two
(:mod:`lightloom.collectives.cost.codec_work`); the schedule's size is then that of the compressed data.
"""

from __future__ import annotations

from dataclasses import dataclass
from graphlib import TopologicalSorter
from hashlib import sha256
from typing import TypeAlias, cast, get_args

import numpy as np
from numpy.typing import NDArray

from lightloom.collectives.cost.pipelined import StepLoads, in_best_pieces, slot_seconds, step_loads
from lightloom.collectives.cost.price import Cost, CostModel
from lightloom.collectives.cost.queued import queued_cost
from lightloom.collectives.schedule.columns import Schedule
from lightloom.core.arrays import Floats
from lightloom.core.errors import UnknownNameError
from lightloom.fabrics.base import Fabric

COST_MODELS: tuple[str, ...] = get_args(CostModel)
_BLOCK = 1 << 19


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
    """Seconds of each step, by cause; each array has shape [steps]."""

    transmission: Floats
    conversion: Floats
    reconfiguration: Floats
    encode: Floats
    decode: Floats
    static: bool

    @property
    def duration(self) -> Floats:
        return self.transmission + self.conversion + self.reconfiguration + self.encode + self.decode


@dataclass(frozen=True, slots=True)
class CircuitChanges:
    """Which steps of a schedule change circuits, whatever its size."""

    changed: NDArray[np.bool_]
    """Shape [steps]."""
    static: bool
    """Whether one set of circuits serves every step, so that only the first changes them."""


Invariants: TypeAlias = CircuitChanges | StepLoads
"""What the cost of a schedule rests on whatever its size: circuits that change, or loads of folded packets."""


def invariants(schedule: Schedule, fabric: Fabric) -> Invariants | None:
    """What need not be found again for another size; None where finding it is all that costs."""
    if fabric.exclusive:
        return circuit_changes(schedule, fabric)
    return step_loads(schedule, fabric) if schedule.folding or schedule.pipeline else None


def at_size(schedule: Schedule, nbytes: float, known: Invariants | None) -> Schedule:
    """The same movement of ``nbytes``, a pipeline in the pieces that suit them."""
    schedule = schedule.resized(nbytes)
    if schedule.pipeline is None or not isinstance(known, StepLoads):
        return schedule
    return in_best_pieces(schedule, known)


def cost(
    schedule: Schedule,
    fabric: Fabric,
    model: CostModel = "physical",
    known: Invariants | None = None,
    codec: CodecTimes | None = None,
) -> Cost:
    """Time and energy of one run from dark fibres; ``known`` saves finding the invariants again for another size.

    Raises:
        UnknownNameError: no such cost model.
    """
    if schedule.queued:
        return queued_cost(schedule, fabric, model)
    if known is None and not fabric.exclusive:
        known = invariants(schedule, fabric)
    times = step_times(schedule, fabric, model, known, codec)
    if schedule.dependencies is None:
        critical = np.ones(schedule.steps, np.bool_)
    else:
        critical = _critical_steps(schedule, times.duration)
    transmission, conversion, reconfiguration, encode, decode = (
        float(part[critical].sum())
        for part in (times.transmission, times.conversion, times.reconfiguration, times.encode, times.decode)
    )
    return Cost(
        steps=schedule.steps,
        time=transmission + conversion + reconfiguration + encode + decode,
        transmission=transmission,
        conversion=conversion,
        reconfiguration=reconfiguration,
        setup=min(fabric.setup_time, reconfiguration),
        static=times.static,
        energy=_energy(schedule, fabric, known),
        encode=encode,
        decode=decode,
    )


def step_times(
    schedule: Schedule,
    fabric: Fabric,
    model: CostModel = "physical",
    known: Invariants | None = None,
    codec: CodecTimes | None = None,
) -> StepTimes:
    """The seconds of each step and what they go to.

    Raises:
        UnknownNameError: no such cost model.
    """
    model, steps = known_cost_model(model), schedule.steps
    conversion, setups, static = np.full(steps, fabric.step_overhead), np.zeros(steps), True
    conversion[:1] += fabric.start_latency
    if not fabric.exclusive:
        transmission = _packet_steps(schedule, fabric, known)
    else:
        transmission = _circuit_steps(schedule, fabric, propagation=model == "physical")
        if model == "paper":
            setups, static = np.full(steps, fabric.setup_time), False
        else:
            circuits = known if isinstance(known, CircuitChanges) else circuit_changes(schedule, fabric)
            setups, static = np.where(circuits.changed, fabric.setup_time, 0.0), circuits.static
    encode = decode = np.zeros(steps)
    if codec is not None and codec.in_line:
        # What leaves the slower of link and engine still has to cross at least to the nearest rank.
        away = fabric.neighbour_latency() if model == "physical" or not fabric.exclusive else 0.0
        transmission = np.maximum(transmission, np.maximum(codec.encode, codec.decode) + away)
    elif codec is not None:
        encode, decode = codec.encode, codec.decode
    return StepTimes(transmission, conversion, setups, encode, decode, static)


def _circuit_steps(schedule: Schedule, fabric: Fabric, *, propagation: bool) -> Floats:
    from lightloom.collectives.cost import _cost_kernels as kernels

    chunks = _chunks(schedule)
    latency = np.zeros(len(schedule))
    if propagation and fabric.diameter_latency() > 0:
        for rows in _blocks(np.arange(len(schedule))):
            latency[rows] = fabric.latency(*schedule.ends(rows))
    result = np.zeros(schedule.steps)
    per_chunk = schedule.chunk_nbytes / fabric.channel_bandwidth
    kernels.slowest(schedule.step, schedule.lightpath, chunks, schedule.wavelength_count, latency, per_chunk, result)
    return result


def _chunks(schedule: Schedule) -> NDArray[np.int64]:
    """Chunks on each lightpath."""
    from lightloom.collectives.cost import _cost_kernels as kernels

    paths = int(schedule.lightpath.max(initial=-1)) + 1
    chunks, first_row = np.zeros(paths, np.int64), np.full(paths, -1, np.int64)
    kernels.lightpath_chunks(schedule.lightpath, schedule.destination, chunks, first_row)
    return chunks


def _blocks(rows: NDArray[np.int64], size: int = _BLOCK) -> list[NDArray[np.int64]]:
    return [rows[begin : begin + size] for begin in range(0, len(rows), size)]


def rows_by_step(schedule: Schedule) -> NDArray[np.int64]:
    """Row numbers in an order in which the steps can run."""
    step = schedule.step
    if schedule.dependencies is not None:
        position = np.empty(schedule.steps, np.int32)
        order = TopologicalSorter(dict(enumerate(steps_before(schedule)))).static_order()
        position[list(order)] = np.arange(schedule.steps)
        step = position[step]
    if np.any(step[1:] < step[:-1]):
        return np.argsort(step, kind="stable")
    return np.arange(len(schedule))


def steps_before(schedule: Schedule) -> list[list[int]]:
    """The steps that each step waits for."""
    if schedule.dependencies is None:
        return [[step - 1] if step else [] for step in range(schedule.steps)]
    before: list[list[int]] = [[] for _ in range(schedule.steps)]
    for after, earlier in np.asarray(schedule.dependencies, dtype=np.int64).reshape(-1, 2).tolist():
        before[after].append(earlier)
    return before


def _packet_steps(schedule: Schedule, fabric: Fabric, known: Invariants | None) -> Floats:
    from lightloom.collectives.cost import _cost_kernels as kernels

    if schedule.folding or schedule.pipeline:
        return slot_seconds(known if isinstance(known, StepLoads) else step_loads(schedule, fabric), schedule)
    per_chunk = schedule.chunk_nbytes / fabric.link_bandwidth()
    seconds, used = np.zeros(fabric.links), np.full(fabric.links, -1, np.int32)
    busy, away = np.zeros(schedule.steps), np.zeros(schedule.steps)
    # A transfer of a group of ranks occupies the links of all sibling groups.
    groups = len(fabric.siblings()[1])
    for rows in _blocks(rows_by_step(schedule), max(_BLOCK // groups, 1)):
        ends = schedule.ends(rows)
        kernels.busiest(rows, schedule.step, fabric.footprint(*ends), per_chunk, seconds, used, busy)
        latency = fabric.latency(*ends)
        if fabric.in_network_reduction:
            # Light runs up and down within one step, so the two delays follow each other.
            latency = np.full(len(rows), fabric.diameter_latency())
        np.maximum.at(away, schedule.step[rows], latency)
    return busy + away


def circuit_changes(schedule: Schedule, fabric: Fabric) -> CircuitChanges:
    """Follow the circuits through the steps: each stays until another needs one of its channels."""
    from lightloom.collectives.cost import _cost_kernels as kernels

    if schedule.queued:
        return CircuitChanges(np.ones(1, np.bool_), True)
    changed = np.zeros(schedule.steps, np.bool_)
    if fabric.setup_time == 0 or not len(schedule):
        return CircuitChanges(changed, True)
    tuned = np.zeros(fabric.links * fabric.channels, np.int64)
    wavelengths = fabric.fibre_channels
    channel = schedule.fibre.astype(np.int32) * np.int32(wavelengths) + schedule.first_wavelength
    used, overwritten = kernels.Channels(schedule.step, channel, schedule.wavelength_count), False
    for rows in _blocks(rows_by_step(schedule)):
        source, destination, route = schedule.ends(rows)
        runs = fabric.footprint(source, destination, route)
        key = ((source * (fabric.ranks + 1) + destination) * 2 + route) * fabric.channels + channel[rows]
        key = key * (fabric.channels + 1) + schedule.wavelength_count[rows] + 1
        overwritten |= kernels.changes(rows, key, used, runs, fabric.channels, tuned, changed)
    if not overwritten:
        # Everything can be set up before the first step: later circuits never take a channel from earlier ones.
        changed[:] = False
        changed[int(schedule.step.min())] = True
    return CircuitChanges(changed, not overwritten)


def _critical_steps(schedule: Schedule, duration: Floats) -> NDArray[np.bool_]:
    """The steps on the longest chain of dependencies."""
    before, end = steps_before(schedule), np.zeros(schedule.steps)
    for step in TopologicalSorter(dict(enumerate(before))).static_order():
        end[step] = max((end[b] for b in before[step]), default=0.0) + duration[step]
    critical = np.zeros(schedule.steps, np.bool_)
    at: int | None = int(np.argmax(end))
    while at is not None:
        critical[at] = True
        at = max(before[at], key=lambda b: float(end[b]), default=None)
    return critical


def _energy(schedule: Schedule, fabric: Fabric, known: Invariants | None) -> float | None:
    if fabric.energy_per_bit is None:
        return None
    if isinstance(known, StepLoads):
        crossings = known.crossings * (1 if schedule.pipeline is None else schedule.pipeline.pieces)
    elif fabric.exclusive:
        crossings = float(_chunks(schedule).sum())
    else:
        crossings = float(sum(fabric.hops(*schedule.ends(rows)).sum() for rows in _blocks(np.arange(len(schedule)))))
    return crossings * fabric.wire_bytes(schedule.chunk_nbytes) * 8 * fabric.energy_per_bit


def circuits_key(schedule: Schedule, fabric: Fabric) -> str:
    """Names the set of circuits that a schedule ever uses: equal keys, equal circuits."""
    schedule = schedule.standing(fabric.fibre_channels) if schedule.queued else schedule
    names = ("source", "destination", "route", "fibre", "first_wavelength", "wavelength_count")
    columns, key = [getattr(schedule, name) for name in names], np.zeros(len(schedule), np.int64)
    for column in columns:
        key = key * (int(column.max(initial=0)) + 1) + column
    _, first = np.unique(key, return_index=True)
    digest = sha256(b"".join(column[first].astype(np.int64).tobytes() for column in columns))
    return digest.hexdigest()[:16]
