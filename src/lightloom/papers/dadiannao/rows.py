"""The rows of the DaDianNao study: its tables, its figures, the headlines, and what lies beyond the paper."""

from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise, product
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
    MIXED,
    ONE_DIRECTION,
    ONE_FITTED,
    PEAK,
    Bandwidths,
    Figures,
    Savings,
    check_rack,
    chip,
    equation_3_claims,
    headlines,
    link_of,
    links,
    mean,
    ring_hops,
    run,
    saved,
    savings,
    tree_hops,
)
from lightloom.papers.dadiannao.networks import INCEPTION_VARIANT, MIB, ZOO, all_counted, printed, stored
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

_HEADLINE_UNITS = "electrical links at 6.4 GB/s (both directions), optical at 12.5 and 50 GB/s (one direction)"
_TABLE_1 = "6.4, 25 and 100 GB/s, Table 1"


def largest_ratio(bandwidths: Bandwidths) -> float:
    """Return the most that time saved by 400-O can be over that by 100-O under Eqs. 1 to 3, whatever the compute model.

    A step's time is convex and rising in 1/BW: C + latency + D/BW, or per layer the larger of computation and that. A
    chord over a longer range is therefore no steeper than one that ends at the same slow link, so that
    saved(400)/saved(100) is at most the ratio of the steps in 1/BW; the longer latency of 400-O only lowers it.
    """
    electrical, hundred, four_hundred = (1 / each for each in bandwidths)
    return (electrical - four_hundred) / (electrical - hundred)


def _headline_row(template: str, what: str, ours: dict[str, float], **values: Any) -> Claim:
    """Return the row of the headline ``what``, where ``ours`` are all ten by name."""
    return PAPER.claim(f"headline.{template}", round(ours[what], 2), paper=HEADLINE[what], what=what, **values)


def _averages(suffix: str, ours: dict[str, float], template: str = "{what}{suffix}", **values: Any) -> list[Claim]:
    """Return the two rows of mean time saved, at 100 and 400 Gb/s, out of the ten headlines ``ours``."""
    values |= {"suffix": suffix}
    return [_headline_row(template, f"time_average_{speed}", ours, speed=speed, **values) for speed in ("100", "400")]


def _winners() -> Iterator[Claim]:
    """Yield the ten headlines, per cent of time and of energy-delay product that optical links save over electrical
    ones, with two fitted constants and with one, then the network that saves most at each speed of links."""
    for suffix, constants in (("", FITTED), ("_one_constant", ONE_FITTED)):
        why = f"fitted: R = {constants.passes:g}, β = {constants.synapse:g}; {_HEADLINE_UNITS}"
        ours = headlines(savings(constants))
        yield from (_headline_row("{what}{suffix}", what, ours, why=why, suffix=suffix) for what in HEADLINE)
    fitted = savings(FITTED)
    for speed, paper in BEST.items():
        for what in ("time", "edp"):
            figures = fitted[what, speed]
            (name, batch) = max(figures, key=lambda case: figures[case])
            values: dict[str, Any] = {"what": what, "speed": speed, "batch": batch}
            values |= {"vgg16": figures["VGG16", 1], "vgg19": figures["VGG19", 1]}
            yield PAPER.claim("headline.{what}_best_network_{speed}", name, paper=paper, **values)


def _impossible() -> Iterator[Claim]:
    """Yield rows on headlines that contradict each other: 400 over 100 Gb/s beside the largest possible ratio, and the
    least that the best at 100 Gb/s must be."""
    bound, mixed = largest_ratio(BOTH_DIRECTIONS), largest_ratio(MIXED)
    for what, suffix in (("time_average", ""), ("time_batch256", "_batch256")):
        paper = round(HEADLINE[f"{what}_400"] / HEADLINE[f"{what}_100"], 3)
        values = {"paper": paper, "suffix": suffix, "bound": bound, "mixed": mixed}
        yield PAPER.claim("headline.saved_400_over_100{suffix}", round(bound, 3), **values)
    least = round(HEADLINE["time_best_400"] / bound, 1)
    yield PAPER.claim("headline.time_best_100_at_least", least, paper=HEADLINE["time_best_100"], bound=bound)


def _consistent() -> Iterator[Claim]:
    """Yield the mean time saved with the fitted computation where all links have one kind of bandwidth, of one
    direction or of both."""
    why = "the fitted computation, with one kind of bandwidth for all links: {}. The paper would understate optics"
    for suffix, bandwidths, rates in (
        ("_one_direction", ONE_DIRECTION, "3.2, 12.5 and 50 GB/s"),
        ("_both_directions", BOTH_DIRECTIONS, _TABLE_1),
    ):
        yield from _averages(suffix, headlines(savings(FITTED, bandwidths)), why=why.format(rates), basis="stand-in")


def _unfitted() -> Iterator[Claim]:
    """Yield the mean time saved with arithmetic at the peak rate, by bandwidths, and with the fitted constants on sizes
    counted from the graphs."""
    for suffix, bandwidths, rates in (
        ("_peak_mixed", MIXED, _HEADLINE_UNITS),
        ("_peak_table1", BOTH_DIRECTIONS, _TABLE_1),
    ):
        ours = headlines(savings(PEAK, bandwidths))
        yield from _averages(suffix, ours, "time_average_{speed}{suffix}", rates=rates)
    why = "the fitted constants with sizes counted from the graphs, Inception-v3 as published"
    yield from _averages("_counted", headlines(savings(FITTED, networks=all_counted())), why=why, basis="stand-in")


# Figure 2: share of communication in a step on electrical links.

DOMINATED = ("VGG16", "VGG19", "ResNet50", "ResNet101", "ResNet152")
"""Networks for which the text calls communication dominant."""
FIGURE_2_BATCHES = (1, 32)
"""Batch sizes that the text names for Fig. 2."""


def share(name: str, batch: int, constants: Constants = FITTED) -> float:
    """Return the share of communication in a step on 25-E, from 0 to 1."""
    result = run(printed()[name], batch, links(MIXED)["25-E"], constants)
    return result.communication_time / result.time


def _figure_2() -> Iterator[Claim]:
    """Yield rows on the text about Fig. 2; its bars exist only as an image."""
    implied = headlines(savings(PEAK))["time_average_400"]
    for name, batch in product(DOMINATED, FIGURE_2_BATCHES):
        ours, at_peak = share(name, batch), share(name, batch, PEAK)
        values = {"network": name.lower(), "batch": batch, "ours_percent": 100 * ours, "at_peak_percent": 100 * at_peak}
        verdict = "dominant" if ours > 0.5 else "not dominant"
        yield PAPER.claim("figure2.communication_{network}_batch{batch}", verdict, implied=implied, **values)
    alone, many = (share("AlexNet", batch) for batch in FIGURE_2_BATCHES)
    trend, percent = "grows" if many > alone else "falls", {"alone_percent": 100 * alone, "many_percent": 100 * many}
    yield PAPER.claim("figure2.share_alexnet_with_batch", trend, **percent)


# Figure 5: chips, the trends over batch sizes, the best strategy, and the one case whose EDP gets worse.


def _chips_of_cases() -> Iterator[Claim]:
    """Yield a row for each network: the chips needed at each batch size, separated by slashes."""
    for name, network in printed().items():
        ours, from_graph = (
            "/".join(str(chips_needed(each, batch, chip().edram)) for batch in BATCHES)
            for each in (network, all_counted()[name])
        )
        remark = f" (as counted from the graph: {from_graph})" if from_graph != ours else ""
        yield PAPER.claim("figure5.chips_{network}", ours, remark=remark, network=_identifier(name))


def worse(changes: Savings) -> list[str]:
    """Return the cases whose EDP rises, each as text "network, batch, speed"."""
    return [
        f"{name}, batch {batch}, {speed} Gb/s"
        for (quantity, speed), figures in changes.items()
        for (name, batch), value in figures.items()
        if quantity == "edp" and value < 0
    ]


def _with_batch(changes: Savings) -> Iterator[Claim]:
    """Yield a row for each speed: whether mean time saved falls ever less from batch to batch, over all networks but
    AlexNet."""
    for speed in ("100", "400"):
        data_parallel = {case: value for case, value in changes["time", speed].items() if case[0] != "AlexNet"}
        means = [mean(data_parallel, batch) for batch in BATCHES]
        falls = [a - b for a, b in pairwise(means)]
        shape = "falls, ever less" if falls[0] > falls[1] > 0 else "otherwise"
        text = " → ".join(f"{value:.1f}" for value in means)
        yield PAPER.claim("figure5.saved_with_batch_{speed}", shape, speed=speed, means=text)


def _every_network(changes: Savings) -> Claim:
    """Return the row of how many networks gain time at 400 Gb/s, by the mean over the batch sizes."""
    by_network = {name: fmean(changes["time", "400"][name, batch] for batch in BATCHES) for name in printed()}
    gaining = f"all {sum(value > 0 for value in by_network.values())}"
    text = ", ".join(f"{name} {value:.0f}" for name, value in by_network.items())
    return PAPER.claim("figure5.every_network_gains", gaining, saved=text)


def _best_strategies() -> Iterator[Claim]:
    """Yield the strategy that broadcasts fewer bytes: for AlexNet by batch, and how many of the others prefer data
    parallelism."""

    def sent(name: str, batch: int) -> tuple[float, float]:
        """Return the bytes that a pass broadcasts under data and under model parallelism."""
        network = printed()[name]
        return broadcast_bytes(network, batch, "data"), broadcast_bytes(network, batch, "model")

    for batch in BATCHES:
        data, model = sent("AlexNet", batch)
        best = "data" if data <= model else "model"
        values = {"batch": batch, "data": data / 2**20, "model": model / 2**20}
        yield PAPER.claim("figure5.strategy_alexnet_batch{batch}", best, **values)
    others = [name for name in printed() if name != "AlexNet"]
    for batch in BATCHES:
        sizes = {name: sent(name, batch) for name in others}
        names = [name for name, (data, model) in sizes.items() if data < model]
        ours = f"{len(names)} of {len(others)}"
        yield PAPER.claim("figure5.data_parallel_best_batch{batch}", ours, batch=batch, names=", ".join(names))


# Table 1, the derivation of the latency of 160 ns, and package, blade and rack (Figs. 3 and 4).

_MEBI, _KIBI = 2.0**20, 2.0**10


def chip_in_units_of_table_1() -> dict[str, float]:
    """Return our chip's values by the names and in the units of Table 1."""
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


def _chip_of_table_1() -> Iterator[Claim]:
    """Yield a row for each value of Table 1, and the bandwidths of both directions that follow from the links' bit
    rates."""
    rates = {"products": chip().product_rate / 1e9, "sums": chip().sum_rate / 1e9}
    values = chip_in_units_of_table_1()
    for what, (paper, unit) in TABLE_1.items():
        yield PAPER.claim("table1.{what}", round(values[what], 4), paper=paper, unit=unit, what=what, **rates)
    for name, rate in (("25", 25.6), ("100", 100.0), ("400", 400.0)):
        paper, _ = TABLE_1[f"bandwidth_{name}"]
        yield PAPER.claim("table1.bandwidth_{name}_from_rate", 2 * rate / 8, paper=paper, name=name, rate=rate)


def _decoder_latency() -> Iterator[Claim]:
    """Yield the nanoseconds that the error correction's decoder takes, and the latency of 400 Gb/s links with it."""
    (length, data), latency = CODE, DECODER_CYCLES / chip().frequency * 1e9
    solver, block_time = length - data, data * SYMBOL_BITS / 8 / 50e9 * 1e9
    cycles = {"decoder": DECODER_CYCLES, "solver": solver, "rest": DECODER_CYCLES - solver}
    values = {"corrects": solver // 2, "block_time": block_time}
    yield PAPER.claim("table1.fec_latency", round(latency, 2), cycles=cycles, **values)
    yield PAPER.claim("table1.latency_400_derived", round(80 + latency, 2))


def _floorplan() -> Claim:
    """Return the row of the most chips that fit a package, found by raising the side until it is refused."""
    package = Package()
    millimetres = {name: getattr(package, name) * 1e3 for name in ("pitch", "gap", "link_width")}
    waveguides = 2 * package.waveguides
    side = 1
    with suppress(UnsupportedError):
        while Package(side=side + 1):
            side += 1
    return PAPER.claim("figure3.chips_a_package", side**2, waveguides=waveguides, package=package, **millimetres)


def _rack() -> Iterator[Claim]:
    """Yield the chips of a rack, and those that the largest case, ResNet152 at batch 256, needs."""
    network = printed()["ResNet152"]
    try:
        check_rack(network, 256, chip())
        verdict = ""
    except UnsupportedError as error:
        verdict = str(error)
    chips, needed = Rack().chips, chips_needed(network, 256, chip().edram)
    yield PAPER.claim("figure4.rack_chips", chips)
    yield PAPER.claim("figure4.largest_case_chips", needed, paper=chips, verdict=verdict)


# Table 2: layers, synapses and neurons of nine CNNs, counted from their graphs.

_SOFTMAX = 1000 * 4 * NEURON_BATCH / MIB
_LAST_TENSOR = 7 * 7 * 2048 * 4 * NEURON_BATCH / MIB
"""Size of an output of a ResNet's last stage, in MiB."""


def sizes(counts: Network) -> Row:
    """Return counts in the units of Table 2: layers, MiB of synapses, MiB of neurons of a batch, and the quotient of
    the two."""
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


def _rows_of_table_2(name: str, counts: Network, suffix: str = "") -> list[Claim]:
    """Return the six rows of Table 2 for a network of the paper, from its counts."""
    paper, ours, rows = TABLE_2[name], sizes(counts), []
    for what, (unit, tolerance) in _TABLE_2_UNITS.items():
        values: dict[str, Any] = {"what": what, "network": _identifier(name), "suffix": suffix, "zoo": ZOO[name]}
        values |= {"paper": getattr(paper, what), "unit": unit, "tolerance": tolerance}
        values |= {"basis": "derived"} if what == "ratio" else {}
        rows.append(PAPER.claim("table2.{what}_{network}{suffix}", getattr(ours, what), **values))
    return rows


def _identifier(name: str) -> str:
    """Return a network's name as part of a claim's id."""
    return name.lower().replace("-", "_")


def _without_one_tensor(name: str) -> Claim:
    """Return the row of a ResNet's neurons in MiB without one output of its last stage but with its softmax."""
    ours = stored()[name].neurons * NEURON_BATCH / MIB - _LAST_TENSOR + _SOFTMAX
    values = {"paper": TABLE_2[name].neuron, "network": _identifier(name), "last_tensor": _LAST_TENSOR}
    return PAPER.claim("table2.neuron_{network}_without_one_tensor", round(ours, 2), **values)


# Beyond the paper: faster links, other topologies, and a broadcast that uses both axes of the mesh.

SPEEDS = ("400-O", "800-O", "1600-O", "3200-O")
"""Kinds of links by their bandwidth in one direction."""
TOPOLOGIES: dict[str, Hops] = {"mesh": mesh_hops, "ring": ring_hops, "tree": tree_hops}


def link(name: str) -> ChipLink:
    """Return a link by its name; ``infinite`` has infinite bandwidth and 400-O's latency, ``ideal`` also no latency."""
    if name in ("infinite", "ideal"):
        return ChipLink(inf, link_of(chip(), "400-O").latency if name == "infinite" else 0.0)
    return link_of(chip(), name)


def time_saved(name: str, topology: str = "mesh") -> Figures:
    """Return the percentage of time, by case, that links of that name in a topology save over the electrical mesh."""
    return saved("time", link(name)._replace(hops=TOPOLOGIES[topology]), links(MIXED)["25-E"], FITTED)


def both_axes() -> Figures:
    """Return the percentage of time, by case, that the electrical mesh saves when its broadcasts use both axes at once.

    The bandwidth term of Eq. 3 halves (:mod:`lightloom.collectives.algorithms.direct`), as if links were twice
    as fast.
    """
    electrical = links(MIXED)["25-E"]
    return saved("time", electrical._replace(bandwidth=2 * electrical.bandwidth), electrical, FITTED)


def _beyond_the_paper() -> Iterator[Claim]:
    """Yield rows without a value of the paper: faster links, other topologies, and both axes of the mesh at once."""
    yield from (_row_beyond_the_paper(name, time_saved(name)) for name in (*SPEEDS, "infinite", "ideal"))
    for topology in ("ring", "tree"):
        yield from (_row_beyond_the_paper(f"{name}_{topology}", time_saved(name, topology)) for name in SPEEDS)
    yield _row_beyond_the_paper("both_axes_25", both_axes())


def _row_beyond_the_paper(what: str, figures: Figures) -> Claim:
    """Return the row of the mean percentage saved over all cases, which also states that at batch 256 and
    DenseNet121's."""
    large, dense = mean(figures, batch=256), figures["DenseNet121", 256]
    remark = next((f"; {text}" for key, text in PAPER.tables["beyond"].items() if key in what), "")
    what = f"beyond_{what.lower().replace('-o', 'g')}"
    return PAPER.claim("headline.{what}", round(mean(figures), 2), what=what, remark=remark, large=large, dense=dense)


def claims() -> tuple[Claim, ...]:
    """Return all rows, in the order of the paper."""
    changes = savings(FITTED)
    edp = PAPER.claim("figure5.edp_worse", "; ".join(worse(changes)), value=changes["edp", "400"]["DenseNet121", 256])
    return (
        *(*_chip_of_table_1(), *_decoder_latency(), _floorplan(), *_rack()),
        *(claim for name in TABLE_2 for claim in _rows_of_table_2(name, stored()[name])),
        *_rows_of_table_2("Inception-v3", stored()[INCEPTION_VARIANT], "_variant"),
        *(_without_one_tensor(name) for name in ("ResNet50", "ResNet101", "ResNet152")),
        *equation_3_claims(),
        *_figure_2(),
        *(*_chips_of_cases(), edp, *_with_batch(changes), _every_network(changes), *_best_strategies()),
        *(*_winners(), *_impossible(), *_consistent(), *_unfitted()),
        *_beyond_the_paper(),
    )
