"""Types for configuration fields: a quantity as people write it, checked, stored in SI.

A field typed ``Bandwidth`` accepts ``"40Gbps"``, ``"5 GB/s"`` or a number of bytes per second; the JSON Schema says so.
"""

import ast
import inspect
import sys
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema
from pydantic_core.core_schema import no_info_before_validator_function

from lightloom.core.units import Dimension, parse


@dataclass(frozen=True)
class Quantity:
    """Dimension of a field: the field is parsed before it is validated, and its JSON Schema shows both spellings."""

    dimension: Dimension
    example: str

    def __get_pydantic_core_schema__(self, source: type, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema of the field behind a parser of its dimension."""
        return no_info_before_validator_function(partial(parse, dimension=self.dimension), handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Return a JSON Schema of a number of at least 0 or a text, with the example."""
        return {
            "anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "examples": [self.example]}],
            "title": f"{self.dimension.replace('_', ' ')} (number in SI units, or text such as {self.example!r})",
        }


Size = Annotated[float, Quantity("size", "64MiB")]
Bandwidth = Annotated[float, Field(gt=0), Quantity("bandwidth", "40Gbps")]
"""Bytes per second, more than none: a number, or text as ``40Gbps`` and ``5 GB/s``."""
Seconds = Annotated[float, Quantity("time", "25us")]
"""Seconds: a number, or text as ``25us``."""
ComputeRate = Annotated[float, Field(gt=0), Quantity("compute_rate", "60 TFLOPS")]
Watts = Annotated[float, Quantity("power", "700 W")]
JoulesPerBit = Annotated[float, Quantity("energy_per_bit", "5 pJ/bit")]
Dollars = Annotated[float, Quantity("price", "30 k$")]
DollarsPerJoule = Annotated[float, Quantity("price_of_electricity", "12 ct/kWh")]
Share = Annotated[float, Quantity("share", "5 %")]
Count = Annotated[int, Field(ge=1, strict=True)]
"""A whole number of at least one."""

MAXIMUM_RANKS = 131_072
"""A typo such as 10⁹ ranks is refused. Schedules that do not fold have N² rows, and are refused where these do not fit
in memory (:mod:`lightloom.core.memory`)."""
Ranks = Annotated[int, Field(ge=2, le=MAXIMUM_RANKS, strict=True)]
"""Ranks that exchange something."""
FewRanks = Annotated[int, Field(ge=1, le=MAXIMUM_RANKS, strict=True)]
"""Ranks of a machine: one alone exchanges nothing."""


class Config(BaseModel):
    """A frozen configuration object that refuses unknown fields.

    The docstrings under its fields describe them in its JSON Schema. They are read when a schema is made: reading the
    source of every class as it is defined would double the time to import the fabrics.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def __copy__(self) -> Self:
        """Return the same fields without what was computed from them, as a copy may change some."""
        copied = super().__copy__()
        for name in vars(copied).keys() - type(self).model_fields:
            del vars(copied)[name]
        return copied

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Return the JSON Schema with the docstrings under fields as their descriptions."""
        document = handler(schema)
        properties = handler.resolve_ref_schema(document).get("properties", {})
        docstrings = {name: text for kind in reversed(cls.__mro__) for name, text in _field_docstrings(kind).items()}
        for name, field in cls.model_fields.items():
            entry = properties.get(field.alias or name)
            if entry is not None and name in docstrings:
                entry.setdefault("description", docstrings[name])
        return document


@cache
def _field_docstrings(kind: type) -> dict[str, str]:
    """Return the docstring under each annotated field in the source of the class ``kind`` itself, by field; fields
    without one and those of its bases are left out. Empty for a class without source, for :class:`Config`, and for one
    that is no subclass of it."""
    if not issubclass(kind, Config) or kind is Config:
        return {}
    docstrings = {}
    statements = _class_bodies(kind.__module__).get(kind.__qualname__.rpartition(".")[2], [])
    for field, after in pairwise(statements):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(after, ast.Expr):
            value = after.value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                docstrings[field.target.id] = inspect.cleandoc(value.value)
    return docstrings


@cache
def _class_bodies(module: str) -> dict[str, list[ast.stmt]]:
    """Return the statements in the body of each class of a module, by the class's own name, nested classes too, parsed
    once; ``module`` is the name of an imported one. Empty where it is not imported or has no source."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (KeyError, OSError, TypeError, SyntaxError):
        return {}
    return {node.name: node.body for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
