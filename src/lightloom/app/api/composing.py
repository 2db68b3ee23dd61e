"""The five papers' ideas together: the best plan with every set of them on one accelerator and one model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import inf, log, sinh
from typing import TYPE_CHECKING, NamedTuple, get_args

from lightloom.app.api.arguments import Quantity, Settings
from lightloom.app.api.planning import TRIED, ExchangeChoice, ModelLike, read_model
from lightloom.core.answer import Answer
from lightloom.core.errors import ConfigError, UnknownNameError
from lightloom.core.results import Document, plain, provenance
from lightloom.core.units import format_bandwidth, format_energy, format_size, format_time, parse
from lightloom.exchange.method import accuracy_note
from lightloom.machines.accelerators.load import load_accelerator
from lightloom.machines.clusters.load import load_cluster
from lightloom.machines.parts.bill import Total
from lightloom.planning.economics.ledger import Site, site_of
from lightloom.planning.gradients import NIC
from lightloom.planning.ideas import ALL, IDEAS, Best, Composed, Equal, equal_networks
from lightloom.planning.ideas import compose as best_plans
from lightloom.planning.parallelism.strategy_space import Strategies, Strategy
from lightloom.planning.pricing.group_prices import AUTO
from lightloom.planning.search.answer import three_digits, waits
from lightloom.planning.search.bounds import bounds
from lightloom.planning.search.plans import Plan, half_width_of_ratio, plan_words
from lightloom.planning.search.request import SearchRequest
from lightloom.reports.figures.comparisons import waterfall_figure
from lightloom.reports.html import DrawnResult
from lightloom.reports.progress import progress
from lightloom.reports.report import PAGE_WIDTH

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PRINTED_RATIO = 5.59
"""Bytes of float32 for each byte of INCEPTIONN at 2^-10: the least of the paper's four models (AlexNet, Table III)."""
_BASE = "terarack-64"
"""Cluster whose settings of training are taken; its accelerator and fabric are replaced."""
_NOTHING = 5e-4
"""Share of a sample's time below which a gain is none."""
_MILLION = 1e6
"""Samples of which the dollars are told."""
_PRECISIONS = ("bf16", "fp16")
"""Precisions of training, the first that an accelerator has a rate for; else that of its highest rate."""


class Gain(NamedTuple):
    """Share of a sample's time that a plan takes off another's; negative where it is slower."""

    share: float
    half_width: float | None
    """Half of its 90 % interval; None where no spread is known."""
    known: bool
    """False where the interval holds 0, so that the order of both plans is not known."""

    @classmethod
    def of(cls, plan: Plan, other: Plan) -> Gain:
        """Return what ``plan`` takes off ``other``: the share of a sample's time, half of the 90 % interval of that
        share (None where no spread is known), and whether the order of both is known: the interval does not hold 0, no
        spread is known, or both take equally long."""
        ratio, width = plan.sample_time / other.sample_time, half_width_of_ratio(plan, other)
        if width is None:
            return cls(1 - ratio, None, True)
        return cls(1 - ratio, ratio * sinh(width), abs(log(ratio)) > width or ratio == 1)

    def __str__(self) -> str:
        """Return the gain in per cent with its half-width; 0 % where there is none."""
        if abs(self.share) < _NOTHING:
            return "0 %"
        error = "" if self.half_width is None else f" ±{100 * self.half_width:.0f}"
        return f"{100 * self.share:+.{1 if abs(self.share) < 0.0995 else 0}f}{error} %"


class Row(NamedTuple):
    """A row of the answer: a network or an idea, its best plan, and what that gains over the best electrical one."""

    name: str
    best: Best
    gain: Gain


def _family(best: Best) -> str:
    """Return the name of the method by which the plan of ``best`` exchanges gradients, without the options behind its
    colon (``int4``); empty for gradients as they are."""
    return "" if best.plan.gradient_exchange is None else best.plan.gradient_exchange.name.partition(":")[0]


_SHOWN: Mapping[str, Callable[[Best], bool]] = {
    "electrical ring": lambda best: best.network == "electrical ring" and not _family(best),
    "electrical switch": lambda best: best.network == "electrical switch" and not _family(best),
    "split, placement (SiP-ML)": lambda best: best.ideas == {"placement"},
    "trees of light (OpTree)": lambda best: best.network == "ring of light, trees" and not _family(best),
    "wavelengths, synthesized": lambda best: best.network == "ring of light, synthesized" and not _family(best),
    "optical mesh (DaDianNao)": lambda best: best.ideas == {"mesh"},
    "compression (INCEPTIONN)": lambda best: _family(best) == "inceptionn",
    "compression (int4)": lambda best: best.ideas == {"compression"} and _family(best) == "int4",
    "averaging in light (OptINC)": lambda best: best.ideas == {"averaging"},
    "rings with averagers": lambda best: best.ideas == {"averaging", "wavelengths"},
    "placement with averagers": lambda best: best.ideas == {"averaging", "placement"},
    "meshes with averagers": lambda best: best.ideas == {"averaging", "mesh"},
}
"""Rows of the answer, each the best of the plans that it names."""
_BEST = "best of all"
_ON_SCREEN = ("", "idea", "step", "waits", "J a sample", "gain")
"""Columns on the terminal. Pages have more: what a rank sends in a step, how often it sets circuits, the step over its
lower bound, dollars."""


@dataclass(frozen=True, repr=False, kw_only=True)
class Composition(DrawnResult):
    """The best plan with every set of the five ideas, and what each idea is worth alone and beside the others."""

    composed: Composed
    ranks: int
    accelerator: str
    bandwidth: float
    """Bytes per second of a rank on the electrical ring."""
    equal: Equal
    left_out: tuple[str, ...]
    """Networks whose parts have no figure of what is to be equal."""
    origin: Document
    """Version, hash of the configuration, and seed."""

    @cached_property
    def plans(self) -> tuple[Row, ...]:
        """Rows (``name``; ``best``, the plan with the least time of a sample, with the ideas that it uses, its network
        and the search that found it; ``gain`` over the best electrical plan): one for each of twelve kinds of plan (a
        network, or a set of ideas, with or without a method of exchanging gradients, such as "electrical ring" and
        "compression (int4)") that has any, and last "best of all"."""
        found = [(name, [best for best in self.composed.found if shown(best)]) for name, shown in _SHOWN.items()]
        rows = [(name, min(plans, key=lambda best: best.time)) for name, plans in found if plans]
        return tuple(self._row(*row) for row in (*rows, (_BEST, self.composed.best)))

    def _row(self, name: str, best: Best) -> Row:
        """Return the row of a plan under a name, with its gain over the best electrical plan."""
        return Row(name, best, Gain.of(best.plan, self.composed.baseline.plan))

    def worth(self) -> list[Document]:
        """Return a row for each idea: ``idea`` (``placement``, ``wavelengths``, ``mesh``, ``compression`` or
        ``averaging``), ``paper``, its proposal in words, ``gain_alone``, the share of a sample's time by the best
        electrical plan that the best plan with no other idea takes off, and ``gain_inside``, the share of a sample's
        time by the best plan with the other four ideas that the best plan with all five takes off, the half-widths of
        their 90 % intervals (``gain_alone_half_width``, ``gain_inside_half_width``, None where no spread is known), and
        ``shapley_s``, its Shapley value in seconds of a sample; these add up to what all five take off."""
        rows, shares = list[Document](), self.composed.shapley()
        for idea, (alone, inside) in self.gains().items():
            row = {"idea": idea, "paper": IDEAS[idea], "gain_alone": alone.share, "gain_inside": inside.share}
            widths = {"gain_alone_half_width": alone.half_width, "gain_inside_half_width": inside.half_width}
            rows.append({**row, **widths, "shapley_s": shares[idea]})
        return rows

    def gains(self) -> dict[str, tuple[Gain, Gain]]:
        """Return by idea (``placement``, ``wavelengths``, ``mesh``, ``compression``, ``averaging``) a pair of gains,
        shares of a sample's time: what the best plan with no other idea gains over the best electrical plan (0 where
        that idea makes none faster), and what the best plan of all gains over the best with the other four ideas
        alone."""
        values, base, best = self.composed.values, self.composed.baseline.plan, self.composed.best.plan
        return {
            idea: (Gain.of(values[frozenset({idea})].plan, base), Gain.of(best, values[ALL - {idea}].plan))
            for idea in IDEAS
        }

    def summary(self) -> str:
        """Return a sentence: model, ranks and accelerator, the best plan of all, the ideas (the five papers' proposals)
        that it uses, its time of a step, and how many per cent of a sample's time it takes off the best electrical
        plan."""
        best, base = self.composed.best, self.composed.baseline
        used = " and ".join(IDEAS[idea] for idea in sorted(best.ideas)) or "none of the five ideas"
        return (
            f"{self.composed.graph.name} on {self.ranks} {self.accelerator}: {plan_words(best.plan.choice)} with "
            f"{used} takes {format_time(best.plan.step_time)}, {100 * (1 - best.time / base.time):.3g} % less than the "
            "best electrical plan"
        )

    def to_json(self) -> Document:
        """Return the document that ``lightloom compose --json`` prints: ``model``, ``ranks``, ``accelerator``,
        ``bandwidth_Bps`` (bytes a second of a rank), ``equal`` and ``global_batch``; ``rows``, as of :meth:`rows`;
        ``ideas``, what each is worth (:meth:`worth`); ``values``, the best plan that uses no ideas but those of a set,
        for each of the 32 sets (``ideas``, ``sample_s``, ``network``, ``plan``); ``impossible``, the smallest sets of
        ideas that no plan uses together, with ``why``; and ``refused``, reasons in words by the name of the network, or
        of ideas joined by " + ", that has no plan; with schema and provenance."""
        composed = self.composed
        document = {
            "schema": "lightloom.compose/1",
            "model": composed.graph.name,
            "ranks": self.ranks,
            "accelerator": self.accelerator,
            "bandwidth_Bps": self.bandwidth,
            "equal": self.equal,
            "global_batch": composed.baseline.plan.global_batch,
            "rows": self.rows(),
            "ideas": self.worth(),
            "values": [
                {"ideas": sorted(ideas), "sample_s": best.time, "network": best.network, "plan": best.plan.label}
                for ideas, best in composed.values.items()
            ],
            "impossible": [{"ideas": sorted(ideas), "why": why} for ideas, why in composed.impossible().items()],
            "refused": dict(composed.refused),
            "provenance": dict(self.origin),
        }
        return {name: plain(value) for name, value in document.items()}

    def rows(self) -> list[Document]:
        """Return a row for each of :attr:`plans`: ``name``, the ``ideas`` that it uses (``placement``, ``wavelengths``,
        ``mesh``, ``compression``, ``averaging``) and ``plan`` (its label); ``iteration_time_s`` of a step, and
        ``exposed_communication_s`` and ``exposed_reconfiguration_s``, the seconds of it that computing waits for the
        network and for circuits;
        ``sent_bytes_per_rank`` and ``reconfigurations``, how many times a rank's circuits are set, in a step, means
        over ranks; ``joules_per_sample`` at the meter and ``dollars_per_million_samples``, each as far as known (None
        where nothing is) with the parts that are missing (``joules_missing``, ``dollars_missing``); what was measured
        of its ``accuracy``, in words; ``ratio_to_bound``, the step's time over its lower bound; its ``gain`` over the
        best electrical plan as a share of a sample's time, with ``gain_half_width``, half of the 90 % interval (None
        where no spread is known); the question to ``plan`` whose answer it is (``cluster``, ``strategies``,
        ``algorithms``, ``exchanges``); and ``gradient_exchange``, the method's label or None."""
        rows = []
        for row in self.plans:
            plan, request = row.best.plan, row.best.request
            ledger, method, (sent, changes) = plan.ledger, plan.gradient_exchange, plan.sent_and_set
            rows.append(
                {
                    "name": row.name,
                    "ideas": sorted(row.best.ideas),
                    "plan": plan.label,
                    "iteration_time_s": plan.step_time,
                    "exposed_communication_s": plan.breakdown["exposed_communication_s"],
                    "exposed_reconfiguration_s": plan.breakdown["exposed_reconfiguration_s"],
                    "sent_bytes_per_rank": sent,
                    "reconfigurations": changes,
                    "joules_per_sample": ledger.metered.value and ledger.metered.value / plan.global_batch,
                    "joules_missing": list(ledger.metered.missing),
                    "dollars_per_million_samples": ledger.dollars.value
                    and _MILLION * ledger.dollars.value / plan.global_batch,
                    "dollars_missing": list(ledger.dollars.missing),
                    "accuracy": self.accuracy(row.best),
                    "ratio_to_bound": _over_bound(plan),
                    "gain": row.gain.share,
                    "gain_half_width": row.gain.half_width,
                    "cluster": plan.cluster.to_json(),
                    "strategies": list(request.strategies),
                    "algorithms": list(request.algorithms),
                    "exchanges": [each.name for each in request.exchanges],
                    "gradient_exchange": None if method is None else method.label,
                }
            )
        return rows

    @staticmethod
    def accuracy(best: Best) -> str:
        """Return in words what was measured of the effect on the loss of a plan's exchange of gradients: "measured:
        ROWS" or "not measured" of a method; without a method "not measured" of averaging in light, else that sums are
        as without it."""
        method = best.plan.gradient_exchange
        if method is not None:
            return accuracy_note(method.name)
        return "not measured" if "averaging" in best.ideas else "as without it: sums of all gradients"

    def display_rows(self) -> list[dict[str, str]]:
        """Return a row of text for each of :attr:`plans`: "idea" (the row's name), "step" (its time, with three
        digits), the share of it in per cent that "waits" for the network or for circuits, what a rank "sends" and how
        often it "sets circuits" in a step, "vs bound" (the step over its lower bound), "J a sample" and "$ a million"
        samples (behind ≥ where parts have no figure, – where nothing is known), "gain", per cent that it takes off the
        best electrical plan's time of a sample, with ± half of the 90 % interval where known ("0 %" below 0.05 %), and
        "=" under "" where the gain lies within its error; and then a row of – for each kind of plan that has none."""
        rows = []
        for row in self.plans:
            plan, metered, dollars = row.best.plan, row.best.plan.ledger.metered, row.best.plan.ledger.dollars
            samples, (sent, changes) = plan.global_batch, plan.sent_and_set
            rows.append(
                {
                    "": " " if row.gain.known else "=",
                    "idea": row.name,
                    "step": three_digits(plan.step_time),
                    "waits": f"{100 * waits(plan):.0f} %",
                    "sends": format_size(float(f"{sent:.3g}")),
                    "sets circuits": f"{changes:,.3g}",
                    "vs bound": f"{_over_bound(plan):.3g}",
                    "J a sample": _amount(metered, 1 / samples, format_energy),
                    "$ a million": _amount(dollars, _MILLION / samples, "{:.3g}".format),
                    "gain": str(row.gain),
                }
            )
        lacking = [name for name in _SHOWN if all(row.name != name for row in self.plans)]
        return rows + [dict.fromkeys(rows[0], "–") | {"": " ", "idea": name} for name in lacking]

    def answer(self) -> Answer:
        """Return the answer as the terminal and notebooks show it: the question; the best plan of all (the best
        electrical one where nothing gains 0.05 % of a sample's time), with the time of a step; a row for each kind of
        plan that has any, "best of all" aside, with no more than its name, time of a step, share that it waits, joules
        a sample and gain; the legend of the table, which names the kinds that have none; in words what each idea is
        worth; the limit; and what it rests on, which names networks without the figure that is to be equal."""
        composed, graph = self.composed, self.composed.graph
        best, base = composed.best, composed.baseline
        gain = 1 - best.time / base.time
        used = ", ".join(IDEAS[idea] for idea in sorted(best.ideas))
        if gain < _NOTHING:
            best, used = base, "none of the five ideas gains anything"
        equal = f"{format_bandwidth(self.bandwidth)} a rank"
        if self.equal != "bandwidth":
            equal = f"the {self.equal} of a ring of {equal}"
        rows = self.display_rows()
        lacking = [row["idea"] for row in rows if row["gain"] == "–"]
        place = f"{self.accelerator.upper()} in {base.plan.cluster.training.precision}"
        held = f"{base.plan.global_batch:,} samples a step"
        return Answer(
            question=f"{graph.name} on {self.ranks:,} {place}, {equal}, {held}",
            best=[
                f"{used}; {best.network}, {plan_words(best.plan.choice)}",
                f"{format_time(best.plan.step_time)}, {100 * gain:.1f} % less than the best electrical plan"
                if gain >= _NOTHING
                else format_time(best.plan.step_time),
            ],
            rows=[
                {name: row[name] for name in _ON_SCREEN} for row in rows if row["idea"] != _BEST and row["gain"] != "–"
            ],
            legend="gain: of a sample's time, over the best electrical plan; = too close to tell; ≥: some parts have "
            "no figure" + (f"; no plan, or none faster than without it: {', '.join(lacking)}" if lacking else ""),
            what_if=[*self._worth_words()],
            limit="no plan has all five: one network a rank; light adds no compressed data",
            rests="ideal software everywhere, and INCEPTIONN's least printed ratio"
            + ("" if any(row.gain.half_width for row in self.plans) else "; no spread of a price is known")
            + (f"; left out (--report says why): {', '.join(self.left_out)}" if self.left_out else ""),
            more=("--report page.html: all 32 sets", "--figure FILE.png", "--equal power"),
        )

    def _worth_words(self) -> Iterator[str]:
        """Yield for each idea whose gain, alone or beside the other four, is 0.05 % of a sample's time or more, a line
        with both gains in per cent: ``compression alone +20 %, with the others 0 %``."""
        for idea, gains in self.gains().items():
            if any(str(gain) != "0 %" for gain in gains):
                yield "{} alone {}, with the others {}".format(idea, *gains)

    def lines(self) -> list[str]:
        """Return the question, and then the answer's lines as a notebook shows them: the best plan, what each idea is
        worth (``What if``), ``Limit`` and ``Rests on``; without the table, its legend and further options."""
        answer = self.answer()
        return [answer.question, *answer.lines(PAGE_WIDTH)]

    def figure(self) -> Figure:
        """Return a matplotlib waterfall of the time of a sample: the best electrical plan's, what each idea takes off
        by its Shapley value, labelled in per cent of the first bar, and that of the best plan of all."""
        base, best = self.composed.baseline, self.composed.best
        steps = [(IDEAS[idea], -seconds) for idea, seconds in self.composed.shapley().items()]
        where = f"{self.ranks} {self.accelerator}, {format_bandwidth(self.bandwidth)} a rank"
        title = f"{self.composed.graph.name} on {where}"
        return waterfall_figure(("best electrical plan", base.time), steps, (_BEST, best.time), title)


@lru_cache(maxsize=64)
def _over_bound(plan: Plan) -> float:
    """Return a plan's step time over the lower bound of a step with its strategy, whatever the algorithms of its
    collectives; of a placed plan (operators are assigned to devices one by one) over the bound of its placement. The
    results for up to 64 plans are cached."""
    bound = plan.bound
    if isinstance(plan.choice, Strategy):
        bound = float(bounds(plan.job, Strategies.of(plan.choice._replace(algorithm=AUTO)), proved=True)[0])
    return plan.step_time / bound


def _amount(total: Total, factor: float, form: Callable[[float], str]) -> str:
    """Return a total times ``factor`` as text, rounded to three significant digits and formatted by ``form``, behind ≥
    where parts have no figure; – where nothing is known. The factor turns the total of a step into that of a sample or
    of a million samples."""
    if total.value is None:
        return "–"
    return f"{'' if total.complete else '≥ '}{form(float(f'{total.value * factor:.3g}'))}"


def compose(
    model: ModelLike,
    *,
    ranks: int = 64,
    accelerator: str = "a100",
    bandwidth: Quantity = "400Gbps",
    equal: Equal = "bandwidth",
    global_batch: int | None = None,
    sequence_length: int | None = None,
    exchange_profile: str | None = None,
    site: Site | Settings | None = None,
) -> Composition:
    """Compare the five papers' ideas on one model, one accelerator and equal bandwidth a rank: the best plan with each,
    with every set of them, and what each is worth alone and beside the others.

    >>> compose("gpt2-355m", ranks=64, bandwidth="100Gbps")

    Args:
        model: what :func:`lightloom.trace` takes.
        ranks: number of accelerators.
        accelerator: one of the catalog.
        bandwidth: of a rank, over all its links, for sending, and as much for receiving.
        equal: what all networks have in common: ``bandwidth``, or the ``power`` or the ``dollars`` of the electrical
            ring with that bandwidth.
        global_batch: samples of a step; without it what is published of the model.
        sequence_length: tokens in a sample, for models that take tokens.
        exchange_profile: a file that ``lightloom compress profile`` wrote, for INCEPTIONN's ratio; without it the least
            that its paper prints.
        site: what turns parts and watts into dollars, as of :func:`plan`.

    Raises:
        InputError: an argument that cannot be read, or no electrical plan that fits.
    """
    if equal not in get_args(Equal):
        raise UnknownNameError("common quantity of networks", equal, get_args(Equal))
    speed, place = parse(bandwidth, "bandwidth"), site_of(site)
    if not 0 < speed < inf:
        raise ConfigError(f"--bandwidth {format_bandwidth(speed)}: expected more than 0")
    rates = load_accelerator(accelerator).peak
    precision = next((name for name in _PRECISIONS if name in rates), max(rates, key=lambda name: rates[name]))
    base = load_cluster(_BASE, ranks, set={"accelerator": accelerator, "training.precision": precision})
    graph = read_model(model, batch=1, sequence_length=sequence_length).graph
    ratio = None if exchange_profile else PRINTED_RATIO
    printed = ExchangeChoice(("inceptionn",), exchange_profile, ratio, NIC).priced(str(model), graph)
    today = ExchangeChoice((TRIED,), None, None, None).priced(str(model), graph)
    request = SearchRequest(global_batches=None if global_batch is None else (global_batch,), site=place)
    found, left_out = equal_networks(ranks, speed, equal, place)
    names = tuple(dict.fromkeys(network.method for network in found if network.method))
    built_in = dict(zip(names, ExchangeChoice(names, None, None, None).priced(str(model), graph), strict=True))
    with progress("Networks", None) as advance:
        composed = best_plans(
            graph, base, found, [*printed, *today], request, built_in=built_in, advance=lambda: advance(1)
        )
    composed = replace(composed, refused={**left_out, **composed.refused})
    return Composition(
        composed=composed,
        ranks=ranks,
        accelerator=accelerator,
        bandwidth=speed,
        equal=equal,
        left_out=tuple(left_out),
        origin=provenance([graph.to_json(), ranks, accelerator, speed, equal, global_batch, ratio, place.to_json()]),
    )
