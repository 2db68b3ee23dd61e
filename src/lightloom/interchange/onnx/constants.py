"""Values of small constants of an ONNX model, from which shapes follow that ``onnx.shape_inference`` leaves open.

    Shape(x) ──► Gather ──► Concat ──► Equal, Where ──► Expand

What shapes are computed with is a few numbers: such nodes are evaluated by ONNX's own reference, as they come.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Message: TypeAlias = Any
"""A message of ONNX's protocol buffers, or its module; ONNX is optional, so that its types are not imported."""
Array: TypeAlias = NDArray[Any]

LARGEST = 1 << 10
"""Most elements of a constant of which shapes are computed."""
LARGEST_MASK = 1 << 24
"""Most elements of a mask that is evaluated: 4,096 tokens of one sample."""
_WORDS = """
    Abs Add And Cast Ceil Concat Constant ConstantOfShape Div Equal Expand Flatten Floor Gather Greater GreaterOrEqual
    Identity Less LessOrEqual Max Min Mod Mul Neg Not OneHot Or Pow Range ReduceMax ReduceMin ReduceProd ReduceSum
    Reshape Round ScatterND Slice Sqrt Squeeze Sub Transpose Trilu Unsqueeze Where
"""
_EVALUATED = frozenset(_WORDS.split())


class Constants:
    """Constants of a model by name, as far as they are known."""

    def __init__(self, onnx: Message, model: Message, largest: int = LARGEST) -> None:
        """Begin with the initializers of at most ``largest`` elements whose data are in the file."""
        self._onnx, self._largest = onnx, largest
        self._imports, self._version = list(model.opset_import), model.ir_version
        self._makers = {name: node for node in model.graph.node for name in node.output if name}
        self.values: dict[str, Array] = {}
        for each in model.graph.initializer:
            if math.prod(each.dims) <= largest and each.data_location != onnx.TensorProto.EXTERNAL:
                self._keep(each.name, lambda each=each: onnx.numpy_helper.to_array(each))

    def add(self, node: Message, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Evaluate a node where all that it reads is known; ``shapes`` are those of tensors, known or not."""
        if node.op_type in ("Shape", "Size"):
            self._add_size(node, shapes)
            return
        read = [name for name in node.input if name]
        if node.op_type not in _EVALUATED or any(name not in self.values for name in read):
            return
        self._keep(node.output[0], lambda: self._evaluated(node, read))

    def evaluate(self, name: str, shapes: Mapping[str, tuple[int, ...]], largest: int) -> Array | None:
        """Return a constant of at most ``largest`` elements; None for what is none, or cannot be evaluated."""
        larger = Constants.__new__(Constants)
        larger._onnx, larger._largest, larger._makers = self._onnx, largest, self._makers
        larger._imports, larger._version, larger.values = self._imports, self._version, dict(self.values)
        waiting = [name]
        tried = set[str]()
        while waiting:
            node = self._makers.get(waiting[-1])
            missing = [each for each in node.input if each and each not in larger.values] if node is not None else []
            if node is None or waiting[-1] in larger.values or waiting[-1] in tried:
                waiting.pop()
            elif node.op_type in ("Shape", "Size") or not missing:
                tried.add(waiting.pop())
                larger.add(node, shapes)
            elif any(each in tried or each not in self._makers for each in missing):
                return None
            else:
                waiting += missing
        return larger.values.get(name)

    def tensors(self, node: Message) -> dict[str, Message]:
        """Return what is known of the inputs of a node, as tensors of ONNX."""
        return {
            name: self._onnx.numpy_helper.from_array(self.values[name], name)
            for name in node.input
            if name in self.values
        }

    def _add_size(self, node: Message, shapes: Mapping[str, tuple[int, ...]]) -> None:
        shape = shapes.get(node.input[0])
        if shape is None:
            return
        ends = {each.name: each.i for each in node.attribute}
        part = shape[ends.get("start", 0) : ends.get("end", len(shape))]
        value = np.array(part, np.int64) if node.op_type == "Shape" else np.array(math.prod(shape), np.int64)
        self.values[node.output[0]] = value

    def _elements(self, node: Message) -> int:
        """Return how many elements the result of a node has, at most."""
        read = [self.values[name] for name in node.input if name]
        if node.op_type == "ConstantOfShape":
            return math.prod(max(int(size), 0) for size in read[0].reshape(-1))
        if node.op_type == "Range":
            start, end, step = (float(each.reshape(-1)[0]) for each in read)
            return math.ceil(abs((end - start) / step)) if step else self._largest + 1
        if node.op_type == "OneHot":
            return read[0].size * int(read[1].reshape(-1)[0])
        if node.op_type in ("Gather", "Concat"):
            return sum(each.size for each in read) if node.op_type == "Concat" else read[0].size * read[1].size
        try:
            wanted = tuple(int(size) for size in read[1].reshape(-1)) if node.op_type == "Expand" else ()
            shapes = [each.shape for each in read[: 1 if wanted else None]]
            return math.prod(np.broadcast_shapes(*shapes, wanted))
        except ValueError:  # operands that are not combined element by element
            return max((each.size for each in read), default=0)

    def _evaluated(self, node: Message, read: list[str]) -> Array | None:
        if self._elements(node) > self._largest:
            return None
        make = self._onnx.helper
        inputs = [make.make_tensor_value_info(name, 0, None) for name in dict.fromkeys(read)]
        graph = make.make_graph([node], "node", inputs, [make.make_tensor_value_info(node.output[0], 0, None)])
        model = make.make_model(graph, opset_imports=self._imports, ir_version=self._version)
        result: Array = self._onnx.reference.ReferenceEvaluator(model).run(None, {n: self.values[n] for n in read})[0]
        return result

    def _keep(self, name: str, compute: Any) -> None:
        """Keep a constant that can be computed; one that cannot stays unknown, and with it the shapes that need it."""
        try:
            with np.errstate(all="ignore"):
                value = np.asarray(compute())
        except Exception:
            return
        if value.dtype != object and value.size <= self._largest:
            self.values[name] = value
