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
from math import ceil, log2, sqrt
from typing import Literal, get_args

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
Networks = Mapping[str, Network]


def literal_hops(chips: int) -> float:
    """Return 2 (p − 1) latencies, Eq. 3 as its text reads where the radical sign is lost."""
    return 2 * (chips - 1)


def ring_hops(chips: int) -> float:
    """Return p − 1 latencies: the chips in one ring."""
    return chips - 1


def tree_hops(chips: int) -> float:
    """Return ceil(log2 p): as few latencies as a broadcast can take if any two chips are neighbours; needs a switch."""
    return ceil(log2(chips))


def link_of(chip: DaDianNao, name: str) -> ChipLink:
    """Return one of the chip's kinds of links, by name, with the bandwidth of one direction.

    Raises:
        UnknownNameError: the chip has no such links.
    """
    link = chip.link(name)
    return ChipLink(link.bandwidth, link.latency, link.phy_power)


def check_rack(network: Network, batch: int, chip: DaDianNao, rack: Rack | None = None) -> int:
    """Return the number of chips needed, if one rack holds them.

    Raises:
        UnsupportedError: it does not; names the blades, and the racks, batch or eDRAM that would do.
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
    """Seconds and joules of a step."""

    link: ChipLink
    chip: DaDianNao

    @property
    def time(self) -> float:
        """Seconds of the step."""
        return self.step_time

    @property
    def energy(self) -> float | None:
        """Joules of all chips: at their peak while they compute, PHYs at theirs while they send (section 4.2); None
        where the PHYs' power is unknown."""
        if self.link.phy_power is None:
            return None
        sending = self.chip.phys * self.link.phy_power * self.communication_time
        return self.chips * (self.chip.power * self.computation + sending)

    @property
    def edp(self) -> float | None:
        """Energy-delay product in joule seconds; None where the energy is."""
        return None if (energy := self.energy) is None else energy * self.time


# The 27 cases of Fig. 5.

Case = tuple[str, int]
"""A network and a batch size."""
Figures = Mapping[Case, float]

ONE_FITTED = Constants(passes=10.87)
"""One constant fitted to the ten headlines."""
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


@cache
def chip() -> DaDianNao:
    """Return the chip of Table 1."""
    return load_dadiannao()


def links(bandwidths: Bandwidths, hops: Hops = mesh_hops) -> dict[str, ChipLink]:
    """Return the three kinds of links by name, with these bandwidths and the latencies and PHY powers of Table 1."""
    named = zip(LINKS, bandwidths, strict=True)
    return {name: link_of(chip(), name)._replace(bandwidth=bandwidth, hops=hops) for name, bandwidth in named}


def strategy(name: str, batch: int) -> Moved:
    """Return the strategy of section 5: model parallelism for AlexNet at batch 1 and 32, else data parallelism."""
    return "model" if name == "AlexNet" and batch < BATCHES[-1] else "data"


def run(network: Network, batch: int, link: ChipLink, constants: Constants, parallel: Moved | None = None) -> Step:
    """Return the result of one case on one kind of link; ``parallel`` replaces the strategy of section 5."""
    chosen, chips = parallel or strategy(network.name, batch), chips_needed(network, batch, chip().edram)
    found = broadcast_step(network, batch, chips, chip().product_rate, link, chosen, constants)
    return Step(found.chips, found.computation, found.communication_time, link, chip())


def saved(
    quantity: Quantity, link: ChipLink, base: ChipLink, constants: Constants, networks: Networks | None = None
) -> Figures:
    """Return the percentage of time or EDP that ``link`` saves over ``base`` in each case.

    Raises:
        ValueError: a link has no PHY power, which EDP needs.
    """
    figures = {}
    for name, network in (networks or printed()).items():
        for batch in BATCHES:
            new, old = (getattr(run(network, batch, each, constants), quantity) for each in (link, base))
            if new is None or not old:
                raise ValueError(f"{name}, batch {batch}: nothing to compare without PHY powers")
            figures[name, batch] = 100 * (1 - new / old)
    return figures


Savings = Mapping[tuple[str, str], Figures]
"""Percentages saved in each case, by quantity, ``time`` or ``edp``, and Gb/s, ``100`` or ``400``."""


def headlines(percentages: Savings) -> dict[str, float]:
    """Return the ten percentages by the names of :data:`~lightloom.papers.dadiannao.HEADLINE`: the best of all
    cases, or the mean over all or over those of batch 256."""
    figures = {}
    for what in HEADLINE:
        quantity, kind, speed = what.split("_")
        cases = percentages[quantity, speed]
        figures[what] = max(cases.values()) if kind == "best" else mean(cases, 256 if kind == "batch256" else None)
    return figures


def savings(
    constants: Constants, bandwidths: Bandwidths = MIXED, hops: Hops = mesh_hops, networks: Networks | None = None
) -> Savings:
    """Return the savings of both optical systems over the electrical one in all 27 cases."""
    electrical, *optical = links(bandwidths, hops).values()
    return {
        (quantity, speed): saved(quantity, link, electrical, constants, networks)
        for quantity in get_args(Quantity)
        for speed, link in zip(("100", "400"), optical, strict=True)
    }


def mean(figures: Figures, batch: int | None = None) -> float:
    """Return the mean over all cases, or over those of one batch."""
    chosen = [value for (_, each), value in figures.items() if batch in (None, each)]
    return sum(chosen) / len(chosen)


# The constants that the paper leaves open, fitted to its ten headlines by least squares: run it as ``python -m
# lightloom.papers.dadiannao.model``.


def misfit(constants: Constants, bandwidths: Bandwidths = MIXED, hops: Hops = mesh_hops) -> float:
    """Return the root mean square of ours − paper over the ten headlines, in points."""
    ours = headlines(savings(constants, bandwidths, hops))
    return sqrt(sum((ours[what] - paper) ** 2 for what, paper in HEADLINE.items()) / len(HEADLINE))


def two_constants(bandwidths: Bandwidths = MIXED, hops: Hops = mesh_hops) -> Constants:
    """Return the constants with the R and β ≥ 0 of the smallest misfit."""
    from scipy.optimize import minimize

    optimum = minimize(
        lambda x: misfit(Constants(passes=x[0], synapse=x[1] / 100), bandwidths, hops),
        x0=(5.0, 1.0),
        method="Nelder-Mead",
        bounds=((0.1, 100), (0, 100)),
        options={"xatol": 1e-3, "fatol": 1e-5},
    )
    return Constants(passes=float(optimum.x[0]), synapse=float(optimum.x[1]) / 100)


def one_constant(bandwidths: Bandwidths = MIXED) -> Constants:
    """Return the constants with the R of the smallest misfit at β = 0."""
    from scipy.optimize import minimize_scalar

    optimum = minimize_scalar(
        lambda passes: misfit(Constants(passes=passes), bandwidths), bounds=(0.1, 100), method="bounded"
    )
    return Constants(passes=float(optimum.x))


def calibrated(what: str, bandwidths: Bandwidths = MIXED) -> Constants:
    """Return the constants whose R, from 1 to 40, reproduces one headline with β = 0; the other nine are then
    predictions."""
    from scipy.optimize import brentq

    def error(passes: float) -> float:
        """Return the headline's points that R = ``passes`` gives more than the paper."""
        return headlines(savings(Constants(passes=passes), bandwidths))[what] - HEADLINE[what]

    return Constants(passes=float(brentq(error, 1, 40, xtol=1e-3)))


# Eq. 3 compared with built and verified schedules, and with its literal text.

_SHARE = 2.0**20
_SQUARE, _OBLONG, _LARGE = 64, 35, 904


def mesh_broadcast(fabric: Mesh, share: float, *, both_axes: bool = False) -> Schedule:
    """Return the verified schedule of an all-gather of ``share`` bytes of every chip.

    Raises:
        UnsupportedError: both axes at once on a mesh that is not square.
    """
    algorithm = find("mesh-broadcast-both-axes" if both_axes else "mesh-broadcast")
    return build(algorithm, Collective("all-gather", fabric.ranks, fabric.ranks * share), fabric)


def equation_3_claims() -> tuple[Claim, ...]:
    """Return the rows of Eq. 3 beside built schedules, for 100 Gb/s links in one direction and 1 MiB per chip."""
    link, rows = link_of(chip(), "100-O"), []
    for chips in (_SQUARE, _OBLONG):
        # The most square mesh of so many chips.
        fabric = Mesh(ranks=chips, bandwidth=link.bandwidth, hop_latency=link.latency)
        built = cost(mesh_broadcast(fabric, _SHARE), fabric).time
        rows.append(_equation_3_row(f"time_{chips}", broadcast_time(_SHARE, chips, link), built))
    fabric = Mesh(ranks=_SQUARE, bandwidth=link.bandwidth, hop_latency=link.latency)
    halved = mesh_broadcast(fabric, _SHARE, both_axes=True)
    bound, square = lower_bound(halved.collective, fabric), broadcast_time(_SHARE, _SQUARE, link)
    return (
        *rows,
        _equation_3_row("time_64_both_axes", square, cost(halved, fabric).time, bound=bound, bound_us=bound.time * 1e6),
        PAPER.claim(
            "example.equation_3_literal_latencies_904", round(mesh_hops(_LARGE), 2), paper=literal_hops(_LARGE)
        ),
    )


def _equation_3_row(what: str, paper: float, ours: float, **values: object) -> Claim:
    """Return a row of Eq. 3 beside a built schedule, from seconds, in microseconds."""
    return PAPER.claim(f"example.equation_3_{what}", round(ours * 1e6, 4), paper=round(paper * 1e6, 4), **values)


def main() -> None:
    """Print the fits and their misfits."""
    fits = {"two constants": two_constants(), "one constant": one_constant()}
    fits["20.6 alone"] = calibrated("time_average_100")
    for name, fitted in fits.items():
        constants = f"R = {fitted.passes:.2f}, beta = {fitted.synapse:.3f}"
        sys.stdout.write(f"{name}: {constants}, RMS {misfit(fitted):.2f} points\n")


if __name__ == "__main__":
    main()
