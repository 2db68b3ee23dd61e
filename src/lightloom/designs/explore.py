"""The search over designs: bound all of them, evaluate those that no evaluated one beats already, keep the front.

    designs ──► worth ──► most promising first ──► beaten at its bound? ──► left out
                                 ├──► bound with exchanges ──► back to the others
                                 └──► fastest plan below the time at which it is beaten ──► front

Electrical and optical designs have fronts of their own, so that the better technology can be set against the best of
the other one; the front of all is taken from both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import get_args

from lightloom.core.errors import UnsupportedError
from lightloom.designs.bounded import Bounded, Evaluated, Question, Task, assess, least_time, work
from lightloom.designs.front import Front
from lightloom.designs.space import Design, Technology
from lightloom.designs.worth import Worth
from lightloom.planner.search.request import LARGEST

TECHNOLOGIES: tuple[Technology, ...] = get_args(Technology)
Run = Callable[[Sequence[Task]], Iterable[Bounded | Evaluated]]
"""Does tasks in any order, at once or one by one."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A design with what was found of it."""

    design: Design
    worth: Worth
    least_time: float
    """Proved lower bound of the seconds of a step for each sample."""
    evaluated: Evaluated
    on_front: bool = False
    """Whether no design of any technology beats it."""
    leads: bool = False
    """Whether no design of its own technology beats it."""

    @property
    def point(self) -> tuple[float, float, float]:
        """Samples per dollar, per joule and per second, after goodput, as far as prices and watts are known."""
        return self.worth.point(self.evaluated.sample_time, self.evaluated.sent)

    @property
    def share(self) -> float:
        """What a dollar or a watt more of every rank counts for one sample."""
        return self.worth.weight * self.evaluated.sample_time

    def assuming(self, figures: Mapping[str, float]) -> Candidate:
        """Return the design if unknown prices and powers were these (:meth:`Worth.assuming`)."""
        return replace(self, worth=self.worth.assuming(figures))


@dataclass(frozen=True, kw_only=True)
class Exploration:
    """Everything that a search over designs found."""

    question: Question
    by_speed: bool
    candidates: tuple[Candidate, ...]
    """Designs that were evaluated, most samples per dollar first."""
    beaten: tuple[Bounded, ...]
    """Designs that the bounds leave out."""
    refused: tuple[Bounded, ...]
    """Designs without a plan, each with why."""
    over_budget: int = 0
    """Designs that cost or draw more than the budget."""

    def distinct(self, chosen: Iterable[Candidate]) -> list[tuple[Candidate, int]]:
        """Return designs without those that equal one before in all objectives, each with how many it stands for."""
        alike: dict[tuple[object, ...], list[Candidate]] = {}
        for each in chosen:
            key = each.point, each.design.technology, each.design.ranks, tuple(each.worth.unknown.items())
            alike.setdefault(key, []).append(each)
        return [(each[0], len(each)) for each in alike.values()]

    @property
    def front(self) -> tuple[Candidate, ...]:
        """Designs that no other one beats."""
        return tuple(candidate for candidate in self.candidates if candidate.on_front)

    def best(
        self, technology: Technology, objective: int, *, known: bool = False, dear: bool = False
    ) -> Candidate | None:
        """Return the design of a technology with the most samples per dollar (0), joule (1) or second (2).

        Args:
            technology: of the design.
            objective: what counts.
            known: whether only designs count whose fabric has all its prices and watts known.
            dear: whether what is unknown of boards and hosts outweighs all that is known, instead of being nothing.
        """
        own = [
            candidate
            for candidate in self.candidates
            if candidate.design.technology == technology and not (known and candidate.worth.unknown)
        ]
        if dear:
            return min(own, key=lambda candidate: candidate.share, default=None)
        return max(own, key=lambda candidate: candidate.point[objective], default=None)


def explore(
    question: Question,
    designs: Sequence[Design],
    run: Run,
    *,
    dollars: float = inf,
    watts: float = inf,
    prune: bool = True,
    jobs: int = 1,
    advance: Callable[[int], None] = lambda _: None,
) -> Exploration:
    """Search designs for those that train most samples for a dollar and for a joule.

    Args:
        question: what every design is asked.
        designs: of one number of ranks or of several, of which speed is then an objective too.
        run: does tasks; :func:`lightloom.designs.bounded.work` does one.
        dollars, watts: budgets; watts are those at the meter. Designs with unknown prices are held to what is known.
        prune: False evaluates every design.
        jobs: designs that are evaluated at once.
        advance: called with the number of designs that are done.

    Raises:
        UnsupportedError: no design is within the budget and has a plan.
    """
    by_speed = len({design.ranks for design in designs}) > 1
    assessed = [assess(question, design) for design in designs]
    possible = [each for each in assessed if each.worth is not None]
    affordable = [each for each in possible if each.worth and _within(each.worth, dollars, watts)]
    if not affordable:
        raise UnsupportedError(_nothing(assessed, possible, dollars, watts))
    question = _with_batch(question, affordable)
    least = {
        ranks: least_time(question, ranks, affordable[0].design.accelerator)
        for ranks in {each.design.ranks for each in affordable}
    }
    affordable = [replace(each, least_time=least[each.design.ranks]) for each in affordable]
    advance(len(designs) - len(affordable))
    found: list[Candidate] = []
    beaten: list[Bounded] = []
    refused = [each for each in assessed if each.worth is None]
    for technology in TECHNOLOGIES:
        own = [each for each in affordable if each.design.technology == technology]
        front = Front(by_speed=by_speed) if prune else None
        for wave in _waves(question, own, run, front, jobs):
            found += wave.candidates
            beaten += wave.beaten
            refused += wave.refused
            advance(len(wave.candidates) + len(wave.beaten) + len(wave.refused))
    if not found:
        raise UnsupportedError(_nothing(refused, [], dollars, watts))
    return Exploration(
        question=question,
        by_speed=by_speed,
        candidates=tuple(sorted(_marked(found, by_speed), key=lambda each: -each.point[0])),
        beaten=tuple(beaten),
        refused=tuple(refused),
        over_budget=len(possible) - len(affordable),
    )


def _with_batch(question: Question, designs: Sequence[Bounded]) -> Question:
    """The question at its batch; where that is 0, at the largest power of two that the first design with a plan fits,
    for every number of ranks."""
    if question.batch_per_rank:
        return question
    batches = [1 << power for power in reversed(range(LARGEST.bit_length()))]
    for batch in batches:
        asked = replace(question, batch_per_rank=batch)
        if batch == batches[-1] or _fits(asked, [each.design for each in designs]):
            return asked
    raise AssertionError("the least batch ends the search")


def _fits(question: Question, designs: Sequence[Design]) -> bool:
    """Whether the first design that has a plan at all has one at this batch, for each number of ranks."""
    for ranks in dict.fromkeys(design.ranks for design in designs):
        for design in (each for each in designs if each.ranks == ranks):
            result = work(Task(question=question, design=design))
            assert isinstance(result, Bounded)
            if result.too_large:
                return False
            if not result.why:
                break
    return True


def _within(worth: Worth, dollars: float, watts: float) -> bool:
    return worth.capital <= dollars and worth.watts <= watts


def _nothing(bounded: Sequence[Bounded], possible: Sequence[Bounded], dollars: float, watts: float) -> str:
    """Why no design is left."""
    if not possible:
        return f"none of {len(bounded)} designs has a plan: {bounded[0].design.name}: {bounded[0].why}"
    capital = min(each.worth.capital for each in possible if each.worth)
    power = min(each.worth.watts for each in possible if each.worth)
    least = "at least " if any(each.worth.variables for each in possible if each.worth) else ""
    return (
        f"budget of {_amounts(dollars, watts)}: the cheapest of {len(possible)} designs costs {least}${capital:,.0f} "
        f"and the least draws {power:,.0f} W at the meter: expected a larger budget or fewer ranks"
    )


def _amounts(dollars: float, watts: float) -> str:
    parts = [f"${dollars:,.0f}"] if dollars < inf else []
    return " and ".join([*parts, *([f"{watts:,.0f} W"] if watts < inf else [])])


@dataclass(frozen=True, kw_only=True)
class _Wave:
    """What became of designs."""

    candidates: list[Candidate]
    beaten: list[Bounded]
    refused: list[Bounded]


def _waves(question: Question, designs: Sequence[Bounded], run: Run, front: Front | None, jobs: int) -> Iterator[_Wave]:
    """Bound and evaluate designs of one technology, the most promising first; yield what became of those of each
    wave. Without a ``front`` none is left out."""
    waiting = list(designs)
    while waiting:
        cutoffs = {id(each): inf if front is None else front.cutoff(_worth(each)) for each in waiting}
        beyond = [each for each in waiting if each.least_time >= cutoffs[id(each)]]
        beaten = [each for each in beyond if not each.limit]
        waiting = sorted((each for each in waiting if each.least_time < cutoffs[id(each)]), key=_promise)
        wave, waiting = waiting[:jobs], waiting[jobs:]
        tasks = [
            Task(question=question, design=each.design, below=cutoffs[id(each)] if each.bounded else None)
            for each in wave
        ]
        results = {each.design.key: each for each in run(tasks)}
        candidates, refused = [], [replace(each, why=_unfinished(each.limit)) for each in beyond if each.limit]
        for each in wave:
            result = results[each.design.key]
            if result.why:
                refused.append(replace(each, why=result.why))
            elif isinstance(result, Bounded):
                least = max(each.least_time, result.least_time)
                waiting.append(replace(each, bounded=True, least_time=least, limit=result.limit))
            elif result.sample_time == inf and result.left_out:
                refused.append(replace(each, why=_unfinished(result.left_out)))
            elif result.sample_time == inf:
                beaten.append(each)
            else:
                worth = _worth(each)
                if front is not None:
                    front.add(worth, result.sample_time, result.sent)
                candidates.append(
                    Candidate(design=each.design, worth=worth, least_time=each.least_time, evaluated=result)
                )
        yield _Wave(candidates=candidates, beaten=beaten, refused=refused)


def _unfinished(left_out: str) -> str:
    return f"beaten as far as it was tried: {left_out}"


def _promise(bounded: Bounded) -> tuple[float, str]:
    """Dollars of a sample at the bound, least first; those with unknown prices after all others."""
    worth = _worth(bounded)
    dollars = worth.dollar_rate * bounded.least_time / worth.kept
    return dollars * (1 + len(worth.unknown)), bounded.design.key


def _worth(bounded: Bounded) -> Worth:
    assert bounded.worth is not None
    return bounded.worth


def _marked(found: Sequence[Candidate], by_speed: bool) -> list[Candidate]:
    """Candidates with whether they are on the front of all, and on that of their technology."""

    def fronts(chosen: Sequence[Candidate]) -> set[str]:
        front = Front(by_speed=by_speed)
        for each in chosen:
            front.add(each.worth, each.evaluated.sample_time, each.evaluated.sent)
        return {each.design.key for each, kept in zip(chosen, front.on_front(), strict=True) if kept}

    every = fronts(found)
    own = set[str]()
    for technology in TECHNOLOGIES:
        own |= fronts([each for each in found if each.design.technology == technology])
    return [replace(each, on_front=each.design.key in every, leads=each.design.key in own) for each in found]
