"""``lightloom onn verify``: is a network in a file the averaging function?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

_SHOWN = 10
"""Sizes of errors on the terminal; JSON has all."""


def verify(
    network: Annotated[Path, typer.Argument(metavar="NET.npz", help="As `onn build` and `onn train` write it.")],
    samples: Annotated[
        str, typer.Option(metavar="N", help="Points of grids above 20 million, half of them beside carries.")
    ] = "1000000",
    noise: Annotated[
        float | None, typer.Option(metavar="S", help="Also the accuracy at this noise, a share of full scale.")
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(help="Find the noise limit and draw errors against noise (.svg, .png, .pdf).")
    ] = None,
    evaluations: Annotated[
        str, typer.Option(metavar="N", help="Noisy draws behind each accuracy of --figure.")
    ] = "400000",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Try a network on every point of its grid (up to 20 million), or on the hardest ones; prove it if it is ours."""
    from lightloom.cli.onn.noise import draw_noise
    from lightloom.cli.output import print_json, read_count
    from lightloom.core.errors import ConfigError
    from lightloom.core.files import check_writable
    from lightloom.core.provenance import content_hash, provenance
    from lightloom.photonics.averaging import noise_limit, noisy_accuracy
    from lightloom.photonics.averaging import verify as check
    from lightloom.photonics.averaging.construct import recognise
    from lightloom.photonics.averaging.realised.files import load_network
    from lightloom.reports.figures.base import check_format
    from lightloom.reports.progress import progress

    count = read_count(samples, "--samples")
    if count < 1:
        raise ConfigError(f"--samples {count}: expected at least 1")
    if noise is not None and not 0 <= noise < 1:
        raise ConfigError(f"--noise {noise}: expected a share of full scale from 0 to below 1")
    draws = read_count(evaluations, "--evaluations")
    if draws < 1:
        raise ConfigError(f"--evaluations {draws}: expected at least 1")
    if figure is not None:
        check_format(figure)
        check_writable(figure)
    weights, arguments = load_network(network)
    function = arguments.function()
    with progress("Checking", None):
        found = check(weights, function, count)
        accuracy = None if noise is None else noisy_accuracy(weights, function, noise)
        ours = recognise(weights, function)
    document: dict[str, Any] = {
        "schema": "lightloom.onn-verify/1",
        "servers": arguments.servers,
        "bits": arguments.bits,
        "rounding": arguments.rounding,
        "layers": list(weights.layers),
        "nonlinearity": weights.nonlinearity,
        "largest_gain": weights.largest_gain,
        "exhaustive": found.exhaustive,
        "checked_inputs": found.checked_inputs,
        "wrong_outputs": found.wrong_outputs,
        "accuracy": found.accuracy,
        "largest_deviation": found.largest_deviation,
        "errors": [
            {"error": value, "count": times, "share_of_errors": times / found.wrong_outputs}
            for value, times in found.errors.items()
        ],
        "noise": noise,
        "accuracy_at_noise": accuracy,
        "construction": None if ours is None else ours.name,
        "proof": [] if ours is None else list(ours.proof.steps),
        "provenance": provenance([content_hash([w.tolist() for w in weights.weights]), count, noise], 0),
    }
    if figure is not None:
        limit = noise_limit(weights, function, evaluations=draws)
        title = f"{arguments.servers} servers, {arguments.bits} bits, {weights.nonlinearity}"
        name, origin = network.stem if ours is None else ours.name, document["provenance"]
        document["noise_limit"] = limit
        document["noise_curve"] = draw_noise(weights, function, name, limit, draws, title, figure, origin)
    if as_json:
        print_json(document)
    else:
        _print(document, network, figure)


def _print(found: dict[str, Any], network: Path, figure: Path | None) -> None:
    from lightloom.core.provenance import provenance_line
    from lightloom.reports.console import facts_table, make_console, plain_table

    console = make_console()
    how = "every point of the grid" if found["exhaustive"] else "sampled, half beside carries"
    rows = [
        ("function", f"{found['servers']} servers, {found['bits']} bits, {found['rounding']}"),
        ("wrong outputs", f"{found['wrong_outputs']:,} of {found['checked_inputs']:,} ({how})"),
        ("accuracy", f"{100 * found['accuracy']:.6g} %"),
        ("largest deviation", f"{found['largest_deviation']:.3g} levels (receivers allow half a step)"),
    ]
    if "noise_limit" in found:
        rows.append(("noise limit", f"{found['noise_limit']:.3g} of full scale"))
    if found["noise"] is not None:
        rows.append((f"accuracy at noise {found['noise']:g}", f"{100 * found['accuracy_at_noise']:.6g} %"))
    console.print(facts_table(rows, title=str(network)))
    if found["errors"]:
        cells = [
            [f"{each['error']:+d}", f"{each['count']:,}", f"{100 * each['share_of_errors']:.3g} %"]
            for each in found["errors"][:_SHOWN]
        ]
        console.print(plain_table(["error, last place", "times", "of errors"], cells))
        if len(found["errors"]) > _SHOWN:
            console.print(f"and {len(found['errors']) - _SHOWN} other sizes", style="dim")
    if found["proof"]:
        console.print(f"proof ({found['construction']})")
        for step in found["proof"]:
            console.print(f"  {step}", soft_wrap=True)
    console.print(provenance_line(found["provenance"]), style="dim")
    if figure is not None:
        console.print(f"drawn: {figure}", soft_wrap=True)
