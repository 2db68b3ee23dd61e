"""``lightloom onn train``: the paper's networks, or any others, trained on the whole grid."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

if TYPE_CHECKING:
    from lightloom.photonics.onn import SearchResult, Trained, TrainingRecipe


def train(
    scenario: Annotated[
        str | None, typer.Option(metavar="1..4", help="A row of the paper's Table I; 1 unless --servers is given.")
    ] = None,
    servers: Annotated[str | None, typer.Option(metavar="N", help="Instead of a scenario.")] = None,
    bits: Annotated[str | None, typer.Option(metavar="B", help="Of a code.")] = None,
    layers: Annotated[
        str | None, typer.Option(metavar="4-64-...-4", help="Signals: inputs, hidden layers, outputs.")
    ] = None,
    form: Annotated[
        str | None, typer.Option(help="cayley (Σ·U throughout), periodic (projected, as the paper does), or free.")
    ] = None,
    approximated: Annotated[
        str | None, typer.Option(metavar="1,2,...", help="Matrices in that form; the paper's, or all of --layers.")
    ] = None,
    noise: Annotated[
        float, typer.Option(metavar="S", help="Train for noise on every signal, a share of full scale.")
    ] = 0.0,
    nonlinearity: Annotated[str, typer.Option(help="relu, or clipped: units that saturate.")] = "relu",
    rounding: Annotated[str, typer.Option(help="floor, or half-up.")] = "floor",
    epochs: Annotated[str | None, typer.Option(metavar="E", help="Passes over the grid.")] = None,
    seed: Annotated[str, typer.Option(metavar="S", help="Of weights, order and noise.")] = "0",
    threads: Annotated[str, typer.Option(metavar="N", help="Of PyTorch; other counts round differently.")] = "1",
    device: Annotated[str, typer.Option(help="cpu, cuda, ...")] = "cpu",
    search: Annotated[bool, typer.Option("--search", help="Depths and widths by successive halving.")] = False,
    widths: Annotated[
        str, typer.Option(metavar="W,W,...", help="Neurons of hidden layers, for --search.")
    ] = "16,32,64",
    depths: Annotated[str, typer.Option(metavar="D,D,...", help="Hidden layers, for --search.")] = "3,5",
    folder: Annotated[
        Path | None, typer.Option(help="Keeps a checkpoint; an interrupted training is gone on with.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the network (.npz).")] = None,
    figure: Annotated[Path | None, typer.Option(help="Draw errors and loss by epoch (.svg, .png, .pdf).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Train a network to average; without options scenario 1, every matrix approximated, in some minutes."""
    from lightloom.cli.onn.files import check_network_name
    from lightloom.cli.output import print_json, read_count
    from lightloom.core.errors import ConfigError
    from lightloom.core.files import check_writable
    from lightloom.core.provenance import provenance
    from lightloom.photonics.averaging.realised.files import save_network
    from lightloom.reports.figures.base import check_format

    if out is not None:
        check_network_name(out)
    if figure is not None:
        check_format(figure)
        check_writable(figure)
    options: dict[str, Any] = {
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
    """Whole numbers given to an option.

    Raises:
        ConfigError: something else.
    """
    from lightloom.cli.output import read_count

    return tuple(read_count(each, option) for each in text.split(between))


def _need_torch() -> Any:
    from lightloom.core.errors import UnsupportedError
    from lightloom.workloads.resolve import INSTALL_TORCH

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
    options: dict[str, Any],
) -> TrainingRecipe:
    from lightloom.cli.output import read_count
    from lightloom.core.errors import ConfigError

    own = (servers, bits, layers)
    if scenario is not None and any(own):
        raise ConfigError("give either --scenario, or --servers, --bits and --layers")
    if any(own) and not all(own):
        raise ConfigError("give --servers, --bits and --layers together")
    found = _need_torch()
    chosen = options if form is None else {**options, "form": form}
    if approximated is not None:
        chosen["approximated"] = read_list(approximated, "--approximated")
    if not all(own):
        return cast(
            "TrainingRecipe", found.TrainingRecipe.scenario(read_count(scenario or "1", "--scenario"), **chosen)
        )
    signals = read_list(str(layers), "--layers", "-")
    if chosen.setdefault("form", "cayley") != "free":
        chosen.setdefault("approximated", tuple(range(1, len(signals))))
    return cast(
        "TrainingRecipe",
        found.TrainingRecipe(
            servers=read_count(str(servers), "--servers"),
            bits=read_count(str(bits), "--bits"),
            layers=signals,
            **chosen,
        ),
    )


def _run(recipe: TrainingRecipe, folder: Path | None) -> Trained:
    from lightloom.reports.progress import progress

    with progress("Epochs", recipe.work) as advance:
        return cast("Trained", _need_torch().train(recipe, folder, advance))


def _print(found: dict[str, Any], recipe: TrainingRecipe, written: dict[str, Path | None]) -> None:
    from lightloom.core.provenance import provenance_line
    from lightloom.reports.console import facts_table, make_console

    console = make_console()
    how = "every point of the grid" if found["exhaustive"] else "sampled"
    rows = [
        ("signals", "-".join(str(n) for n in recipe.layers)),
        ("approximated", ", ".join(str(n) for n in recipe.approximated) or "none"),
        ("accuracy", f"{100 * found['accuracy']:.4f} % ({how})"),
        ("wrong outputs", f"{found['wrong_outputs']:,} of {found['checked_inputs']:,}"),
        ("MZIs", f"{found['mzi_count']:,}"),
        ("largest gain", f"{found['largest_gain']:.4g}"),
        ("trained", f"{found['epochs']} epochs, {found['cpu_seconds']:.0f} CPU seconds, {found['seconds']:.0f} s"),
    ]
    title = f"{recipe.servers} servers, {recipe.bits} bits, {recipe.form}, {recipe.nonlinearity}"
    console.print(facts_table(rows, title=title))
    console.print(provenance_line(found["provenance"]), style="dim")
    for name, path in written.items():
        if path is not None:
            console.print(f"{name}: {path}", soft_wrap=True)


def _draw(trained: Trained, figure: Path, origin: dict[str, Any]) -> None:
    from lightloom.core.provenance import provenance_line
    from lightloom.reports.figures.base import save
    from lightloom.reports.onn.training import training_figure

    recipe = trained.recipe
    title = f"{'-'.join(str(n) for n in recipe.layers)}, {recipe.form}: {recipe.mzi_count:,} MZIs"
    save(training_figure(trained.history, recipe.function.points, title), figure, provenance_line(origin))


def _function(scenario: str | None, servers: str | None, bits: str | None, rounding: str) -> Any:
    from lightloom.cli.output import read_count
    from lightloom.core.errors import ConfigError
    from lightloom.photonics.averaging.realised.area import TABLE_I
    from lightloom.photonics.averaging.realised.files import FunctionArguments

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


def _search(
    function: Any, widths: str, depths: str, options: dict[str, Any], folder: Path | None, as_json: bool
) -> None:
    from dataclasses import asdict

    from lightloom.cli.output import print_json
    from lightloom.core.provenance import provenance, provenance_line
    from lightloom.reports.console import make_console, plain_table
    from lightloom.reports.progress import progress

    wide, deep = read_list(widths, "--widths"), read_list(depths, "--depths")
    _need_torch()
    from lightloom.photonics.onn.search import search, work

    budget = options.pop("epochs", 160)
    rest = {name: value for name, value in options.items() if name != "rounding"}
    with progress("Epochs", work(wide, deep, budget)) as advance:
        found: SearchResult = search(function, wide, deep, budget, folder, advance, **rest)
    origin = provenance([asdict(function), wide, deep, budget, rest], options["seed"])
    if as_json:
        print_json({"schema": "lightloom.onn-search/1", **found.to_json(), "provenance": origin})
        return
    console = make_console()
    cells = [
        [
            "-".join(str(n) for n in each.layers),
            f"{each.mzi_count:,}",
            f"{100 * each.accuracy:.4f}",
            f"{each.noise_limit:.2g}",
            f"{each.epochs}",
            "front" if each in found.front else "",
        ]
        for each in found.trials
    ]
    columns = ["signals", "MZIs", "accuracy, %", "noise limit", "epochs", ""]
    title = f"{function.servers} servers, {function.bits} bits: {len(found.trials)} networks"
    console.print(plain_table(columns, cells, title=title))
    console.print(provenance_line(origin), style="dim")
