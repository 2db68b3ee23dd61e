"""What the steps of a schedule carry on a fabric, in chunks: all that its cost takes from its rows, whatever its size.

Schedules among a thousand ranks have millions of rows. Their loads have a few entries for each step, so that one pass
over the rows prices every size.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from lightloom.collectives.cost.busiest import busiest_links
from lightloom.collectives.cost.circuits import CircuitChanges, circuit_changes
from lightloom.collectives.cost.order import BLOCK, blocks, distinct_ends, ends_in_copies
from lightloom.collectives.cost.pipelined import PipelinedLoads, pipelined_loads
from lightloom.collectives.cost.price import CostModel
from lightloom.collectives.cost.uneven import UnevenLoads, uneven_loads, uneven_sends
from lightloom.collectives.schedule.columns import Pipeline, Schedule
from lightloom.collectives.spec import Collective
from lightloom.core.arrays import Column, Floats, Int32s, Ints
from lightloom.core.errors import ConfigError
from lightloom.fabrics.base import Fabric
from lightloom.fabrics.footprint import links_of


@dataclass(frozen=True, slots=True)
class CircuitLoads:
    """Sends over circuits that may be the slowest of their steps: arrays [send]."""

    step: Int32s
    chunks: Ints | Floats
    """Chunks on the lightpath, in mean chunks where they differ in size."""
    width: Ints
    """Channels of the lightpath."""
    latency: Floats
    """Seconds of the longest way of such a send; 0 where the model leaves propagation out."""

    def seconds(self, steps: int, chunk_nbytes: float, fabric: Fabric) -> Floats:
        """Seconds of the slowest lightpath of each step: [steps]."""
        slowest = np.zeros(steps)
        per_chunk = chunk_nbytes / fabric.channel_bandwidth
        np.maximum.at(slowest, self.step, self.chunks * per_chunk / self.width + self.latency)
        return slowest


class LinkLoads(NamedTuple):
    """Chunks that steps load on links, by step: arrays [use]."""

    step: Ints
    link: Ints
    chunks: Ints


@dataclass(frozen=True, slots=True)
class PacketLoads:
    """Chunks on the busiest links of each step, of links of equal bandwidth."""

    link_class: Ints
    """Class of each link, by its bandwidth: [link]."""
    first_link: Ints
    """A link of each class: [class]."""
    chunks: Ints
    """Most chunks that a link of a class carries in a step: [class, step]."""
    latency: Floats
    """Seconds of the longest way in each step: [step]."""
    by_link: LinkLoads | None = None
    """All links that steps load, where some steps run at once and share them; else None."""

    def seconds(self, steps: int, chunk_nbytes: float, fabric: Fabric) -> Floats:
        """Seconds of the busiest link of each step and of the longest way: [steps].

        Raises:
            ConfigError: links that were of equal bandwidth are not when packets are smaller.
        """
        bandwidth = fabric.link_bandwidth()
        if (bandwidth != bandwidth[self.first_link][self.link_class]).any():
            raise ConfigError(f"{fabric.kind_name}: with_smaller_packets tells links of equal bandwidth apart")
        busiest = np.zeros(steps)
        for most, per_chunk in zip(self.chunks, chunk_nbytes / bandwidth[self.first_link], strict=True):
            # Chunk after chunk, as links add them up: products would be rounded in another way.
            seconds = np.zeros(int(most.max(initial=0)) + 1)
            np.cumsum(np.full(len(seconds) - 1, per_chunk), out=seconds[1:])
            np.maximum(busiest, seconds[most], out=busiest)
        return busiest + self.latency


Transfers = CircuitLoads | PacketLoads | PipelinedLoads | UnevenLoads


@dataclass(frozen=True, slots=True)
class StepLoads:
    """What the steps of a schedule carry on a fabric, and what orders them."""

    model: CostModel
    collective: Collective
    chunks: int
    steps: int
    dependencies: Column | None
    """As a schedule has them."""
    pipeline: Pipeline | None
    """As a schedule has it."""
    transfers: Transfers
    changes: CircuitChanges | None
    """Steps that change circuits; None where the model or the fabric charges none of them, or all."""
    crossings: float
    """Chunks of one piece that are sent, each once for every lightpath, on packet fabrics for every link that it
    crosses."""

    @property
    def chunk_nbytes(self) -> float:
        """Bytes of one chunk."""
        return self.collective.distinct_nbytes / self.chunks

    @property
    def pieces(self) -> int:
        """Pieces of a pipeline that follow each other; 1 of every other schedule."""
        return 1 if self.pipeline is None else self.pipeline.pieces

    def transmission(self, fabric: Fabric) -> Floats:
        """Seconds of bits on links and of propagation in each step, on this fabric or on it with smaller packets."""
        if isinstance(self.transfers, PipelinedLoads):
            return self.transfers.seconds(self.steps, self.chunk_nbytes, self.pipeline)
        if isinstance(self.transfers, UnevenLoads):
            return self.transfers.seconds(self.chunk_nbytes)
        return self.transfers.seconds(self.steps, self.chunk_nbytes, fabric)

    def at_size(self, nbytes: float, fabric: Fabric) -> StepLoads:
        """The same movement of ``nbytes``, a pipeline in the pieces and at the interval that take the least time."""
        sized = replace(self, collective=self.collective.resized(nbytes))
        if not isinstance(self.transfers, PipelinedLoads) or self.pipeline is None:
            return sized
        options = [sized._as(pipeline) for pipeline in self.transfers.pipelines(self.chunks // self.pieces)]
        return min(options, key=lambda option: float(option.transmission(fabric).sum()))

    def _as(self, pipeline: Pipeline) -> StepLoads:
        assert self.pipeline is not None
        return replace(
            self,
            chunks=self.chunks // self.pieces * pipeline.pieces,
            steps=self.steps - self.pipeline.delay + pipeline.delay,
            pipeline=pipeline,
        )


def at_size(schedule: Schedule, nbytes: float, loads: StepLoads, fabric: Fabric) -> Schedule:
    """The schedule of these loads with ``nbytes``, a pipeline as :meth:`StepLoads.at_size` has it."""
    schedule, pipeline = schedule.resized(nbytes), loads.at_size(nbytes, fabric).pipeline
    return schedule if pipeline is None else schedule.in_pieces(pipeline.pieces, pipeline.interval)


def step_loads(schedule: Schedule, fabric: Fabric, model: CostModel = "physical") -> StepLoads:
    """The loads of a schedule of steps."""
    if not fabric.exclusive:
        schedule = schedule.of_single_chunks()
    transfers, changes, crossings = _transfers(schedule, fabric, model), None, 0.0
    if fabric.exclusive and model == "physical":
        changes = circuit_changes(schedule, fabric)
    if fabric.energy_per_bit is not None:
        crossings = _crossings(schedule, fabric, transfers)
    return StepLoads(
        model=model,
        collective=schedule.collective,
        chunks=schedule.chunks,
        steps=schedule.steps,
        dependencies=schedule.dependencies,
        pipeline=schedule.pipeline,
        transfers=transfers,
        changes=changes,
        crossings=crossings,
    )


def _transfers(schedule: Schedule, fabric: Fabric, model: CostModel) -> Transfers:
    if fabric.exclusive:
        return _circuit_loads(schedule, fabric, model)
    if (weights := schedule.weights) is not None:
        return uneven_loads(schedule, fabric, weights)
    if schedule.pipeline is not None:
        return pipelined_loads(schedule, fabric)
    return _packet_loads(schedule, fabric)


def _crossings(schedule: Schedule, fabric: Fabric, transfers: Transfers) -> float:
    if isinstance(transfers, PipelinedLoads):
        return transfers.crossings
    weights = schedule.weights
    if isinstance(transfers, CircuitLoads):
        if weights is not None:
            return float(weights.sum())
        return float(_chunks(schedule).sum()) * (1 if schedule.folding is None else schedule.folding.copies)
    if weights is not None:
        return float(weights @ fabric.hops(*schedule.ends(slice(None))))
    rows, number = distinct_ends(schedule)
    like = np.bincount(number, minlength=len(rows))
    return float(sum((fabric.hops(*ends) * like[place]).sum() for place, ends in ends_in_copies(schedule, rows)))


def _circuit_loads(schedule: Schedule, fabric: Fabric, model: CostModel) -> CircuitLoads:
    from lightloom.collectives.cost import _cost_kernels as kernels

    rows, number = distinct_ends(schedule)
    latency = np.zeros(len(rows))
    if model == "physical" and fabric.diameter_latency() > 0:
        for place, ends in ends_in_copies(schedule, rows):
            np.maximum.at(latency, place, fabric.latency(*ends))
    latency = latency[number]
    if (weights := schedule.weights) is not None:
        return CircuitLoads(*uneven_sends(schedule, weights, latency))
    sent = kernels.SentRows(schedule.step, schedule.lightpath, schedule.wavelength_count, latency)
    return CircuitLoads(*kernels.distinct_sends(sent, _chunks(schedule), schedule.steps))


def _packet_loads(schedule: Schedule, fabric: Fabric) -> PacketLoads:
    _, first_link, link_class = np.unique(fabric.link_bandwidth(), return_index=True, return_inverse=True)
    most, latency = busiest_links(schedule, fabric, link_class)
    by_link = None if schedule.dependencies is None else _link_loads(schedule, fabric)
    return PacketLoads(link_class, first_link, most, latency, by_link)


def _link_loads(schedule: Schedule, fabric: Fabric) -> LinkLoads:
    """Chunks of each step on each link that it uses."""
    cells = []
    for rows in blocks(np.arange(len(schedule)), max(BLOCK // len(fabric.siblings()[1]), 1)):
        row, link = links_of(fabric.footprint(*schedule.ends(rows)))
        cells.append(np.stack(np.unique(schedule.step[rows][row] * np.int64(fabric.links) + link, return_counts=True)))
    cell, chunks = np.concatenate(cells, axis=1)
    used, place = np.unique(cell, return_inverse=True)
    step, link = np.divmod(used, fabric.links)
    return LinkLoads(step, link, np.bincount(place, weights=chunks).astype(np.int64))


def _chunks(schedule: Schedule) -> Ints:
    """Chunks on each lightpath."""
    from lightloom.collectives.cost import _cost_kernels as kernels

    paths = int(schedule.lightpath.max()) + 1
    chunks, first_row = np.zeros(paths, np.int64), np.full(paths, -1, np.int64)
    kernels.lightpath_chunks(schedule.lightpath, schedule.destination, schedule.carried, chunks, first_row)
    return chunks
