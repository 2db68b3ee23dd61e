"""``lightloom catalog``: every name that the other commands take."""

from __future__ import annotations

from typing import Annotated, Any

import typer


def catalog(
    name: Annotated[str | None, typer.Argument(help="Show one entry whole, with the source of each value.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """List models, clusters, fabrics, accelerators and algorithms; or show one entry with its sources."""
    if name is not None:
        _show(name, as_json)
        return
    sections = _sections()
    if as_json:
        from lightloom.cli.output import print_json
        from lightloom.core.provenance import provenance

        rows = {title: [{"name": n, "description": d} for n, d in names.items()] for title, names in sections.items()}
        print_json({"schema": "lightloom.catalog/1", **rows, "provenance": provenance(rows)})
        return
    for title, names in sections.items():
        typer.echo(f"{title}:")
        width = max(map(len, names)) + 2
        for each, about in names.items():
            typer.echo(f"  {each:<{width}}{about}")


def _sections() -> dict[str, dict[str, str]]:
    from lightloom.accelerators import load as accelerators
    from lightloom.clusters import load as clusters
    from lightloom.collectives.registry import algorithms
    from lightloom.core.plugins import load_plugins
    from lightloom.fabrics import load as fabrics
    from lightloom.workloads.catalog import ZOO

    def described(module: Any) -> dict[str, str]:
        return {each: str(module.description(each).get("description", "")) for each in module.names()}

    plugged = dict.fromkeys(load_plugins("models"), "from a plug-in")
    return {
        "models": {each.name: each.description for each in ZOO.values()} | plugged,
        "clusters": described(clusters),
        "fabrics": described(fabrics),
        "accelerators": described(accelerators),
        "algorithms": {each.name: each.summary for each in algorithms().values()},
    }


def _show(name: str, as_json: bool) -> None:
    import yaml

    from lightloom.accelerators import load as accelerators
    from lightloom.cli.output import print_json
    from lightloom.clusters import load as clusters
    from lightloom.core.errors import UnknownNameError
    from lightloom.core.provenance import provenance
    from lightloom.fabrics import load as fabrics

    modules = {"cluster": clusters, "fabric": fabrics, "accelerator": accelerators}
    # A name may be a cluster and its fabric too (dadiannao-100g): show every entry that has it.
    entries = {kind: module.description(name) for kind, module in modules.items() if name in module.names()}
    if not entries:
        raise UnknownNameError("catalog entry", name, {each for module in modules.values() for each in module.names()})
    if as_json:
        print_json({"schema": "lightloom.catalog/1", "name": name, **entries, "provenance": provenance(entries)})
    else:
        typer.echo(yaml.safe_dump(entries, sort_keys=False, allow_unicode=True, width=110), nl=False)
