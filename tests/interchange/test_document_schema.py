"""The schema of schedules admits what is written and nothing that is read as malformed for its shape."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings

from lightloom.collectives.files.document import schema, to_json
from tests.cli.commands import run
from tests.interchange.schedules import Made, made

SCHEMA = schema()
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def admits(rule: Any, value: Any) -> bool:
    """As much of JSON Schema as the schema uses."""
    if rule is True or not rule:
        return True
    if "$ref" in rule:
        return admits(SCHEMA["$defs"][rule["$ref"].removeprefix("#/$defs/")], value)
    if "anyOf" in rule and not any(admits(each, value) for each in rule["anyOf"]):
        return False
    if ("const" in rule and value != rule["const"]) or ("enum" in rule and value not in rule["enum"]):
        return False
    if "type" in rule and not _has_type(rule["type"], value):
        return False
    if isinstance(value, dict):
        return _admits_object(rule, value)
    if isinstance(value, list):
        counted = rule.get("minItems", 0) <= len(value) <= rule.get("maxItems", len(value))
        return counted and all(admits(rule.get("items"), each) for each in value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return bool(rule.get("minimum", value) <= value <= rule.get("maximum", value))
    return True


def _has_type(name: str, value: Any) -> bool:
    if name in ("integer", "number"):
        return isinstance(value, int if name == "integer" else int | float) and not isinstance(value, bool)
    return isinstance(value, TYPES[name])


def _admits_object(rule: Any, value: dict[str, Any]) -> bool:
    known, more = rule.get("properties", {}), rule.get("additionalProperties", True)
    return all(name in value for name in rule.get("required", [])) and all(
        admits(known[name], each) if name in known else more is not False and admits(more, each)
        for name, each in value.items()
    )


@settings(deadline=None, max_examples=40)
@given(drawn=made())
def test_what_is_written_keeps_the_schema(drawn: Made) -> None:
    schedule, fabric = drawn
    assert admits(SCHEMA, json.loads(to_json(schedule, fabric)))
    assert admits(SCHEMA, json.loads(to_json(schedule, None)))


@settings(deadline=None, max_examples=10)
@given(drawn=made())
def test_what_has_another_shape_does_not(drawn: Made) -> None:
    whole = json.loads(to_json(*drawn))
    # Files of 0.1 know neither pipelines nor lists.
    later = {"pipeline", "lists"}
    assert admits(SCHEMA, {key: value for key, value in whole.items() if key not in later})
    for name in whole.keys() - later:
        assert not admits(SCHEMA, {key: value for key, value in whole.items() if key != name})
    for name in whole["columns"]:
        for wrong in ("0", 0.5, 2**31, None):
            bad = copy.deepcopy(whole)
            bad["columns"][name] = [wrong]
            assert not admits(SCHEMA, bad), (name, wrong)
    fields: list[dict[str, Any]] = [{"unknown": 1}, {"schema": "lightloom.schedule/2"}, {"queued": 1}, {"fabric": 3}]
    for field in fields:
        assert not admits(SCHEMA, whole | field), field


def test_the_command_prints_it(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(run(monkeypatch, capsys, "catalog", "--schema", "schedule").out) == SCHEMA
    assert json.loads(run(monkeypatch, capsys, "catalog", "--schema", "cluster").out)["title"] == "lightloom cluster"
    done = run(monkeypatch, capsys, "catalog", "--schema", "schedul")
    assert done.code == 2 and "did you mean 'schedule'" in done.err
