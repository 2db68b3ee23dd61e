"""Parts of one kernel as one node: exporters write attention, norms and activations in the operators that ONNX has.

    MatMul ──► Mul ──► Add(mask) ──► Softmax ──► MatMul           Attention(q, k, v)
    Pow ──► ReduceMean ──► Add ──► Sqrt ──► Div ──► Mul ──► Mul   RMSNormalization(x, weight)
    Div ──► Erf ──► Add ──► Mul ──► Mul                           Gelu(x)
    MatMul ──► Add(bias)                                          Gemm(x, weight, bias)

Accelerators run each as one kernel, and modules are traced so. Parts whose results something else reads stay apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lightloom.interchange.onnx.constants import LARGEST_MASK
from lightloom.interchange.onnx.shapes import ShapedModel, Value, is_view

Node: TypeAlias = Any
"""A ``NodeProto``; ONNX is optional, so that its types are not imported."""

_WORDS = "Abs Add Clip Div Erf Exp Max Min Mul Neg Pow Reciprocal Sigmoid Sqrt Sub Tanh"
_POINTWISE = frozenset(_WORDS.split())
_ACTIVATIONS = {"Erf": "Gelu", "Tanh": "Gelu", "Sigmoid": "Swish"}
"""What tells a kind of activation."""
_VIEWS = ("Identity", "Reshape", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze")
_CASTS = ("Cast", "Identity")
_DEEPEST = 12
"""Most parts of an activation."""


def merged(model: ShapedModel) -> ShapedModel:
    """Return the model with each kernel that is written in parts as one node, in the place of its last part."""
    return _Merger(model).model()


class _Merger:
    def __init__(self, model: ShapedModel) -> None:
        self._model, self._values = model, dict(model.values)
        self._nodes: dict[int, Node] = dict(enumerate(model.nodes))
        self._aliases: dict[int, list[Node]] = {}
        """Views that come before the node at a place."""
        self._made = {name: place for place, node in self._nodes.items() for name in node.output if name}
        self._constant = set(model.initializers)
        for node in model.nodes:
            if node.op_type in ("Constant", "ConstantOfShape", "Shape", "Range") or (
                node.input and all(name in self._constant for name in node.input if name)
            ):
                self._constant.update(node.output)
        self._readers: dict[str, set[int]] = {}
        for place, node in self._nodes.items():
            for name in node.input:
                self._readers.setdefault(name, set()).add(place)
        self._outputs = set(model.outputs)
        self._shapes = {name: value.shape for name, value in model.values.items()}
        self._known: dict[tuple[str, ...], bool] = {}

    def model(self) -> ShapedModel:
        """Merge one kind of kernel after the other."""
        for place in list(self._nodes):
            self._drop_nothing(place)
            self._keep_type(place)
            self._select(place)
            self._copy(place)
        for place in list(self._nodes):
            self._merge_norm(place)
        for place in list(self._nodes):
            self._merge_activation(place)
        for place in list(self._nodes):
            self._merge_attention(place)
        for place in list(self._nodes):
            self._merge_experts(place)
            self._merge_bias(place)
        nodes = [each for place in sorted(self._nodes) for each in (*self._aliases.get(place, ()), self._nodes[place])]
        return replace(self._model, nodes=tuple(nodes), values=self._values)

    def _drop_nothing(self, place: int) -> None:
        """Make a view of dropout that drops nothing."""
        node = self._nodes[place]
        if node.op_type != "Dropout" or not (node.input[1:] or node.attribute):
            return
        given = [self._number(name) for name in node.input[1:]]
        ratios = [each.f for each in node.attribute if each.name == "ratio"]
        if 0 in given or 0 in ratios:
            self._view(place)

    def _keep_type(self, place: int) -> None:
        """Make a view of a cast to the type that a tensor has."""
        node = self._nodes[place]
        if node.op_type != "Cast":
            return
        read, made = self._values.get(node.input[0]), self._values.get(node.output[0])
        if read is not None and made is not None and read.data_type == made.data_type:
            self._view(place)

    def _select(self, place: int) -> None:
        """Make a view of what is taken at one constant index of an axis."""
        node = self._nodes[place]
        if node.op_type == "Gather" and node.input[0] not in self._constant and self._is_scalar(node.input[1]):
            self._view(place, "Squeeze")

    def _view(self, place: int, kind: str = "Identity") -> None:
        node = self._nodes[place]
        for name in node.input[1:]:
            self._readers[name].discard(place)
        self._nodes[place] = type(node)(op_type=kind, input=node.input[:1], output=node.output[:1], name=node.name)

    def _copy(self, place: int) -> None:
        """Make a copy of a reshaped tensor whose axes were transposed so that no strides can say what is meant."""
        node = self._nodes[place]
        source = self._maker(node.input[0]) if node.op_type == "Reshape" else None
        if source is None or not self._is(source, "Transpose") or node.input[0] in self._constant:
            return
        before, after = (self._values[name].shape for name in (self._nodes[source].input[0], node.output[0]))
        order = _attribute(self._nodes[source], "perm") or list(range(len(before)))[::-1]
        if not is_view(before, order, after):
            self._view(place, "Contiguous")

    # Norms

    def _merge_norm(self, place: int) -> None:
        root = self._nodes.get(place)
        if root is None or root.op_type != "Sqrt":
            return
        parts, name = {place}, root.input[0]
        while (source := self._maker(name)) is not None and self._is(source, "Add", "Clip", "Max", *_CASTS):
            parts.add(source)
            name = self._varying(self._nodes[source])
        if source is None or not self._is(source, "ReduceMean"):
            return
        square = self._maker(self._nodes[source].input[0])
        if square is None or not self._squares(self._nodes[square]):
            return
        values = self._nodes[square].input[0]
        parts |= {source, square}
        scale, end = root.output[0], self._only_reader(root.output[0])
        if end is not None and self._inverts(self._nodes[end], scale):
            parts.add(end)
            scale, end = self._nodes[end].output[0], self._only_reader(self._nodes[end].output[0])
        if end is None or not self._is(end, "Mul", "Div") or values not in self._nodes[end].input:
            return
        parts.add(end)
        parts, end, weights = self._with_channels(parts, end)
        centred, parts, values = self._before_norm(parts, values)
        self._replace(
            parts, end, "LayerNormalization" if centred or len(weights) > 1 else "RMSNormalization", [values, *weights]
        )

    def _with_channels(self, parts: set[int], end: int) -> tuple[set[int], int, list[str]]:
        """Add weight and bias of the channels, which follow."""
        weights: list[str] = []
        while (follower := self._only_reader(self._nodes[end].output[0])) is not None:
            node = self._nodes[follower]
            channels = [n for n in node.input if n in self._constant and self._is_channels(n, node.output[0])]
            if node.op_type in _CASTS:
                pass
            elif node.op_type in ("Mul", "Add") and len(channels) == 1:
                weights += channels
            else:
                break
            parts.add(follower)
            end = follower
        return parts, end, weights

    def _before_norm(self, parts: set[int], values: str) -> tuple[bool, set[int], str]:
        """Add casts of what a norm reads, and what takes away the mean."""
        source, centred = self._maker(values), False
        if source is not None and self._is(source, "Sub") and self._readers[values] <= parts:
            mean = self._maker(self._nodes[source].input[1])
            if mean is not None and self._is(mean, "ReduceMean"):
                centred = True
                parts |= {source, mean}
                values = self._nodes[source].input[0]
                source = self._maker(values)
        if source is not None and self._is(source, *_CASTS) and self._readers[values] <= parts:
            parts.add(source)
            values = self._nodes[source].input[0]
        return centred, parts, values

    def _squares(self, node: Node) -> bool:
        if node.op_type == "Pow":
            return self._number(node.input[1]) == 2
        return bool(node.op_type == "Mul") and len(set(node.input)) == 1

    def _inverts(self, node: Node, name: str) -> bool:
        if node.op_type == "Reciprocal":
            return True
        return node.op_type == "Div" and bool(node.input[1] == name) and self._is_scalar(node.input[0])

    # Activations

    def _merge_activation(self, place: int) -> None:
        seed = self._nodes.get(place)
        if seed is None or seed.op_type not in _ACTIVATIONS:
            return
        best: set[int] = set()
        source = ""
        for name in self._arguments(place):
            region = self._region(place, name)
            if len(region) > len(best):
                best, source = region, name
        if len(best) > 1:
            self._replace(best, max(best), _ACTIVATIONS[seed.op_type], [source])

    def _arguments(self, place: int) -> Iterator[str]:
        """Yield the tensors of which what is computed there may be a function."""
        waiting, seen = [place], set[str]()
        while waiting and len(seen) < _DEEPEST:
            node = self._nodes[waiting.pop()]
            for name in node.input:
                if not name or name in self._constant or name in seen:
                    continue
                seen.add(name)
                yield name
                maker = self._maker(name)
                if maker is not None and self._nodes[maker].op_type in _POINTWISE:
                    waiting.append(maker)

    def _region(self, place: int, argument: str) -> set[int]:
        """Return the nodes that compute an element from one of ``argument``; none if others read parts of it."""
        region, waiting = set[int](), [place]
        while waiting:
            at = waiting.pop()
            if at in region:
                continue
            if self._nodes[at].op_type not in _POINTWISE or len(region) >= _DEEPEST:
                return set()
            region.add(at)
            for name in self._nodes[at].input:
                if not self._is_of(argument, name):
                    maker = self._maker(name)
                    if maker is None:
                        return set()
                    waiting.append(maker)
        while len(region) < _DEEPEST:
            last = max(region)
            follower = self._only_reader(self._nodes[last].output[0])
            if follower is None or self._nodes[follower].op_type not in _POINTWISE:
                break
            inner = {name for at in region for name in self._nodes[at].output}
            others = [n for n in self._nodes[follower].input if n not in inner and not self._is_of(argument, n)]
            beside = {maker for name in others if (maker := self._maker(name)) is not None}
            if len(beside) < len(others) or not all(self._scales(at, argument) for at in beside):
                break
            region |= {follower, *beside}
        return region if self._closed(region) else set()

    def _scales(self, place: int, argument: str) -> bool:
        """Whether a node is arithmetic of one tensor and scalars."""
        node = self._nodes[place]
        return node.op_type in _POINTWISE and all(self._is_of(argument, name) for name in node.input)

    def _is_of(self, argument: str, name: str) -> bool:
        return name == argument or self._is_scalar(name)

    # Attention

    def _merge_attention(self, place: int) -> None:
        softmax = self._nodes.get(place)
        if softmax is None or softmax.op_type != "Softmax" or len(self._values[softmax.output[0]].shape) != 4:
            return
        if any(each.name == "axis" and each.i not in (-1, 3) for each in softmax.attribute):
            return
        parts, masks, name = {place}, list[tuple[str, ...]](), softmax.input[0]
        while (source := self._maker(name)) is not None and self._is(source, "Add", "Mul", "Div", "Where", *_CASTS):
            node = self._nodes[source]
            varying = [each for each in node.input if each not in self._constant]
            if len(varying) != 1:
                return
            if not all(self._is_scalar(each) for each in node.input if each in self._constant):
                masks.append((node.op_type, *("" if each in varying else each for each in node.input)))
            parts.add(source)
            name = varying[0]
        if source is None or not self._is(source, "MatMul"):
            return
        parts.add(source)
        end = self._finite(parts, softmax.output[0])
        while end is not None and self._is(end, "Dropout", *_CASTS):
            parts.add(end)
            end = self._only_reader(self._nodes[end].output[0])
        if end is None or not self._is(end, "MatMul") or self._maker(self._nodes[end].input[0]) not in parts:
            return
        parts.add(end)
        q, k = (self._unscaled(parts, each) for each in self._nodes[source].input)
        k, v = self._heads(self._keys(k)), self._heads(self._nodes[end].input[1])
        if not k or min(len(self._values[each].shape) for each in (q, k, v)) != 4:
            return
        causal = bool(masks)
        if not all(self._is_causal(mask) for mask in masks):
            return
        self._replace(parts, end, "Attention", [q, k, v], is_causal=int(causal))

    def _finite(self, parts: set[int], name: str) -> int | None:
        """Return what reads the weights, where those of tokens that see none are first made 0."""
        readers = self._readers.get(name, set())
        chosen = [at for at in readers if self._is(at, "Where")]
        if len(readers) == 2 and len(chosen) == 1 and all(self._is(at, "Where", "IsNaN") for at in readers):
            parts |= readers
            return self._only_reader(self._nodes[chosen[0]].output[0])
        return self._only_reader(name)

    def _unscaled(self, parts: set[int], name: str) -> str:
        """Return an operand before its scaling."""
        while (source := self._maker(name)) is not None and self._is(source, "Mul", "Div"):
            if self._readers[name] - parts or not any(self._is_scalar(each) for each in self._nodes[source].input):
                break
            parts.add(source)
            name = self._varying(self._nodes[source])
        return name

    def _keys(self, name: str) -> str:
        """Return keys (sample, head, T, D) of keys (sample, head, D, T); nothing if they were never so."""
        source = self._maker(name)
        if source is None or not self._is(source, "Transpose") or len(self._values[name].shape) != 4:
            return ""
        samples, heads, size, tokens = self._values[name].shape
        node = self._nodes[source]
        if _attribute(node, "perm") == [0, 1, 3, 2]:
            return str(node.input[0])
        return self._viewed(source, node.input[0], (samples, heads, tokens, size))

    def _heads(self, name: str) -> str:
        """Return keys or values as computed, not repeated for the heads of queries that share them."""
        if not name:
            return name
        reshape = self._maker(name)
        expand = self._maker(self._nodes[reshape].input[0]) if reshape is not None else None
        single = self._maker(self._nodes[expand].input[0]) if expand is not None else None
        if reshape is None or expand is None or single is None:
            return name
        if not (self._is(reshape, "Reshape") and self._is(expand, "Expand") and self._is(single, "Unsqueeze")):
            return name
        return str(self._nodes[single].input[0])

    def _viewed(self, place: int, source: str, shape: tuple[int, ...]) -> str:
        name = f"{source} as {shape}"
        if name not in self._values:
            self._values[name] = Value(shape=shape, floating=True)
            view = type(self._nodes[place])(op_type="Identity", input=[source], output=[name])
            self._aliases.setdefault(place, []).append(view)
        return name

    def _is_causal(self, mask: tuple[str, ...]) -> bool:
        """Whether a mask, as what a node does with the scores, leaves to each token exactly those up to it."""
        if mask not in self._known:
            kept = self._kept(*mask)
            self._known[mask] = (
                kept is not None
                and kept.ndim >= 2
                and kept.shape[-1] == kept.shape[-2]
                and bool((kept == np.tri(kept.shape[-1], dtype=bool)).all())
            )
        return self._known[mask]

    def _kept(self, word: str, *operands: str) -> NDArray[np.bool_] | None:
        """Return which scores a node leaves, where it adds to them or chooses between them and a constant."""
        name = operands[0] or operands[-1] if word == "Add" else operands[0] if word == "Where" else ""
        mask = self._model.constants.evaluate(name, self._shapes, LARGEST_MASK) if name else None
        if mask is None:
            return None
        kept: NDArray[np.bool_] = mask > -1e4 if word == "Add" else mask.astype(bool) == (operands[1] == "")
        return kept

    # Products

    def _merge_experts(self, place: int) -> None:
        """Make one product of the rows of experts out of one for each row, which copies the weights of its expert.

        Rows of one product lie by expert; a copy puts them back into the order of the tokens.
        """
        product = self._nodes.get(place)
        if product is None or product.op_type != "MatMul":
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
            self._values[rows_made] = Value(shape=(rows, wide), floating=True)
            self._aliases[place].append(
                node(op_type="GroupedMatMul", input=[tokens, weights], output=[rows_made], name=product.name)
            )
            back = "Reshape" if self._meets_experts(made) else "Contiguous"
            self._replace({*parts, place}, place, back, [rows_made])
            return

    def _meets_experts(self, name: str) -> bool:
        """Whether the elements of a tensor go on to another product with the weights of experts."""
        waiting, seen = [name], set[int]()
        while waiting:
            for place in self._readers.get(waiting.pop(), set()) - seen:
                seen.add(place)
                node = self._nodes[place]
                if node.op_type == "MatMul" and any(self._chosen(each)[1] for each in node.input):
                    return True
                if node.op_type in _POINTWISE or node.op_type in _VIEWS or node.op_type in _ACTIVATIONS.values():
                    waiting += node.output
        return False

    def _chosen(self, name: str) -> tuple[set[int], str]:
        """Return the nodes that choose a matrix for each row out of a constant stack of them, and the stack."""
        parts: set[int] = set()
        while (source := self._maker(name)) is not None and self._is(source, "Transpose", *_CASTS):
            parts.add(source)
            name = self._nodes[source].input[0]
        if source is None or not self._is(source, "Gather") or len(self._values[name].shape) != 3:
            return parts, ""
        stack, chosen = self._nodes[source].input
        stacked = stack in self._constant and len(self._values[stack].shape) == 3 and self._values[stack].floating
        return parts | {source}, str(stack) if stacked and chosen not in self._constant else ""

    def _merge_bias(self, place: int) -> None:
        product = self._nodes.get(place)
        if product is None or product.op_type != "MatMul" or product.input[1] not in self._constant:
            return
        follower = self._only_reader(product.output[0])
        if follower is None or not self._is(follower, "Add"):
            return
        node = self._nodes[follower]
        bias = [n for n in node.input if n in self._constant and self._is_channels(n, node.output[0])]
        if len(bias) == 1 and len(self._values[product.input[1]].shape) == 2:
            self._replace({place, follower}, follower, "Gemm", [*product.input, *bias], name=product.name)

    # What nodes are

    def _is(self, place: int, *names: str) -> bool:
        return self._nodes[place].op_type in names

    def _maker(self, name: str) -> int | None:
        place = self._made.get(name)
        return place if place in self._nodes else None

    def _varying(self, node: Node) -> str:
        return next((name for name in node.input if name not in self._constant), "")

    def _is_scalar(self, name: str) -> bool:
        value = self._values.get(name)
        return not name or (name in self._constant and value is not None and value.elements == 1)

    def _number(self, name: str) -> float | None:
        """Return the value of a constant of one element; None for others."""
        value = self._model.constants.evaluate(name, self._shapes, 1) if self._is_scalar(name) and name else None
        return None if value is None else float(value.reshape(-1)[0])

    def _is_channels(self, name: str, result: str) -> bool:
        value, made = self._values.get(name), self._values[result]
        return value is not None and value.floating and value.shape[-1:] == made.shape[-1:] == (value.elements,)

    def _only_reader(self, name: str) -> int | None:
        readers = self._readers.get(name, set())
        return next(iter(readers)) if len(readers) == 1 and name not in self._outputs else None

    def _closed(self, parts: set[int]) -> bool:
        """Whether nothing else reads what the parts make, but for the last of them."""
        return all(
            self._readers.get(name, set()) <= parts and name not in self._outputs
            for place in parts - {max(parts)}
            for name in self._nodes[place].output
        )

    def _replace(
        self, parts: set[int], end: int, kind: str, inputs: Sequence[str], name: str = "", **attributes: int
    ) -> None:
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


def _attribute(node: Node, name: str) -> list[int]:
    return next((list(each.ints) for each in node.attribute if each.name == name), [])
