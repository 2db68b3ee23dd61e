"""A cluster: ranks of one accelerator on one fabric, and how jobs train there unless they say otherwise."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from lightloom.core.errors import UnsupportedError
from lightloom.core.fields import Config, Count, FewRanks, Size
from lightloom.core.results import Result, attributes
from lightloom.machines.accelerators.accelerator import Accelerator, Precision
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.transports.ways import Tiers as LibraryTiers

# How a job trains, as far as time, bytes and memory depend on it; a cluster file may set its own defaults.

Attention = Literal["flash", "unfused"]
"""How attention is computed: in one kernel that never stores its scores, or as products with a softmax between."""

StageBlocks = Literal["balanced", "equal"] | tuple[Count, ...]
"""How blocks fall to pipeline stages: so that the busiest stage has the least work, or the same number to each; or the
blocks of each stage, of each of its chunks where stages interleave, in the order of the model. Other numbers of stages
than are stated there are balanced."""


class TrainingSettings(Config):
    """Batch, number formats, and the sizes at which gradients and parameters are grouped."""

    batch_per_rank: Count = 32
    """Samples that one rank works on in a step."""
    precision: Precision = "bf16"
    """Number format of the arithmetic and of activations."""
    attention: Attention = "flash"
    """How attention is computed; it matters on accelerators with a kernel model."""
    stage_blocks: StageBlocks = "balanced"
    """How blocks fall to pipeline stages; Megatron-LM gives the same number to each where nothing else is stated."""
    gradient_bytes: Count = 4
    """Bytes of one gradient element that data parallelism exchanges (DDP keeps the parameters' float32)."""
    sharded_parameter_bytes: Count = 2
    """Bytes of one parameter that sharded data parallelism gathers (FSDP2's ``param_dtype``, bfloat16)."""
    sharded_gradient_bytes: Count = 2
    """Bytes of one gradient element that sharded data parallelism reduces (FSDP2's ``reduce_dtype``, bfloat16)."""
    stored_parameter_bytes: Count = 4
    """Bytes of one parameter as the optimizer keeps it (float32)."""
    optimizer_state_bytes: Annotated[int, Field(ge=0, strict=True)] = 8
    """Bytes of optimizer state for one parameter (Adam: two float32 moments)."""
    optimizer_traffic_bytes: Annotated[int, Field(ge=0, strict=True)] = 28
    """Bytes an update moves for one parameter (Adam in float32: reads parameter, gradient and two moments, writes all
    but the gradient)."""
    zero_2_exchange: Literal["step", "micro-batch"] = "step"
    """How often replicas that shard gradients but not parameters (ZeRO-2) gather parameters and reduce gradients: once
    a step, as torchtitan's pipelines and Megatron-FSDP do, or unit by unit in every micro-batch, as FSDP with
    ``reshard_after_forward=False`` does (without stages; an assumption where it is not stated)."""
    overlap_gradients: bool = True
    """True if gradients that are exchanged once a step go block by block while the last backward pass of a stage
    computes, where that is faster than afterwards: ``--overlap-grad-reduce`` of Megatron-LM, off by default there, and
    what PyTorch's DDP and FSDP always do. On by default, an assumption."""
    bucket_size: Size = 25 * 2.0**20
    """Bytes after which a gradient bucket is closed (``bucket_cap_mb=25``, the default of PyTorch's DDP)."""
    first_bucket_size: Size = 2.0**20
    """Bytes after which the first bucket is closed (1 MiB in PyTorch's DDP); small, so that exchanges start early."""
    unit_parameters: Count = 20_000_000
    """Parameters after which a unit of sharded data parallelism is closed; an assumption, PyTorch leaves it to the
    user."""
    prefetch: Annotated[int, Field(ge=0, strict=True)] = 1
    """Units whose parameters may be gathered ahead of the one that computes (FSDP2 prefetches one)."""


def _name_or_mapping(value: Any) -> Any:
    """Return a name, an accelerator or a mapping with text keys unchanged; ValueError for anything else."""
    if isinstance(value, str | Accelerator) or (
        isinstance(value, Mapping) and all(isinstance(key, str) for key in value)
    ):
        return value
    raise ValueError("expected a catalog name, a .yaml file or a mapping of fields")


Part = Annotated[Any, AfterValidator(_name_or_mapping)]
"""A catalog name, a ``.yaml`` file (relative to the cluster's), a mapping of all fields, or ``base:`` and what
differs."""


class ClusterFile(Config):
    """Fields that a cluster's YAML file may hold; the parts are read once the number of ranks is known."""

    description: str = ""
    """One line for people."""
    ranks: FewRanks
    """Number of accelerators, one a rank."""
    accelerator: Part
    """Accelerator that each rank computes on."""
    fabric: Part
    """Fabric that joins the ranks."""
    reference: Part | None = None
    """An electrical fabric that reports set beside it."""
    training: TrainingSettings = Field(default_factory=TrainingSettings)
    """How jobs train here unless they say otherwise."""
    sources: dict[str, str] = Field(default_factory=dict)
    """Where each value comes from, by field name (``training.precision`` for one setting)."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Cluster(Result):
    """A cluster, every part read and checked."""

    name: str
    ranks: int
    accelerator: Accelerator
    fabric: Fabric
    reference: Fabric | None = None
    """An electrical fabric with as many ranks."""
    training: TrainingSettings = field(default_factory=TrainingSettings)
    description: str = ""
    sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def counted_ranks(self) -> str:
        """Number of ranks in words: ``1 rank``, ``1,024 ranks``."""
        return f"{self.ranks:,} rank{'s' if self.ranks > 1 else ''}"

    def summary(self) -> str:
        """Return name, ranks, accelerator and kind of fabric in one line, such as ``terarack-64: 64 × a100 on a
        wdm-ring``."""
        return f"{self.name}: {self.ranks} × {self.accelerator.name} on a {self.fabric.kind_name}"

    def to_json(self) -> dict[str, Any]:
        """Return the cluster as a document: ``name``, ``description``, ``ranks``, then ``accelerator``, ``fabric``,
        ``reference`` and ``training``, each as a mapping of all its fields, defaults and derived ones too, in bytes,
        seconds and watts (None for no reference), and ``sources``."""
        parts = {name: getattr(self, name) for name in ("accelerator", "fabric", "reference", "training")}
        return {
            **attributes(self, "name description ranks"),
            **{name: None if part is None else part.model_dump(mode="json") for name, part in parts.items()},
            "sources": dict(self.sources),
        }


# Where chips sit: on an interposer, packages on a blade, blades in a rack; and what does not fit, refused.
#
#       package          blade                rack
#     ┌─────────┐
#     │ ┌──┬──┐ │     ▣ ▣ ▣
#     │ ├──┼──┤ │     ▣ ▣ ▣          64 blades, 1536 chips
#     │ └──┴──┘ │    6 packages
#     └─────────┘
#       4 chips
#
# Source: Ro, Lee and Ahn (Electronics 2018, 7, 130), sections 3.2 and 3.3, Figs. 3 and 4.

_MILLIMETRE = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A square of square chips on a square interposer, waveguides in the gaps; lengths in metres.

    Raises:
        UnsupportedError: the chips, or the waveguides between them, do not fit (says what would).
    """

    side: int = 2
    """Chips along an edge."""
    chip_edge: float = 8 * _MILLIMETRE
    interposer_edge: float = 25 * _MILLIMETRE
    waveguides: int = 4
    """Waveguides of a link in one direction: 4 · 25 Gb/s or 4 · 100 Gb/s."""
    pitch: float = 0.1 * _MILLIMETRE
    """Between waveguides (an upper limit: "can be under 100 µm")."""

    def __post_init__(self) -> None:
        """Refuse chips and waveguides that are wider than the interposer."""
        needed = self.side * self.chip_edge + (self.side + 1) * self.link_width
        if needed > self.interposer_edge * (1 + 1e-12):
            raise UnsupportedError(
                f"{self.side} chips of {self.chip_edge * 1e3:g} mm side by side, with {2 * self.waveguides} waveguides "
                f"in each gap, need {needed * 1e3:g} mm: the interposer has {self.interposer_edge * 1e3:g} mm; fewer "
                "chips, fewer waveguides or a smaller pitch would fit"
            )

    @property
    def chips(self) -> int:
        """Return the number of chips of the square, side times side."""
        return self.side**2

    @property
    def link_width(self) -> float:
        """Metres across the waveguides of one link between chips, both directions: 2 ``waveguides`` ``pitch``."""
        return 2 * self.waveguides * self.pitch

    @property
    def gap(self) -> float:
        """Metres between neighbouring chips, and from outer chips to the interposer's edge, when chips are spread
        evenly."""
        return (self.interposer_edge - self.side * self.chip_edge) / (self.side + 1)

    @property
    def fibres(self) -> int:
        """Number of fibres that leave the package: each of the 4 ``side`` outer chip edges is a link, with a fibre for
        each of its waveguides, ``waveguides`` in each direction."""
        return 4 * self.side * 2 * self.waveguides


@dataclass(frozen=True, slots=True, kw_only=True)
class Rack:
    """Packages on blades in a rack; the defaults are the paper's."""

    package: Package = Package()
    packages_per_blade: int = 6
    blades: int = 64

    @property
    def chips_per_blade(self) -> int:
        """Return the number of chips of all packages of a blade."""
        return self.package.chips * self.packages_per_blade

    @property
    def chips(self) -> int:
        """Return the number of chips of all blades."""
        return self.chips_per_blade * self.blades

    def check(self, chips: int, cure: str = "") -> None:
        """Raise UnsupportedError unless one rack holds so many chips.

        Args:
            chips: number of chips that are needed.
            cure: what else than more racks would make them fit, for the message; empty for nothing.

        Raises:
            UnsupportedError: too many chips; says how many blades and racks they take.
        """
        if chips > self.chips:
            raise UnsupportedError(
                f"{chips} chips need {ceil(chips / self.chips_per_blade)} blades: a rack holds {self.blades} "
                f"({self.blades} · {self.packages_per_blade} packages · {self.package.chips} chips = {self.chips}); "
                f"feasible with {ceil(chips / self.chips)} racks" + (f", or {cure}" if cure else "")
            )


# What a transport has to know of a cluster: its two tiers as collectives use them, and the memory of a rank.


def transport_tiers(fabric: Fabric, accelerator: Accelerator | None = None) -> LibraryTiers:
    """Return the two tiers of a fabric as closed forms of transports see them: the innermost tier as the domain, the
    least bytes per second of a rank over any other tier as the network (infinite where there is no other), and the
    memory bandwidth of ``accelerator``, None where none is given. Where the second tier leaves from the first one's
    switches, every rank is a domain of its own, and all tiers are network.

    Raises:
        UnsupportedError: the fabric is not of kind ``tiers``, or not all its tiers are switches; a fabric of kind
            ``switch`` is refused too.
    """
    tiers = fabric.library_tiers() if fabric.tiered else None
    if tiers is None:
        raise UnsupportedError(f"closed forms of transports need tiers of switches, not a {fabric.kind_name}")
    return tiers if accelerator is None else tiers._replace(memory=accelerator.memory_bandwidth)
