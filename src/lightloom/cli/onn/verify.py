"""``lightloom onn verify``: is a network in a file the averaging function?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from rich.table import Table
from rich.text import Text

from lightloom.cli.onn.cascades import verify_levels
from lightloom.cli.onn.files import draw_noise
from lightloom.cli.options import Json, Network, count_option, figure_option, option
from lightloom.cli.output import check_outputs, print_result
from lightloom.core.errors import ConfigError
from lightloom.core.provenance import provenance
from lightloom.core.results import Document
from lightloom.photonics.averaging import (
    Construction,
    FunctionArguments,
    LayeredNetwork,
    Verification,
    noise_limit,
    noisy_accuracy,
)
from lightloom.photonics.averaging import verify as verification
from lightloom.photonics.averaging.cascade_files import is_cascade
from lightloom.photonics.averaging.construct import recognise
from lightloom.photonics.averaging.realised.files import load_network, network_hash
from lightloom.photonics.averaging.realised.light import largest_gain_db
from lightloom.reports.console import facts_table, plain_table
from lightloom.reports.progress import progress

_SHOWN = 10
"""Sizes of errors on the terminal; JSON has all."""


def verify(
    *,
    network: Network,
    samples: Annotated[
        int, count_option("--samples", "Points of grids above 20 million, half of them beside carries.", least=1)
    ] = 1_000_000,
    noise: Annotated[float | None, option("Also the accuracy at this noise, a share of full scale.", "S")] = None,
    figure: Annotated[Path | None, figure_option("Find the noise limit and draw errors against noise")] = None,
    evaluations: Annotated[
        int, count_option("--evaluations", "Noisy draws behind each accuracy of --figure.", least=1)
    ] = 400_000,
    as_json: Json = False,
) -> None:
    """Try a network on every point of its grid (up to 20 million), or on the hardest ones; prove it if it is ours."""
    if noise is not None and not 0 <= noise < 1:
        raise ConfigError(f"--noise {noise}: expected a share of full scale from 0 to below 1")
    check_outputs([figure])
    if is_cascade(network):
        if noise is not None or figure is not None:
            raise ConfigError(f"{str(network)!r}: a cascade: expected no --noise and no --figure, which one level has")
        verify_levels(network, samples, as_json)
        return
    weights, arguments = load_network(network)
    function = arguments.function()
    with progress("Checking", None):
        check = verification(weights, function, samples)
        accuracy = None if noise is None else noisy_accuracy(weights, function, noise)
        construction = recognise(weights, function)
    document = _document(weights, arguments, check, construction) | {
        "noise": noise,
        "accuracy_at_noise": accuracy,
        "provenance": provenance([network_hash(weights, arguments), samples, noise, figure and evaluations], 0),
    }
    if figure is not None:
        limit = noise_limit(weights, function, evaluations=evaluations)
        name = network.stem if construction is None else construction.name
        curve = draw_noise(weights, arguments, name, limit, evaluations, figure, document["provenance"])
        document |= {"noise_limit": limit, "noise_curve": curve}
    print_result(document, as_json, _parts(document, network), {"drawn": figure})


def _document(
    weights: LayeredNetwork, arguments: FunctionArguments, check: Verification, construction: Construction | None
) -> Document:
    return {
        "schema": "lightloom.onn-verify/1",
        "servers": arguments.servers,
        "bits": arguments.bits,
        "rounding": arguments.rounding,
        "layers": list(weights.layers),
        "nonlinearity": weights.nonlinearity,
        "largest_gain_db": largest_gain_db(weights),
        "exhaustive": check.exhaustive,
        "checked_inputs": check.checked_inputs,
        "wrong_outputs": check.wrong_outputs,
        "accuracy": check.accuracy,
        "largest_deviation": check.largest_deviation,
        "errors": [
            {"error": value, "count": times, "share_of_errors": times / check.wrong_outputs}
            for value, times in check.errors.items()
        ],
        "construction": None if construction is None else construction.name,
        "proof": [] if construction is None else list(construction.proof.steps),
    }


def _parts(document: Document, network: Path) -> Iterator[str | Text | Table]:
    """The facts of the network, its errors by size, and its proof."""
    how = "every point of the grid" if document["exhaustive"] else "sampled, half beside carries"
    rows = [
        ("function", f"{document['servers']} servers, {document['bits']} bits, {document['rounding']}"),
        ("wrong outputs", f"{document['wrong_outputs']:,} of {document['checked_inputs']:,} ({how})"),
        ("accuracy", f"{100 * document['accuracy']:.6g} %"),
        ("largest gain", f"{document['largest_gain_db']:.1f} dB"),
        ("largest deviation", f"{document['largest_deviation']:.3g} levels (receivers allow half a step)"),
    ]
    if "noise_limit" in document:
        rows.append(("noise limit", f"{document['noise_limit']:.3g} of full scale"))
    if document["noise"] is not None:
        rows.append((f"accuracy at noise {document['noise']:g}", f"{100 * document['accuracy_at_noise']:.6g} %"))
    yield facts_table(rows, title=str(network))
    if document["errors"]:
        cells = [
            [f"{error['error']:+d}", f"{error['count']:,}", f"{100 * error['share_of_errors']:.3g} %"]
            for error in document["errors"][:_SHOWN]
        ]
        yield plain_table(["error, last place", "times", "of errors"], cells)
        if len(document["errors"]) > _SHOWN:
            yield Text(f"and {len(document['errors']) - _SHOWN} other sizes", style="dim")
    if document["proof"]:
        yield f"proof ({document['construction']})"
        yield from (f"  {step}" for step in document["proof"])
