"""Arguments of an operator as ``torch.profiler`` records them: shapes, types, and values as text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from lightloom.core.errors import WorkloadError
from lightloom.interchange.traces.calls import TraceTensor

Value: TypeAlias = Any
"""A value of a profile's JSON, not looked at yet."""

_TYPES: Mapping[str, tuple[str, int]] = {
    "double": ("fp64", 8),
    "float": ("fp32", 4),
    "c10::Half": ("fp16", 2),
    "c10::BFloat16": ("bf16", 2),
    "c10::Float8_e4m3fn": ("fp8", 1),
    "c10::Float8_e5m2": ("fp8", 1),
    "long int": ("", 8),
    "long": ("", 8),
    "int": ("", 4),
    "short int": ("", 2),
    "signed char": ("", 1),
    "unsigned char": ("", 1),
    "bool": ("", 1),
}
"""Number format (empty for whole numbers) and bytes of an element, by the name of a tensor's type."""
_LIST = "TensorList"


def arguments_of(arguments: Mapping[str, Any], where: str) -> tuple[list[TraceTensor], list[object], str]:
    """Return the tensors that a call reads, its values (None for tensors), and the format of its first float tensor.

    Raises:
        WorkloadError: shapes or types are no lists of one length, or a shape is no list of whole numbers.
    """
    shapes, types = arguments.get("Input Dims", []), arguments.get("Input type", [])
    if not isinstance(shapes, list) or not isinstance(types, list):
        raise WorkloadError(f"{where}: 'Input Dims' and 'Input type': expected lists")
    if len(shapes) != len(types):
        raise WorkloadError(f"{where}: {len(shapes)} 'Input Dims' and {len(types)} 'Input type': expected as many")
    texts = arguments.get("Concrete Inputs", [])
    texts = [*texts, *[""] * (len(shapes) - len(texts))] if isinstance(texts, list) else [""] * len(shapes)
    reads: list[TraceTensor] = []
    values: list[object] = []
    strides = arguments.get("Input Strides", [])
    strides = [*strides, *[()] * (len(shapes) - len(strides))] if isinstance(strides, list) else [()] * len(shapes)
    for shape, kind, text, steps in zip(shapes, types, texts, strides, strict=False):
        tensors = list(_tensors(shape, str(kind), steps, where))
        reads += tensors
        values.append(None if tensors else _value(str(text)))
    formats = [_TYPES[kind][0] for kind in map(str, types) if kind in _TYPES and _TYPES[kind][0]]
    return reads, values, formats[0] if formats else ""


def _tensors(shape: Value, kind: str, strides: Value, where: str) -> list[TraceTensor]:
    if kind in _TYPES:
        tensor = _tensor(shape, kind, where)
        known = _is_shape(strides) and len(strides) == len(tensor.shape)
        return [replace(tensor, strides=tuple(strides)) if known else tensor]
    if kind == _LIST and isinstance(shape, list):
        # The type of a list's tensors is not recorded.
        return [_tensor(inner, "float", where) for inner in shape if isinstance(inner, list)]
    return []


def _tensor(shape: Value, kind: str, where: str) -> TraceTensor:
    if not _is_shape(shape):
        raise WorkloadError(f"{where}: 'Input Dims': {shape!r}: expected a list of whole numbers")
    number_format, size = _TYPES[kind]
    return TraceTensor(-1, 0, tuple(shape), size, bool(number_format), "")


def _is_shape(shape: Value) -> bool:
    return isinstance(shape, Sequence) and all(type(size) is int and size >= 0 for size in shape)


def _value(text: str) -> object:
    """Return a value from its text: ``True``, ``[1, 1]`` and ``0.5`` are read, other texts kept."""
    try:
        return json.loads(
            text.lower() if text in ("True", "False") else text.replace("True", "true").replace("False", "false")
        )
    except (ValueError, RecursionError):
        return text
