"""``lightloom schema``: the JSON Schema of a cluster file, of an experiment, or of a schedule."""

from __future__ import annotations

from typing import Annotated

import typer


def schema(
    what: Annotated[
        str, typer.Argument(metavar="[cluster|experiment|schedule]", help="What the file holds.")
    ] = "cluster",
) -> None:
    """Print a JSON Schema: of a cluster or an experiment, for editors that complete and check YAML, or of a schedule's
    JSON."""
    import json

    from lightloom.core.errors import UnknownNameError

    if what == "cluster":
        from lightloom.clusters.schema import schema as described
    elif what == "experiment":
        from lightloom.sweeps.experiment import schema as described
    elif what == "schedule":
        from lightloom.interchange.document_schema import schema as described
    else:
        raise UnknownNameError("schema", what, ["cluster", "experiment", "schedule"])
    typer.echo(json.dumps(described(), indent=2, ensure_ascii=False))
