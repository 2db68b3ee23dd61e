"""Table 1, the derivation of the latency of 160 ns, and package, blade and rack (Figs. 3 and 4)."""

from __future__ import annotations

from lightloom.clusters.rack import Package, Rack
from lightloom.core.claims import Claim
from lightloom.core.errors import UnsupportedError
from lightloom.fabrics.error_correction import DECODER_CYCLES, RS_544_514, decoder_latency
from lightloom.parallelism.dadiannao import check_rack, chips_needed
from lightloom.studies.dadiannao.model import chip
from lightloom.studies.dadiannao.networks import printed
from lightloom.studies.dadiannao.paper import LINKS, TABLE_1

_MEBI, _KIBI = 2.0**20, 2.0**10


def claims() -> tuple[Claim, ...]:
    """Return the rows of Table 1 and of Figs. 3 and 4."""
    return (*_table(), *_rates(), *_latency(), *_floorplan(), *_rack())


def ours() -> dict[str, float]:
    """Return our chip in the units of Table 1."""
    c = chip()
    found = {
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
        found[f"phy_power_{speed}"] = link.phy_power or 0.0
        found[f"bandwidth_{speed}"] = link.bidirectional_bandwidth / 1e9
        found[f"latency_{speed}"] = link.latency * 1e9
    return found


def _table() -> list[Claim]:
    products, sums = chip().product_rate / 1e9, chip().sum_rate / 1e9
    why = {
        "peak": f"288/4 products and 288/2 sums a tile and cycle: {products:.1f} + {sums:.1f} G a second. Adders never "
        "bind in a network, where every product has one sum",
    }
    tolerance = {"peak": 0.005}
    return [
        Claim(
            id=f"dadiannao.table1.{what}",
            paper=paper,
            ours=round(ours()[what], 4),
            unit=unit,
            tolerance=tolerance.get(what, 1e-9),
            why=why.get(what, ""),
        )
        for what, (paper, unit) in TABLE_1.items()
    ]


def _rates() -> list[Claim]:
    return [
        Claim(
            id=f"dadiannao.table1.bandwidth_{name}_from_rate",
            paper=TABLE_1[f"bandwidth_{name}"][0],
            ours=2 * rate / 8,
            unit="GB/s",
            tolerance=1e-9,
            why=f"{rate:g} Gb/s in each direction (section 2.1), both together: the table's bandwidths hold for two "
            "directions, and Eq. 3 sends in one",
        )
        for name, rate in (("25", 25.6), ("100", 100.0), ("400", 400.0))
    ]


def _latency() -> list[Claim]:
    code, latency = RS_544_514, decoder_latency(chip().frequency) * 1e9
    rest = DECODER_CYCLES - code.solver_cycles()
    return [
        Claim(
            id="dadiannao.table1.fec_latency",
            paper=78,
            ours=round(latency, 2),
            unit="ns",
            tolerance=0.5,
            why=f"{DECODER_CYCLES} cycles at 606 MHz. RS(544, 514) corrects t = {code.corrects} of 544 symbols; an "
            f"iterative solver takes 2t = {code.solver_cycles()} cycles, {rest} are left for syndromes, search and "
            f"correction (our reading). The block itself arrives in {code.block_time(50e9) * 1e9:.1f} ns at 400 Gb/s",
        ),
        Claim(
            id="dadiannao.table1.latency_400_derived",
            paper=160,
            ours=round(80 + latency, 2),
            unit="ns",
            tolerance=5,
            why="80 ns of HyperTransport and the decoder; the table rounds to ten nanoseconds",
        ),
    ]


def _floorplan() -> list[Claim]:
    package = Package()
    return [
        Claim(
            id="dadiannao.figure3.chips_a_package",
            paper=4,
            ours=_largest_side() ** 2,
            unit="chips",
            why=f"the largest square of 8 mm chips on a 25 mm interposer with {2 * package.waveguides} waveguides of "
            f"{package.pitch * 1e3:g} mm pitch in each gap; {package.gap * 1e3:g} mm of gap are there, "
            f"{package.link_width * 1e3:g} mm needed, and {package.fibres} fibres leave it",
        )
    ]


def _largest_side() -> int:
    side = 1
    while True:
        try:
            Package(side=side + 1)
        except UnsupportedError:
            return side
        side += 1


def _rack() -> list[Claim]:
    network = printed()["ResNet152"]
    try:
        check_rack(network, 256, chip())
        verdict = ""
    except UnsupportedError as error:
        verdict = str(error)
    return [
        Claim(
            id="dadiannao.figure4.rack_chips",
            paper=1536,
            ours=Rack().chips,
            unit="chips",
            why="64 blades of 6 packages of 4 chips",
        ),
        Claim(
            id="dadiannao.figure4.largest_case_chips",
            paper=Rack().chips,
            ours=chips_needed(network, 256, chip()),
            unit="chips",
            why=f"paper: what a rack holds; ours: the largest case of Fig. 5. {verdict}",
        ),
    ]
