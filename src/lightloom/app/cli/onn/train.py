"""``lightloom onn train``: the paper's networks, or any others, trained on the whole grid."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from rich.table import Table

from lightloom.app.cli.onn.build import train_levels
from lightloom.app.cli.onn.files import NetworkOut, device_errors, read_devices
from lightloom.app.cli.options import FigureFile, Options, Shown, draw, read_count
from lightloom.core.errors import ConfigError, needing_torch
from lightloom.core.fields import Count
from lightloom.core.results import Document, provenance
from lightloom.photonics.averaging.networks import TABLE_I, FunctionArguments, save_network
from lightloom.photonics.devices import NonIdealities
from lightloom.photonics.onn.recipe import TrainingRecipe
from lightloom.reports.console import facts_table, plain_table
from lightloom.reports.figures.photonics import training_figure
from lightloom.reports.progress import progress

if TYPE_CHECKING:
    from lightloom.photonics.onn.search import SearchResult
    from lightloom.photonics.onn.training import Trained


_NOT_TRAINED = ("loss_spread", "heater_spread", "crosstalk", "detector_noise")
"""Errors of devices that trainings do not know of."""


def read_list(text: str, option: str, between: str = ",") -> tuple[int, ...]:
    """Return the whole numbers given to an option as a text, with ``between`` as the separator.

    Raises:
        ConfigError: something else.
    """
    return tuple(read_count(number, option) for number in text.split(between))


def chosen_structure(
    *, layers: str | None = None, form: str | None = None, approximated: str | None = None
) -> Document:
    """Return the given options of the network's structure as fields of the recipe; options that are not given are
    absent.

    Args:
        layers (4-64-...-4): Signals: inputs, hidden layers, outputs.
        form: ``cayley`` (Σ·U throughout), periodic (projected, as the paper does), or free.
        approximated (1,2,...): Matrices in that form; the paper's, or all of --layers.
    """
    given = {
        "form": form,
        "layers": None if layers is None else read_list(layers, "--layers", "-"),
        "approximated": None if approximated is None else read_list(approximated, "--approximated"),
    }
    return {name: value for name, value in given.items() if value is not None}


def chosen_training(
    *,
    noise: float = 0.0,
    nonlinearity: str = "relu",
    rounding: str = "floor",
    cpu_seconds: float | None = None,
    epochs: int | None = None,
    batch: Count | None = None,
    gradient_epochs: int = 0,
    gradient_loss: str = "raw",
    seed: int = 0,
    threads: int = 1,
    device: str = "cpu",
) -> Document:
    """Return the options of how to train as fields of the recipe, without those that are None; ConfigError for epochs
    and CPU seconds together.

    Args:
        noise (S): Train for noise on every signal, a share of full scale.
        nonlinearity: relu, or clipped: units that saturate.
        rounding: floor, or half-up.
        cpu_seconds (S): Train for so long, instead of --epochs.
        epochs (E): Passes over the grid.
        batch (B): Inputs of a step.
        gradient_epochs (E): Last epochs with the loss of the mean code (eq. 7, phase 2).
        gradient_loss: That loss: raw, or straight-through received levels.
        seed (S): Seed of weights, order and noise.
        threads: PyTorch's threads; other counts round differently.
        device: cpu, cuda, ...
    """
    given = locals()
    if epochs is not None and cpu_seconds is not None:
        raise ConfigError(f"--cpu-seconds {cpu_seconds:g}: expected without --epochs, as one of them ends the training")
    return {name: value for name, value in given.items() if value is not None}


def train(
    *,
    scenario: int | None = None,
    servers: int | None = None,
    bits: int | None = None,
    structure: Annotated[partial[Document], Options(chosen_structure)],
    devices: Annotated[partial[NonIdealities], Options(read_devices, without=_NOT_TRAINED)],
    aware_from: float | None = None,
    training: Annotated[partial[Document], Options(chosen_training)],
    cascade: Count | None = None,
    search: bool = False,
    widths: str = "16,32,64",
    depths: str = "3,5",
    folder: Path | None = None,
    out: NetworkOut = None,
    figure: FigureFile = None,
) -> Shown:
    """Train a network to average; without options scenario 1, every matrix approximated, in some minutes.

    Args:
        scenario (1..4): A row of the paper's Table I; 1 unless --servers is given.
        servers: Instead of a scenario.
        bits (B): Bits of a code.
        phase_error (RAD): Train through meshes whose phases err, standard deviation.
        coupler_error (RAD): The same for the mixing angle of every coupler.
        loss (DB): The same for the loss of every MZI.
        dac_bits (B): The same for phases rounded to so many bits.
        aware_from (SHARE): Share of the training after which devices err; half of it.
        cascade (GROUPS): Two levels: a network of N servers for each group, one above them.
        search: Depths and widths by successive halving.
        widths (W,W,...): Neurons of hidden layers, for --search.
        depths (D,D,...): Hidden layers, for --search.
        folder: Keeps a checkpoint; an interrupted training is resumed.
        out: Write the network (.npz).
        figure: Draw errors and loss by epoch (.svg, .png, .pdf).
    """
    options = training() | _devices(devices(), aware_from)
    if cascade is not None:
        if search or scenario is not None or figure is not None or options["rounding"] != "floor":
            raise ConfigError(
                "--cascade takes no --scenario, --search, --rounding or --figure: give --servers and --bits"
            )
        return train_levels(_levels(cascade, servers, bits, structure(), options), folder, out)
    if search:
        if "devices" in options or "cpu_seconds" in options:
            raise ConfigError("--search takes no errors of devices and no --cpu-seconds: expected --epochs alone")
        if out is not None or figure is not None or structure.keywords:
            raise ConfigError(
                "--search tries free networks of --widths and --depths: no --layers, --form, --out or --figure"
            )
        return _search(_function(scenario, servers, bits, options["rounding"]), widths, depths, options, folder)
    recipe = _recipe(scenario, servers, bits, structure(), options)
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
    title = f"{'-'.join(str(n) for n in recipe.layers)}, {recipe.form}: {recipe.mzi_count:,} MZIs"
    drawn = draw(figure, lambda: training_figure(trained.history, recipe.function.points, title), document)
    return Shown(document, _parts(document, recipe), {"network": out, "drawn": drawn})


def _devices(devices: NonIdealities, aware_from: float | None) -> Document:
    """Return the errors that the training knows of, as fields of the recipe; empty where all are 0, in which case
    ``aware_from`` is a ConfigError."""
    if devices == NonIdealities():
        if aware_from is not None:
            raise ConfigError(f"--aware-from {aware_from:g}: expected an error of devices too, e.g. --phase-error 3e-3")
        return {}
    return {"devices": devices} if aware_from is None else {"devices": devices, "aware_from": aware_from}


def _need_torch() -> Any:
    """Return the module that trains; UnsupportedError without PyTorch."""
    with needing_torch("training"):
        from lightloom.photonics.onn import training
    return training


def _levels(
    groups: int, servers: int | None, bits: int | None, structure: Document, options: Document
) -> tuple[TrainingRecipe, TrainingRecipe]:
    """Return the recipes of a cascade's lower and upper level, scenario 1's where no servers are given; ConfigError for
    --servers without --bits or --layers."""
    if (servers is None) != (bits is None):
        raise ConfigError("give --servers and --bits together")
    if servers is not None and "layers" not in structure:
        raise ConfigError("give --layers too: those of both levels are scenario 1's for 4 servers and 8 bits alone")
    function = {} if servers is None else {"servers": servers, "bits": bits}
    return TrainingRecipe.cascade(groups, **options, **function, **structure)


def _recipe(
    scenario: int | None, servers: int | None, bits: int | None, structure: Document, options: Document
) -> TrainingRecipe:
    """Return the recipe of a scenario (1 unless anything is given), or of given servers, bits and layers, whose
    matrices are all approximated unless stated or free; ConfigError for a mix of both."""
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


def _parts(document: Document, recipe: TrainingRecipe) -> Iterator[Table]:
    """Yield a table of the facts of the trained network."""
    how = "every point of the grid" if document["exhaustive"] else "sampled"
    fields = document["recipe"].get("devices", {})
    rows = [
        ("signals", "-".join(str(n) for n in recipe.layers)),
        ("approximated", ", ".join(str(n) for n in recipe.approximated) or "none"),
        ("accuracy", f"{100 * document['accuracy']:.4f} % ({how})"),
        ("wrong outputs", f"{document['wrong_outputs']:,} of {document['checked_inputs']:,}"),
        ("errors of devices", device_errors(fields)),
        ("MZIs", f"{document['mzi_count']:,}"),
        ("largest gain", f"{document['largest_gain_db']:.1f} dB"),
        (
            "trained",
            f"{document['epochs']} epochs, {document['cpu_seconds']:.0f} CPU seconds, {document['seconds']:.0f} s",
        ),
    ]
    title = f"{recipe.servers} servers, {recipe.bits} bits, {recipe.form}, {recipe.nonlinearity}"
    yield facts_table(rows, title=title)


def _function(scenario: int | None, servers: int | None, bits: int | None, rounding: str) -> FunctionArguments:
    """Return the function to average by: that of given servers and bits, or else of a scenario of the paper, 1 without
    a number."""
    if (servers is None) != (bits is None):
        raise ConfigError("give --servers and --bits together")
    if servers is None or bits is None:
        number = 1 if scenario is None else scenario
        if not 1 <= number <= len(TABLE_I):
            raise ConfigError(f"scenario {number}: expected 1 to {len(TABLE_I)}")
        servers, bits = TABLE_I[number - 1].servers, TABLE_I[number - 1].bits
    return FunctionArguments(servers=servers, bits=bits, rounding=cast(Any, rounding))


def _search(function: FunctionArguments, widths: str, depths: str, options: Document, folder: Path | None) -> Shown:
    """Train every structure of these widths and depths by successive halving of a budget of epochs, and show all that
    were tried and which are on the front."""
    wide, deep = read_list(widths, "--widths"), read_list(depths, "--depths")
    _need_torch()
    from lightloom.photonics.onn.search import search, work

    budget = options.pop("epochs", 160)
    rest = {name: value for name, value in options.items() if name != "rounding"}
    with progress("Epochs", work(wide, deep, budget)) as advance:
        result: SearchResult = search(function, wide, deep, budget, folder, advance, **rest)
    origin = provenance([asdict(function), wide, deep, budget, rest], options["seed"])
    document = {"schema": "lightloom.onn-search/1", **result.to_json(), "provenance": origin}
    return Shown(document, _search_parts(function, result))


def _search_parts(function: FunctionArguments, result: SearchResult) -> Iterator[Table]:
    """Yield a table with a row for each network that was tried; "front" marks those that no other one beats."""
    cells = [
        [
            "-".join(str(n) for n in trial.layers),
            f"{trial.mzi_count:,}",
            f"{100 * trial.accuracy:.4f}",
            f"{trial.noise_limit:.2g}",
            f"{trial.epochs}",
            "front" if trial in result.front else "",
        ]
        for trial in result.trials
    ]
    columns = ["signals", "MZIs", "accuracy, %", "noise limit", "epochs", ""]
    title = f"{function.servers} servers, {function.bits} bits: {len(result.trials)} networks"
    yield plain_table(columns, cells, title=title)
