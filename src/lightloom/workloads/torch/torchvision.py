"""Beside a PyTorch for processors, torchvision's wheel for CUDA loads no compiled operators; libraries that import it,
transformers among them, then fail although they need none of these."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from typing import Any

import torch

_OPERATORS = ("nms", "qnms")


@cache
def declare_operators() -> Any:
    """Declare the operators whose shapes torchvision registers on import, where its compiled ones cannot be loaded.

    Returns what keeps the declarations alive; None where none are needed.
    """
    spec = importlib.util.find_spec("torchvision")
    if spec is None or spec.origin is None:
        return None
    try:
        torch.ops.load_library(str(Path(spec.origin).parent / "_C.so"))  # type: ignore[no-untyped-call]
    except (OSError, ImportError):
        declared = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]
        for operator in _OPERATORS:
            declared.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")  # type: ignore[no-untyped-call]
        return declared
    return None
