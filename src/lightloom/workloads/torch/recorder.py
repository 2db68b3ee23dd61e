"""Watches a forward pass on meta tensors and writes down one operator per torch function that computes
something.

Two listeners (``listeners.py``), one above autograd and one below:

    model code ──► torch function (F.linear, +, torch.cat)   opens a frame: the operator's kind and name
                     └──► ATen calls (view, addmm, view)      fill the frame: FLOPs, bytes, who produced what

A tensor is known by its *storage*, so that views need no bookkeeping and an in-place call simply becomes the
storage's new producer. Calls that depend on neither an input nor a parameter (masks, position numbers) are
constants: no operator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from lightloom.workloads.graph import TENSOR_KINDS, Operator, has_samples
from lightloom.workloads.torch import naming
from lightloom.workloads.torch.flops import MOVES, Product, elements, product

ELEMENT_BYTES = 4


@dataclass(slots=True)
class _Origin:
    """Where the content of a storage comes from."""

    storage: torch.UntypedStorage
    """Held so that its address is not given to another tensor."""
    producer: str | None = None
    parameter: nn.Parameter | None = None
    sampled: bool = False
    """Depends on the samples."""
    axes: tuple[str, ...] | None = None

    @property
    def constant(self) -> bool:
        return self.producer is None and self.parameter is None


@dataclass(slots=True)
class _Frame:
    """One torch function while it runs."""

    word: str
    arguments: tuple[Any, ...] = ()
    reads: dict[tuple[Any, ...], Tensor] = field(default_factory=dict)
    """External operands, by storage and view."""
    own: dict[int, _Origin] = field(default_factory=dict)
    """Storages that it made."""
    changed: dict[int, Tensor] = field(default_factory=dict)
    """External storages that it wrote in place."""
    last: list[Tensor] = field(default_factory=list)
    """Outputs of its latest call, used when the function itself returns no tensor."""
    calls: list[str] = field(default_factory=list)
    products: list[tuple[str, Product, tuple[Any, ...]]] = field(default_factory=list)
    product_backward: int = 0
    forward: int = 0
    backward: int = 0


def tensors_in(value: Any) -> Iterator[Tensor]:
    """Every tensor in nested tuples, lists and mappings."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors_in(item)


def _key(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


class Recorder:
    """Collects the operators of one forward pass of ``module`` (inside :meth:`watching`)."""

    def __init__(self, module: nn.Module, batch: int) -> None:
        self.operators: list[Operator] = []
        self._batch = batch
        self._names: set[str] = set()
        self._origins: dict[int, _Origin] = {}
        self._counted: set[int] = set()
        self._frame: _Frame | None = None
        self._scopes: list[tuple[str, bool]] = [("", False)]
        for parameter in module.parameters():
            storage = parameter.untyped_storage()
            self._origins[_key(parameter)] = _Origin(storage, parameter=parameter)

    # Modules: which path are we in?

    def enter(self, path: str, module: nn.Module) -> None:
        """A module's forward begins."""
        leaf = next(module.children(), None) is None and type(module).__module__.startswith("torch.nn.")
        self._scopes.append((path, leaf and path != ""))

    def leave(self) -> None:
        """A module's forward ends."""
        self._scopes.pop()

    def add_input(self, name: str, tensor: Tensor) -> None:
        """Declare an input of the model: ``input.images``, so that it cannot take the name of a module."""
        axes = naming.input_axes(tensor)
        dimensions, axes = naming.output_dimensions(tensor.shape, self._batch, axes)
        nbytes = tensor.numel() * ELEMENT_BYTES
        operator = Operator(
            name=self._unique(f"input.{name}"),
            kind="input",
            dimensions=dimensions,
            activation_bytes=nbytes,
            forward_bytes=0,
        )
        self.operators.append(operator)
        self._origins[_key(tensor)] = _Origin(tensor.untyped_storage(), operator.name, None, True, axes)

    # Functions and ATen calls

    def open(self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> _Frame:
        """A torch function begins."""
        self._frame = _Frame(naming.label(function), (*args, *kwargs.values()))
        return self._frame

    def abandon(self) -> None:
        """A torch function has raised; if the model catches that, nothing of it is kept."""
        self._frame = None

    def call(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """An ATen call was made, by the torch function in progress or by itself."""
        alone = self._frame is None
        frame = self._frame or self.open(function, args, kwargs)
        operands = [*tensors_in(args), *tensors_in(kwargs)]
        before = [self._origin(frame, tensor) for tensor in operands]
        outputs = list(tensors_in(result))
        known = {_key(tensor) for tensor in operands}
        in_place = function._schema.is_mutable
        if in_place or any(_key(tensor) not in known for tensor in outputs):
            self._account(frame, function, args, kwargs, outputs)
            self._note_reads(frame, operands, before)
            self._note_writes(frame, operands, before, outputs)
        if alone:
            self.close(frame, result)

    def _origin(self, frame: _Frame, tensor: Tensor) -> _Origin:
        key = _key(tensor)
        found = frame.own.get(key) or self._origins.get(key)
        if found is None:
            found = self._origins[key] = _Origin(tensor.untyped_storage())
        return found

    def _account(
        self,
        frame: _Frame,
        function: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        outputs: list[Tensor],
    ) -> None:
        """Add the FLOPs of a call, unless it only computes a constant."""
        operands = [*tensors_in(args), *tensors_in(kwargs)]
        if not any(not self._origin(frame, tensor).constant for tensor in operands):
            return
        name = function._schema.name.split("::")[-1]
        frame.calls.append(name)
        cost = product(name, args, kwargs)
        if cost is not None:
            frame.products.append((name, cost, args))
            frame.product_backward += cost.flops * sum(tensor.requires_grad for tensor in cost.operands)
        elif name not in MOVES:
            size = elements([*operands, *outputs])
            frame.forward += size
            frame.backward += size * any(tensor.requires_grad for tensor in operands)

    def _note_reads(self, frame: _Frame, operands: list[Tensor], before: list[_Origin]) -> None:
        for tensor, origin in zip(operands, before, strict=True):
            key = _key(tensor)
            if key not in frame.own and self._origins.get(key) is origin:
                view = (key, tensor.storage_offset(), tuple(tensor.shape), tuple(tensor.stride()))
                frame.reads.setdefault(view, tensor)

    def _note_writes(
        self, frame: _Frame, operands: list[Tensor], before: list[_Origin], outputs: list[Tensor]
    ) -> None:
        known = {_key(tensor) for tensor in operands}
        # A parameter stands as producer here only to say "not a constant" until the frame closes.
        alive = any(not origin.constant for origin in before)
        sampled = any(origin.sampled for origin in before)
        frame.last = outputs
        for tensor in outputs:
            key = _key(tensor)
            origin = _Origin(tensor.untyped_storage(), frame.word if alive else None, None, sampled)
            if key in known and key not in frame.own:
                if alive:
                    frame.changed[key] = tensor
            else:
                frame.own[key] = origin

    def close(self, frame: _Frame, result: Any) -> None:
        """A torch function has returned: write down its operator, if it computed anything."""
        self._frame = None
        outputs = [
            t for t in tensors_in(result) if _key(t) in frame.own or _key(t) in frame.changed
        ] or frame.last
        sources = [(tensor, self._origins[_key(tensor)]) for tensor in frame.reads.values()]
        if not frame.calls or not outputs:
            for key, origin in frame.own.items():
                self._origins[key] = origin
            return
        operator, axes = self._operator(frame, sources, outputs)
        self.operators.append(operator)
        sampled = "sample" in operator.dimensions
        for key, origin in frame.own.items():
            # A constant that a function made on the way (an attention mask) stays one.
            producer = operator.name if not origin.constant else None
            self._origins[key] = _Origin(
                origin.storage, producer, None, sampled and producer is not None, axes
            )
        for key, tensor in frame.changed.items():
            self._origins[key] = _Origin(tensor.untyped_storage(), operator.name, None, sampled, axes)

    # Putting an operator together

    def _operator(
        self, frame: _Frame, sources: list[tuple[Tensor, _Origin]], outputs: list[Tensor]
    ) -> tuple[Operator, tuple[str, ...] | None]:
        sampled = any(origin.sampled for _, origin in sources)
        kind = naming.kind_of(
            frame.word,
            [name for name, _, _ in frame.products],
            frame.calls,
            len({origin.producer for _, origin in sources if origin.producer is not None}),
        )
        dimensions, axes = self._dimensions(frame, kind, sources, outputs, self._batch if sampled else None)
        fresh = {
            id(o.parameter): o.parameter
            for _, o in sources
            if o.parameter is not None and id(o.parameter) not in self._counted
        }
        self._counted |= fresh.keys()
        parameters = sum(parameter.numel() for parameter in fresh.values())
        written = _distinct_elements(outputs)
        shared, read = self._read(kind, sources, written)
        if not sampled or not has_samples(kind, written, self._batch):
            shared += written
        tensor_kind = kind in TENSOR_KINDS
        name, block = self._place(frame.word)
        operator = Operator(
            name=name,
            kind=kind,
            inputs=tuple(dict.fromkeys(o.producer for _, o in sources if o.producer is not None)),
            dimensions=dimensions,
            forward_flops=sum(cost.flops for _, cost, _ in frame.products) if tensor_kind else frame.forward,
            backward_flops=frame.product_backward if tensor_kind else frame.backward,
            parameter_bytes=parameters * ELEMENT_BYTES,
            activation_bytes=written * ELEMENT_BYTES,
            parameters=parameters,
            forward_bytes=(read + written) * ELEMENT_BYTES,
            shared_bytes=shared * ELEMENT_BYTES,
            block=block,
        )
        return operator, axes

    def _read(self, kind: str, sources: list[tuple[Tensor, _Origin]], written: int) -> tuple[int, int]:
        """Elements read: those that all samples share, and all. A table gives up only the rows that are
        looked up."""
        by_storage: dict[int, tuple[_Origin, list[Tensor]]] = {}
        for tensor, origin in sources:
            by_storage.setdefault(_key(tensor), (origin, []))[1].append(tensor)
        shared = total = 0
        for origin, tensors in by_storage.values():
            size = _distinct_elements(tensors)
            if kind == "embedding" and origin.parameter is not None:
                total += written
                continue
            total += size
            shared += 0 if origin.sampled else size
        return shared, total

    def _dimensions(
        self,
        frame: _Frame,
        kind: str,
        sources: list[tuple[Tensor, _Origin]],
        outputs: list[Tensor],
        batch: int | None,
    ) -> tuple[dict[str, int], tuple[str, ...] | None]:
        output = outputs[0]
        if kind == "attention":
            q, k, *_ = tensors_in(frame.arguments)
            return naming.attention_dimensions(q, k, batch), None
        axes = next(
            (o.axes for t, o in sources if o.axes is not None and o.sampled and len(o.axes) == output.dim()),
            None,
        )
        if kind in ("conv", "pool", "batch_norm", "lrn") and axes is None and output.dim() >= 3:
            axes = naming.image_axes(output.dim())
        found, axes = naming.output_dimensions(output.shape, batch, axes)
        if kind == "conv":
            args = next(args for name, _, args in frame.products if name == "convolution")
            found |= naming.convolution_dimensions(args[1], bool(args[6]), int(args[8]))
        elif frame.products and kind in TENSOR_KINDS:
            found["in_channel"] = frame.products[-1][1].summed
        return found, axes

    def _place(self, word: str) -> tuple[str, str]:
        """Name and block of a new operator, from the module that is running."""
        path, leaf = self._scopes[-1]
        name = path if leaf else f"{path}.{word}" if path else word
        return self._unique(name), path.rpartition(".")[0] if leaf else path

    def _unique(self, name: str) -> str:
        found, repeat = name, 1
        while found in self._names:
            repeat += 1
            found = f"{name}#{repeat}"
        self._names.add(found)
        return found


def _distinct_elements(tensors: list[Tensor]) -> int:
    """Elements that views cover together, an expanded axis counted once: at most those of each storage."""
    by_storage: dict[int, tuple[int, int]] = {}
    for tensor in tensors:
        room = tensor.untyped_storage().nbytes() // tensor.element_size()
        size, _ = by_storage.get(_key(tensor), (0, 0))
        by_storage[_key(tensor)] = (size + tensor.numel(), room)
    return sum(min(size, room) for size, room in by_storage.values())
