"""Training that knows its devices' errors against training that does not, at equal budgets, and against construction.

Four servers of 4 bits: 169 points, 2-32-32-2 with limiting units, 1,152 MZIs. Both kinds of training start from the
same weights and see the same batches; for `BUDGET` CPU seconds in all, one of them trains on undisturbed weights
throughout, the other on undisturbed weights for half of that time, and then through meshes whose phases err anew in
every batch, by twice the error that they are judged at. Judged is the share of wrong averages over all points of the
grid, on the same fabrications for all.

How it was chosen: by seed 0 alone, with 15 CPU seconds, phase errors of 6e-3 or 3e-3 and errors from the start, from a
quarter or from half of the training; larger functions (2 servers of 8 bits) had not converged in 40 CPU seconds.

    python -m lightloom.photonics.onn aware FILE
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from lightloom.core.errors import ConfigError, UnknownNameError
from lightloom.core.files import write_atomically
from lightloom.core.journal import stored_entries
from lightloom.core.results import Advance, Document, ignore, provenance
from lightloom.photonics.averaging.construct import build
from lightloom.photonics.averaging.function import AveragingFunction
from lightloom.photonics.averaging.mapped import averaging_accuracy, map_network
from lightloom.photonics.averaging.networks import LayeredNetwork
from lightloom.photonics.devices import NonIdealities
from lightloom.photonics.meshes.disturb import monte_carlo
from lightloom.photonics.onn.recipe import TrainingRecipe
from lightloom.photonics.onn.training import train

SCHEMA = "lightloom.aware-training/1"
SERVERS, BITS = 4, 4
SEEDS = (0, 1, 2, 3, 4)
BUDGET = 20.0
"""CPU seconds of each training."""
PHASE_ERROR = 6e-3
"""Phase error of the training, in radians: twice the one that is asked about."""
FABRICATIONS = 50
ENTRIES = 40
"""Entries of a training's history that are kept."""
JUDGED: Mapping[str, NonIdealities] = {
    "none": NonIdealities(),
    "phase 1e-3": NonIdealities(phase_error=1e-3),
    "phase 3e-3": NonIdealities(phase_error=3e-3),
    "phase 5e-3": NonIdealities(phase_error=5e-3),
    "phase 1e-2": NonIdealities(phase_error=1e-2),
    "coupler 1e-2": NonIdealities(coupler_error=1e-2),
    "loss 0.1 dB": NonIdealities(loss_db=0.1),
    "8 bits": NonIdealities(dac_bits=8),
}
CONSTRUCTED: Mapping[str, Mapping[str, Any]] = {
    "constructed, smallest": {"nonlinearity": "clipped"},
    "constructed, for noise 5e-3": {"nonlinearity": "clipped", "noise": 5e-3},
}
ARMS = ("unaware", "aware")


def recipe(arm: str, seed: int, budget: float = BUDGET) -> TrainingRecipe:
    """Return the recipe of one training of the comparison (4 servers of 4 bits) for ``budget`` CPU seconds, 20 by
    default.

    ``arm`` is ``unaware``, trained on undisturbed weights throughout, or (any other) ``aware``, trained in its second
    half through meshes with phase errors of 6e-3 rad.
    """
    if arm not in ARMS:
        raise UnknownNameError("arm", arm, ARMS)
    plain = TrainingRecipe(
        servers=SERVERS,
        bits=BITS,
        layers=(2, 32, 32, 2),
        nonlinearity="clipped",
        batch=256,
        learning_rate=3e-3,
        margin=0.1,
        cpu_seconds=budget,
        seed=seed,
    )
    return plain if arm == "unaware" else plain.but(devices=NonIdealities(phase_error=PHASE_ERROR))


def wrong_shares(network: LayeredNetwork, function: AveragingFunction) -> dict[str, float]:
    """Return the share, from 0 to 1, of wrong averages of a network by each entry of `JUDGED`: ``none``, four phase
    errors such as ``phase 3e-3`` (rad), ``coupler 1e-2`` (rad), ``loss 0.1 dB`` and ``8 bits`` (of phases).

    It is the mean over 50 fabrications and all grid points; errors without anything to draw are judged on one
    fabrication.
    """
    mapped = map_network(network)
    judge = averaging_accuracy(mapped, function)
    shares = {}
    for name, devices in JUDGED.items():
        drawn = devices.phase_error or devices.coupler_error
        right = monte_carlo(mapped.matrices, devices, judge, draws=FABRICATIONS if drawn else 1, seed=1)
        shares[name] = 1 - float(right.mean())
    return shares


def compare_trainings(known: list[Document], budget: float = BUDGET, advance: Advance = ignore) -> Iterator[Document]:
    """Yield the JSON document of the comparison so far (`_document`), after every seed and arm.

    Constructed networks are judged first; then the two arms ``unaware`` and ``aware`` are trained for each of five
    seeds. Rows of trainings have ``arm``, ``seed``, ``cpu_seconds``, ``mzi_count``, ``wrong`` (the shares of wrong
    averages, from 0 to 1, by entry of `JUDGED`) and ``history``, those of constructed networks ``name``, ``mzi_count``
    and ``wrong``.

    Args:
        known: rows of trainings done before, which are not repeated.
        budget: CPU seconds of each training, 20 by default.
        advance: called with 1 after every training, those done before included.
    """
    trainings = [row | {"history": _thinned(row["history"])} for row in known]
    done = {(row["arm"], row["seed"]) for row in trainings}
    function = recipe("unaware", 0).function
    constructed = []
    for name, options in CONSTRUCTED.items():
        made = build(SERVERS, BITS, **options)
        shares = wrong_shares(made.network, function)
        constructed.append({"name": name, "mzi_count": map_network(made.network).mzis, "wrong": shares})
    for seed, arm in product(SEEDS, ARMS):
        if (arm, seed) not in done:
            trained = train(recipe(arm, seed, budget))
            row = {"arm": arm, "seed": seed, "cpu_seconds": trained.cpu_seconds}
            row |= {"mzi_count": map_network(trained.network).mzis, "wrong": wrong_shares(trained.network, function)}
            trainings.append(row | {"history": _thinned(trained.history)})
        advance(1)
        yield _document(trainings, constructed, budget)


def _thinned(history: Sequence[dict[str, float]]) -> list[dict[str, float]]:
    """Return at most 40 entries of a training's history, evenly spread, the last one included.

    Values are rounded to six significant digits, in short histories too.
    """
    step = -(-len(history) // ENTRIES)
    return [{name: float(f"{value:.6g}") for name, value in entry.items()} for entry in history[::-step][::-1]]


def _document(trainings: list[Document], constructed: list[Document], budget: float) -> Document:
    """Return the JSON document of the comparison from the rows of trainings and of constructed networks.

    Rows are under ``trainings`` and ``constructed``, the arms' ``recipes`` by arm. Its ``verdict`` has the number of
    ``seeds`` that both arms have been trained with, and of those with fewer wrong averages at a phase error of 3e-3 in
    the aware arm (``fewer_wrong_with_awareness``). ``schema``, ``budget_cpu_seconds``, ``fabrications`` and
    ``provenance`` are beside them. ``budget`` is in CPU seconds.
    """
    wrong = {(row["arm"], row["seed"]): row["wrong"]["phase 3e-3"] for row in trainings}
    pairs = [seed for seed in SEEDS if all((arm, seed) in wrong for arm in ARMS)]
    fewer = [seed for seed in pairs if wrong["aware", seed] < wrong["unaware", seed]]
    settings = [recipe(arm, 0, budget).to_json() for arm in ARMS]
    return {
        "schema": SCHEMA,
        "budget_cpu_seconds": budget,
        "fabrications": FABRICATIONS,
        "recipes": dict(zip(ARMS, settings, strict=True)),
        "verdict": {"at": "phase 3e-3", "seeds": len(pairs), "fewer_wrong_with_awareness": len(fewer)},
        "constructed": constructed,
        "trainings": trainings,
        "provenance": provenance([settings, SEEDS, FABRICATIONS, list(JUDGED)], SEEDS[0]),
    }


def write(path: Path, budget: float = BUDGET, advance: Advance = ignore) -> None:
    """Write the document of `compare_trainings` to a JSON file after every training; trainings in the file are not
    repeated.

    ``budget`` is the CPU seconds of each training, 20 by default; ``advance`` is called with 1 after every training,
    those done before included.

    Raises:
        ConfigError: the file holds something else, or trainings with another budget, or cannot be written.
    """
    complaint = f"{str(path)!r} is not a comparison of trainings: give another name"
    known = stored_entries(path, "trainings", {"schema": SCHEMA, "budget_cpu_seconds": budget}, complaint)
    if known is None:
        raise ConfigError(f"{str(path)!r} holds trainings of another budget: give another name")
    for document in compare_trainings(known, budget, advance):
        write_atomically(path, json.dumps(document, indent=1) + "\n")
