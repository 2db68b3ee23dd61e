"""The design of a cluster: which fabric trains most samples for a dollar and for a joule."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from math import inf
from pathlib import Path
from typing import Any, Literal

from lightloom.app.api.arguments import Quantity
from lightloom.app.api.planning import ModelLike, trace
from lightloom.core.errors import ConfigError, InputError, UnitError
from lightloom.core.fields import Count
from lightloom.core.results import Document, Result, attributes, provenance
from lightloom.core.units import parse
from lightloom.machines.accelerators.load import load_accelerator
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.parts.bill import missing_text
from lightloom.planning.designs.explore import (
    MOST_ROWS,
    TECHNOLOGIES,
    Candidate,
    Exploration,
    Question,
    explore,
    resumed,
    solve_task,
)
from lightloom.planning.designs.page import rival_break_even
from lightloom.planning.designs.space import DEFAULT, Design, read_space
from lightloom.planning.economics.ledger import Site, board_of, check_inputs, site_of
from lightloom.planning.sweeps.workers import SearchStopped, Workers

_LEAST_RANKS, _MOST_RANKS = 8, 1 << 14
"""Ranks that a budget is searched for where none are given: powers of two."""


@dataclass(frozen=True, repr=False, kw_only=True)
class DesignFront(Result):
    """The designs that no other one beats, and how far from them the others are."""

    model: str
    accelerator: str
    site: Site
    exploration: Exploration
    assumptions: tuple[str, ...] = ()
    """Assumptions of the designs that were searched."""

    @property
    def front(self) -> tuple[Candidate, ...]:
        """Evaluated designs that no other one beats in samples per dollar and per joule, and per second where several
        numbers of ranks were searched, all after goodput; most samples per dollar first. One beats another if it is
        nowhere worse and somewhere better, in these and in the amounts of whatever has no price, power or failure rate,
        so that it stays ahead whatever those are."""
        return self.exploration.front

    @property
    def searched(self) -> list[str]:
        """Texts of the designs that were evaluated, beaten by bounds or refused, one each: ranks, family and settings,
        then the fabric, and its price in dollars a rank where the design states one (None otherwise); those over the
        budget or not reached before Ctrl-C are left out."""
        found = self.exploration
        left_out = (each.design for each in (*found.beaten, *found.refused))
        searched = chain((each.design for each in found.candidates), left_out)
        return [f"{each.key} of {each.fabric} at {each.fabric_price}" for each in searched]

    @property
    def designs(self) -> int:
        """Number of designs that were asked for: evaluated, beaten by bounds, refused, over the budget, and not
        searched before Ctrl-C."""
        found = self.exploration
        counts = len(found.candidates), len(found.beaten), len(found.refused), len(found.unsearched)
        return sum(counts) + found.over_budget

    def summary(self) -> str:
        """Return a sentence on the design that trains most samples per dollar; "at most" where prices or watts are
        unknown, with what these are, together with the best of the designs whose fabrics have all of them known, or
        that there is none."""
        best = self.exploration.candidates[0]
        samples = f"{best.point[0]:.4g} samples per dollar"
        if not best.worth.variables:
            return f"{self.model}: {best.design.name} trains {samples}, ahead of all others"
        nothing = f"as nothing states {missing_text(best.worth.variables)}"
        at_most = f"{best.design.name} trains at most {samples}, {nothing}"
        known = next((each for each in self.exploration.candidates if not each.worth.unknown), None)
        if known is None:
            return f"{self.model}: {at_most}; no fabric has all its prices and watts known"
        if known is best:
            return f"{self.model}: {at_most}{self._dear(known)}"
        bound = "at most " if known.worth.alike else ""
        return (
            f"{self.model}: of designs whose fabrics have all prices and watts known, {known.design.name} trains most, "
            f"{bound}{known.point[0]:.4g} samples per dollar{self._dear(known)}; {at_most}"
        )

    def _dear(self, cheap: Candidate) -> str:
        """Return a clause for the end of the summary, behind that on ``cheap``, the design with most samples per dollar
        of those whose fabrics have all prices and watts known: which of those trains most where the unknown prices and
        watts of boards and hosts, the same in all designs, are high, the one with the least rank-seconds a sample.
        Empty where no price or power of boards and hosts is unknown."""
        if not cheap.worth.alike:
            return ""
        known = [each for each in self.exploration.candidates if not each.worth.unknown]
        dear = min(known, key=lambda each: each.share)
        others = "it" if dear is cheap else dear.design.name
        return f", and {others} trains most where {missing_text(cheap.worth.alike)} is high"

    def rows(self) -> list[Document]:
        """Return a row for each design that was evaluated (none that was beaten at bounds, refused or over the budget),
        most samples per dollar first: its name and settings, plan, samples per dollar, joule and second, goodput,
        dollars and watts in all and of the fabric a rank, and break-even; what is unknown is named under
        ``missing``."""
        return [self._row(candidate) for candidate in self.exploration.candidates]

    def _row(self, candidate: Candidate) -> Document:
        """Return a design's row: ``name``, ``technology`` and ``ranks``; whether it is on the front (``on_front``) or
        leads its own technology (``leads_technology``); ``samples_per_dollar``, ``samples_per_joule`` and
        ``samples_per_second``; ``goodput``, a share of the time, ``iteration_time_s`` and ``plan`` (its label);
        ``dollars`` and, at the meter, ``watts`` of all ranks with boards, hosts and fabric, without spare nodes;
        ``fabric_dollars_per_rank`` and ``fabric_watts_per_rank``, the latter before the meter; ``break_even``, dollars
        and watts of the fabric a rank at which it equals the best of the other technology, optical or electrical (None
        where none of that was evaluated); the names of prices, watts and failure rates that are ``missing``;
        ``left_out``, schedules that were too large to try and algorithms that failed, as a text, empty for none; and
        the design's ``settings``, fields of its fabric by name. A design is on the front, or leads its technology, if
        no other one, or none of its technology, beats it (nowhere worse and somewhere better, amounts of unknown price,
        power or failure rate included); samples are after goodput, as far as prices and watts are known."""
        points = ("samples_per_dollar", "samples_per_joule", "samples_per_second")
        worth, even = candidate.worth, rival_break_even(candidate, self.exploration)
        per_rank = "fabric_dollars_per_rank=fabric_dollars fabric_watts_per_rank=fabric_watts"
        return {
            **attributes(candidate.design, "name technology ranks"),
            **attributes(candidate, "on_front leads_technology=leads"),
            **dict(zip(points, candidate.point, strict=True)),
            **attributes(candidate, "goodput=worth.goodput iteration_time_s=evaluated.step_time plan=evaluated.label"),
            **attributes(worth, f"dollars=capital watts {per_rank}"),
            "break_even": None if even is None else even.to_json(),
            "missing": [*worth.variables, *worth.unknown_rates],
            "left_out": candidate.evaluated.left_out,
            "settings": dict(candidate.design.settings),
        }

    def to_json(self) -> Document:
        """Return the document that ``lightloom design --json`` prints: ``model``, ``accelerator`` and
        ``batch_per_rank``; ``designs``, a row for each evaluated one, most samples per dollar first (plan, samples per
        dollar, joule and second, goodput, dollars, watts, break-even: :meth:`rows`); those that bounds have ``beaten``
        or that were ``refused`` (with ``why``), by ``name`` and ``ranks``; ``over_budget``, a number;
        ``missing_alike``, figures of boards and hosts that nothing states; ``assumptions``, sentences, and ``site``;
        ``not_searched``, names, only of an interrupted search; with schema and provenance."""
        found = self.exploration
        document: Document = {
            "schema": "lightloom.designs/1",
            **attributes(self, "model accelerator batch_per_rank=exploration.question.batch_per_rank"),
            "designs": self.rows(),
            "beaten": [attributes(each, "name=design.name ranks=design.ranks") for each in found.beaten],
            "refused": [attributes(each, "name=design.name ranks=design.ranks why") for each in found.refused],
            "over_budget": found.over_budget,
            **({"not_searched": [each.name for each in found.unsearched]} if found.unsearched else {}),
            "missing_alike": list(found.candidates[0].worth.alike),
            "assumptions": [*self.assumptions, *self.site.assumptions()],
            "site": self.site.to_json(),
        }
        asked = ["design", self.model, self.accelerator, found.question.batch_per_rank, self.site.to_json()]
        return document | {"provenance": provenance([*asked, *self.assumptions, *sorted(self.searched)])}


def design(
    model: ModelLike,
    *,
    ranks: int | Sequence[int] | None = None,
    budget_dollars: Quantity | None = None,
    budget_watts: Quantity | None = None,
    accelerator: str = "h100-calibrated",
    space: str | Path | None = None,
    batch: Count | None = None,
    site: Site | Mapping[str, object] | None = None,
    prune: bool = True,
    workers: Workers | None = None,
    folder: str | Path | None = None,
    advance: Callable[[int], None] = lambda _: None,
    tell: Callable[[Candidate, int], None] = lambda *_: None,
) -> DesignFront:
    """Search fabrics and their fields for the designs that train most samples for a dollar and for a joule.

    >>> design("gpt2-355m", ranks=64).front

    Args:
        model: whatever ``plan`` takes.
        ranks: number of ranks, or several; powers of two within the budget without it; repeatable.
        budget_dollars (PRICE): most dollars of all boards, hosts and parts of the fabric, as far as prices are known,
            e.g. '5 M$'.
        budget_watts (POWER): most watts at the meter, e.g. 200kW.
        accelerator: what every rank computes on: a name of the catalog or a YAML file, the same in every design.
        space (FILE): a YAML file of designs (docs/economics.md); the catalog's fabrics without it.
        batch: samples of a step for each rank; the largest power of two up to 32 that fits without it.
        site: electricity, PUE, amortisation; see :class:`~lightloom.planning.economics.ledger.Site`.
        prune: False evaluates designs that bounds leave out as well.
        workers: processes or a cluster that evaluate designs; this process alone without it.
        folder (FOLDER): folder that keeps what was found of each design, so that the same call resumes; nothing is kept
            without it.
        advance: called with the number of designs that are done since the last call.
        tell: called with the design that trains most samples for a dollar so far, and the number of all designs.

    Returns:
        The evaluated designs with those that no other one beats, and what was beaten, refused or over the budget.

    Raises:
        SearchStopped: Ctrl-C, with the result as far as designs are evaluated.
        KeyboardInterrupt: Ctrl-C before any design was evaluated.
        ConfigError: neither ranks nor a budget, a number that is not positive, a malformed file, or a folder that is
            another search's, in use, or cannot be written to.
        UnsupportedError: no design has a plan within the budget.
    """
    dollars = _budget("budget_dollars", budget_dollars, "price")
    watts = _budget("budget_watts", budget_watts, "power")
    chosen_site = site_of(site)
    counts = _ranks(ranks, dollars, watts, accelerator, chosen_site)
    if batch is not None and batch < 1:
        raise ConfigError(f"batch={batch}: expected at least 1 sample for each rank")
    path = DEFAULT if space is None else Path(space)
    searched = read_space(path)
    designs = list(searched.designs(counts, accelerator, path.parent.resolve()))
    if chosen_site.prices or chosen_site.choices is not None:
        check_inputs(_fabrics(designs), chosen_site)
    graph = trace(model)
    question = Question(graph=graph, batch_per_rank=batch or 0, site=chosen_site)
    limits = {"dollars": dollars, "watts": watts}
    jobs = 1 if workers is None else workers.jobs or 16
    run: Any = partial(map if workers is None else workers.results, solve_task)
    with nullcontext(run) if folder is None else resumed(run, Path(folder), graph) as kept_run:
        found = explore(question, designs, kept_run, **limits, prune=prune, jobs=jobs, advance=advance, tell=tell)
    listed = f"schedules that list more than {MOST_ROWS:,} transfers are left out"
    counted = (
        "boards draw their rated power, busy or not, which counts against slower steps; spare nodes cost and draw as "
        "much as others; the intervals of step times (lightloom plan) are not counted"
    )
    front = DesignFront(
        model=graph.name,
        accelerator=accelerator,
        site=chosen_site,
        exploration=found,
        assumptions=(*searched.assumptions, *_software(found), listed, counted),
    )
    if found.unsearched:
        raise SearchStopped(front)
    return front


def _software(found: Exploration) -> list[str]:
    """Return a sentence for each technology, optical or electrical, on what software carries collectives in its
    evaluated designs, and one more where some designs' collectives take the time of a collective library and others
    have ideal software: the lead of the latter is an upper bound."""
    carried: dict[str, dict[str, bool]] = {}
    for each in found.candidates:
        fabric = each.design.cluster().fabric
        carried.setdefault(each.design.technology, {})[fabric.software] = fabric.library is not None
    lines = [f"collectives of {name} designs are carried by {'; '.join(by)}" for name, by in carried.items()]
    if len({paid for by in carried.values() for paid in by.values()}) > 1:
        lines.append(
            "where one design pays for a library and the other has ideal software, the other's lead is an upper bound"
        )
    return lines


def _fabrics(designs: Iterable[Design]) -> Iterator[Fabric]:
    """Yield the fabric of each design, in order; a design whose settings make no cluster (InputError) is left out."""
    for each in designs:
        with suppress(InputError):
            yield each.cluster().fabric


def _budget(option: str, given: Quantity | None, dimension: Literal["price", "power"]) -> float:
    """Return a limit in dollars or watts, from a number or from a text with a unit, in which commas may divide
    thousands; infinite if none is given.

    Args:
        option: name in messages.
        given: the limit, as the user states it.
        dimension: ``price`` for dollars, ``power`` for watts.

    Raises:
        ConfigError: it cannot be read or is not more than 0; the message names the option.
    """
    if given is None:
        return inf
    try:
        value = parse(given.replace(",", ""), dimension) if isinstance(given, str) else given
    except UnitError as error:
        raise ConfigError(f"{option}: {error}") from error
    if not value > 0:
        raise ConfigError(f"{option} {given}: expected more than 0")
    return value


def _ranks(
    given: int | Sequence[int] | None, dollars: float, watts: float, accelerator: str, site: Site
) -> tuple[int, ...]:
    """Return the numbers of ranks to search: those given, without repetition, or the powers of two from 8 to 16,384
    whose boards alone the budget of ``dollars`` and of ``watts`` at the meter (each infinite for none) pays; boards are
    those of ``accelerator`` at the prices and the PUE of ``site``, and one whose price or power is unknown counts 0.

    Raises:
        ConfigError: a number of ranks below 2, neither ranks nor a budget, or a budget that pays fewer than 8 boards.
    """
    if given is not None:
        counts = (given,) if isinstance(given, int) else tuple(given)
        wrong = next((count for count in counts if count < 2), None)
        if not counts or wrong is not None:
            raise ConfigError(f"ranks={given}: expected numbers of at least 2")
        return tuple(dict.fromkeys(counts))
    if dollars == watts == inf:
        raise ConfigError(
            "neither ranks nor a budget: expected --ranks N, --budget dollars=AMOUNT or --budget watts=AMOUNT"
        )
    board = board_of(load_accelerator(accelerator), site)
    price = board.dollars.value if board.dollars else 0.0
    power = board.static_power.value * site.pue if board.static_power else 0.0
    counts = tuple(
        count
        for count in (_LEAST_RANKS << power for power in range((_MOST_RANKS // _LEAST_RANKS).bit_length()))
        if count * price <= dollars and count * power <= watts
    )
    if not counts:
        raise ConfigError(
            f"a budget of {dollars:,.0f} dollars and {watts:,.0f} W: expected at least {_LEAST_RANKS * price:,.0f} "
            f"dollars and {_LEAST_RANKS * power:,.0f} W, {_LEAST_RANKS} boards of {accelerator}"
        )
    return counts


__all__ = ["TECHNOLOGIES", "DesignFront", "design"]
