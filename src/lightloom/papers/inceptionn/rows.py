"""The rows of the INCEPTIONN study: its tables and figures, from formulas, stored measurements and trainings here."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise, product
from statistics import fmean
from typing import Any

import numpy as np

from lightloom.collectives.collective import Collective
from lightloom.collectives.cost.stepped import cost
from lightloom.collectives.registry import build, find
from lightloom.core.claims import Claim
from lightloom.exchange.compression.inceptionn import Inceptionn, InceptionnPrinted
from lightloom.machines.fabrics.switches import PacketSwitch
from lightloom.models.zoo import ZOO
from lightloom.papers.inceptionn import (
    BOUNDS,
    INC_COMMUNICATION,
    INC_TOTAL,
    ITERATIONS,
    LINK_BITS,
    MEGABYTES,
    MODELS,
    PAPER,
    TABLE_1,
    TABLE_2,
    TABLE_2_PERCENT,
    TABLE_3,
    TAG_BITS,
    WORKERS,
    Link,
    link_of,
    ratio,
    ratio_of_shares,
    ring,
    size_bytes,
    worker_aggregator,
)
from lightloom.papers.inceptionn.runs import LAYERS, LITERAL, PYTORCH, SETTLED, STAND_INS, figure5_claims
from lightloom.papers.study import BASE, Record, paired

_FEEDBACK = "windowed+feedback 2^-10"
_LEVEL = 0.98
"""Accuracy to which epochs are counted, 0 to 1."""
_EPOCH = 600
"""Iterations: 60,000 images, 25 a worker, 4 workers."""
DROPPED = (16, 22, 24)
"""Low bits that truncation drops (section VIII-C)."""


def final(run: Record) -> float:
    """Return the last recorded test accuracy of a run, in percent (the run's ``accuracy`` holds shares from 0 to 1)."""
    return 100 * float(run["accuracy"][-1])


def base_at(runs: Record, run: Record) -> float:
    """Return the test accuracy in percent of the float32 run with the same seed at the last recorded iteration of
    ``run``.

    Args:
        runs: runs of one network by name, a list with one for each seed, among them ``float32``.
        run: one of these runs.

    StopIteration where float32 has no run of that seed, ValueError where that one has no entry at that iteration.
    """
    base = next(base for base in runs[BASE] if base["recipe"]["seed"] == run["recipe"]["seed"])
    return 100 * float(base["accuracy"][base["iterations"].index(run["iterations"][-1])])


def mean_ratio(run: Record) -> float:
    """Return the bytes that the exchanges would send in float32 over the bytes that were sent, over a whole run of one
    rank; all ranks send equally many."""
    return float(run["nbytes_raw"] / run["nbytes_sent"])


def _truncation(runs: Record, network: str) -> Claim:
    """Return a network's row on whether truncated gradients cost no more accuracy (at most 0.1 points more) than
    weights that are truncated as much: "g no worse than w" where that holds for each number of dropped bits for which
    ``runs`` holds both, else "g worse than w". The last recorded accuracies of the first seeds are compared.

    Args:
        runs: runs of the network by name (``truncate g 16``, ``truncate w 16``, with 16, 22 or 24 bits), each a list
            with one for each seed, among them ``float32``; both must be there for at least one number of bits.
        network: part of the row's id, ``hdc`` or ``lenet``.
    """
    there = [bits for bits in DROPPED if {f"truncate g {bits}", f"truncate w {bits}"} <= set(runs)]
    pairs = [[final(runs[f"truncate {what} {bits}"][0]) for what in "gw"] for bits in there]
    said = "; ".join(f"{bits} bits: {g:.1f} and {w:.1f} %" for bits, (g, w) in zip(there, pairs, strict=True))
    order = "g no worse than w" if all(g >= w - 0.1 for g, w in pairs) else "g worse than w"
    run = runs[f"truncate g {there[0]}"][0]
    values = {"network": network, "said": said, "base": base_at(runs, run), "iterations": run["iterations"][-1]}
    return PAPER.claim("figure4.{network}_order", order, **values)


def lost(runs: Record, name: str) -> float:
    """Return the points of test accuracy (of 100), at the run's last recorded iteration, by which the first run listed
    under that name, that of the first seed, falls short of float32 of the same seed at that iteration; negative where
    it is better."""
    run = runs[name][0]
    return base_at(runs, run) - final(run)


def _accuracy(runs: Record, summed: Record) -> Iterator[Claim]:
    """Yield the four rows of the accuracy of HDC: with error feedback at 2^-10, that less float32's in points, the mean
    over seeds in pairs; then of the points lost, positive where float32 is better: with the codec as printed, at 2^-10
    and at 2^-6; and with truncated gradients, the most over 16, 22 and 24 dropped bits; these three of the first seeds.
    The last two have the paper's words where less than 2 points are lost, else "2.1 points lost".

    Args:
        runs: the long runs on HDC by name.
        summed: runs by name under the loss of the reading of Table III that agrees most, from which those of the codec
            as printed come.
    """
    pairs = paired(runs, _FEEDBACK, "accuracy", 100)
    assert pairs is not None
    yield PAPER.claim("headline.accuracy_difference", round(pairs.mean, 3), pairs=pairs)
    yield PAPER.claim("figure13.hdc_accuracy_drop", round(lost(summed, "printed 2^-10"), 2))
    for template, most in (
        ("figure14.hdc_accuracy", lost(summed, "printed 2^-6")),
        ("figure14.hdc_truncated", max(lost(runs, f"truncate g {bits}") for bits in DROPPED)),
    ):
        yield PAPER.claim(template, PAPER.rows[template].paper if most < 2 else f"{most:.1f} points lost")


def _findings(runs: Record, network: str) -> Iterator[Claim]:
    """Yield the points of accuracy that each run of one network with the first seed loses to float32 after as many
    iterations, with two decimals; negative where it is better.

    Args:
        runs: runs of this network by name; ``float32`` and the runs of Table III beside it, ``float32, rate as
            printed`` and ``float32, PyTorch's weights``, have no row of their own, but ``float32`` must be there.
        network: name in the rows' ids.
    """
    for name, (run, *_) in runs.items():
        if name not in (BASE, LITERAL, PYTORCH):
            what = name.replace(" 2^-", "_bound").replace("+", "_").replace(" ", "_")
            sent = f", float32 bytes over sent ones {mean_ratio(run):.1f}" if run["nbytes_sent"] else ""
            values = {"network": network, "what": what, "final": final(run), "sent": sent}
            yield PAPER.claim("figure14.{network}_lost_{what}", round(lost(runs, name), 2), **values)


def reached(run: Record, level: float) -> int | None:
    """Return the first recorded iteration with a test accuracy of at least ``level`` (0 to 1), or None if none has
    it."""
    return next((i for i, accuracy in zip(run["iterations"], run["accuracy"], strict=True) if accuracy >= level), None)


def _extra_epochs(runs: Record) -> Claim:
    """Return the row of the epochs more that HDC takes with error feedback than float32 to reach a test accuracy of 98
    %: the mean over the seeds where both reach it (at least one must), each at its first recorded iteration with it, as
    text: "1 or 2" from 0.5 to below 2.5, else the number with two decimals. ``runs`` are the long runs on HDC by
    name."""
    every = runs[BASE][0]["iterations"][0]
    pairs = [
        (reached(plain, _LEVEL), reached(packed, _LEVEL))
        for plain, packed in zip(runs[BASE], runs[_FEEDBACK], strict=True)
    ]
    more = fmean((second - first) / _EPOCH for first, second in pairs if first is not None and second is not None)
    ours = "1 or 2" if 0.5 <= more < 2.5 else f"{more:.2f}"
    return PAPER.claim("figure13.hdc_extra_epochs", ours, resolution=every / _EPOCH, level_percent=100 * _LEVEL)


def slug(model: str) -> str:
    """Return the name of a model as part of a row id, in lower case without hyphens, which is also its name in the zoo:
    "ResNet-50" gives "resnet50"."""
    return model.lower().replace("-", "")


# Statements that do not hold as printed, each with a proof that is run.

_STRIDE = 61
"""Stride of the bit patterns that are tried; ``make test-slow`` tries all of them."""


def largest_error(codec: Inceptionn | InceptionnPrinted) -> float:
    """Return the largest absolute error of what a codec gives back as a multiple of its own bound (``codec.bound``),
    over positive float32 below 1: every 61st bit pattern, and the last of each binade."""
    bits = np.arange(0, 127 << 23, _STRIDE, dtype=np.uint32)
    # The worst value of each binade is its last one.
    bits = np.concatenate([bits, (np.arange(1, 128, dtype=np.uint32) << 23) - 1])
    pieces = np.array_split(bits.view(np.float32), 32)
    worst = max(np.max(np.abs(codec.round_trip(piece).astype(np.float64) - piece)) for piece in pieces)
    return float(worst) / codec.bound


def blocks_right(workers: int, *, corrected: bool) -> int:
    """Return how many of the N² blocks that N workers hold in the end are the full sum after Algorithm 1, as printed or
    with phase 2 ``corrected``.

    Each block holds the set of workers in it. Receives come before sends in the printed loop body, which would
    deadlock; sends go first here, which changes no block's content within a step.
    """
    holds = [[frozenset({i}) for _ in range(workers)] for i in range(workers)]
    for s in range(1, 2 * workers - 1):
        adds = s < workers
        shift = 0 if adds or corrected else 1
        sent = [holds[i][(i - s + 1 + shift) % workers] for i in range(workers)]
        for i in range(workers):
            block = (i - s + shift) % workers
            holds[i][block] = sent[i - 1] | (holds[i][block] if adds else frozenset())
    everyone = frozenset(range(workers))
    return sum(block == everyone for row in holds for block in row)


def _proofs() -> Iterator[Claim]:
    """Yield five rows of what the algorithms do as printed: the codec's largest error for the bounds 2^-10, 2^-8 and
    2^-6, as "within the bound" (below it) or "3 times the bound", and how many of 16 blocks are complete with four
    workers by Algorithm 1 as printed and by Figure 6, that is with Algorithm 1's phase 2 corrected."""
    for k in BOUNDS:
        worst = largest_error(InceptionnPrinted(2.0**-k))
        ours = "within the bound" if worst < 1 else f"{worst:.3g} times the bound"
        yield PAPER.claim("example.printed_error_bound{k}", ours, k=k)
    yield PAPER.claim("example.algorithm1_blocks", blocks_right(WORKERS, corrected=False))
    yield PAPER.claim("figure6.blocks", blocks_right(WORKERS, corrected=True))


# Tables I and II: hyper-parameters, checks of the printed sums and shares, and communication.


def _table_1() -> Iterator[Claim]:
    """Yield a row for each model and hyper-parameter of Table I: the absolute value of the printed one, which we take
    over, beside the printed one."""
    for model, column in TABLE_1.items():
        for name, printed in column.items():
            yield PAPER.claim("table1.{model}_{name}", abs(printed), paper=printed, model=slug(model), name=name)


def _table_2() -> Iterator[Claim]:
    """Yield for each model the sum of its printed seconds, every step's percentage by its printed seconds over the
    printed total, beside the printed percentage (no row for a step of zero seconds), and the seconds of communication
    in 100 iterations by a built schedule of the worker-aggregator exchange among four workers and an aggregator."""
    for model, column in TABLE_2.items():
        parts, values = column.parts, {"model": slug(model)}
        yield PAPER.claim("table2.{model}_total", round(sum(parts.values()), 2), paper=column.total, **values)
        for (name, seconds), printed in zip(parts.items(), TABLE_2_PERCENT[model], strict=True):
            if seconds:
                ours, more = round(100 * seconds / column.total, 2), {"name": name, "paper": printed}
                # HDC's seconds have one digit or two.
                within = 0.35 if model == "HDC" else 0.06
                yield PAPER.claim("table2.{model}_{name}_percent", ours, tolerance=within, **values | more)
        nbytes = size_bytes(model)
        ours = ITERATIONS * built_seconds("worker-aggregator", WORKERS + 1, nbytes)
        more = {"paper": column.communicate, "rate": 1e3 * column.communicate / ITERATIONS / (nbytes / 2**20)}
        row = "table2.{model}_communicate"
        yield PAPER.claim(row, round(ours, 2), tolerance=0.02 * column.communicate, **values | more)


# Table III and Figure 14(a): bits per value, and the resulting compression ratio.
#
# The paper says neither how deep HDC is (five layers, and 2.5 MB: three), nor how its weights begin, nor whether the
# loss over a worker's images is their mean or their sum, nor whose gradients it counts: all readings are compared.

_LOSSES = (
    ("glorot", "mean", BASE),
    ("glorot", "summed", BASE),
    ("glorot", "summed_at_printed_rate", LITERAL),
    ("pytorch", "mean", PYTORCH),
    ("pytorch", "summed", PYTORCH),
)
"""Initial weights, loss, and runs; mean and sum take the same steps where the sum's rate is divided by the batch."""


def readings(runs: Record) -> dict[tuple[int, str, str, str], Any]:
    """Return the percentages of values by size in the gradients of HDC, an array (seeds x bounds x sizes), for each
    reading of Table III; bounds are 2^-10, 2^-8 and 2^-6, sizes 2, 10, 18 and 34 bits.

    The keys are readings: number of layers (3, 4 or 5), initial weights (``glorot`` or ``pytorch``), loss (``mean``,
    ``summed``, or, with ``glorot``, ``summed_at_printed_rate``), and whether one worker's gradient is counted (``own``)
    or what crosses the ring (``ring``).

    Args:
        runs: the runs for Table III, by network and then by name, a list by seed, each with its ``shares``, from 0 to
            1, by ``own`` or ``ring`` and then by loss.
    """
    found = {}
    for (layers, network), (initial, loss, name), what in product(LAYERS.items(), _LOSSES, ("own", "ring")):
        shares = [run["shares"][what][loss.partition("_")[0]] for run in runs[network][name]]
        found[layers, initial, loss, what] = 100 * np.array(shares)
    return found


def agreeing(shares: Any, *, closely: bool = False) -> list[int]:
    """Return for each seed how many (0 to 12) of HDC's twelve cells agree with Table III: at each of three bounds the
    shares of values below 34 bits and the ratio that follows.

    A cell agrees within a quarter of what separates the printed one from its value where everything is dropped (100, 0
    and 0 %, ratio 16); ``closely``, also within half of the last printed digit (0.05 points, 0.06 of a ratio) plus
    three standard deviations of ours over the seeds.

    Args:
        shares: percentages (seeds x bounds x sizes): bounds 2^-10, 2^-8 and 2^-6, sizes 2, 10, 18 and 34 bits.
        closely: use the narrower of both tolerances.
    """

    def cells(shares: Any) -> Any:
        return np.concatenate([shares[..., :3], 32 / (shares / 100 @ TAG_BITS)[..., None]], axis=-1)

    ours, paper = cells(shares), cells(np.array([TABLE_3["HDC", k] for k in BOUNDS]))
    within = np.abs(paper - [100, 0, 0, 16]) / 4
    if closely:
        deviation = np.std(ours, axis=0, ddof=min(1, len(ours) - 1))
        within = np.minimum(within, np.array([0.05, 0.05, 0.05, 0.06]) + 3 * deviation)
    return [int(count) for count in np.sum(np.abs(ours - paper) <= within, axis=(1, 2))]


def beyond_dropping(bits: int, printed: float) -> dict[str, Any]:
    """Return fields for a row of Table III, as keyword arguments of the claim: as ``trivial`` the percentage of a class
    where every value is dropped (100 for 2 bits, else 0), and as ``tolerance`` a quarter of the printed one's distance
    from it.

    A printed percentage that equals it shows nothing: then ``basis`` ("by construction") says so in place of the
    tolerance.

    Args:
        bits: size of the class: 2, 10, 18 or 34.
        printed: percentage of values in it, as printed.
    """
    trivial = 100.0 if bits == TAG_BITS[0] else 0.0
    if printed == trivial:
        return {"trivial": trivial, "basis": "by construction"}
    return {"trivial": trivial, "tolerance": round(abs(printed - trivial) / 4, 4)}


def _table_3(runs: Record) -> Iterator[Claim]:
    """Yield Table III's 48 rows, percentages by model, bound and size: HDC by the reading that agrees most
    (:data:`SETTLED`), mean over seeds, and the other networks by their first steps with float32; then HDC's ratio at
    2^-10 (float32 bits per sent bit), in how many of twelve cells each reading of HDC agrees (a text of one count a
    seed, "9 10 9"), and whether a model's printed rows fit one distribution. ``runs`` are those for Table III, by
    network and then by name, a list by seed."""
    ours = {"HDC": settled(runs)}
    for network, (model, _) in STAND_INS.items():
        ours[model] = 100 * np.array(runs[network][BASE][0]["shares"]["own"][SETTLED[2]])
    for model, (place, k) in product(MODELS, enumerate(BOUNDS)):
        row = "table3.hdc_bound{k}_{bits}bit" if model == "HDC" else "table3.{model}_bound{k}_{bits}bit"
        for bits, printed, share in zip(TAG_BITS, TABLE_3[model, k], ours[model][place], strict=True):
            values = {"model": slug(model), "k": k, "bits": bits, "paper": printed, **beyond_dropping(bits, printed)}
            # To two digits, and to the one digit of the paper where that prints 0.0.
            yield PAPER.claim(row, round(float(share), 2 if printed else 1), **values)
    yield PAPER.claim("figure14.hdc_ratio_bound10", round(ratio_of_shares(ours["HDC"][0]), 2))
    for reading, shares in readings(runs).items():
        said = ", ".join(" / ".join(f"{share:.2f}" for share in row[:3]) for row in shares.mean(axis=0))
        cells, close = (" ".join(map(str, agreeing(shares, closely=closely))) for closely in (False, True))
        name = "_".join(map(str, reading))
        yield PAPER.claim("table3.hdc_layers_{reading}", cells, reading=name, said=said, close=close)
    for model in MODELS:
        yield PAPER.claim("table3.{model}_distribution", _distribution(model), model=slug(model))


def settled(runs: Record) -> Any:
    """Return HDC's percentages of values (bounds x sizes) by the reading of Table III that agrees most
    (:data:`SETTLED`, a fixed choice), an array of the mean over the seeds; bounds are 2^-10, 2^-8 and 2^-6, sizes 2,
    10, 18 and 34 bits; ``runs`` are those for Table III, by network and then by name, a list by seed."""
    return readings(runs)[SETTLED].mean(axis=0)


def _distribution(model: str) -> str:
    """Return "one distribution" if the printed shares of a model fit one, else the first pair that does not, as "12.3 %
    below 2^-5, 11.9 % below 2^-4".

    At each bound 2^-k (k 10, 8 and 6) the shares of 2, and of 2 and 10 bits, are those of values below 2^-k and 2^-(k
    // 2), which cannot fall as these grow; 0.15 points are allowed for rounding.
    """
    rows = {k: TABLE_3[model, k] for k in BOUNDS}
    below = {k: row[0] for k, row in rows.items()} | {k // 2: row[0] + row[1] for k, row in rows.items()}
    for larger, smaller in pairwise(sorted(below)):
        if below[larger] < below[smaller] - 0.15:
            return f"{below[smaller]:.1f} % below 2^-{smaller}, {below[larger]:.1f} % below 2^-{larger}"
    return "one distribution"


# Figure 15: gradient exchange time of four to eight workers, and up to 1024.

MEASURED = range(4, 9)
"""Workers of the paper's cluster."""
FURTHER = (4, 8, 16, 32, 64, 128, 256, 512, 1024)


@cache
def curves(model: str) -> dict[str, dict[int, float]]:
    """Return the seconds of an exchange of a model's gradients, by ``WA`` (worker-aggregator) or ``INC`` (ring) and
    then by the number of workers (4 to 8, and powers of two to 1,024), by section VIII-D's forms at 10 Gbit/s with
    Table II's speed of sums."""
    link, nbytes = link_of(model), size_bytes(model)
    counts = sorted({*MEASURED, *FURTHER})
    return {
        "WA": {p: worker_aggregator(p, nbytes, link) for p in counts},
        "INC": {p: ring(p, nbytes, link) for p in counts},
    }


def _exchange_times() -> Iterator[Claim]:
    """Yield for worker-aggregator and ring two rows: how the seconds of an exchange grow from four to eight workers, in
    words ("almost constant", "almost linear" or "grows 1.50 times"), and the milliseconds of eight workers beside the
    closed form without latency and sums; by schedules of 8 MiB that are built, verified and costed on a 10 Gbit/s
    switch."""
    nbytes = 8 * 2**20
    for name, algorithm, form, more in (("wa", "worker-aggregator", worker_aggregator, 1), ("inc", "ring", ring, 0)):
        seconds = {p: built_seconds(algorithm, p + more, nbytes) for p in MEASURED}
        yield PAPER.claim(f"figure15.{name}_growth", _shape(seconds))
        last, printed = MEASURED[-1], 1e3 * form(MEASURED[-1], nbytes, Link())
        ours = round(1e3 * seconds[last], 3)
        yield PAPER.claim(f"figure15.{name}_form", ours, paper=round(printed, 3), tolerance=0.001 * printed)


def _shape(seconds: dict[int, float]) -> str:
    """Return how seconds grow from four to eight workers, in words: "almost constant" up to 1.2 times, "almost linear"
    within 15 % of twofold, else "grows 1.50 times"; ``seconds`` are by the number of workers, 4 and 8 among them."""
    first, last = seconds[MEASURED[0]], seconds[MEASURED[-1]]
    if last / first <= 1.2:
        return "almost constant"
    linear = last / first / (MEASURED[-1] / MEASURED[0])
    return "almost linear" if abs(linear - 1) <= 0.15 else f"grows {last / first:.2f} times"


def built_seconds(algorithm: str, ranks: int, nbytes: float) -> float:
    """Return the seconds of an all-reduce of ``nbytes`` bytes a rank by an algorithm's schedule, built and verified, on
    a 10 Gbit/s packet switch without latency; ``ranks`` include an aggregator, ``nbytes`` are rounded to whole bytes,
    and adding takes no time."""
    fabric = PacketSwitch(ranks=ranks, bandwidth=LINK_BITS / 8, hop_latency=0.0)
    return cost(build(find(algorithm), Collective("all-reduce", ranks, round(nbytes)), fabric), fabric).time


# Figures 3 and 12: sizes, shares of communication, and training time with and without ring and compression.
#
# AlexNet, ResNet-50 and VGG-16 cannot be trained here: their step time is Table II's measured computation plus our
# communication model, which knows no host: payload and headers at 10 Gbit/s. HDC has rows of both kinds.

PAYLOAD, FRAMING = 1448, 90
"""Bytes a packet: TCP payload at an MTU of 1500 with timestamps; TCP/IP headers, Ethernet frame, preamble and gap."""


@dataclass(frozen=True, slots=True)
class IterationTime:
    """Durations of an iteration, in seconds: ``local`` without communication, and ``communicate``."""

    local: float
    communicate: float

    @property
    def total(self) -> float:
        """Seconds of an iteration without overlap of computation (with the sum of gradients) and communication, which
        are added, as in the paper."""
        return self.local + self.communicate


def wire_seconds(nbytes: float, compression: float = 1.0) -> float:
    """Return the seconds that ``nbytes`` bytes take on one 10 Gbit/s link, headers included: packets of 1,448 bytes of
    payload and 90 of headers and gaps.

    Args:
        nbytes: payload before compression.
        compression: bytes over compressed bytes. It happens behind the NIC and shrinks payloads, never the number of
            packets (section VIII-C).
    """
    switch = PacketSwitch(ranks=WORKERS, bandwidth=LINK_BITS / 8, packet_payload=PAYLOAD, packet_header=FRAMING)
    return nbytes / compression / switch.with_smaller_packets(compression).data_rate(switch.bandwidth)


@cache
def steps(model: str) -> dict[str, IterationTime]:
    """Return the seconds of an iteration of a model, without communication and of communication, on four workers for
    ``WA`` (worker-aggregator), ``WA+C``, ``INC`` (ring) and ``INC+C``: Table II's computation and sum of gradients (a
    quarter of it for INC), and our model of communication on one link of 10 Gbit/s: four times the gradients and four
    times the weights for WA, one and a half times the gradients for INC; C compresses gradients, not weights, at 2^-10,
    by Table III's ratio of the model."""
    column, nbytes, compression = TABLE_2[model], size_bytes(model), ratio(model, 10)
    local = column.local / ITERATIONS
    adding = column.gradient_sum / ITERATIONS
    share = (WORKERS - 1) / WORKERS
    # The aggregator adds (p − 1) n bytes; in a ring every worker adds (p − 1)/p n, at the same time as the others.
    ring_local = local + adding / WORKERS
    weights = wire_seconds(WORKERS * nbytes)
    hops = 2 * share * nbytes
    return {
        "WA": IterationTime(local + adding, weights + wire_seconds(WORKERS * nbytes)),
        "WA+C": IterationTime(local + adding, weights + wire_seconds(WORKERS * nbytes, compression)),
        "INC": IterationTime(ring_local, wire_seconds(hops)),
        "INC+C": IterationTime(ring_local, wire_seconds(hops, compression)),
    }


def percent_less(ours: float, than: float) -> float:
    """Return by how many percent ``ours`` is less than ``than``; negative if it is more."""
    return 100 * (1 - ours / than)


def _figure_3() -> Iterator[Claim]:
    """Yield the size of each model's parameters in MiB by our zoo (float32) beside the paper's, and the percentage of
    communication in AlexNet's training time with worker-aggregator training, by our model."""
    for model in MODELS:
        ours = round(4 * ZOO[slug(model)].parameters / 2**20, 3)
        yield PAPER.claim("figure3.{model}_size", ours, paper=MEGABYTES[model], model=slug(model))
    wa = steps("AlexNet")["WA"]
    yield PAPER.claim("figure3.alexnet_communication", round(100 * wa.communicate / wa.total, 3))


def _reductions(exchange: Record) -> Iterator[Claim]:
    """Yield Figure 12's rows without compression: the order of the configurations as measured for HDC (the record's
    text), and by model the percentages by which the ring (INC) shortens the communication and the total of
    worker-aggregator training (WA), for HDC as measured, else by our model. ``exchange`` is the record of measured
    exchanges, with ``order`` and, under ``reductions``, rows of ``what`` (``communication, INC against WA`` or ``total,
    INC against WA``), ``percent`` and ``range``, each by model.

    Fields of the explanations: ``reached`` is the Gbit/s that the printed reduction implies, ``saved`` the seconds that
    both printed reductions leave to computation in 100 iterations, and ``could`` those that sharing the gradient sum
    can save.
    """
    yield PAPER.claim("figure12.order", exchange["order"]["HDC"], exchange=exchange)
    measured = {row["what"]: row for row in exchange["reductions"]["HDC"]}
    for model, column in TABLE_2.items():
        left = (1 - INC_COMMUNICATION[model] / 100) * column.communicate
        values = {
            "model": slug(model),
            "reached": 1.5 * size_bytes(model) * 8 * ITERATIONS / left / 1e9,
            "saved": INC_TOTAL[model] / 100 * column.total - (column.communicate - left),
            "could": column.gradient_sum * (1 - 1 / WORKERS),
            "exchange": exchange,
        }
        wa, inc = steps(model)["WA"], steps(model)["INC"]
        for what, ours, paper in (
            ("communication", percent_less(inc.communicate, wa.communicate), INC_COMMUNICATION[model]),
            ("total", percent_less(inc.total, wa.total), INC_TOTAL[model]),
        ):
            row = measured[f"{what}, INC against WA"]
            percent = row["percent"] if model == "HDC" else ours
            more = {"what": what, "range": row["range"], "paper": paper}
            yield PAPER.claim("figure12.{model}_inc_{what}", round(percent, 1), **values | more)


def _compressed() -> Iterator[Claim]:
    """Yield Figure 12's six rows with compression, by our model of :func:`steps`: percent less communication of WA+C
    than WA (mean over the models), of INC+C than WA (least, then greatest) and of INC+C than INC (mean), and the least
    and greatest speed-up (how many times as fast) of an iteration with INC+C over WA."""
    for what, ours, base, pick in (
        ("wa_c", "WA+C", "WA", fmean),
        ("inc_c_least", "INC+C", "WA", min),
        ("inc_c_greatest", "INC+C", "WA", max),
        ("inc_c_over_inc", "INC+C", "INC", fmean),
    ):
        less = [percent_less(steps(model)[ours].communicate, steps(model)[base].communicate) for model in MODELS]
        yield PAPER.claim(f"figure12.{what}_communication", round(pick(less), 1))
    speedups = [steps(model)["WA"].total / steps(model)["INC+C"].total for model in MODELS]
    yield PAPER.claim("figure12.least_speedup", round(min(speedups), 2))
    yield PAPER.claim("figure12.greatest_speedup", round(max(speedups), 2))


def _packet_cost() -> Claim:
    """Return the row of whether packets and headers explain what compression saves: the least and greatest percentage
    less communication of INC+C than INC over the models, as "40 to 50 % less", with one constant, host seconds a
    packet, which compression does not save, fitted to AlexNet's seconds of communication with INC as printed."""
    less: list[float] = []
    for model in MODELS:  # AlexNet first
        nbytes = 2 * (WORKERS - 1) / WORKERS * size_bytes(model)
        plain, packed = wire_seconds(nbytes), wire_seconds(nbytes, ratio(model, 10))
        if not less:
            printed = (1 - INC_COMMUNICATION[model] / 100) * TABLE_2[model].communicate / ITERATIONS
            host = (printed - plain) / (nbytes / PAYLOAD)
        kept = nbytes / PAYLOAD * host
        less.append(percent_less(packed + kept, plain + kept))
    return PAPER.claim("figure12.packet_cost_fitted", f"{min(less):.0f} to {max(less):.0f} % less", host_us=1e6 * host)


# Figure 7: training time with compression in software.

SLIGHT = 0.75
"""Our reading of "only slightly" shorter, which the paper says of truncation: no less than that of the time without,
and less than it in every round."""


def _software_loop(loop: Record, codec: Record) -> Iterator[Claim]:
    """Yield the five rows of codecs in software for HDC. Three are seconds of a step of its training loop over those
    without a codec, from ``loop`` (``rows`` with ``codec``, ``step_of_none`` and its range over rounds): with snappy,
    with SZ at 2^-10, and with truncation by 16, 22 and 24 bits. Two are ratios of compression of its gradient in the
    middle of training, from ``codec`` (``data``, rows by stage): snappy's, and the lossy codec's at 2^-10 beside the
    general-purpose ones.

    The rows of SZ (2 to 4 times as long), of truncation (0.75 times or more, and less than once in every round) and of
    the comparison (no less than the best of snappy, zstd and SZ) have the paper's words where ours agree, else our
    numbers in words ("1.50 times as long").
    """
    by_name = {row["codec"]: row for row in loop["rows"]}
    snappy, sz = by_name["snappy"], by_name["sz3:2^-10"]
    yield PAPER.claim("figure7.hdc_snappy", round(snappy["step_of_none"], 2), row=snappy, loop=loop)
    factor, paper = sz["step_of_none"], PAPER.rows["figure7.hdc_sz"].paper
    within = paper if 2 <= factor <= 4 else f"{factor:.2f} times as long"
    yield PAPER.claim("figure7.hdc_sz", within, row=sz, loop=loop)
    cut = [by_name[f"truncate:{bits}"] for bits in DROPPED]
    shorter = all(row["step_of_none"] >= SLIGHT and row["step_of_none_range"][1] < 1 for row in cut)
    factors = ", ".join(f"{row['step_of_none']:.2f}" for row in cut)
    paper = PAPER.rows["figure7.hdc_truncate"].paper
    yield PAPER.claim("figure7.hdc_truncate", paper if shorter else f"{factors} times as long", loop=loop)
    ratios = {row["codec"]: row["ratio"] for row in codec["data"][codec["middle"]]}
    yield PAPER.claim("figure7.snappy_ratio", round(ratios["snappy"], 2))
    ours, others = ratios["inceptionn:2^-10"], (ratios["snappy"], ratios["zstd -3"], ratios["SZ3 2^-10"])
    words = f"{ours:.1f} beside {', '.join(f'{each:.1f}' for each in others)}"
    yield PAPER.claim("figure14.general_purpose", words if ours < max(others) else "significantly more")


def claims(
    training: Record, table3: Record, networks: Record | None, loop: Record, codec: Record, exchange: Record
) -> tuple[Claim, ...]:
    """Return all rows of the study, in the order of its page, from the records of our measurements.

    Args:
        training: the long runs on HDC, under ``runs`` by name, and the counts of ``gradients`` by stage.
        table3: runs for Table III, by network and then by name.
        networks: the short runs on LeNet, under ``runs`` by network; None leaves their rows out.
        loop: codecs in the training loop.
        codec: speeds and ratios of codecs alone.
        exchange: exchanges over limited links.
    """
    runs = training["runs"]
    ratios = [ratio(*key) for key in TABLE_3]
    short = {} if networks is None else networks["runs"]
    return (
        *(*_table_1(), *_table_2()),
        *_table_3(table3),
        PAPER.claim("figure14.best_ratio", round(max(ratios), 2)),
        PAPER.claim("figure14.least_ratio", round(min(ratios), 2)),
        *(*_figure_3(), *_reductions(exchange), *_compressed(), _packet_cost()),
        *(*_accuracy(runs, table3[LAYERS[SETTLED[0]]]), _truncation(runs, "hdc"), _extra_epochs(runs)),
        *((_truncation(short["lenet"], "lenet"), *_findings(short["lenet"], "lenet")) if short else ()),
        *(*_findings(runs, "hdc"), *_findings(table3[LAYERS[SETTLED[0]]], "hdc_summed")),
        *figure5_claims(training["gradients"]),
        *_software_loop(loop, codec),
        *_exchange_times(),
        *_proofs(),
    )
