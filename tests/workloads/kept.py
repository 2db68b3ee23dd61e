"""What autograd holds for the backward pass, measured with PyTorch's hooks on a processor's fake tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.graph import saved_tensors_hooks


def called(module: Any, inputs: Any) -> Any:
    """The module's result for a tensor, a tuple of arguments or a mapping of keywords."""
    if isinstance(inputs, dict):
        return module(**inputs)
    return module(*inputs) if isinstance(inputs, tuple) else module(inputs)


def bytes_kept(module: Any, inputs: Any) -> int:
    """Bytes of the distinct storages that autograd keeps, parameters and buffers aside, at the model's own types.

    Dropout is switched off: a processor keeps its mask in floating point and attention's scores for it.
    """
    with FakeTensorMode():
        for part in module.modules():
            if isinstance(part, torch.nn.Dropout):
                part.p = 0.0
            for name, parameter in part._parameters.items():
                if parameter is not None:
                    part._parameters[name] = torch.nn.Parameter(on_processor(parameter), parameter.requires_grad)
            for name, buffer in part._buffers.items():
                if buffer is not None:
                    part._buffers[name] = on_processor(buffer)
        own = {int(t.untyped_storage()._cdata) for t in (*module.parameters(), *module.buffers())}
        storages: dict[int, torch.UntypedStorage] = {}

        def pack(tensor: Tensor) -> Tensor:
            storage = tensor.untyped_storage()
            if int(storage._cdata) not in own:
                storages[int(storage._cdata)] = storage
            return tensor

        with saved_tensors_hooks(pack, lambda tensor: tensor):
            called(module, on_processor(inputs))
        return sum(storage.nbytes() for storage in storages.values())


def on_processor(value: Any) -> Any:
    """The same tensors in the processor's memory, without values where a fake mode is active."""
    if isinstance(value, Tensor):
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="cpu")
    if isinstance(value, dict):
        return {key: on_processor(item) for key, item in value.items()}
    return tuple(on_processor(item) for item in value)
