"""The rows of the OptINC study.

The two models of Fig. 7(b) are stored as graphs, so that the study needs no PyTorch; to trace them anew:

    python -m lightloom.papers.optinc.rows
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import as_file, files
from itertools import product
from math import floor
from pathlib import Path
from typing import Any

import numpy as np

from lightloom.collectives.collective import Collective
from lightloom.collectives.registry import build as build_schedule
from lightloom.collectives.registry import find
from lightloom.collectives.schedule.columns import Schedule
from lightloom.core.claims import Claim
from lightloom.core.files import write_atomically
from lightloom.machines.clusters.cluster import Cluster, TrainingSettings
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
from lightloom.photonics.averaging.function import AveragingFunction, symbols_for
from lightloom.photonics.averaging.networks import TABLE_I, TABLE_II, PaperNetwork, load_network
from lightloom.photonics.averaging.proof import verify
from lightloom.photonics.meshes.decompose import decompose
from lightloom.photonics.meshes.mapping import approximated_count, map_matrix
from lightloom.planning.parallelism.plan import make_plan
from lightloom.planning.pricing.schedule_prices import SchedulePrices
from lightloom.planning.simulation.engine import StepResult, simulate_step

# Figures of the paper that the rows compare with.

RING_TRAFFIC: Mapping[int, float] = {4: 1.5, 8: 1.75, 16: 1.875}
"""Fig. 6: bytes over bytes of the gradient, by servers, as 2(N − 1)/N has them; OptINC's are 1."""
RING_OVERHEAD: Mapping[int, float] = {4: 50.0, 16: 87.5}
"""Section IV: what the ring sends beyond the gradient, in percent, by servers."""
ACCURACY: Mapping[str, float] = {"4-6": 100.0, "4-7": 99.99986, "4-8": 99.99999, "3-6": 99.98891, "3-7": 99.99936}
"""Table II by approximated layers, percent."""
RATIOS: Mapping[str, Sequence[str]] = {
    "4-7": ("90", "10"),
    "4-8": ("100",),
    "3-6": ("99", "0.9", "0.1"),
    "3-7": ("79.5", "17", "3.5"),
}
"""Shares of the errors of Table II's rows, in percent, as printed."""
ROWS = tuple(ACCURACY)
"""Table II's rows in the order of `averaging.networks.TABLE_II`."""
SAVED: Mapping[str, float] = {"resnet50": 25.0, "llama": 17.0}
"""Fig. 7(b): less time than with the ring, percent ("over" and "around")."""

PHASES = {"phase 1e-3": 1e-3, "phase 3e-3": 3e-3, "phase 5e-3": 5e-3, "phase 1e-2": 1e-2}


def _aware(aware: Record) -> Claim:
    """Return the row on training that knows its devices' errors: the number of seeds at which the share of wrong
    averages is lower with such training than without, in pairs of equal seeds, at the phase error that the record's
    verdict names. The number is that of the verdict in the kept record ``aware``; the explanation states the mean
    shares."""
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
    """Return the share of wrong averages (0 to 1) of each training of an arm, in the order of seeds.

    Args:
        aware: the record of trainings, ``kept("aware")``.
        arm: ``aware`` or ``unaware`` of errors in training.
        name: of the phase errors under which averages were tried, in rad: ``phase 1e-3``, ``phase 3e-3``, ``phase
            5e-3`` or ``phase 1e-2``.
    """
    rows = sorted((row for row in aware["trainings"] if row["arm"] == arm), key=lambda row: row["seed"])
    return [row["wrong"][name] for row in rows]


# Section III-C: two levels of averagers for 16 servers, with and without the decimals carried between them.


def _cascading(found: Record) -> Iterator[Claim]:
    """Yield the three rows on the constructed cascade, two levels of averaging networks, from its record: whether any
    tuple of servers is averaged wrongly when level 1 sends no decimals ("errors" or "no errors"), the number of outputs
    that are wrong with decimals, from end to end, and the MZIs of two approximated 64 x 64 matrices in percent of those
    of the first scenario's network, P and T left out."""
    ends, (first, second) = found["end_to_end"], (level["checked_inputs"] for level in found["levels"])
    percent, tuples = 100 * ends["share_wrong_without_decimals"], ends["tuples"]
    ours = "errors" if percent else "no errors"
    yield PAPER.claim("example.cascade_basic", ours, tuples_percent=percent, tuples=tuples)
    levels = {"first": first, "second": second, "wrong": sum(level["wrong_outputs"] for level in found["levels"])}
    yield PAPER.claim("example.cascade_end_to_end_wrong_outputs", ends["wrong_with_decimals"], tuples=tuples, **levels)
    network, more = TABLE_I[0], 2 * approximated_count(64, 64)
    alone, units = (100 * more / network.area(units=units) for units in (False, True))
    values = {"added": more, "area": network.area(units=False), "with_units": units}
    yield PAPER.claim("example.cascade_hardware_overhead", round(alone, 2), **values)


def _trained_cascade(record: Record) -> Iterator[Claim]:
    """Yield the rows on the cascade that was trained as the paper's, from its record: the accuracy in percent of the
    level with the larger share of wrong outputs, on all its inputs, and the number of outputs that are wrong through
    both levels, of the tuples tried."""
    shares = [level["wrong_outputs"] / level["checked_inputs"] for level in record["levels"]]
    inputs = " and ".join(f"{level['checked_inputs']:,}" for level in record["levels"])
    seconds = " and ".join(f"{training['cpu_seconds']:.0f}" for training in record["trainings"])
    accuracy = 100 * (1 - max(shares))
    yield PAPER.claim("example.cascade_trained_levels_accuracy", accuracy, inputs=inputs, cpu_seconds=seconds)
    ends = record["end_to_end"]
    end_claim = "example.cascade_trained_end_to_end_wrong_outputs"
    yield PAPER.claim(end_claim, ends["wrong_with_decimals"], tuples=ends["tuples"])


# Fig. 7(a): effect of quantised and erroneous averages on training, on the available data.


def _learned(model: str, record: Record, key: str, words: str, places: int, **setting: Any) -> Iterator[Claim]:
    """Yield rows of how much worse the variants of averaging end than float32 for a model, in pairs of equal seeds, one
    for each variant that was measured: the paper's words ("at most 0.02 more") where the mean difference plus half the
    width of its 95 % interval, if there are several seeds, is at most the printed one, else "up to" that sum, and the
    mean difference as a number where the paper prints none.

    Args:
        model: key of the table ``training`` of ``paper.yaml``, and part of the ids.
        record: runs of all variants under ``runs``, by variant, lists of one for each seed, ``float32`` among them.
        key: what is compared at the end of the runs: a loss, of which more is worse, or ``accuracy`` (shares, compared
            in points), of which less is.
        words: unit of the difference in the text.
        places: decimals of the printed differences; ours have one more.
        setting: values of the explanations.
    """
    sign, scale = (-1.0, 100.0) if key == "accuracy" else (1.0, 1.0)
    last = [scale * run[key][-1] for run in record["runs"][BASE]]
    setting["reached"] = f"{min(last):.{places}f} to {max(last):.{places}f}"
    for label, (name, paper) in PAPER.tables["training"][model].items():
        if (pairs := paired(record["runs"], name, key, scale)) is None:
            continue
        worse = round(sign * pairs.mean, places + 1) + 0.0
        printed = None if paper is None else f"at most {paper:g} {words}"
        most = worse + (pairs.half if pairs.seeds > 1 else 0.0)
        ours = worse if paper is None else printed if most <= paper else f"up to {most:.{places}f} {words}"
        values = {"label": label, "name": name, "difference": pairs.text(places + 1), "paper": printed}
        yield PAPER.claim(f"figure7a.{model}_{{label}}", ours, **values, **setting)


def _losses(model: str, record: Record) -> Iterator[Claim]:
    """Return the rows of how much more validation loss, in nats a token, the variants of averaging end with than
    float32, for a language model, as :func:`_learned` words them with three decimals; their explanations state its
    corpus, steps and tokens.

    Args:
        model: key of the table ``training`` of ``paper.yaml``, ``llama`` or ``llama_small``.
        record: under ``runs`` a list of runs, one for each seed, by variant and for float32; they are compared in pairs
            of equal seeds. The name of the corpus under ``corpus``.
    """
    recipe = record["runs"][BASE][0]["recipe"]
    tokens = recipe["steps"] * recipe["servers"] * recipe["windows_per_server"] * recipe["sequence"]
    setting = {"corpus": record["corpus"], "steps": recipe["steps"], "tokens": tokens}
    return _learned(model, record, "validation_loss", "more", 3, **setting)


# Inconsistencies of the paper's numbers, each with its proof.

_SERVERS, _BITS = 4, 8


def floor_bias() -> float:
    """Return the mean of floor(T/N) − T/N over all codes of N = 4 servers, whose sum is T, in units of the last place;
    it is counted over all last digits (base 4), which gives that of whole codes."""
    sent = np.array(list(product(range(4), repeat=_SERVERS)))
    return float((sent.sum(axis=1) // _SERVERS - sent.mean(axis=1)).mean())


def _combinations() -> Iterator[Claim]:
    """Yield the row of how many inputs M signals of four levels from N servers have, counted for MN = 2, 4 and 8
    ("4^(MN)" if all agree, else "another number"), and that of how many points the averaging function has for four
    servers of 8 bits."""
    counts = {signals: len(set(product(range(4), repeat=signals))) for signals in (2, 4, 8)}  # MN signals, one by one
    ours = "4^(MN)" if all(count == 4**signals for signals, count in counts.items()) else "another number"
    yield PAPER.claim("example.input_combinations", ours)
    points = AveragingFunction.of(_SERVERS, _BITS).points
    yield PAPER.claim("example.dataset", points, paper=(_SERVERS * 3 + 1) ** symbols_for(_BITS))


def _printed_areas() -> Iterator[Claim]:
    """Yield the rows of the lowest ratio of the areas of Table I's networks with approximated matrices to those with
    whole ones and of the least reduction of area, 100 less the highest ratio, both in percent by our count with P and
    T, and of the bias of floor in units of the last place."""
    ratios = [network.ratio() for network in TABLE_I]
    yield PAPER.claim("example.lowest_area", round(min(ratios), 1))
    yield PAPER.claim("example.area_reduction", round(100 - max(ratios), 1))
    yield PAPER.claim("example.floor_bias", floor_bias(), averaging_bias=averaging_bias(_SERVERS, "half-up"))


def _meshes() -> Iterator[Claim]:
    """Yield the rows of how many MZIs the meshes of random matrices have: of a 4 x 4 orthogonal one, of a 3 x 5 one by
    its SVD, and the percentage of MZIs that the form Σ·U saves over the SVD of a 64 x 64 one."""
    rng = np.random.default_rng(0)
    yield PAPER.claim("example.mesh_of_a_unitary", decompose(np.linalg.qr(rng.standard_normal((4, 4)))[0]).mzis)
    wide, square = rng.standard_normal((3, 5)), rng.standard_normal((64, 64))
    yield PAPER.claim("example.meshes_of_a_matrix", map_matrix(wide, "svd").mzis)
    whole, left = map_matrix(square, "svd").mzis, map_matrix(square, "sigma-u").mzis
    yield PAPER.claim("example.mesh_reduction", round(100 * (1 - left / whole), 1), whole=whole, left=left)


# Tables I and II: areas from the counts of meshes, accuracies from all inputs.

_CONVENTIONS = {"with_units": "with P and T", "without_units": "without P and T"}


def scenario(network: PaperNetwork) -> str:
    """Return bits and servers of a scenario as text: ``8x4`` for 8 bits and 4 servers."""
    return f"{network.bits}x{network.servers}"


def points() -> int:
    """Return the number of different inputs of the averaging network of the fourth scenario (four servers of 16 bits),
    which averages the servers' symbols before it reads them, of which Table II states shares."""
    return AveragingFunction.of(4, 16).points


def counts(row: str) -> range:
    """Return the range of numbers of wrong outputs, of all :func:`points`, that round to Table II's accuracy of a row
    (its approximated layers: ``4-6``, ``4-7``, ``4-8``, ``3-6`` or ``3-7``), which has five decimals of a percent."""
    low, high = ((100 - ACCURACY[row] + shift) / 100 * points() for shift in (-5e-6, 5e-6))
    return range(max(floor(low) + 1, 0), floor(high) + 1)


def likely_counts(row: str) -> list[int]:
    """Return how often each error of a row of Table II came, in whole numbers in the order in which its ratios are
    printed, whose sum prints as its accuracy and that are closest to the printed ratios.

    Args:
        row: the approximated layers: ``4-7``, ``4-8``, ``3-6`` or ``3-7``; ``4-6`` has no errors.
    """
    shares = [float(share) / 100 for share in RATIOS[row]]

    def parts(total: int) -> list[int]:
        rest = [round(total * share) for share in shares[1:]]
        return [total - sum(rest), *rest]

    def misprint(total: int) -> float:
        return max(abs(part / total - share) for part, share in zip(parts(total), shares, strict=True))

    return parts(min(counts(row), key=misprint))


def rms(row: str) -> float:
    """Return the root mean square error of a mean code by the printed accuracy and shares of errors, in units of its
    last place, over all outputs of a row of Table II (its approximated layers, such as ``4-7``), right ones included; 0
    for ``4-6``."""
    return TABLE_II_ERRORS[row].rms


def _area(network: PaperNetwork) -> Claim:
    """Return a scenario's row of Table I: the area of its network with approximated matrices in percent of that with
    whole ones, P and T counted; the explanation has it without P and T, for such matrices and for economy-size ones."""
    values = {"name": scenario(network), "paper": network.printed, "ratio": network.ratio()}
    values |= {"area": network.area(), "full": network.area(approximated=False), "plain": network.ratio(units=False)}
    values["economy"] = network.ratio("economy", units=False)
    return PAPER.claim("table1.area_{name}", round(network.ratio(), 1), **values)


def _constructed(network: PaperNetwork, found: Record) -> Iterator[Claim]:
    """Yield a scenario's rows on weights that are written down in the paper's layers, both with the same accuracy in
    percent on all inputs, from ``wrong_outputs`` and ``checked_inputs`` in ``found``, the scenario's record: beside the
    row of any matrices, and, but for the first scenario, beside that of approximated ones of the form Σ · U."""
    accuracy = 100 * (1 - found["wrong_outputs"] / found["checked_inputs"])
    # The first scenario's approximated network is trained.
    for form in ("constructed",) if network is TABLE_I[0] else ("constructed", "sigma_u"):
        yield PAPER.claim(f"table1.accuracy_{form}_{{name}}", accuracy, name=scenario(network), found=found)


def _structure_of_table_ii(found: Record) -> Claim:
    """Return the row of the number of wrong outputs of scenario 4's constructed network, from its record ``found``: the
    errors that the structure itself leaves, whichever matrices are approximated."""
    selections = "; ".join(f"{row}, {each.ratio():.1f} % of the area" for row, each in zip(ROWS, TABLE_II, strict=True))
    return PAPER.claim("table2.structure_wrong_outputs", found["wrong_outputs"], found=found, selections=selections)


def _trained_for_table_ii(found: Record) -> Iterator[Claim]:
    """Yield, for each row of Table II, the accuracy in percent on all inputs of scenario 4 trained with its
    approximated matrices, from the records by row in ``selections`` of ``found``; nothing for rows that are not
    trained. Table I has the first row's accuracy too, so that it stands beside no printed number here."""
    for row in ROWS:
        if (record := found["selections"].get(row)) is not None:
            errors = ", ".join(f"{count:,} times {int(error):+,}" for error, count in record["errors"].items())
            values = {"ident": _identifier(row), "row": row, "record": record, "errors": errors}
            values["paper"] = None if row == ROWS[0] else ACCURACY[row]
            yield PAPER.claim("table2.accuracy_trained_{ident}", 100 * record["accuracy"], **values)


def _table_ii_areas() -> list[Claim]:
    """Return the rows of Table II's area ratios in percent, units P and T counted, but for the first row, which Table I
    has; each says whether the printed one comes out with P and T, without them, with both or "in neither way", to one
    decimal."""
    rows = []
    for row, network in zip(ROWS[1:], TABLE_II[1:], strict=True):
        areas = {"with_units": network.ratio(), "without_units": network.ratio(units=False)}
        printing = [words for name, words in _CONVENTIONS.items() if round(areas[name], 1) == network.printed]
        values = {"ident": _identifier(row), "verdict": " and ".join(printing) or "in neither way", **areas}
        rows.append(PAPER.claim("table2.area_{ident}", round(areas["with_units"], 1), paper=network.printed, **values))
    return rows


def _identifier(row: str) -> str:
    """Return a row of Table II as a part of a claim's id: "4-7" gives "layers4_7"."""
    return f"layers{row.replace('-', '_')}"


def _errors() -> Iterator[Claim]:
    """Yield the percentages of each size of error among the errors of Table II's rows but the first, as one text a row
    ("90, 10", in the printed order and decimals), from the whole numbers of errors of :func:`likely_counts`."""
    for row in ROWS[1:]:
        parts = likely_counts(row)
        pairs = zip(parts, RATIOS[row], strict=True)
        ours = [f"{100 * part / sum(parts):.{len(share.partition('.')[2])}f}" for part, share in pairs]
        values = {"ident": _identifier(row), "parts": " + ".join(map(str, parts)), "points": points(), "rms": rms(row)}
        yield PAPER.claim("table2.errors_{ident}", ", ".join(ours), paper=", ".join(RATIOS[row]), **values)


# Fig. 6 and section I: bytes that a server sends, counted in schedules that passed the verifier.

_NBYTES = 1e6


@cache
def sent(algorithm: str, servers: int) -> float:
    """Return the most bytes that a server sends in an all-reduce, over the bytes of the gradient, counted in the
    verified schedule of the algorithm ``ring`` or ``in-network``."""
    schedule = _all_reduce(algorithm, servers)
    return float(np.bincount(schedule.source, minlength=servers)[:servers].max() * schedule.chunk_nbytes / _NBYTES)


def _all_reduce(algorithm: str, servers: int) -> Schedule:
    """Return the verified schedule of an all-reduce of 1 MB, its steps one by one and every rank's rows present:
    ``in-network`` on an optical averager, other algorithms on a packet switch."""
    fabric: Fabric = OpticalAverager(ranks=servers) if algorithm == "in-network" else PacketSwitch(ranks=servers)
    return build_schedule(find(algorithm), Collective("all-reduce", servers, _NBYTES), fabric).unfolded(1)


def _figure_6() -> Iterator[Claim]:
    """Yield the most bytes that a server sends over bytes of the gradient with the ring and with OptINC, a row each for
    4, 8 and 16 servers, what the ring sends beyond OptINC in percent for 4 and 16 servers, and the ring's steps for
    four servers."""
    for n, ring in RING_TRAFFIC.items():
        yield PAPER.claim("figure6.ring_n{n}", sent("ring", n), paper=ring, n=n)
        yield PAPER.claim("figure6.optinc_n{n}", sent("in-network", n), n=n)
    for n, percent in RING_OVERHEAD.items():
        ours = 100 * (sent("ring", n) / sent("in-network", n) - 1)
        yield PAPER.claim("headline.ring_overhead_n{n}", ours, paper=percent, n=n)
    yield PAPER.claim("headline.ring_rounds", int(_all_reduce("ring", 4).step.max()) + 1)


def _synchronisation() -> Claim:
    """Return the row of the bytes by which the servers agree on the scales of their codes, "less than 0.4 %" of the
    gradient's or "more", by the larger of the shares for codes of 8 and 16 bits and a gradient of 2^20 values."""
    shares = {bits: 100 * synchronisation_share(1 << 20, bits) for bits in (8, 16)}
    ours = "less than 0.4 %" if max(shares.values()) < 0.4 else "more"
    return PAPER.claim("headline.synchronisation", ours, shares=shares)


# Trained networks: their accuracy with our weights, and their noise limits compared with constructed networks.

_WEIGHTS = "exact"


_TRAINED = files("lightloom.photonics") / "onn" / "trained"
"""Folder of the trained networks, whose own package would bring PyTorch along."""


def kept(name: str) -> Any:
    """Return the content of the JSON file ``name.json`` that is kept beside the trained networks: ``noise``, ``aware``
    or ``cascade``."""
    return json.loads((_TRAINED / f"{name}.json").read_text(encoding="utf-8"))


def _trained() -> Claim:
    """Return the row of the accuracy in percent of scenario 1's trained network: its kept weights, tried on every point
    of the input grid."""
    with as_file(_TRAINED / f"{_WEIGHTS}.npz") as path:
        weights, arguments = load_network(path)
    verification = verify(weights, arguments.function())
    return PAPER.claim("table1.accuracy_trained_8x4", 100 * verification.accuracy, verification=verification)


def best(noise: Record, kind: str, units: str = "any") -> Any:
    """Return the row of the record ``noise`` (a network's ``name``, ``kind``, ``nonlinearity``, ``mzi_count``,
    ``noise_limit`` and ``error_rates``) with the highest ``noise_limit``, the noise, as a share of full scale, up to
    which 99.99 % of its outputs are right. ValueError where no network is of that kind with these units.

    Args:
        noise: record of networks under noise, ``kept("noise")``.
        kind: of the network: ``constructed`` or ``trained``; the network trained without noise is left out.
        units: nonlinearity of the network, such as ``relu`` or ``clipped``; ``any`` for all.
    """
    rows = [row for row in noise["networks"] if row["kind"] == kind and units in ("any", row["nonlinearity"])]
    return max((row for row in rows if row["name"] != _WEIGHTS), key=lambda row: row["noise_limit"])


def _noise(noise: Record) -> Iterator[Claim]:
    """Yield the two rows of the noise limit of the best constructed network over that of the best network trained with
    noise, with any units and with ReLU, from the record ``noise``."""
    for units, label in (("any", "any_units"), ("relu", "relu")):
        ours, rival = best(noise, "constructed", units), best(noise, "trained", units)
        ratio = ours["noise_limit"] / rival["noise_limit"]
        area = 100 * ours["mzi_count"] / rival["mzi_count"]
        why = (
            f"99.99 % right up to {ours['noise_limit']:.2g} of every signal's full scale ({ours['name']}, "
            f"{ours['mzi_count']:,} MZIs) against {rival['noise_limit']:.2g} (trained with noise: {rival['name']}, "
            f"{rival['mzi_count']:,} MZIs), {area:.2g} % of the MZIs; noise on the inputs alone allows no "
            f"network more than {noise['bound']:.2g}. The paper leaves noise open"
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
    """Return the training graph of one sample that is stored with the package, by name: ``resnet50``,
    ``resnet50-small-stem``, ``llama`` (256 tokens) or ``llama-short`` (16)."""
    text = (files(__package__) / "graphs" / f"{name}.json").read_text(encoding="utf-8")
    return ComputeGraph.from_json(json.loads(text))


def traced(name: str) -> ComputeGraph:
    """Return the graph of one sample, traced anew, by name: ``resnet50``, ``resnet50-small-stem``, ``llama`` (256
    tokens) or ``llama-short`` (16).

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
    """Durations of a step, in seconds: ``compute`` of computing alone, and the time of the network beyond it, with the
    ring (``ring``) and with OptINC (``optical``)."""

    compute: float
    ring: float
    optical: float

    @property
    def saving(self) -> float:
        """Percentage by which a step with OptINC is shorter than one with the ring."""
        return 100 * (self.ring - self.optical) / (self.compute + self.ring)


@cache
def step(model: str, batch: int, ring_bytes: int = CODE_BYTES) -> StepTime:
    """Return the seconds of a simulated step on four servers, network and computing one after the other (nothing
    overlaps), as in the paper's bars: ``compute``, and what the network adds to it with the ring (``ring``) and with
    OptINC (``optical``).

    Args:
        model: name of a stored graph: ``resnet50``, ``resnet50-small-stem``, ``llama`` or ``llama-short``.
        batch: samples a server.
        ring_bytes: bytes of a gradient value on the ring; OptINC always sends codes of 2 bytes.
    """
    ring = simulated(model, batch, "ring", ring_bytes)
    optical = simulated(model, batch, "in-network", CODE_BYTES)
    return StepTime(ring.compute_time, *(each.step_time - each.compute_time for each in (ring, optical)))


@cache
def simulated(model: str, batch: int, algorithm: str, nbytes: int, overlap: bool = False) -> StepResult:
    """Return a simulated step of data parallelism on four servers as section IV equips them: 60 TFLOP/s at an
    efficiency of 0.6 and 8 links of 800 Gbit/s a server. Each all-reduce takes the time of the algorithm's built
    schedule.

    Args:
        model: name of a stored graph: ``resnet50``, ``resnet50-small-stem``, ``llama`` or ``llama-short``.
        batch: samples a server.
        algorithm: of the all-reduce: ``in-network`` runs on the optical averager, others on the packet switch, both
            without latency of hops.
        nbytes: bytes of a gradient value as it is sent, such as 2 for 16-bit codes.
        overlap: let the exchange run beside the backward pass.
    """
    cluster = _cluster()
    fabric = cluster.fabric if algorithm == "in-network" else cluster.reference
    assert fabric is not None
    fabric = changed(fabric, {"hop_latency": 0.0})  # the paper counts no fibre and no switch
    settings = TrainingSettings(batch_per_rank=batch, gradient_bytes=nbytes)
    plan = make_plan("ddp", workload(model).with_batch(batch), cluster.ranks, settings)
    prices = SchedulePrices(find(algorithm), fabric, "physical")
    return simulate_step(plan, cluster.accelerator, fabric, prices, overlap=overlap)


@cache
def _cluster() -> Cluster:
    """Return the paper's four servers, with their optical averager and the packet switch that it is compared with."""
    return load_cluster("optinc-4")


def batch_of(model: str, saving: float, ring_bytes: int = CODE_BYTES) -> float:
    """Return the samples a server, not rounded, at which OptINC saves ``saving`` percent of the step with the ring;
    computing is proportional to them, and the network takes as long as for one.

    Args:
        model: name of a stored graph: ``resnet50``, ``resnet50-small-stem``, ``llama`` or ``llama-short``.
        saving: percentage, above 0. Above :func:`bound` the result is negative.
        ring_bytes: bytes of a gradient value on the ring.
    """
    one = step(model, 1, ring_bytes)
    return (100 * (one.ring - one.optical) / saving - one.ring) / one.compute


def bound(servers: int) -> float:
    """Return the largest percentage of a step that OptINC can save over the ring on so many servers: that where
    everything but the network takes no time, 100 (1 − bytes sent by OptINC / bytes sent by the ring), 33.3 for four."""
    return 100 * (1 - sent("in-network", servers) / sent("ring", servers))


def _savings() -> Iterator[Claim]:
    """Yield a row for each model of Fig. 7(b), ResNet-50 and the LLaMA-like one, without a number of ours (None), as no
    batch is printed on which the percentage saved depends: the explanation states it at a usual batch, and the samples
    at which the printed percentage would be saved. Then a row of the images a server, to two digits, at which ResNet-50
    with the stem that is customary for CIFAR would save the printed percentage."""
    for model, paper in SAVED.items():
        batch, size = USUAL[model], TOKENS_OF_A_SAMPLE.get(model, 1)
        usual = {"usual": step(model, batch).saving, "with_float32": step(model, batch, FLOAT_BYTES).saving}
        short = "llama-short" if model == "llama" else model
        met = [batch_of(short, paper, each) * TOKENS_OF_A_SAMPLE.get(short, 1) for each in (CODE_BYTES, FLOAT_BYTES)]
        values = usual | {"samples": batch * size, "kind": "tokens" if size > 1 else "images", "met": met}
        ring = 100 * paper / bound(4)
        yield PAPER.claim("figure7b.{model}_saving", None, paper=paper, model=model, ring_percent=ring, **values)
    images = batch_of("resnet50-small-stem", SAVED["resnet50"])
    yield PAPER.claim("figure7b.resnet50_small_stem_images", float(f"{images:.2g}"))


def _bounds_of_savings() -> Iterator[Claim]:
    """Yield the row of whether communication "dominates" a step (over 60 % of it), is "comparable" (over 40 %) or
    "minor" where the printed savings are made, that is by the printed percentage over the bound for four servers, for
    both models as "dominates, comparable", and that of whether the bound of savings grows with 4, 8 and 16 servers
    ("grows with the servers" or "does not grow")."""
    bounds = {n: bound(n) for n in (4, 8, 16)}
    shares = {model: 100 * saving / bounds[4] for model, saving in SAVED.items()}
    words = ["dominates" if share > 60 else "comparable" if share > 40 else "minor" for share in shares.values()]
    yield PAPER.claim("figure7b.communication", ", ".join(words), bounds=bounds, shares=shares)
    grows = "grows with the servers" if bounds[4] < bounds[8] < bounds[16] else "does not grow"
    yield PAPER.claim("figure7b.bound_trend", grows, bounds=bounds)


def claims(
    noise: Record, aware: Record, cascade: Record, found: Record, trained: Record, runs: Record
) -> tuple[Claim, ...]:
    """Return all rows of the study, in the order of its page, from the records of our measurements.

    Args:
        noise: trained and constructed networks under noise.
        aware: trainings with and without the devices' errors.
        cascade: the trained cascade.
        found: constructed networks by scenario (bits x servers, "16x4"), and under ``cascade`` the cascade of them, on
            all inputs.
        trained: networks trained with each selection of Table II.
        runs: records of trainings by what was trained: ``language``, the model of the paper's size; ``small``, a
            smaller one; ``digits``, a CNN on MNIST; and ``images``, ResNet-50 on CIFAR-100, which the digits stand for
            where it is None.
    """
    images, digits = runs["images"], runs["digits"]
    learned = partial(_learned, key="accuracy", words="points less", places=2)
    basis, network = ("stand-in", "A CNN on MNIST, four processes") if images is None else ("reproduced", "ResNet-50")
    return (
        *(row for each in TABLE_I for row in (_area(each), *_constructed(each, found[scenario(each)]))),
        *(*_table_ii_areas(), _structure_of_table_ii(found["16x4"]), *_trained_for_table_ii(trained), *_errors()),
        *(_trained(), *_noise(noise), _aware(aware)),
        *(*_figure_6(), _synchronisation()),
        *(*_losses("llama", runs["language"]), *_losses("llama_small", runs["small"])),
        *learned("resnet50", images or digits, basis=basis, network=network),
        *learned("mnist", digits, network="A CNN on MNIST, four processes"),
        *(*_savings(), *_bounds_of_savings()),
        *(*_cascading(found["cascade"]), *_trained_cascade(cascade)),
        *(*_combinations(), *_meshes(), *_printed_areas()),
    )


if __name__ == "__main__":
    for each in GRAPHS:
        place = Path(__file__).parent / "graphs" / f"{each}.json"
        write_atomically(place, json.dumps(traced(each).to_json(), separators=(",", ":")))
