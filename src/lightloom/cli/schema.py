"""``lightloom schema``: the JSON Schema of a cluster file."""

from __future__ import annotations

import typer


def schema() -> None:
    """Print the JSON Schema of a cluster file, for editors that complete and check YAML."""
    import json

    from lightloom.clusters.schema import schema as cluster_schema

    typer.echo(json.dumps(cluster_schema(), indent=2, ensure_ascii=False))
