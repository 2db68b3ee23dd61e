"""Two saved plans side by side: what was asked differently, which plans became faster or slower, and by which part."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, TypeAlias

from pydantic import Field
from typing_extensions import TypedDict

from lightloom.app.api.planning import PlanRanking
from lightloom.core.configfile import validate
from lightloom.core.documents import load_json
from lightloom.core.errors import ConfigError
from lightloom.core.results import Document, attributes, plain, provenance
from lightloom.core.units import format_difference, format_size, format_time
from lightloom.planning.search.document import SCHEMA
from lightloom.reports.figures.canvas import SHARES
from lightloom.reports.figures.comparisons import breakdown_figure
from lightloom.reports.html import DrawnResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row: TypeAlias = Mapping[str, Any]
"""A row of a ranking's document, or the document."""

PlanLike: TypeAlias = PlanRanking | Row | str | Path
"""A ranking, its document, or the file that holds it."""
_QUESTIONS = ("model", "parameters", "global_batches", "cost_model", "strategies", "algorithms", "pins", "clusters")
"""Keys of a document that say what was asked."""
_NEEDED = (*_QUESTIONS, "ranking", "refused", "provenance")
_Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_Object = dict[str, Any]


class _Use(TypedDict):
    algorithm: str


class _Codec(TypedDict):
    codec: str


class _Total(TypedDict):
    value: NotRequired[float | None]


class _Ledger(TypedDict):
    dollars_per_step: NotRequired[_Total]
    metered_joules_per_step: NotRequired[_Total]


class _Plan(TypedDict):
    """Fields of a plan's row that are compared."""

    rank: int
    label: str
    strategy: str
    algorithm: str | None
    algorithms: list[_Use]
    choice: _Object
    ranks: int
    global_batch: Annotated[int, Field(gt=0)]
    sample_time_s: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    iteration_time_s: _Amount
    breakdown: dict[str, float]
    memory_bytes: _Amount
    fits: bool
    compression: NotRequired[_Codec | None]
    ledger: NotRequired[_Ledger]


class _Refusal(TypedDict):
    strategy: str
    algorithm: str | None
    why: str


class _Document(TypedDict):
    """Fields of a ranking that are compared."""

    model: str
    strategies: list[str]
    clusters: list[_Object]
    ranking: list[_Plan]
    refused: list[_Refusal]
    provenance: _Object


_SAME = 1e-6
"""Relative difference of times below which nothing changed."""
_OF_ACCOUNT = 0.1
"""Share of all changes of a step from which a part's is named."""


@dataclass(frozen=True, slots=True)
class InputChange:
    """A value of what was asked that differs."""

    field: str
    before: object
    """None where it is absent."""
    after: object


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanChange:
    """One plan in both rankings; rows of the documents."""

    before: Row
    after: Row

    @property
    def label(self) -> str:
        """The plan in a few words, as the second ranking's row has it."""
        return str(self.after["label"])

    @property
    def ratio(self) -> float:
        """Seconds a sample after, over those before: above 1 where it became slower. Where those before are zero,
        infinite, or 1 if those after are zero too."""
        before, after = self.before["sample_time_s"], self.after["sample_time_s"]
        return float(after / before) if before else float("inf" if after else 1)

    def both(self, form: Callable[[Row], str]) -> str:
        """Return ``form`` of the rows before and after as ``BEFORE → AFTER``; the text once where both are equal."""
        return " → ".join(dict.fromkeys(map(form, (self.before, self.after))))

    def columns(self, name: str, key: str) -> Document:
        """Return the values of field ``key`` of the plan's rows in both rankings, by two names: the template ``name``,
        such as ``step_{}_s``, with ``before`` and with ``after`` in the place of its ``{}``."""
        return {name.format("before"): self.before[key], name.format("after"): self.after[key]}

    def parts(self) -> dict[str, float]:
        """Return, by the key of each part of a step (``compute_s``, ``exposed_communication_s``,
        ``exposed_reconfiguration_s``, ``idle_s``), the seconds a sample (those of the step over its global batch) by
        which it grew from the first ranking to the second (negative: shrank); they add up to the whole difference."""
        return {key: _share(self.after, key) - _share(self.before, key) for key in SHARES}

    @property
    def why(self) -> str:
        """Clauses joined by semicolons: where the time of a sample changed by more than a millionth, the parts of a
        step (compute, exposed communication, exposed reconfiguration, idle) that grew or shrank, with signed seconds a
        sample (those below a tenth of the sum of all changes' magnitudes left out); "NEW instead of OLD" where the
        names of the algorithms of its exchanges, joined by " + ", differ ("no exchange" or "none" for none); and "fits
        now" or "does not fit any more". "unchanged" if none of these."""
        parts, words = self.parts(), []
        if abs(self.ratio - 1) > _SAME:
            least = _OF_ACCOUNT * sum(map(abs, parts.values()))
            named = [
                f"{SHARES[key][0]} {format_difference(value)}" for key, value in parts.items() if abs(value) >= least
            ]
            words.append(f"{', '.join(named)} a sample")
        uses = (dict.fromkeys(use["algorithm"] for use in row["algorithms"]) for row in (self.before, self.after))
        algorithms = [" + ".join(each) for each in uses]
        if algorithms[0] != algorithms[1]:
            words.append(f"{algorithms[1] or 'no exchange'} instead of {algorithms[0] or 'none'}")
        if self.before["fits"] != self.after["fits"]:
            words.append("fits now" if self.after["fits"] else "does not fit any more")
        return "; ".join(words) or "unchanged"


@dataclass(frozen=True, repr=False, kw_only=True)
class PlanComparison(DrawnResult):
    """Two rankings side by side."""

    before: Document
    after: Document
    inputs: tuple[InputChange, ...]
    """Inputs that differ between the two requests."""
    changes: tuple[PlanChange, ...]
    """Plans in both, by their place in the second."""
    gone: tuple[Row, ...]
    """Rows of the first without a plan in the second."""
    new: tuple[Row, ...]
    """Rows of the second without a plan in the first."""

    @property
    def winners(self) -> tuple[Row, Row]:
        """Rows of the first plan of each ranking's document, (before, after); they may be of different plans."""
        return self.before["ranking"][0], self.after["ranking"][0]

    def summary(self) -> str:
        """Return a sentence: whether the same plan wins, whatever its batch, cluster and exchange of gradients, else
        both names, both winners' time and samples a step, and the ratio of their seconds a sample, after over
        before."""
        first, second = self.winners
        ratio = second["sample_time_s"] / first["sample_time_s"]
        same = _key(first) == _key(second)
        wins = "the same plan wins" if same else f"{second['label']} wins instead of {first['label']}"
        return (
            f"{self.after['model']}: {wins}; a step of {second['global_batch']:,} samples takes "
            f"{format_time(second['iteration_time_s'])}, before {format_time(first['iteration_time_s'])} of "
            f"{first['global_batch']:,}: {ratio:.4g} times as long a sample"
        )

    @property
    def explanation(self) -> str:
        """Sentence on the first ranking's winner: its place in the second ranking, from 1, and what changed (parts of a
        step that grew or shrank, algorithms, whether it fits), as :attr:`PlanChange.why` puts it; or why it is not
        there."""
        first = self.winners[0]
        change = next((change for change in self.changes if change.before is first), None)
        if change is None:
            where, why = "not in", self.absence(first, self.after)
        else:
            where, why = f"number {change.after['rank']} of", change.why
        return f"The first winner, {first['label']}, is {where} the second ranking: {why}."

    def absence(self, row: Row, other: Row) -> str:
        """Return in words why ``other``, a ranking's document, lacks the plan ``row`` of the other ranking: the reason
        of the first refusal there of its strategy with its algorithm and codec; else that its strategy was not
        searched; else that it was not simulated, as its bound decided or it was not among what was searched."""
        wanted = row["strategy"], row["algorithm"], (row.get("compression") or {}).get("codec")
        for refused in other["refused"]:
            if (refused["strategy"], refused["algorithm"], refused.get("compression")) == wanted:
                return str(refused["why"])
        if row["strategy"] not in other["strategies"]:
            return "its kind was not searched"
        return "not simulated: decided by its bound, or not among what was searched"

    def to_json(self) -> Document:
        """Return the document that ``lightloom compare --json`` prints: two sentences in sum (``summary``,
        ``explanation``); ``inputs`` that differ (``field``, ``before``, ``after``); ``rows``, one for each plan in both
        rankings, as of :meth:`rows` (places, times, memory, what changed and why); plans that only the first (``gone``)
        or the second (``new``) has, by ``label``, with ``why`` the other lacks them; and the provenance of both
        documents, a list, in ``compared``; with schema and a provenance of its own."""
        sources = [self.before["provenance"], self.after["provenance"]]
        document = {
            "schema": "lightloom.compare/1",
            "summary": self.summary(),
            "explanation": self.explanation,
            "inputs": [attributes(each, "field before after") for each in self.inputs],
            "rows": self.rows(),
            "gone": [{"label": row["label"], "why": self.absence(row, self.after)} for row in self.gone],
            "new": [{"label": row["label"], "why": self.absence(row, self.before)} for row in self.new],
            "compared": sources,
            "provenance": provenance(sources),
        }
        return {name: plain(value) for name, value in document.items()}

    def rows(self) -> list[Document]:
        """Return a row for each plan in both rankings, by the place in the second: ``label``; places from 1
        (``place_before``, ``place_after``), seconds of a step (``step_before_s``, ``step_after_s``) and bytes of a rank
        (``memory_before_bytes``, ``memory_after_bytes``); ``sample_time_ratio``, seconds a sample after over before;
        each part's change in seconds a sample (``compute_change_per_sample_s`` and so on); dollars and joules at the
        meter a sample (``dollars_per_sample_before`` and so on, as far as they are known, so that parts without a
        figure are left out; None where nothing is known); and ``why``, in words."""
        return [
            {
                "label": change.label,
                **change.columns("place_{}", "rank"),
                **change.columns("step_{}_s", "iteration_time_s"),
                "sample_time_ratio": change.ratio,
                **{f"{key.removesuffix('_s')}_change_per_sample_s": value for key, value in change.parts().items()},
                **{
                    f"{name}_per_sample_{when}": _known(row, key)
                    for name, key in _COSTS.items()
                    for when, row in (("before", change.before), ("after", change.after))
                },
                **change.columns("memory_{}_bytes", "memory_bytes"),
                "why": change.why,
            }
            for change in self.changes
        ]

    def display_rows(self) -> list[dict[str, object]]:
        """Return a row for each plan in both rankings, by the place in the second, as text: "plan"; "place", both
        places from 1 with an arrow between them; times of a step, "step before" and "after"; "a sample", the ratio of
        seconds a sample, after over before; "dollars a sample", "joules a sample" (as far as known, or "unknown") and
        "memory" of a rank, each once where it is the same, otherwise with an arrow; and "why"."""
        return [
            {
                "plan": change.label,
                "place": f"{change.before['rank']}\N{NO-BREAK SPACE}→\N{NO-BREAK SPACE}{change.after['rank']}",
                "step before": format_time(change.before["iteration_time_s"]),
                "after": format_time(change.after["iteration_time_s"]),
                "a sample": f"{change.ratio:.4g}×",
                **{f"{name} a sample": change.both(partial(_cost, key=key)) for name, key in _COSTS.items()},
                "memory": change.both(lambda row: format_size(row["memory_bytes"])),
                "why": change.why,
            }
            for change in self.changes
        ]

    def figure(self) -> Figure:
        """Return a matplotlib figure: horizontal stacked bars of where the time of a sample of both rankings' winners
        goes (compute, exposed communication, exposed reconfiguration, idle), each before and after; only one bar of a
        winner that is in one ranking alone, and two in all where both rankings have one winner."""
        bars = []
        for row in self.winners:
            change = next((each for each in self.changes if row is each.before or row is each.after), None)
            pairs = {"before ": change.before, "after ": change.after} if change else {"": row}
            bars += [
                (place + each["label"], {key: _share(each, key) for key in SHARES}) for place, each in pairs.items()
            ]
        return breakdown_figure(list(dict(bars).items()), per="sample")


def compare(before: PlanLike, after: PlanLike) -> PlanComparison:
    """Compare two rankings of plans: what was asked differently, what changed, and why.

    >>> compare("before.json", "after.json")

    Args:
        before, after: results of :func:`lightloom.plan`, their documents, or files that ``lightloom plan --json``
            printed.

    Raises:
        ConfigError: a file that cannot be read, another document, or a ranking without a plan.
    """
    first, second = (_document(plans) for plans in (before, after))
    old, new = (_rows_by_key(document) for document in (first, second))
    return PlanComparison(
        before=first,
        after=second,
        inputs=tuple(_inputs(first, second)),
        changes=tuple(PlanChange(before=old[key], after=row) for key, row in new.items() if key in old),
        gone=tuple(row for key, row in old.items() if key not in new),
        new=tuple(row for key, row in new.items() if key not in old),
    )


def _document(plans: PlanLike) -> Document:
    """Return the document of a ranking: what ``plan`` returned, its document as a mapping, or a file that holds it.

    Raises:
        ConfigError: a file that cannot be read, another or an older form of document, one that lacks keys or whose
            rows are malformed, or a ranking without a plan.
    """
    if isinstance(plans, PlanRanking):
        return plans.to_json()
    if isinstance(plans, Mapping):
        document, name = dict(plans), "the mapping"
    else:
        name = str(plans)
        try:
            document = load_json(Path(plans))
        except ConfigError as error:
            raise ConfigError(f"{error}: expected a file of lightloom plan --json") from error
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != SCHEMA:
        found = f"schema {schema!r}" if schema else "no schema"
        raise ConfigError(f"{name}: {found}: expected {SCHEMA!r}, as lightloom plan --json prints it")
    missing = [key for key in _NEEDED if key not in document]
    if missing or not document["ranking"]:
        what = f"no {', '.join(missing)}" if missing else "an empty ranking"
        raise ConfigError(f"{name}: {what}: expected a whole document of lightloom plan --json")
    validate(_Document, document, name)
    return document


def _key(row: Row) -> str:
    """Return, as JSON text, the choices that identify a plan in another ranking: strategy, its choice (degrees,
    micro-batches, sharding, recomputation, algorithm and so on), codec and number of ranks, whatever its global batch,
    its method of exchanging gradients and its cluster."""
    choice = {name: value for name, value in row["choice"].items() if name not in ("global_batch", "exchange")}
    codec = (row.get("compression") or {}).get("codec")
    return json.dumps([row["strategy"], choice, codec, row["ranks"]], sort_keys=True)


def _rows_by_key(document: Row) -> dict[tuple[str, int], Row]:
    """Return the rows of a ranking's document by (choices that identify a plan as JSON text, as of :func:`_key`; number
    from 0 among rows with the same choices, such as one plan on several clusters, in the ranking's order)."""
    rows: dict[tuple[str, int], Row] = {}
    seen = Counter[str]()
    for row in document["ranking"]:
        key = _key(row)
        rows[key, seen[key]] = row
        seen[key] += 1
    return rows


def _share(row: Row, key: str) -> float:
    """Return the seconds a sample of a part of a step, whose key in a plan's ``breakdown`` is ``key`` (``compute_s``);
    0 where the row has no such part."""
    return float(row["breakdown"].get(key, 0.0)) / int(row["global_batch"])


def _known(row: Row, key: str) -> float | None:
    """Return what is known of a plan's total (its parts without a figure left out) per sample: that per step, from the
    total ``key`` of its ledger, over the global batch; None where nothing is known, or the document, of an older
    release, has no ledger."""
    total = row.get("ledger", {}).get(key, {}).get("value")
    return None if total is None else float(total) / int(row["global_batch"])


_COSTS = {"dollars": "dollars_per_step", "joules": "metered_joules_per_step"}
"""Keys of a plan's ledger: dollars, and joules at the meter."""


def _cost(row: Row, key: str) -> str:
    """Return the known part of a plan's total ``key`` of its ledger, per sample, as text with four digits; "unknown"
    where nothing is known."""
    known = _known(row, key)
    return "unknown" if known is None else f"{known:.4g}"


def _inputs(first: Row, second: Row) -> Iterator[InputChange]:
    """Yield what differs between the questions of two documents (model, its parameters, batches, cost model,
    strategies, algorithms, pinned choices, clusters), field by field by dotted path with the values before and after
    (None where the field is absent), and then the version of lightloom (field ``lightloom``); the site is compared only
    where both documents have it."""
    asked = _QUESTIONS + (("site",) if "site" in first and "site" in second else ())
    before, after = (dict(_leaves({key: document[key] for key in asked})) for document in (first, second))
    for field in dict.fromkeys([*before, *after]):
        if before.get(field) != after.get(field):
            yield InputChange(field, before.get(field), after.get(field))
    old, new = (document["provenance"].get("lightloom") for document in (first, second))
    if old != new:
        yield InputChange("lightloom", old, new)


def _leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Yield (dotted path, value) for the values of nested mappings; ``path`` is put before each.

    A list that holds a mapping is entered: its entries go by the list's name without its plural s and a number from 1,
    ``cluster 2.ranks``, or without a number where it has one entry; another list is one value. The keys ``sources``,
    ``description`` and ``spreads``, which only describe, are left out.
    """
    if isinstance(value, Mapping):
        for key, entry in value.items():
            if key not in ("sources", "description", "spreads"):
                yield from _leaves(entry, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple) and any(isinstance(each, Mapping) for each in value):
        for number, entry in enumerate(value, start=1):
            yield from _leaves(entry, path.removesuffix("s") + (f" {number}" if len(value) > 1 else ""))
    else:
        yield path, value
