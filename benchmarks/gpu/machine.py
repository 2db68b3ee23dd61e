"""The GPU at hand, as a measurement states it."""

from __future__ import annotations

from lightloom.core.errors import UnsupportedError


def require_gpu() -> None:
    """Refuse to measure where there is no GPU.

    Raises:
        UnsupportedError: torch sees no CUDA device.
    """
    import torch

    if not torch.cuda.is_available():
        raise UnsupportedError("this benchmark needs a CUDA device: torch sees none")


def described() -> dict[str, object]:
    """Return the name of the GPU and the versions of what ran on it."""
    import torch
    import triton

    return {
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "triton": triton.__version__,
    }
