"""A placed step while it runs: its events, hold by hold, and when hops that ran into the dark have sent."""

from __future__ import annotations

import numpy as np

from lightloom.core.arrays import Floats, Ints
from lightloom.parallelism.circuits.circuits import Timing
from lightloom.simulation.placed_state import State
from lightloom.simulation.placed_timeline import Stretches
from lightloom.simulation.placed_work import PlacedWork


class PlacedRun:
    """The state of the events, and the stretches in which hops that ran into the dark have sent."""

    def __init__(self, work: PlacedWork, devices: int, pipes: int) -> None:
        from lightloom.simulation import _placed_kernels as kernels

        nodes, size, resources = work.nodes, len(work.waits), work.resources
        most = np.bincount(nodes.resource[nodes.resource >= 0], minlength=resources)
        first_row = np.concatenate(([0], np.cumsum(np.concatenate([most, [size, resources, pipes]]))))
        self.work, self._devices, self._pipes, self._now = work, devices, pipes, 0.0
        self.dark: list[tuple[float, float]] = []
        self._stretches: list[tuple[Ints, Floats, Floats]] = []
        self.state = State(
            waits=work.waits.copy(),
            **{name: np.full(size, np.nan) for name in ("ready", "start", "piece", "end")},
            key=np.empty(int(first_row[-1])),
            item=np.empty(int(first_row[-1]), np.int32),
            first_row=first_row,
            head=np.zeros(resources + 3, np.int64),
            size=np.zeros(resources + 3, np.int64),
            current=np.full(resources, -1, np.int32),
            remaining=np.zeros(resources),
            listed=np.zeros(resources, np.bool_),
            busy=np.zeros(len(work.ports.first) - 1, np.bool_),
            idle=np.empty(resources, np.int32),
            counts=np.zeros(4, np.int64),
            totals=np.zeros(6),
            stack=np.empty(size, np.int32),
        )
        kernels.begin(nodes, self.state, devices)

    def advance(self, until: float, rate: Floats, *, dark: bool = False) -> bool:
        """Run to ``until``; True when all is done."""
        from lightloom.simulation import _placed_kernels as kernels

        # Holds are counted from time 0, so that rounding may put the end of one behind the start of the next.
        until, rate = max(until, self._now), np.ascontiguousarray(rate)
        nodes, ports = self.work.nodes, self.work.ports
        done: bool = kernels.advance(nodes, ports, self.state, self._devices, (self._now, until), rate, dark)
        self._now = until
        if until < np.inf:
            node = self.state.current[self._devices :]
            node = node[node >= 0]
            node = node[(rate[self.work.nodes.pipe[node]] > 0) & (self.state.piece[node] < until)]
            self._stretches.append((node.astype(np.int64), self.state.piece[node], np.full(len(node), until)))
        elif not done:
            raise AssertionError("a placed step waits for itself")
        return done

    def reconfigure(self, start: float, timing: Timing) -> bool:
        """Run through the dark that begins at ``start``."""
        if not timing.reconfiguration:
            return False
        until = start + timing.reconfiguration
        self.dark.append((start, until))
        return self.advance(until, np.zeros(self._pipes), dark=True)

    @property
    def sent(self) -> Floats:
        """Bytes [pipe] of the whole step."""
        nodes = self.work.nodes
        hops = nodes.pipe >= 0
        return np.bincount(nodes.pipe[hops], nodes.amount[hops], self._pipes).astype(np.float64)

    @property
    def waiting(self) -> Floats:
        """Bytes [pipe] queued or partly sent."""
        state, nodes, nbytes = self.state, self.work.nodes, np.zeros(self._pipes)
        for pipe in self._devices + np.flatnonzero(state.size[self._devices : self.work.resources]):
            first = state.first_row[pipe] + state.head[pipe]
            queued = state.item[first : first + state.size[pipe]]
            np.add.at(nbytes, nodes.pipe[queued], nodes.amount[queued])
        sending = self._devices + np.flatnonzero(state.current[self._devices :] >= 0)
        np.add.at(nbytes, nodes.pipe[state.current[sending]], state.remaining[sending])
        return nbytes

    @property
    def stretches(self) -> Stretches:
        """All stretches in which hops sent, those of the last part of each included."""
        nodes, state = self.work.nodes, self.state
        hops = np.flatnonzero(nodes.pipe >= 0)
        sent = hops[state.end[hops] > state.piece[hops]]
        last = (sent, state.piece[sent], state.end[sent])
        return Stretches(*(np.concatenate(column) for column in zip(*self._stretches, last, strict=True)))

    def dark_until(self, end: float) -> Floats:
        """Beginning and end of what is dark before a time: [reconfigurations, 2]."""
        dark = np.array(self.dark).reshape(-1, 2)
        before: Floats = np.minimum(dark[dark[:, 0] < end], end)
        return before
