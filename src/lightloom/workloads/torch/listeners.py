"""The two listeners that report to a recorder: torch functions above autograd, ATen calls below."""

from __future__ import annotations

from types import FunctionType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from lightloom.workloads.torch.recorder import Recorder


class Functions(TorchFunctionMode):
    """Opens a frame for each torch function."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is F.multi_head_attention_forward:
            with self:
                return _SEEN_THROUGH(*args, **(kwargs or {}))
        frame = self._recorder.open(func, args, kwargs or {})
        try:
            result = func(*args, **(kwargs or {}))
        except BaseException:
            self._recorder.abandon()
            raise
        self._recorder.close(frame, result)
        return result


class AtenCalls(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Reports each ATen call."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._recorder = recorder

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        run = _grouped_shape if func is torch.ops.aten._grouped_mm.default else func
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
    """Return what a grouped matrix product would: PyTorch's own rule for shapes refuses all but bfloat16."""
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
