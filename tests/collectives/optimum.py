"""Fewest slots in which any schedule whatever carries a small collective, by integer programming.

Time goes in slots, in each of which a link carries one chunk on each of its channels. A chunk sent in slot t is there
from slot t + 1 + lag on, the lag being conversion and propagation. What a transfer brings of a sum is everything of it
that its source then holds; that a contribution may arrive twice, and that wavelengths may change on the way, is
allowed, so that real schedules can only be slower. Where circuits stand, their number is chosen with the schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product
from math import ceil

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from lightloom.collectives.bounds.lower_bound import lower_bound
from lightloom.collectives.collective import ROOTED, Collective, Sizes
from lightloom.machines.fabrics.fabric import CLOCKWISE, Fabric
from lightloom.machines.fabrics.grids import Mesh, Torus
from lightloom.machines.fabrics.switches import CircuitSwitch, PacketSwitch
from lightloom.machines.fabrics.wdm_ring import Ring, WdmRing
from tests.collectives.strategies import two_tiers, wdm_ring

SLOT, BANDWIDTH = 1e-3, 1e9
"""Seconds, and bytes a second of the channel on which a chunk takes them."""


def _ring(ranks: int, wavelengths: int, lag: int, **fields: object) -> WdmRing:
    given: dict[str, object] = {"wavelength_bandwidth": BANDWIDTH, "reconfiguration_time": 0.0}
    return wdm_ring(ranks, wavelengths, **given | {"conversion_time": lag * SLOT} | fields)


def _switch(ranks: int, degree: int, lag: int, setup: float = 0.0) -> CircuitSwitch:
    return CircuitSwitch(
        ranks=ranks, degree=degree, bandwidth=BANDWIDTH, hop_latency=lag * SLOT, reconfiguration_time=setup
    )


STANDING = 1.0
"""Seconds of a set-up that nobody pays twice."""
FABRICS: dict[str, Callable[[int, int], Fabric]] = {
    "ring of one wavelength": lambda n, lag: _ring(n, 1, lag),
    "ring of two wavelengths": lambda n, lag: _ring(n, 2, lag),
    "ring of one that stands": lambda n, lag: _ring(n, 1, lag, reconfiguration_time=STANDING),
    "ring of two that stand": lambda n, lag: _ring(n, 2, lag, reconfiguration_time=STANDING),
    "ring with propagation": lambda n, lag: _ring(n, 1, lag, reconfiguration_time=STANDING, hop_latency=SLOT),
    "ring with taps": lambda n, lag: _ring(n, 1, lag, multicast_taps=n),
    "ring with taps that stands": lambda n, lag: _ring(n, 1, lag, multicast_taps=n, reconfiguration_time=STANDING),
    "ring whose light does not reach": lambda n, lag: _ring(n, 2, lag, lightpath_reach=1),
    "ring with few transceivers": lambda n, lag: _ring(n, 4, lag, transceivers=2, reconfiguration_time=STANDING),
    "one plane": lambda n, lag: _switch(n, 1, lag),
    "two planes": lambda n, lag: _switch(n, 2, lag),
    "one plane that stands": lambda n, lag: _switch(n, 1, lag, STANDING),
    "two planes that stand": lambda n, lag: _switch(n, 2, lag, STANDING),
    "electrical ring": lambda n, lag: Ring(ranks=n, bandwidth=BANDWIDTH, hop_latency=lag * SLOT),
    "mesh": lambda n, lag: Mesh(ranks=n, bandwidth=BANDWIDTH, hop_latency=lag * SLOT),
    "torus": lambda n, lag: Torus(ranks=n, bandwidth=BANDWIDTH, hop_latency=lag * SLOT),
    "switch": lambda n, lag: PacketSwitch(ranks=n, bandwidth=BANDWIDTH, hop_latency=lag * SLOT),
    "two tiers": lambda n, lag: two_tiers(
        ranks=n,
        domain_size=2 - n % 2,
        domain_bandwidth=3 * BANDWIDTH,
        bandwidth=BANDWIDTH,
        taper=2 - n % 2,
        hop_latency=lag * SLOT,
        domain_latency=lag * SLOT,
    ),
}


@dataclass(frozen=True)
class Problem:
    """A collective in chunks of one slot each."""

    fabric: Fabric
    collective: Collective
    pieces: int
    """Chunks of a share, of a block, or of what a root has."""
    standing: bool = False
    """Whether circuits are chosen once."""
    setup: int | None = None
    """Slots of a set-up if, of those that stand, some may be set anew once; their channels are dark for so long."""


@dataclass(frozen=True)
class Send:
    """One way to send a chunk."""

    source: int
    destinations: tuple[int, ...]
    links: tuple[int, ...]
    """Beyond the links of the fabric: what its source sends on, and what its destinations receive on."""
    lag: int


def problem(kind: str, fabric: Fabric, pieces: int = 1, *, standing: bool = False) -> Problem:
    """The collective whose chunks take one slot on a channel."""
    n = fabric.ranks
    shares = {"all-to-all": n, "broadcast": 1, "reduce": 1}.get(kind, n)
    if kind == "all-to-all-v":
        sizes = parts_between(n)
        nbytes = BANDWIDTH * SLOT * pieces * float(sizes.sum()) / n
        return Problem(
            fabric, Collective("all-to-all-v", n, nbytes, sizes=Sizes(sizes.astype(np.float64))), pieces, standing
        )
    if kind == "permute":
        swapped = (1, 0, *reversed(range(2, n)))
        return Problem(fabric, Collective("permute", n, BANDWIDTH * SLOT * pieces * n, swapped), pieces, standing)
    return Problem(fabric, Collective(kind, n, BANDWIDTH * SLOT * pieces * shares), pieces, standing)  # type: ignore[arg-type]


def parts_between(ranks: int) -> NDArray[np.int64]:
    """Slots that the part of each pair of ranks takes, the first rank's most: [source, destination]."""
    source, destination = np.indices((ranks, ranks))
    slots: NDArray[np.int64] = (2 * source + destination) % 3 + (destination == 0)
    return slots


def held_against_the_optimum(asked: Problem) -> float:
    """The lower bound in slots, after proving that no schedule takes fewer whole ones."""
    fabric = asked.fabric
    bound = (lower_bound(asked.collective, fabric).time - fabric.setup_time) / SLOT
    fewer = ceil(bound - 1e-6) - 1
    assert fewer < 1 or not feasible(asked, fewer), f"the bound is {bound} slots, and {fewer} are enough"
    return bound


def fewest_slots(asked: Problem, first: int = 1) -> int:
    """The least number of slots, ``first`` at least, in which everything can arrive."""
    slots = first
    while not feasible(asked, slots):
        slots += 1
    return slots


def sends_of(asked: Problem) -> list[Send]:
    fabric = asked.fabric
    found = []
    for route, a, b in product(range(fabric.routes), range(fabric.ranks), range(fabric.ranks)):
        if a == b:
            continue
        ends = (np.array([a]), np.array([b]), np.array([route]))
        light = fabric.footprint(*ends)
        links = [
            int(light.base[0, run] + (light.start[0, run] + k) % light.period[0, run])
            for run in range(light.base.shape[1])
            for k in range(light.length[0, run])
        ]
        if fabric.reach is not None and len(links) > fabric.reach:
            continue
        lag = (float(fabric.latency(*ends)[0]) + fabric.step_overhead) / SLOT
        assert abs(lag - round(lag)) < 1e-6, "delays must be whole slots"
        ahead = 1 if route == CLOCKWISE else -1
        passed: tuple[int, ...] = (b,)
        if fabric.taps > 1:
            passed = tuple((a + ahead * k) % fabric.ranks for k in range(1, (b - a) * ahead % fabric.ranks + 1))
        if fabric.transmitters is not None:
            links += [fabric.links + a, *(fabric.links + fabric.ranks + each for each in passed)]
        found.append(Send(a, passed, tuple(links), round(lag)))
    return found


def _chunks(asked: Problem) -> Iterator[tuple[list[int], list[int]]]:
    """Of every chunk: whose contributions it is made of, and who must have it."""
    n, kind = asked.fabric.ranks, asked.collective.kind
    everybody = list(range(n))
    if kind in ROOTED:
        each = [([0], everybody) if kind == "broadcast" else (everybody, [0])]
    elif kind in ("gather", "scatter"):
        each = [([a], [0]) if kind == "gather" else ([0], [a]) for a in everybody[1:]]
    elif kind == "permute":
        assert asked.collective.destinations is not None
        each = [([a], [b]) for a, b in enumerate(asked.collective.destinations) if a != b]
    elif kind == "all-to-all-v":
        each = [([a], [b]) for (a, b), slots in np.ndenumerate(parts_between(n)) if a != b for _ in range(slots)]
    elif kind == "all-to-all":
        each = [([a], [b]) for a in everybody for b in everybody if a != b]
    else:
        all_gather, owned = kind == "all-gather", kind == "reduce-scatter"
        each = [([a] if all_gather else everybody, [a] if owned else everybody) for a in everybody]
    for _ in range(asked.pieces):
        yield from each


@dataclass
class _Programme:
    variables: int = 0
    whole: list[int] = field(default_factory=list)
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)
    rows: list[tuple[dict[int, float], float]] = field(default_factory=list)

    def variable(self, low: float = 0.0, high: float = 1.0, *, whole: bool = False) -> int:
        self.low.append(low)
        self.high.append(high)
        self.whole.append(int(whole))
        self.variables += 1
        return self.variables - 1

    def at_most(self, coefficients: dict[int, float], value: float) -> None:
        self.rows.append((coefficients, value))

    def solved(self) -> bool:
        entries = [(r, c, v) for r, (row, _) in enumerate(self.rows) for c, v in row.items()]
        r, c, v = zip(*entries, strict=True)
        matrix = coo_array((v, (r, c)), shape=(len(self.rows), self.variables)).tocsr()
        result = milp(
            np.zeros(self.variables),
            constraints=LinearConstraint(matrix, -np.inf, np.array([value for _, value in self.rows])),
            integrality=np.array(self.whole),
            bounds=Bounds(np.array(self.low), np.array(self.high)),
        )
        assert result.status in (0, 2), result.message
        return bool(result.status == 0)


def feasible(asked: Problem, slots: int) -> bool:
    """Whether everything can arrive within so many slots."""
    programme, sends, fabric = _Programme(), sends_of(asked), asked.fabric
    sent: dict[tuple[int, int], list[int]] = {}
    for chunk in _chunks(asked):
        _carry(programme, sends, chunk, slots, fabric.ranks, sent)
    unit = asked.collective.distinct_nbytes / (asked.pieces * _distinct(asked)) / SLOT
    assert unit == pytest.approx(BANDWIDTH)
    ports = np.full(2 * fabric.ranks, fabric.transmitters or 0)
    capacity = np.concatenate([np.floor(fabric.link_bandwidth() / unit + 1e-9), ports])
    if not asked.standing:
        for t in range(slots):
            for link in range(len(capacity)):
                using = {v: 1.0 for s, each in enumerate(sends) if link in each.links for v in sent.get((t, s), ())}
                if using:
                    programme.at_most(using, capacity[link])
        return programme.solved()
    # Circuits that stand, those that are set anew for others, and these others: the last two take the same channels.
    settings = 1 if asked.setup is None else 3
    circuits = [[programme.variable(high=float(capacity.max()), whole=True) for _ in sends] for _ in range(settings)]
    for link, other in product(range(len(capacity)), range(max(1, settings - 1))):
        groups = (circuits[0], circuits[other + 1]) if settings > 1 else circuits
        using = {group[s]: 1.0 for s, each in enumerate(sends) if link in each.links for group in groups}
        if using:
            programme.at_most(using, capacity[link])
    for (t, s), chosen in sent.items():
        lit = {circuits[0][s]: -1.0}
        if asked.setup is not None and t + asked.setup + 2 + sends[s].lag <= slots:
            lit[circuits[1][s]] = -1.0
        if asked.setup is not None and t > asked.setup:
            lit[circuits[2][s]] = -1.0
        programme.at_most(dict.fromkeys(chosen, 1.0) | lit, 0.0)
    return programme.solved()


def _distinct(asked: Problem) -> int:
    n, kind = asked.fabric.ranks, asked.collective.kind
    if kind == "all-to-all-v":
        return int(parts_between(n).sum())
    return 1 if kind in ROOTED else n * n if kind == "all-to-all" else n


def _carry(
    programme: _Programme,
    sends: list[Send],
    chunk: tuple[list[int], list[int]],
    slots: int,
    ranks: int,
    sent: dict[tuple[int, int], list[int]],
) -> None:
    """Variables of one chunk: who holds what of it when, and when it is sent."""
    contributors, readers = chunk
    summed = len(contributors) > 1
    held = {}
    for t, rank, of in product(range(slots + 1), range(ranks), contributors):
        there = float(rank == of and rank in contributors) if t == 0 else None
        needed = float(t == slots and rank in readers)
        held[t, rank, of] = programme.variable(needed if there is None else there, 1.0 if there is None else there)
    bringing: dict[tuple[int, int, int], list[int]] = {}
    for t, (s, send) in product(range(slots), enumerate(sends)):
        arrival = t + 1 + send.lag
        if arrival > slots:
            continue
        chosen = programme.variable(whole=True)
        sent.setdefault((t, s), []).append(chosen)
        for of in contributors:
            brought = programme.variable() if summed else chosen
            programme.at_most({brought: 1.0, held[t, send.source, of]: -1.0}, 0.0)
            if summed:
                programme.at_most({brought: 1.0, chosen: -1.0}, 0.0)
            for rank in send.destinations:
                bringing.setdefault((arrival, rank, of), []).append(brought)
    for t, rank, of in product(range(1, slots + 1), range(ranks), contributors):
        found = dict.fromkeys(bringing.get((t, rank, of), ()), -1.0)
        programme.at_most(found | {held[t, rank, of]: 1.0, held[t - 1, rank, of]: -1.0}, 0.0)
