"""Regions of ``torch.utils.checkpoint``: what enters one is kept, what it makes is computed again in the backward pass.

    x ──► ( [norm] ──► [linear] ──► [gelu] ──► [linear] ) ──► y      keeps x
                        backward: forward once more, then backward

Without reentrance the second forward pass stops once it has made all that the backward pass needs (PyTorch's early
stop): a region's last product is not repeated. Source: Chen et al., "Training Deep Nets with Sublinear Memory Cost",
2016, section 3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch.utils.checkpoint as torch_checkpoint
from torch import Tensor

from lightloom.workloads.torch.frame import tensors_in
from lightloom.workloads.torch.recorder import Recorder


@contextmanager
def checkpoints_followed(recorder: Recorder) -> Iterator[None]:
    """Tell the recorder where checkpointed regions begin and end, for as long as the context lasts.

    ``torch.utils.checkpoint.checkpoint`` looks its two implementations up in its module, where they are replaced:
    models have long imported the function itself.
    """
    generator, function = torch_checkpoint._checkpoint_without_reentrant_generator, torch_checkpoint.CheckpointFunction

    def without_reentrance(region: Callable[..., Any], *args: Any, **kwargs: Any) -> Iterator[None]:
        with recorder.region(_entering(region, args, kwargs), stops_early=True):
            yield

    class Reentrant:
        @staticmethod
        def apply(region: Callable[..., Any], _preserve: bool, *args: Any) -> Any:
            with recorder.region(_entering(region, args, {}), stops_early=False):
                return region(*args)

    replacements: dict[str, Any] = {
        "_checkpoint_without_reentrant_generator": without_reentrance,
        "CheckpointFunction": Reentrant,
    }
    for name, value in replacements.items():
        setattr(torch_checkpoint, name, value)
    try:
        yield
    finally:
        torch_checkpoint._checkpoint_without_reentrant_generator = generator
        torch_checkpoint.CheckpointFunction = function  # type: ignore[misc]


def _entering(region: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
    """Tensors that a region is given, also as arguments that were bound before."""
    bound = [region.args, region.keywords] if isinstance(region, partial) else []
    return list(tensors_in([list(args), kwargs, *bound]))
