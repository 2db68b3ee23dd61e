"""Plain placements, by lists and dictionaries: the forward pass with its repair, and both searches, step by step.

Random numbers come in the order in which the compiled searches draw theirs; NumPy's generator and that of the compiler
are one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from lightloom.planning.parallelism.placement.place import Problem, filled


class Plain:
    """Devices of sub-operators that change, and what follows from them."""

    def __init__(self, problem: Problem, device: Iterable[int]) -> None:
        rows = problem.rows
        self.size, self.devices = problem.balanced.size, problem.devices
        self.order = rows.order.tolist()
        self.forward, self.backward = rows.forward.tolist(), rows.backward.tolist()
        self.memory, self.capacity = rows.memory.tolist(), rows.capacity
        self.allowed = set(rows.offsets.tolist())
        self.before: list[list[tuple[int, float]]] = [[] for _ in range(self.size)]
        self.after: list[list[tuple[int, float]]] = [[] for _ in range(self.size)]
        for x in range(self.size):
            for e in range(rows.before.start[x], rows.before.start[x + 1]):
                self.before[x].append((int(rows.before.node[e]), float(rows.before.delay[e])))
        for x in range(self.size):
            for e in range(rows.after.start[x], rows.after.start[x + 1]):
                self.after[x].append((int(rows.after.node[e]), float(rows.after.delay[e])))
        self.device = list(device)
        self.used, self.free = [0.0] * self.devices, [0.0] * self.devices
        self.end, self.pending, self.moves = [0.0] * self.size, [at >= 0 for at in self.device], 0
        for x, at in enumerate(self.device):
            if at >= 0:
                self.used[at] += self.memory[x]
                self.free[at] += self.forward[x]

    # Reach and room.

    def far(self, x: int, to: int, *, behind: bool = True, ahead: bool = True) -> int:
        """Placed neighbours that ``x`` would not reach from a device, of those before it and of those after it."""
        sources = [(to - self.device[y]) for y, _ in self.before[x] if self.device[y] >= 0] if behind else []
        readers = [(self.device[y] - to) for y, _ in self.after[x] if self.device[y] >= 0] if ahead else []
        return sum(stride % self.devices not in self.allowed for stride in sources + readers)

    def room(self, x: int, to: int) -> bool:
        return bool(self.used[to] + self.memory[x] <= self.capacity)

    def valid(self) -> bool:
        return max(self.used) <= self.capacity and not any(self.far(x, self.device[x]) for x in range(self.size))

    # The forward pass and its repair.

    def forward_pass(self, width: int, earliest_finish: bool, rounds: int) -> bool:
        for step, x in enumerate(self.order):
            inputs = [(y, delay) for y, delay in self.before[x] if delay >= 0]
            home = self.device[max(inputs, key=lambda each: each[1])[0]] if inputs else None

            def arrival(to: int, inputs: list[tuple[int, float]] = inputs) -> float:
                there = [self.end[y] + (delay if self.device[y] != to else 0.0) for y, delay in inputs]
                return max([0.0, *there])

            def preference(to: int, home: int | None = home) -> tuple[float, int, int]:
                begins = max(self.free[to], arrival(to)) if earliest_finish else self.free[to]
                return begins, 0 if home is None else self.stride(home, to), to

            candidates = [to for to in range(width) if self.room(x, to) and not self.far(x, to)]
            repaired = not candidates
            if repaired:
                candidates = [to for to in range(width) if self.room(x, to)] if rounds else []
                if not candidates:
                    return False
                to = min(candidates, key=lambda to: (self.far(x, to), self.free[to], to))
            else:
                to = min(candidates, key=preference)
            self.end[x] = self.free[to] = max(self.free[to], arrival(to)) + self.forward[x]
            self.device[x] = to
            self.used[to] += self.memory[x]
            if repaired:
                self.pending[x] = True
                self.mark_neighbours(x)
                if not self.settle(width, step, rounds):
                    return False
        return True

    def stride(self, a: int, b: int) -> int:
        return min((a - b) % self.devices, (b - a) % self.devices)

    def mark_neighbours(self, x: int) -> None:
        for y, _ in self.before[x] + self.after[x]:
            self.pending[y] = self.pending[y] or self.device[y] >= 0

    def settle(self, width: int, last: int, rounds: int) -> bool:
        """Sweeps towards those after and those before, by turns, until all that is placed reaches its neighbours."""
        placed = self.order[: last + 1]
        for _ in range(rounds):
            for backward in (True, False):
                side = {"behind": not backward, "ahead": backward}
                for x in reversed(placed) if backward else placed:
                    at = self.device[x]
                    if not self.pending[x] or not self.far(x, at, **side):
                        continue
                    choices = [to for to in range(width) if to == at or self.room(x, to)]
                    to = min(choices, key=lambda to: (self.far(x, to, **side), self.stride(to, at), to))
                    if to == at:
                        continue
                    self.used[at] -= self.memory[x]
                    self.free[at] -= self.forward[x]
                    self.free[to] += self.forward[x]
                    self.used[to] += self.memory[x]
                    self.device[x] = to
                    self.moves += 1
                    self.mark_neighbours(x)
                    self.pending[x] = True
                for x in placed:
                    self.pending[x] = self.pending[x] and self.far(x, self.device[x]) > 0
                if not any(self.pending[x] for x in placed):
                    return True
        self.pending = [False] * self.size
        return False

    # Searches.

    def seconds(self) -> float:
        """Both passes: each starts when its device is free and its inputs have arrived."""
        total = []
        for order, inputs, duration in (
            (self.order, self.before, self.forward),
            (self.order[::-1], self.after, self.backward),
        ):
            free, end = [0.0] * self.devices, [0.0] * self.size
            for x in order:
                at = self.device[x]
                for y, delay in inputs[x]:
                    if delay >= 0:
                        free[at] = max(free[at], end[y] + delay if self.device[y] != at else end[y])
                end[x] = free[at] = free[at] + duration[x]
            total.append(max(end))
        return total[0] + total[1]

    def shift(self, x: int, to: int) -> None:
        self.used[self.device[x]] -= self.memory[x]
        self.used[to] += self.memory[x]
        self.device[x] = to

    def anneal(self, steps: int, seed: int) -> float:
        random = np.random.RandomState(seed)
        current = best = self.seconds()
        kept = list(self.device)
        for step in range(steps):
            heat = 0.05 * best * (1.0 - step / steps) ** 2
            moved = self.proposal(random)
            old = [(x, self.device[x]) for x, _ in moved]
            if moved == old:
                continue
            for x, to in moved:
                self.shift(x, to)
            if all(self.used[self.device[x]] <= self.capacity and not self.far(x, self.device[x]) for x, _ in moved):
                seconds = self.seconds()
                if seconds <= current or random.random_sample() < math.exp((current - seconds) / heat):
                    current = seconds
                    if seconds < best:
                        best, kept = seconds, list(self.device)
                    continue
            for x, at in old:
                self.shift(x, at)
        self.device = kept
        return best

    def proposal(self, random: np.random.RandomState) -> list[tuple[int, int]]:
        """A move anywhere, a swap, a move of two neighbours to one device, or a move to a neighbour's."""
        x, kind, to = random.randint(self.size), random.randint(4), random.randint(self.devices)
        if kind == 0:
            return [(x, to)]
        if kind == 1:
            other = random.randint(self.size)
            return [(x, self.device[other]), (other, self.device[x])][: 1 + (other != x)]
        neighbours = self.before[x] if random.randint(2) else self.after[x]
        if not neighbours:
            return [(x, self.device[x])]
        other = neighbours[random.randint(len(neighbours))][0]
        return [(x, to), (other, to)] if kind == 2 else [(x, self.device[other])]

    def reconcile(self, steps: int, seed: int) -> bool:
        random = np.random.RandomState(seed)
        unit = max(float(np.mean(self.memory)), 1e-30)
        for step in range(steps):
            if step % self.size == 0 and self.valid():
                return True
            x, to = random.randint(self.size), random.randint(self.devices)
            at = self.device[x]
            change = float(self.far(x, to) - self.far(x, at))
            if to != at:
                for device, more in ((to, self.memory[x]), (at, -self.memory[x])):
                    over = [max(0.0, used - self.capacity) for used in (self.used[device] + more, self.used[device])]
                    change += over[0] / unit - over[1] / unit
            if change <= 0 or random.random_sample() < math.exp(-4.0 * change):
                self.shift(x, to)
        return self.valid()


def starts(problem: Problem, repair: bool) -> list[tuple[str, list[int], int]]:
    """How each valid start was made, its devices, and how many sub-operators its repair moved."""
    balanced, k = problem.balanced, problem.devices
    clique, span = problem.reach.clique(k), problem.reach.span(k)
    rounds = 8 if repair else 0
    made: list[tuple[str, list[int], int]] = []

    def forward(method: str, width: int, early: bool, rounds: int) -> None:
        plain = Plain(problem, [-1] * balanced.size)
        if plain.forward_pass(width, early, rounds):
            made.append((method, plain.device, plain.moves))

    def settled(method: str, device: list[int], rounds: int) -> None:
        plain = Plain(problem, device)
        if max(plain.used) <= plain.capacity and (plain.valid() or plain.settle(k, balanced.size - 1, rounds)):
            made.append((method, plain.device, plain.moves))

    def blocks(width: int, rounds: int) -> None:
        counts = np.bincount(balanced.operator).tolist()
        device = [part * width // counts[o] for o, part in zip(balanced.operator, balanced.part.tolist(), strict=True)]
        settled(f"blocks on {width}", device, rounds)

    forward("earliest free device", k, False, rounds)
    forward("earliest finish", k, True, rounds)
    blocks(k, rounds)
    for width in sorted({clique, 1} - {k}):
        forward(f"earliest finish on {width}", width, True, 0)
        blocks(width, 0)
    for width in sorted({1, span, k}):
        settled(f"line of {width}", filled(balanced.memory, width)[1].tolist(), rounds)
    return made
