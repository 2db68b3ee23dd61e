"""What the ``onn`` commands do with two levels of averagers: build, save, verify, map and disturb them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rich.table import Table

from lightloom.cli.output import print_result
from lightloom.core.provenance import provenance
from lightloom.core.results import Document
from lightloom.photonics.averaging.cascade import Cascade, Level, build_cascade, end_to_end
from lightloom.photonics.averaging.cascade_files import cascade_hash, load_cascade, save_cascade
from lightloom.photonics.averaging.construct import Construction
from lightloom.reports.console import plain_table
from lightloom.reports.progress import progress

if TYPE_CHECKING:
    from lightloom.photonics.onn import TrainingRecipe

TUPLES = 200_000
"""Tuples of codes that are sent through both levels."""


def build_levels(
    groups: int, servers: int, bits: int, nonlinearity: str, tuples: int, out: Path | None, as_json: bool
) -> None:
    """Build both levels, send tuples of codes through them, and print or save the result."""
    made = build_cascade(groups, servers, bits, cast(Any, nonlinearity))
    document = cascade_document(made, tuples, [groups, servers, bits, nonlinearity, tuples])
    if out is not None:
        save_cascade(out, made)
    print_result(document, as_json, cascade_parts(document), {"cascade": out})


def train_levels(
    recipes: tuple[TrainingRecipe, TrainingRecipe], folder: Path | None, out: Path | None, as_json: bool
) -> None:
    """Train both levels, send tuples of codes through them, and print or save the result."""
    from lightloom.photonics.onn import train_cascade

    with progress("Epochs", sum(recipe.work for recipe in recipes)) as advance:
        cascade, trainings = train_cascade(recipes, folder, advance)
    document = cascade_document(cascade, TUPLES, [recipe.to_json() for recipe in recipes])
    document["trainings"] = [trained.to_json() for trained in trainings]
    document["mzi_count"] = cascade.groups * recipes[0].mzi_count + recipes[1].mzi_count
    for level, recipe in zip(document["levels"], recipes, strict=True):
        level["mzi_count"] = recipe.mzi_count
    if out is not None:
        save_cascade(out, cascade)
    print_result(document, as_json, cascade_parts(document), {"cascade": out})


def verify_levels(path: Path, tuples: int, as_json: bool) -> None:
    """Verify both levels of a file on their grids, and tuples of codes from end to end."""
    cascade = load_cascade(path)
    document = cascade_document(cascade, tuples, [cascade_hash(cascade), tuples])
    print_result(document, as_json, cascade_parts(document))


def cascade_document(cascade: Cascade, tuples: int, configuration: object) -> Document:
    """Return what both levels are, how often they err on their grids, and what arrives from end to end."""
    with progress("Tuples", tuples) as advance:
        ends = end_to_end(cascade, tuples, advance=advance)
    return {
        "schema": "lightloom.onn-cascade/1",
        "groups": cascade.groups,
        "servers": cascade.servers,
        "bits": cascade.bits,
        "mzi_count": cascade.mzi_count,
        "levels": [_level(level) for level in (cascade.first, cascade.second)],
        "end_to_end": ends,
        "provenance": provenance(configuration, 0),
    }


def cascade_parts(document: Document) -> Iterator[str | Table]:
    """The table of the two levels, and what arrives from end to end."""
    ends = document["end_to_end"]
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
    servers = f"{document['groups']} x {document['servers']} servers"
    title = f"{servers}, {document['bits']} bits: {document['mzi_count']:,} MZIs"
    yield plain_table(["level", "construction", "wrong outputs", "MZIs", "signals"], rows, title=title)
    yield (
        f"end to end, {ends['tuples']:,} tuples: {ends['wrong_with_decimals']:,} wrong; without decimals (eq. 9) "
        f"{ends['wrong_without_decimals']:,}, {100 * ends['share_wrong_without_decimals']:.1f} %, each one too small"
    )


def _level(level: Level) -> Document:
    verification = level.verify()
    return {
        "construction": level.name,
        "layers": list(level.network.layers),
        "mzi_count": level.mzi_count,
        "wrong_outputs": verification.wrong_outputs,
        "checked_inputs": verification.checked_inputs,
        "exhaustive": verification.exhaustive,
        "proof": list(level.proof.steps) if isinstance(level, Construction) else [],
    }
