"""An ONNX model with the shape of every tensor, as ``onnx.shape_inference`` finds them; weights are never loaded."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lightloom.core.caches import cached_method
from lightloom.core.errors import ConfigError, WorkloadError
from lightloom.models.norms import NormFinder

# Values of small constants of an ONNX model, from which shapes follow that ``onnx.shape_inference`` leaves open.
#
#     Shape(x) ──► Gather ──► Concat ──► Equal, Where ──► Expand
#
# What shapes are computed with is a few numbers: such nodes are evaluated by ONNX's own reference, as they come.

Message: TypeAlias = Any
"""A message of ONNX's protocol buffers, or its module; ONNX is optional, so that its types are not imported."""
Array: TypeAlias = NDArray[Any]

LARGEST = 1 << 10
"""Most elements of a constant of which shapes are computed."""
LARGEST_MASK = 1 << 24
"""Most elements of a mask that is evaluated: 4,096 tokens of one sample."""
_EVALUATED_WORDS = """
    Abs Add And Cast Ceil Concat Constant ConstantOfShape Div Equal Expand Flatten Floor Gather Greater GreaterOrEqual
    Identity Less LessOrEqual Max Min Mod Mul Neg Not OneHot Or Pow Range ReduceMax ReduceMin ReduceProd ReduceSum
    Reshape Round ScatterND Slice Sqrt Squeeze Sub Transpose Trilu Unsqueeze Where
"""
_EVALUATED = frozenset(_EVALUATED_WORDS.split())


class Constants:
    """Constants of a model by name: its initializers, and what nodes compute of them."""

    def __init__(self, onnx: Message, model: Message, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """``shapes`` are those of all tensors, as far as they are known when a constant is asked for."""
        self._onnx, self._shapes = onnx, shapes
        self._imports, self._version = list(model.opset_import), model.ir_version
        self._makers = {node.output[0]: node for node in model.graph.node if node.output}
        self._given = {each.name: each for each in model.graph.initializer}

    @cached_method()
    def value(self, name: str, largest: int = LARGEST) -> Array | None:
        """Return a constant of at most ``largest`` elements (1,024 by default); None for the name of what is none, or
        cannot be computed.

        What it is made of is computed first, under the same limit. Results are cached; nothing is raised.
        """
        try:
            with np.errstate(all="ignore"):
                value = self._computed(name, largest)
        except Exception:  # of any class: what needs the constant is then without a shape, and named
            return None
        return value if value is not None and value.dtype != object and value.size <= largest else None

    def _computed(self, name: str, largest: int) -> Array | None:
        """Return the value of an initializer in the file, or the result of a node as ONNX's reference computes it; None
        for others.

        None also for more than ``largest`` elements, data outside the file, and nodes of a kind that is not evaluated
        or that read what is not known. ``Shape`` and ``Size`` follow from the shape of their input, whatever its
        values. An unknown shape or a failing node raises an error of any class.
        """
        given, node = self._given.get(name), self._makers.get(name)
        if given is not None:
            in_file = given.data_location != self._onnx.TensorProto.EXTERNAL and math.prod(given.dims) <= largest
            return np.asarray(self._onnx.numpy_helper.to_array(given)) if in_file else None
        if node is None:
            return None
        if node.op_type in ("Shape", "Size"):
            shape = self._shapes[node.input[0]]
            part = shape[attribute(node, "start", 0) : attribute(node, "end", len(shape))]
            return np.array(part if node.op_type == "Shape" else math.prod(shape), np.int64)
        if node.op_type not in _EVALUATED or math.prod(self._shapes[name]) > largest:
            return None
        read = {each: self.value(each, largest) for each in node.input if each}
        if any(value is None for value in read.values()):
            return None
        make = self._onnx.helper
        inputs = [make.make_empty_tensor_value_info(each) for each in read]
        graph = make.make_graph([node], "node", inputs, [make.make_empty_tensor_value_info(name)])
        model = make.make_model(graph, opset_imports=self._imports, ir_version=self._version)
        (result,) = self._onnx.reference.ReferenceEvaluator(model).run(None, read)
        return np.asarray(result)


INSTALL = "needs the package onnx, which is not installed: pip install 'lightloom[onnx]'"
_DOMAINS = ("", "ai.onnx")
_CONTROL = ("If", "Loop", "Scan", "SequenceMap")
_MAKES_CONSTANTS = ("Constant", "ConstantOfShape", "Shape", "Size", "Range", "EyeLike", "RandomNormal", "RandomUniform")
_FLOATS = (1, 10, 11, 16, 17, 18, 19, 20)
"""``TensorProto.DataType`` of float, float16, double, bfloat16 and the float8 formats."""
_SEQUENCE_NAMES = ("seq", "token", "length")


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """Shape of a tensor of the graph, and the type of its elements."""

    shape: tuple[int, ...]
    data_type: int = 1
    """Number of the element type in ONNX's ``TensorProto.DataType``, by default that of float32."""

    @property
    def floating(self) -> bool:
        """True if it holds floating-point numbers, of 8 to 64 bits."""
        return self.data_type in _FLOATS

    @property
    def elements(self) -> int:
        """Number of its elements: the product of its shape, 1 without axes."""
        return math.prod(self.shape)


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


def shaped_model(path: Path, *, batch: int, sequence_length: int | None, definitions: Mapping[str, str]) -> ShapedModel:
    """Return a model read from a file, with the shape of every tensor; functions of the model are inlined.

    Args:
        path: the file; data outside of it are not read.
        batch: size of the first axis of the first input where it is dynamic, and of other dynamic first axes that have
            its name or none.
        sequence_length: size of a dynamic axis whose name holds seq, token or length; None where none is stated.
        definitions: sizes of dynamic axes as decimal texts, by their names, or by ``INPUT.AXIS`` where they have none;
            they go before ``batch`` and ``sequence_length``.

    Raises:
        ConfigError: unreadable, no model, a dynamic dimension without a size (names it and the option), or a definition
            of none or of no whole number.
        WorkloadError: ``onnx`` is missing, control flow, an operator or domain that ONNX does not define, or a shape
            that cannot be inferred (names the node).
    """
    onnx = _library(path)
    model = _loaded(onnx, path)
    if model.functions:
        model = onnx.inliner.inline_local_functions(model)
    given = {each.name for each in model.graph.initializer}
    given |= {each.values.name for each in model.graph.sparse_initializer}
    inputs = [each for each in model.graph.input if each.name not in given]
    _check_nodes(onnx, model, path)
    _fix_sizes(path, inputs, batch, sequence_length, definitions)
    del model.graph.value_info[:]
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    try:
        model = onnx.shape_inference.infer_shapes(model, check_type=False, strict_mode=False, data_prop=True)
    except Exception as error:
        raise WorkloadError(f"{path}: shapes cannot be inferred: {' '.join(str(error).split())[:200]}") from error
    values = dict(_known_values(model))
    if next(_without_shape(model, values), None):
        values |= dict(_completed(onnx, model))
    for node, name in _without_shape(model, values):
        raise WorkloadError(
            f"{path}: node {node.name or name!r} ({node.op_type}): the shape of {name!r} depends on values, or "
            "cannot be inferred: expected a graph with fixed shapes"
        )
    first = values[inputs[0].name].shape if inputs else ()
    return ShapedModel(
        nodes=tuple(node for node in model.graph.node if any(name in values for name in node.output)),
        values=values,
        inputs=tuple(each.name for each in inputs),
        initializers=frozenset(given),
        outputs=tuple(each.name for each in model.graph.output),
        constants=Constants(onnx, model, {name: value.shape for name, value in values.items()}),
        batch=first[0] if first else 1,
    )


def _library(path: Path) -> Message:
    """Import and return ``onnx`` with the submodules used here; WorkloadError if it is not installed."""
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
    """Return the ONNX model of a file without its external data.

    ConfigError: unreadable, no ONNX model, one without nodes, or one with names that are no UTF-8.
    """
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
    """Yield all texts of a model that should be UTF-8: names, operators, domains and symbols of dimensions, some of
    them empty."""
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
    """Raise WorkloadError, which names the node, unless each node of ``model`` is an operator that ONNX defines,
    without control flow, whose inputs are made before it and whose results are new.

    Refused are also a node that makes nothing, and one that ONNX's own checker refuses.
    """
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


def _fix_sizes(
    path: Path, inputs: Sequence[Message], batch: int, length: int | None, definitions: Mapping[str, str]
) -> None:
    """Give every dynamic dimension of ``inputs`` its size, in place, and refuse definitions of what no input has.

    A definition goes first, then ``batch`` for a first axis (of the first input, or without a name or with that one's
    name), then ``length``, unless it is None, for an axis named as one of tokens. ConfigError where none applies or a
    definition is no whole number of at least 1; WorkloadError for an input that is no tensor or states no shape.
    """
    used, first_name = set[str](), ""
    for entry in inputs:
        if not entry.type.HasField("tensor_type"):
            raise WorkloadError(f"{path}: input {entry.name!r} is no tensor: expected one")
        if not entry.type.tensor_type.HasField("shape"):
            raise WorkloadError(f"{path}: input {entry.name!r} states no shape: expected one")
        for axis, dimension in enumerate(entry.type.tensor_type.shape.dim):
            name, place, first = dimension.dim_param, f"{entry.name}.{axis}", axis == 0 and entry is inputs[0]
            if not name and dimension.dim_value > 0:
                continue
            key = next((key for key in (name, place) if key and key in definitions), None)
            counts_tokens = any(word in name.lower() for word in _SEQUENCE_NAMES)
            if key is not None:
                used.add(key)
                if not definitions[key].isdecimal() or int(definitions[key]) < 1:
                    raise ConfigError(f"--define {key}={definitions[key]}: expected a whole number of at least 1")
                size = int(definitions[key])
            elif axis == 0 and (first or not name or name == first_name):
                size, first_name = batch, name if first else first_name
            elif length is not None and counts_tokens:
                size = length
            else:
                option = f"--define {name or place}=SIZE{' or --sequence-length' if counts_tokens else ''}"
                where = f"{path}: input {entry.name!r}, axis {axis}"
                raise ConfigError(f"{where}: dimension {name or '?'!r} is dynamic: expected its size, by {option}")
            dimension.dim_value = size
    for key in definitions:
        if key not in used:
            raise ConfigError(f"--define {key}: {path} has no dynamic dimension {key!r}")


def _known_values(model: Message) -> Iterator[tuple[str, Value]]:
    """Yield (name, shape and type) of every initializer, input, output and inferred tensor whose shape is fixed."""
    for each in model.graph.initializer:
        yield each.name, Value(shape=tuple(each.dims), data_type=each.data_type)
    for each in model.graph.sparse_initializer:
        yield each.values.name, Value(shape=tuple(each.dims), data_type=each.values.data_type)
    for entry in (*model.graph.input, *model.graph.value_info, *model.graph.output):
        if (value := _value(entry.type)) is not None:
            yield entry.name, value


def _value(kind: Message) -> Value | None:
    """Return the shape and element type in a type; None for a type that is no tensor or has no fixed shape."""
    tensor = kind.tensor_type
    sizes = [each.dim_value if each.HasField("dim_value") else -1 for each in tensor.shape.dim]
    if not kind.HasField("tensor_type") or not tensor.HasField("shape") or any(size < 0 for size in sizes):
        return None
    return Value(shape=tuple(sizes), data_type=tensor.elem_type)


def _completed(onnx: Message, model: Message) -> Iterator[tuple[str, Value]]:
    """Yield (name, shape and type) of results whose shape follows only once the values of constants that the model
    computes are known, such as those of ``Expand`` or ``Reshape`` to a computed shape.

    Nodes with a result of unknown shape are inferred again, one by one in order, each with what is known by then; a
    node for which that fails is passed over.
    """
    types = {each.name: each.type for each in (*model.graph.input, *model.graph.value_info, *model.graph.output)}
    for each in model.graph.initializer:
        types[each.name] = onnx.helper.make_tensor_type_proto(each.data_type, each.dims)
    shapes = {name: value.shape for name, value in _known_values(model)}
    constants = Constants(onnx, model, shapes)
    imports = {"opset_imports": list(model.opset_import), "ir_version": model.ir_version}
    versions = {each.domain: each.version for each in model.opset_import}
    for node in model.graph.node:
        if all(name in shapes for name in node.output if name):
            continue
        read = ((name, constants.value(name)) for name in node.input)
        tensors = {name: onnx.numpy_helper.from_array(value, name) for name, value in read if value is not None}
        known = {name: types[name] for name in node.input if name in types}
        try:
            schema = onnx.defs.get_schema(node.op_type, versions[node.domain], node.domain)
            made = onnx.shape_inference.infer_node_outputs(schema, node, known, tensors, **imports)
        except Exception:  # of any class: what is then without a shape is named
            continue
        types |= made
        for name, kind in made.items():
            if (value := _value(kind)) is not None:
                shapes[name] = value.shape
                yield name, value


def attribute(node: Message, name: str, default: Any) -> Any:
    """Return the value of an attribute of a node (a number, bytes for a text, a tensor, or a list of these),
    ``default`` where it has none."""
    from onnx.helper import get_attribute_value

    return next((get_attribute_value(each) for each in node.attribute if each.name == name), default)


def makes_constants(node: Message, constants: Set[str]) -> bool:
    """Return whether all results of a node are constants: it is of a kind that only makes them (``Constant``,
    ``Shape``, ``Range``, random numbers, ...), or all tensors that it reads are among the names in ``constants``."""
    return node.op_type in _MAKES_CONSTANTS or all(name in constants for name in node.input if name)


def _without_shape(model: Message, values: Mapping[str, Value]) -> Iterator[tuple[Message, str]]:
    """Yield (node, name) for each result that a node or the model's outputs read and that ``values`` lacks."""
    read = {name for node in model.graph.node for name in node.input} | {each.name for each in model.graph.output}
    for node in model.graph.node:
        for name in node.output:
            if name and name in read and name not in values:
                yield node, name


def is_view(before: Sequence[int], order: Sequence[int], after: Sequence[int]) -> bool:
    """Return whether a reshape after a transposition is only a view, which strides can express without a copy.

    Args:
        before: shape of the contiguous tensor before its axes are transposed.
        order: axes of ``before`` in the order that the transposition gives them.
        after: shape that is asked for behind it, of as many elements.
    """
    # Axes that no longer follow each other in memory must stay apart: their parts are counted from the end.
    axes = [axis for axis in order if before[axis] != 1]
    follows = dict(pairwise(sorted(axes)))
    cuts = {
        math.prod(before[axis] for axis in axes[place:])
        for place in range(1, len(axes))
        if follows.get(axes[place - 1]) != axes[place]
    }
    return cuts <= {math.prod(after[place:]) for place in range(len(after))}


# Parts of one kernel as one node: exporters write attention, norms and activations in the operators that ONNX has.
#
#     MatMul ──► Mul ──► Add(mask) ──► Softmax ──► MatMul           Attention(q, k, v)
#     Pow ──► ReduceMean ──► Add ──► Sqrt ──► Div ──► Mul ──► Mul   RMSNormalization(x, weight)
#     Div ──► Erf ──► Add ──► Mul ──► Mul                           Gelu(x)
#     MatMul ──► Add(bias)                                          Gemm(x, weight, bias)
#
# Accelerators run each as one kernel, and modules are traced so. Parts whose results something else reads stay apart.

_POINTWISE_WORDS = "Abs Add Clip Div Erf Exp Max Min Mul Neg Pow Reciprocal Sigmoid Sqrt Sub Tanh"
_POINTWISE = frozenset(_POINTWISE_WORDS.split())
_ACTIVATIONS = {"Erf": "Gelu", "Tanh": "Gelu", "Sigmoid": "Swish"}
"""Kind of activation by the node that only it contains."""
_VIEWS = ("Identity", "Reshape", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze")
_CASTS = ("Cast", "Identity")
_NORM_WORDS = {"Cast": "to", "Clip": "clamp", "Max": "maximum", "ReduceMean": "mean"}
"""Words of norms by the node, where they are others."""
_DEEPEST = 12
"""Most parts of an activation."""


def merged(model: ShapedModel) -> ShapedModel:
    """Return the model with each kernel that is written in parts as one node, in the place of its last part.

    Kernels are norms, activations, attention, products of experts, and products with a bias; what computes nothing
    becomes a view.
    """
    return _Merger(model).model()


class _Merger:
    """Nodes of a model by their place in the order, rewritten in place: parts of a kernel become one node."""

    def __init__(self, model: ShapedModel) -> None:
        """Note who makes and who reads each tensor of the model, and which tensors are constants."""
        self._model, self._values = model, dict(model.values)
        self._nodes: dict[int, Message] = dict(enumerate(model.nodes))
        self._aliases: dict[int, list[Message]] = {}
        """Views that come before the node at a place."""
        self._made = {name: place for place, node in self._nodes.items() for name in node.output if name}
        self._constant = set(model.initializers)
        for node in model.nodes:
            if makes_constants(node, self._constant):
                self._constant.update(node.output)
        self._readers: dict[str, set[int]] = {}
        for place, node in self._nodes.items():
            for name in node.input:
                self._readers.setdefault(name, set()).add(place)
        self._outputs = set(model.outputs)

    def model(self) -> ShapedModel:
        """Merge one kind of kernel after the other (norms, activations, attention, products of experts, products with a
        bias), and return the model with the nodes that are left in their order."""
        self._rewrite(self._simplify)
        self._merge_norms()
        for merge in (self._merge_activation, self._merge_attention, self._merge_experts, self._merge_bias):
            self._rewrite(merge)
        nodes = [each for place in sorted(self._nodes) for each in (*self._aliases.get(place, ()), self._nodes[place])]
        return replace(self._model, nodes=tuple(nodes), values=self._values)

    def _rewrite(self, rewrite: Callable[[int, Message], None]) -> None:
        """Call ``rewrite`` with the place and the node of each place that still has one, in order."""
        for place in list(self._nodes):
            if place in self._nodes:
                rewrite(place, self._nodes[place])

    def _simplify(self, place: int, node: Message) -> None:
        """Replace, in place, a node that computes nothing by a view, and a reshape that no strides can express by a
        copy.

        Nodes that compute nothing are a dropout of ratio 0, a cast to the same type, and a ``Gather`` at one constant
        index. Such a copy (``Contiguous``) is a ``Reshape`` behind a ``Transpose``. Other nodes stay.
        """
        name = node.input[0] if node.input else ""
        if node.op_type == "Dropout":
            if 0 in (attribute(node, "ratio", None), *map(self.number, node.input[1:])):
                self._view(place)
        elif node.op_type == "Cast":
            read, made = (self._values.get(each) for each in (name, *node.output))
            if read is not None and made is not None and read.data_type == made.data_type:
                self._view(place)
        elif node.op_type == "Gather":  # what is taken at one constant index of an axis
            if name not in self._constant and self.is_scalar(node.input[1]):
                self._view(place, "Squeeze")
        elif node.op_type == "Reshape" and name not in self._constant:
            source = self.made_by(name, "Transpose")
            if source is not None:
                before, after = (self._values[each].shape for each in (*self._nodes[source].input, *node.output))
                order = attribute(self._nodes[source], "perm", None) or range(len(before))[::-1]
                if not is_view(before, order, after):
                    self._view(place, "Contiguous")

    def _view(self, place: int, kind: str = "Identity") -> None:
        """Put a node of this kind, which reads the first input alone and makes the same first result, in the place of
        the node at ``place``."""
        node = self._nodes[place]
        for name in node.input[1:]:
            self._readers[name].discard(place)
        self._nodes[place] = type(node)(op_type=kind, input=node.input[:1], output=node.output[:1], name=node.name)

    # Norms

    def _merge_norms(self) -> None:
        """Make one norm of the parts of each, in the place of the last: ``LayerNormalization`` of those that subtract a
        mean or have both a weight and a bias, else ``RMSNormalization``."""
        for norm in _Norms(self._nodes, self).norms():
            nodes = [self._nodes[place] for place in norm]
            inside = {name for node in nodes for name in node.output}
            read = [name for node in nodes for name in self.varying(node) if name not in inside]
            sums = [node for node in nodes if node.op_type in ("Mul", "Add")]
            weights = [name for node in sums for name in self.channels(node) if not self.is_scalar(name)]
            centred = any(node.op_type == "Sub" for node in nodes)
            kind = "LayerNormalization" if centred or len(weights) > 1 else "RMSNormalization"
            self._replace(set(norm), norm[-1], kind, [*dict.fromkeys(read), *weights])

    # Activations

    def _merge_activation(self, place: int, seed: Message) -> None:
        """Make one activation (``Gelu`` around an ``Erf`` or ``Tanh``, ``Swish`` around a ``Sigmoid``) of the largest
        region of 2 to 12 nodes around the telling node ``seed`` at ``place``.

        Nothing is done for another seed; the region computes element by element from one tensor and scalars, and
        nothing outside reads its insides.
        """
        if seed.op_type not in _ACTIVATIONS:
            return
        regions = [
            (region, name)
            for name in self._arguments(place)
            for region in self._functions_of(name)
            if place in region and len(region) <= _DEEPEST and self._closed(region)
        ]
        largest, source = max(regions, key=lambda region: len(region[0]), default=(set[int](), ""))
        if len(largest) > 1:
            self._replace(largest, max(largest), _ACTIVATIONS[seed.op_type], [source])

    def _arguments(self, place: int) -> Iterator[str]:
        """Yield the names of tensors, no constants, of which what is computed at a place may be an element-by-element
        function: what its node reads, then what the element-wise nodes that made these read, about 12 at most."""
        waiting, seen = [place], set[str]()
        while waiting and len(seen) < _DEEPEST:
            for name in self.varying(self._nodes[waiting.pop()]):
                if name in seen:
                    continue
                seen.add(name)
                yield name
                if (maker := self.made_by(name, *_POINTWISE)) is not None:
                    waiting.append(maker)

    def _functions_of(self, argument: str) -> Iterable[set[int]]:
        """Return a set of places for each node that computes element by element from tensor ``argument`` and scalars
        alone.

        A set holds the node's own place and those of all such nodes between ``argument`` and it.
        """
        found: dict[int, set[int]] = {}
        waiting = sorted(self._readers.get(argument, ()))
        while waiting:
            at = heappop(waiting)
            node = self._nodes[at]
            makers = [self._made.get(name) for name in node.input if name != argument and not self.is_scalar(name)]
            if at not in found and node.op_type in _POINTWISE and all(maker in found for maker in makers):
                found[at] = {at}.union(*(found[maker] for maker in makers if maker is not None))
                for reader in self.readers(node) - {-1}:
                    heappush(waiting, reader)
        return found.values()

    # Attention

    def _merge_attention(self, place: int, softmax: Message) -> None:
        """Make one ``Attention`` node of two products around the softmax at ``place``, over the last of four axes.

        Scalings, casts and dropout between them become part of it. Nothing is done unless every mask is causal, the
        keys are transposed before the scores, and queries and values have four axes, too; ``is_causal`` is 1 with
        masks, and 0 without.
        """
        if softmax.op_type != "Softmax" or len(self._values[softmax.output[0]].shape) != 4:
            return
        if attribute(softmax, "axis", -1) not in (-1, 3):
            return
        parts, masks, name = {place}, list[tuple[str, ...]](), softmax.input[0]
        while (source := self.made_by(name, "Add", "Mul", "Div", "Where", *_CASTS)) is not None:
            node = self._nodes[source]
            if len(varying := self.varying(node)) != 1:
                return
            if not all(self.is_scalar(each) for each in node.input if each in self._constant):
                masks.append((node.op_type, *("" if each in varying else each for each in node.input)))
            parts.add(source)
            (name,) = varying
        if (scores := self.made_by(name, "MatMul")) is None:
            return
        parts.add(scores)
        end = self._finite(parts, softmax.output[0])
        while end is not None and self._nodes[end].op_type in ("Dropout", *_CASTS):
            parts.add(end)
            end = self._only_reader(self._nodes[end].output[0])
        if end is None or self._nodes[end].op_type != "MatMul" or self.made_by(self._nodes[end].input[0]) not in parts:
            return
        parts.add(end)
        q, k = (self._unscaled(parts, each) for each in self._nodes[scores].input)
        k, v = self._heads(self._keys(k)), self._heads(self._nodes[end].input[1])
        if k and min(len(self._values[each].shape) for each in (q, k, v)) == 4 and all(map(self._is_causal, masks)):
            self._replace(parts, end, "Attention", [q, k, v], is_causal=int(bool(masks)))

    def _finite(self, parts: set[int], name: str) -> int | None:
        """Return the place of the only node that reads the weights of attention (``name``); None if there are several
        or none, or if the model returns them.

        Nodes that first make the weights 0 for tokens that see no others (``IsNaN`` and ``Where``) are added to
        ``parts``, and the node is the one that reads what they make.
        """
        readers = {self._nodes[at].op_type: at for at in self._readers.get(name, set())}
        if readers.keys() == {"Where", "IsNaN"} and len(self._readers[name]) == 2:
            parts |= self._readers[name]
            name = self._nodes[readers["Where"]].output[0]
        return self._only_reader(name)

    def _unscaled(self, parts: set[int], name: str) -> str:
        """Return the name of an operand of the scores before it is multiplied or divided by scalars, and add these
        nodes to ``parts``.

        A scaling that something else reads stays.
        """
        while (source := self.made_by(name, "Mul", "Div")) is not None:
            if self._readers[name] - parts or not any(self.is_scalar(each) for each in self._nodes[source].input):
                break
            parts.add(source)
            name = next(iter(self.varying(self._nodes[source])), "")
        return name

    def _keys(self, name: str) -> str:
        """Return the name of keys as (sample, head, T, D), given those as (sample, head, D, T) that the scores read;
        empty if no transposition made them, or they have other than four axes."""
        source = self.made_by(name, "Transpose")
        if source is None or len(self._values[name].shape) != 4:
            return ""
        samples, heads, size, tokens = self._values[name].shape
        node = self._nodes[source]
        if attribute(node, "perm", None) == [0, 1, 3, 2]:
            return str(node.input[0])
        return self._viewed(source, node.input[0], (samples, heads, tokens, size))

    def _heads(self, name: str) -> str:
        """Return the name of keys or values as computed, not repeated for the heads of queries that share them.

        Without such a repetition (``Unsqueeze``, ``Expand``, ``Reshape``) it is ``name`` itself.
        """
        first = name
        for kind in ("Reshape", "Expand", "Unsqueeze"):
            if (source := self.made_by(first, kind)) is None:
                return name
            first = str(self._nodes[source].input[0])
        return first

    def _viewed(self, place: int, source: str, shape: tuple[int, ...]) -> str:
        """Return the name of tensor ``source`` seen in another shape; a view is added before the node at ``place`` if
        it is new."""
        name = f"{source} as {shape}"
        if name not in self._values:
            self._values[name] = Value(shape=shape)
            view = type(self._nodes[place])(op_type="Identity", input=[source], output=[name])
            self._aliases.setdefault(place, []).append(view)
        return name

    @cached_method()
    def _is_causal(self, mask: tuple[str, ...]) -> bool:
        """Return whether a mask leaves to each token exactly those up to it; False where it cannot be evaluated.

        ``mask`` is the kind of the node that applies it to the scores (``Add``, ``Where``) and then that node's inputs,
        the scores' name empty.
        """
        kept = self._kept(*mask)
        if kept is None or kept.ndim < 2 or kept.shape[-1] != kept.shape[-2]:
            return False
        return bool((kept == np.tri(kept.shape[-1], dtype=bool)).all())

    def _kept(self, word: str, *operands: str) -> NDArray[np.bool_] | None:
        """Return an array of which scores a mask leaves (True), where node ``word`` adds it to them or chooses between
        them and a constant.

        ``operands`` are the node's inputs, the scores' name empty. None for other nodes, and for masks that cannot be
        evaluated. A mask that is added leaves the scores to which it adds more than -10,000.
        """
        name = operands[0] or operands[-1] if word == "Add" else operands[0] if word == "Where" else ""
        mask = self._model.constants.value(name, LARGEST_MASK) if name else None
        if mask is None:
            return None
        return np.asarray(mask > -1e4 if word == "Add" else mask.astype(bool) == (operands[1] == ""))

    # Products

    def _merge_experts(self, place: int, product: Message) -> None:
        """Make one ``GroupedMatMul`` of all rows out of a ``MatMul`` in which each row has a copy of the weights of its
        expert, taken from a constant stack; other nodes stay.

        Rows of the new product lie by expert; a copy puts them back into the order of the tokens, unless they go on to
        experts again.
        """
        if product.op_type != "MatMul":
            return
        for side, name in enumerate(product.input):
            parts, weights = self._chosen(name)
            if not weights or len(self._values[name].shape) != 3:
                continue
            experts, *matrix = self._values[weights].shape
            rows, *chosen = self._values[name].shape
            summed, wide = chosen[1 - side], chosen[side]
            if sorted(chosen) != sorted(matrix) or self._values[product.output[0]].elements != rows * wide:
                return
            tokens = self._viewed(place, product.input[1 - side], (rows, summed))
            weights = self._viewed(place, weights, (experts, summed, wide))
            made, node = product.output[0], type(product)
            rows_made = f"{made} as rows"
            self._values[rows_made] = Value(shape=(rows, wide))
            grouped = node(op_type="GroupedMatMul", input=[tokens, weights], output=[rows_made], name=product.name)
            self._aliases[place].append(grouped)
            self._replace({*parts, place}, place, "Reshape" if self._meets_experts(made) else "Contiguous", [rows_made])
            return

    def _meets_experts(self, name: str) -> bool:
        """Return whether the elements of a tensor go on to another product with the weights of experts, through views
        and element-wise nodes alone."""
        waiting, seen = [name], set[int]()
        while waiting:
            for place in self._readers.get(waiting.pop(), set()) - seen:
                seen.add(place)
                node = self._nodes[place]
                if node.op_type == "MatMul" and any(self._chosen(each)[1] for each in node.input):
                    return True
                if node.op_type in (*_POINTWISE, *_VIEWS, *_ACTIVATIONS.values()):
                    waiting += node.output
        return False

    def _chosen(self, name: str) -> tuple[set[int], str]:
        """Return (places of nodes, name of a stack) where the tensor ``name`` is a matrix for each row, chosen by a
        ``Gather`` out of a constant stack of matrices.

        The places are those of the ``Gather`` and of transpositions and casts behind it. The name is empty where the
        tensor is not chosen so.
        """
        parts: set[int] = set()
        while (source := self.made_by(name, "Transpose", *_CASTS)) is not None:
            parts.add(source)
            name = self._nodes[source].input[0]
        source = self.made_by(name, "Gather")
        if source is None or len(self._values[name].shape) != 3:
            return parts, ""
        stack, chosen = self._nodes[source].input
        stacked = stack in self._constant and len(self._values[stack].shape) == 3 and self._values[stack].floating
        return parts | {source}, str(stack) if stacked and chosen not in self._constant else ""

    def _merge_bias(self, place: int, product: Message) -> None:
        """Make one ``Gemm`` of a ``MatMul`` with a constant matrix and the addition of one bias of its channels, which
        alone reads the product; other nodes stay."""
        if product.op_type != "MatMul":
            return
        weight, follower = product.input[1], self._only_reader(product.output[0])
        if follower is None or self._nodes[follower].op_type != "Add" or weight not in self._constant:
            return
        bias = self.channels(self._nodes[follower])
        if len(bias) == 1 and len(self._values[weight].shape) == 2:
            self._replace({place, follower}, follower, "Gemm", [*product.input, *bias], name=product.name)

    # What nodes are

    def made_by(self, name: str, *kinds: str) -> int | None:
        """Return the place of the node that makes a tensor, if it is of one of ``kinds``; of any kind without them.

        None if no node makes it, or one of another kind.
        """
        place = self._made.get(name)
        return place if place in self._nodes and (not kinds or self._nodes[place].op_type in kinds) else None

    def varying(self, node: Message) -> list[str]:
        """Return the names of the inputs of a node that are no constants, in their order."""
        return [name for name in node.input if name and name not in self._constant]

    def readers(self, node: Message) -> set[int]:
        """Return the places of the nodes that read what a node makes; -1 stands for a result of the model."""
        found = {-1} if not self._outputs.isdisjoint(node.output) else set[int]()
        return found.union(*(self._readers.get(name, ()) for name in node.output))

    def is_scalar(self, name: str) -> bool:
        """Return whether a name is a constant of one element; True for the empty name of an input that is left out."""
        value = self._values.get(name)
        return not name or (name in self._constant and value is not None and value.elements == 1)

    def number(self, name: str) -> float | None:
        """Return the value of a constant of one element; None for other names and for what cannot be computed."""
        value = self._model.constants.value(name, 1) if self.is_scalar(name) and name else None
        return None if value is None else float(value.reshape(-1)[0])

    def channels(self, node: Message) -> list[str]:
        """Return the names of constants that a node reads and that hold one number for each channel of its result, in
        one axis or behind axes of 1.

        Channels are the last axis; only floating-point constants count.
        """
        last = self._values[node.output[0]].shape[-1:]
        known = ((name, value) for name in node.input if name in self._constant and (value := self._values.get(name)))
        return [name for name, value in known if value.floating and value.shape[-1:] == last == (value.elements,)]

    def _only_reader(self, name: str) -> int | None:
        """Return the place of the one node that reads the tensor ``name``; None if several or none do, or if the tensor
        is a result of the model."""
        readers = self._readers.get(name, set())
        return next(iter(readers)) if len(readers) == 1 and name not in self._outputs else None

    def _closed(self, parts: set[int]) -> bool:
        """Return whether nothing but the nodes at the places ``parts`` reads what they make, the results of the last of
        them aside; a result of the model counts as read by something else."""
        return all(
            self._readers.get(name, set()) <= parts and name not in self._outputs
            for place in parts - {max(parts)}
            for name in self._nodes[place].output
        )

    def _replace(
        self, parts: set[int], end: int, kind: str, inputs: Sequence[str], name: str = "", **attributes: int
    ) -> None:
        """Put one node of this kind in the place ``end`` and remove the nodes at ``parts``; the new node makes the
        first result of the last one.

        Nothing is done unless ``end`` is the last part and nothing outside reads what the others make.

        Args:
            parts: places of the nodes that it replaces.
            end: place of the last of them.
            kind: type of the new operator.
            inputs: names of the tensors that it reads.
            name: of the node; that of the last part where it is empty.
            attributes: whole numbers of the new node, by name.
        """
        if end != max(parts) or not self._closed(parts):
            return
        last = self._nodes[end]
        node = type(last)(op_type=kind, input=inputs, output=last.output[:1], name=name or last.name)
        for key, value in attributes.items():
            attribute = node.attribute.add()
            attribute.name, attribute.type, attribute.i = key, 2, value
        for place in parts:
            for read in self._nodes.pop(place).input:
                self._readers[read].discard(place)
        self._nodes[end] = node
        for read in inputs:
            self._readers.setdefault(read, set()).add(end)


class _Norms(NormFinder):
    """Finder of norms written in parts among the nodes of a model; their reads and sources leave constants out."""

    def __init__(self, nodes: Mapping[int, Message], merger: _Merger) -> None:
        """Note words, reads, sources and readers of the nodes, by their places."""
        self._nodes, self._merger = nodes, merger
        self.words = {place: self._word(node) for place, node in nodes.items()}
        reads = {place: merger.varying(node) for place, node in nodes.items()}
        self.reads = reads
        self.sources = {place: [merger.made_by(name) for name in names] for place, names in reads.items()}
        self.readers = {place: merger.readers(node) for place, node in nodes.items()}

    def _word(self, node: Message) -> str:
        """Return the word by which norms are found of a node: its name in small letters or PyTorch's.

        ``square`` and ``power`` part the exponents of ``Pow``; a division of a scalar is ``reciprocal``.
        """
        if node.op_type == "Pow":
            return "square" if self._merger.number(node.input[1]) == 2 else "power"
        if node.op_type == "Div" and self._merger.is_scalar(node.input[0]):
            return "reciprocal"
        return _NORM_WORDS.get(node.op_type, str(node.op_type).lower())

    def weighs(self, place: int, last: int) -> bool:
        """Return whether the node at ``place`` reads exactly one floating constant that holds a number for each channel
        of its result; ``last``, the end of the norm before it, does not matter."""
        return len(self._merger.channels(self._nodes[place])) == 1
