"""``lightloom onn train``: the paper's networks, or any others, trained on the whole grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from lightloom.app.cli.onn.build import train_levels
from lightloom.app.cli.onn.files import ROUNDED, NetworkOut, device_errors, read_layers
from lightloom.app.cli.onn.settings import SettingsFile, SettingTexts, TrainSettings, settings_of
from lightloom.app.cli.options import FigureFile, Shown, draw
from lightloom.core.errors import ConfigError, needing_torch
from lightloom.core.fields import Count
from lightloom.core.results import Document, cells, provenance
from lightloom.photonics.averaging.construct import build as construct
from lightloom.photonics.averaging.networks import FunctionArguments, save_network
from lightloom.photonics.devices import NonIdealities
from lightloom.photonics.onn.recipe import TrainingRecipe
from lightloom.reports.console import Parts, facts_table, screen
from lightloom.reports.figures.photonics import training_figure
from lightloom.reports.progress import progress

if TYPE_CHECKING:
    from lightloom.photonics.onn.search import SearchResult
    from lightloom.photonics.onn.training import Trained


def train(
    *,
    scenario: int | None = None,
    servers: int | None = None,
    bits: int | None = None,
    layers: str | None = None,
    cascade: Count | None = None,
    search: bool = False,
    settings: SettingsFile = None,
    set: SettingTexts = None,
    seed: int = 0,
    folder: Path | None = None,
    out: NetworkOut = None,
    figure: FigureFile = None,
    all: bool = False,
) -> Shown:
    """Train a network to average; without options scenario 1, every matrix approximated, in some minutes.

    Example: `lightloom onn train --servers 2 --bits 4 --layers 2-32-2 --set form=free --set epochs=60 --out net.npz`.

    Args:
        scenario (1..4): A row of the paper's Table I; 1 unless --servers is given.
        servers: Servers whose codes are averaged, instead of a scenario.
        bits (B): Bits of a code.
        layers (4-64-...-4): Signals of the inputs, the hidden layers and the outputs; ``printed``: the paper's.
        cascade (GROUPS): Train two levels: a network of N servers for each group, one above them.
        search: Try depths and widths of hidden layers by successive halving.
        seed (S): Seed of weights, order and noise.
        folder: Folder that keeps a checkpoint; an interrupted training is resumed.
        out: Write the network (.npz).
        figure: Draw errors and loss by epoch (.svg, .png, .pdf).
        all: Show every network that a search tried.

    ``settings`` is a YAML file of settings, and ``set`` are ``field=value`` texts that go before those of the file.

    Returns:
        The result to print: accuracy and size of the trained network, or all that a search tried; files that are asked
            for are written.

    Raises:
        ConfigError: options that exclude each other or are out of range, or a folder with the checkpoint of another
            training.
        UnsupportedError: PyTorch is missing.
    """
    chosen = settings_of(TrainSettings, settings, set)
    structure = _structure(layers, servers, bits, chosen)
    options = _training(chosen) | {"seed": seed}
    if cascade is not None:
        if search or scenario is not None or figure is not None or options["rounding"] != "floor":
            refused = "no --scenario, --search, rounding or --figure"
            raise ConfigError(f"--cascade takes {refused}: give --servers and --bits")
        return train_levels(_levels(cascade, servers, bits, structure, options), folder, out)
    if search:
        if "devices" in options or "cpu_seconds" in options:
            raise ConfigError("--search takes no errors of devices and no cpu_seconds: expected epochs alone")
        if out is not None or figure is not None or structure:
            raise ConfigError("--search tries free networks of widths and depths: no --layers, form, --out or --figure")
        return _search(_function(scenario, servers, bits, options["rounding"]), chosen, options, folder, all)
    recipe = _recipe(scenario, servers, bits, structure, options)
    with progress("Epochs", recipe.work) as advance:
        trained: Trained = _need_torch().train(recipe, folder, advance)
    document = {
        "schema": "lightloom.onn-train/1",
        **trained.to_json(),
        "layers": list(trained.network.layers),
        "provenance": provenance(recipe.to_json(), recipe.seed),
    }
    if out is not None:
        save_network(out, trained.network, trained.function_arguments)
    title = f"{_signals(recipe.layers)}, {recipe.form}: {recipe.mzi_count:,} MZIs"
    drawn = draw(figure, lambda: training_figure(trained.history, recipe.function.points, title), document)
    return Shown(document, _parts(document, recipe), {"network": out, "drawn": drawn})


def _signals(layers: Sequence[int]) -> str:
    """Return the numbers of signals as ``4-64-4``."""
    return "-".join(map(str, layers))


def _structure(layers: str | None, servers: int | None, bits: int | None, settings: TrainSettings) -> Document:
    """Return what is stated of the network's structure as fields of the recipe (``form``, ``layers``,
    ``approximated``), without those that are not stated. ``layers`` is a text as ``4-64-4``, or ``printed``: those of
    the paper for ``servers`` and ``bits``, which serve nothing else; ConfigError for another text."""
    signals = None if layers is None else read_layers(layers, servers, bits)
    given = {"form": settings.form, "layers": signals, "approximated": settings.approximated}
    return {name: value for name, value in given.items() if value is not None}


_TRAINING = {"noise", "nonlinearity", "rounding", "cpu_seconds", "epochs", "batch", "constructed"}
_TRAINING |= {"gradient_epochs", "gradient_loss", "threads", "device"}
"""Settings that are fields of the recipe."""


def _training(settings: TrainSettings) -> Document:
    """Return the settings of the training as fields of the recipe: ``noise``, ``rounding``, ``device`` and others with
    their defaults, ``epochs``, ``cpu_seconds`` and ``batch`` only where they are stated, and ``devices`` (their errors)
    unless all errors are 0, then also ``aware_from`` where that is stated.

    Raises:
        ConfigError: epochs and CPU seconds together, or ``aware_from`` without an error of devices.
    """
    options, devices = settings.model_dump(include=_TRAINING, exclude_none=True), settings.non_idealities()
    if "epochs" in options and "cpu_seconds" in options:
        seconds = options["cpu_seconds"]
        raise ConfigError(f"cpu_seconds = {seconds:g}: expected without epochs, as one of them ends the training")
    aware = settings.aware_from
    if devices == NonIdealities():
        if aware is not None:
            raise ConfigError(f"aware_from = {aware:g}: expected an error of devices too, e.g. phase_error = 3e-3")
        return options
    return options | {"devices": devices} | ({} if aware is None else {"aware_from": aware})


def _need_torch() -> Any:
    """Return the module that trains, ``lightloom.photonics.onn.training``; UnsupportedError without PyTorch."""
    with needing_torch("training"):
        from lightloom.photonics.onn import training
    return training


def _levels(
    groups: int, servers: int | None, bits: int | None, structure: Document, options: Document
) -> tuple[TrainingRecipe, TrainingRecipe]:
    """Return (recipe of the lower level, recipe of the upper level) of a cascade of ``groups`` groups of ``servers``
    servers each, by default those of scenario 1 with its servers and bits, and with two matrices of 64 x 64 more than
    its layers; ``structure`` and ``options`` are stated fields of both. ConfigError for one of servers and bits without
    the other, or for both without ``layers`` in ``structure``."""
    if (servers is None) != (bits is None):
        raise ConfigError("give --servers and --bits together")
    if servers is not None and "layers" not in structure:
        raise ConfigError("give --layers too: those of both levels are scenario 1's for 4 servers and 8 bits alone")
    function = {} if servers is None else {"servers": servers, "bits": bits}
    return TrainingRecipe.cascade(groups, **options, **function, **structure)


def _recipe(
    scenario: int | None, servers: int | None, bits: int | None, structure: Document, options: Document
) -> TrainingRecipe:
    """Return the recipe of a scenario (1 unless anything is given), or of given servers, bits and layers.

    Args:
        scenario: row of the paper's Table I, 1 to 4, or None.
        servers: number of servers, or None with a scenario.
        bits: bits of a code, or None with a scenario.
        structure: stated fields of the structure; without a form it is ``cayley``. Unless ``approximated`` is stated,
            the matrices approximated are none with the form ``free``, else those of the scenario in Table I, or all of
            given layers.
        options: fields of the training.

    Raises:
        ConfigError: a scenario beside servers, bits or layers, or only some of these three.
        UnsupportedError: PyTorch is missing.
    """
    given = (servers is not None, bits is not None, "layers" in structure)
    if scenario is not None and any(given):
        raise ConfigError("give either --scenario, or --servers, --bits and --layers")
    if any(given) and not all(given):
        raise ConfigError("give --servers, --bits and --layers together")
    _need_torch()
    chosen = options | structure
    if servers is None or bits is None:
        return TrainingRecipe.scenario(1 if scenario is None else scenario, **chosen)
    if chosen.setdefault("form", "cayley") != "free":
        chosen.setdefault("approximated", tuple(range(1, len(chosen["layers"]))))
    return TrainingRecipe(servers=servers, bits=bits, **chosen)


def _parts(document: Document, recipe: TrainingRecipe) -> Parts:
    """Return what the terminal shows of a trained network: its accuracy in per cent, the number of wrong outputs,
    epochs and CPU seconds; a table of the approximated matrices, errors of devices it was trained with, interferometers
    and largest gain in dB; and how many interferometers takes a network for the same servers and bits that is
    constructed, not trained."""
    how = "every point of the grid" if document["exhaustive"] else "sampled points"
    facts = {
        "approximated matrices": ", ".join(str(n) for n in recipe.approximated) or "none",
        "errors of devices": device_errors(document["recipe"].get("devices", {})),
        "interferometers": f"{document['mzi_count']:,}",
        "largest gain": f"{document['largest_gain_db']:.1f} dB",
    }
    exact = construct(recipe.servers, recipe.bits, rounding=recipe.rounding)
    wrong = f"{document['wrong_outputs']:,} of {document['checked_inputs']:,} outputs wrong ({how})"
    asked = "A network {} trained to average {servers} servers' codes of {bits} bits, {}; {form}, {nonlinearity} units"
    return screen(
        asked.format(_signals(recipe.layers), ROUNDED[recipe.rounding], **document["recipe"]),
        [
            f"{100 * document['accuracy']:.4f} % right; {wrong}",
            f"{document['epochs']} epochs took {document['cpu_seconds']:.0f} CPU seconds.",
        ],
        table=facts_table(facts.items()),
        what_if=[f"constructed by onn build: {exact.mzi_count:,} interferometers, none wrong"],
        more=["--set epochs=N", "--figure train.png", "onn build NET.npz", "onn map NET.npz --study disturb"],
    )


def _function(scenario: int | None, servers: int | None, bits: int | None, rounding: str) -> FunctionArguments:
    """Return the function to average by, with this rounding (``floor`` or ``half-up``): that of given servers and bits,
    or else of a scenario of the paper, 1 without a number. ConfigError for only one of servers and bits."""
    if (servers is None) != (bits is None):
        raise ConfigError("give --servers and --bits together")
    if servers is None or bits is None:
        recipe = TrainingRecipe.scenario(1 if scenario is None else scenario)
        servers, bits = recipe.servers, recipe.bits
    return FunctionArguments(servers=servers, bits=bits, rounding=cast(Any, rounding))


def _search(
    function: FunctionArguments, chosen: TrainSettings, options: Document, folder: Path | None, all: bool
) -> Shown:
    """Train structures of the chosen widths and depths by successive halving: each round trains half as many networks
    anew for twice as many epochs, and the last round trains a single one for the whole budget; return the result to
    print: the trials of all rounds, and which are on the front of accuracy, interferometers and tolerated noise, where
    no other trial beats them.

    The budget, the epochs of the last round, is taken out of ``options`` (``epochs``, 160 if not stated); the others
    are fields of the training, but ``rounding``, which ``function`` has. ``folder`` keeps what is trained, so that an
    interrupted search resumes; ConfigError where it belongs to another search, for a width or depth below 1, and for a
    budget too small for all rounds.
    """
    _need_torch()
    from lightloom.photonics.onn.search import search, work

    widths, depths, budget = chosen.widths, chosen.depths, options.pop("epochs", 160)
    rest = {name: value for name, value in options.items() if name != "rounding"}
    with progress("Epochs", work(widths, depths, budget)) as advance:
        result: SearchResult = search(function, widths, depths, budget, folder, advance, **rest)
    origin = provenance([asdict(function), widths, depths, budget, rest], options["seed"])
    document = {"schema": "lightloom.onn-search/1", **result.to_json(), "provenance": origin}
    return Shown(document, _search_parts(function, result, all))


def _search_parts(function: FunctionArguments, result: SearchResult, all: bool) -> Parts:
    """Return what the terminal shows of a search: the most accurate network on the front, and a row for each trial, a
    network after the epochs of one round, so that a network may have several rows: signals, interferometers, share of
    outputs right (0 to 1), noise limit (a share of full scale, 0 below 99.99 % right) and epochs. Trials on the front,
    which no other trial beats in accuracy, interferometers and noise limit together, are marked ``*`` and come first.
    Only the first eight rows are shown unless ``all``."""
    rows = [
        {**asdict(trial), "signals": _signals(trial.layers), "mark": "*" if trial in result.front else ""}
        for trial in sorted(result.trials, key=lambda trial: trial not in result.front)
    ]
    best = max(result.front, key=lambda trial: (trial.accuracy, trial.epochs))
    size = f"{best.mzi_count:,} interferometers, {best.epochs} epochs"
    columns = "signals: {signals} | interferometers: {mzi_count:,} | share right: {accuracy:.6f} | "
    columns += "noise limit: {noise_limit:.2g} | epochs: {epochs} | front: {mark}"
    return screen(
        f"Which network learns to average {function.servers} servers' codes of {function.bits} bits?",
        [f"{_signals(best.layers)}: {100 * best.accuracy:.4f} % right, {size}"],
        cells(columns, rows),
        all=all,
        legend="*: no other is better in accuracy, interferometers and noise",
        more=["--set widths=16,32,64", "--set depths=3,5", "--set epochs=N"],
    )
