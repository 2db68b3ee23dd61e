"""An ONNX model with the shape of every tensor, as ``onnx.shape_inference`` finds them; weights are never loaded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from lightloom.core.errors import ConfigError, WorkloadError
from lightloom.interchange.onnx.constants import Constants

Message: TypeAlias = Any
"""A message of ONNX's protocol buffers, or its module; ONNX is optional, so that its types are not imported."""

INSTALL = "needs the package onnx, which is not installed: pip install 'lightloom[onnx]'"
_DOMAINS = ("", "ai.onnx")
_CONTROL = ("If", "Loop", "Scan", "SequenceMap")
_FLOATS = (1, 10, 11, 16, 17, 18, 19, 20)
"""``TensorProto.DataType`` of float, float16, double, bfloat16 and the float8 formats."""
_SEQUENCE_NAMES = ("seq", "token", "length")


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """Shape of a tensor of the graph, and whether it holds floating-point numbers."""

    shape: tuple[int, ...]
    floating: bool
    data_type: int = 1
    """``TensorProto.DataType``."""

    @property
    def elements(self) -> int:
        """How many elements it has."""
        count = 1
        for size in self.shape:
            count *= size
        return count


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapedModel:
    """Nodes in order, with the shapes of all tensors."""

    nodes: tuple[Message, ...]
    """``onnx.NodeProto``, but those without known shapes, which nothing reads."""
    values: Mapping[str, Value]
    inputs: tuple[str, ...]
    """Names of inputs that no initializer gives."""
    initializers: frozenset[str]
    outputs: tuple[str, ...]
    """Names of the results of the model."""
    constants: Constants
    """Values of the constants that the model computes."""
    batch: int
    """Size of the first axis of the first input."""
    assumptions: tuple[str, ...]


def shaped_model(path: Path, *, batch: int, sequence_length: int | None, definitions: Mapping[str, str]) -> ShapedModel:
    """Read a model and infer the shape of every tensor.

    Args:
        path: the file; data outside of it are not read.
        batch: size of a dynamic first axis.
        sequence_length: size of a dynamic axis that is named as one of tokens.
        definitions: sizes of other dynamic axes, by their names, or by ``INPUT.AXIS`` where they have none.

    Raises:
        ConfigError: unreadable, no model, or a dynamic dimension without a size (names it and the option).
        WorkloadError: ``onnx`` is missing, control flow, an operator or domain that ONNX does not define, or a shape
            that cannot be inferred (names the node).
    """
    onnx = _library(path)
    model = _loaded(onnx, path)
    if model.functions:
        model = onnx.inliner.inline_local_functions(model)
    given = {each.name for each in model.graph.initializer} | {
        each.values.name for each in model.graph.sparse_initializer
    }
    inputs = [each for each in model.graph.input if each.name not in given]
    _check_nodes(onnx, model, path)
    chosen = _Sizes(path, batch, sequence_length, dict(definitions))
    for number, entry in enumerate(inputs):
        chosen.fix(entry, first=number == 0)
    chosen.check_all_used()
    del model.graph.value_info[:]
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    try:
        model = onnx.shape_inference.infer_shapes(model, check_type=False, strict_mode=False, data_prop=True)
    except Exception as error:
        raise WorkloadError(f"{path}: shapes cannot be inferred: {' '.join(str(error).split())[:200]}") from error
    values = dict(_values(model))
    if next(_without_shape(model, values), None):
        values |= dict(_completed(onnx, model))
    _check_shapes(model, values, path)
    first = values[inputs[0].name].shape if inputs else ()
    return ShapedModel(
        nodes=tuple(node for node in model.graph.node if any(name in values for name in node.output)),
        values=values,
        inputs=tuple(each.name for each in inputs),
        initializers=frozenset(given),
        outputs=tuple(each.name for each in model.graph.output),
        constants=Constants(onnx, model),
        batch=max(first[0] if first else 1, 1),
        assumptions=tuple(chosen.assumptions),
    )


def _library(path: Path) -> Message:
    try:
        import onnx
        import onnx.checker
        import onnx.inliner
        import onnx.reference
        import onnx.shape_inference
    except ImportError as error:
        raise WorkloadError(f"{path}: {INSTALL}") from error
    return onnx


def _loaded(onnx: Message, path: Path) -> Message:
    try:
        model = onnx.load(path, load_external_data=False)
    except OSError as error:
        raise ConfigError(f"cannot read {str(path)!r}: {error.strerror}") from error
    except Exception as error:
        raise ConfigError(f"{path}: no ONNX model: {' '.join(str(error).split())[:200]}") from error
    if not model.graph.node:
        raise ConfigError(f"{path}: no ONNX model, or one without operators")
    if not all(isinstance(text, str) for text in _texts(model)):  # else protobuf hands out bytes
        raise ConfigError(f"{path}: no ONNX model: it holds names that are no UTF-8")
    return model


def _texts(model: Message) -> Iterator[object]:
    """Yield all names of a model."""
    for node in model.graph.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        yield from (attribute.name for attribute in node.attribute)
    for held in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        yield held.name
        yield from (dimension.dim_param for dimension in held.type.tensor_type.shape.dim)
    for held in (*model.graph.initializer, *(each.values for each in model.graph.sparse_initializer)):
        yield held.name
    yield from (each.domain for each in model.opset_import)


def _check_nodes(onnx: Message, model: Message, path: Path) -> None:
    """Refuse what has no fixed cost, what ONNX does not define, and nodes that are not in the order of their work."""
    made = {each.name for each in (*model.graph.input, *model.graph.initializer)} | {""}
    made |= {each.values.name for each in model.graph.sparse_initializer}
    context = onnx.checker.C.CheckerContext()
    context.ir_version = model.ir_version
    context.opset_imports = {each.domain: each.version for each in model.opset_import}
    for node in model.graph.node:
        where = f"{path}: node {(node.name or ' '.join(node.output) or node.op_type)!r}"
        missing = next((name for name in node.input if name not in made), None)
        if missing is not None or not any(node.output):
            lacks = "makes nothing" if missing is None else f"reads {missing!r}, which no node before it makes"
            raise WorkloadError(f"{where} ({node.op_type}) {lacks}: expected nodes in the order of their work")
        again = next((name for name in node.output if name and name in made), None)
        if again is not None:
            raise WorkloadError(f"{where} ({node.op_type}) makes {again!r}, which exists: expected a name of its own")
        made.update(node.output)
        if node.domain not in _DOMAINS:
            raise WorkloadError(
                f"{where}: operator {node.op_type!r} of domain {node.domain!r}: expected operators of ONNX itself"
            )
        if node.op_type in _CONTROL:
            raise WorkloadError(f"{where}: {node.op_type}: control flow has no fixed cost: expected a graph without it")
        if not onnx.defs.has(node.op_type):
            raise WorkloadError(f"{where}: operator {node.op_type!r}: expected one that ONNX defines")
        try:
            onnx.checker.check_node(node, context)
        except onnx.checker.ValidationError as error:
            raise WorkloadError(f"{where}: {' '.join(str(error).split())[:200]}") from error


class _Sizes:
    """Sizes of dynamic dimensions of inputs."""

    def __init__(self, path: Path, batch: int, length: int | None, definitions: dict[str, str]) -> None:
        self._path, self._batch, self._length = path, batch, length
        self._definitions, self._used = definitions, set[str]()
        self._first_name: str | None = None
        self.assumptions: list[str] = []

    def fix(self, entry: Message, *, first: bool) -> None:
        """Give every dynamic dimension of an input its size."""
        if not entry.type.HasField("tensor_type"):
            raise WorkloadError(f"{self._path}: input {entry.name!r} is no tensor: expected one")
        if not entry.type.tensor_type.HasField("shape"):
            raise WorkloadError(f"{self._path}: input {entry.name!r} states no shape: expected one")
        for axis, dimension in enumerate(entry.type.tensor_type.shape.dim):
            name = dimension.dim_param
            if not name and dimension.dim_value > 0:
                continue
            size = self._size(entry.name, axis, name, first)
            dimension.Clear()
            dimension.dim_value = size

    def _size(self, entry: str, axis: int, name: str, first: bool) -> int:
        place = f"{entry}.{axis}"
        for key in (name, place):
            if key and key in self._definitions:
                self._used.add(key)
                text = self._definitions[key]
                if not text.isdecimal() or int(text) < 1:
                    raise ConfigError(f"--define {key}={text}: expected a whole number of at least 1")
                return int(text)
        if axis == 0 and (first or not name or name == self._first_name):
            if first:
                self._first_name = name
            return self._batch
        if self._length is not None and any(word in name.lower() for word in _SEQUENCE_NAMES):
            return self._length
        option = f"--define {name or place}=SIZE"
        also = " or --sequence-length" if any(word in name.lower() for word in _SEQUENCE_NAMES) else ""
        raise ConfigError(
            f"{self._path}: input {entry!r}, axis {axis}: dimension {name or '?'!r} is dynamic: expected its size, by "
            f"{option}{also}"
        )

    def check_all_used(self) -> None:
        """Refuse definitions of what no input has."""
        for key in self._definitions:
            if key not in self._used:
                raise ConfigError(f"--define {key}: {self._path} has no dynamic dimension {key!r}")


def _values(model: Message) -> Iterator[tuple[str, Value]]:
    for each in model.graph.initializer:
        yield each.name, Value(shape=tuple(each.dims), floating=each.data_type in _FLOATS, data_type=each.data_type)
    for each in model.graph.sparse_initializer:
        yield each.values.name, Value(shape=tuple(each.dims), floating=each.values.data_type in _FLOATS)
    for entry in (*model.graph.input, *model.graph.value_info, *model.graph.output):
        value = _value(entry.type)
        if value is not None:
            yield entry.name, value


def _value(kind: Message) -> Value | None:
    """Return the shape in a type; None for a type without a fixed one."""
    tensor = kind.tensor_type
    sizes = [each.dim_value if each.HasField("dim_value") else -1 for each in tensor.shape.dim]
    if not kind.HasField("tensor_type") or not tensor.HasField("shape") or min(sizes, default=0) < 0:
        return None
    return Value(shape=tuple(sizes), floating=tensor.elem_type in _FLOATS, data_type=tensor.elem_type)


def _completed(onnx: Message, model: Message) -> Iterator[tuple[str, Value]]:
    """Yield the shapes that follow from constants which the model computes, node by node."""
    types = {each.name: each.type for each in (*model.graph.input, *model.graph.value_info, *model.graph.output)}
    for each in model.graph.initializer:
        types[each.name] = onnx.helper.make_tensor_type_proto(each.data_type, each.dims)
    shapes = {name: value.shape for name, value in _values(model)}
    versions = {each.domain: each.version for each in model.opset_import}
    constants = Constants(onnx, model)
    for node in model.graph.node:
        if any(name and name not in shapes for name in node.output):
            known = {name: types[name] for name in node.input if name in types}
            for name, kind in _outputs(onnx, model, node, versions, known, constants).items():
                types[name] = kind
                value = _value(kind)
                if value is not None:
                    shapes[name] = value.shape
                    yield name, value
        constants.add(node, shapes)


def _outputs(
    onnx: Message,
    model: Message,
    node: Message,
    versions: Mapping[str, int],
    known: Mapping[str, Message],
    constants: Constants,
) -> Mapping[str, Message]:
    """Return the types of the results of one node; none where they cannot be inferred."""
    try:
        schema = onnx.defs.get_schema(node.op_type, versions.get(node.domain, 1), node.domain)
        outputs: Mapping[str, Message] = onnx.shape_inference.infer_node_outputs(
            schema,
            node,
            known,
            constants.tensors(node),
            opset_imports=list(model.opset_import),
            ir_version=model.ir_version,
        )
    except Exception:  # of any class: what is then without a shape is named
        return {}
    return outputs


def _without_shape(model: Message, values: Mapping[str, Value]) -> Iterator[tuple[Message, str]]:
    """Yield nodes with the results that something reads and whose shape is not known."""
    read = {name for node in model.graph.node for name in node.input} | {each.name for each in model.graph.output}
    for node in model.graph.node:
        for name in node.output:
            if name and name in read and name not in values:
                yield node, name


def _check_shapes(model: Message, values: Mapping[str, Value], path: Path) -> None:
    for node, name in _without_shape(model, values):
        raise WorkloadError(
            f"{path}: node {node.name or name!r} ({node.op_type}): the shape of {name!r} depends on values, or "
            "cannot be inferred: expected a graph with fixed shapes"
        )


def is_view(before: Sequence[int], order: Sequence[int], after: Sequence[int]) -> bool:
    """Return whether strides can say what a reshaped tensor means, whose axes were put in another order before."""
    strides = [1] * len(before)
    for axis in range(len(before) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * before[axis + 1]
    axes = [(before[axis], strides[axis]) for axis in order if before[axis] != 1]
    runs: list[list[int]] = []  # size and last stride of axes that lie as one axis would
    for size, stride in axes:
        if runs and runs[-1][1] == size * stride:
            runs[-1] = [runs[-1][0] * size, stride]
        else:
            runs.append([size, stride])
    wanted = [size for size in after if size != 1]
    for size, _ in runs:
        made = 1
        while made < size and wanted:
            made *= wanted.pop(0)
        if made != size:
            return False
    return True
