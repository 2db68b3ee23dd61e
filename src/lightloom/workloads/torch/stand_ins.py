"""Tensors that stand in for a module's own while it is traced: shapes without values.

Meta tensors serve most models. Code that asks whether it is being traced (``transformers`` does before it looks at an
attention mask) recognises PyTorch's fake tensors, which here are meta tensors too, so that both give the same graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from lightloom.workloads.torch.values import Values


def to_meta(module: nn.Module, values: Values) -> None:
    """Move parameters and buffers to the meta device; a tensor that is shared stays shared, values of buffers are
    noted."""
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
    """Return the same nest with every tensor on the meta device, each with a storage of its own."""
    if isinstance(value, Tensor):
        return torch.empty_like(value, device="meta", requires_grad=value.requires_grad)
    if isinstance(value, Mapping):
        return {key: meta_copy(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)(meta_copy(item) for item in value)
    return value


@contextmanager
def fake_tensors(module: nn.Module, values: Values) -> Iterator[None]:
    """Replace a module's meta parameters and buffers by fake ones, for as long as the context lasts.

    What is created in the context is fake as well.
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
    return nn.Parameter(_fake(parameter), parameter.requires_grad)


def _fake(tensor: Tensor) -> Tensor:
    """A new tensor of the same shape on the meta device, fake where a fake mode is active."""
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
