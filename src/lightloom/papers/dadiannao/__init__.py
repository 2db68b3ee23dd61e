"""DaDianNao clusters with optical links (Ro, Lee and Ahn, Electronics 2018)."""

from typing import NamedTuple

from lightloom.papers.study import Paper

PAPER = Paper.load(__name__)
"""Published values of the paper, and the texts of its study."""

# Figures of the paper: Tables 1 and 2, and the ten percentages of its abstract and section 5.

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


TABLE_2 = {name: Row(**row) for name, row in PAPER.tables["table2"].items()}

TABLE_1: dict[str, tuple[float, str]] = {name: (value, unit) for name, (value, unit) in PAPER.tables["table1"].items()}
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

CODE, SYMBOL_BITS = (544, 514), 10
"""Symbols of a block of 400 Gb/s Ethernet's Reed-Solomon code, and those that carry data (IEEE 802.3bs, clause 119): a
receiver sees the whole block before it corrects up to half as many symbols as do not."""
DECODER_CYCLES = 47
"""Cycles that RS(544, 514) adds to a link, as the paper cites them (section 4.1)."""
