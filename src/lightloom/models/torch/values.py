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
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias, TypeVar

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_map

from lightloom.models.graph import Operator
from lightloom.models.torch.frame import Origin, key_of, map_tensors, tensors_in

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
        """Return where elements at these offsets of the storage lie in this tensor, which fills it: places [axis,
        point]."""
        rest, places = offsets - self.offset, torch.zeros(len(self.shape), len(offsets), dtype=torch.int64)
        for axis in sorted(range(len(self.shape)), key=lambda axis: -self.strides[axis]):
            if self.shape[axis] > 1:
                places[axis] = rest // self.strides[axis]
                rest = rest % self.strides[axis]
        return places

    def offsets(self, points: Tensor) -> Tensor:
        """Return the offsets in the storage, shape [points], of elements at points [axis, point] of a shape that this
        one broadcasts to."""
        total = torch.full(points.shape[1:], self.offset)
        for axis, (size, stride) in enumerate(zip(self.shape, self.strides, strict=True), -len(self.shape)):
            if size > 1:
                total += stride * points[axis]
        return total


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class _Content:
    """Contents of a storage: given elements, one value throughout, or the result of a call."""

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
    """View whose elements a call in place keeps where it does not write."""


class Hidden(NamedTuple):
    """Tokens that a mask hides from attention."""

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
        """Note that tensor ``stand_in``, without values, holds what ``tensor`` does, such as a buffer on another
        device.

        Nothing is noted where what that one holds is unknown.
        """
        view = self._view(tensor)
        if view is not None:
            self._stand_in(stand_in, view)

    def enter(self, stand_in: Tensor, example: Tensor) -> None:
        """Note what an input of the model, ``stand_in`` on the meta device, holds: what ``example`` does, though it
        does not count as known: only constants do, and may steer the forward pass.

        Integers and truth values that are missing are taken as ones, and so are integers that are all zero and truth
        values that are all false: tokens without a meaning, which would hide everything if they were a mask. Missing
        floating values stay unknown.
        """
        view = self._view(example)
        values = None if view is None else _computed(lambda computation: computation.whole(view))
        if values is not None and (stand_in.is_floating_point() or bool(values.any())):
            content = _Content(storage=values.untyped_storage(), known=False, given=values)
            self._stand_in(stand_in, _view(values, content))
        elif not stand_in.is_floating_point():
            self.assume(stand_in, 1.0)

    def assume(self, tensor: Tensor, value: float) -> None:
        """Assume that a tensor, an input or a parameter, holds ``value`` throughout; it does not count as known, as
        constants do, and cannot steer the forward pass."""
        content = _Content(storage=tensor.untyped_storage(), known=False, assumed=True, fill=value)
        self._contents[key_of(tensor)] = content

    def note(self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any) -> None:
        """Note a call of an ATen overload ``function`` that has returned ``result``, so that the values of its meta
        tensors can be computed when asked for.

        Views, which share an operand's storage, need no note. What was known of an output, or of an operand that is
        changed in place, is dropped where the values of an operand are unknown or the result says nothing (it is
        random, or arithmetic on assumed values); that of all operands where a call returns no meta tensor.
        """
        before = {key_of(tensor) for tensor in tensors_in([args, kwargs])}
        in_place = function._schema.is_mutable
        outputs = [tensor for tensor in tensors_in(result) if tensor.is_meta]
        if not in_place and all(key_of(tensor) in before for tensor in outputs):
            return
        for key in before if not outputs else ():
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
        """Return what a call of an ATen overload on constants returns, computed on the processor: numbers, or meta
        tensors of which the computed values are noted.

        Raises:
            KeyError: an operand is no constant, or the values cannot be computed (too large, or the call fails).
        """
        nested = self._nested((args, dict(kwargs)))
        if nested is None or not all(view.content.known for view in _views_in(nested)):
            raise KeyError(function)
        result = _computed(lambda computation: computation.called(function, *nested))
        if result is None:
            raise KeyError(function)

        def stand_in(value: Tensor) -> Tensor:
            """Return a meta tensor in the place of a computed one, whose values are noted."""
            with torch._C.DisableTorchFunction():
                empty = torch.empty_like(value, device="meta")
            self.copy(empty, value)
            return empty

        return map_tensors(stand_in, result)

    def hidden(self, mask: Tensor, queries: int, keys: int) -> Hidden | None:
        """Return what a mask (truth values, or numbers added to the scores, which hide at -10,000 and below; broadcast
        to [..., queries, keys]) hides: ``causal``, whether no token sees a later one, and ``visible``, the share (0 to
        1) of the scores that is left, None where all are, or exactly those of all earlier tokens. None where its values
        cannot be known, or it hides everything.

        ``queries`` and ``keys`` are the numbers of tokens. Masks of more than 2^24 scores are looked at in 2^20 points.
        """
        view = self._view(mask)
        if view is None:
            return None
        key = (id(view.content), *view[1:], queries, keys)
        if key not in self._masks:
            self._masks[key] = _computed(lambda computation: computation.hidden(view, queries, keys))
        return self._masks[key]

    def following(self) -> TorchDispatchMode:
        """Return a context (a dispatch mode) in which every ATen call is noted here."""
        return _Following(self)

    def _stand_in(self, tensor: Tensor, view: _View) -> None:
        """Note that a tensor without values holds a copy of what a view shows."""
        storage, content = tensor.untyped_storage(), view.content
        call = _Call(torch.ops.aten.clone.default, (view,), {}, _view(tensor, content), 0, None)
        noted = _Content(storage=storage, known=content.known, assumed=content.assumed, call=call)
        self._contents[key_of(tensor)] = noted

    def _view(self, tensor: Tensor) -> _View | None:
        """Return a view of what a tensor holds: what was noted of its storage, else its own values; None where neither
        is known."""
        content = self._contents.get(key_of(tensor))
        if content is None and not tensor.is_meta:
            content = _Content(storage=tensor.untyped_storage(), known=True, given=tensor.detach())
        return None if content is None else _view(tensor, content)

    def _nested(self, arguments: Arguments) -> Arguments | None:
        """Return positional and keyword arguments with views for tensors, ``device`` on the CPU; None where the values
        of a tensor are unknown."""
        views = {id(tensor): self._view(tensor) for tensor in tensors_in(arguments)}
        if None in views.values():
            return None
        args, kwargs = tree_map(lambda value: views[id(value)] if isinstance(value, Tensor) else value, arguments)
        return tuple(args), {name: torch.device("cpu") if name == "device" else kwargs[name] for name in kwargs}


class _Following(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Mode that runs every ATen call and notes it in ``values``."""

    def __init__(self, values: Values) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._values = values

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run a call, note it with its result, and return the result."""
        result = func(*args, **(kwargs or {}))
        self._values.note(func, args, kwargs or {}, result)
        return result


class _Computation:
    """Computes values of one tensor; what it has computed whole is kept until its end."""

    def __init__(self) -> None:
        """Begin with nothing computed and no call counted."""
        self._elements: dict[int, Tensor] = {}
        self._calls = 0

    def hidden(self, mask: _View, queries: int, keys: int) -> Hidden:
        """Return what a mask hides of ``queries`` x ``keys`` scores, looked at whole or, if too large, at evenly spread
        points.

        A mask is ``causal`` if it hides something and shows nothing later than the query; ``visible`` is the share of
        scores that it shows, None where it shows all, or exactly those up to the query.

        Raises:
            _UnknownValuesError: the values are unknown, or the mask hides everything.
        """
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
        """Return all values of a tensor in its shape; _UnknownValuesError where more than ``LARGEST`` (2^24) would have
        to be computed, or the storage was written as another type."""
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
        """Return the values, shape [points], of a tensor at points [axis, point] of a shape that it broadcasts to, its
        axes matched from the last.

        Raises:
            _UnknownValuesError: the storage was written as another type, or by a call that cannot be computed point by
                point.
        """
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
        """Call a function on all values of its operands, on copies of them where it works in place, and return its
        result."""
        in_place = function._schema.is_mutable
        return self._call(
            function, args, kwargs, lambda view: self.whole(view).clone() if in_place else self.whole(view)
        )

    def _call(self, function: Any, args: Any, kwargs: Mapping[str, Any], values: Callable[[_View], Tensor]) -> Any:
        """Return what a function returns with ``values`` of each view in the place of its operands; _UnknownValuesError
        after more than 2^14 calls."""
        self._calls += 1
        if self._calls > _CALLS:
            raise _UnknownValuesError
        args, kwargs = tree_map(
            lambda value: values(value) if _is_view(value) else value, (args, kwargs), is_leaf=_is_view
        )
        return function(*args, **kwargs)

    def _elements_of(self, content: _Content, call: _Call) -> Tensor:
        """Return all elements of a storage that a call has filled, flat and computed once; what it did not write is as
        before it. _UnknownValuesError for more than 2^24 elements."""
        if id(content) not in self._elements:
            output, size = call.output, content.storage.nbytes() // call.output.dtype.itemsize
            if size > LARGEST:
                raise _UnknownValuesError
            result = list(tensors_in(self.called(call.function, call.args, call.kwargs)))[call.place]
            elements = torch.empty(size, dtype=output.dtype)
            if call.under is not None:
                elements = self.whole(call.under._replace(shape=(size,), strides=(1,), offset=0)).clone()
            elements.as_strided(output.shape, output.strides, output.offset).copy_(result)
            self._elements[id(content)] = elements
        return self._elements[id(content)]

    def _sampled(self, call: _Call, points: Tensor) -> Tensor:
        """Return the values of a call's result at points [axis, point], where each follows from one element of each
        operand.

        Raises:
            _UnknownValuesError: the call is of another kind, in place on a part, or gives several results.
        """
        name = _name(call.function)
        args = list(call.args)
        if call.under is not None or call.place:
            raise _UnknownValuesError
        if name in ("tril", "triu"):
            diagonal = points[-1] - points[-2] - (args[1] if len(args) > 1 else call.kwargs.get("diagonal", 0))
            kept = diagonal <= 0 if name == "tril" else diagonal >= 0
            values = self.at(args[0], points)
            return torch.where(kept, values, torch.zeros_like(values))
        if name in _FILLED:
            args[_FILLED[name]] = [points.shape[1]]
        elif not _is_elementwise(call.function):
            raise _UnknownValuesError

        kwargs = {key: value for key, value in call.kwargs.items() if key != "memory_format"}
        result: Tensor = self._call(call.function, args, kwargs, lambda view: self.at(view, points))
        return result.expand(points.shape[1])


def _view(tensor: Tensor, content: _Content) -> _View:
    """Return the view that a tensor has of its storage, whose contents are ``content``."""
    return _View(content, tuple(tensor.shape), tuple(tensor.stride()), int(tensor.storage_offset()), tensor.dtype)


def _is_view(value: Any) -> bool:
    """Return whether a value is a view, where ``tree_map`` must not descend into it."""
    return isinstance(value, _View)


def _views_in(nest: Any) -> Iterator[_View]:
    """Yield every view in nested tuples, lists and values of mappings."""
    if isinstance(nest, _View):
        yield nest
    elif isinstance(nest, (tuple, list, Mapping)):
        for item in nest.values() if isinstance(nest, Mapping) else nest:
            yield from _views_in(item)


def _name(function: Any) -> str:
    """Return the name of an ATen overload without its library and overload: ``aten::add.Tensor`` is add."""
    return str(function._schema.name.split("::")[-1])


def _is_elementwise(function: Any) -> bool:
    """Return whether each element of a call's result follows from one element of each operand."""
    return torch.Tag.pointwise in function.tags or _name(function) in _ALIKE


def _says_something(function: Any, args: tuple[Any, ...], contents: list[_Content]) -> bool:
    """Return whether the result of a call is worth noting: it is not random, and not arithmetic on assumed values.

    Where some of the operands' ``contents`` are assumed, calls that work element by element, moves, and look-ups at
    places that are not assumed are worth it, all others (sums, products of matrices) are not.
    """
    if torch.Tag.nondeterministic_seeded in function.tags:
        return False
    if not any(content.assumed for content in contents) or _is_elementwise(function):
        return True
    name = _name(function)
    places = not any(view.content.assumed for view in _views_in(args[1:2]))
    return name in _MOVED or (name in _LOOKED_UP and places)


def _is_visible(mask: Tensor) -> Tensor:
    """Return a mask as truth values, True where attention sees: a mask of numbers where they exceed ``HIDDEN``
    (-10,000), one of truth values as it is."""
    return mask if mask.dtype == torch.bool else mask > HIDDEN


def _computed(action: Callable[[_Computation], Result]) -> Result | None:
    """Return what an action returns that computes values by the :class:`_Computation` it is given, run where no mode
    listens and no gradient flows; None where it fails, whatever the reason."""
    try:
        with _disable_current_modes(), torch._C.DisableTorchFunction(), torch.no_grad():
            return action(_Computation())
    except Exception:
        return None


# Tensors that stand in for a module's own while it is traced: shapes without values.
#
# Meta tensors serve most models. Code that asks whether it is being traced (``transformers`` does before it looks at
# an attention mask) recognises PyTorch's fake tensors, which here are meta tensors too, so that both give the same
# graph.


def to_meta(module: nn.Module, values: Values) -> None:
    """Replace the parameters and buffers of a module, in place, by tensors on the meta device; a tensor that is shared
    stays shared, what buffers hold is noted in ``values``, what parameters hold is not."""
    moved: dict[int, Any] = {}
    for part in module.modules():
        for name, parameter in part._parameters.items():
            if parameter is not None and not parameter.is_meta:
                part._parameters[name] = moved.setdefault(id(parameter), _parameter(parameter))
        for name, buffer in part._buffers.items():
            if buffer is not None and not buffer.is_meta:
                part._buffers[name] = moved.setdefault(id(buffer), torch.empty_like(buffer, device="meta"))
                values.copy(moved[id(buffer)], buffer)


def meta_copy(value: Any) -> Any:
    """Return the same nest with every tensor replaced by an empty one on the meta device, each with a storage of its
    own."""
    return map_tensors(
        lambda tensor: torch.empty_like(tensor, device="meta", requires_grad=tensor.requires_grad), value
    )


@contextmanager
def fake_tensors(module: nn.Module, values: Values) -> Iterator[None]:
    """Replace a module's meta parameters and buffers by fake ones (PyTorch's, without values too), for as long as the
    context lasts.

    What is created in the context is fake as well. What ``values`` know of a tensor is noted of its fake one.
    """
    tables = [table for part in module.modules() for table in (part._parameters, part._buffers)]
    own = [dict(table) for table in tables]
    with FakeTensorMode(allow_non_fake_inputs=True):
        replaced: dict[int, Any] = {}
        for table in tables:
            for name, tensor in table.items():
                if tensor is not None:
                    stand_in = _parameter(tensor) if isinstance(tensor, nn.Parameter) else _fake(tensor)
                    table[name] = replaced.setdefault(id(tensor), stand_in)
                    values.copy(replaced[id(tensor)], tensor)
        try:
            yield
        finally:
            for table, tensors in zip(tables, own, strict=True):
                table.update(tensors)  # type: ignore[arg-type]


def _parameter(parameter: nn.Parameter) -> nn.Parameter:
    """Return a parameter of the same shape on the meta device that needs a gradient if this one does."""
    return nn.Parameter(_fake(parameter), parameter.requires_grad)


def _fake(tensor: Tensor) -> Tensor:
    """Return a new tensor of the same shape, strides and type on the meta device, fake where a fake mode is active."""
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")


# What autograd keeps for the backward pass, by storage: PyTorch's own hooks on saved tensors tell.
#
#     x ──► [linear] ──► y ──► [gelu] ──► z ──► [linear]      x, y, z are kept, the last output is not
#            keeps x           keeps y           keeps z       a storage counts once, at the operator that made it
#
# Parameters and buffers are there anyway and count nowhere. What a region of ``torch.utils.checkpoint`` makes is kept
# only while its backward pass runs (``checkpoints.py``).
#
# Attention and the root-mean-square norm are one kernel each on accelerators, whatever parts they have on the meta
# device: they keep what they read, attention also its output and one float32 for each row of scores (Dao et al.,
# "FlashAttention", NeurIPS 2022, section 3.1), the norm one for each row. Dropout keeps one byte for each element.

ELEMENT_BYTES = 4
"""Bytes at which one element counts in a traced graph."""
ONE_KERNEL = frozenset({"attention", "rms_norm"})
"""Functions whose parts keep nothing: what the whole keeps is known."""
_STATISTIC_BYTES = 4


@dataclass(frozen=True, slots=True)
class Kept:
    """One storage that is kept."""

    storage: torch.UntypedStorage
    """Held so that its address is not given to another tensor."""
    nbytes: int
    """At the graph's element size if ``floating``."""
    floating: bool
    region: str
    """Checkpoint region that makes it anew; empty if it is kept throughout."""
    reader: int
    """Index of the operator that keeps it first."""


_SUMS = ("saved_bytes", "saved_shared_bytes", "saved_index_bytes", "recomputed_bytes", "recomputed_shared_bytes")
"""Fields of an operator that say what autograd keeps of the storages that it made."""


class SavedTensors:
    """Collects the storages that autograd keeps during one forward pass of ``module``."""

    def __init__(self, module: nn.Module, batch: int) -> None:
        """Ignore the module's own tensors; ``batch`` is the number of samples of the pass."""
        self._batch = batch
        own = [*module.parameters(), *module.buffers()]
        self._ignored = frozenset(key_of(tensor) for tensor in own)
        sizes: Counter[int] = Counter()
        for tensor in own:
            sizes[tensor.element_size()] += tensor.numel() * tensor.is_floating_point()
        self._unit = sizes.most_common(1)[0][0] if sizes else ELEMENT_BYTES
        """Bytes of one element in the model: a float32 statistic of a bfloat16 model counts as two elements."""
        self._kept: dict[int, Kept] = {}
        self._statistics: Counter[int] = Counter()

    def keep(self, tensor: Tensor, region: str, reader: int, *, mask: bool = False) -> None:
        """Note that a tensor is kept for the backward pass by operator number ``reader``, from 0; a ``mask`` counts one
        byte for each element.

        ``region`` is the name of the checkpoint region that makes it anew, empty if it is kept throughout. Parameters
        and buffers are not noted, and a storage counts once; being kept outside a region (an empty ``region``)
        overrides being made anew in one.
        """
        key = key_of(tensor)
        earlier = self._kept.get(key)
        if key in self._ignored or (earlier is not None and (region or not earlier.region)):
            return
        storage, floating = tensor.untyped_storage(), tensor.is_floating_point() and not mask
        size = storage.nbytes() // (tensor.element_size() if mask else 1)
        if floating:
            size = -(-size // self._unit) * ELEMENT_BYTES
        self._kept[key] = Kept(storage, size, floating, region, reader)

    def keep_statistic(self, rows: int, reader: int) -> None:
        """Note that operator number ``reader``, from 0, keeps one float32 for each of ``rows`` rows of what it
        computes."""
        self._statistics[reader] += rows * _STATISTIC_BYTES

    def counted(self, operators: Sequence[Operator], origins: Mapping[int, Origin]) -> list[Operator]:
        """Return the operators, each with the bytes that autograd keeps of the storages it made.

        A storage that no operator made counts at the one that keeps it first; statistics count at their reader, with
        the bytes that are made anew in a region, else with those of masks and indices. The fields set are
        ``saved_bytes``, ``saved_shared_bytes``, ``saved_index_bytes`` and, for what a checkpoint region makes anew,
        ``recomputed_bytes`` and ``recomputed_shared_bytes``.

        Args:
            operators: all operators of the pass, in order.
            origins: which operator made each storage, by the storage's key.
        """
        position = {operator.name: index for index, operator in enumerate(operators)}
        sums = [dict.fromkeys(_SUMS, 0) for _ in operators]
        for key, kept in self._kept.items():
            origin = origins.get(key)
            producer = origin.producer if origin is not None else None
            index = kept.reader if producer is None else position[producer]
            if index < len(operators):
                sampled = origin is not None and origin.sampled and not origin.over_samples
                grows = sampled and (kept.nbytes // ELEMENT_BYTES if kept.floating else kept.nbytes) % self._batch == 0
                if grows and not kept.region and not kept.floating:
                    sums[index]["saved_index_bytes"] += kept.nbytes
                    continue
                whole = -(-kept.nbytes // ELEMENT_BYTES) * ELEMENT_BYTES
                field = "recomputed" if kept.region else "saved"
                sums[index][f"{field}_bytes"] += whole
                sums[index][f"{field}_shared_bytes"] += 0 if grows else whole
        for index, nbytes in self._statistics.items():
            sums[index]["recomputed_bytes" if operators[index].checkpoint else "saved_index_bytes"] += nbytes
        return [replace(operator, **entry) for operator, entry in zip(operators, sums, strict=True)]  # type: ignore[arg-type]
