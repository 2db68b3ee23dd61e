"""``lightloom onn build``: a network written down, with the proof that it averages exactly."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, cast

from rich.table import Table
from rich.text import Text

from lightloom.api.averaging import averager
from lightloom.cli.onn.cascades import TUPLES, build_levels
from lightloom.cli.onn.files import check_network_name, draw_noise
from lightloom.cli.onn.tolerate import tolerance_rows, tolerant_averager
from lightloom.cli.options import (
    Json,
    NetworkOut,
    NoisyDraws,
    Rounding,
    count_option,
    figure_option,
    option,
)
from lightloom.cli.output import check_outputs, print_result
from lightloom.core.errors import ConfigError
from lightloom.core.provenance import provenance
from lightloom.core.results import Document
from lightloom.photonics.averaging import FunctionArguments
from lightloom.photonics.averaging.scenarios import ROWS, scenario_rows
from lightloom.reports.console import facts_table, plain_table
from lightloom.reports.progress import progress

_INPUTS = 4
_ERRORS = "phase-error=3e-3,coupler-error=1e-2,power=3mW,loss=0.1dB"
_Noise = Annotated[
    float | None, option("Take the smallest that is 99.99 % right at this noise, a share of full scale.", "S")
]
_Tolerate = Annotated[
    str | None,
    option("Fewest MZIs, P and T included, that bear these errors; also loss-spread, crosstalk, dac-bits.", _ERRORS),
]
_WordErrors = Annotated[float | None, option("Share of wrong words that --tolerate allows, 1e-4 without it.", "RATE")]
_Units = Annotated[str | None, option("relu, or clipped: units that saturate; clipped with --tolerate, else relu.")]
_CarriesDecimals = Annotated[
    bool, option("Keep decimals in the last output, for level 2 of a cascade.", name="--carries-decimals")
]
_Cascade = Annotated[
    int | None,
    count_option("--cascade", "Two levels: an averager of N servers for each group, one above them.", "GROUPS"),
]
_Scenarios = Annotated[
    bool, option("The paper's four scenarios on their full grids; takes minutes.", name="--scenarios")
]


def build(
    *,
    servers: Annotated[int | None, count_option("--servers", "Servers whose codes are averaged.")] = None,
    bits: Annotated[int | None, count_option("--bits", "Bits of a code, 1 to 32.", "B")] = None,
    noise: _Noise = None,
    tolerate: _Tolerate = None,
    word_errors: _WordErrors = None,
    nonlinearity: _Units = None,
    inputs: Annotated[int, count_option("--inputs", "Signals that P groups the codes to.", "K")] = _INPUTS,
    rounding: Rounding = "floor",
    carries_decimals: _CarriesDecimals = False,
    cascade: _Cascade = None,
    tuples: Annotated[int, count_option("--tuples", "Tuples of codes sent through a cascade.", least=1)] = TUPLES,
    evaluations: NoisyDraws = 400_000,
    seed: Annotated[int, count_option("--seed", "Of the fabrications of --tolerate.")] = 0,
    scenarios: _Scenarios = False,
    out: NetworkOut = None,
    figure: Annotated[Path | None, figure_option("Draw errors against noise")] = None,
    as_json: Json = False,
) -> None:
    """Write down the smallest network that averages exactly, and prove it."""
    if scenarios:
        if any(value is not None for value in (servers, bits, out, figure, cascade, tolerate, noise)):
            raise ConfigError("--scenarios takes --evaluations alone: expected no --servers, --bits, --out or --figure")
        _scenarios(evaluations, as_json)
        return
    if servers is None or bits is None:
        raise ConfigError("give --servers N and --bits B, or --scenarios")
    if tolerate is not None and (noise is not None or cascade is not None or carries_decimals):
        raise ConfigError("--tolerate: not with --noise, --cascade or --carries-decimals")
    if word_errors is not None and tolerate is None:
        raise ConfigError("--word-errors: give the errors too, --tolerate NAME=VALUE,...")
    units = nonlinearity or ("relu" if tolerate is None else "clipped")
    single = (figure is not None, noise is not None, carries_decimals, rounding != "floor", inputs != _INPUTS)
    if cascade is not None and any(single):
        raise ConfigError("--cascade takes --servers, --bits, --nonlinearity, --tuples and --out alone")
    if out is not None:
        check_network_name(out)
    check_outputs([figure])
    if cascade is not None:
        build_levels(cascade, servers, bits, units, tuples, out, as_json)
        return
    if tolerate is not None:
        arguments = FunctionArguments(servers=servers, bits=bits, inputs=inputs, rounding=cast(Any, rounding))
        made, tolerance = tolerant_averager(arguments, tolerate, word_errors, units, evaluations, seed)
    else:
        with progress("Building", None):
            made = averager(
                servers,
                bits,
                noise=noise,
                nonlinearity=cast(Any, units),
                inputs=inputs,
                rounding=cast(Any, rounding),
                carries_decimals=carries_decimals,
                evaluations=evaluations,
            )
        tolerance = {}
    with progress("Trying inputs, and noise on every signal", None):
        document = made.to_json() | tolerance
    if figure is not None:
        name = f"{made.construction.name}, {made.mzi_count} MZIs"
        network, limit = made.construction.network, made.noise_limit
        curve = draw_noise(network, made.arguments, name, limit, evaluations, figure, document["provenance"])
        document["noise_curve"] = curve
    if out is not None:
        made.save(out)
    print_result(document, as_json, _parts(document), {"network": out, "drawn": figure})


def _parts(document: Document) -> Iterator[str | Table]:
    """The facts of the network, and its proof."""
    units, bound = document["mzi_count_of_p_and_t"], document["noise_bound_of_any_network"]
    how = "all" if document["exhaustive"] else "the hardest and random"
    rows = [
        ("construction", f"{document['construction']}, {document['nonlinearity']}"),
        ("wrong outputs", f"{document['wrong_outputs']:,} of {document['checked_inputs']:,} inputs ({how})"),
        ("MZIs", f"{document['mzi_count']:,} (economy {document['mzi_count_economy']:,}; P and T {units:,} more)"),
        ("signals", "-".join(str(n) for n in document["layers"])),
        ("largest gain", f"{document['largest_gain_db']:.1f} dB"),
        ("noise limit", f"{document['noise_limit']:.3g} of full scale (no network bears more than {bound:.3g})"),
        ("proved tolerance", f"{document['proved_tolerance']:.3g} of full scale on every signal, worst signs"),
    ]
    if "tolerance" in document:
        rows += tolerance_rows(document["tolerance"])
    title = f"{document['servers']} servers, {document['bits']} bits, {document['rounding']}"
    yield facts_table(rows, title=title)
    yield "proof"
    yield from (f"  {step}" for step in document["proof"])


def _scenarios(draws: int, as_json: bool) -> None:
    origin = provenance(["scenarios", draws], 0)
    with progress("Networks", ROWS) as advance:
        rows = scenario_rows(advance, draws)
    document = {"schema": "lightloom.onn-scenarios/1", "rows": rows, "provenance": origin}
    print_result(document, as_json, _scenario_parts(rows))


def _scenario_parts(rows: list[Document]) -> Iterator[Table | Text]:
    """The table of the scenarios."""
    columns = ["bits / servers", "network", "wrong", "of", "MZIs", "economy", "hidden layers", "gain, dB", "noise"]
    yield plain_table(columns, [_scenario_cells(row) for row in rows], title="the paper's four scenarios")
    yield Text("–: the paper states none", style="dim")


def _scenario_cells(row: Document) -> list[str]:
    def shown(value: float | None, form: str) -> str:
        return "–" if value is None else format(value, form)

    return [
        f"{row['bits']} / {row['servers']}",
        row["network"],
        shown(row["wrong_outputs"], ","),
        f"{row['checked_inputs']:,}",
        f"{row['mzi_count']:,}",
        f"{row['mzi_count_economy']:,}",
        f"{row['hidden_layers']}",
        shown(row["largest_gain_db"], ".1f"),
        shown(row["noise_limit"], ".2g"),
    ]
