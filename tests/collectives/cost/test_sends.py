"""Chunks on lightpaths and the distinct sends of each step: as plain loops over the rows say."""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.collectives.cost.loads import circuit_sends, lightpath_chunks


class Rows(SimpleNamespace):
    """The columns of a schedule that its sends take."""

    def __len__(self) -> int:
        return len(self.lightpath)


@given(st.integers(0, 2**32 - 1), st.booleans())
@settings(deadline=None, max_examples=60)
def test_a_lightpath_sends_what_goes_to_its_first_destination_and_takes_its_longest_way(seed: int, even: bool) -> None:
    """Step and width are those of its first row; lightpaths that no row names are left out. Equal sends are one."""
    rng = np.random.default_rng(seed)
    rows, numbers = int(rng.integers(1, 30)), 2 * rng.permutation(6)[: rng.integers(1, 7)]
    schedule: Any = Rows(
        steps=3,
        lightpath=rng.choice(numbers, rows).astype(np.int32),
        destination=rng.integers(0, 3, rows),
        step=rng.integers(0, 3, rows).astype(np.int32),
        wavelength_count=rng.integers(1, 3, rows).astype(np.int16),
        carried=rng.integers(1, 3, rows).astype(np.int32),
        weights=None if even else rng.random(rows),
    )
    sizes, latency = schedule.carried if even else schedule.weights, rng.random(rows)
    sends, chunks = [], []
    for path in sorted(set(schedule.lightpath.tolist())):
        own = [row for row in range(rows) if schedule.lightpath[row] == path]
        chunks.append(sum(sizes[row] for row in own if schedule.destination[row] == schedule.destination[own[0]]))
        width = schedule.wavelength_count[own[0]]
        sends.append(((schedule.step[own[0]], chunks[-1], width), max(latency[row] for row in own)))
    assert lightpath_chunks(schedule)[2].tolist() == pytest.approx(chunks)
    longest: dict[tuple[float, ...], float] = defaultdict(float)
    for number, (send, seconds) in enumerate(sends):
        key = send if even else (*send, number)
        longest[key] = max(longest[key], seconds)
    loads = circuit_sends(schedule, latency)
    found = zip(loads.step, loads.chunks, loads.width, loads.latency, strict=True)
    expected = sorted((*send[:3], seconds) for send, seconds in longest.items())
    assert sorted(found) == [pytest.approx(send) for send in expected]
