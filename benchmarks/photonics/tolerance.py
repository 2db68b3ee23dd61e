"""Which averagers bear errors of their devices: ``python -m benchmarks.photonics.tolerance --kept FILE [--page FILE]``.

For 2, 4, 8 and 16 servers what ``lightloom onn build --tolerate`` finds, or the sturdiest averager and its share of the
request; trained networks (4 servers, 8 bits) under the same errors, on fewer fabrications because they are large. Rows
are kept in a file as soon as each is measured, so that a run that was stopped goes on where it was; ``--page`` writes
docs/photonics/tolerance.md from them.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from benchmarks.photonics.tolerance_page import page
from benchmarks.support.measure import cpu_name, exit_clearly
from lightloom.core.errors import ConfigError
from lightloom.core.files import check_writable, write_atomically
from lightloom.core.results import provenance
from lightloom.photonics.averaging.mapped import MappedAverager, map_averager
from lightloom.photonics.averaging.networks import FunctionArguments, load_network
from lightloom.photonics.meshes.mapping import Form, MeshMapping, decibels
from lightloom.photonics.tolerance import (
    FABRICATIONS,
    Candidate,
    Tolerance,
    candidates,
    count_wrong_words,
    largest_alone,
    largest_share,
    measure_wrong_words,
    parse_tolerance,
    sturdiest,
)

SCHEMA = "lightloom.tolerance/2"
REQUEST = "phase-error=3e-3,coupler-error=1e-2,power=3mW,loss=0.1dB"
WORD_ERRORS = 1e-4
BITS = 8
SERVERS = (2, 4, 8, 16)
TRAINED: dict[str, Form] = {"exact": "sigma-u", "relu": "svd", "clipped": "svd"}
"""Trained networks and the exact mapping of each: squares for the one that was trained to them."""
TRAINED_FABRICATIONS, TRAINED_WORDS = 4, 500
Row = dict[str, Any]


def constructed_row(servers: int, request: Tolerance) -> Row:
    """Return the averager with the fewest interferometers that tolerates the request, or the sturdiest one."""
    start = time.process_time()
    tried = candidates(FunctionArguments(servers=servers, bits=BITS))
    found: Candidate | None = None
    for candidate in tried:
        if (
            measure_wrong_words(candidate.mapped(), request).interval[1] <= request.word_errors
            and candidate.construction.proof.float64
        ):
            found = candidate
            break
    chosen = found or sturdiest(tried, request)[0]
    row: Row = {"servers": servers, "bits": BITS, "candidates": len(tried), "tolerated": found is not None}
    if chosen is not None:
        row |= {"network": chosen.name, **_measured(chosen.mapped(), request)}
    return row | {"cpu_seconds": time.process_time() - start}


def _measured(mapped: MappedAverager, request: Tolerance) -> Row:
    share, wrong = largest_share(mapped, request), measure_wrong_words(mapped, request)
    if wrong.interval[1] <= request.word_errors:
        share = max(share, 1.0)  # the whole request was measured with more words than shares are
    return {
        "mzi_count": mapped.mzis,
        "columns": mapped.depth,
        "crossings": mapped.crossings,
        "gain_db": decibels(mapped.gain),
        "word_error_rate": wrong.rate,
        "interval_95": list(wrong.interval),
        "share": share,
        "at_once": request.scaled(share).errors if share else {},
        "alone": {name: largest_alone(mapped, request, name) for name in request.errors},
    }


def trained_row(name: str, request: Tolerance) -> Row:
    """Return the word error rates of a trained network under all errors, and under each alone."""
    start, form = time.process_time(), TRAINED[name]
    with as_file(files("lightloom.photonics") / "onn" / "trained" / f"{name}.npz") as path:
        network, arguments = load_network(path)
    mapped = map_averager(network, arguments, MeshMapping(form=form))
    rates = {}
    requests = {"all": request} | {error: request.only(error, value) for error, value in request.errors.items()}
    for label, errors in requests.items():
        wrong = count_wrong_words(
            mapped, errors.devices, errors.full_scale, fabrications=TRAINED_FABRICATIONS, words=TRAINED_WORDS
        )
        rates[label] = [wrong.rate, *wrong.interval]
    row = {"network": f"{name}, `{form}`", "servers": arguments.servers, "bits": arguments.bits, "rates": rates}
    row |= {"mzi_count": mapped.mzis, "columns": mapped.depth, "gain_db": decibels(mapped.gain)}
    return row | {"cpu_seconds": time.process_time() - start}


def rows_to_measure(servers: list[int], trained: list[str], request: Tolerance) -> dict[str, Callable[[], Row]]:
    """Return what measures each row, by its name."""
    constructed: dict[str, Callable[[], Row]] = {
        f"{count} servers": partial(constructed_row, count, request) for count in servers
    }
    return constructed | {f"trained {name}": partial(trained_row, name, request) for name in trained}


def kept_rows(path: Path, identity: Row) -> dict[str, Row]:
    """Return the rows of a file of the same request; none if there is no file.

    Raises:
        ConfigError: the file is of another request, or no file of rows.
    """
    if not path.exists():
        return {}
    try:
        document = json.loads(path.read_text())
        rows, kept = document["rows"], {name: document[name] for name in identity}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{str(path)!r}: expected rows that this command kept, or no such file") from error
    if kept != identity:
        raise ConfigError(f"{str(path)!r}: rows of another request or version, expected {identity}; remove the file")
    return dict(rows)


def main() -> int:
    """Measure, keep and print; see the module."""
    return exit_clearly(_main)


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.photonics.tolerance")
    parser.add_argument(
        "--kept", type=Path, required=True, help="rows that were measured (.json); the run goes on there"
    )
    parser.add_argument("--page", type=Path, help="write the page (.md) to this file")
    parser.add_argument("--servers", type=int, nargs="*", default=list(SERVERS))
    parser.add_argument("--trained", nargs="*", default=list(TRAINED), choices=list(TRAINED))
    parser.add_argument("--tolerate", default=REQUEST)
    options = parser.parse_args()
    for path in (options.kept, options.page):
        if path is not None:
            check_writable(path)
    request = parse_tolerance(options.tolerate, WORD_ERRORS)
    identity = {"schema": SCHEMA, "errors": request.errors, "target": WORD_ERRORS, "fabrications": FABRICATIONS}
    rows = kept_rows(options.kept, identity)
    for name, measured in rows_to_measure(options.servers, options.trained, request).items():
        if name not in rows:
            print(f"{name} ...", file=sys.stderr, flush=True)
            rows[name] = measured()
            document = {**identity, "cpu": cpu_name(), "provenance": provenance([options.tolerate], 0), "rows": rows}
            write_atomically(options.kept, json.dumps(document, indent=1) + "\n")
    text = page(json.loads(options.kept.read_text()))
    if options.page is not None:
        write_atomically(options.page, text)
    else:
        print(text)


if __name__ == "__main__":
    sys.exit(main())
