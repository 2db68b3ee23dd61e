"""Figures of the paper: Tables 1 and 2, and the ten percentages of its abstract and section 5."""

from __future__ import annotations

from typing import NamedTuple

BATCHES = (1, 32, 256)
"""Batch sizes of Fig. 5."""
NEURON_BATCH = 32
"""Batch size of Table 2's neurons."""
LINKS = ("25-E", "100-O", "400-O")
"""The three systems of Fig. 5."""


class Row(NamedTuple):
    """A column of Table 2, with sizes in MB."""

    layers: int
    convolutions: int
    connected: int
    synapse: float
    neuron: float
    ratio: float


TABLE_2 = {
    "AlexNet": Row(14, 5, 3, 233, 172, 1.35),
    "VGG16": Row(22, 13, 3, 528, 1860, 0.28),
    "VGG19": Row(25, 16, 3, 548, 2019, 0.27),
    "Inception-v1": Row(73, 20, 1, 27, 587, 0.05),
    "Inception-v3": Row(111, 56, 1, 105, 1446, 0.07),
    "ResNet50": Row(125, 49, 1, 97, 3290, 0.03),
    "ResNet101": Row(244, 100, 1, 170, 4956, 0.03),
    "ResNet152": Row(363, 151, 1, 229, 7014, 0.03),
    "DenseNet121": Row(306, 120, 1, 30, 4061, 0.01),
}

TABLE_1: dict[str, tuple[float, str]] = {
    "frequency": (606, "MHz"),
    "tiles": (16, "tiles"),
    "multipliers": (288, "a tile"),
    "adders": (288, "a tile"),
    "peak": (2.09, "TeraOPS"),
    "power": (7.96, "W"),
    "local_edram_latency": (3, "cycles"),
    "central_edram_latency": (10, "cycles"),
    "neuron_buffer": (16, "KB a tile"),
    "local_edram": (2, "MB a tile"),
    "central_edram": (4, "MB"),
    "phy_power_25": (2.0, "W"),
    "phy_power_100": (3.5, "W"),
    "phy_power_400": (6.0, "W"),
    "bandwidth_25": (6.4, "GB/s both ways"),
    "bandwidth_100": (25, "GB/s both ways"),
    "bandwidth_400": (100, "GB/s both ways"),
    "latency_25": (80, "ns"),
    "latency_100": (80, "ns"),
    "latency_400": (160, "ns"),
}
"""Table 1: value and unit."""

HEADLINE = {
    "time_average_100": 20.6,
    "time_average_400": 35.6,
    "time_best_100": 41.1,
    "time_best_400": 72.2,
    "edp_average_100": 22.8,
    "edp_average_400": 44.3,
    "edp_best_100": 47.4,
    "edp_best_400": 85.6,
    "time_batch256_100": 16.9,
    "time_batch256_400": 28.4,
}
"""Per cent saved against 25-E: mean and best of all networks and batches, and mean at batch 256."""
BEST = {"100": "VGG19", "400": "VGG16"}
"""Networks of the two best values, according to the text."""

TOLERANCE = 2.0
"""Points within which a headline of a fitted variant counts as matching."""
