"""The check of placements accepts exactly what loops over all pairs of sub-operators accept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.placement import LINK, random_case

from lightloom.core.errors import VerificationError
from lightloom.planning.parallelism.placement.check import check
from lightloom.planning.parallelism.placement.kernels import iteration_time
from lightloom.planning.parallelism.placement.place import problem_of
from lightloom.planning.parallelism.placement.placement import BalancedGraph, Placement, Reach


def right(placement: Placement, balanced: BalancedGraph, memory: float) -> bool:
    k, device, degree = placement.devices, placement.device.tolist(), placement.reach.degree
    if any(at >= k for at in device) or any(balanced.memory[placement.device == at].sum() > memory for at in range(k)):
        return False
    edges = [
        (int(balanced.parent[e]), x, balanced.nbytes[e] / LINK.bandwidth + LINK.latency)
        for x in range(balanced.size)
        for e in range(balanced.parent_start[x], balanced.parent_start[x + 1])
    ]
    sums = [(x - 1, x) for x in range(balanced.size) if balanced.synchronised[x] > 0]
    for a, b in {(device[y], device[x]) for y, x in [*((y, x) for y, x, _ in edges), *sums]}:
        ahead, behind = (b - a) % k, (a - b) % k
        far = min(ahead, behind) > degree // 2 if placement.reach.rule == "peers" else ahead > degree
        if far and degree < k - 1:
            return False
    last = placement.end.max()
    if placement.backward_start.min() < last or placement.start.min() < 0:
        return False
    for start, end, duration, back in (
        (placement.start, placement.end, balanced.forward, False),
        (placement.backward_start, placement.backward_end, balanced.backward, True),
    ):
        for y, x, seconds in edges:
            before, after = (x, y) if back else (y, x)
            if start[after] < end[before] + (seconds if device[x] != device[y] else 0.0) - 1e-12:
                return False
        for x in range(balanced.size):
            if abs(end[x] - start[x] - duration[x]) > 1e-12:
                return False
            if any(device[x] == device[y] and start[x] < end[y] and start[y] < end[x] for y in range(x)):
                return False
    return bool(placement.makespan == max(last, placement.backward_end.max()))


def test_the_check_accepts_what_loops_over_all_pairs_accept() -> None:
    rng, seen = np.random.default_rng(5), []
    for _ in range(250):
        size, devices = int(rng.integers(2, 9)), int(rng.integers(2, 7))
        balanced = random_case(rng, size, 6).balanced
        # Whole microseconds: what is moved by one never ends within the slack of another.
        forward, backward = rng.integers(1, 4, (2, size)).astype(np.float64) * 1e-6
        synchronised = ((rng.random(size) < 0.2) & (np.arange(size) > 0)).astype(np.float64)
        balanced = replace(balanced, forward=forward, backward=backward, synchronised=synchronised)
        rule = rng.choice(["peers", "forward"])
        reach, device = Reach(int(rng.integers(1, 6)), rule), rng.integers(0, devices, size, np.int32)
        times = np.zeros((4, size))
        makespan = iteration_time(problem_of(balanced, devices, Reach(9), None, LINK).rows, device, times)
        half = times[1].max()
        placement = Placement(
            device=device,
            devices=devices,
            reach=reach if rng.random() < 0.5 else Reach(9),
            link=LINK,
            start=times[0],
            end=times[1],
            backward_start=times[2] + half,
            backward_end=times[3] + half,
            makespan=makespan,
            repaired=0,
            method="drawn",
        )
        held = float(np.bincount(device, balanced.memory).max())
        memory, x = held * rng.choice([1.0, 1.0, 1.0, 1.0, 0.99]), rng.integers(0, size)
        columns = [("start", "end"), ("backward_start", "backward_end"), ("end",), ("start",), ("backward_end",)]
        for name in columns[rng.integers(0, 5)] if rng.random() < 0.6 else ():
            column = getattr(placement, name)
            column[x] += rng.permutation([-1e-6, -0.5e-6, 0.5e-6, 1e-6])[0] if name == "end" else -0.5e-6
        if rng.random() < 0.5:
            last = max(placement.end.max(), placement.backward_end.max())
            placement = replace(placement, makespan=float(last))
        expected = right(placement, balanced, memory)
        seen.append(expected)
        try:
            check(placement, balanced, memory)
        except VerificationError as error:
            assert not expected, str(error)
        else:
            assert expected
    assert 50 < sum(seen) < 200


@pytest.mark.parametrize("seed", range(5))
def test_overlaps_on_a_device_are_found_whatever_others_do_meanwhile(seed: int) -> None:
    """Sub-operators that exchange nothing may run at any time, but two of a device not at once; one that takes no time
    may stand where another begins or ends."""
    rng = np.random.default_rng(seed)
    size, devices = 6, 3
    balanced = random_case(rng, size, devices).balanced
    forward, backward = rng.integers(0, 4, (2, size)).astype(np.float64)
    alone = replace(
        balanced,
        forward=forward,
        backward=backward,
        synchronised=np.zeros(size),
        parent_start=np.zeros(size + 1, np.int64),
        **{name: getattr(balanced, name)[:0] for name in ("parent", "nbytes", "content")},
    )
    device, seen = rng.integers(0, devices, size, np.int32), set()
    for _ in range(40):
        start, later = rng.integers(0, 12, (2, size)).astype(np.float64)
        if rng.random() < 0.5:
            start = np.cumsum(forward) - forward
        else:
            later = np.cumsum(backward) - backward
        end = start + forward
        later += end.max()
        placement = Placement(
            device=device,
            devices=devices,
            reach=Reach(9),
            link=LINK,
            start=start,
            end=end,
            backward_start=later,
            backward_end=later + backward,
            makespan=float((later + backward).max()),
            repaired=0,
            method="drawn",
        )
        expected = right(placement, alone, np.inf)
        seen.add(expected)
        try:
            check(placement, alone)
        except VerificationError as error:
            assert not expected and "overlap on device" in str(error)
        else:
            assert expected
    assert seen == {True, False}


def test_a_placement_of_nothing_is_right() -> None:
    nothing = np.zeros(0)
    balanced = random_case(np.random.default_rng(0), 3, 3).balanced
    empty = replace(
        balanced,
        first=np.zeros(1, np.int64),
        **{name: getattr(balanced, name)[:0] for name in ("operator", "part", "forward", "backward", "parameters")},
        **{name: getattr(balanced, name)[:0] for name in ("memory", "synchronised", "parent", "nbytes", "content")},
        parent_start=np.zeros(1, np.int64),
    )
    placement = Placement(
        device=np.zeros(0, np.int32),
        devices=3,
        reach=Reach(2),
        link=LINK,
        start=nothing,
        end=nothing,
        backward_start=nothing,
        backward_end=nothing,
        makespan=0.0,
        repaired=0,
        method="drawn",
    )
    check(placement, empty, 1.0)
    with pytest.raises(VerificationError, match="the makespan is"):
        check(replace(placement, makespan=1.0), empty)
