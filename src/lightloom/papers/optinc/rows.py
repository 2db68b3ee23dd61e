"""The rows of the OptINC study.

The two models of Fig. 7(b) are stored as graphs, so that the study needs no PyTorch; to trace them anew:

    python -m lightloom.papers.optinc.rows
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import as_file, files
from itertools import product
from math import floor
from pathlib import Path
from typing import Any

import numpy as np

from lightloom.collectives.collective import Collective
from lightloom.collectives.registry import build as build_schedule
from lightloom.collectives.registry import find
from lightloom.core.claims import Claim
from lightloom.core.files import write_atomically
from lightloom.machines.clusters.cluster import TrainingSettings
from lightloom.machines.clusters.load import load_cluster
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.load import changed
from lightloom.machines.fabrics.optical_averager import OpticalAverager
from lightloom.machines.fabrics.switches import PacketSwitch
from lightloom.models.graph import ComputeGraph
from lightloom.models.zoo import TRACE_BATCH, ZOO, resolve
from lightloom.papers.optinc import PAPER
from lightloom.papers.study import BASE, Record, paired
from lightloom.photonics.averaging.averagers import TABLE_II_ERRORS
from lightloom.photonics.averaging.block_quantisation import averaging_bias, synchronisation_share
from lightloom.photonics.averaging.cascade import Cascade, build_cascade, end_to_end
from lightloom.photonics.averaging.construct import Construction, build
from lightloom.photonics.averaging.function import AveragingFunction, digits, symbols_for
from lightloom.photonics.averaging.networks import TABLE_I, TABLE_II, PaperNetwork, load_network
from lightloom.photonics.averaging.proof import Verification, verify
from lightloom.photonics.meshes.mapping import approximated_count
from lightloom.planning.parallelism.plan import make_plan
from lightloom.planning.pricing.collective_prices import SchedulePrices
from lightloom.planning.simulation.engine import StepResult, simulate_step

# Figures of the paper that the rows compare with.

RING_TRAFFIC: Mapping[int, float] = {4: 1.5, 8: 1.75, 16: 1.875}
"""Fig. 6: bytes over bytes of the gradient, by servers; OptINC's are 1."""
ACCURACY: Mapping[str, float] = {"4-6": 100.0, "4-7": 99.99986, "4-8": 99.99999, "3-6": 99.98891, "3-7": 99.99936}
"""Table II by approximated layers, percent."""
ROWS = tuple(ACCURACY)
"""Table II's rows in the order of `averaging.area.TABLE_II`."""
SAVED: Mapping[str, float] = {"resnet50": 25.0, "llama": 17.0}
"""Fig. 7(b): less time than with the ring, percent ("over" and "around")."""
SYNCHRONISATION = 0.4
"""Section IV: less than this, percent of the gradient."""
CASCADE_OVERHEAD = 10.5
"""Section IV: of the two 64 x 64 matrices that the cascade's networks have more, percent."""

PHASES = {"phase 1e-3": 1e-3, "phase 3e-3": 3e-3, "phase 5e-3": 5e-3, "phase 1e-2": 1e-2}


def _aware(aware: Record) -> Claim:
    """Return the row on training that knows its devices' errors: how many seeds err less with it."""
    verdict = aware["verdict"]
    shares = {arm: error_shares(aware, arm, verdict["at"]) for arm in ("unaware", "aware")}
    means = {arm: sum(values) / len(values) for arm, values in shares.items()}
    built = min(row["wrong"][verdict["at"]] for row in aware["constructed"])
    why = (
        f"{verdict['seeds']} seeds in pairs, {aware['budget_cpu_seconds']:g} CPU seconds each, 4 servers of 4 bits, "
        f"phase errors of 3e-3 rad: {100 * means['unaware']:.2g} % wrong without errors in training, "
        f"{100 * means['aware']:.2g} % with them; {100 * built:.2g} % constructed. The paper trains for Σ·U alone"
    )
    return PAPER.claim("example.aware_training_fewer_wrong", verdict["fewer_wrong_with_awareness"], why=why)


def error_shares(aware: Record, arm: str, name: str) -> list[float]:
    """Return the share of wrong averages (0 to 1) of each training of an arm, ``aware`` or ``unaware``, at the phase
    errors ``name``, in the order of seeds."""
    rows = sorted((row for row in aware["trainings"] if row["arm"] == arm), key=lambda row: row["seed"])
    return [row["wrong"][name] for row in rows]


# Section III-C: two levels of averagers for 16 servers, with and without the decimals carried between them.

TUPLES = 1_000_000
"""Number of tuples that are drawn; the slow tests draw ten times as many."""


def _cascading() -> Iterator[Claim]:
    """Yield the rows on the constructed cascade: errors without decimals, wrong outputs by level and end to end, and
    the MZIs of two 64 x 64 matrices in percent of the first scenario's network without its units."""
    cascade = built()
    first, second = cascade.first.verify(), cascade.second.verify()
    tuples = end_to_end(cascade, TUPLES)
    basic, percent = tuples["wrong_without_decimals"], 100 * tuples["share_wrong_without_decimals"]
    ours = "errors" if basic else "no errors"
    yield PAPER.claim("example.cascade_basic", ours, tuples_percent=percent, tuples=TUPLES)
    yield PAPER.claim("example.cascade_level1_wrong_outputs", first.wrong_outputs, first=first)
    yield PAPER.claim("example.cascade_level2_wrong_outputs", second.wrong_outputs, second=second)
    yield PAPER.claim("example.cascade_end_to_end_wrong_outputs", tuples["wrong_with_decimals"], tuples=TUPLES)
    network, more = TABLE_I[0], 2 * approximated_count(64, 64)
    alone, units = (100 * more / network.area(units=units) for units in (False, True))
    values = {"paper": CASCADE_OVERHEAD, "added": more, "area": network.area(units=False), "with_units": units}
    yield PAPER.claim("example.cascade_hardware_overhead", round(alone, 2), **values)


@cache
def built() -> Cascade:
    """Return the cascade of five averagers of 8 bits for 16 servers."""
    return build_cascade(4, 4, 8)


def _trained_cascade(record: Record) -> Iterator[Claim]:
    """Yield the rows on the cascade that was trained as the paper's, wrong outputs by level and end to end."""
    level_claim = "example.cascade_trained_level{number}_wrong_outputs"
    for number, (level, training) in enumerate(zip(record["levels"], record["trainings"], strict=True), 1):
        values = {"inputs": level["checked_inputs"], "cpu_seconds": training["cpu_seconds"]}
        yield PAPER.claim(level_claim, level["wrong_outputs"], number=number, **values)
    ends = record["end_to_end"]
    end_claim = "example.cascade_trained_end_to_end_wrong_outputs"
    yield PAPER.claim(end_claim, ends["wrong_with_decimals"], tuples=ends["tuples"])


# Fig. 7(a): effect of quantised and erroneous averages on training, on the available data.

_MISSING = "not among the measurements: python -m lightloom.papers.optinc.runs DIR makes what they lack"


def _learned(model: str, record: Any, key: str, words: str, places: int, **setting: Any) -> Iterator[Claim]:
    """Yield the rows of how much worse the variants of a model end than its baseline; ours is None where it was not
    measured, the paper's words where it is no worse than they say.

    Args:
        model: of the paper's table.
        record: runs of all variants; None where they were not measured.
        key: what is compared: a loss, of which more is worse, or ``accuracy``, of which less is.
        words: unit of the difference.
        places: decimals of the difference.
        setting: values of the explanations.
    """
    sign, scale = (-1.0, 100.0) if key == "accuracy" else (1.0, 1.0)
    for label, (name, paper) in PAPER.tables["training"][model].items():
        pairs = None if record is None else paired(record["runs"], name, key, scale)
        template, values = f"figure7a.{model}_{{label}}", {"label": label, "paper": f"at most {paper:g} {words}"}
        if pairs is None:
            yield PAPER.claim(template, None, why=_MISSING, **values)
        else:
            worse = sign * pairs.mean
            ours = values["paper"] if worse <= paper else f"{worse:.{places}f} {words}"
            yield PAPER.claim(template, ours, name=name, difference=pairs.text(places + 1), **values, **setting)


def _losses(model: str, record: Any) -> Iterator[Claim]:
    """Return the rows of a language model; their explanations state its corpus, steps and tokens, and the baseline's
    last losses."""
    setting = {}
    if record is not None:
        recipe = record["runs"][BASE][0]["recipe"]
        tokens = recipe["steps"] * recipe["servers"] * recipe["windows_per_server"] * recipe["sequence"]
        losses = [run["validation_loss"][-1] for run in record["runs"][BASE]]
        reached = " to ".join(dict.fromkeys(f"{loss:.3f}" for loss in (min(losses), max(losses))))
        setting = {"corpus": record["corpus"], "steps": recipe["steps"], "tokens": tokens, "reached": reached}
    return _learned(model, record, "validation_loss", "more", 3, **setting)


def _images(record: Any) -> Iterator[Claim]:
    """Yield the rows of ResNet-50's accuracy less the baseline's, in points, by variant; None where it was not
    measured."""
    for label, (name, paper) in PAPER.tables["training"]["resnet50"].items():
        pairs = None if record is None else paired(record["runs"], name, "accuracy", 100)
        measured = {} if pairs is None else {"why": f"{name} less {BASE}: {pairs.text(2)}"}
        ours = None if pairs is None else round(pairs.mean, 2)
        yield PAPER.claim("figure7a.resnet50_{label}", ours, paper=-paper, label=label, **measured)


# Inconsistencies of the paper's numbers, each with its proof.

_SERVERS, _BITS = 4, 8


def combinations(signals: int, servers: int) -> int:
    """Return the number of different inputs of ``signals`` PAM4 signals from each of ``servers``, by enumeration."""
    return len(set(product(range(4), repeat=signals * servers)))


def twos_complement_wrong(count: int = 200_000, seed: int = 0) -> float:
    """Return the share (0 to 1) of wrong means of ``count`` random draws, for four servers of 8 bits, if the digits of
    eq. 2 are those of two's complement."""
    rng = np.random.default_rng(seed)
    half = 1 << (_BITS - 1)
    values = rng.integers(-half, half, (_SERVERS, count))
    received = (values & (2 * half - 1)).sum(axis=0) // _SERVERS
    signed = np.where(received >= half, received - 2 * half, received)
    return float((signed != values.sum(axis=0) // _SERVERS).mean())


def floor_bias() -> float:
    """Return the mean of floor(T/N) − T/N over all codes, which is that over their last digits; in units of the last
    place."""
    sent = np.array(list(product(range(4), repeat=_SERVERS)))
    return float((sent.sum(axis=1) // _SERVERS - sent.mean(axis=1)).mean())


def _combinations() -> Iterator[Claim]:
    """Yield the rows of how many inputs there are, and of how many points the averaging function has, for four servers
    of 8 bits."""
    signals, servers = symbols_for(_BITS), _SERVERS
    small = {(m, n): combinations(m, n) for m, n in ((1, 2), (2, 2), (1, 4), (2, 4))}
    assert all(count == 4 ** (m * n) for (m, n), count in small.items())
    function = AveragingFunction.of(servers, _BITS)
    inputs, values = signals * servers, ", ".join(map(str, small))
    yield PAPER.claim("example.input_combinations", 4**inputs, paper=2**inputs, small=values)
    yield PAPER.claim("example.dataset", function.points, paper=(servers * 3 + 1) ** signals)


def _printed_areas() -> Iterator[Claim]:
    """Yield the rows of the lowest area ratio and the least reduction in percent, and each scenario's ratio without
    units."""
    lowest = min(TABLE_I, key=lambda network: network.printed)
    yield PAPER.claim("example.lowest_area", round(lowest.ratio(), 1))
    yield PAPER.claim("example.area_reduction", round(100 - max(network.ratio() for network in TABLE_I), 1))
    for network in TABLE_I:
        plain, template = network.ratio(units=False), "example.area_without_units_{network.bits}x{network.servers}"
        yield PAPER.claim(template, round(plain, 1), paper=network.printed, network=network, plain=plain)


def _bias_of_floor() -> Claim:
    """Return the row of floor's bias in units of the last place, beside that of rounding half-up."""
    return PAPER.claim("example.floor_bias", floor_bias(), averaging_bias=averaging_bias(_SERVERS, "half-up"))


def _twos_complement() -> Claim:
    """Return the row of the percentage of wrong means with digits of two's complement, with the digits of −1 and 1."""
    wrong = twos_complement_wrong()
    levels = digits(np.array([-1, 1]) & 0xFF, _BITS).astype(np.int64)
    words = ["".join(map(str, code)) for code in levels.T]
    return PAPER.claim("example.twos_complement", round(100 * wrong, 1), digits=words)


# Tables I and II: areas from the counts of meshes, accuracies from all inputs.

_CONVENTIONS = {"with_units": "with P and T", "without_units": "without P and T"}


def scenario(network: PaperNetwork) -> str:
    """Return bits and servers of a scenario as text, such as ``8x4``."""
    return f"{network.bits}x{network.servers}"


@cache
def constructed(bits: int, servers: int) -> tuple[Construction, Verification]:
    """Return the smallest constructed network and its verification on all inputs."""
    construction = build(servers, bits)
    return construction, construction.verify()


def points() -> int:
    """Return the number of inputs of the fourth scenario's grid, which Table II counts."""
    return AveragingFunction.of(4, 16).points


def counts(row: str) -> range:
    """Return the numbers of wrong outputs that round to Table II's accuracy of a row, as a range."""
    total = points()
    low, high = ((100 - ACCURACY[row] + shift) / 100 * total for shift in (-5e-6, 5e-6))
    return range(max(floor(low) + 1, 0), floor(high) + 1)


def likely_count(row: str) -> int:
    """Return the number of wrong outputs nearest to the printed accuracy of a row of Table II."""
    return min(counts(row), key=lambda count: abs(100 * (1 - count / points()) - ACCURACY[row]))


def rms(row: str) -> float:
    """Return the root mean square error of a row of Table II, of mean codes in units of the last place."""
    return TABLE_II_ERRORS[row].rms


def _area(network: PaperNetwork) -> Iterator[Claim]:
    """Yield a scenario's rows of Table I: the area ratio in percent with units, and with economy-size matrices without
    them."""
    values = {"name": scenario(network), "paper": network.printed}
    counts = {"area": network.area(), "full": network.area(approximated=False), "ratio": network.ratio()}
    yield PAPER.claim("table1.area_{name}", round(network.ratio(), 1), **values, **counts)
    economy = {"area": network.area("economy", True, False), "full": network.area("economy", False, False)}
    ours = round(network.ratio("economy", units=False), 1)
    yield PAPER.claim("table1.area_economy_{name}", ours, **values, **economy)


def _constructed(network: PaperNetwork) -> Iterator[Claim]:
    """Yield a scenario's rows on the constructed network: its accuracy in percent, and its MZIs beside the trained
    one's."""
    construction, verification = constructed(network.bits, network.servers)
    values = {"name": scenario(network), "construction": construction, "verification": verification}
    yield PAPER.claim("table1.accuracy_constructed_{name}", 100 * verification.accuracy, **values)
    layers, trained = "-".join(map(str, construction.network.layers)), network.area(units=False)
    yield PAPER.claim(
        "table1.mzis_constructed_{name}", construction.mzi_count, paper=trained, layers=layers, name=scenario(network)
    )


def _table_ii_areas() -> list[Claim]:
    """Return the rows of Table II's areas; each says with which convention of units the printed one comes out."""
    rows = []
    for row, network in zip(ROWS, TABLE_II, strict=True):
        areas = {"with_units": network.ratio(), "without_units": network.ratio(units=False)}
        printing = [words for name, words in _CONVENTIONS.items() if round(areas[name], 1) == network.printed]
        values = {"ident": _identifier(row), "verdict": " and ".join(printing) or "in neither way", **areas}
        rows.append(PAPER.claim("table2.area_{ident}", round(areas["with_units"], 1), paper=network.printed, **values))
    return rows


def _identifier(row: str) -> str:
    """Return a row of Table II as a part of a claim's id."""
    return f"layers{row.replace('-', '_')}"


def _wrong_outputs() -> Iterator[Claim]:
    """Yield the rows of wrong outputs per million inputs, for Table II's rows but the first, which has none."""
    for row in ROWS[1:]:
        count, possible = likely_count(row), counts(row)
        several = f"{possible[0]:,}" if len(possible) == 1 else f"{possible[0]:,} to {possible[-1]:,}"
        values = {"ident": _identifier(row), "printed_percent": ACCURACY[row], "count": count}
        values |= {"points": points(), "rivals": several, "rms": rms(row)}
        ours, paper = round(1e6 * count / points(), 1), round(1e4 * (100 - ACCURACY[row]), 1)
        yield PAPER.claim("table2.wrong_{ident}", ours, paper=paper, **values)


def _ranking() -> Claim:
    """Return the row of Table II's erring networks by RMS error, the least first, beside their order by accuracy, the
    best first."""
    erring = ROWS[1:]
    by_accuracy = sorted(erring, key=lambda row: -ACCURACY[row])
    by_rms = sorted(erring, key=rms)
    sizes = ", ".join(f"{row} {rms(row):.3g}" for row in by_rms)
    return PAPER.claim("table2.order", ", ".join(by_rms), paper=", ".join(by_accuracy), sizes=sizes)


# Fig. 6 and section I: bytes that a server sends, counted in schedules that passed the verifier.

_NBYTES = 1e6


@cache
def sent(algorithm: str, servers: int) -> float:
    """Return the most bytes that a server sends in an all-reduce, over the bytes of the gradient: ``ring`` or
    ``in-network``."""
    fabric: Fabric = OpticalAverager(ranks=servers) if algorithm == "in-network" else PacketSwitch(ranks=servers)
    schedule = build_schedule(find(algorithm), Collective("all-reduce", servers, _NBYTES), fabric).unfolded(1)
    rows = np.bincount(schedule.source, minlength=servers)[:servers]
    return float(rows.max() * schedule.chunk_nbytes / _NBYTES)


def _figure_6() -> Iterator[Claim]:
    """Yield bytes sent over bytes of the gradient with the ring and with OptINC, by number of servers."""
    for n, ring in RING_TRAFFIC.items():
        yield PAPER.claim("figure6.ring_n{n}", sent("ring", n), paper=ring, n=n)
        yield PAPER.claim("figure6.optinc_n{n}", sent("in-network", n), n=n)


def _overhead_of_ring() -> Iterator[Claim]:
    """Yield percent more bytes that the ring sends than OptINC, by number of servers."""
    for n in RING_TRAFFIC:
        ours, form = 100 * (sent("ring", n) / sent("in-network", n) - 1), 100 * (n - 2) / n
        yield PAPER.claim("headline.ring_overhead_n{n}", ours, n=n, form=form)


def _synchronisation() -> Claim:
    """Return the row of the bytes that synchronise scales, in percent of the gradient's: the larger of those for 8 and
    16 bits."""
    shares = {bits: 100 * synchronisation_share(1 << 20, bits) for bits in (8, 16)}
    words, most = f"less than {SYNCHRONISATION:g} %", max(shares.values())
    ours = words if most < SYNCHRONISATION else f"{most:.2f} %"
    return PAPER.claim("headline.synchronisation", ours, paper=words, shares=shares)


# Trained networks: their accuracy with our weights, and their noise limits compared with constructed networks.

TARGET_TOLERANCE, TARGET_AREA = 2.0, 2.0
"""Target of constructed networks: multiple of the best trained one's noise limit, at a percentage of its MZIs."""
_WEIGHTS = "exact"
_TRAINED_ONCE = 2
"""Scenario whose training was stopped before it converged."""


_TRAINED = files("lightloom.photonics") / "onn" / "trained"
"""Folder of the trained networks, whose own package would bring PyTorch along."""


def kept(name: str) -> Any:
    """Return the record of that name that is kept beside the trained networks."""
    return json.loads((_TRAINED / f"{name}.json").read_text(encoding="utf-8"))


def _accuracies() -> Iterator[Claim]:
    """Yield the accuracy of trained networks by scenario, in percent; None where no training is kept.

    The first scenario's comes from its kept weights on all inputs, the second's from the record of its training.
    """
    with as_file(_TRAINED / f"{_WEIGHTS}.npz") as path:
        weights, arguments = load_network(path)
    verification = verify(weights, arguments.function())
    for number, network in enumerate(TABLE_I, 1):
        template, command = "table1.accuracy_trained_{name}", f"lightloom onn train --scenario {number}"
        values: dict[str, Any] = {"name": scenario(network), "command": command}
        if number == 1:
            yield PAPER.claim(template, 100 * verification.accuracy, verification=verification, **values)
        elif number == _TRAINED_ONCE:
            record = kept(f"scenario-{number}")
            why = (
                f"trained for {record['epochs']} of {record['recipe']['epochs']} epochs, {record['cpu_seconds']:.0f} "
                f"CPU seconds of one core, and stopped there: {record['wrong_outputs']:,} wrong of all "
                f"{record['checked_inputs']:,} inputs, not converged; a kept record. {command} --batch "
                f"{record['recipe']['batch']} repeats the training"
            )
            yield PAPER.claim(template, round(100 * record["accuracy"], 2), why=why, **values)
        else:
            yield PAPER.claim(template, None, area=network.area(units=False), **values)


def best(noise: Record, kind: str, units: str = "any") -> Any:
    """Return the network's row with the highest noise limit, of one kind and kind of units (``any`` for all).

    The network trained without noise is left out.
    """
    rows = [row for row in noise["networks"] if row["kind"] == kind and units in ("any", row["nonlinearity"])]
    rows = [row for row in rows if row["name"] != _WEIGHTS]
    return max(rows, key=lambda row: row["noise_limit"])


def _noise(noise: Record) -> Iterator[Claim]:
    """Yield the rows of the noise limit of the best constructed network over that of the best trained with noise, with
    any units and with ReLU."""
    for units, label in (("any", "any_units"), ("relu", "relu")):
        ours, rival = best(noise, "constructed", units), best(noise, "trained", units)
        ratio = ours["noise_limit"] / rival["noise_limit"]
        area = 100 * ours["mzi_count"] / rival["mzi_count"]
        verdict = "met" if ratio >= TARGET_TOLERANCE and area < TARGET_AREA else "missed"
        if TARGET_TOLERANCE * rival["noise_limit"] > noise["bound"]:
            verdict += f": noise on the inputs alone allows no network more than {noise['bound']:.2g}"
        why = (
            f"99.99 % right up to {ours['noise_limit']:.2g} of every signal's full scale ({ours['name']}, "
            f"{ours['mzi_count']:,} MZIs) against {rival['noise_limit']:.2g} (trained with noise: {rival['name']}, "
            f"{rival['mzi_count']:,} MZIs), {area:.2g} % of the MZIs. Our target, {TARGET_TOLERANCE:g} times the "
            f"noise at under {TARGET_AREA:g} % of the MZIs, is {verdict}. The paper leaves noise open"
        )
        yield PAPER.claim(f"example.noise_constructed_over_trained_{label}", round(ratio, 2), why=why)


# The two models of Fig. 7(b) as graphs, stored with the package.

TOKENS = 16
"""Length of the short sequences, for batches below one sequence of 256 tokens."""
_FACTORY = "lightloom.papers.runs.images:resnet50_for_cifar"
_LLAMA = ZOO["optinc-llama"]
GRAPHS: Mapping[str, tuple[str, Mapping[str, Any], int | None]] = {
    "resnet50": (_FACTORY, {"keep_stem": True}, None),
    "resnet50-small-stem": (_FACTORY, {}, None),
    "llama": (_LLAMA.path, _LLAMA.arguments, 256),
    "llama-short": (_LLAMA.path, _LLAMA.arguments, TOKENS),
}
"""Factory, its arguments and tokens per sample, by name."""


@cache
def workload(name: str) -> ComputeGraph:
    """Return the stored graph of one sample, by its name in ``GRAPHS``."""
    text = (files(__package__) / "graphs" / f"{name}.json").read_text(encoding="utf-8")
    return ComputeGraph.from_json(json.loads(text))


def traced(name: str) -> ComputeGraph:
    """Return the graph of one sample, traced anew.

    Raises:
        WorkloadError: PyTorch is missing.
    """
    from lightloom.models.torch.trace import trace_factory

    factory, arguments, tokens = GRAPHS[name]
    graph = trace_factory(resolve(factory), name=name, batch=TRACE_BATCH, sequence_length=tokens, arguments=arguments)
    return graph.with_batch(1)


# Fig. 7(b): time of a step with the ring and with OptINC, by plans and schedules; the batch is not stated.
#
# saving = (R - O) / (R + b c)      R, O: seconds on the network; c: seconds of computing for one sample
#
# R / O = 2 (N - 1) / N bounds it: at N = 4 no batch, model or speed saves more than a third.

CODE_BYTES, FLOAT_BYTES = 2, 4
"""Bytes per gradient value in OptINC's fourth scenario and in DDP."""
USUAL = {"resnet50": 32, "llama": 8}
"""Images and sequences of 256 tokens per server, in the rows; not chosen to match the paper."""
TOKENS_OF_A_SAMPLE = {"llama": 256, "llama-short": TOKENS}


@dataclass(frozen=True, slots=True)
class StepTime:
    """Durations of a step, in seconds."""

    compute: float
    ring: float
    optical: float

    @property
    def saving(self) -> float:
        """Time that OptINC saves, in percent of the step with the ring."""
        return 100 * (self.ring - self.optical) / (self.compute + self.ring)


@cache
def step(model: str, batch: int, ring_bytes: int = CODE_BYTES) -> StepTime:
    """Return the times of a step of ``batch`` samples a server; network and computing follow each other, as in the
    paper's bars.

    Args:
        model: of ``workloads.GRAPHS``. batch: samples. ring_bytes: of a value on the ring; OptINC always sends codes.
    """
    ring = simulated(model, batch, "ring", ring_bytes)
    optical = simulated(model, batch, "in-network", CODE_BYTES)
    return StepTime(ring.compute_time, *(each.step_time - each.compute_time for each in (ring, optical)))


@cache
def simulated(model: str, batch: int, algorithm: str, nbytes: int, overlap: bool = False) -> StepResult:
    """Return a simulated step of data parallelism on four servers as section IV equips them: 60 TFLOP/s · 0.6, 8 · 800
    Gbit/s.

    ``in-network`` runs on the optical averager, other algorithms on the packet switch, both without latency of hops.
    ``nbytes`` are those of a gradient value.

    ``nbytes`` are those of a gradient value.
    """
    cluster = load_cluster("optinc-4")
    fabric = cluster.fabric if algorithm == "in-network" else cluster.reference
    assert fabric is not None
    fabric = changed(fabric, {"hop_latency": 0.0})  # the paper counts no fibre and no switch
    settings = TrainingSettings(batch_per_rank=batch, gradient_bytes=nbytes)
    plan = make_plan("ddp", workload(model).with_batch(batch), cluster.ranks, settings)
    prices = SchedulePrices(find(algorithm), fabric, "physical")
    return simulate_step(plan, cluster.accelerator, fabric, prices, overlap=overlap)


def batch_of(model: str, saving: float, ring_bytes: int = CODE_BYTES) -> float:
    """Return the samples a server, not rounded, at which that percentage is saved; computing is proportional to
    them."""
    one = step(model, 1, ring_bytes)
    return (100 * (one.ring - one.optical) / saving - one.ring) / one.compute


def bound(servers: int) -> float:
    """Return the largest percentage that a step can save on so many servers: everything but the network takes no
    time."""
    return 100 * (1 - sent("in-network", servers) / sent("ring", servers))


def _savings_at_usual_batches() -> Iterator[Claim]:
    """Yield Fig. 7(b)'s rows of percent saved at usual batches, by model."""
    for model, paper in SAVED.items():
        batch = USUAL[model]
        size = TOKENS_OF_A_SAMPLE.get(model, 1)
        short = "llama-short" if model == "llama" else model
        values: dict[str, Any] = {"samples": batch * size, "kind": "tokens" if size > 1 else "images"}
        values |= {"with_float32": step(model, batch, FLOAT_BYTES).saving, "ring_percent": 100 * paper / bound(4)}
        values |= {"model": model, "met": batch_of(short, paper) * TOKENS_OF_A_SAMPLE.get(short, 1)}
        yield PAPER.claim("figure7b.{model}_saving", round(step(model, batch).saving, 1), paper=paper, **values)


def _samples_for_savings() -> Iterator[Claim]:
    """Yield the images or tokens a server at which the printed percentage would be saved, to two digits, by model."""
    for model, label in (
        ("resnet50", "resnet50_images"),
        ("resnet50-small-stem", "resnet50_small_stem_images"),
        ("llama-short", "llama_tokens"),
    ):
        saving = SAVED["llama" if "llama" in model else "resnet50"]
        size = TOKENS_OF_A_SAMPLE.get(model, 1)
        codes, floats = (batch_of(model, saving, nbytes) * size for nbytes in (CODE_BYTES, FLOAT_BYTES))
        yield PAPER.claim(f"figure7b.{label}", float(f"{codes:.2g}"), saving=saving, with_float32=floats)


def _bounds_of_savings() -> Iterator[Claim]:
    """Yield whether the printed savings are below the bound for four servers, and whether it grows with the servers."""
    bounds = {n: bound(n) for n in (4, 8, 16)}
    below = "below the bound" if max(SAVED.values()) < bounds[4] else "above the bound"
    grows = "grows with the servers" if bounds[4] < bounds[8] < bounds[16] else "does not grow"
    yield PAPER.claim("figure7b.bound_n4", below, bounds=bounds)
    yield PAPER.claim("figure7b.bound_trend", grows, bounds=bounds)


def claims(
    noise: Record, aware: Record, cascade: Record, *, language: Any, small: Any, digits: Any, images: Any
) -> tuple[Claim, ...]:
    """Return all rows, from the records of our measurements; None where runs were not measured.

    Args:
        noise: trained and constructed networks under noise.
        aware: trainings with and without the devices' errors.
        cascade: the trained cascade.
        language, small: the language model of the paper's size, and a smaller one.
        digits, images: MNIST, and CIFAR-100.
    """
    return (
        *(row for network in TABLE_I for row in (*_area(network), *_constructed(network))),
        *(*_table_ii_areas(), *_wrong_outputs(), _ranking()),
        *(*_accuracies(), *_noise(noise)),
        _aware(aware),
        *(*_figure_6(), *_overhead_of_ring(), _synchronisation()),
        *(*_losses("llama", language), *_losses("llama_small", small)),
        *(*_learned("mnist", digits, "accuracy", "points less", 2), *_images(images)),
        *(*_savings_at_usual_batches(), *_samples_for_savings(), *_bounds_of_savings()),
        *(*_cascading(), *_trained_cascade(cascade)),
        *(*_combinations(), *_printed_areas(), _bias_of_floor(), _twos_complement()),
    )


if __name__ == "__main__":
    for each in GRAPHS:
        place = Path(__file__).parent / "graphs" / f"{each}.json"
        write_atomically(place, json.dumps(traced(each).to_json(), separators=(",", ":")))
