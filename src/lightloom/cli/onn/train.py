"""``lightloom onn train``: the paper's networks, or any others, trained on the whole grid."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from lightloom.cli.onn.files import check_network_name
from lightloom.cli.options import Json, NetworkOut, Nonlinearity, Rounding, figure_option
from lightloom.cli.output import check_outputs, print_json, read_count
from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.core.provenance import provenance, provenance_line
from lightloom.core.results import Document
from lightloom.photonics.averaging.realised.area import TABLE_I
from lightloom.photonics.averaging.realised.files import FunctionArguments, save_network
from lightloom.reports.console import facts_table, make_console, plain_table
from lightloom.reports.figures.base import save
from lightloom.reports.onn.training import training_figure
from lightloom.reports.progress import progress
from lightloom.workloads.resolve import INSTALL_TORCH

if TYPE_CHECKING:
    from lightloom.photonics.onn import SearchResult, Trained, TrainingRecipe


_Scenario = Annotated[
    str | None, typer.Option(metavar="1..4", help="A row of the paper's Table I; 1 unless --servers is given.")
]
_Layers = Annotated[str | None, typer.Option(metavar="4-64-...-4", help="Signals: inputs, hidden layers, outputs.")]
_Form = Annotated[
    str | None, typer.Option(help="cayley (Σ·U throughout), periodic (projected, as the paper does), or free.")
]
_Approximated = Annotated[
    str | None, typer.Option(metavar="1,2,...", help="Matrices in that form; the paper's, or all of --layers.")
]
_Noise = Annotated[float, typer.Option(metavar="S", help="Train for noise on every signal, a share of full scale.")]
_Widths = Annotated[str, typer.Option(metavar="W,W,...", help="Neurons of hidden layers, for --search.")]
_Folder = Annotated[Path | None, typer.Option(help="Keeps a checkpoint; an interrupted training is resumed.")]


def train(
    *,
    scenario: _Scenario = None,
    servers: Annotated[str | None, typer.Option(metavar="N", help="Instead of a scenario.")] = None,
    bits: Annotated[str | None, typer.Option(metavar="B", help="Bits of a code.")] = None,
    layers: _Layers = None,
    form: _Form = None,
    approximated: _Approximated = None,
    noise: _Noise = 0.0,
    nonlinearity: Nonlinearity = "relu",
    rounding: Rounding = "floor",
    epochs: Annotated[str | None, typer.Option(metavar="E", help="Passes over the grid.")] = None,
    seed: Annotated[str, typer.Option(metavar="S", help="Seed of weights, order and noise.")] = "0",
    threads: Annotated[str, typer.Option(metavar="N", help="PyTorch's threads; other counts round differently.")] = "1",
    device: Annotated[str, typer.Option(help="cpu, cuda, ...")] = "cpu",
    search: Annotated[bool, typer.Option("--search", help="Depths and widths by successive halving.")] = False,
    widths: _Widths = "16,32,64",
    depths: Annotated[str, typer.Option(metavar="D,D,...", help="Hidden layers, for --search.")] = "3,5",
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
        "seed": read_count(seed, "--seed"),
        "threads": read_count(threads, "--threads"),
        "device": device,
    }
    if epochs is not None:
        options["epochs"] = read_count(epochs, "--epochs")
    if search:
        if out is not None or figure is not None or layers is not None or form is not None or approximated is not None:
            raise ConfigError(
                "--search tries free networks of --widths and --depths: no --layers, --form, --out or --figure"
            )
        _search(_function(scenario, servers, bits, rounding), widths, depths, options, folder, as_json)
        return
    recipe = _recipe(scenario, servers, bits, layers, form, approximated, options)
    trained = _run(recipe, folder)
    document = {
        "schema": "lightloom.onn-train/1",
        **trained.to_json(),
        "layers": list(trained.network.layers),
        "provenance": provenance(recipe.to_json(), recipe.seed),
    }
    if out is not None:
        save_network(out, trained.network, trained.function_arguments)
    if figure is not None:
        _draw(trained, figure, document["provenance"])
    if as_json:
        print_json(document)
    else:
        _print(document, recipe, {"network": out, "drawn": figure})


def read_list(text: str, option: str, between: str = ",") -> tuple[int, ...]:
    """Return the whole numbers given to an option.

    Raises:
        ConfigError: something else.
    """
    return tuple(read_count(number, option) for number in text.split(between))


def _need_torch() -> Any:
    try:
        import lightloom.photonics.onn as trained
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise UnsupportedError(f"training {INSTALL_TORCH}") from error
    return trained


def _recipe(
    scenario: str | None,
    servers: str | None,
    bits: str | None,
    layers: str | None,
    form: str | None,
    approximated: str | None,
    options: Document,
) -> TrainingRecipe:
    own = (servers, bits, layers)
    if scenario is not None and any(own):
        raise ConfigError("give either --scenario, or --servers, --bits and --layers")
    if any(own) and not all(own):
        raise ConfigError("give --servers, --bits and --layers together")
    trained = _need_torch()
    chosen = options if form is None else {**options, "form": form}
    if approximated is not None:
        chosen["approximated"] = read_list(approximated, "--approximated")
    if not all(own):
        return cast(
            "TrainingRecipe", trained.TrainingRecipe.scenario(read_count(scenario or "1", "--scenario"), **chosen)
        )
    signals = read_list(str(layers), "--layers", "-")
    if chosen.setdefault("form", "cayley") != "free":
        chosen.setdefault("approximated", tuple(range(1, len(signals))))
    return cast(
        "TrainingRecipe",
        trained.TrainingRecipe(
            servers=read_count(str(servers), "--servers"),
            bits=read_count(str(bits), "--bits"),
            layers=signals,
            **chosen,
        ),
    )


def _run(recipe: TrainingRecipe, folder: Path | None) -> Trained:
    with progress("Epochs", recipe.work) as advance:
        return cast("Trained", _need_torch().train(recipe, folder, advance))


def _print(document: Document, recipe: TrainingRecipe, written: dict[str, Path | None]) -> None:
    console = make_console()
    how = "every point of the grid" if document["exhaustive"] else "sampled"
    rows = [
        ("signals", "-".join(str(n) for n in recipe.layers)),
        ("approximated", ", ".join(str(n) for n in recipe.approximated) or "none"),
        ("accuracy", f"{100 * document['accuracy']:.4f} % ({how})"),
        ("wrong outputs", f"{document['wrong_outputs']:,} of {document['checked_inputs']:,}"),
        ("MZIs", f"{document['mzi_count']:,}"),
        ("largest gain", f"{document['largest_gain']:.4g}"),
        (
            "trained",
            f"{document['epochs']} epochs, {document['cpu_seconds']:.0f} CPU seconds, {document['seconds']:.0f} s",
        ),
    ]
    title = f"{recipe.servers} servers, {recipe.bits} bits, {recipe.form}, {recipe.nonlinearity}"
    console.print(facts_table(rows, title=title))
    console.print(provenance_line(document["provenance"]), style="dim")
    for name, path in written.items():
        if path is not None:
            console.print(f"{name}: {path}", soft_wrap=True)


def _draw(trained: Trained, figure: Path, origin: Document) -> None:
    recipe = trained.recipe
    title = f"{'-'.join(str(n) for n in recipe.layers)}, {recipe.form}: {recipe.mzi_count:,} MZIs"
    save(training_figure(trained.history, recipe.function.points, title), figure, provenance_line(origin))


def _function(scenario: str | None, servers: str | None, bits: str | None, rounding: str) -> Any:
    if (servers is None) != (bits is None):
        raise ConfigError("give --servers and --bits together")
    if servers is not None:
        count, width = read_count(servers, "--servers"), read_count(str(bits), "--bits")
    else:
        number = read_count(scenario or "1", "--scenario")
        if not 1 <= number <= len(TABLE_I):
            raise ConfigError(f"scenario {number}: expected 1 to {len(TABLE_I)}")
        count, width = TABLE_I[number - 1].servers, TABLE_I[number - 1].bits
    return FunctionArguments(servers=count, bits=width, rounding=cast(Any, rounding))


def _search(function: Any, widths: str, depths: str, options: Document, folder: Path | None, as_json: bool) -> None:
    wide, deep = read_list(widths, "--widths"), read_list(depths, "--depths")
    _need_torch()
    from lightloom.photonics.onn.search import search, work

    budget = options.pop("epochs", 160)
    rest = {name: value for name, value in options.items() if name != "rounding"}
    with progress("Epochs", work(wide, deep, budget)) as advance:
        result: SearchResult = search(function, wide, deep, budget, folder, advance, **rest)
    origin = provenance([asdict(function), wide, deep, budget, rest], options["seed"])
    if as_json:
        print_json({"schema": "lightloom.onn-search/1", **result.to_json(), "provenance": origin})
        return
    console = make_console()
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
    console.print(plain_table(columns, cells, title=title))
    console.print(provenance_line(origin), style="dim")
