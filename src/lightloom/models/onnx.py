"""ONNX models as compute graphs: operators with shapes, FLOPs and bytes.

parameters   floating constants that an operator multiplies, adds or looks up, each counted where it is first used
statistics   running means and variances of batch norms, which no gradient reaches
backward     gradients of operands that depend on a parameter, and of parameters
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from lightloom.core.errors import WorkloadError, about
from lightloom.models import operator_words
from lightloom.models.graph import TENSOR_KINDS, ComputeGraph, Operator, has_samples
from lightloom.models.onnx_shapes import ShapedModel, Value, attribute, makes_constants, merged, shaped_model
from lightloom.models.operator_words import KIND_OF_WORD, VIEWS, Product, Shape, has_rule
from lightloom.models.traces.calls import named_sizes, other_flops
from lightloom.models.traces.operators import TraceReading, numbered

# Kinds and FLOPs of ONNX operators, from the table of operators, into whose words they are translated.

Node: TypeAlias = Any
"""A ``NodeProto``; ONNX is optional, so that its types are not imported."""
Values: TypeAlias = Sequence[Value | None]
"""Shapes of what a node reads, in order; None where an input is left out or has no shape."""

_OPERATORS = {
    "convolution": "Conv ConvInteger QLinearConv DeformConv",
    "conv_transpose2d": "ConvTranspose",
    "mm": "Gemm",
    "grouped_mm": "GroupedMatMul",
    "matmul": "MatMul MatMulInteger QLinearMatMul",
    "rnn_tanh": "RNN",
    "batch_norm": "BatchNormalization",
    "layer_norm": "LayerNormalization InstanceNormalization MeanVarianceNormalization GroupNormalization "
    "RMSNormalization LpNormalization",
    "max_pool2d": "MaxPool AveragePool GlobalAveragePool GlobalMaxPool LpPool GlobalLpPool",
    "relu": "HardSwish HardSigmoid Clip ThresholdedRelu Shrink Swish SwiGLU",
    "softmax": "Hardmax",
    "topk": "TopK",
    "cross_entropy": "NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss",
    "sum": "ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd "
    "ReduceSum ArgMax ArgMin",
    "view": "BitCast",
    "copy": "Cast CastLike GatherElements GatherND ScatterElements ScatterND TensorScatter Tile Compress CenterCropPad "
    "DepthToSpace SpaceToDepth ReverseSequence Trilu EyeLike Constant ConstantOfShape RandomNormal RandomNormalLike "
    "RandomUniform RandomUniformLike Col2Im",
    "add": "Sum Mean",
    "mul": "Resize Upsample Max Min Equal Greater GreaterOrEqual Less LessOrEqual And Or Xor Not BitShift Mod IsInf "
    "IsNaN CumSum CumProd DequantizeLinear RotaryEmbedding QuantizeLinear DynamicQuantizeLinear",
}
"""Operators of ONNX by a word of the table of operators with the same rule, where that is another than their own."""
_WORDS = {name: word for word, names in _OPERATORS.items() for name in names.split()}


def word_of(node: Node) -> str:
    """Return the word of the table of operators for a node: that of an operator with the same rule if it is listed
    (``Gemm`` is mm), else the node's own name in small letters with underscores (``LeakyRelu`` is leaky_relu)."""
    name: str = node.op_type
    return _WORDS.get(name) or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def kind_of(node: Node, product: Product | None, summands: int, weighted: bool) -> str:
    """Return the kind of a node, one of ``graph.KINDS``.

    A weighted ``Gather`` is an embedding, a weighted matrix product linear.

    Args:
        node: the node.
        product: FLOPs, shape and sums of what it multiplies, as of :func:`product_of`; None where it multiplies no
            matrices.
        summands: number of operators whose results it reads.
        weighted: whether it reads parameters.
    """
    word = word_of(node)
    if weighted and node.op_type == "Gather":
        return "embedding"
    made = [word] if product is not None and product.flops else []
    kind = operator_words.kind_of(word, made, [word], summands)
    return "linear" if weighted and made and word in ("mm", "matmul") else kind


def product_of(node: Node, inputs: Values, output: Value) -> Product | None:
    """Return what a node multiplies (FLOPs, places of its factors, length of its sums and shape of its result, as
    :func:`lightloom.models.operator_words.product` gives them); None for a kind of node that multiplies no matrices.

    Args:
        node: the node.
        inputs: shapes of what it reads, in order; None for an input that is left out.
        output: shape of its first result.

    Raises:
        WorkloadError: an operand is missing, or an equation or shapes that cannot be read.
    """
    name, word, values = node.op_type, word_of(node), list[object]()
    if (kind := KIND_OF_WORD.get(word)) not in TENSOR_KINDS:
        return None
    if name == "Einsum":
        shapes = [each.shape for each in inputs if each is not None]
        values = [attribute(node, "equation", b"").decode()]
    else:
        places = (0, 1, 2) if kind in ("recurrent", "attention") else (0, weight_place(node))
        shapes = [_operand(node, inputs, place).shape for place in places]
    if name == "Gemm":
        flags = (attribute(node, flag, 0) for flag in ("transA", "transB"))
        shapes = [shape[::-1] if flag else shape for shape, flag in zip(shapes, flags, strict=True)]
    elif kind == "recurrent":  # weights (directions, gates · H, I) and (directions, gates · H, H), as one matrix each
        shapes[1:] = [(directions * gates, width) for directions, gates, width in shapes[1:]]
    elif kind == "attention":
        shapes = _heads(node, shapes)
    if (made := operator_words.product(word, shapes, output.shape, values)) is None:
        told = f"Einsum {values[0]!r}: expected one label an axis" if values else f"{name}: operands {shapes}"
        raise WorkloadError(f"node {node.name or node.output[0]!r}: {told}")
    return made


def weight_place(node: Node) -> int:
    """Return the place among a node's inputs of the weight of a product or convolution: 3 for quantized ones, else
    1."""
    return 3 if node.op_type.startswith("QLinear") else 1


def _heads(node: Node, shapes: Sequence[Shape]) -> list[Shape]:
    """Return the shapes of queries, keys and values as (B, H, T, D), from (B, T, H · D) by the attributes of ``node``
    that number the heads (1 by default); those of four axes stay. ``shapes`` are the three, in this order."""
    heads = [attribute(node, name, 1) for name in ("q_num_heads", "kv_num_heads", "kv_num_heads")]
    return [
        shape if len(shape) == 4 else (shape[0], count, shape[1], shape[2] // count)
        for shape, count in zip(shapes, heads, strict=True)
    ]


def _operand(node: Node, inputs: Values, place: int) -> Value:
    """Return the input of a node at a place among ``inputs``; WorkloadError where it is missing or has no axes."""
    value = inputs[place] if place < len(inputs) else None
    if value is None or not value.shape:
        raise WorkloadError(f"node {node.name or node.output[0]!r} ({node.op_type}): operand {place} has no axes")
    return value


_ELEMENT_BYTES = 4
_TRACED = 13
"""Samples where the first axis is dynamic: a prime that no layer size has."""
_STATISTICS = {"BatchNormalization": (3, 4)}
_TABLES = frozenset({"Cos", "Sin", "Range", "Trilu", "Where", "CumSum"})
"""Nodes that make constants from positions, such as rotation tables and masks, which are no parameters."""


def read_onnx(
    path: Path, *, sequence_length: int | None = None, definitions: Mapping[str, str] | None = None
) -> TraceReading:
    """Return the graph of a model, for as many samples as the first axis of its first input has, or 13 where that is
    dynamic, with sentences on what the file does not say.

    Args:
        path: the file; data outside of it are not read.
        sequence_length: size of dynamic axes of tokens, those whose name holds seq, token or length.
        definitions: sizes of dynamic axes as decimal texts, by their names, or by ``INPUT.AXIS`` where they have none.

    Raises:
        ConfigError: unreadable, no ONNX model, a dynamic dimension without a size (names it and the option), or a
            definition of none.
        WorkloadError: ``onnx`` is missing, or the graph has control flow, foreign operators or unknown shapes.
    """
    model = shaped_model(path, batch=_TRACED, sequence_length=sequence_length, definitions=definitions or {})
    with about(path):
        return _OnnxGraph(path, merged(model)).reading()


class _OnnxGraph:
    """Builder of the graph of a model, node by node in order."""

    def __init__(self, path: Path, model: ShapedModel) -> None:
        """Begin with the initializers as constants and the inputs as samples."""
        self._path, self._model = path, model
        self._constants = set(model.initializers)
        self._tables: set[str] = set()
        self._origin: dict[str, str] = {}
        """Constants of which others are views: a parameter counts once, however it is read."""
        self._producer: dict[str, str] = {name: f"input.{name}" for name in model.inputs}
        self._sampled = set(model.inputs)
        self._needs_gradient: set[str] = set()
        self._counted: set[str] = set()
        self._statistics: set[str] = set()
        self._names: Counter[str] = Counter()
        self._views = self._folded = 0
        self._guessed: list[str] = []
        """Sentences on what the counts only guess."""

    def reading(self) -> TraceReading:
        """Return the graph, its inputs first, named after the file without its ending, and sentences on what the file
        does not say."""
        operators = (*self._inputs(), *self._operators())
        graph = ComputeGraph(
            name=self._path.stem,
            batch=self._model.batch,
            operators=operators,
            element_bytes=_ELEMENT_BYTES,
            uncounted=tuple(self._guessed),
        )
        return TraceReading(graph, tuple(self._unrecorded(len(operators) - len(self._model.inputs))))

    def _unrecorded(self, operators: int) -> Iterator[str]:
        """Yield sentences on what the file holds and does not say, and what is assumed instead; ``operators`` is the
        number of operators, inputs left out."""
        yield (
            f"{len(self._model.nodes)} nodes: {operators} operators, {self._views} views of their results, "
            f"{self._folded} constants"
        )
        if self._statistics:
            elements = sum(self._model.values[name].elements for name in self._statistics)
            yield f"{elements:,} elements of running statistics are no parameters"
        yield "which constants train: all floating ones that operators multiply, add or look up are taken as parameters"
        yield "loss, backward pass and optimizer: gradients as the operators need them"

    def _inputs(self) -> Iterator[Operator]:
        """Yield an operator of kind ``input``, named ``input.<name>``, for each input of the model."""
        for name in self._model.inputs:
            yield Operator(
                name=f"input.{name}",
                kind="input",
                dimensions=named_sizes("input", self._model.values[name].shape, self._model.batch, (), None),
                activation_bytes=self._model.values[name].elements * _ELEMENT_BYTES,
            )

    def _operators(self) -> Iterator[Operator]:
        """Yield an operator for each node in order, but for views and for nodes that only make constants, which are
        counted; a node that reads the result of a view depends on the operator that made what it shows."""
        for node in self._model.nodes:
            read = [name for name in node.input if name]
            if makes_constants(node, self._constants):
                self._constants.update(node.output)
                viewed = read[:1] if word_of(node) in VIEWS else []
                if node.op_type in _TABLES or not self._tables.isdisjoint(viewed or read):
                    self._tables.update(node.output)
                if viewed:
                    self._origin.update(dict.fromkeys(node.output, self._origin.get(read[0], read[0])))
                self._folded += 1
            elif word_of(node) in VIEWS:
                self._views += 1
                self._producer.update(dict.fromkeys(node.output, self._producer.get(read[0], "")))
                for group in (self._sampled, self._needs_gradient):
                    group.update(node.output if read[0] in group else ())
            else:
                yield self._operator(node)

    def _operator(self, node: Node) -> Operator:
        """Return the operator of a node, and note for later nodes which operator made its results, whether these depend
        on samples and need gradients, and which parameters are counted.

        Backward FLOPs of a product are its forward ones for each factor that needs a gradient; of other operators the
        forward ones if anything that they read needs one, else 0. Bytes count 4 an element.
        """
        values = [self._model.values.get(name) if name else None for name in node.input]
        output = next(self._model.values[name] for name in node.output if name in self._model.values)
        parameters = self._parameters(node, values)
        sources = tuple(dict.fromkeys(self._producer[n] for n in node.input if self._producer.get(n)))
        product = product_of(node, values, output)
        kind = kind_of(node, product, len(sources), bool(parameters))
        sampled = any(name in self._sampled for name in node.input)
        multiplied = product.flops if product is not None else 0
        forward = multiplied or other_flops(kind, (value.elements for value in (output, *values) if value is not None))
        needing = [name for name in node.input if name in self._needs_gradient or name in parameters]
        origins = dict.fromkeys(self._origin.get(name, name) for name in parameters)
        fresh = sum(self._model.values[name].elements for name in origins if name not in self._counted)
        self._counted.update(origins)
        name = numbered(self._names, node.name.strip("/").replace("/", ".") or node.op_type.lower())
        if not has_rule(word_of(node)):
            self._guessed.append(f"{name}: {node.op_type} has no rule: counted as one FLOP an element")
        self._producer.update(dict.fromkeys(node.output, name))
        self._sampled.update(node.output if sampled else ())
        self._needs_gradient.update(node.output if needing else ())
        read, shared = self._traffic(node, values, kind, output, sampled)
        return Operator(
            name=name,
            kind=kind,
            inputs=sources,
            dimensions=self._dimensions(node, kind, product, values, output.shape, sampled),
            forward_flops=forward,
            backward_flops=multiplied * _factors(node, needing) if multiplied else forward * bool(needing),
            parameters=fresh,
            parameter_bytes=fresh * _ELEMENT_BYTES,
            activation_bytes=output.elements * _ELEMENT_BYTES,
            forward_bytes=(read + output.elements) * _ELEMENT_BYTES,
            shared_bytes=shared * _ELEMENT_BYTES,
            block=node.name.strip("/").rpartition("/")[0].replace("/", "."),
            causal=node.op_type == "Attention" and bool(attribute(node, "is_causal", 0)),
        )

    def _parameters(self, node: Node, values: Values) -> list[str]:
        """Return the names of the floating constants of several elements that a node reads and trains, in order, those
        included that earlier nodes have read.

        Running statistics are noted and left out, as are tables of positions and all operands of ``Clip``, ``Resize``,
        ``Upsample``, ``Pad``, ``Where``, ``Pow``, ``Div`` and ``Range``.
        """
        held = []
        for place, (name, value) in enumerate(zip(node.input, values, strict=True)):
            constant = name in self._constants and name not in self._tables
            if value is None or not constant or not value.floating or value.elements <= 1:
                continue
            if place in _STATISTICS.get(node.op_type, ()):
                self._statistics.add(name)
            elif node.op_type not in ("Clip", "Resize", "Upsample", "Pad", "Where", "Pow", "Div", "Range"):
                held.append(name)
        return held

    def _traffic(self, node: Node, values: Values, kind: str, output: Value, sampled: bool) -> tuple[int, int]:
        """Return (elements read, elements read or written that do not grow with the batch) of a node.

        An embedding reads as many elements as it writes, none of them shared. Of other nodes each input counts once,
        and inputs that depend on no sample do not grow, nor does an output without samples, which only the second
        number holds.

        Args:
            node: the node.
            values: shapes of its inputs, in order; None for one that is left out.
            kind: of the operator, one of ``graph.KINDS``.
            output: shape of its first result.
            sampled: whether it depends on the samples.
        """
        named = {name: value for name, value in zip(node.input, values, strict=True) if value is not None}
        if kind == "embedding":
            return output.elements, 0
        read = sum(value.elements for value in named.values())
        shared = sum(value.elements for name, value in named.items() if name not in self._sampled)
        if not sampled or not has_samples(kind, output.elements, self._model.batch):
            shared += output.elements
        return read, shared

    def _dimensions(
        self, node: Node, kind: str, product: Product | None, values: Values, shape: Shape, sampled: bool
    ) -> dict[str, int]:
        """Return the named sizes of an operator with this output shape: of its axes (``sample`` only if it is
        ``sampled``), and of what it sums or repeats over, such as ``in_channel``, ``head`` or ``kernel_height``.

        ``product`` is what the node multiplies (None for nothing), ``values`` the shapes that it reads.
        """
        batch = self._model.batch if sampled else None
        places = (0, weight_place(node)) if kind == "conv" else (0, 1)
        factors = [value.shape for place in places if place < len(values) and (value := values[place]) is not None]
        if kind == "attention":  # of queries and keys as (sample, head, T, D); axes of other forms have no names
            factors = [(batch or 1, *factor[1:]) for factor in factors] if {len(f) for f in factors} == {4} else []
        summed = None if product is None or kind in ("recurrent", "attention") else product.summed
        return named_sizes(kind, shape, batch, factors, summed)


def _factors(node: Node, needing: Sequence[str]) -> int:
    """Return how many times the FLOPs of a node's product its backward pass takes: the number of its factors whose
    names are in ``needing``, which lists those that need a gradient.

    A bias is added, not multiplied, and does not count; of a recurrent layer only the input and the weights that
    multiply it do. Attention is two products of two operands each, of half its FLOPs: 2 if any of its operands needs
    one, else 0.
    """
    if node.op_type == "Attention":
        return 2 * any(name in needing for name in node.input[:3])
    places = {"Conv": 2, "ConvTranspose": 2, "Gemm": 2, "LSTM": 2, "GRU": 2, "RNN": 2}
    return sum(name in needing for name in node.input[: places.get(node.op_type, len(node.input))])
