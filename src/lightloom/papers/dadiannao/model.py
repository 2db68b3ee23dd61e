"""Fig. 5's 27 cases under a choice of bandwidths and constants, and the percentages that follow.

    E ∝ p · (7.96 W · C + 4 · PHY power · M)        EDP = E · (C + M)

The chips p, the computation C and the communication M are those of
:mod:`lightloom.planning.pricing.broadcast_step`. Its R is how often the chips work through the forward pass for each
pass of broadcasts, times what a multiplier idles; the paper does not say (three passes to two broadcasts would be 1.5).
β stands for time that grows with the synapses that every chip holds after a broadcast. Both are fitted to the
headlines.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import combinations, product
from math import ceil, log2, sqrt
from statistics import fmean
from typing import Literal, get_args

import numpy as np

from lightloom.collectives.bounds.lower_bound import lower_bound
from lightloom.collectives.collective import Collective
from lightloom.collectives.cost.stepped import cost
from lightloom.collectives.registry import build, find
from lightloom.collectives.schedule.columns import Schedule
from lightloom.core.claims import Claim
from lightloom.core.errors import UnsupportedError
from lightloom.machines.accelerators.dadiannao import DaDianNao, load_dadiannao
from lightloom.machines.clusters.cluster import Rack
from lightloom.machines.fabrics.grids import Mesh
from lightloom.papers.dadiannao import BATCHES, HEADLINE, LINKS, PAPER
from lightloom.papers.dadiannao.networks import printed
from lightloom.planning.pricing.broadcast_step import (
    BroadcastStep,
    ChipLink,
    Constants,
    Hops,
    Moved,
    Network,
    broadcast_step,
    broadcast_time,
    chips_needed,
    mesh_hops,
)

Quantity = Literal["time", "edp"]


def literal_hops(chips: int) -> float:
    """Return the latencies of a broadcast as Eq. 3 reads in the paper's text, where the radical sign is lost: 2 (p − 1)
    for p ``chips``."""
    return 2 * (chips - 1)


def ring_hops(chips: int) -> float:
    """Return the latencies of a broadcast among p ``chips`` in one ring, p − 1."""
    return chips - 1


def tree_hops(chips: int) -> float:
    """Return ceil(log2 p), as few latencies as a broadcast among p ``chips`` can take if any two are neighbours, which
    needs a switch."""
    return ceil(log2(chips))


def link_of(chip: DaDianNao, name: str) -> ChipLink:
    """Return one of the chip's kinds of links, by name such as ``100-O``: bytes per second of one direction, seconds of
    latency and watts of a PHY (None if unknown), with the latencies of a broadcast on a square mesh.

    Raises:
        UnknownNameError: the chip has no such links.
    """
    link = chip.link(name)
    return ChipLink(link.bandwidth, link.latency, link.phy_power)


def check_rack(network: Network, batch: int, chip: DaDianNao, rack: Rack | None = None) -> int:
    """Return the least number of chips whose eDRAM together holds all synapses of a network and the neurons of a batch,
    if one rack has that many.

    Args:
        network: sizes and counts for one sample.
        batch: number of samples, from 1.
        chip: its eDRAM is what a chip holds.
        rack: chips of a rack; None takes the paper's rack.

    Raises:
        UnsupportedError: the rack has fewer chips; the message names the blades that the chips need, and the number of
            racks, the largest batch (where one sample fits) or the eDRAM a chip that would do.
        ConfigError: the batch is below one.
    """
    rack = rack or Rack()
    chips = chips_needed(network, batch, chip.edram)
    largest = int((rack.chips * chip.edram - network.synapses) // network.neurons)
    memory = network.held_bytes(batch) / rack.chips
    smaller = f"a batch of at most {largest}" if largest >= 1 else ""
    larger = f"{ceil(memory / 2**20)} MiB of eDRAM a chip instead of {chip.edram / 2**20:g}"
    try:
        rack.check(chips, ", or ".join(filter(None, (smaller, larger))))
    except UnsupportedError as error:
        raise UnsupportedError(f"{network.name} at batch {batch}: {error}") from None
    return chips


@dataclass(frozen=True)
class Step(BroadcastStep):
    """Seconds and joules of a step of a network on a mesh of chips."""

    link: ChipLink
    chip: DaDianNao

    @property
    def time(self) -> float:
        """Seconds of the step: computation plus communication, which do not overlap."""
        return self.step_time

    @property
    def energy(self) -> float | None:
        """Joules of all chips together: each at its peak power while it computes, its PHYs (:attr:`DaDianNao.phys` a
        chip) at theirs while the chips communicate (section 4.2); None where the PHYs' power is unknown."""
        if self.link.phy_power is None:
            return None
        sending = self.chip.phys * self.link.phy_power * self.communication_time
        return self.chips * (self.chip.power * self.computation + sending)

    @property
    def edp(self) -> float | None:
        """Energy-delay product in joule seconds: :attr:`energy` times :attr:`time`; None where the energy is None."""
        return None if (energy := self.energy) is None else energy * self.time


# The 27 cases of Fig. 5.

Case = tuple[str, int]
"""A network and a batch size."""
Figures = Mapping[Case, float]

FITTED_TO_TIMES = Constants(passes=9.87, synapse=0.040)
"""Both constants fitted to the six headlines of time alone, so that the four of the energy-delay product are
predicted."""
PEAK = Constants(passes=1.5)
"""Nothing fitted: three passes of arithmetic at the peak rate for two of broadcasts."""

Bandwidths = tuple[float, float, float]
"""Bandwidths of 25-E, 100-O and 400-O in Eq. 3, in bytes per second."""
MIXED: Bandwidths = (6.4e9, 12.5e9, 50e9)
"""Both directions for the electrical links, one for the optical ones: what the headlines need."""
ONE_DIRECTION: Bandwidths = (3.2e9, 12.5e9, 50e9)
"""Bandwidths of one direction throughout."""
BOTH_DIRECTIONS: Bandwidths = (6.4e9, 25e9, 100e9)
"""Bandwidths of both directions together, as Table 1 prints them."""
UNITS = (MIXED, ONE_DIRECTION, BOTH_DIRECTIONS)


@cache
def chip() -> DaDianNao:
    """Return the chip of Table 1, from the catalog."""
    return load_dadiannao()


def links(bandwidths: Bandwidths, hops: Hops = mesh_hops) -> dict[str, ChipLink]:
    """Return the three kinds of links of Fig. 5 by name (``25-E``, ``100-O``, ``400-O``), with these bandwidths, in
    this order and in bytes per second, and the latencies and PHY powers of Table 1; ``hops`` gives the latencies of a
    broadcast by the number of chips."""
    named = zip(LINKS, bandwidths, strict=True)
    return {name: link_of(chip(), name)._replace(bandwidth=bandwidth, hops=hops) for name, bandwidth in named}


def strategy(name: str, batch: int) -> Moved:
    """Return the parallelism, ``data`` or ``model``, that section 5 chooses for a network (its name in Table 2) and
    batch: model parallelism for AlexNet at batch 1 and 32, else data parallelism."""
    return "model" if name == "AlexNet" and batch < BATCHES[-1] else "data"


def run(network: Network, batch: int, link: ChipLink, constants: Constants, parallel: Moved | None = None) -> Step:
    """Return the step of one case on one kind of link, on the fewest chips of Table 1 whose eDRAM holds the network and
    batch; a rack does not limit their number.

    Args:
        network: sizes and counts, with its name in Table 2.
        batch: number of samples.
        link: links between the chips.
        constants: R and β of the computation.
        parallel: "data" or "model" parallelism; None takes that of section 5.
    """
    chosen, chips = parallel or strategy(network.name, batch), chips_needed(network, batch, chip().edram)
    found = broadcast_step(network, batch, chips, chip().product_rate, link, chosen, constants)
    return Step(found.chips, found.computation, found.communication_time, link, chip())


def saved(quantity: Quantity, link: ChipLink, base: ChipLink, constants: Constants) -> Figures:
    """Return the percentage of time or of EDP that ``link`` saves over ``base`` by case, (network, batch), for all 27
    of them, 100 (1 − new / old), negative where it takes more; sizes are those printed in Table 2, ``constants`` are R
    and β.

    Raises:
        ValueError: a link has no PHY power, which ``edp`` needs.
    """
    figures = {}
    for (name, network), batch in product(printed().items(), BATCHES):
        new, old = (getattr(run(network, batch, each, constants), quantity) for each in (link, base))
        if new is None or not old:
            raise ValueError(f"{name}, batch {batch}: nothing to compare without PHY powers")
        figures[name, batch] = 100 * (1 - new / old)
    return figures


Savings = Mapping[tuple[str, str], Figures]
"""Percentages saved in each case, by quantity, ``time`` or ``edp``, and Gb/s, ``100`` or ``400``."""


def headlines(percentages: Savings) -> dict[str, float]:
    """Return the ten percentages by the names of :data:`~lightloom.papers.dadiannao.HEADLINE`, such as
    ``time_best_400``, ``edp_average_100`` and ``time_batch256_400``, from those saved by quantity and Gb/s and then by
    case, as :func:`savings` returns them: ``best`` is the largest of all cases, ``average`` their mean, ``batch256``
    the mean over those of batch 256."""
    figures = {}
    for what in HEADLINE:
        quantity, kind, speed = what.split("_")
        cases = percentages[quantity, speed]
        figures[what] = max(cases.values()) if kind == "best" else mean(cases, 256 if kind == "batch256" else None)
    return figures


@cache
def savings(constants: Constants, bandwidths: Bandwidths = MIXED, hops: Hops = mesh_hops) -> Savings:
    """Return the percentages of time and of EDP that both optical systems save over the electrical one in each of the
    27 cases.

    Args:
        constants: R and β of the computation.
        bandwidths: of 25-E, 100-O and 400-O, in bytes per second.
        hops: latencies of a broadcast by the number of chips, for all three.

    Returns:
        By (quantity, Gb/s), two strings such as (``edp``, ``400``), the percentage of each case (network, batch);
        negative where the optical system takes more.
    """
    electrical, *optical = links(bandwidths, hops).values()
    return {
        (quantity, speed): saved(quantity, link, electrical, constants)
        for quantity, (speed, link) in product(get_args(Quantity), zip(("100", "400"), optical, strict=True))
    }


def mean(figures: Figures, batch: int | None = None) -> float:
    """Return the mean of percentages over all cases, or over those of one ``batch``, of which there must be some."""
    chosen = [value for (_, each), value in figures.items() if batch in (None, each)]
    return sum(chosen) / len(chosen)


# The constants that the paper leaves open, fitted by least squares to its ten headlines or to a part of them, which
# predicts the rest: run it as ``python -m lightloom.papers.dadiannao.model``.

PARTS = {
    "ten": tuple(HEADLINE),
    **{part: tuple(what for what in HEADLINE if part in what.split("_")) for part in ("time", "edp", "100", "400")},
}
"""Headlines that constants are fitted to, by name; what is left out is predicted."""


def misfit(constants: Constants, bandwidths: Bandwidths = MIXED, hops: Hops = mesh_hops, part: str = "ten") -> float:
    """Return the root mean square of our percentage − the paper's over a part of the ten headlines, in percentage
    points.

    Args:
        constants: R and β of the computation.
        bandwidths: of 25-E, 100-O and 400-O, in bytes per second.
        hops: latencies of a broadcast by the number of chips.
        part: ``ten`` for all, or those whose names hold ``time``, ``edp``, ``100`` or ``400``: the headlines that are
            compared.
    """
    ours = headlines(savings(constants, bandwidths, hops))
    return sqrt(fmean((ours[what] - HEADLINE[what]) ** 2 for what in PARTS[part]))


def fit(bandwidths: Bandwidths = MIXED, hops: Hops = mesh_hops, part: str = "ten") -> Constants:
    """Return the constants of the smallest misfit over a part of the headlines that a Nelder-Mead search finds from R =
    5, β = 0.01: R as ``passes``, from 0.1 to 100, and β as ``synapse``, from 0 to 1.

    Args:
        bandwidths: of 25-E, 100-O and 400-O, in bytes per second.
        hops: latencies of a broadcast by the number of chips.
        part: ``ten`` for all, or those whose names hold ``time``, ``edp``, ``100`` or ``400``: the headlines that are
            fitted.
    """
    from scipy.optimize import minimize

    optimum = minimize(
        lambda x: misfit(Constants(float(x[0]), float(x[1]) / 100), bandwidths, hops, part),
        x0=(5.0, 1.0),
        method="Nelder-Mead",
        bounds=((0.1, 100), (0, 100)),
        options={"xatol": 1e-3, "fatol": 1e-5},
    )
    return Constants(passes=float(optimum.x[0]), synapse=float(optimum.x[1]) / 100)


def halves() -> list[tuple[Bandwidths, float]]:
    """Return, for each of the 252 choices of five headlines, the one of three choices of bandwidths (:data:`UNITS`:
    mixed, one direction, both) that fits these five best, and the root mean square misfit in points over the other
    five; R and β, from a grid of 40 × 5, and the bandwidths are chosen by the five alone. Each item is (bandwidths in
    bytes per second, misfit)."""
    grid = list(product(np.geomspace(1, 100, 40).tolist(), (0.0, 0.02, 0.05, 0.1, 0.3), UNITS))
    ours = [list(headlines(savings(Constants(*constants), unit)).values()) for *constants, unit in grid]
    squares, found = (np.array(ours) - list(HEADLINE.values())) ** 2, []
    for five in combinations(range(len(HEADLINE)), 5):
        best = int(squares[:, five].mean(axis=1).argmin())
        found.append((grid[best][2], sqrt(np.delete(squares[best], five).mean())))
    return found


# Eq. 3 compared with built and verified schedules, and with its literal text.

_SHARE = 2.0**20
_SQUARE, _OBLONG, _LARGE = 64, 35, 904


def mesh_broadcast(fabric: Mesh, share: float, *, both_axes: bool = False) -> Schedule:
    """Return the verified schedule of an all-gather of ``share`` bytes of every chip of a mesh, along rows and then
    columns; with ``both_axes`` one half of the bytes goes along rows first and the other along columns first, at the
    same time.

    Raises:
        UnsupportedError: both axes at once on a mesh that is not square.
    """
    algorithm = find("mesh-broadcast-both-axes" if both_axes else "mesh-broadcast")
    return build(algorithm, Collective("all-gather", fabric.ranks, fabric.ranks * share), fabric)


def equation_3_claims() -> tuple[Claim, ...]:
    """Return the four rows of Eq. 3, for 100-O links in one direction and 1 MiB per chip: three of µs, of the built
    schedules on meshes of 64 chips (paper: Eq. 3's) and of 35 (Eq. 3's only in the explanation) and on 64 with both
    axes at once (explained beside the lower bound), and one of the latencies of 904 chips, 2 (√p − 1), beside those
    without the radical sign."""
    link = link_of(chip(), "100-O")
    # The most square meshes of so many chips.
    square, oblong = (Mesh(ranks=n, bandwidth=link.bandwidth, hop_latency=link.latency) for n in (_SQUARE, _OBLONG))
    halved = mesh_broadcast(square, _SHARE, both_axes=True)
    bound = lower_bound(halved.collective, square)
    built = (cost(mesh_broadcast(square, _SHARE), square), cost(mesh_broadcast(oblong, _SHARE), oblong))
    times = [round(found.time * 1e6, 4) for found in (*built, cost(halved, square), bound)]
    closed = [round(broadcast_time(_SHARE, chips, link) * 1e6, 4) for chips in (_SQUARE, _OBLONG)]
    return (
        PAPER.claim("example.equation_3_time_64", times[0], paper=closed[0]),
        PAPER.claim("example.equation_3_time_35", times[1], closed=closed[1]),
        PAPER.claim("example.equation_3_time_64_both_axes", times[2], bound=bound, bound_us=times[3]),
        PAPER.claim("example.equation_3_latencies_904", round(mesh_hops(_LARGE), 2), literal=literal_hops(_LARGE)),
    )


def main() -> None:
    """Fit the constants to each part of the headlines with each of three choices of bandwidths (:data:`UNITS`), and
    print them and their misfits on what they were fitted to and on what they were not, then what fits to halves of the
    headlines choose."""
    for (part, chosen), unit in product(PARTS.items(), UNITS):
        found, held = fit(unit, part=part), [other for other, whats in PARTS.items() if not {*whats} & {*chosen}]
        errors = (f"{misfit(found, unit, part=each):.2f} points on {each}" for each in (part, *held))
        rates = "/".join(f"{each / 1e9:g}" for each in unit)
        constants = f"R = {found.passes:.2f}, beta = {found.synapse:.3f}"
        sys.stdout.write(f"{part}, {rates} GB/s: {constants}; RMS {', '.join(errors)}\n")
    picked = halves()
    errors_held = [error for _, error in picked]
    sys.stdout.write(
        f"{sum(unit == MIXED for unit, _ in picked)} of {len(picked)} choices of five pick the first; RMS "
        f"{fmean(errors_held):.2f} points on the other five in the mean, {max(errors_held):.2f} at most\n"
    )


if __name__ == "__main__":
    main()
