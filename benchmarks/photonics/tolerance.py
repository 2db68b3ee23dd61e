"""Which averagers bear errors of their interferometers: constructed ones for 2 to 16 servers, and trained ones.

    python -m benchmarks.photonics.tolerance --json tolerance.json

A row is what ``lightloom onn build --tolerate`` finds, or the sturdiest averager and its share of the request. Trained
networks (4 servers, 8 bits) are measured under the same errors, on fewer fabrications because they are large.
"""

from __future__ import annotations

import argparse
import json
import time
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from lightloom.core.provenance import provenance
from lightloom.photonics.averaging.mapped_averager import MappedAverager, map_averager
from lightloom.photonics.averaging.realised.files import FunctionArguments, load_network
from lightloom.photonics.meshes.mapping import Form, decibels
from lightloom.photonics.meshes.mesh_mapping import MeshMapping
from lightloom.photonics.tolerance.candidates import Candidate, candidates
from lightloom.photonics.tolerance.request import Tolerance, describe, described, parse_tolerance
from lightloom.photonics.tolerance.search import FABRICATIONS, largest_alone, largest_share, measure, sturdiest
from lightloom.photonics.tolerance.word_errors import count_wrong_words

REQUEST = "phase-error=3e-3,coupler-error=1e-2,power=3mW,loss=0.1dB"
WORD_ERRORS = 1e-4
TRAINED: dict[str, Form] = {"exact": "sigma-u", "relu": "svd", "clipped": "svd"}
"""Trained networks and the exact mapping of each: squares for the one that was trained to them."""
TRAINED_FABRICATIONS, TRAINED_WORDS = 4, 500


def constructed_row(servers: int, bits: int, request: Tolerance) -> dict[str, Any]:
    """Return the averager with the fewest interferometers that tolerates the request, or the sturdiest one."""
    start = time.process_time()
    tried = candidates(FunctionArguments(servers=servers, bits=bits))
    found: Candidate | None = None
    for candidate in tried:
        if (
            measure(candidate.mapped(), request).interval[1] <= request.word_errors
            and candidate.construction.proof.float64
        ):
            found = candidate
            break
    chosen = found or sturdiest(tried, request)[0]
    row: dict[str, Any] = {"servers": servers, "bits": bits, "candidates": len(tried), "tolerated": found is not None}
    if chosen is not None:
        row |= {"network": chosen.name, **_measured(chosen.mapped(), request)}
    return row | {"cpu_seconds": time.process_time() - start}


def _measured(mapped: MappedAverager, request: Tolerance) -> dict[str, Any]:
    share = largest_share(mapped, request)
    wrong = measure(mapped, request)
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


def trained_row(name: str, form: Form, request: Tolerance) -> dict[str, Any]:
    """Return the word error rates of a trained network under all errors, and under each alone."""
    start = time.process_time()
    with as_file(files("lightloom.photonics") / "onn" / "trained" / f"{name}.npz") as path:
        network, arguments = load_network(path)
    mapped = map_averager(network, arguments, MeshMapping(form=form))
    rates = {}
    requests = {"all": request} | {error: request.only(error, value) for error, value in request.errors.items()}
    for label, errors in requests.items():
        wrong = count_wrong_words(
            mapped, errors.devices, errors.amplifiers, fabrications=TRAINED_FABRICATIONS, words=TRAINED_WORDS
        )
        rates[label] = [wrong.rate, *wrong.interval]
    row = {"network": f"trained, {name}, {form}", "servers": arguments.servers, "bits": arguments.bits, "rates": rates}
    row |= {"mzi_count": mapped.mzis, "columns": mapped.depth, "gain_db": decibels(mapped.gain)}
    return row | {"cpu_seconds": time.process_time() - start}


def page(document: dict[str, Any]) -> str:
    """Return the tables of the documents, in Markdown."""
    names = list(document["errors"])
    lines = [
        f"{describe(document['errors'])} at once, at most {document['target']:g} wrong words:",
        "",
        "| servers | network | MZIs | crossings | gain | wrong words (95 %) | share borne | each alone |",
        "| ---: | --- | ---: | ---: | ---: | --- | ---: | --- |",
    ]
    for row in document["constructed"]:
        low, high = row["interval_95"]
        alone = "; ".join(described(name, row["alone"][name]) if row["alone"][name] else f"{name}: –" for name in names)
        rate = f"{row['word_error_rate']:.1g} ({low:.1g} to {high:.1g})"
        lines.append(
            f"| {row['servers']} | {row['network']} | {row['mzi_count']:,} | {row['crossings']:,} | "
            f"{row['gain_db']:.1f} dB | {rate} | {row['share']:.2f} | {alone} |"
        )
    if document["trained"]:
        lines += [
            "",
            f"| 4 servers, 8 bits | MZIs | gain | all at once | {' | '.join(names)} |",
            "| --- " * (4 + len(names)) + "|",
        ]
    for row in document["trained"]:
        rates = " | ".join(f"{row['rates'][name][0]:.2g}" for name in ("all", *names))
        lines.append(f"| {row['network']} | {row['mzi_count']:,} | {row['gain_db']:.1f} dB | {rates} |")
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--servers", type=int, nargs="*", default=[2, 4, 8, 16])
    parser.add_argument("--trained", nargs="*", default=list(TRAINED))
    parser.add_argument("--tolerate", default=REQUEST)
    arguments = parser.parse_args()
    request = parse_tolerance(arguments.tolerate, WORD_ERRORS)
    document = {
        "schema": "lightloom.tolerance/1",
        "errors": request.errors,
        "target": request.word_errors,
        "fabrications": FABRICATIONS,
        "constructed": [constructed_row(servers, 8, request) for servers in arguments.servers],
        "trained": [trained_row(name, TRAINED[name], request) for name in arguments.trained],
        "provenance": provenance([arguments.tolerate, arguments.servers, arguments.trained], 0),
    }
    if arguments.json:
        arguments.json.write_text(json.dumps(document, indent=1) + "\n")
    print(page(document))


if __name__ == "__main__":
    main()
