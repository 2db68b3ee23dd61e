"""Search for small trained networks by successive halving over depth and width.

Every round trains the remaining networks from scratch with twice the epochs (the learning rate's schedule depends on
the end) and keeps the half nearest to the Pareto front of MZIs and accuracy, so that small networks survive too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lightloom.core.errors import ConfigError
from lightloom.core.files import write_atomically
from lightloom.core.journal import stored_entries
from lightloom.core.results import Advance, attributes, content_hash, ignore
from lightloom.photonics.averaging.networks import FunctionArguments
from lightloom.photonics.averaging.proof import TARGET, noise_limit
from lightloom.photonics.onn.recipe import TrainingRecipe
from lightloom.photonics.onn.training import train

LIMIT_EVALUATIONS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A network trained for ``epochs``."""

    layers: tuple[int, ...]
    epochs: int
    mzi_count: int
    accuracy: float
    noise_limit: float
    """0 below 99.99 %."""

    def beats(self, other: Trial) -> bool:
        """Return whether the trial is no worse than another in number of MZIs, accuracy and noise limit, and better in
        at least one."""
        ours = (-self.mzi_count, self.accuracy, self.noise_limit)
        theirs = (-other.mzi_count, other.accuracy, other.noise_limit)
        return ours != theirs and all(a >= b for a, b in zip(ours, theirs, strict=True))


@dataclass(frozen=True, slots=True)
class SearchResult:
    """All trials, in the order of training."""

    trials: tuple[Trial, ...]

    @property
    def front(self) -> tuple[Trial, ...]:
        """Trials, of all rounds, that no other trial beats, those with the fewest MZIs first."""
        return tuple(sorted(fronts(self.trials)[0], key=lambda t: t.mzi_count))

    def to_json(self) -> dict[str, Any]:
        """Return the document of `lightloom onn train --search --json`: the trials of the ``front`` and all ``trials``,
        each with ``layers``, ``epochs``, ``mzi_count``, ``accuracy`` (0 to 1) and ``noise_limit``."""
        return {"front": [asdict(t) for t in self.front], "trials": [asdict(t) for t in self.trials]}


def search(
    function: FunctionArguments,
    widths: Sequence[int],
    depths: Sequence[int],
    budget: int = 160,
    folder: Path | None = None,
    advance: Advance = ignore,
    **options: Any,
) -> SearchResult:
    """Return all trials of networks of every depth and width, whose number is halved, rounded up, from round to round,
    in the order of training; bitwise repeatable.

    The networks of the best Pareto fronts stay, within a front the most accurate; each is trained anew, for twice as
    many epochs.

    Args:
        function: arguments of the function to learn.
        widths: numbers of neurons of a hidden layer.
        depths: numbers of hidden layers.
        budget: epochs of the last round, which trains one network; each earlier round trains twice as many networks for
            half as long.
        folder: where finished trials (``search.json``) and the checkpoint of the current one are stored, so that an
            interrupted search can resume; None stores none.
        advance: called with the epochs done since the last call, up to `work` in all.
        options: fields of every recipe (`TrainingRecipe`): seed, noise, nonlinearity, ...

    Raises:
        ConfigError: no widths or depths, one below 1, a budget with less than an epoch in the first round, or a folder
            that holds another search.
    """
    first = candidates(function, widths, depths, budget, options)
    searched = content_hash([recipe.to_json() for recipe in first])
    path = None if folder is None else folder / "search.json"
    known = {} if path is None else {(trial.layers, trial.epochs): trial for trial in _stored_trials(path, searched)}
    trials: list[Trial] = []
    left = first
    for count, epochs in rounds(len(first), budget):
        nearest = [t.layers for t in _nearest(trials[-len(left) :])][:count] if trials else [r.layers for r in left]
        left = [r.but(epochs=epochs) for r in first if r.layers in nearest]
        for recipe in left:
            place = (recipe.layers, recipe.epochs)
            if place in known:
                advance(recipe.epochs)
            else:
                known[place] = _try(recipe, folder, advance)
                if path is not None:
                    document = {"search": searched, "trials": [asdict(trial) for trial in known.values()]}
                    write_atomically(path, json.dumps(document, indent=1) + "\n")
            trials.append(known[place])
    return SearchResult(tuple(trials))


def candidates(
    function: FunctionArguments, widths: Sequence[int], depths: Sequence[int], budget: int, options: dict[str, Any]
) -> list[TrainingRecipe]:
    """Return a recipe for every depth and, within it, every width, each once.

    All hidden layers of a network are equally wide.

    Args:
        function: arguments of the function to learn.
        widths: numbers of neurons of a hidden layer.
        depths: numbers of hidden layers.
        budget: epochs of each recipe, which must suffice for all rounds of the search.
        options: further fields of every recipe.

    Raises:
        ConfigError: no widths or depths, one below 1, or a budget with less than an epoch in the first round.
    """
    if not widths or not depths or min(*widths, *depths, 1) < 1:
        raise ConfigError(f"widths = {list(widths)}, depths = {list(depths)}: expected some, each of at least 1")
    ideal = function.function()
    ends = len(ideal.inputs), ideal.outputs
    count = len(set(widths)) * len(set(depths))
    if rounds(count, budget)[0][1] < 1:
        raise ConfigError(f"budget = {budget} epochs: too few to halve {count} networks down to one")
    given = attributes(function, "servers bits inputs rounding") | {"epochs": budget} | options
    return [
        TrainingRecipe(layers=(ends[0], *[width] * depth, ends[1]), **given)
        for depth in dict.fromkeys(depths)
        for width in dict.fromkeys(widths)
    ]


def rounds(count: int, budget: int) -> list[tuple[int, int]]:
    """Return, for every round of a search, the number of networks and the epochs of each.

    ``count`` networks are in the first round; the number halves, rounded up, down to one. Epochs are ``budget`` in the
    last round, and half as many, rounded down, in each round before; 0 where the budget is too small.
    """
    counts = [count]
    while counts[-1] > 1:
        counts.append(-(-counts[-1] // 2))
    return [(n, budget >> len(counts) - 1 - i) for i, n in enumerate(counts)]


def work(widths: Sequence[int], depths: Sequence[int], budget: int) -> int:
    """Return the total epochs of a search with these widths, depths and epochs of the last round, over all rounds and
    networks."""
    return sum(count * epochs for count, epochs in rounds(len(set(widths)) * len(set(depths)), budget))


def fronts(trials: Sequence[Trial]) -> list[list[Trial]]:
    """Return trials as Pareto fronts: first those that no other beats, then those that only trials of earlier fronts
    beat, and so on."""
    left, result = list(trials), []
    while left:
        front = [t for t in left if not any(other.beats(t) for other in left)]
        result.append(front)
        left = [t for t in left if t not in front]
    return result


def _nearest(trials: Sequence[Trial]) -> Iterator[Trial]:
    """Yield trials front by front, the best front first, those of a front by falling accuracy and then by rising
    MZIs."""
    for front in fronts(trials):
        yield from sorted(front, key=lambda t: (-t.accuracy, t.mzi_count))


def _stored_trials(path: Path, searched: str) -> list[Trial]:
    """Return the trials that an interrupted search has finished, none where the file does not exist.

    ``searched`` is the hash of the search, which the file must have.

    Raises:
        ConfigError: the file holds something else, or another search.
    """
    complaint = f"cannot resume from {str(path)!r}: not a record of a search"
    if (stored := stored_entries(path, "trials", {"search": searched}, complaint)) is None:
        raise ConfigError(f"{str(path)!r} belongs to another search: give another folder")
    try:
        return [Trial(**(trial | {"layers": tuple(trial["layers"])})) for trial in stored]
    except (KeyError, TypeError) as error:
        raise ConfigError(complaint) from error


def _try(recipe: TrainingRecipe, folder: Path | None, advance: Advance) -> Trial:
    """Train the network of one recipe, and return its accuracy, noise limit and sizes as a trial.

    The noise limit, a share of full scale, is measured with 100,000 noisy evaluations a value if the accuracy is at
    least 99.99 %, else it is 0. Checkpoints are stored in ``folder``; None stores none.
    """
    trained = train(recipe, folder, advance)
    bears = trained.accuracy >= TARGET
    limit = noise_limit(trained.network, recipe.function, evaluations=LIMIT_EVALUATIONS) if bears else 0.0
    return Trial(accuracy=trained.accuracy, noise_limit=limit, **attributes(recipe, "layers epochs mzi_count"))
