"""The rows of the DaDianNao study: its tables, its figures, the headlines, and what lies beyond the paper."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import product
from math import inf
from statistics import fmean
from typing import Any

from lightloom.core.claims import Claim
from lightloom.core.errors import UnsupportedError
from lightloom.machines.clusters.cluster import Package, Rack
from lightloom.papers.dadiannao import (
    BATCHES,
    BEST,
    CODE,
    DECODER_CYCLES,
    HEADLINE,
    LINKS,
    NEURON_BATCH,
    PAPER,
    SYMBOL_BITS,
    TABLE_1,
    TABLE_2,
    Row,
)
from lightloom.papers.dadiannao.model import (
    BOTH_DIRECTIONS,
    FITTED_TO_TIMES,
    MIXED,
    ONE_DIRECTION,
    PEAK,
    UNITS,
    Bandwidths,
    Figures,
    check_rack,
    chip,
    equation_3_claims,
    headlines,
    link_of,
    links,
    mean,
    misfit,
    ring_hops,
    run,
    saved,
    savings,
    tree_hops,
)
from lightloom.papers.dadiannao.networks import INCEPTION_VARIANT, MIB, ZOO, printed, stored
from lightloom.papers.study import refusal
from lightloom.planning.pricing.broadcast_step import (
    FITTED,
    ChipLink,
    Constants,
    Hops,
    Network,
    broadcast_bytes,
    chips_needed,
    mesh_hops,
)

_CHOICES = [
    (Constants(passes, synapse), bandwidths)
    for passes, synapse, bandwidths in product((1, 2, 5, 10, 20, 40), (0, 0.03, 0.3), UNITS)
]
"""Constants and bandwidths between which the text does not decide."""


def _verdict(template: str, judge: Callable[[Constants, Bandwidths], str], **values: Any) -> Claim:
    """Return the row of what all cases show together, under the fitted constants; the explanation says how many of 54
    other choices of constants and bandwidths (:data:`_CHOICES`) give the same. Unless all of them do, the row is marked
    as fitted, and as a stand-in for the paper's experiment.

    Args:
        template: key of the row in ``paper.yaml``.
        judge: gives what the cases show, in words, under constants (R and β) and bandwidths (of 25-E, 100-O and 400-O,
            in bytes per second); ours is that under the fitted constants and mixed bandwidths.
        values: fields of id and explanation.
    """
    ours = judge(FITTED, MIXED)
    same = sum(judge(*choice) == ours for choice in _CHOICES)
    if same < len(_CHOICES):
        values |= {"fitted": True, "basis": "stand-in"}
    return PAPER.claim(template, ours, holds=f"{same} of {len(_CHOICES)}", **values)


def largest_ratio(bandwidths: Bandwidths) -> float:
    """Return the most that time saved by 400-O can be over that saved by 100-O under Eqs. 1 to 3, whatever the compute
    model; ``bandwidths`` are those of 25-E, 100-O and 400-O in bytes per second.

    A step's time is convex and rising in 1/BW: C + latency + D/BW, or per layer the larger of computation and that. A
    chord over a longer range is therefore no steeper than one that ends at the same slow link, so that
    saved(400)/saved(100) is at most the ratio of the steps in 1/BW; the longer latency of 400-O only lowers it. The
    result is (1/BW₂₅ − 1/BW₄₀₀) / (1/BW₂₅ − 1/BW₁₀₀).
    """
    electrical, hundred, four_hundred = (1 / each for each in bandwidths)
    return (electrical - four_hundred) / (electrical - hundred)


def _headlines() -> Iterator[Claim]:
    """Yield a row for each of the ten headlines, percentages (rounded to two decimals) of time and energy-delay product
    that optical links save over electrical ones, beside the paper's, with the constants fitted to the six of time: the
    four of energy-delay products are predicted."""
    ours = headlines(savings(FITTED_TO_TIMES))
    errors = {part: misfit(FITTED_TO_TIMES, part=part) for part in ("time", "edp")}
    for name, paper in HEADLINE.items():
        quantity, _, what = name.partition("_")
        values: dict[str, Any] = {"what": what, "paper": paper, "constants": FITTED_TO_TIMES, "errors": errors}
        if quantity == "edp":
            values["trivial"] = HEADLINE[f"time_{what}"]
        yield PAPER.claim(f"headline.{quantity}_{{what}}", round(ours[name], 2), **values)


def _best_network(quantity: str, speed: str, constants: Constants, bandwidths: Bandwidths) -> str:
    """Return the network of the case in which optical links save the largest percentage over electrical ones.

    Args:
        quantity: what is saved, ``time`` or ``edp``.
        speed: Gb/s of the optical links, ``100`` or ``400``.
        constants: R and β of the computation.
        bandwidths: of 25-E, 100-O and 400-O, in bytes per second.
    """
    figures = savings(constants, bandwidths)[quantity, speed]
    return max(figures, key=lambda case: figures[case])[0]


def _best_networks() -> Iterator[Claim]:
    """Yield four rows of the network of the case in which optical links save the largest percentage: of time and of
    EDP, each at 100 and 400 Gb/s. The paper's is VGG19 at 100 and VGG16 at 400."""
    for quantity, (speed, paper) in product(("time", "edp"), BEST.items()):
        figures = savings(FITTED)[quantity, speed]
        values: dict[str, Any] = {"vgg16": figures["VGG16", 1], "vgg19": figures["VGG19", 1], "paper": paper}
        judge = partial(_best_network, quantity, speed)
        yield _verdict("headline.{what}_best_network_{speed}", judge, what=quantity, speed=speed, **values)


def _other_readings() -> Iterator[Claim]:
    """Yield five findings beside the headlines: four of the mean percentages of time saved at 100 and 400 Gb/s over all
    cases, as one text "10.1 and 22.3", with the fitted constants and the bandwidths of one or of both directions and
    with arithmetic at the peak rate (:data:`PEAK`) and the mixed bandwidths or those of both; and the most that time
    saved at 400 can be as a multiple of that at 100, with Table 1's bandwidths."""
    for name, constants, bandwidths in (
        ("one_direction", FITTED, ONE_DIRECTION),
        ("both_directions", FITTED, BOTH_DIRECTIONS),
        ("peak_mixed", PEAK, MIXED),
        ("peak_both_directions", PEAK, BOTH_DIRECTIONS),
    ):
        ours = headlines(savings(constants, bandwidths))
        text = " and ".join(f"{ours[f'time_average_{speed}']:.1f}" for speed in BEST)
        rates = ", ".join(f"{each / 1e9:g}" for each in bandwidths)
        yield PAPER.claim("headline.time_average_{name}", text, name=name, constants=constants, rates=rates)
    bound = largest_ratio(BOTH_DIRECTIONS)
    least, mixed = HEADLINE["time_best_400"] / bound, largest_ratio(MIXED)
    yield PAPER.claim("headline.saved_400_over_100", round(bound, 3), least=least, mixed=mixed)


# Figure 2: share of communication in a step on electrical links.

DOMINATED = ("VGG16", "VGG19", "ResNet50", "ResNet101", "ResNet152")
"""Networks for which the text calls communication dominant."""
FIGURE_2_BATCHES = (1, 32)
"""Batch sizes that the text names for Fig. 2."""


def share(name: str, batch: int, constants: Constants = FITTED, bandwidths: Bandwidths = MIXED) -> float:
    """Return the share of communication in a step of a case on 25-E, from 0 to 1; ``name`` is the network's in Table 2,
    ``constants`` are R and β, ``bandwidths`` those of 25-E, 100-O and 400-O in bytes per second."""
    result = run(printed()[name], batch, links(bandwidths)["25-E"], constants)
    return result.communication_time / result.time


def _dominant(constants: Constants, bandwidths: Bandwidths) -> str:
    """Return "dominant" if communication takes more than half of the step on 25-E in all cases of which the text says
    so (both VGGs and the three ResNets, each at batch 1 and 32), else "not in all cases". ``constants`` are R and β,
    ``bandwidths`` those of 25-E, 100-O and 400-O in bytes per second."""
    cases = product(DOMINATED, FIGURE_2_BATCHES)
    return "dominant" if all(share(*case, constants, bandwidths) > 0.5 for case in cases) else "not in all cases"


def _alexnet_with_batch(constants: Constants, bandwidths: Bandwidths) -> str:
    """Return how AlexNet's share of communication on 25-E changes from batch 1 to 32: "grows", or "falls" where it does
    not grow. ``constants`` are R and β, ``bandwidths`` those of 25-E, 100-O and 400-O in bytes per second."""
    alone, many = (share("AlexNet", batch, constants, bandwidths) for batch in FIGURE_2_BATCHES)
    return "grows" if many > alone else "falls"


def _figure_2() -> Iterator[Claim]:
    """Yield two rows, in words, on the text about Fig. 2, whose bars exist only as an image: whether communication is
    more than half of the step on 25-E in both VGGs and the ResNets, and how AlexNet's share of it changes with the
    batch."""
    shares = {name: "/".join(f"{100 * share(name, batch):.0f}" for batch in FIGURE_2_BATCHES) for name in DOMINATED}
    text = ", ".join(f"{name} {each}" for name, each in shares.items())
    implied = headlines(savings(PEAK))["time_average_400"]
    yield _verdict("figure2.communication_dominant", _dominant, shares=text, implied=implied)
    alone, many = (100 * share("AlexNet", batch) for batch in FIGURE_2_BATCHES)
    yield _verdict("figure2.share_alexnet_with_batch", _alexnet_with_batch, alone=alone, many=many)


# Figure 5: chips, the trends over batch sizes, the best strategy, and the one case whose EDP gets worse.


def chips(name: str, batch: int) -> int:
    """Return the least number of chips whose eDRAM holds all neurons of the batch and all synapses, with the sizes
    printed in Table 2; ``name`` is the network's there."""
    return chips_needed(printed()[name], batch, chip().edram)


def _chips_of_cases() -> Iterator[Claim]:
    """Yield a row for each network: the chips needed at each batch size (1, 32, 256), separated by slashes; a rack does
    not limit them."""
    for name in TABLE_2:
        ours = "/".join(str(chips(name, batch)) for batch in BATCHES)
        yield PAPER.claim("figure5.chips_{network}", ours, network=_identifier(name))


def worse(constants: Constants = FITTED, bandwidths: Bandwidths = MIXED) -> str:
    """Return the cases whose energy-delay product (EDP) is greater with optical links than with electrical ones, each
    as text "network, batch 256, 400 Gb/s", separated by semicolons; empty where there is none; all of 100 Gb/s come
    before those of 400, each in the order of Table 2. ``constants`` are R and β, ``bandwidths`` those of 25-E, 100-O
    and 400-O in bytes per second."""
    return "; ".join(
        f"{name}, batch {batch}, {speed} Gb/s"
        for (quantity, speed), figures in savings(constants, bandwidths).items()
        for (name, batch), value in figures.items()
        if quantity == "edp" and value < 0
    )


_OTHERS = tuple(name for name in TABLE_2 if name != "AlexNet")
"""Networks that are data parallel at every batch size."""


def _saved_by_batch(speed: str, constants: Constants, bandwidths: Bandwidths) -> list[float]:
    """Return the mean percentage of time saved at each batch size (1, 32, 256), over all networks but AlexNet, by links
    of ``speed`` Gb/s (``100`` or ``400``). ``constants`` are R and β, ``bandwidths`` those of 25-E, 100-O and 400-O in
    bytes per second."""
    figures = savings(constants, bandwidths)["time", speed]
    return [fmean(figures[name, batch] for name in _OTHERS) for batch in BATCHES]


def _saved_falls(constants: Constants, bandwidths: Bandwidths) -> str:
    """Return "falls, ever less" if mean time saved falls from batch to batch (1, 32, 256), by less the second time, at
    100 and at 400 Gb/s, else "otherwise"; AlexNet is left out. ``constants`` are R and β, ``bandwidths`` those of 25-E,
    100-O and 400-O in bytes per second."""
    means = (_saved_by_batch(speed, constants, bandwidths) for speed in BEST)
    return "falls, ever less" if all(a - b > b - c > 0 for a, b, c in means) else "otherwise"


def _computation_rises(constants: Constants, bandwidths: Bandwidths) -> str:
    """Return "rises" if computation's share of a step on 25-E rises at both steps of the batch (1, 32, 256) in every
    network but AlexNet, else "not in all networks". ``constants`` are R and β, ``bandwidths`` those of 25-E, 100-O and
    400-O in bytes per second."""
    shares = ([share(name, batch, constants, bandwidths) for batch in BATCHES] for name in _OTHERS)
    return "rises" if all(a > b > c for a, b, c in shares) else "not in all networks"


def _with_batch() -> Iterator[Claim]:
    """Yield three rows on what the text says of larger batches: whether time saved falls, whether computation's share
    rises, and in which cases EDP is worse with optical links, as :func:`worse` lists them."""
    means = "; ".join(
        f"{' → '.join(f'{each:.1f}' for each in _saved_by_batch(speed, FITTED, MIXED))} % at {speed} Gb/s"
        for speed in BEST
    )
    yield _verdict("figure5.saved_with_batch", _saved_falls, means=means)
    dense = ", ".join(f"{100 - 100 * share('DenseNet121', batch):.1f}" for batch in BATCHES)
    yield _verdict("figure5.computation_with_batch", _computation_rises, dense=dense)
    yield _verdict("figure5.edp_worse", worse, value=savings(FITTED)["edp", "400"]["DenseNet121", 256])


def _best_strategies() -> Iterator[Claim]:
    """Yield two rows of the parallelism that broadcasts fewer bytes at each batch size (1, 32, 256): which it is for
    AlexNet, as "model, model, data", and for how many of the others it is data parallelism, as "8, 8, 8 of 8". Data
    parallelism wins ties."""

    def best(name: str, batch: int) -> str:
        """Return the parallelism that broadcasts fewer bytes in a pass."""
        data, model = (broadcast_bytes(printed()[name], batch, moved) for moved in ("data", "model"))
        return "data" if data <= model else "model"

    yield PAPER.claim("figure5.strategy_alexnet", ", ".join(best("AlexNet", batch) for batch in BATCHES))
    fewer = [sum(best(name, batch) == "data" for name in _OTHERS) for batch in BATCHES]
    all_neurons = sum(printed()[name].synapses <= printed()[name].neurons for name in _OTHERS)
    ours = f"{', '.join(map(str, fewer))} of {len(_OTHERS)}"
    yield PAPER.claim("figure5.data_parallel_best", ours, all_neurons=all_neurons)


# Table 1, the latency of the decoder, and package, blade and rack (Figs. 3 and 4).


def _chip_of_table_1() -> Iterator[Claim]:
    """Yield a row for each value of Table 1, ours those of the catalog's chip in the table's units, rounded to four
    decimals; bandwidths, of both directions together, follow from the links' bit rates."""
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
        "neuron_buffer": c.neuron_buffer / 2**10,
        "local_edram": c.local_edram / MIB,
        "central_edram": c.central_edram / MIB,
    }
    for name, speed in zip(LINKS, ("25", "100", "400"), strict=True):
        link = c.link(name)
        values[f"phy_power_{speed}"] = link.phy_power or 0.0
        values[f"latency_{speed}"] = link.latency * 1e9
    values |= {f"bandwidth_{int(rate)}": 2 * rate / 8 for rate in (25.6, 100, 400)}
    rates = {"products": c.product_rate / 1e9, "sums": c.sum_rate / 1e9}
    for what, (paper, unit) in TABLE_1.items():
        yield PAPER.claim("table1.{what}", round(values[what], 4), paper=paper, unit=unit, what=what, **rates)


def _decoder_latency() -> Claim:
    """Return the row of the nanoseconds that the decoder of the links' error correction takes, 47 cycles (cited by the
    paper) of the chip's clock."""
    (length, data), latency = CODE, DECODER_CYCLES / chip().frequency * 1e9
    solver, block_time = length - data, data * SYMBOL_BITS / 8 / 50e9 * 1e9
    cycles = {"decoder": DECODER_CYCLES, "solver": solver, "rest": DECODER_CYCLES - solver}
    values = {"corrects": solver // 2, "block_time": block_time}
    return PAPER.claim("table1.fec_latency", round(latency, 2), cycles=cycles, **values)


def _floorplan() -> Claim:
    """Return the row of the most chips that fit a package, the square of the chips along an edge, which are raised by
    one until the package is refused."""
    package = Package()
    millimetres = {name: getattr(package, name) * 1e3 for name in ("pitch", "gap", "link_width")}
    waveguides = 2 * package.waveguides
    side = 1
    with suppress(UnsupportedError):
        while Package(side=side + 1):
            side += 1
    return PAPER.claim("figure3.chips_a_package", side**2, waveguides=waveguides, package=package, **millimetres)


def _rack() -> Iterator[Claim]:
    """Yield a row of the chips of a rack, and one of those that the largest case, ResNet152 at batch 256, needs; the
    explanation quotes why a rack refuses it."""
    verdict = refusal(lambda: check_rack(printed()["ResNet152"], 256, chip()))
    yield PAPER.claim("figure4.rack_chips", Rack().chips)
    yield PAPER.claim("figure4.largest_case_chips", chips("ResNet152", 256), verdict=verdict)


# Table 2: layers, synapses and neurons of nine CNNs, counted from their graphs.

_SOFTMAX = 1000 * 4 * NEURON_BATCH / MIB
_LAST_TENSOR = 7 * 7 * 2048 * 4 * NEURON_BATCH / MIB
"""Size of an output of a ResNet's last stage, in MiB."""


def sizes(counts: Network) -> Row:
    """Return counts in the units of Table 2: layers, convolutions and fully connected ones, MiB of synapses, MiB of the
    neurons of a batch of 32 (``counts`` has those of one sample), both rounded to two decimals, and the quotient of the
    two, synapses over neurons, to four."""
    synapse = counts.synapses / MIB
    neuron = counts.neurons * NEURON_BATCH / MIB
    layers = counts.layers, counts.convolutions, counts.connected
    return Row(*layers, round(synapse, 2), round(neuron, 2), round(synapse / neuron, 4))


_TABLE_2_UNITS = {
    "layers": ("layers", 0.0),
    "convolutions": ("layers", 0.0),
    "connected": ("layers", 0.0),
    "synapse": ("MiB", 0.5),
    "neuron": ("MiB", 0.5),
    "ratio": ("", 0.005),
}
"""Unit and tolerance (half a unit of the last printed digit) of each count."""


def _rows_of_table_2(name: str) -> Iterator[Claim]:
    """Yield the six rows of Table 2 for a network, by its name there: our counts from the graphs beside the printed
    ones, in the units of :func:`sizes`; for Inception-v3 those of the zoo's graph, not of the guessed variant, which is
    in the explanation."""
    paper, counts = TABLE_2[name], stored()[name]
    ours, variant = sizes(counts), sizes(stored()[INCEPTION_VARIANT])
    for what, (unit, tolerance) in _TABLE_2_UNITS.items():
        values: dict[str, Any] = {"what": what, "network": _identifier(name), "zoo": ZOO[name], "variant": variant}
        values |= {"paper": getattr(paper, what), "unit": unit, "tolerance": tolerance}
        values["without"] = ours.neuron - _LAST_TENSOR + _SOFTMAX
        if what == "ratio":
            values["basis"] = "derived"
        if what == "connected" and paper.connected == 1:
            values |= {"basis": "by construction", "why": "a classifier ends in one, which needs no count"}
        yield PAPER.claim("table2.{what}_{network}", getattr(ours, what), **values)


def _identifier(name: str) -> str:
    """Return a network's name as part of a claim's id: "Inception-v1" gives "inception_v1"."""
    return name.lower().replace("-", "_")


# Beyond the paper: faster links, other topologies, and a broadcast that uses both axes of the mesh.

SPEEDS = ("400-O", "800-O", "1600-O", "3200-O")
"""Kinds of links by their bandwidth in one direction."""
TOPOLOGIES: dict[str, Hops] = {"mesh": mesh_hops, "ring": ring_hops, "tree": tree_hops}


def link(name: str) -> ChipLink:
    """Return the links between chips of a name such as ``800-O``, on a mesh, with the bandwidth of one direction;
    ``infinite`` has infinite bandwidth and 400-O's latency, ``ideal`` infinite bandwidth and no latency; these two have
    no PHY power.

    Raises:
        UnknownNameError: the chip has no such links.
    """
    if name in ("infinite", "ideal"):
        return ChipLink(inf, link_of(chip(), "400-O").latency if name == "infinite" else 0.0)
    return link_of(chip(), name)


def time_saved(name: str, topology: str = "mesh") -> Figures:
    """Return the percentage of time, by case (network, batch), that links, at the bandwidth of one direction, save over
    the electrical mesh, at 6.4 GB/s (both directions), with the fitted constants; negative where they take more.
    ``name`` is that of the links, such as ``800-O``, or ``infinite`` or ``ideal`` (:func:`link`); ``topology`` is
    ``mesh``, ``ring`` or ``tree``."""
    return saved("time", link(name)._replace(hops=TOPOLOGIES[topology]), links(MIXED)["25-E"], FITTED)


def both_axes() -> Figures:
    """Return the percentage of time, by case (network, batch), that the electrical mesh saves when its broadcasts use
    both axes at once, with the fitted constants.

    The bandwidth term of Eq. 3 halves (:mod:`lightloom.collectives.algorithms.direct`), as if links were twice as fast.
    """
    electrical = links(MIXED)["25-E"]
    return saved("time", electrical._replace(bandwidth=2 * electrical.bandwidth), electrical, FITTED)


def _beyond_the_paper() -> Iterator[Claim]:
    """Yield rows of the mean percentage of time saved, without a value of the paper: by optical links of each speed,
    infinitely fast and ideal ones on a mesh, by those of each speed in a ring and a tree, and by both axes of the
    electrical mesh at once."""
    yield from (_row_beyond_the_paper(name, time_saved(name)) for name in (*SPEEDS, "infinite", "ideal"))
    for topology in ("ring", "tree"):
        yield from (_row_beyond_the_paper(f"{name}_{topology}", time_saved(name, topology)) for name in SPEEDS)
    yield _row_beyond_the_paper("both_axes_25", both_axes())


def _row_beyond_the_paper(what: str, figures: Figures) -> Claim:
    """Return the row of the mean percentage of time saved over all cases, to two decimals; its explanation also states
    the mean at batch 256 and DenseNet121's at batch 256. ``what`` names the links and topology, as "800-O_ring",
    ``figures`` has the percentage of each case."""
    large, dense = mean(figures, batch=256), figures["DenseNet121", 256]
    remark = next((f"; {text}" for key, text in PAPER.tables["beyond"].items() if key in what), "")
    what = f"beyond_{what.lower().replace('-o', 'g')}"
    return PAPER.claim("headline.{what}", round(mean(figures), 2), what=what, remark=remark, large=large, dense=dense)


def claims() -> tuple[Claim, ...]:
    """Return all rows, in the order of the paper."""
    return (
        *(*_chip_of_table_1(), _decoder_latency(), _floorplan(), *_rack()),
        *(claim for name in TABLE_2 for claim in _rows_of_table_2(name)),
        *equation_3_claims(),
        *_figure_2(),
        *(*_chips_of_cases(), *_with_batch(), *_best_strategies()),
        *(*_headlines(), *_best_networks(), *_other_readings()),
        *_beyond_the_paper(),
    )
