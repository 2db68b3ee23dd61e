"""The JSON Schema of a schedule's document, for other tools that write or check them."""

from __future__ import annotations

from typing import Any

import numpy as np
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from lightloom.collectives.schedule.columns import COLUMNS
from lightloom.collectives.spec import KINDS
from lightloom.core.fields import MAXIMUM_RANKS
from lightloom.fabrics import load as fabrics
from lightloom.interchange.document import HEADER, SCHEMA

_MOST = 2**31 - 1
JsonSchema = dict[str, Any]


def schema() -> JsonSchema:
    """Return the JSON Schema (draft 2020-12) of ``lightloom.schedule/1``; ``fabric`` is any kind, plug-ins included.

    It does not check that columns are equally long or that the schedule is correct: ``lightloom schedule check`` does.
    """
    kinds = list(fabrics.kinds().values())
    models: list[type[BaseModel]] = [*kinds]
    _, document = models_json_schema([(model, "validation") for model in models])
    header = {
        "schema": {"const": SCHEMA},
        "algorithm": {"type": "string"},
        "collective": _object(
            kind={"enum": list(KINDS)},
            ranks=_whole(2, MAXIMUM_RANKS),
            nbytes={"type": "number", "minimum": 0},
        ),
        "chunks": _whole(1, _MOST),
        "steps": _whole(0, _MOST),
        "queued": {"type": "boolean"},
        "dependencies": _or_null(_list(_list(_whole(0, _MOST)) | {"minItems": 2, "maxItems": 2})),
        "folding": _or_null(_object(period=_whole(1, _MOST), channel=_list(_list(_whole(0, _MOST))))),
        "notes": _list({"type": "string"}),
        "fabric": {"anyOf": [*({"$ref": f"#/$defs/{kind.__name__}"} for kind in kinds), {"type": "null"}]},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "lightloom schedule",
        **_object(**{name: header[name] for name in HEADER}, columns=_object(**_columns())),
        "$defs": document["$defs"],
    }


def _columns() -> JsonSchema:
    """Return the schema of each column: whole numbers in the range of its type, or booleans."""
    columns: dict[str, JsonSchema] = {}
    for name, kind in COLUMNS.items():
        if kind is np.bool_:
            columns[name] = _list({"type": "boolean"})
        else:
            limits = np.iinfo(kind)  # type: ignore[type-var]
            columns[name] = _list(_whole(int(limits.min), int(limits.max)))
    return columns


def _object(**fields: JsonSchema) -> JsonSchema:
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}


def _list(items: JsonSchema) -> JsonSchema:
    return {"type": "array", "items": items}


def _or_null(entry: JsonSchema) -> JsonSchema:
    return {"anyOf": [entry, {"type": "null"}]}


def _whole(least: int, most: int) -> JsonSchema:
    return {"type": "integer", "minimum": least, "maximum": most}
