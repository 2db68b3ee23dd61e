"""What a fabric can do, and what its circuits are: fields and properties of every fabric.

Algorithms, synthesis and placed plans ask for the capabilities that they need and never for a class. A circuit-switched
fabric (``exclusive``) is either a ring of wavelengths, whose light passes the nodes on its way (``wavelength_routed``),
or sets circuits on ``switch_planes``; on packet fabrics ranks forward over the links that join them (``joins_ranks``)
or send over links of their own (``ports``, a method of the fabric).
"""

from __future__ import annotations

from math import prod
from typing import ClassVar, NamedTuple, TypeVar

from lightloom.core.arrays import Mask
from lightloom.core.described import Described
from lightloom.parts.part import Kind
from lightloom.transports.library import Library

T = TypeVar("T")

NEEDS_CIRCUITS = (
    "expected wavelengths around a sound ring (wavelength_routed: wdm-ring) or switch planes (switch_planes: "
    "circuit-switch)"
)
"""What a fabric without ``assigns_circuits`` lacks."""
NEEDS_OWN_LINKS = f"{NEEDS_CIRCUITS}, or links that each rank has to itself (ports)"
"""What a fabric lacks on which no placed plan can be simulated."""


class Grid(NamedTuple):
    """Ranks in rows and columns: rank = row · columns + column; routes run along the row first."""

    rows: int
    columns: int
    wraps: bool
    """Whether the ends of each row and of each column are joined."""


class Axis(NamedTuple):
    """Ranks that one part of a fabric joins: every ``stride``-th, ``size`` of them.

    The axes of a fabric tile it: rank = sum of place · stride. Strides ascend, and each is the product of the sizes
    before it, so that the first axis joins neighbours (a domain) and the second the ranks in the same place of all
    domains (rails).
    """

    stride: int
    size: int
    tier: int = 0
    """Number of the tier, from the ranks outwards, that joins them."""
    ports: int = 1
    """Ports (rails) into that tier of everything within one stride, so that ranks have one each where both are
    equal."""
    in_network_reduction: bool = False
    """Whether the tier's switches can add what enters them."""

    @classmethod
    def along(cls, dims: tuple[int, ...]) -> tuple[Axis, ...]:
        """The axes of a grid whose last dimension joins neighbours, single ranks left out."""
        strides = (prod(dims[place + 1 :]) for place in range(len(dims)))
        return tuple(cls(stride, size) for stride, size in reversed(list(zip(strides, dims, strict=True))) if size > 1)


class Capabilities(Described):
    """Capabilities of a fabric that has none; a fabric states its own.

    Times and limits of circuits are fields where a kind has them: ``reconfiguration_time``, ``link_up_time``,
    ``conversion_time``, ``guard_time``, ``multicast_taps``, ``lightpath_reach`` and ``transceivers``.
    """

    exclusive: ClassVar[bool] = False
    """Whether a lightpath holds the channels of its links alone; transfers share the links of packet fabrics."""
    routes: ClassVar[int] = 1
    """Values that a transfer's ``route`` may take."""
    in_network_reduction: ClassVar[bool] = False
    """Whether a switch adds what enters in a step and returns the sum."""
    wavelength_routed: ClassVar[bool] = False
    """Whether circuits are wavelengths around a ring."""
    switch_planes: ClassVar[bool] = False
    """Whether each channel is a switch plane on which any permutation of the ranks can be set."""
    joins_ranks: ClassVar[bool] = False
    """Whether packets travel over links between neighbouring ranks: every rank has transfers of a single link."""
    damaged: ClassVar[bool] = False
    """Whether channels of some links or ranks have failed."""
    distance_matters: ClassVar[bool] = True
    """Whether a group of ranks that lie apart performs differently from a group of neighbours."""
    stated_power_of: ClassVar[tuple[Kind, ...] | None] = None
    """Kinds of parts whose power ``power_per_rank`` holds; None: all, as links end at the ranks alone."""
    rate_fields: ClassVar[frozenset[str]] = frozenset()
    """Fields, those of its tiers included, that decide nothing but how fast links are and what a bit costs
    (:mod:`lightloom.fabrics.structure`)."""
    group_assumption: ClassVar[str] = ""
    """A modelling assumption under which ``group`` and ``pair`` hold; empty where they follow from footprints."""

    @property
    def kind_name(self) -> str:
        """The word that ``kind:`` takes in files."""
        field = type(self).model_fields.get("kind")
        return type(self).__name__ if field is None else str(field.default)

    @property
    def implementation(self) -> tuple[str, str]:
        """Module and name of the class, which tell results of different code apart."""
        return type(self).__module__, type(self).__name__

    @property
    def may_fail(self) -> tuple[str, ...]:
        """What may fail, in words of :class:`lightloom.fabrics.failures.Failure`; empty where nothing is modelled."""
        if self.joins_ranks:
            return ("link", "node", "dark-node")
        return ("plane", "node", "dark-node") if self.switch_planes else ()

    @property
    def assigns_circuits(self) -> bool:
        """Whether circuits can be assigned to any traffic between its ranks."""
        return self.switch_planes or (self.wavelength_routed and not self.damaged)

    @property
    def grid(self) -> Grid | None:
        """The grid that ranks form; None where they form none."""
        return None

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The axes along which ranks are joined, neighbours first; empty where all ranks are joined alike."""
        return ()

    @property
    def circuit_block(self) -> int | None:
        """Ranks of the blocks that optical circuit switches join in any order; None where none do."""
        return 1 if self.switch_planes else None

    @property
    def filling(self) -> str | None:
        """Which domains ranks fill in part, in words for people; None where all are full."""
        return None

    @property
    def library(self) -> Library | None:
        """The collective library and what it finds on the fabric; None where the fabric states none."""
        return None

    @property
    def software(self) -> str:
        """What carries collectives, in words for people."""
        return "ideal software, as no closed form of a library serves such links"

    @property
    def arithmetic_share(self) -> float:
        """Share of an accelerator's arithmetic that collectives take while they run beside computing."""
        return 0.0

    @property
    def built_of(self) -> str:
        """What the fabric's bandwidth takes of devices, in a line for people; empty where nothing is derived."""
        return ""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What of the fabric cannot be built as it is described, with the cause, in lines for people."""
        return ()

    def stated_fields(self) -> dict[str, object]:
        """The fields that a copy starts from, without those that follow from others."""
        return self.model_dump()

    @property
    def failures_text(self) -> str:
        """What has failed, for messages; empty where nothing has."""
        return ""

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
        """Seconds from circuits as they were until new ones carry data; 0 on packet fabrics."""
        return self._stated("reconfiguration_time", 0.0) + self._stated("link_up_time", 0.0)

    @property
    def step_overhead(self) -> float:
        """Seconds that every step pays for conversion between light and electrons."""
        return self._stated("conversion_time", 0.0)

    @property
    def piece_overhead(self) -> float:
        """Seconds that every piece of a queued schedule holds its lightpath besides its bytes."""
        return self._stated("guard_time", 0.0)

    @property
    def taps(self) -> int:
        """Destinations that one lightpath can serve; 1 without optical multicast."""
        return self._stated("multicast_taps", 1)

    @property
    def reach(self) -> int | None:
        """Most links that one lightpath may pass; None without limit."""
        return self._stated("lightpath_reach", None)

    @property
    def transmitters(self) -> int | None:
        """Channels that a node can send on at once (and receive on at once); None if never binding."""
        return self._stated("transceivers", None)

    def _stated(self, field: str, default: T) -> T:
        value: T = getattr(self, field, default)
        return value

    def blocked(self) -> Mask | None:
        """Channels of links that no light passes, for something has failed: [links, channels]; None where all are
        sound."""
        return None

    def blocked_ends(self) -> Mask | None:
        """Channels on which a rank can neither begin nor end a lightpath of a route: [ranks, routes, channels]; None
        where all are sound."""
        return None
