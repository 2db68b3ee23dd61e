"""The rows of the INCEPTIONN study: its tables and figures, from formulas, stored measurements and trainings here."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from statistics import fmean
from typing import Any

import numpy as np

from lightloom.collectives.collective import Collective
from lightloom.collectives.cost.stepped import cost
from lightloom.collectives.registry import build, find
from lightloom.core.claims import Basis, Claim
from lightloom.exchange.compression.inceptionn import Inceptionn, InceptionnPrinted
from lightloom.machines.fabrics.switches import PacketSwitch
from lightloom.models.zoo import ZOO
from lightloom.papers.inceptionn import (
    BEST_RATIO,
    BOUNDS,
    INC_C,
    INC_C_OVER_INC,
    INC_COMMUNICATION,
    INC_TOTAL,
    ITERATIONS,
    LINK_BITS,
    MEGABYTES,
    MODELS,
    PAPER,
    SPEEDUPS,
    TABLE_1,
    TABLE_2,
    TABLE_2_PERCENT,
    TABLE_3,
    TAG_BITS,
    WA_C,
    WORKERS,
    Link,
    link_of,
    one_link,
    ratio,
    ratio_of_shares,
    ring,
    size_bytes,
    worker_aggregator,
)
from lightloom.papers.inceptionn.runs import RANKS, figure5_claims
from lightloom.papers.study import BASE, Record, paired

_FEEDBACK = "windowed+feedback 2^-10"
WITHIN = 2.0
"""Points that section VIII-C says compression costs at most ("< 2 % in absolute accuracy")."""
_WITHIN_TEXT = f"less than {WITHIN:g} points lost"
_UNSTATED = "The paper does not state its initialisation"
_CORRECTED = "Our correction stands for the printed codec"
_LEVEL = 0.98
_EPOCH = 600
"""Iterations: 60,000 images, 25 a worker, 4 workers."""


def final(run: Record) -> float:
    """Return the last recorded test accuracy of a run, in percent."""
    return 100 * float(run["accuracy"][-1])


def base_at(runs: Record, run: Record) -> float:
    """Return the test accuracy of float32 with the same seed at the last recorded iteration of ``run``, in percent."""
    base = next(base for base in runs[BASE] if base["recipe"]["seed"] == run["recipe"]["seed"])
    return 100 * float(base["accuracy"][base["iterations"].index(run["iterations"][-1])])


def mean_ratio(run: Record) -> float:
    """Return float32 bytes over bytes sent in the run; all ranks send equally many."""
    return float(run["nbytes_raw"] / run["nbytes_sent"])


def _feedback(runs: Record) -> Iterator[Claim]:
    """Yield the headline rows: mean accuracy difference of feedback at 2^-10 from float32, in points, and mean
    compression ratio over the seeds."""
    pairs = paired(runs, _FEEDBACK, "accuracy", 100)
    assert pairs is not None
    ratios = [mean_ratio(run) for run in runs[_FEEDBACK]]
    yield PAPER.claim("headline.accuracy_difference", round(pairs.mean, 3), pairs=pairs)
    yield PAPER.claim("headline.mean_ratio", round(fmean(ratios), 2), paper=round(ratio("HDC", 10), 2), ranks=RANKS)


def truncated(runs: Record) -> list[int]:
    """Return the numbers of dropped low bits (of 16, 22, 24) for which there are runs of truncated gradients and of
    truncated weights."""
    return [bits for bits in (16, 22, 24) if {f"truncate g {bits}", f"truncate w {bits}"} <= set(runs)]


def _truncations(runs: Record, network: str) -> Iterator[Claim]:
    """Yield a network's rows on whether truncated gradients cost no more accuracy (within 0.1 points) than weights that
    are truncated as much, by dropped bits."""
    for bits in truncated(runs):
        names = {what: f"truncate {what} {bits}" for what in ("g", "w", "w+g")}
        accuracy = {what: final(runs[name][0]) for what, name in names.items() if name in runs}
        order = "g no worse than w" if accuracy["g"] >= accuracy["w"] - 0.1 else "g worse than w"
        run = runs[names["g"]][0]
        values = {"bits": bits, "accuracy": accuracy, "base": base_at(runs, run), "iterations": run["iterations"][-1]}
        yield PAPER.claim(f"figure4.{network}_order_{{bits}}", order, **values)


def _codecs_of_hdc(runs: Record) -> Iterator[Claim]:
    """Yield Figure 14's rows of accuracy lost by HDC with the first seed: each codec at each bound, then truncated
    gradients."""
    for k in BOUNDS:
        for label in ("printed", "windowed", "windowed+feedback"):
            remark = _UNSTATED if label == "printed" else f"{_CORRECTED}. {_UNSTATED}"
            basis: Basis = "reproduced" if label == "printed" else "stand-in"
            yield _accuracy(runs, "hdc_accuracy", f"{label} 2^-{k}", basis, most=1, remark=remark)
    remark = "Section VIII-C calls truncation suitable for HDC"
    for bits in truncated(runs):
        yield _accuracy(runs, "hdc_accuracy", f"truncate g {bits}", "reproduced", most=1, remark=remark)


def reached(run: Record, level: float) -> int | None:
    """Return the first recorded iteration with at least that accuracy (0 to 1), or None if none has it."""
    hits = (i for i, accuracy in zip(run["iterations"], run["accuracy"], strict=True) if accuracy >= level)
    return next(hits, None)


def _extra_epochs(runs: Record, network: str, level: float) -> Claim:
    """Return the row of the epochs more that a network takes with feedback than float32 to reach an accuracy (0 to 1):
    the mean over seeds where both reach it, None without any; the time between records is the resolution."""
    every = runs[BASE][0]["iterations"][0]
    pairs = [
        (reached(plain, level), reached(packed, level))
        for plain, packed in zip(runs[BASE], runs[_FEEDBACK], strict=True)
    ]
    more = [(second - first) / _EPOCH for first, second in pairs if first is not None and second is not None]
    ours, values = round(fmean(more), 2) if more else None, {"level_percent": 100 * level, "seeds": len(more)}
    return PAPER.claim(f"figure13.{network}_extra_epochs", ours, resolution=every / _EPOCH, **values)


# Figure 12 measured: worker-aggregator and ring, with and without compression, on four workers and limited links.

_PRINTED = {
    "total, INC against WA": INC_TOTAL["HDC"],
    "communication, INC against WA": INC_COMMUNICATION["HDC"],
    "communication, WA+C against WA": WA_C,
    "communication, INC+C against WA": INC_C,
    "communication, INC+C against INC": INC_C_OVER_INC,
}


def _limited_links(exchange: Record) -> Iterator[Claim]:
    """Yield, for each model measured, the row of the order of the configurations, then those of percent saved."""
    for model, order in exchange["order"].items():
        yield PAPER.claim("figure12.measured_{model}_order", order, model=slug(model), exchange=exchange)
    for model, rows in exchange["reductions"].items():
        for row in rows:
            values = {"model": slug(model), "what": slug(row["what"]), "range": row["range"]}
            ours, paper = round(row["percent"], 1), _PRINTED[row["what"]]
            yield PAPER.claim("figure12.measured_{model}_{what}", ours, paper=paper, **values)


def slug(text: str) -> str:
    """Return the name of a model or of a quantity as part of a row id: lower case, underscores, without "against"."""
    words = text.lower().replace("+", "_").replace(",", "").replace("-", "").split()
    return "_".join(word for word in words if word != "against")


# Statements that do not hold as printed, each with a proof that is run.

_STRIDE = 61
"""Stride of the bit patterns that are tried; ``make test-slow`` tries all of them."""


def largest_error(codec: Inceptionn | InceptionnPrinted) -> float:
    """Return the largest error as a multiple of the codec's bound, over positive float32 below 1: every 61st bit
    pattern, and the last of each binade."""
    bits = np.arange(0, 127 << 23, _STRIDE, dtype=np.uint32)
    # The worst value of each binade is its last one.
    bits = np.concatenate([bits, (np.arange(1, 128, dtype=np.uint32) << 23) - 1])
    pieces = np.array_split(bits.view(np.float32), 32)
    worst = max(np.max(np.abs(codec.round_trip(piece).astype(np.float64) - piece)) for piece in pieces)
    return float(worst) / codec.bound


def blocks_right(workers: int, *, corrected: bool) -> int:
    """Return how many of the N² blocks hold the full sum after Algorithm 1, as printed or with phase 2 corrected.

    Each block holds the set of workers in it. Receives come before sends in the printed loop body, which would
    deadlock; sends go first here, which changes no block's content within a step.
    """
    n = workers
    holds = [[frozenset({i}) for _ in range(n)] for i in range(n)]
    for s in range(1, 2 * n - 1):
        adds = s < n
        shift = 0 if adds or corrected else 1
        sent = [holds[i][(i - s + 1 + shift) % n] for i in range(n)]
        for i in range(n):
            block = (i - s + shift) % n
            holds[i][block] = sent[i - 1] | (holds[i][block] if adds else frozenset())
    everyone = frozenset(range(n))
    return sum(block == everyone for row in holds for block in row)


def _proofs() -> Iterator[Claim]:
    """Yield the rows of statements that do not hold as printed: errors over the bound, complete blocks of Algorithm 1
    as printed and corrected, and HDC's MiB with three layers."""
    for k in (6, 8, 10):
        for name, codec in (("printed", InceptionnPrinted(2.0**-k)), ("windowed", Inceptionn(2.0**-k))):
            worst = largest_error(codec)
            ours = "within the bound" if worst < 1 else f"{worst:.3g} times the bound"
            yield PAPER.claim(f"example.{name}_error_bound{{k}}", ours, k=k)
    for n in (2, 4, 8):
        for name in ("printed", "corrected"):
            right = blocks_right(n, corrected=name == "corrected")
            yield PAPER.claim(f"example.algorithm1_blocks_{name}_n{{n}}", right, paper=n * n, n=n)
    three_layers = 784 * 500 + 500 * 500 + 500 * 10 + 2 * 500 + 10
    yield PAPER.claim("example.hdc_three_layers", round(4 * three_layers / 2**20, 2))


# Tables I and II: hyper-parameters of our training, and checks of the printed sums.


def _table_1() -> Iterator[Claim]:
    """Yield a row for each of Table I's hyper-parameters of HDC: the default of our recipe beside the printed one."""
    from lightloom.papers.runs.digits import Recipe

    recipe, renamed = Recipe(seed=0), {"batch_per_node": "batch_per_rank", "divisor": "learning_rate_divisor"}
    for name, printed in TABLE_1["HDC"].items():
        ours = getattr(recipe, renamed.get(name, name))
        yield PAPER.claim("table1.hdc_{name}", ours, paper=printed, name=name.removesuffix("_per_node"))


def _table_2() -> Iterator[Claim]:
    """Yield the sum of each model's seconds, the printed share that differs most from seconds over total, and the
    seconds of communication by both closed forms."""
    for model in MODELS:
        ours = round(sum(TABLE_2[model].parts.values()), 2)
        yield PAPER.claim("table2.{model}_total", ours, paper=TABLE_2[model].total, model=slug(model))
    for model in MODELS:
        column = TABLE_2[model]
        off = {
            name: (printed, 100 * seconds / column.total)
            for (name, seconds), printed in zip(column.parts.items(), TABLE_2_PERCENT[model], strict=True)
        }
        name, (printed, ours) = max(off.items(), key=lambda item: abs(item[1][0] - item[1][1]))
        yield PAPER.claim("table2.{model}_{name}_percent", round(ours, 2), paper=printed, model=slug(model), name=name)
    for model in MODELS:
        paper = TABLE_2[model].communicate / ITERATIONS
        for name, form in (("section8d", worker_aggregator), ("one_link", one_link)):
            ours = form(WORKERS, size_bytes(model), Link())
            verdict = PAPER.tables["communication_verdicts"]["longer" if ours > paper else "shorter"]
            values = {"model": slug(model), "name": name, "says": PAPER.tables["communication_forms"][name]}
            values |= {"mebibytes": size_bytes(model) / 2**20, "quotient": ours / paper, "verdict": verdict}
            row = "table2.{model}_communicate_{name}"
            yield PAPER.claim(row, round(ours, 4), paper=paper, tolerance=0.02 * paper, **values)


# Table III and Figure 14(a): bits per value, and the resulting compression ratio.


def beyond_dropping(bits: int, printed: float) -> dict[str, Any]:
    """Return a row's values: as ``trivial`` the percentage of a class where every value is dropped (100 for 2 bits,
    else 0), and as ``tolerance`` a quarter of the printed one's distance from it.

    A printed percentage that equals it shows nothing: then ``basis`` says so in place of the tolerance.

    A printed share that is the same shows nothing.
    """
    trivial = 100.0 if bits == TAG_BITS[0] else 0.0
    if printed == trivial:
        return {"trivial": trivial, "basis": "by construction"}
    return {"trivial": trivial, "tolerance": round(abs(printed - trivial) / 4, 4)}


def _measured_shares(training: Record) -> Iterator[Claim]:
    """Yield Table III's rows of HDC from the first float32 run, then Figure 14's compression ratio by bound."""
    ours = mean_shares(training["runs"][BASE][0])
    yield from _shares("table3.hdc_bound{k}_{bits}bit", ours)
    for k in BOUNDS:
        ratios = [round(value, 2) for value in (ratio_of_shares(ours[k]), ratio("HDC", k))]
        yield PAPER.claim("figure14.hdc_ratio_bound{k}", ratios[0], paper=ratios[1], k=k)


def _shares(row: str, ours: dict[int, list[float]], **values: Any) -> Iterator[Claim]:
    """Yield the rows of Table III for HDC, from the percentages of each bound."""
    for k in BOUNDS:
        for bits, printed, share in zip(TAG_BITS, TABLE_3["HDC", k], ours[k], strict=True):
            values |= {"k": k, "bits": bits, "paper": printed}
            # To two digits, and to the one digit of the paper where that prints 0.0.
            yield PAPER.claim(row, round(share, 2 if printed else 1), **values, **beyond_dropping(bits, printed))


def _sums_of_table_3() -> Iterator[Claim]:
    """Yield a row for each model: the sum of Table III's percentages at the bound where it is farthest from 100."""
    for model in MODELS:
        _, k = max((abs(sum(TABLE_3[model, k]) - 100), k) for k in BOUNDS)
        yield PAPER.claim("table3.{model}_sum_bound{k}", round(sum(TABLE_3[model, k]), 1), model=slug(model), k=k)


# Figures 4, 13, 14 and Table III on a second network, and on HDC under the mean loss and the summed one.
#
# The paper does not say how its loss is scaled, and an absolute bound drops what a small gradient holds: the loss
# summed over a worker's 25 images has gradients 25 times as large as their mean.

LEVEL = 0.9
"""Accuracy to which LeNet's epochs are counted."""

LOSSES = {"mean": "", "summed": " summed"}
"""Losses over a worker's batch, and the words that mark their runs."""

CHANCE = 0.2
"""Accuracy below which a network of ten classes has learned nothing."""


def mean_shares(run: Record) -> dict[int, list[float]]:
    """Return the percentage of rank 0's gradient in each size (2, 10, 18, 34 bits), by the bound's k, averaged over the
    run."""
    tags = np.array(run["tags"])
    return {k: (100 * tags[:, place].mean(axis=0)).tolist() for place, k in enumerate(BOUNDS)}


def _hdc_under_two_losses(hdc: Record) -> Iterator[Claim]:
    """Yield rows of HDC under the mean and the summed loss: what the printed codec learns, whether the printed rate
    diverges, and the sizes of Table III."""
    for loss, mark in LOSSES.items():
        yield _accuracy(hdc, "hdc_scaled", f"printed 2^-10{mark}", "reproduced", what=f"printed_bound10_{loss}_loss")
    literal = hdc["float32 summed, rate as printed"][0]
    learns = "trains" if literal["accuracy"][-1] > CHANCE else "diverges"
    yield PAPER.claim("example.hdc_summed_loss_at_printed_rate", learns, final=final(literal))
    for loss, mark in LOSSES.items():
        run = hdc[f"float32{mark}"][0]
        values = {"loss": loss, "iterations": run["iterations"][-1]}
        yield from _shares("table3.hdc_{loss}_loss_bound{k}_{bits}bit", mean_shares(run), **values)


def _lenet(lenet: Record) -> Iterator[Claim]:
    """Yield LeNet's rows: truncation, accuracy with feedback and with each codec, extra epochs, and compression ratios,
    which agree if within the paper's range over its models."""
    yield from _truncations(lenet, "lenet")
    pairs = paired(lenet, _FEEDBACK, "accuracy", 100)
    assert pairs is not None
    yield PAPER.claim("headline.lenet_accuracy_difference", round(pairs.mean, 3), difference=pairs.text(2))
    for name in lenet:
        if name != BASE and not name.startswith("truncate w"):
            yield _accuracy(lenet, "lenet_accuracy", name, "stand-in")
    yield _extra_epochs(lenet, "lenet", LEVEL)
    ratios = {k: ratio_of_shares(ours) for k, ours in mean_shares(lenet[BASE][0]).items()}
    for k, ours in ratios.items():
        printed = sorted(ratio(model, k) for model in MODELS)
        paper = f"{printed[0]:.1f} to {printed[-1]:.1f}"
        within = paper if printed[0] <= ours <= printed[-1] else f"{ours:.1f}"
        yield PAPER.claim("figure14.lenet_ratio_bound{k}", within, paper=paper, k=k, measured=ours)


def _cifar(cifar: Record | None) -> Iterator[Claim]:
    """Yield a row for each codec at 2^-10 of LeNet on CIFAR-100; ours is None where it was not run."""
    for label in ("printed", "windowed", "windowed+feedback"):
        name = f"{label} 2^-10"
        if cifar is not None and name in cifar:
            yield _accuracy(cifar, "cifar_accuracy", name, "stand-in")
        else:
            yield PAPER.claim("figure14.cifar_accuracy_{what}", None, what=_claim_part(name), paper=_WITHIN_TEXT)


def _accuracy(runs: Record, family: str, name: str, basis: Basis, most: int | None = None, **more: str) -> Claim:
    """Return the row of the points that a codec loses to float32, mean over the seeds, of which ``most`` count; ours is
    the paper's words if they are fewer than ``WITHIN``; ``more`` are values of the explanation."""
    records = runs[name][:most]
    lost = fmean(base_at(runs, run) - final(run) for run in records)
    values = {
        "final": fmean(final(run) for run in records),
        "base": fmean(base_at(runs, run) for run in records),
        "ratio": fmean(mean_ratio(run) for run in records),
        "iterations": records[0]["iterations"][-1],
        "seeds": f"{len(records)} {'seeds' if len(records) > 1 else 'seed'}",
        "loss": "summed" if records[0]["recipe"].get("gradient_scale", 1) > 1 else "mean",
        "what": _claim_part(name),
    }
    ours = _WITHIN_TEXT if lost < WITHIN else f"{lost:.1f} points lost"
    return PAPER.claim(f"figure14.{family}_{{what}}", ours, paper=_WITHIN_TEXT, basis=basis, **values | more)


def _claim_part(name: str) -> str:
    """Return the name of a run or of a codec as part of a claim's id, with underscores, such as ``printed_bound10`` for
    ``printed 2^-10``."""
    words = name.replace("truncate g ", "truncate_").replace(":", " ").replace(" 2^-", "_bound").replace("+", "_")
    return words.replace(" summed", "_summed_loss").replace(" ", "_")


# Figure 15: gradient exchange time of four to eight workers, and up to 1024.

MEASURED = range(4, 9)
"""Workers of the paper's cluster."""
FURTHER = (4, 8, 16, 32, 64, 128, 256, 512, 1024)


@cache
def curves(model: str) -> dict[str, dict[int, float]]:
    """Return the seconds of an exchange, by ``WA`` or ``INC`` and then workers, at 10 Gbit/s with Table II's speed of
    sums."""
    link, nbytes = link_of(model), size_bytes(model)
    counts = sorted({*MEASURED, *FURTHER})
    return {
        "WA": {p: worker_aggregator(p, nbytes, link) for p in counts},
        "INC": {p: ring(p, nbytes, link) for p in counts},
    }


def _exchange_times() -> Iterator[Claim]:
    """Yield the rows of growth with the workers, and of the closed form against a schedule that is built, verified and
    costed on a 10 Gbit/s switch."""
    for name, paper in (("WA", "almost linear"), ("INC", "almost constant")):
        for model in MODELS:
            template = f"figure15.{{model}}_{name.lower()}_growth"
            yield PAPER.claim(template, _shape(curves(model)[name]), paper=paper, model=slug(model))
    for p in (4, 8, 64):
        form, ours = 1e3 * ring(p, p * 2**20, Link()), 1e3 * _ring_seconds(p, p * 2**20)
        yield PAPER.claim("figure15.ring_form_p{p}", round(ours, 4), paper=round(form, 4), tolerance=0.001 * form, p=p)


def _shape(seconds: dict[int, float]) -> str:
    """Return how seconds grow from four to eight workers, in words: "almost constant" up to 1.2 times, "almost linear"
    within 15 % of twofold, else the factor."""
    first, last = seconds[MEASURED[0]], seconds[MEASURED[-1]]
    if last / first <= 1.2:
        return "almost constant"
    linear = last / first / (MEASURED[-1] / MEASURED[0])
    return "almost linear" if abs(linear - 1) <= 0.15 else f"grows {last / first:.2f} times"


def _ring_seconds(p: int, nbytes: int) -> float:
    """Return the seconds of a built ring all-reduce of ``nbytes`` on a 10 Gbit/s packet switch without latency."""
    fabric = PacketSwitch(ranks=p, bandwidth=10e9 / 8, hop_latency=0.0)
    schedule = build(find("ring"), Collective("all-reduce", p, nbytes), fabric)
    return cost(schedule, fabric).time


# Figures 3 and 12: sizes, shares of communication, and training time with and without ring and compression.
#
# AlexNet, ResNet-50 and VGG-16 cannot be trained here: their step time is Table II's measured computation plus our
# communication model, which knows no host: payload and headers at 10 Gbit/s. HDC has rows of both kinds.

PAYLOAD, FRAMING = 1448, 90
"""Bytes a packet: TCP payload at an MTU of 1500 with timestamps; TCP/IP headers, Ethernet frame, preamble and gap."""


@dataclass(frozen=True, slots=True)
class IterationTime:
    """Durations of an iteration, in seconds."""

    local: float
    communicate: float

    @property
    def total(self) -> float:
        """Duration without overlap, as in the paper."""
        return self.local + self.communicate


def wire_seconds(nbytes: float, compression: float = 1.0) -> float:
    """Return seconds on one 10 Gbit/s link, headers included; compression behind the NIC shrinks payloads, never the
    number of packets (section VIII-C)."""
    switch = PacketSwitch(ranks=WORKERS, bandwidth=LINK_BITS / 8, packet_payload=PAYLOAD, packet_header=FRAMING)
    return nbytes / compression / switch.with_smaller_packets(compression).data_rate(switch.bandwidth)


@cache
def steps(model: str) -> dict[str, IterationTime]:
    """Return the durations of an iteration for WA, WA+C, INC and INC+C; C compresses at 2^-10, by Table III's ratio of
    the model."""
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
    """Yield the size of each model in MiB, and the percentage of communication in its training time with WA."""
    names = {"AlexNet": "alexnet", "HDC": "hdc", "ResNet-50": "resnet50", "VGG-16": "vgg16"}
    for model, name in names.items():
        ours = round(4 * ZOO[name].parameters / 2**20, 3)
        yield PAPER.claim("figure3.{model}_size", ours, paper=MEGABYTES[model], model=slug(model))
    for model in MODELS:
        column, wa = TABLE_2[model], steps(model)["WA"]
        paper = 100 * column.communicate / column.total
        ours = 100 * wa.communicate / wa.total
        yield PAPER.claim("figure3.{model}_communication", round(ours, 3), paper=round(paper, 1), model=slug(model))


def _reductions() -> Iterator[Claim]:
    """Yield Figure 12's rows without compression: percent by which INC shortens WA's communication and total, by model.

    ``reached`` is the Gbit/s that the printed reduction implies.
    """
    for model in MODELS:
        wa, inc = steps(model)["WA"], steps(model)["INC"]
        left = (1 - INC_COMMUNICATION[model] / 100) * _measured_communication(model)
        reached = 1.5 * size_bytes(model) * 8 / left / 1e9
        for what, ours, paper in (
            ("communication", percent_less(inc.communicate, wa.communicate), INC_COMMUNICATION[model]),
            ("total", percent_less(inc.total, wa.total), INC_TOTAL[model]),
        ):
            values = {"model": slug(model), "what": what, "reached": reached}
            yield PAPER.claim("figure12.{model}_inc_{what}", round(ours, 3), paper=paper, **values)


def _measured_communication(model: str) -> float:
    """Return Table II's seconds of communication of one iteration."""
    return TABLE_2[model].communicate / ITERATIONS


def _compressed() -> Iterator[Claim]:
    """Yield Figure 12's rows with compression: percent less communication, mean over the models, and the least and
    greatest speed-up of INC+C over WA."""
    for what, ours, base, paper in (
        ("wa_c", "WA+C", "WA", WA_C),
        ("inc_c", "INC+C", "WA", INC_C),
        ("inc_c_over_inc", "INC+C", "INC", INC_C_OVER_INC),
    ):
        mean = fmean(percent_less(steps(model)[ours].communicate, steps(model)[base].communicate) for model in MODELS)
        yield PAPER.claim(f"figure12.{what}_communication", round(mean, 3), paper=paper)
    speedups = [steps(model)["WA"].total / steps(model)["INC+C"].total for model in MODELS]
    yield PAPER.claim("figure12.least_speedup", round(min(speedups), 3), paper=SPEEDUPS[0])
    yield PAPER.claim("figure12.greatest_speedup", round(max(speedups), 3), paper=SPEEDUPS[1])


def _saved_computation() -> Iterator[Claim]:
    """Yield a row for each model that holds INC's savings outside communication, as printed, against the most it could
    save there."""
    for model in MODELS:
        column = TABLE_2[model]
        total = column.total * (1 - INC_TOTAL[model] / 100)
        communicate = column.communicate * (1 - INC_COMMUNICATION[model] / 100)
        saved = (column.total - column.communicate) - (total - communicate)
        could = column.gradient_sum * (1 - 1 / WORKERS)
        ours = "possible" if saved <= could else f"{saved:.3g} s of {could:.3g} s"
        yield PAPER.claim("figure12.{model}_computation_saved", ours, model=slug(model))


def _fitted_packet_cost() -> Iterator[Claim]:
    """Yield each model's percent less communication of INC+C than INC with one constant, host seconds a packet, fitted
    to AlexNet's INC."""
    nbytes = 2 * (WORKERS - 1) / WORKERS * size_bytes("AlexNet")
    target = (1 - INC_COMMUNICATION["AlexNet"] / 100) * _measured_communication("AlexNet")
    host = (target - wire_seconds(nbytes)) / (nbytes / PAYLOAD)
    for model in MODELS:
        packets = 1.5 * size_bytes(model) / PAYLOAD
        plain = wire_seconds(1.5 * size_bytes(model)) + packets * host
        packed = wire_seconds(1.5 * size_bytes(model), ratio(model, 10)) + packets * host
        ours, values = round(percent_less(packed, plain), 3), {"model": slug(model), "host_us": 1e6 * host}
        yield PAPER.claim("figure12.{model}_inc_c_over_inc_fitted", ours, paper=INC_C_OVER_INC, **values)


# Figure 7: training time with compression in software.

NAMES = {"snappy": "snappy", "sz3:2^-10": "SZ3 2^-10"}
"""Names in the codec benchmark of the codecs of the loop."""
RANGE = (2.0, 4.0)
"""Section VI: range of the training time with Snappy or SZ, over that without."""
_RANGE_TEXT = f"{RANGE[0]:g} to {RANGE[1]:g} times as long"
SLIGHT = 0.75
"""Our reading of "only slightly" shorter, which the paper says of truncation: no less than that of the time without,
and less than it in every round."""


def _general(what: str, factor: float, **values: object) -> Claim:
    """Return the row of a general-purpose codec: training time over that without (``factor``), or the paper's words if
    within the range that it names."""
    ours = _RANGE_TEXT if RANGE[0] <= factor <= RANGE[1] else f"{factor:.2f} times as long"
    return PAPER.claim("figure7.{what}", ours, paper=_RANGE_TEXT, what=what, **values)


def _software_loop(loop: Record, codec: Record) -> Iterator[Claim]:
    """Yield the rows of codecs in HDC's loop, from ``loop``, and of general-purpose codecs in AlexNet's, from their
    rates in ``codec``."""
    for row in loop["rows"]:
        name, factor = row["codec"], row["step_of_none"]
        values = {"row": row, "row_ms": 1e3 * row["step_s"], "loop": loop}
        if name in NAMES:
            yield _general(f"hdc_{_claim_part(name)}", factor, **values)
        elif name not in ("none", "inceptionn:2^-10"):
            paper, shorter = "slightly shorter", factor >= SLIGHT and row["step_of_none_range"][1] < 1
            ours = paper if shorter else f"{factor:.2f} times as long"
            yield PAPER.claim("figure7.{what}", ours, paper=paper, what=f"hdc_{_claim_part(name)}", **values)
    rates = {row["codec"]: row for row in codec["data"][codec["middle"]]}
    for name, known in NAMES.items():
        yield _general(f"alexnet_{_claim_part(name)}", alexnet_factor(rates[known]), rate=rates[known])


def alexnet_factor(rate: Record) -> float:
    """Return AlexNet's training time over that without a codec, for worker-aggregator with a codec of that rate on
    gradients only."""
    nbytes, plain = size_bytes("AlexNet"), steps("AlexNet")["WA"]
    compute = TABLE_2["AlexNet"].local / ITERATIONS + TABLE_2["AlexNet"].gradient_sum / ITERATIONS
    codec = nbytes / (1e9 * rate["encode_GBps"]) + WORKERS * nbytes / (1e9 * rate["decode_GBps"])
    # Software makes fewer packets, unlike the card.
    wire = wire_seconds(WORKERS * nbytes) + wire_seconds(WORKERS * nbytes / rate["ratio"])
    return float((compute + codec + wire) / plain.total)


def claims(
    training: Record, networks: Record | None, loop: Record, codec: Record, exchange: Record
) -> tuple[Claim, ...]:
    """Return all rows, from the records of our measurements.

    Args:
        training: the long runs on HDC.
        networks: the short runs on HDC and LeNet; None leaves their rows out.
        loop: codecs in the training loop.
        codec: speeds of codecs alone.
        exchange: exchanges over limited links.
    """
    runs = training["runs"]
    best = max(ratio(*key) for key in TABLE_3)
    short = {} if networks is None else networks["runs"]
    return (
        *(*_table_1(), *_table_2()),
        *_measured_shares(training),
        PAPER.claim("figure14.best_ratio", round(best, 2), paper=BEST_RATIO),
        *_sums_of_table_3(),
        *(*_figure_3(), *_reductions(), *_compressed()),
        *(*_saved_computation(), *_fitted_packet_cost()),
        *(*_feedback(runs), *_truncations(runs, "hdc"), *_codecs_of_hdc(runs), _extra_epochs(runs, "hdc", _LEVEL)),
        *(_hdc_under_two_losses(short["hdc"]) if short else ()),
        *((*_lenet(short["lenet"]), *_cifar(short.get("lenet-cifar"))) if short else ()),
        *figure5_claims(training["gradients"]),
        *_software_loop(loop, codec),
        *_limited_links(exchange),
        *_exchange_times(),
        *_proofs(),
    )
