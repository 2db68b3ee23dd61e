"""``lightloom onn build --tolerate``: the averager with the fewest interferometers that bears errors of its devices."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, cast

from lightloom.api.averaging import ProvedAverager
from lightloom.core.provenance import provenance
from lightloom.core.results import Document
from lightloom.photonics.tolerance.candidates import MAPPINGS
from lightloom.photonics.tolerance.document import tolerance_document
from lightloom.photonics.tolerance.fabricated import Amplifiers
from lightloom.photonics.tolerance.request import POWER, describe, described, parse_tolerance
from lightloom.photonics.tolerance.search import find_tolerant
from lightloom.reports.progress import progress

if TYPE_CHECKING:
    from lightloom.photonics.averaging.realised.files import FunctionArguments

WORD_ERRORS = 1e-4
"""Word error rate that is allowed unless stated."""


def tolerant_averager(
    arguments: FunctionArguments, text: str, word_errors: float | None, units: str, evaluations: int, seed: int
) -> tuple[ProvedAverager, Document]:
    """Search for the averager and measure how much it tolerates; return it, and fields of its document.

    Raises:
        UnsupportedError: nothing tolerates the errors; the message says how much can be tolerated.
        InputError: the errors cannot be read or are out of range.
    """
    request = parse_tolerance(text, WORD_ERRORS if word_errors is None else word_errors)
    with progress("Averagers tried", None) as advance:
        result = find_tolerant(arguments, request, cast(Any, units), seed=seed, advance=advance)
        document = tolerance_document(result, advance)
    construction = result.candidate.construction
    mapping = MAPPINGS[result.candidate.mapping]
    made = ProvedAverager(
        construction=construction, arguments=arguments, noise=None, evaluations=evaluations, mapping=mapping
    )
    settings = [asdict(arguments), units, request.errors, request.word_errors, evaluations]
    document["link_command"] = link_command(document)
    return made, {"tolerance": document, "provenance": provenance(settings, seed)}


def link_command(document: Document) -> str:
    """Return the `onn link` command under which the same parts err, set as the search set them."""
    errors, amplifiers = dict(document["errors"]), ""
    if POWER in errors:
        amplifiers = (
            f" --full-scale {errors.pop(POWER):g}W --noise-figure {Amplifiers(full_scale=1.0).noise_figure_db:g}"
        )
    options = "".join(f" --{name} {value:g}" for name, value in errors.items())
    words = document["words"] // document["fabrications"]
    how = f"--ideal --gain optical --calibration levels{amplifiers}{options}"
    return f"lightloom onn link NET.npz {how} --draws {document['fabrications']} --words {words} --rate-only"


def tolerance_rows(document: Document) -> list[tuple[str, str]]:
    """Return the facts of an averager that tolerates errors, as rows of a table."""
    low, high = document["interval_95"]
    alone = describe({name: value for name, value in document["tolerated_alone"].items() if value is not None})
    rows = [
        ("tolerates", f"{describe(document['errors'])}, at once"),
        (
            "wrong words",
            f"{document['word_error_rate']:.2g} ({low:.2g} to {high:.2g}, 95 %; at most {document['target']:g}), "
            f"{document['wrong_words']:,} of {document['words']:,} on {document['fabrications']} fabrications",
        ),
        ("each error alone", alone),
        (
            "mapping",
            f"{MAPPINGS[document['mapping']]} (--out stores it); window {document['window']}",
        ),
        (
            "with P and T",
            f"{document['mzi_count']:,} MZIs in {document['columns']:,} columns, "
            f"{document['crossings']:,} crossings, gains up to {document['largest_gain_db']:.1f} dB",
        ),
    ]
    if POWER in document["errors"]:
        lane, full_scale = document["lane_power_watts"], document["errors"][POWER]
        rows.append(
            ("light", f"{described(POWER, full_scale)} at full scale, {lane * 1e3:.3g} mW a lane in front of P")
        )
    rows.append(("simulated again by", link_command(document)))
    rows.append(("assumed", "; ".join(document["assumptions"])))
    return rows
