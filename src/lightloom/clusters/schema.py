"""The JSON Schema of a cluster file, for editors that complete and check YAML."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from lightloom.accelerators import load as accelerators
from lightloom.accelerators.base import Accelerator
from lightloom.clusters.base import ClusterFile
from lightloom.fabrics import load as fabrics


def schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a cluster file; ``fabric`` is a union over all kinds, plug-ins included."""
    kinds = list(fabrics.kinds().values())
    models: list[type[BaseModel]] = [ClusterFile, Accelerator, *kinds]
    _, document = models_json_schema([(model, "validation") for model in models])
    definitions = document["$defs"]
    for kind in kinds:
        definition = definitions[kind.__name__]
        definition["properties"].pop("ranks")
        definition["required"] = ["kind"]
    for definition in (definitions["Accelerator"], *(definitions[kind.__name__] for kind in kinds)):
        definition["properties"]["description"] = {"type": "string"}

    fabric = _part(definitions, [kind.__name__ for kind in kinds], fabrics.names())
    cluster: dict[str, Any] = definitions.pop("ClusterFile")
    cluster["properties"]["fabric"] |= fabric
    cluster["properties"]["reference"] |= {"anyOf": [*fabric["anyOf"], {"type": "null"}]}
    cluster["properties"]["accelerator"] |= _part(definitions, ["Accelerator"], accelerators.names())
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **cluster,
        "title": "lightloom cluster",
        "$defs": definitions,
    }


def _part(definitions: dict[str, Any], models: list[str], names: list[str]) -> dict[str, Any]:
    """A name, all fields of one of the models, or a base and the fields that differ."""
    differing: dict[str, Any] = {}
    for model in models:
        differing |= {key: value for key, value in definitions[model]["properties"].items() if key != "kind"}
    return {
        "anyOf": [
            {"type": "string", "examples": names, "description": "a catalog name, or a .yaml file"},
            *({"$ref": f"#/$defs/{model}"} for model in models),
            {
                "type": "object",
                "properties": {"base": {"type": "string", "examples": names}, **differing},
                "required": ["base"],
                "additionalProperties": False,
            },
        ]
    }
