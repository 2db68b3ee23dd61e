"""What a placement is: devices on a ring, who of them may communicate, and when every sub-operator runs.

    devices on a ring    0 ── 1 ── 2 ── 3 ── 4 ── 5 ── (0)
    reach of device 2    └────┴────●────┴────┘              Δ = 4, counted as peers: two behind, two ahead

The degree becomes a distance, as in SiP-ML (Khani et al., SIGCOMM 2021), section 3.2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from lightloom.core.arrays import Floats, Int32s, Ints
from lightloom.core.errors import ConfigError, UnsupportedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A circuit between two devices."""

    bandwidth: float
    """Bytes per second in one direction."""
    latency: float = 0.0
    """Seconds that every transfer pays."""

    def __post_init__(self) -> None:
        if not self.bandwidth > 0 or not 0 <= self.latency < math.inf:
            raise ConfigError(f"{self}: expected more than 0 B/s and at least 0 s")


@dataclass(frozen=True, slots=True)
class Reach:
    """Which devices of a group may communicate.

    ``peers``: i and j may where min((i − j) mod k, (j − i) mod k) ≤ ⌊Δ/2⌋. A device has at most Δ peers, and sends to
    and receives from no others, activations and gradients together.

    ``forward``: activations may go from j to i where (i − j) mod k ≤ Δ, the paper's formula. A device sends activations
    to at most Δ others and receives them from at most Δ; gradients take the reverse ways, so that its peers may be 2Δ.

    Where Δ ≥ k − 1 all may communicate.
    """

    degree: int
    """Δ: circuits of a device inside its group, one less than the fabric's degree D."""
    rule: Literal["peers", "forward"] = "peers"

    def offsets(self, devices: int) -> Ints:
        """Allowed values of (device of the reader − device of the producer) modulo the devices.

        Raises:
            UnsupportedError: no two devices may communicate.
        """
        if self.degree >= devices - 1:
            return np.arange(devices)
        behind, ahead = self._window()
        if ahead < 1:
            least = min(devices - 1, 2 if self.rule == "peers" else 1)
            raise UnsupportedError(
                f"degree Δ = {self.degree} is too small to place {devices} devices a group: "
                f"expected Δ of at least {least} (D = {least + 1} with one circuit for data parallelism), or k = 1"
            )
        return np.arange(-behind, ahead + 1) % devices

    def clique(self, devices: int) -> int:
        """Neighbouring devices on the ring that may all communicate with one another."""
        return devices if self.degree >= devices - 1 else self._window()[0] + 1

    def span(self, devices: int) -> int:
        """Neighbouring devices over which data that never turns back may go from any to any later one."""
        return devices if self.degree >= devices - 1 else self._window()[1] + 1

    def _window(self) -> tuple[int, int]:
        half = self.degree // 2
        return (half, half) if self.rule == "peers" else (0, self.degree)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Placement:
    """Devices and times of all sub-operators, in columns as the balanced graph's."""

    device: Int32s
    devices: int
    reach: Reach
    link: Link
    start: Floats
    """Seconds, forward pass."""
    end: Floats
    backward_start: Floats
    """Seconds, counted from the start of the iteration; the backward pass begins when the forward pass has ended."""
    backward_end: Floats
    makespan: float
    """Seconds of both passes: computing and activations and gradients, without the exchange of parameter gradients."""
    repaired: int
    """Sub-operators that the repair moved; 0 where no repair was needed or another start was better."""
    method: str
    """The start that was best."""
