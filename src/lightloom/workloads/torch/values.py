"""Values of tensors that hold none: constants, and attention masks that follow from inputs.

A trace runs on shapes. Models still branch on values that no input decides (whether positions are consecutive), and
what an attention mask hides is a matter of its values. So every call is noted as an expression, which is computed when
somebody asks, on the processor:

    small tensors (up to :data:`LARGEST` elements)    whole, by any call
    larger masks                                      at :data:`POINTS` points, by calls that work element by element

Constants are *known*, and steer the forward pass. What follows from inputs or parameters does not; it only tells what
masks hide. Integers among inputs without values are *assumed* to be ones, so that nothing is padding, and parameters
zeros; only calls after which an assumption still says something are noted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, TypeVar

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_map

from lightloom.workloads.torch.frame import key_of, tensors_in

LARGEST = 1 << 24
"""Elements of a tensor that is computed whole."""
POINTS = 1 << 20
"""Points of a larger mask that are looked at."""
HIDDEN = -1e4
"""Greatest number that hides a score to which a mask adds it; early models use -10,000, others the least float."""
_CALLS = 1 << 14
"""Calls after which computing a value is given up."""
_STEPS = tuple(math.sqrt(prime) % 1 for prime in (2, 3, 5, 7, 11, 13))
"""Irrational steps of evenly spread points along each axis (a Kronecker sequence)."""
_ALIKE = frozenset(
    ("clone", "_to_copy", "copy_", "fill", "fill_", "zero_", "zeros_like", "ones_like", "full_like", "masked_fill_")
)
"""Calls that work element by element and are not tagged so."""
_FILLED = {"full": 0, "ones": 0, "zeros": 0, "new_full": 1, "new_ones": 1, "new_zeros": 1}
"""Calls that fill a tensor with one value, and the place of its shape among their arguments."""
_MOVED = frozenset(("cat", "stack", "constant_pad_nd", "flip", "repeat", "tril", "triu"))
_LOOKED_UP = frozenset(("index", "embedding"))
Arguments: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]
Result = TypeVar("Result")


class _UnknownValuesError(Exception):
    """The values of a tensor cannot be computed."""


class _View(NamedTuple):
    """A tensor as elements of a storage."""

    content: _Content
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    dtype: torch.dtype

    def points(self, offsets: Tensor) -> Tensor:
        """Return the places [axis, point] of elements of the storage in this tensor, which fills it."""
        rest, places = offsets - self.offset, torch.zeros(len(self.shape), len(offsets), dtype=torch.int64)
        for axis in sorted(range(len(self.shape)), key=lambda axis: -self.strides[axis]):
            if self.shape[axis] > 1:
                places[axis] = rest // self.strides[axis]
                rest = rest % self.strides[axis]
        return places

    def offsets(self, points: Tensor) -> Tensor:
        """Return where elements at points [axis, point] of a shape that this one broadcasts to lie in the storage."""
        total = torch.full(points.shape[1:], self.offset)
        for axis, (size, stride) in enumerate(zip(self.shape, self.strides, strict=True), -len(self.shape)):
            if size > 1:
                total += stride * points[axis]
        return total


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class _Content:
    """What a storage holds: given elements, one value throughout, or the result of a call."""

    storage: torch.UntypedStorage
    """Held so that its address is not given to another tensor."""
    known: bool
    assumed: bool = False
    given: Tensor | None = None
    fill: float = 0.0
    call: _Call | None = None


class _Call(NamedTuple):
    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    output: _View
    place: int
    """Which of its results this is."""
    under: _View | None
    """What a call in place leaves where it does not write."""


class Hidden(NamedTuple):
    """What a mask hides from attention."""

    causal: bool
    """No token sees a later one."""
    visible: float | None
    """Share of the scores that is left; None where those of all earlier tokens are left, or all."""


class Values:
    """Expressions of what tensors hold, by storage."""

    def __init__(self) -> None:
        self._contents: dict[int, _Content] = {}
        self._masks: dict[Any, Hidden | None] = {}

    def copy(self, stand_in: Tensor, tensor: Tensor) -> None:
        """Note that a tensor without values stands for another one, such as a buffer on another device."""
        view = self._view(tensor)
        if view is not None:
            self._stand_in(stand_in, view)

    def enter(self, stand_in: Tensor, example: Tensor) -> None:
        """Note an input of the model: as the example has it; integers and truth values that are missing are ones.

        Integers that are all zero are tokens without a meaning: they would hide everything if they were a mask.
        """
        view = self._view(example)
        values = None if view is None else _computed(lambda computation: computation.whole(view))
        if values is not None and (stand_in.is_floating_point() or bool(values.any())):
            content = _Content(storage=values.untyped_storage(), known=False, given=values)
            self._stand_in(stand_in, _view(values, content))
        elif not stand_in.is_floating_point():
            self.assume(stand_in, 1.0)

    def assume(self, tensor: Tensor, value: float) -> None:
        """Assume that a tensor, an input or a parameter, holds one value throughout."""
        content = _Content(storage=tensor.untyped_storage(), known=False, assumed=True, fill=value)
        self._contents[key_of(tensor)] = content

    def note(self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any) -> None:
        """Note a call that has returned tensors without values."""
        before = {key_of(tensor) for tensor in tensors_in([args, kwargs])}
        in_place = function._schema.is_mutable
        outputs = [tensor for tensor in tensors_in(result) if tensor.is_meta]
        if not in_place and all(key_of(tensor) in before for tensor in outputs):
            return
        if not outputs:
            for key in before:
                self._contents.pop(key, None)
        views = {key_of(tensor): self._view(tensor) for tensor in outputs}
        nested = self._nested((args, dict(kwargs)))
        contents = None if nested is None else [view.content for view in _views_in(nested)]
        for place, tensor in enumerate(outputs):
            key, storage = key_of(tensor), tensor.untyped_storage()
            if nested is None or contents is None or not _says_something(function, nested[0], contents):
                self._contents.pop(key, None)
                continue
            known, assumed = all(part.known for part in contents), any(part.assumed for part in contents)
            empty = _Content(storage=storage, known=known)
            whole = tensor.numel() * tensor.element_size() == storage.nbytes()
            call = _Call(function, *nested, _view(tensor, empty), place, None if whole else views[key])
            self._contents[key] = _Content(storage=storage, known=known, assumed=assumed, call=call)

    def computed(self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Return what a call on constants returns: numbers, or tensors without values that are noted.

        Raises:
            KeyError: its operands are no constants, or too large.
        """
        nested = self._nested((args, dict(kwargs)))
        if nested is None or not all(view.content.known for view in _views_in(nested)):
            raise KeyError(function)
        result = _computed(lambda computation: computation.called(function, *nested))
        if result is None:
            raise KeyError(function)

        def stand_in(value: Any) -> Any:
            if not isinstance(value, Tensor):
                return value
            with torch._C.DisableTorchFunction():
                empty = torch.empty_like(value, device="meta")
            self.copy(empty, value)
            return empty

        return tree_map(stand_in, result)

    def hidden(self, mask: Tensor, queries: int, keys: int) -> Hidden | None:
        """Return what a mask (broadcast to [..., queries, keys]) hides; None where its values cannot be known."""
        view = self._view(mask)
        if view is None:
            return None
        key = (id(view.content), *view[1:], queries, keys)
        if key not in self._masks:
            self._masks[key] = _computed(lambda computation: computation.hidden(view, queries, keys))
        return self._masks[key]

    @contextmanager
    def following(self) -> Iterator[None]:
        """Note every call on tensors without values, for as long as the context lasts."""
        with _Following(self):
            yield

    def _stand_in(self, tensor: Tensor, view: _View) -> None:
        storage, content = tensor.untyped_storage(), view.content
        call = _Call(torch.ops.aten.clone.default, (view,), {}, _view(tensor, content), 0, None)
        noted = _Content(storage=storage, known=content.known, assumed=content.assumed, call=call)
        self._contents[key_of(tensor)] = noted

    def _view(self, tensor: Tensor) -> _View | None:
        content = self._contents.get(key_of(tensor))
        if content is None and not tensor.is_meta:
            content = _Content(storage=tensor.untyped_storage(), known=True, given=tensor.detach())
        return None if content is None else _view(tensor, content)

    def _nested(self, arguments: Arguments) -> Arguments | None:
        """Return arguments with views for tensors; None where the values of one are unknown."""
        views = {id(tensor): self._view(tensor) for tensor in tensors_in(arguments)}
        if None in views.values():
            return None
        args, kwargs = tree_map(lambda value: views[id(value)] if isinstance(value, Tensor) else value, arguments)
        return tuple(args), {name: torch.device("cpu") if name == "device" else kwargs[name] for name in kwargs}


class _Following(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, values: Values) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._values = values

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self._values.note(func, args, kwargs or {}, result)
        return result


class _Computation:
    """Computes values of one tensor; what it has computed whole is kept until its end."""

    def __init__(self) -> None:
        self._elements: dict[int, Tensor] = {}
        self._calls = 0

    def hidden(self, mask: _View, queries: int, keys: int) -> Hidden:
        """Return what a mask hides, looked at whole or at evenly spread points."""
        shape = (*mask.shape[:-2], queries, keys) if len(mask.shape) > 1 else (queries, keys)
        if math.prod(shape) <= LARGEST:
            seen = _is_visible(self.whole(mask)).expand(shape)
            earlier = torch.ones(queries, keys, dtype=torch.bool).tril()
        else:
            steps = torch.arange(1, POINTS + 1, dtype=torch.float64)
            places = [(steps * step % 1 * size).long() for step, size in zip(_STEPS, reversed(shape), strict=False)]
            points = torch.stack(places[::-1])
            seen = _is_visible(self.at(mask, points))
            earlier = points[-1] <= points[-2]
        share = float(seen.double().mean())
        if share == 0:
            raise _UnknownValuesError
        causal = share < 1 and not bool((seen & ~earlier).any())
        exact = share == 1 or (causal and bool((seen == earlier).all()))
        return Hidden(causal, None if exact else share)

    def whole(self, view: _View) -> Tensor:
        """Return all values of a tensor."""
        content = view.content
        if content.given is not None:
            return content.given.as_strided(view.shape, view.strides, view.offset)
        if math.prod(view.shape) > LARGEST:
            raise _UnknownValuesError
        if content.call is None:
            return torch.full(view.shape, content.fill, dtype=view.dtype)
        elements = self._elements_of(content, content.call)
        if elements.dtype != view.dtype:
            raise _UnknownValuesError
        return elements.as_strided(view.shape, view.strides, view.offset)

    def at(self, view: _View, points: Tensor) -> Tensor:
        """Return the values of a tensor at points [axis, point] of a shape that it broadcasts to."""
        content = view.content
        offsets = view.offsets(points)
        if content.given is not None:
            return content.given.as_strided((int(offsets.max()) + 1,), (1,), 0)[offsets]
        if content.call is None:
            return torch.full(offsets.shape, content.fill, dtype=view.dtype)
        if content.call.output.dtype != view.dtype:
            raise _UnknownValuesError
        if content.storage.nbytes() // view.dtype.itemsize <= LARGEST:
            return self._elements_of(content, content.call)[offsets]
        return self._sampled(content.call, content.call.output.points(offsets))

    def called(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function on all values of its operands."""
        self._calls += 1
        if self._calls > _CALLS:
            raise _UnknownValuesError
        in_place = function._schema.is_mutable

        def values(value: Any) -> Any:
            if not isinstance(value, _View):
                return value
            return self.whole(value).clone() if in_place else self.whole(value)

        args, kwargs = tree_map(values, (args, kwargs), is_leaf=_is_view)
        return function(*args, **kwargs)

    def _elements_of(self, content: _Content, call: _Call) -> Tensor:
        """Return all elements of a storage that a call has filled."""
        if id(content) not in self._elements:
            output, size = call.output, content.storage.nbytes() // call.output.dtype.itemsize
            if size > LARGEST:
                raise _UnknownValuesError
            result = list(tensors_in(self.called(call.function, call.args, call.kwargs)))[call.place]
            elements = torch.empty(size, dtype=output.dtype)
            if call.under is not None:
                below = call.under
                elements = self.whole(below._replace(shape=(size,), strides=(1,), offset=0)).clone()
            elements.as_strided(output.shape, output.strides, output.offset).copy_(result)
            self._elements[id(content)] = elements
        return self._elements[id(content)]

    def _sampled(self, call: _Call, points: Tensor) -> Tensor:
        """Return the values of a call's result at points, where each follows from one element of each operand."""
        name = _name(call.function)
        count = points.shape[1]
        args = list(call.args)
        if call.under is not None or call.place:
            raise _UnknownValuesError
        if name in ("tril", "triu"):
            diagonal = points[-1] - points[-2] - (args[1] if len(args) > 1 else call.kwargs.get("diagonal", 0))
            kept = diagonal <= 0 if name == "tril" else diagonal >= 0
            values = self.at(args[0], points)
            return torch.where(kept, values, torch.zeros_like(values))
        if name in _FILLED:
            args[_FILLED[name]] = [count]
        elif not _is_elementwise(call.function):
            raise _UnknownValuesError

        def values_at(value: Any) -> Any:
            return self.at(value, points) if isinstance(value, _View) else value

        kwargs = {key: value for key, value in call.kwargs.items() if key != "memory_format"}
        args, kwargs = tree_map(values_at, (args, kwargs), is_leaf=_is_view)
        self._calls += 1
        if self._calls > _CALLS:
            raise _UnknownValuesError
        result: Tensor = call.function(*args, **kwargs)
        return result.expand(count)


def _view(tensor: Tensor, content: _Content) -> _View:
    return _View(content, tuple(tensor.shape), tuple(tensor.stride()), int(tensor.storage_offset()), tensor.dtype)


def _is_view(value: Any) -> bool:
    return isinstance(value, _View)


def _views_in(nest: Any) -> Iterator[_View]:
    if isinstance(nest, _View):
        yield nest
    elif isinstance(nest, (tuple, list)):
        for item in nest:
            yield from _views_in(item)
    elif isinstance(nest, Mapping):
        yield from _views_in(list(nest.values()))


def _name(function: Any) -> str:
    return str(function._schema.name.split("::")[-1])


def _is_elementwise(function: Any) -> bool:
    return torch.Tag.pointwise in function.tags or _name(function) in _ALIKE


def _says_something(function: Any, args: tuple[Any, ...], contents: list[_Content]) -> bool:
    """Whether the result of a call is worth noting: not drawn, and not made of assumed values by arithmetic on them."""
    if torch.Tag.nondeterministic_seeded in function.tags:
        return False
    if not any(content.assumed for content in contents) or _is_elementwise(function):
        return True
    name = _name(function)
    places = not any(view.content.assumed for view in _views_in(args[1:2]))
    return name in _MOVED or (name in _LOOKED_UP and places)


def _is_visible(mask: Tensor) -> Tensor:
    return mask if mask.dtype == torch.bool else mask > HIDDEN


def _computed(action: Callable[[_Computation], Result]) -> Result | None:
    """Compute with values, seen by no listener; None where that fails, whatever the reason."""
    try:
        with _disable_current_modes(), torch._C.DisableTorchFunction(), torch.no_grad():
            return action(_Computation())
    except Exception:
        return None
