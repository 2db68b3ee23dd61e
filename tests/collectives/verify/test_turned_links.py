"""Copies of a folded queued schedule use links alike: what is said of ways drawn at random is what their table says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from lightloom.collectives.schedule.columns import Folding
from lightloom.collectives.verify import checks, verifier
from lightloom.core.arrays import Floats, Ints
from lightloom.core.errors import VerificationError

COPIES, GROUPS = 4, 3


@dataclass
class Ways:
    """A fabric of which only the ways of four ranks are known: transfer t goes from rank c to rank c + t + 1."""

    links: Ints
    """[copy, transfer, place], or -1 behind the last."""
    seconds: Floats
    """[copy, transfer]"""
    rates: Floats
    latencies: Floats
    """[link]"""
    groups: int = 1

    def siblings(self) -> tuple[None, list[int]]:
        return None, [0] * self.groups

    def _at(self, source: Ints, destination: Ints) -> tuple[Ints, Ints]:
        return source, (destination - source) % COPIES - 1

    def path(self, source: Ints, destination: Ints, route: Ints) -> Ints:
        assert len(route) == len(source)
        return self.links[self._at(source, destination)]

    def latency(self, source: Ints, destination: Ints, route: Ints) -> Floats:
        return self.seconds[self._at(source, destination)]

    def link_bandwidth(self) -> Floats:
        return self.rates

    def link_latency(self) -> Floats:
        return self.latencies


def ways(rng: np.random.Generator) -> Ways:
    """Ways that turn as they should, or that differ from such in one number."""
    name = rng.permutation(COPIES * GROUPS)
    group, offset = rng.integers(0, GROUPS, (3, 2)), rng.integers(0, COPIES, (3, 2))
    pace = rng.choice([1, 1, 1, 2, 3], GROUPS)
    copy = np.arange(COPIES)[:, None, None]
    links = name[group * COPIES + (offset + copy * pace[group]) % COPIES]
    links[:, rng.integers(0, 3), 1] = -1
    rates, latencies = np.empty((2, COPIES * GROUPS))
    for values in (rates, latencies):
        values[name] = np.repeat(rng.integers(1, 3, GROUPS), COPIES)
    result = Ways(links, np.tile(rng.integers(1, 4, 3) * 1e-6, (COPIES, 1)), rates, latencies)
    change = rng.integers(0, 8)
    at = rng.integers(0, COPIES), rng.integers(0, 3), rng.integers(0, 2)
    if change < 3:
        links[at] = rng.integers(-1, COPIES * GROUPS)
    elif change < 5:
        (rates, latencies)[change - 3][rng.integers(0, COPIES * GROUPS)] = 5
    elif change == 5:
        result.seconds[at[:2]] += 1e-7
    return result


def verdict(ways: Ways, at_once: int) -> str:
    """What is wrong with some ways, looked at so many copies at a time, and in which copy; nothing if they turn."""
    links, own = ways.links, ways.links[0]
    images: dict[int, list[int]] = {int(link): [-1] * COPIES for link in own[own >= 0]}
    for begin in range(0, COPIES, at_once):
        block = range(begin, min(begin + at_once, COPIES))
        for copy in block:
            same = ((links[copy] < 0) == (own < 0)).all()
            if not same or not np.allclose(ways.seconds[copy], ways.seconds[0], rtol=1e-9, atol=0):
                return f"copy {copy} of the rows takes other ways"
        for copy in block:
            turned: dict[int, set[int]] = {}
            for link, image in zip(own[own >= 0].tolist(), links[copy][own >= 0].tolist(), strict=True):
                turned.setdefault(link, set()).add(image)
                images[link][copy] = image
            if any(len(image) > 1 for image in turned.values()):
                return f"copy {copy} of the rows takes other ways"
    for values in (ways.rates, ways.latencies):
        if any(values[image] != values[link] for link, orbit in images.items() for image in orbit):
            return "not equally fast"
    orbits = {frozenset(orbit) for orbit in images.values()}
    if any(len(orbit) < COPIES for orbit in orbits) or len(frozenset().union(*orbits)) < COPIES * len(orbits):
        return "meet on a link"
    return ""


@pytest.mark.parametrize("at_once", [1, 3, COPIES])
def test_links_turn_into_links_of_their_own(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr(checks, "COPIES_AT_ONCE", 3 * at_once)
    rng, seen = np.random.default_rng(at_once), set()
    schedule: Any = Turned()
    for _ in range(400):
        fabric: Any = ways(rng)
        expected = verdict(fabric, at_once)
        seen.add(expected.split(" ")[-1])
        try:
            verifier._check_rotation(schedule, fabric, np.arange(3))
        except VerificationError as error:
            assert expected and expected in str(error), (expected, str(error))
        else:
            assert not expected
    assert seen == {"", "ways", "fast", "link"}


class Turned:
    """A schedule of three transfers of rank 0, which all ranks repeat."""

    queued = False
    folding: Folding | None = Folding.alike(COPIES, 1)

    def ends(self, rows: Ints) -> tuple[Ints, Ints, Ints]:
        return np.zeros_like(rows), rows + 1, np.zeros_like(rows)


def test_only_copies_of_one_group_are_turned() -> None:
    """What is not folded has no copies, and groups beside each other use links by turns."""
    schedule: Any = Turned()
    fabric: Any = ways(np.random.default_rng(0))
    fabric.seconds[2] *= 2
    with pytest.raises(VerificationError, match="copy 2 of the rows"):
        verifier._check_rotation(schedule, fabric, np.arange(3))
    fabric.groups = 2
    verifier._check_rotation(schedule, fabric, np.arange(3))
    fabric.groups, schedule.folding = 1, None
    verifier._check_rotation(schedule, fabric, np.arange(3))
