"""``lightloom schema``: the JSON Schema of a cluster file, of an experiment, or of a schedule."""

import json
from importlib import import_module

import typer

from lightloom.core.errors import UnknownNameError

_SCHEMAS = {
    "cluster": "lightloom.machines.clusters.load",
    "experiment": "lightloom.planning.sweeps.experiment",
    "schedule": "lightloom.collectives.files.document",
}
"""The module with the function ``schema`` of each file, imported when it is requested."""


def schema(what: str = "cluster") -> None:
    """Print the JSON Schema of a cluster file, of an experiment, or of a schedule.

    The first two are for editors that complete and check YAML.

    Args:
        what ([cluster|experiment|schedule]): What the file holds.
    """
    if what not in _SCHEMAS:
        raise UnknownNameError("schema", what, _SCHEMAS)
    typer.echo(json.dumps(import_module(_SCHEMAS[what]).schema(), indent=2, ensure_ascii=False))
