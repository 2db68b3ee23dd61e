"""Table 1, the derivation of the latency of 160 ns, and package, blade and rack (Figs. 3 and 4)."""

from __future__ import annotations

from collections.abc import Iterator

from lightloom.clusters.rack import Package, Rack
from lightloom.core.claims import Claim
from lightloom.core.errors import UnsupportedError
from lightloom.fabrics.error_correction import DECODER_CYCLES, RS_544_514
from lightloom.parallelism.dadiannao import check_rack, chips_needed
from lightloom.studies.dadiannao import PAPER
from lightloom.studies.dadiannao.model import chip
from lightloom.studies.dadiannao.networks import printed
from lightloom.studies.dadiannao.paper import LINKS, TABLE_1

_MEBI, _KIBI = 2.0**20, 2.0**10


def claims() -> tuple[Claim, ...]:
    """Return the rows of Table 1 and of Figs. 3 and 4."""
    return (*_table(), *_latency(), _floorplan(), *_rack())


def ours() -> dict[str, float]:
    """Return our chip in the units of Table 1."""
    c = chip()
    values = {
        "frequency": c.frequency / 1e6,
        "tiles": c.tiles,
        "multipliers": c.multipliers,
        "adders": c.adders,
        "peak": c.peak / 1e12,
        "power": c.power,
        "local_edram_latency": c.local_edram_cycles,
        "central_edram_latency": c.central_edram_cycles,
        "neuron_buffer": c.neuron_buffer / _KIBI,
        "local_edram": c.local_edram / _MEBI,
        "central_edram": c.central_edram / _MEBI,
    }
    for name, speed in zip(LINKS, ("25", "100", "400"), strict=True):
        link = c.link(name)
        values[f"phy_power_{speed}"] = link.phy_power or 0.0
        values[f"bandwidth_{speed}"] = link.bidirectional_bandwidth / 1e9
        values[f"latency_{speed}"] = link.latency * 1e9
    return values


def _table() -> Iterator[Claim]:
    rates = {"products": chip().product_rate / 1e9, "sums": chip().sum_rate / 1e9}
    values = ours()
    for what, (paper, unit) in TABLE_1.items():
        yield PAPER.claim("table1.{what}", round(values[what], 4), paper=paper, unit=unit, what=what, **rates)
    for name, rate in (("25", 25.6), ("100", 100.0), ("400", 400.0)):
        paper, _ = TABLE_1[f"bandwidth_{name}"]
        yield PAPER.claim("table1.bandwidth_{name}_from_rate", 2 * rate / 8, paper=paper, name=name, rate=rate)


def _latency() -> Iterator[Claim]:
    code, latency = RS_544_514, DECODER_CYCLES / chip().frequency * 1e9
    yield PAPER.claim(
        "table1.fec_latency",
        round(latency, 2),
        cycles={
            "decoder": DECODER_CYCLES,
            "solver": code.solver_cycles(),
            "rest": DECODER_CYCLES - code.solver_cycles(),
        },
        code=code,
        block_time=code.block_time(50e9) * 1e9,
    )
    yield PAPER.claim("table1.latency_400_derived", round(80 + latency, 2))


def _floorplan() -> Claim:
    package = Package()
    millimetres = {name: getattr(package, name) * 1e3 for name in ("pitch", "gap", "link_width")}
    waveguides = 2 * package.waveguides
    chips = _largest_side() ** 2
    return PAPER.claim("figure3.chips_a_package", chips, waveguides=waveguides, package=package, **millimetres)


def _largest_side() -> int:
    side = 1
    while True:
        try:
            Package(side=side + 1)
        except UnsupportedError:
            return side
        side += 1


def _rack() -> Iterator[Claim]:
    network = printed()["ResNet152"]
    try:
        check_rack(network, 256, chip())
        verdict = ""
    except UnsupportedError as error:
        verdict = str(error)
    yield PAPER.claim("figure4.rack_chips", Rack().chips)
    yield PAPER.claim(
        "figure4.largest_case_chips", chips_needed(network, 256, chip()), paper=Rack().chips, verdict=verdict
    )
