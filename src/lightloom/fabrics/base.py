"""What every fabric says about itself: its links, what a transfer occupies, what a cut can carry, what it can do.

A fabric has directed *links*, numbered from 0. A transfer from one rank to another along a *route* occupies a few
runs of consecutive links, its :class:`Footprint`. Two ways of sharing a link exist:

* circuit-switched (``exclusive``): a link has ``channels``, and a lightpath holds each of its channels alone. On a WDM
  ring a channel is a wavelength of a fibre; on an optical circuit switch it is a switch plane;
* packet-switched: transfers share a link's bandwidth, whatever their number. Bandwidths of such links are those of the
  data in the packets (:mod:`lightloom.fabrics.packets`).

Capabilities (wavelengths, reconfiguration time, multicast taps, in-network reduction) are fields, so that an algorithm
asks for what it needs and never for a class.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from lightloom.core.arrays import Floats, Ints
from lightloom.core.fields import Config, JoulesPerBit, Ranks, Seconds, Watts

CLOCKWISE, COUNTERCLOCKWISE = 0, 1
"""The two values of a ring lightpath's ``route``; every other fabric has the single route 0."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """The links that transfers occupy, as runs of consecutive links on cyclic tracks.

    Each array has shape [transfer, run]. Run ``r`` of transfer ``t`` occupies the links
    ``base + (start + k) % period`` for ``k < length``.
    """

    base: Ints
    start: Ints
    length: Ints
    period: Ints

    @classmethod
    def of(cls, runs: Sequence[tuple[Any, Any, Any, Any]]) -> Footprint:
        """Stack ``(base, start, length, period)`` runs, each broadcast to one entry a transfer."""
        columns = [np.broadcast_arrays(*run) for run in runs]
        return cls(*(np.stack([c[i] for c in columns], axis=-1).astype(np.int64) for i in range(4)))


@dataclass(frozen=True, slots=True)
class Cut:
    """A set of ranks and what can enter (or leave) it: no more than ``capacity`` bytes per second, each way."""

    name: str
    ranks: int
    capacity: float


class Fabric(Config):
    """Common fields and the geometry that the verifier, the cost models and the bounds ask for."""

    ranks: Ranks
    """Number of ranks attached."""
    hop_latency: Seconds = 0.0
    """Propagation (and forwarding) delay of one link, seconds."""
    energy_per_bit: JoulesPerBit | None = None
    """Joules per transmitted bit: once a lightpath where light passes nodes untouched, once a link on packet
    fabrics."""
    power_per_rank: Watts | None = None
    """Power of a rank's network interface while the job runs, busy or not."""
    sources: dict[str, str] = Field(default_factory=dict)
    """Where each field's value comes from, by field name."""

    exclusive: ClassVar[bool] = False
    routes: ClassVar[int] = 1
    """Values that a transfer's ``route`` may take."""
    in_network_reduction: ClassVar[bool] = False
    wavelength_routed: ClassVar[bool] = False

    tiered: ClassVar[bool] = False
    """Whether neighbours reach each other in another way than ranks that lie apart."""

    @property
    def channels(self) -> int:
        """Channels of a link that circuits hold alone; 0 on packet fabrics."""
        return 0

    @property
    def fibre_channels(self) -> int:
        """Channels of one fibre of a link: channel ``fibre · fibre_channels + wavelength``. 1 for switch planes."""
        return 1

    @property
    def usable_channels(self) -> int:
        """Channels of each link that schedules may fill without any node running out of transceivers."""
        return self.channels

    @property
    def channel_bandwidth(self) -> float:
        """Bytes per second of one channel of a circuit-switched link."""
        raise NotImplementedError

    @property
    def setup_time(self) -> float:
        """Seconds to change circuits; 0 on packet fabrics."""
        return 0.0

    @property
    def step_overhead(self) -> float:
        """Seconds that every step pays for conversion between light and electrons."""
        return 0.0

    @property
    def piece_overhead(self) -> float:
        """Seconds that every piece of a queued schedule holds its lightpath besides its bytes."""
        return 0.0

    @property
    def taps(self) -> int:
        """Destinations that one lightpath can serve; 1 without optical multicast."""
        return 1

    @property
    def reach(self) -> int | None:
        """Most links that one lightpath may pass; None without limit."""
        return None

    @property
    def transmitters(self) -> int | None:
        """Channels that a node can send on at once (and receive on at once); None if never binding."""
        return None

    def blocked(self) -> NDArray[np.bool_] | None:
        """Channels of links that no light passes, for something has failed: [links, channels]; None where all are
        sound."""
        return None

    def blocked_ends(self) -> NDArray[np.bool_] | None:
        """Channels on which a rank can neither begin nor end a lightpath of a route: [ranks, routes, channels]; None
        where all are sound."""
        return None

    @property
    @abstractmethod
    def links(self) -> int:
        """Number of directed links."""

    @abstractmethod
    def link_name(self, link: int) -> str:
        """A link for people."""

    @abstractmethod
    def link_bandwidth(self) -> Floats:
        """Bytes per second of each link, shape [links]."""

    @abstractmethod
    def footprint(self, source: Ints, destination: Ints, route: Ints) -> Footprint:
        """The links that each transfer occupies."""

    def route(self, source: Ints, destination: Ints) -> Ints:
        """The route a transfer takes when nobody chooses one."""
        return np.zeros(len(np.asarray(source)), dtype=np.int64)

    def reverse_route(self, route: Ints) -> Ints:
        """The route of the transfer that runs the same way back."""
        return route

    def latency(self, source: Ints, destination: Ints, route: Ints) -> Floats:
        """Seconds from the first bit sent to the first bit received."""
        return self.hop_latency * self.hops(source, destination, route).astype(np.float64)

    def hops(self, source: Ints, destination: Ints, route: Ints) -> Ints:
        """Links that each transfer crosses."""
        crossed: Ints = self.footprint(source, destination, route).length.sum(axis=-1)
        return crossed

    @abstractmethod
    def cuts(self) -> list[Cut]:
        """Cuts that may bind, the single ranks' among them."""

    @abstractmethod
    def total_receive_bandwidth(self) -> float:
        """Sum over ranks of what each can receive, bytes per second."""

    @abstractmethod
    def diameter(self) -> int:
        """Links between the two ranks farthest apart."""

    def diameter_latency(self) -> float:
        """Seconds below which the farthest two ranks cannot hear of each other."""
        return self.hop_latency * self.diameter()

    def group(self, ranks: int, stride: int = 1) -> Self | None:
        """This fabric as a group of some ranks sees it that lie ``apart`` from each other, all other fields equal; None
        where it has no such group."""
        return self._with(ranks=ranks)

    def _with(self, **fields: int) -> Self | None:
        try:
            return type(self).model_validate(self.model_dump() | fields)
        except ValidationError:
            return None

    def pair(self, stride: int) -> tuple[float, float]:
        """Bytes per second and seconds of latency from every rank to the one that lies so far on, all at once."""
        return self.total_receive_bandwidth() / self.ranks, self.neighbour_latency()

    def neighbour_latency(self) -> float:
        """Seconds below which no rank hears of any other."""
        return self.hop_latency

    def ring_order(self) -> Ints:
        """An order of the ranks in which neighbours are near each other, for ring algorithms."""
        return np.arange(self.ranks, dtype=np.int64)

    def wire_bytes(self, nbytes: float) -> float:
        """Bytes on a link that carries ``nbytes`` of data: headers are added where there are packets."""
        return nbytes

    def with_smaller_packets(self, ratio: float) -> Self:
        """This fabric when packets hold ``ratio`` times less and are as many, as a codec behind the port makes them."""
        return self

    @property
    def switch_rank(self) -> int:
        """The number by which schedules address the in-network reducer: one past the last rank."""
        return self.ranks
