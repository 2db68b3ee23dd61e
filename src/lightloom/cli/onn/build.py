"""``lightloom onn build``: a network written down, with the proof that it averages exactly."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from lightloom.api.averaging import ProvedAverager, averager
from lightloom.cli.onn.files import check_network_name
from lightloom.cli.onn.noise import Subject, draw_noise
from lightloom.cli.options import Json, NetworkOut, Nonlinearity, Rounding, figure_option
from lightloom.cli.output import check_outputs, print_json, read_count
from lightloom.core.errors import ConfigError
from lightloom.core.provenance import provenance, provenance_line
from lightloom.core.results import Document
from lightloom.photonics.averaging.cascade import build_cascade, end_to_end
from lightloom.photonics.averaging.scenarios import ROWS, scenario_rows
from lightloom.reports.console import facts_table, make_console, plain_table
from lightloom.reports.progress import progress

if TYPE_CHECKING:
    from lightloom.photonics.averaging import Construction
    from lightloom.photonics.averaging.cascade import Cascade

_TUPLES = "200000"


_Noise = Annotated[
    float | None,
    typer.Option(metavar="S", help="Take the smallest that is 99.99 % right at this noise, a share of full scale."),
]
_CarriesDecimals = Annotated[
    bool, typer.Option("--carries-decimals", help="Keep decimals in the last output, for level 2 of a cascade.")
]
_Cascade = Annotated[
    str | None,
    typer.Option(metavar="GROUPS", help="Two levels: an averager of N servers for each group, one above them."),
]
_Evaluations = Annotated[
    str, typer.Option(metavar="N", help="Noisy draws behind each accuracy on the way to the noise limit.")
]
_Scenarios = Annotated[
    bool, typer.Option("--scenarios", help="The paper's four scenarios on their full grids; takes minutes.")
]


def build(
    *,
    servers: Annotated[str | None, typer.Option(metavar="N", help="Servers whose codes are averaged.")] = None,
    bits: Annotated[str | None, typer.Option(metavar="B", help="Bits of a code, 1 to 32.")] = None,
    noise: _Noise = None,
    nonlinearity: Nonlinearity = "relu",
    inputs: Annotated[str, typer.Option(metavar="K", help="Signals that P groups the codes to.")] = "4",
    rounding: Rounding = "floor",
    carries_decimals: _CarriesDecimals = False,
    cascade: _Cascade = None,
    tuples: Annotated[str, typer.Option(metavar="N", help="Tuples of codes sent through a cascade.")] = _TUPLES,
    evaluations: _Evaluations = "400000",
    scenarios: _Scenarios = False,
    out: NetworkOut = None,
    figure: Annotated[Path | None, figure_option("Draw errors against noise")] = None,
    as_json: Json = False,
) -> None:
    """Write down the smallest network that averages exactly, and prove it."""
    draws = read_count(evaluations, "--evaluations", least=1)
    if scenarios:
        _scenarios(draws, as_json)
        return
    if servers is None or bits is None:
        raise ConfigError("give --servers N and --bits B, or --scenarios")
    if cascade is not None and (out or figure or noise is not None or carries_decimals or rounding != "floor"):
        raise ConfigError("--cascade takes --servers, --bits, --nonlinearity and --tuples alone")
    if out is not None:
        check_network_name(out)
    check_outputs([figure])
    count, width = read_count(servers, "--servers"), read_count(bits, "--bits")
    if cascade is not None:
        groups = read_count(cascade, "--cascade")
        _cascade(groups, count, width, nonlinearity, read_count(tuples, "--tuples", least=1), as_json)
        return
    made = averager(
        count,
        width,
        noise=noise,
        nonlinearity=cast(Any, nonlinearity),
        inputs=read_count(inputs, "--inputs"),
        rounding=cast(Any, rounding),
        carries_decimals=carries_decimals,
        evaluations=draws,
    )
    with progress("Checking", None):
        document = made.to_json()
    if figure is not None:
        document["noise_curve"] = _draw(made, figure, document["provenance"])
    if out is not None:
        made.save(out)
    if as_json:
        print_json(document)
    else:
        _print(document, out, figure)


def _draw(made: ProvedAverager, figure: Path, origin: Document) -> list[dict[str, float]]:
    construction, function = made.construction, made.arguments
    title = f"{function.servers} servers, {function.bits} bits, {construction.network.nonlinearity}"
    subject = Subject(construction.network, construction.function, f"{construction.name}, {made.mzi_count} MZIs")
    return draw_noise(subject, made.noise_limit, made.evaluations, title, figure, origin)


def _print(document: Document, out: Path | None, figure: Path | None) -> None:
    console, units = make_console(), document["mzi_count_of_p_and_t"]
    how = "all" if document["exhaustive"] else "the hardest and random"
    rows = [
        ("construction", f"{document['construction']}, {document['nonlinearity']}"),
        ("wrong outputs", f"{document['wrong_outputs']:,} of {document['checked_inputs']:,} inputs ({how})"),
        ("MZIs", f"{document['mzi_count']:,} (economy {document['mzi_count_economy']:,}; P and T {units:,} more)"),
        ("signals", "-".join(str(n) for n in document["layers"])),
        ("largest gain", f"{document['largest_gain']:,.4g}"),
        ("noise limit", f"{document['noise_limit']:.3g} of full scale (no network bears more than {_bound(document)})"),
        ("proved tolerance", f"{document['proved_tolerance']:.3g} of full scale on every signal, worst signs"),
    ]
    title = f"{document['servers']} servers, {document['bits']} bits, {document['rounding']}"
    console.print(facts_table(rows, title=title))
    console.print("proof")
    for step in document["proof"]:
        console.print(f"  {step}", soft_wrap=True)
    console.print(provenance_line(document["provenance"]), style="dim")
    for name, path in (("network", out), ("drawn", figure)):
        if path is not None:
            console.print(f"{name}: {path}", soft_wrap=True)


def _bound(document: Document) -> str:
    return f"{document['noise_bound_of_any_network']:.3g}"


def _cascade(groups: int, servers: int, bits: int, nonlinearity: str, tuples: int, as_json: bool) -> None:
    made = build_cascade(groups, servers, bits, cast(Any, nonlinearity))
    with progress("Tuples", tuples) as advance:
        ends = end_to_end(made, tuples, advance=advance)
    document: Document = {
        "schema": "lightloom.onn-cascade/1",
        "groups": groups,
        "servers": servers,
        "bits": bits,
        "mzi_count": made.mzi_count,
        "levels": [_level(made, name) for name in ("first", "second")],
        "end_to_end": ends,
        "provenance": provenance([groups, servers, bits, nonlinearity, tuples], 0),
    }
    if as_json:
        print_json(document)
        return
    console = make_console()
    rows = [
        [
            f"{index}",
            level["construction"],
            f"{level['wrong_outputs']:,} of {level['checked_inputs']:,}",
            f"{level['mzi_count']:,}",
            "-".join(str(n) for n in level["layers"]),
        ]
        for index, level in enumerate(document["levels"], 1)
    ]
    title = f"{groups} x {servers} servers, {bits} bits: {made.mzi_count:,} MZIs"
    console.print(plain_table(["level", "construction", "wrong outputs", "MZIs", "signals"], rows, title=title))
    console.print(
        f"end to end, {ends['tuples']:,} tuples: {ends['wrong_with_decimals']:,} wrong; without decimals (eq. 9) "
        f"{ends['wrong_without_decimals']:,}, {100 * ends['share_wrong_without_decimals']:.1f} %, each one too small",
        soft_wrap=True,
    )
    console.print(provenance_line(document["provenance"]), style="dim")


def _level(made: Cascade, name: str) -> Document:
    construction: Construction = getattr(made, name)
    verification = construction.verify()
    return {
        "construction": construction.name,
        "layers": list(construction.network.layers),
        "mzi_count": construction.mzi_count,
        "wrong_outputs": verification.wrong_outputs,
        "checked_inputs": verification.checked_inputs,
        "exhaustive": verification.exhaustive,
        "proof": list(construction.proof.steps),
    }


def _scenarios(draws: int, as_json: bool) -> None:
    origin = provenance(["scenarios", draws], 0)
    with progress("Networks", ROWS) as advance:
        rows = scenario_rows(advance, draws)
    if as_json:
        print_json({"schema": "lightloom.onn-scenarios/1", "rows": rows, "provenance": origin})
        return
    console = make_console()
    columns = ["bits / servers", "network", "wrong", "of", "MZIs", "economy", "hidden layers", "gain", "noise limit"]
    console.print(plain_table(columns, [_scenario_cells(row) for row in rows], title="the paper's four scenarios"))
    console.print("–: the paper states none", style="dim")
    console.print(provenance_line(origin), style="dim")


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
        shown(row["largest_gain"], ",.4g"),
        shown(row["noise_limit"], ".2g"),
    ]
