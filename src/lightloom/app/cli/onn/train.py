"""``lightloom onn train``: the paper's networks, or any others, trained on the whole grid."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from rich.table import Table

from lightloom.app.cli.onn.build import train_levels
from lightloom.app.cli.onn.disturb import device_errors
from lightloom.app.cli.onn.files import check_network_name
from lightloom.app.cli.options import (
    Json,
    NetworkOut,
    Nonlinearity,
    Rounding,
    check_outputs,
    count_option,
    draw,
    figure_option,
    option,
    print_result,
    read_count,
)
from lightloom.core.errors import INSTALL_TORCH, ConfigError, UnsupportedError
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


_DEVICES = ("phase_error", "coupler_error", "loss_db", "dac_bits")
_Scenario = Annotated[
    int | None, count_option("--scenario", "A row of the paper's Table I; 1 unless --servers is given.", "1..4")
]
_Layers = Annotated[str | None, option("Signals: inputs, hidden layers, outputs.", "4-64-...-4")]
_Form = Annotated[str | None, option("cayley (Σ·U throughout), periodic (projected, as the paper does), or free.")]
_Approximated = Annotated[str | None, option("Matrices in that form; the paper's, or all of --layers.", "1,2,...")]
_Noise = Annotated[float, option("Train for noise on every signal, a share of full scale.", "S")]
_AwareFrom = Annotated[float | None, option("Share of the training after which devices err; half of it.", "SHARE")]
_Cascade = Annotated[
    int | None,
    count_option("--cascade", "Two levels: a network of N servers for each group, one above them.", "GROUPS", least=1),
]
_Widths = Annotated[str, option("Neurons of hidden layers, for --search.", "W,W,...")]
_Folder = Annotated[Path | None, option("Keeps a checkpoint; an interrupted training is resumed.")]


def train(
    *,
    scenario: _Scenario = None,
    servers: Annotated[int | None, count_option("--servers", "Instead of a scenario.")] = None,
    bits: Annotated[int | None, count_option("--bits", "Bits of a code.", "B")] = None,
    layers: _Layers = None,
    form: _Form = None,
    approximated: _Approximated = None,
    noise: _Noise = 0.0,
    phase_error: Annotated[float, option("Train through meshes whose phases err, standard deviation.", "RAD")] = 0.0,
    coupler_error: Annotated[float, option("The same for the mixing angle of every coupler.", "RAD")] = 0.0,
    loss: Annotated[float, option("The same for the loss of every MZI.", "DB")] = 0.0,
    dac_bits: Annotated[int, count_option("--dac-bits", "The same for phases rounded to so many bits.", "B")] = 0,
    aware_from: _AwareFrom = None,
    nonlinearity: Nonlinearity = "relu",
    rounding: Rounding = "floor",
    cpu_seconds: Annotated[float | None, option("Train for so long, instead of --epochs.", "S")] = None,
    epochs: Annotated[int | None, count_option("--epochs", "Passes over the grid.", "E")] = None,
    batch: Annotated[int | None, count_option("--batch", "Inputs of a step.", "B", least=1)] = None,
    gradient_epochs: Annotated[
        int, count_option("--gradient-epochs", "Last epochs with the loss of the mean code (eq. 7, phase 2).", "E")
    ] = 0,
    gradient_loss: Annotated[str, option("That loss: raw, or straight-through received levels.")] = "raw",
    seed: Annotated[int, count_option("--seed", "Seed of weights, order and noise.", "S")] = 0,
    threads: Annotated[int, count_option("--threads", "PyTorch's threads; other counts round differently.")] = 1,
    device: Annotated[str, option("cpu, cuda, ...")] = "cpu",
    cascade: _Cascade = None,
    search: Annotated[bool, option("Depths and widths by successive halving.", name="--search")] = False,
    widths: _Widths = "16,32,64",
    depths: Annotated[str, option("Hidden layers, for --search.", "D,D,...")] = "3,5",
    folder: _Folder = None,
    out: NetworkOut = None,
    figure: Annotated[Path | None, figure_option("Draw errors and loss by epoch")] = None,
    as_json: Json = False,
) -> None:
    """Train a network to average; without options scenario 1, every matrix approximated, in some minutes."""
    if out is not None:
        check_network_name(out)
    check_outputs([figure])
    options: Document = {
        "noise": noise,
        "nonlinearity": nonlinearity,
        "rounding": rounding,
        "seed": seed,
        "threads": threads,
        "device": device,
        "gradient_epochs": gradient_epochs,
        "gradient_loss": gradient_loss,
    }
    options |= {} if batch is None else {"batch": batch}
    options |= _budget(epochs, cpu_seconds) | _devices((phase_error, coupler_error, loss, dac_bits), aware_from)
    if cascade is not None:
        if search or scenario is not None or figure is not None or rounding != "floor":
            raise ConfigError(
                "--cascade takes no --scenario, --search, --rounding or --figure: give --servers and --bits"
            )
        train_levels(
            _levels(cascade, servers, bits, _structure(layers, form, approximated), options), folder, out, as_json
        )
        return
    if search:
        if "devices" in options or "cpu_seconds" in options:
            raise ConfigError("--search takes no errors of devices and no --cpu-seconds: expected --epochs alone")
        if out is not None or figure is not None or layers is not None or form is not None or approximated is not None:
            raise ConfigError(
                "--search tries free networks of --widths and --depths: no --layers, --form, --out or --figure"
            )
        _search(_function(scenario, servers, bits, rounding), widths, depths, options, folder, as_json)
        return
    recipe = _recipe(scenario, servers, bits, _structure(layers, form, approximated), options)
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
    print_result(document, as_json, _parts(document, recipe), {"network": out, "drawn": drawn})


def _budget(epochs: int | None, cpu_seconds: float | None) -> Document:
    """Return what ends the training, as fields of the recipe."""
    if epochs is not None and cpu_seconds is not None:
        raise ConfigError(f"--cpu-seconds {cpu_seconds:g}: expected without --epochs, as one of them ends the training")
    budgets = {"epochs": epochs, "cpu_seconds": cpu_seconds}
    return {name: value for name, value in budgets.items() if value is not None}


def _devices(errors: tuple[float, float, float, int], aware_from: float | None) -> Document:
    """Return the errors that the training knows of, as fields of the recipe; none where all are 0."""
    devices = NonIdealities(**cast(Any, dict(zip(_DEVICES, errors, strict=True))))
    if devices == NonIdealities():
        if aware_from is not None:
            raise ConfigError(f"--aware-from {aware_from:g}: expected an error of devices too, e.g. --phase-error 3e-3")
        return {}
    return {"devices": devices} if aware_from is None else {"devices": devices, "aware_from": aware_from}


def read_list(text: str, option: str, between: str = ",") -> tuple[int, ...]:
    """Return the whole numbers given to an option.

    Raises:
        ConfigError: something else.
    """
    return tuple(read_count(number, option) for number in text.split(between))


def _need_torch() -> Any:
    try:
        from lightloom.photonics.onn import training
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise UnsupportedError(f"training {INSTALL_TORCH}") from error
    return training


def _structure(layers: str | None, form: str | None, approximated: str | None) -> Document:
    """Return what is given of the network's structure, as fields of the recipe."""
    given = {
        "form": form,
        "layers": None if layers is None else read_list(layers, "--layers", "-"),
        "approximated": None if approximated is None else read_list(approximated, "--approximated"),
    }
    return {name: value for name, value in given.items() if value is not None}


def _levels(
    groups: int, servers: int | None, bits: int | None, structure: Document, options: Document
) -> tuple[TrainingRecipe, TrainingRecipe]:
    """Return the recipes of a cascade's lower and upper level; raise ConfigError for options that contradict."""
    if (servers is None) != (bits is None):
        raise ConfigError("give --servers and --bits together")
    if servers is not None and "layers" not in structure:
        raise ConfigError("give --layers too: those of both levels are scenario 1's for 4 servers and 8 bits alone")
    function = {} if servers is None else {"servers": servers, "bits": bits}
    return TrainingRecipe.cascade(groups, **options, **function, **structure)


def _recipe(
    scenario: int | None, servers: int | None, bits: int | None, structure: Document, options: Document
) -> TrainingRecipe:
    """Return the recipe of a scenario, or of given servers, bits and layers; raise ConfigError for a mix of both."""
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
    """The facts of the trained network."""
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
    """Return the function to average by: that of a scenario of the paper, or of given servers and bits."""
    if (servers is None) != (bits is None):
        raise ConfigError("give --servers and --bits together")
    if servers is None or bits is None:
        number = 1 if scenario is None else scenario
        if not 1 <= number <= len(TABLE_I):
            raise ConfigError(f"scenario {number}: expected 1 to {len(TABLE_I)}")
        servers, bits = TABLE_I[number - 1].servers, TABLE_I[number - 1].bits
    return FunctionArguments(servers=servers, bits=bits, rounding=cast(Any, rounding))


def _search(
    function: FunctionArguments, widths: str, depths: str, options: Document, folder: Path | None, as_json: bool
) -> None:
    """Train every structure within a budget of epochs, and print the smallest that average rightly."""
    wide, deep = read_list(widths, "--widths"), read_list(depths, "--depths")
    _need_torch()
    from lightloom.photonics.onn.search import search, work

    budget = options.pop("epochs", 160)
    rest = {name: value for name, value in options.items() if name != "rounding"}
    with progress("Epochs", work(wide, deep, budget)) as advance:
        result: SearchResult = search(function, wide, deep, budget, folder, advance, **rest)
    origin = provenance([asdict(function), wide, deep, budget, rest], options["seed"])
    document = {"schema": "lightloom.onn-search/1", **result.to_json(), "provenance": origin}
    print_result(document, as_json, _search_parts(function, result))


def _search_parts(function: FunctionArguments, result: SearchResult) -> Iterator[Table]:
    """The table of the networks that were tried."""
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
