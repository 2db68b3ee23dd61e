"""Why a forward pass cannot be traced, in one line: the module, the line of code, the cause and a remedy."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

import torch
from torch import nn

from lightloom.core.errors import WorkloadError

_VALUE = (".item()", "_local_scalar_dense", "Boolean value of Tensor", "is_nonzero", "equal")
_SHAPE = ("nonzero", "masked_select", "unique", "repeat_interleave", "bincount", "dynamic")
_LIBRARIES = (str(Path(torch.__file__).parent), str(Path(__file__).parents[2]))
_REMEDIES = {
    "value": "trace in eval mode (module.eval()), leave out the input that it looks at, or take the branch under "
    "torch.compiler.is_compiling()",
    "shape": "choose a form whose shapes do not depend on values, such as experts_implementation='grouped_mm' for "
    "experts of transformers",
}


def steered_by(error: BaseException) -> str | None:
    """Return what values decided where a forward pass failed: ``"value"`` for a branch, ``"shape"``, or None."""
    text = f"{type(error).__name__}: {error}"
    if any(word in text for word in _VALUE) or "DataDependent" in text:
        return "value"
    if isinstance(error, (RuntimeError, NotImplementedError)) and any(word in text for word in _SHAPE):
        return "shape" if "meta" in text or "DynamicOutputShape" in text else None
    return None


def refusal(name: str, module: nn.Module, error: Exception) -> WorkloadError:
    """Return the error that says where the forward pass of a module fails on meta tensors, and what helps."""
    text = (str(error).strip() or "no message").splitlines()[0]
    steered = steered_by(error)
    cause = f"{type(error).__name__}: {text}"
    if steered is not None:
        cause = f"values cannot steer the forward pass, there are only shapes ({cause}): {_REMEDIES[steered]}"
    return WorkloadError(f"{name}: the forward pass fails on meta tensors{_place(module, error)}: {cause}")


def _place(module: nn.Module, error: Exception) -> str:
    """Return `` in module 'a.b' (Class), file.py line 3``, as far as the traceback tells."""
    paths = {id(part): path for path, part in module.named_modules()}
    inside, line = "", ""
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        frame, file = trace.tb_frame, trace.tb_frame.f_code.co_filename
        part = frame.f_locals.get("self")
        if isinstance(part, nn.Module) and id(part) in paths:
            inside = f" in module {paths[id(part)]!r} ({part._get_name()})" if paths[id(part)] else " in the model"  # type: ignore[no-untyped-call]
        if not file.startswith(_LIBRARIES) and not file.startswith("<"):
            line = f", {Path(file).name} line {trace.tb_lineno}"
        trace = trace.tb_next
    return inside + line
