"""``lightloom catalog``: every name that the other commands take."""

from __future__ import annotations

import sys
from shutil import get_terminal_size
from textwrap import fill
from typing import Annotated, Any

import typer
import yaml

from lightloom.accelerators import load as accelerators
from lightloom.cli.options import Json
from lightloom.cli.output import print_json
from lightloom.cli.parts import list_parts
from lightloom.clusters import load as clusters
from lightloom.collectives.registry import algorithms
from lightloom.compression import registry as codecs
from lightloom.core.errors import UnknownNameError
from lightloom.core.plugins import load_plugins
from lightloom.core.provenance import provenance
from lightloom.fabrics import load as fabrics
from lightloom.parts import load as parts
from lightloom.workloads.catalog import ZOO

_RANKS = 4
"""Ranks for which a fabric's derived values are shown, since a fabric of the catalog states none."""


def catalog(
    name: Annotated[
        str | None, typer.Argument(help="Show all of one entry, with the source of each value; or list parts alone.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List models, clusters, fabrics, accelerators, parts, codecs, algorithms; or show one entry with its sources."""
    if name == "parts":
        list_parts(as_json)
        return
    if name is not None:
        _show(name, as_json)
        return
    sections = _sections()
    if as_json:
        rows = {title: [{"name": n, "description": d} for n, d in names.items()] for title, names in sections.items()}
        print_json({"schema": "lightloom.catalog/1", **rows, "provenance": provenance(rows)})
        return
    # A pipe has no edge, so that no line is broken there.
    columns = get_terminal_size().columns if sys.stdout.isatty() else 1 << 14
    for title, names in sections.items():
        typer.echo(f"{title}:")
        width = max(map(len, names)) + 4
        for entry, description in names.items():
            line = f"{f'  {entry}':<{width}}{description}"
            typer.echo(fill(line, max(columns, width + 20), subsequent_indent=" " * width, break_on_hyphens=False))


def _sections() -> dict[str, dict[str, str]]:
    def described(module: Any) -> dict[str, str]:
        return {name: str(module.description(name).get("description", "")) for name in module.names()}

    plugged = dict.fromkeys(load_plugins("models"), "from a plug-in")
    return {
        "models": {model.name: model.description for model in ZOO.values()} | plugged,
        "clusters": described(clusters),
        "fabrics": described(fabrics),
        "accelerators": described(accelerators),
        "parts": described(parts),
        "codecs": described(codecs),
        "algorithms": {algorithm.name: algorithm.summary for algorithm in algorithms().values()},
    }


def _show(name: str, as_json: bool) -> None:
    modules = {"cluster": clusters, "fabric": fabrics, "accelerator": accelerators, "part": parts}
    # A name may be a cluster and its fabric too (dadiannao-100g): show every entry that has it.
    entries = {kind: dict(module.description(name)) for kind, module in modules.items() if name in module.names()}
    if not entries:
        raise UnknownNameError(
            "catalog entry", name, {known for module in modules.values() for known in module.names()}
        )
    for kind, entry in entries.items():
        entry |= _derived(kind, name)
    if as_json:
        print_json({"schema": "lightloom.catalog/1", "name": name, **entries, "provenance": provenance(entries)})
    else:
        typer.echo(yaml.safe_dump(entries, sort_keys=False, allow_unicode=True, width=110), nl=False)


def _derived(kind: str, name: str) -> dict[str, Any]:
    """What follows from an entry's averager for its ranks, or for four where it states none; empty without one."""
    if kind == "cluster":
        fabric = clusters.load_cluster(name).fabric
    elif kind == "fabric" and fabrics.description(name).get("averaging") is not None:
        fabric = fabrics.load_fabric(name, _RANKS)
    else:
        return {}
    if not fabric.built_of:
        return {}
    derived = ("levels", "averaging_latency", "power_per_rank", "energy_per_bit")
    values = {field: value for field in derived if (value := getattr(fabric, field)) is not None}
    sources = {field: text for field, text in fabric.sources.items() if field in derived}
    warnings = {"warnings": list(fabric.warnings)} if fabric.warnings else {}
    return {
        f"derived for {fabric.ranks} ranks": {**values, "averager": fabric.built_of, **warnings, "sources": sources}
    }
