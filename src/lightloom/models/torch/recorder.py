"""Watches a forward pass on meta tensors and writes down one operator per torch function that computes something.

Two listeners (``listeners.py``), one above autograd and one below:

    model code ──► torch function (F.linear, +, torch.cat)   opens a frame: the operator's kind and name
                     └──► ATen calls (view, addmm, view)      fill the frame: FLOPs, bytes, who produced what

A tensor is known by its *storage*, so that views need no bookkeeping and an in-place call simply becomes the
storage's new producer. Calls that depend on neither an input nor a parameter (masks, position numbers) are
constants: no operator.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from types import FunctionType
from typing import Any

import torch
import torch.nn.functional as F
import torch.utils.checkpoint as torch_checkpoint
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from lightloom.models import operator_words
from lightloom.models.graph import TENSOR_KINDS, Operator, has_samples
from lightloom.models.operator_words import KIND_OF_WORD, NO_RULE, is_move, kind_of
from lightloom.models.torch import frame as frames
from lightloom.models.torch.frame import (
    Call,
    Frame,
    Origin,
    Origins,
    Region,
    Sources,
    distinct_elements,
    key_of,
    tensors_in,
)
from lightloom.models.torch.values import ELEMENT_BYTES, ONE_KERNEL, Hidden, SavedTensors, Values

# Adds one ATen call to the frame of the torch function that makes it: FLOPs, rows looked up, missing rules.

_WITHOUT_GRADIENT = ("_scaled_mm", "_scaled_grouped_mm")
_BAGS = ("_embedding_bag", "_embedding_bag_forward_only")


def account(frame: Frame, origins: Origins, call: Call) -> None:
    """Add to a frame the FLOPs of a call, its name, its product and the rows that it looks up, unless all its operands
    are constants.

    The backward pass of a product does the same again for each of its factors that needs a gradient. Other arithmetic:
    one FLOP for each element of its largest tensor, forward, and once more backward where a gradient flows; moves and
    look-ups of single rows cost none. Calls without a rule that read a parameter matrix are noted as unknown.
    """
    if all(origins.of(frame, tensor).constant for tensor in call.operands):
        return
    name, cost = call.name, None
    frame.calls.append(name)
    if call.outputs:
        values = [argument for argument in call.args if not isinstance(argument, Tensor)]
        shapes = [tuple(tensor.shape) for tensor in call.operands]
        cost = operator_words.product(name, shapes, tuple(call.outputs[0].shape), values)
    if cost is not None:
        frame.products.append((call, cost))
        wanted = sum(_needs_gradient(name, origins, call.operands[place]) for place in cost.operands)
        frame.product_backward += cost.flops * wanted
    elif not is_move(name):
        # Elements of the rows that a bag of embeddings looks up and adds.
        rows = int(call.args[1].numel() * call.args[0].shape[1]) if name in _BAGS else 0
        size = rows or max(tensor.numel() for tensor in (*call.operands, *call.outputs))
        frame.looked_up += rows
        frame.forward += size
        frame.backward += size * any(tensor.requires_grad for tensor in call.operands)
        known = operator_words.has_rule(name) or torch.Tag.pointwise in call.function.tags
        if not known and any(_is_matrix(frame, origins, tensor) for tensor in call.operands):
            frame.unknown.append(call.function._schema.name)


def _needs_gradient(name: str, origins: Origins, operand: Tensor) -> bool:
    """Return whether a product's operand gets a gradient: whether it asks for one.

    Scaled products have no gradient of their own: they lie in functions that give it, where no tensor asks for one, so
    that there every operand counts which follows from a parameter or a sample.
    """
    if not name.startswith(_WITHOUT_GRADIENT) or operand.requires_grad:
        return operand.requires_grad
    origin = origins.get(key_of(operand))
    return origin is None or not origin.constant


def _is_matrix(frame: Frame, origins: Origins, tensor: Tensor) -> bool:
    """Return whether an operand is a parameter, or a view of one, with at least two axes longer than 1."""
    return origins.of(frame, tensor).parameter is not None and sum(size > 1 for size in tensor.shape) > 1


_NORMS = (nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, nn.modules.batchnorm._NormBase)
"""Normalisations that call one function."""


class Recorder:
    """Collects the operators of one forward pass of ``module`` ."""

    def __init__(self, module: nn.Module, batch: int, values: Values) -> None:
        """Know the module's parameters, assumed to be 0 throughout in ``values``; ``batch`` is the number of
        samples."""
        self.values = values
        self.operators: list[Operator] = []
        self._batch = batch
        self._names: set[str] = set()
        self._origins = Origins()
        self._counted: set[int] = set()
        self.frame: Frame | None = None
        self.whole: Frame | None = None
        """The frame of a module that is one operator, while it runs."""
        self._scopes: list[tuple[str, bool]] = [("", False)]
        self._region: Region | None = None
        self._saved = SavedTensors(module, batch)
        self.uncounted: list[str] = []
        """Sentences on what the counts only guess."""
        for parameter in module.parameters():
            storage = parameter.untyped_storage()
            self._origins[key_of(parameter)] = Origin(storage, parameter=parameter)
            values.assume(parameter, 0.0)

    # Modules: which path are we in?

    def enter(self, path: str, module: nn.Module) -> None:
        """Note that the forward pass of the module at ``path`` (empty for the model itself) begins; one that normalizes
        in parts (``LlamaRMSNorm``) is one operator, whatever it calls."""
        whole = self.frame is None and _normalizes(module)
        leaf = next(module.children(), None) is None and type(module).__module__.startswith("torch.nn.")
        self._scopes.append((path, (leaf or whole) and path != ""))
        if whole:
            self.frame = self.whole = Frame("rms_norm")

    def leave(self, result: Any) -> None:
        """Note that a module's forward ends with ``result``, None where it has failed, and close its frame if it is one
        operator."""
        frame, self.whole = self.whole, None
        if frame is not None:
            self.frame, frame.arguments = None, tuple(frame.reads.values())
            if result is not None:
                self.close(frame, result)
        self._scopes.pop()

    def add_input(self, name: str, tensor: Tensor) -> None:
        """Add an operator of kind ``input`` for a tensor that the model is given, named ``input.<name>``, which no
        module can be named.

        Axes of images (floating, four axes or more) and of tokens (integers, two axes) get their names.
        """
        known: tuple[str, ...] | None = None
        if tensor.is_floating_point() and tensor.dim() >= 4:  # images; tokens are integers (B, T)
            known = frames.image_axes(tensor.dim())
        elif not tensor.is_floating_point() and tensor.dim() == 2:
            known = ("sample", "sequence")
        dimensions, axes = frames.output_dimensions(tensor.shape, self._batch, known)
        name, nbytes = self._unique(f"input.{name}"), tensor.numel() * ELEMENT_BYTES
        operator = Operator(name=name, kind="input", dimensions=dimensions, activation_bytes=nbytes)
        self.operators.append(operator)
        self._origins[key_of(tensor)] = Origin(tensor.untyped_storage(), operator.name, None, True, axes)

    # What autograd keeps

    @contextmanager
    def region(self, entering: Iterable[Tensor], *, stops_early: bool) -> Iterator[None]:
        """Record a checkpointed region while the context lasts: its operators get its name and the FLOPs that are
        computed again, which are added to their backward FLOPs too.

        One inside another is part of the outer one.

        Args:
            entering: the tensors that it is given, which are kept.
            stops_early: True if its second forward pass ends with the last tensor that the backward pass needs; else
                every operator is computed again.
        """
        if self._region is not None:
            yield
            return
        for tensor in entering:
            self._saved.keep(tensor, "", len(self.operators))
        earlier = frozenset(self._names)
        name = self._unique(f"{self._scopes[-1][0]}.checkpoint".lstrip("."))
        region = self._region = Region(name, len(self.operators), earlier)
        try:
            yield
        finally:
            self._region = None
            for index in range(region.first, len(self.operators)):
                operator = self.operators[index]
                repeated = region.repeated(index, operator) if stops_early else operator.forward_flops
                self.operators[index] = replace(
                    operator,
                    checkpoint=region.name,
                    recomputed_flops=repeated,
                    backward_flops=operator.backward_flops + repeated,
                )

    def pack(self, tensor: Tensor) -> None:
        """Note that autograd keeps a tensor for the backward pass: as a mask of one byte an element if dropout made it,
        not at all if it belongs to the parts of attention or of a root-mean-square norm, which are one kernel each."""
        frame = self.frame
        if self._region is not None:
            self._region.note(len(self.operators), frame)
        if frame is None or frame.word not in ONE_KERNEL:
            mask = frame is not None and KIND_OF_WORD.get(frame.word) == "dropout" and key_of(tensor) in frame.own
            self._keep(tensor, frame, mask=mask)

    def _keep(self, tensor: Tensor, frame: Frame | None, *, mask: bool = False) -> None:
        """Note that the next operator keeps a tensor: in the checkpoint region in progress if it was made there, so
        that it is recomputed, else throughout.

        ``frame`` is the function in progress, which may have made it, None for none; a ``mask`` counts one byte an
        element.
        """
        region, key, name = self._region, key_of(tensor), ""
        if region is not None:
            origin = None if frame is not None and key in frame.own else self._origins.get(key)
            name = region.name if origin is None or origin.producer not in region.earlier else ""
        self._saved.keep(tensor, name, len(self.operators), mask=mask)

    def _keep_whole(self, frame: Frame, outputs: list[Tensor]) -> None:
        """Note what a function of one kernel keeps: what it reads, one float32 for each row of its outputs, and of
        attention the output.

        Nothing is kept where no argument needs a gradient.
        """
        arguments = list(tensors_in([frame.arguments, frame.named]))
        if not torch.is_grad_enabled() or not any(tensor.requires_grad for tensor in arguments):
            return
        for tensor in [*arguments, *(outputs if frame.word == "attention" else [])]:
            self._keep(tensor, frame)
        self._saved.keep_statistic(sum(tensor.numel() // tensor.shape[-1] for tensor in outputs), len(self.operators))

    def finished(self) -> tuple[Operator, ...]:
        """Return all operators in their order, each with the bytes that autograd keeps of what it made."""
        return tuple(self._saved.counted(self.operators, self._origins))

    # Functions and ATen calls

    def open(self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Frame:
        """Open and return the frame of a torch function that begins; inside a module that is one operator, that
        module's."""
        self.frame = self.whole or Frame(frames.label(function), args, kwargs)
        return self.frame

    def call(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """Note an ATen call that was made, by the torch function in progress or by itself, which then is an operator of
        its own.

        A view changes nothing: only calls in place or with a new storage count.
        """
        alone = self.frame is None
        frame = self.frame or self.open(function, args, kwargs)
        operands = [*tensors_in(args), *tensors_in(kwargs)]
        before = [self._origins.of(frame, tensor) for tensor in operands]
        outputs = list(tensors_in(result))
        operands_known = {key_of(tensor) for tensor in operands}
        in_place = function._schema.is_mutable
        if in_place or any(key_of(tensor) not in operands_known for tensor in outputs):
            account(frame, self._origins, Call(function, args, operands, outputs))
            self._note_reads(frame, operands, before)
            self._note_writes(frame, operands_known, before, outputs)
        if alone:
            self.close(frame, result)

    def _note_reads(self, frame: Frame, operands: list[Tensor], before: list[Origin]) -> None:
        """Note the operands that come from outside the function, each view once; ``before`` are their origins ahead of
        the call."""
        for tensor, origin in zip(operands, before, strict=True):
            key = key_of(tensor)
            if key not in frame.own and self._origins.get(key) is origin:
                view = (key, tensor.storage_offset(), tuple(tensor.shape), tuple(tensor.stride()))
                frame.reads.setdefault(view, tensor)

    def _note_writes(self, frame: Frame, read: set[int], before: list[Origin], outputs: list[Tensor]) -> None:
        """Note what a call has returned: new storages as the function's own, others as changed where it is no constant.

        ``read`` are the storages of its operands, ``before`` their origins ahead of the call.
        """
        # A parameter stands as producer here only to say "not a constant" until the frame closes.
        alive = any(not origin.constant for origin in before)
        sampled = any(origin.sampled for origin in before)
        frame.last = outputs
        for tensor in outputs:
            key = key_of(tensor)
            if key not in read or key in frame.own:
                statistic = KIND_OF_WORD.get(frame.word) == "batch_norm" and tensor.dim() == 1
                producer = frame.word if alive else None
                frame.own[key] = Origin(tensor.untyped_storage(), producer, sampled=sampled, over_samples=statistic)
            elif alive:
                frame.changed[key] = tensor

    def close(self, frame: Frame, result: Any) -> None:
        """Add the operator of a torch function that has returned ``result``, if it computed anything, as producer of
        what it wrote.

        The frame of a module that is one operator stays open until the module is left.
        """
        if frame is self.whole:
            return
        self.frame = None
        outputs = [t for t in tensors_in(result) if key_of(t) in frame.own or key_of(t) in frame.changed] or frame.last
        sources = [(tensor, self._origins[key_of(tensor)]) for tensor in frame.reads.values()]
        if not frame.calls or not outputs:
            self._origins.update(frame.own)
            return
        operator, axes = self._operator(frame, sources, outputs)
        for name in dict.fromkeys(frame.unknown):
            self.uncounted.append(f"{operator.name}: {name} {NO_RULE}")
        if frame.word in ONE_KERNEL:
            self._keep_whole(frame, outputs)
        self.operators.append(operator)
        sampled = "sample" in operator.dimensions
        for key, origin in frame.own.items():
            # A constant that a function made on the way (an attention mask) stays one.
            producer = operator.name if not origin.constant else None
            self._origins[key] = replace(origin, producer=producer, sampled=sampled and producer is not None, axes=axes)
        for key, tensor in frame.changed.items():
            self._origins[key] = Origin(tensor.untyped_storage(), operator.name, None, sampled, axes)

    # Putting an operator together

    def _operator(
        self, frame: Frame, sources: Sources, outputs: list[Tensor]
    ) -> tuple[Operator, tuple[str, ...] | None]:
        """Return the operator of a frame, and the names of its output's axes in order; None where they have none."""
        sampled = any(origin.sampled for _, origin in sources)
        kind = kind_of(
            frame.word,
            [call.name for call, _ in frame.products],
            frame.calls,
            len({origin.producer for _, origin in sources if origin.producer is not None}),
            stacked=any(origin.parameter is not None and origin.parameter.dim() == 3 for _, origin in sources),
        )
        dimensions, axes = frames.dimensions(frame, kind, sources, outputs, self._batch if sampled else None)
        parameters = self._first_used(sources)
        written = distinct_elements(outputs)
        shared, read = frames.elements_read(kind, sources, frame.looked_up or written)
        if not sampled or not has_samples(kind, written, self._batch):
            shared += written
        tensor_kind = kind in TENSOR_KINDS
        name, block = self._place(frame.word)
        hidden = self._hidden(name, frame) if kind == "attention" else Hidden(causal=False, visible=None)
        operator = Operator(
            name=name,
            kind=kind,
            inputs=tuple(dict.fromkeys(o.producer for _, o in sources if o.producer is not None)),
            dimensions=dimensions,
            forward_flops=sum(cost.flops for _, cost in frame.products) if tensor_kind else frame.forward,
            backward_flops=frame.product_backward if tensor_kind else frame.backward,
            parameter_bytes=parameters * ELEMENT_BYTES,
            activation_bytes=written * ELEMENT_BYTES,
            parameters=parameters,
            forward_bytes=(read + written) * ELEMENT_BYTES,
            shared_bytes=shared * ELEMENT_BYTES,
            block=block,
            causal=hidden.causal,
            visible=hidden.visible,
        )
        return operator, axes

    def _hidden(self, name: str, frame: Frame) -> Hidden:
        """Return what the mask of an attention hides, as (whether no token sees a later one, share of the scores that
        is left or None where that says all): what ``is_causal`` says without a mask; nothing, with a sentence added to
        ``uncounted``, where its values are unknown. ``name`` is the operator's."""
        query, key, mask, causal = frames.attention_call(frame.arguments, frame.named)
        if mask is None:
            return Hidden(causal, None)
        hidden = self.values.hidden(mask, query.shape[-2], key.shape[-2])
        if hidden is None:
            self.uncounted.append(f"{name}: what its mask hides is unknown: counted as attention to all tokens")
            return Hidden(causal=False, visible=None)
        return hidden

    def _first_used(self, sources: Sources) -> int:
        """Return the number of elements of the parameters that no earlier operator has used, which count as used from
        now on."""
        used = {id(o.parameter): o.parameter.numel() for _, o in sources if o.parameter is not None}
        fresh = used.keys() - self._counted
        self._counted |= fresh
        return sum(used[key] for key in fresh)

    def _place(self, word: str) -> tuple[str, str]:
        """Return (name, block) of a new operator: in a leaf module of ``torch.nn``, or a norm that is one operator, the
        module's path and its parent's, else the module's path with the function's ``word`` behind a dot, and that path.

        The name gets ``#2``, ``#3``, ... where it is taken.
        """
        path, leaf = self._scopes[-1]
        name = path if leaf else f"{path}.{word}" if path else word
        return self._unique(name), path.rpartition(".")[0] if leaf else path

    def _unique(self, name: str) -> str:
        """Return the name, with ``#2``, ``#3``, ... where it is taken already, and take it."""
        candidate, repeat = name, 1
        while candidate in self._names:
            repeat += 1
            candidate = f"{name}#{repeat}"
        self._names.add(candidate)
        return candidate


def _normalizes(module: nn.Module) -> bool:
    """Return whether a module is a normalisation that its library has written in parts, such as ``LlamaRMSNorm``.

    Told by its class: ``norm`` in its name, none of PyTorch's, without children and without a parameter of two axes or
    more.
    """
    return (
        "norm" in type(module).__name__.lower()
        and not type(module).__module__.startswith("torch.")
        and not isinstance(module, _NORMS)
        and next(module.children(), None) is None
        and all(parameter.dim() < 2 for parameter in module.parameters())
    )


# The two listeners that report to a recorder: torch functions above autograd, ATen calls below.


class Functions(TorchFunctionMode):
    """Opens a frame for each torch function."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run a torch function in a frame of its own and return its result; multi-head attention is run as its
        parts."""
        if func is F.multi_head_attention_forward:
            with self:
                return _SEEN_THROUGH(*args, **(kwargs or {}))
        frame = self._recorder.open(func, args, kwargs or {})
        try:
            result = func(*args, **(kwargs or {}))
        except BaseException:
            self._recorder.frame = self._recorder.whole  # the model may catch it
            raise
        self._recorder.close(frame, result)
        return result


class AtenCalls(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Reports each ATen call."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._recorder = recorder

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an ATen call, report it, and return its result; one that fails on meta tensors is computed if its
        operands are constants."""
        run = _grouped_shape if func._schema.name == "aten::_grouped_mm" else func
        kwargs = kwargs or {}
        try:
            result = run(*args, **kwargs)
        except Exception as error:
            try:  # what follows from values has an answer where they are constants
                return self._recorder.values.computed(func, args, kwargs)
            except KeyError:
                raise error from None
        self._recorder.values.note(func, args, kwargs, result)
        self._recorder.call(func, args, kwargs, result)
        return result


def _grouped_shape(
    a: Tensor, b: Tensor, offs: Tensor | None = None, *_: Any, out_dtype: Any = None, **__: Any
) -> Tensor:
    """Return an empty tensor of the shape of a grouped matrix product of a and b, of type ``out_dtype`` or else a's:
    PyTorch's own rule for shapes refuses all but bfloat16.

    One of three axes holds a matrix for each group: (m, k) x (group, k, n) makes (m, n), (group, m, k) x (k, n) makes
    (m, n), and two matrices (m, k) x (k, n) make (group, m, n), as many groups as ``offs`` has entries.
    """
    if b.dim() == 3:
        shape = (*a.shape[:-1], b.shape[-1])
    elif a.dim() == 3:
        shape = (a.shape[1], b.shape[1])
    else:
        shape = (offs.numel() if offs is not None else 1, a.shape[0], b.shape[1])
    return torch.empty(shape, dtype=out_dtype or a.dtype, device=a.device)


def _without_override_check(function: Any) -> Any:
    """Return the function with its own ``has_torch_function`` test always false.

    ``F.multi_head_attention_forward`` is Python made of linear layers and attention. Called under a function mode it
    asks the mode first and would ask for ever; so its body runs with that one test switched off, and the mode sees its
    parts.
    """
    scope = {**function.__globals__, "has_torch_function": lambda *_: False}
    copy = FunctionType(function.__code__, scope, function.__name__, function.__defaults__, function.__closure__)
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


_SEEN_THROUGH = _without_override_check(F.multi_head_attention_forward)


# Regions of ``torch.utils.checkpoint``: what enters one is kept, what it makes is computed again in the backward pass.
#
#     x ──► ( [norm] ──► [linear] ──► [gelu] ──► [linear] ) ──► y      keeps x
#                         backward: forward once more, then backward
#
# Without reentrance the second forward pass stops once it has made all that the backward pass needs (PyTorch's early
# stop): a region's last product is not repeated. Source: Chen et al., "Training Deep Nets with Sublinear Memory Cost",
# 2016, section 3.


@contextmanager
def checkpoints_followed(recorder: Recorder) -> Iterator[None]:
    """Tell the recorder where checkpointed regions begin and end, for as long as the context lasts.

    ``torch.utils.checkpoint.checkpoint`` looks its two implementations up in its module, where they are replaced:
    models have long imported the function itself.
    """

    def without_reentrance(region: Callable[..., Any], *args: Any, **kwargs: Any) -> Iterator[None]:
        """Yield once, within a region of the recorder that stops early, as PyTorch's generator does around the call."""
        with recorder.region(_entering(region, args, kwargs), stops_early=True):
            yield

    class Reentrant:
        """Stands for PyTorch's function of checkpoints with reentrance."""

        @staticmethod
        def apply(region: Callable[..., Any], _preserve: bool, *args: Any) -> Any:
            """Return what the region returns, run within a region of the recorder that is repeated whole."""
            with recorder.region(_entering(region, args, {}), stops_early=False):
                return region(*args)

    generator = "_checkpoint_without_reentrant_generator"  # torch 2.15 added _impl
    replaced = {generator: without_reentrance, f"{generator}_impl": without_reentrance, "CheckpointFunction": Reentrant}
    with ExitStack() as stack:
        for name in replaced.keys() & vars(torch_checkpoint):
            stack.callback(setattr, torch_checkpoint, name, getattr(torch_checkpoint, name))
            setattr(torch_checkpoint, name, replaced[name])
        yield


def _entering(region: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
    """Return the tensors that a region is given, also those bound before by ``functools.partial``."""
    bound = [region.args, region.keywords] if isinstance(region, partial) else []
    return list(tensors_in([list(args), kwargs, *bound]))
