"""Figures of the paper: Tables I to III, and the numbers of its text. Source: Li et al., MICRO 2018."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

WORKERS = 4
"""Number of workers, beside one aggregator in the worker-aggregator cluster (section VII-C)."""
LINK_BITS = 10e9
"""Bandwidth of Ethernet in each direction, in bit/s."""
BOUNDS = (10, 8, 6)
"""Exponents k of the error bounds 2^-k."""
MODELS = ("AlexNet", "HDC", "ResNet-50", "VGG-16")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hyperparameters:
    """A column of Table I, with signs as printed."""

    batch_per_node: int
    learning_rate: float
    divisor: float
    iterations_per_division: int
    momentum: float
    weight_decay: float
    iterations: int


TABLE_1: Mapping[str, Hyperparameters] = {
    "AlexNet": Hyperparameters(
        batch_per_node=64,
        learning_rate=-0.01,
        divisor=10,
        iterations_per_division=100_000,
        momentum=0.9,
        weight_decay=5e-5,
        iterations=320_000,
    ),
    "HDC": Hyperparameters(
        batch_per_node=25,
        learning_rate=-0.1,
        divisor=5,
        iterations_per_division=2_000,
        momentum=0.9,
        weight_decay=5e-5,
        iterations=10_000,
    ),
    "ResNet-50": Hyperparameters(
        batch_per_node=16,
        learning_rate=0.1,
        divisor=10,
        iterations_per_division=200_000,
        momentum=0.9,
        weight_decay=1e-4,
        iterations=600_000,
    ),
    "VGG-16": Hyperparameters(
        batch_per_node=64,
        learning_rate=-0.01,
        divisor=10,
        iterations_per_division=100_000,
        momentum=0.9,
        weight_decay=5e-5,
        iterations=370_000,
    ),
}


@dataclass(frozen=True, slots=True)
class Breakdown:
    """A column of Table II: seconds of 100 iterations on four workers and one aggregator."""

    forward: float
    backward: float
    gpu_copy: float
    gradient_sum: float
    communicate: float
    update: float
    total: float

    @property
    def parts(self) -> dict[str, float]:
        """The six steps, as printed."""
        names = ("forward", "backward", "gpu_copy", "gradient_sum", "communicate", "update")
        return {name: getattr(self, name) for name in names}

    @property
    def local(self) -> float:
        """Seconds of 100 iterations without communication and the sum of gradients."""
        return self.forward + self.backward + self.gpu_copy + self.update


TABLE_2: Mapping[str, Breakdown] = {
    "AlexNet": Breakdown(3.13, 16.22, 5.68, 8.94, 148.71, 13.67, 196.35),
    "HDC": Breakdown(0.08, 0.07, 0.0, 0.09, 1.36, 0.09, 1.7),
    "ResNet-50": Breakdown(2.63, 4.87, 2.24, 3.68, 60.58, 1.55, 75.55),
    "VGG-16": Breakdown(32.25, 142.34, 12.09, 19.89, 583.58, 30.50, 823.65),
}
TABLE_2_PERCENT: Mapping[str, tuple[float, ...]] = {
    "AlexNet": (1.6, 8.3, 2.9, 4.6, 75.7, 7.0),
    "HDC": (4.9, 4.3, 0.0, 5.2, 80.2, 5.3),
    "ResNet-50": (3.5, 6.5, 3.0, 4.9, 80.2, 2.1),
    "VGG-16": (4.3, 17.3, 1.5, 2.4, 70.9, 3.7),
}
ITERATIONS = 100
"""Number of iterations that Table II times."""

TABLE_3: Mapping[tuple[str, int], tuple[float, float, float, float]] = {
    ("AlexNet", 10): (74.9, 3.9, 21.1, 0.1),
    ("AlexNet", 8): (82.5, 14.8, 2.6, 0.1),
    ("AlexNet", 6): (93.0, 7.0, 0.0, 0.1),
    ("HDC", 10): (92.0, 6.5, 1.5, 0.0),
    ("HDC", 8): (95.7, 3.4, 0.9, 0.0),
    ("HDC", 6): (98.1, 1.6, 0.4, 0.0),
    ("ResNet-50", 10): (81.6, 17.9, 0.5, 0.0),
    ("ResNet-50", 8): (92.3, 7.7, 0.1, 0.0),
    ("ResNet-50", 6): (97.6, 2.4, 0.0, 0.0),
    ("VGG-16", 10): (94.2, 0.9, 4.9, 0.0),
    ("VGG-16", 8): (96.2, 3.8, 0.0, 0.0),
    ("VGG-16", 6): (97.3, 2.7, 0.0, 0.0),
}
"""Percent of values sent with 2, 10, 18 and 34 bits, by model and k of the bound 2^-k."""
TAG_BITS = (2, 10, 18, 34)

MEGABYTES: Mapping[str, float] = {"AlexNet": 233, "HDC": 2.5, "ResNet-50": 98, "VGG-16": 525}
"""Model sizes (section VII-A); 2^20 bytes each, as AlexNet's and ResNet-50's parameter counts show."""

INC_TOTAL: Mapping[str, float] = {"AlexNet": 52, "HDC": 38, "ResNet-50": 49, "VGG-16": 31}
"""Fig. 12: percent by which ring training is shorter than worker-aggregator training, neither compressed."""
INC_COMMUNICATION: Mapping[str, float] = {"AlexNet": 55, "HDC": 39, "ResNet-50": 58, "VGG-16": 36}
"""Fig. 12: the same for communication alone."""
WA_C, INC_C, INC_C_OVER_INC = 30.8, 80.7, 53.9
"""Fig. 12: percent less communication than WA (WA+C, INC+C) and than INC (INC+C); the text says about."""
SPEEDUPS = (2.2, 3.1)
"""Figs. 12 and 13: INC+C over WA, least and greatest of the four models."""
BEST_RATIO = 14.9
"""Section VIII-C: the greatest compression ratio of Fig. 14."""


def size_bytes(model: str) -> float:
    """Return the bytes of weights, or of gradients, as the paper states them."""
    return MEGABYTES[model] * 2**20


def ratio(model: str, k: int) -> float:
    """Return float32 bits per sent bit, by Table III."""
    bits = sum(share / 100 * width for share, width in zip(TABLE_3[model, k], TAG_BITS, strict=True))
    return 32 / bits
