"""``lightloom onn build``: a network written down, with the proof that it averages exactly."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

if TYPE_CHECKING:
    from lightloom.photonics.averaging import Construction
    from lightloom.photonics.averaging.cascade import Cascade

_TUPLES = "200000"


def build(
    servers: Annotated[str | None, typer.Option(metavar="N", help="Servers whose codes are averaged.")] = None,
    bits: Annotated[str | None, typer.Option(metavar="B", help="Bits of a code, 1 to 32.")] = None,
    noise: Annotated[
        float | None,
        typer.Option(metavar="S", help="Take the smallest that is 99.99 % right at this noise, a share of full scale."),
    ] = None,
    nonlinearity: Annotated[str, typer.Option(help="relu, or clipped: units that saturate.")] = "relu",
    inputs: Annotated[str, typer.Option(metavar="K", help="Signals that P groups the codes to.")] = "4",
    rounding: Annotated[str, typer.Option(help="floor, or half-up.")] = "floor",
    carries_decimals: Annotated[
        bool, typer.Option("--carries-decimals", help="Keep decimals in the last output, for level 2 of a cascade.")
    ] = False,
    cascade: Annotated[
        str | None,
        typer.Option(metavar="GROUPS", help="Two levels: an averager of N servers for each group, one above them."),
    ] = None,
    tuples: Annotated[str, typer.Option(metavar="N", help="Tuples of codes sent through a cascade.")] = _TUPLES,
    evaluations: Annotated[
        str, typer.Option(metavar="N", help="Noisy draws behind each accuracy on the way to the noise limit.")
    ] = "400000",
    scenarios: Annotated[
        bool, typer.Option("--scenarios", help="The paper's four scenarios on their full grids; takes minutes.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Write the network (.npz).")] = None,
    figure: Annotated[Path | None, typer.Option(help="Draw errors against noise (.svg, .png, .pdf).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Write down the smallest network that averages exactly, and prove it."""
    from lightloom.cli.onn.files import check_network_name
    from lightloom.cli.output import print_json, read_count
    from lightloom.core.errors import ConfigError
    from lightloom.core.files import check_writable
    from lightloom.core.provenance import provenance
    from lightloom.reports.figures.base import check_format

    draws = read_count(evaluations, "--evaluations")
    if draws < 1:
        raise ConfigError(f"--evaluations {draws}: expected at least 1")
    if scenarios:
        _scenarios(draws, as_json)
        return
    if servers is None or bits is None:
        raise ConfigError("give --servers N and --bits B, or --scenarios")
    if cascade is not None and (out or figure or noise is not None or carries_decimals or rounding != "floor"):
        raise ConfigError("--cascade takes --servers, --bits, --nonlinearity and --tuples alone")
    if out is not None:
        check_network_name(out)
    if figure is not None:
        check_format(figure)
        check_writable(figure)
    count, width = read_count(servers, "--servers"), read_count(bits, "--bits")
    if cascade is not None:
        groups = read_count(cascade, "--cascade")
        _cascade(groups, count, width, nonlinearity, read_count(tuples, "--tuples"), as_json)
        return
    from lightloom.cli.onn.noise import draw_noise
    from lightloom.photonics.averaging import build as construct
    from lightloom.photonics.averaging.realised.files import FunctionArguments, save_network

    arguments = FunctionArguments(
        servers=count,
        bits=width,
        inputs=read_count(inputs, "--inputs"),
        rounding=cast(Any, rounding),
        carries_decimals=carries_decimals,
    )
    made = construct(
        count,
        width,
        noise=noise,
        nonlinearity=cast(Any, nonlinearity),
        inputs=arguments.inputs,
        rounding=arguments.rounding,
        carries_decimals=carries_decimals,
    )
    settings = [count, width, noise, nonlinearity, arguments.inputs, rounding, carries_decimals, draws]
    origin = provenance(settings, 0)
    document = _document(made, count, width, draws) | {
        "inputs": arguments.inputs,
        "rounding": rounding,
        "provenance": origin,
    }
    if figure is not None:
        title = f"{count} servers, {width} bits, {nonlinearity}"
        name = f"{made.name}, {made.mzi_count} MZIs"
        limit = document["noise_limit"]
        document["noise_curve"] = draw_noise(made.network, made.function, name, limit, draws, title, figure, origin)
    if out is not None:
        save_network(out, made.network, arguments)
    if as_json:
        print_json(document)
    else:
        _print(document, out, figure)


def _document(made: Construction, servers: int, bits: int, draws: int) -> dict[str, Any]:
    from lightloom.photonics.averaging.proved.noise import input_bound
    from lightloom.reports.progress import progress

    with progress("Checking", 2) as advance:
        verification = made.verify()
        advance(1)
        limit = made.noise_limit(draws)
        advance(1)
    found = made.to_json(servers, bits, verification, limit)
    return {
        "schema": "lightloom.onn-build/1",
        "servers": servers,
        "bits": bits,
        **found,
        "noise_bound_of_any_network": input_bound(made.function),
    }


def _print(found: dict[str, Any], out: Path | None, figure: Path | None) -> None:
    from lightloom.core.provenance import provenance_line
    from lightloom.reports.console import facts_table, make_console

    console = make_console()
    how = "all" if found["exhaustive"] else "the hardest and random"
    rows = [
        ("construction", f"{found['construction']}, {found['nonlinearity']}"),
        ("wrong outputs", f"{found['wrong_outputs']:,} of {found['checked_inputs']:,} inputs ({how})"),
        ("MZIs", f"{found['mzi_count']:,} (economy {found['mzi_count_economy']:,}; P and T {_of_units(found)} more)"),
        ("signals", "-".join(str(n) for n in found["layers"])),
        ("largest gain", f"{found['largest_gain']:,.4g}"),
        ("noise limit", f"{found['noise_limit']:.3g} of full scale (no network bears more than {_bound(found)})"),
        ("proved tolerance", f"{found['proved_tolerance']:.3g} of full scale on every signal, worst signs"),
    ]
    title = f"{found['servers']} servers, {found['bits']} bits, {found['rounding']}"
    console.print(facts_table(rows, title=title))
    console.print("proof")
    for step in found["proof"]:
        console.print(f"  {step}", soft_wrap=True)
    console.print(provenance_line(found["provenance"]), style="dim")
    for name, path in (("network", out), ("drawn", figure)):
        if path is not None:
            console.print(f"{name}: {path}", soft_wrap=True)


def _of_units(found: dict[str, Any]) -> str:
    return f"{found['mzi_count_of_p_and_t']:,}"


def _bound(found: dict[str, Any]) -> str:
    return f"{found['noise_bound_of_any_network']:.3g}"


def _cascade(groups: int, servers: int, bits: int, nonlinearity: str, tuples: int, as_json: bool) -> None:
    from lightloom.cli.output import print_json
    from lightloom.core.errors import ConfigError
    from lightloom.core.provenance import provenance, provenance_line
    from lightloom.photonics.averaging.cascade import build_cascade, end_to_end
    from lightloom.reports.console import make_console, plain_table
    from lightloom.reports.progress import progress

    if tuples < 1:
        raise ConfigError(f"--tuples {tuples}: expected at least 1")
    made = build_cascade(groups, servers, bits, cast(Any, nonlinearity))
    with progress("Tuples", tuples) as advance:
        ends = end_to_end(made, tuples, advance=advance)
    document: dict[str, Any] = {
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
            each["construction"],
            f"{each['wrong_outputs']:,} of {each['checked_inputs']:,}",
            f"{each['mzi_count']:,}",
            "-".join(str(n) for n in each["layers"]),
        ]
        for index, each in enumerate(document["levels"], 1)
    ]
    title = f"{groups} x {servers} servers, {bits} bits: {made.mzi_count:,} MZIs"
    console.print(plain_table(["level", "construction", "wrong outputs", "MZIs", "signals"], rows, title=title))
    console.print(
        f"end to end, {ends['tuples']:,} tuples: {ends['wrong_with_decimals']:,} wrong; without decimals (eq. 9) "
        f"{ends['wrong_without_decimals']:,}, {100 * ends['share_wrong_without_decimals']:.1f} %, each one too small",
        soft_wrap=True,
    )
    console.print(provenance_line(document["provenance"]), style="dim")


def _level(made: Cascade, name: str) -> dict[str, Any]:
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
    from lightloom.cli.output import print_json
    from lightloom.core.provenance import provenance, provenance_line
    from lightloom.photonics.averaging.scenarios import ROWS, scenario_rows
    from lightloom.reports.console import make_console, plain_table
    from lightloom.reports.progress import progress

    origin = provenance(["scenarios", draws], 0)
    with progress("Networks", ROWS) as advance:
        found = scenario_rows(advance, draws)
    if as_json:
        print_json({"schema": "lightloom.onn-scenarios/1", "rows": found, "provenance": origin})
        return
    console = make_console()
    columns = ["bits / servers", "network", "wrong", "of", "MZIs", "economy", "hidden layers", "gain", "noise limit"]
    console.print(plain_table(columns, [_scenario_cells(row) for row in found], title="the paper's four scenarios"))
    console.print("–: the paper states none", style="dim")
    console.print(provenance_line(origin), style="dim")


def _scenario_cells(row: dict[str, Any]) -> list[str]:
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
