"""A transport: the software between a collective and the links, as files describe it.

A library carries a collective by one of several protocols. Each has a base latency, a latency for every step inside a
domain of accelerators and for every step across the network, and the part of the links' bandwidth that it reaches.
Published constants stand beside factors fitted to measured collectives, so that a reader sees what was corrected.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from lightloom.core.configfile import catalog_file, read_yaml, validate
from lightloom.core.errors import ConfigError, LightloomError, UnknownNameError
from lightloom.core.fields import Bandwidth, Config, Seconds
from lightloom.core.results import Described
from lightloom.machines.accelerators.kernels import Prior

ProtocolName = Literal["LL", "LL128", "Simple"]
Share = Annotated[float, Field(gt=0, le=1.5)]
Factor = Annotated[float, Field(gt=0)]


class Latencies(Config):
    """Published latencies of one way of carrying a collective."""

    base: Seconds = 0.0
    domain_step: Seconds
    """Seconds of a step inside a domain."""
    network_step: Seconds
    """Seconds of a step between domains."""


class Corrections(Config):
    """Factors of published latencies, fitted to measured collectives of several systems."""

    base: Factor = 1.0
    domain_step: Factor = 1.0
    network_step: Factor = 1.0


class Protocol(Config):
    """One protocol: how ranks tell each other that data has arrived."""

    ring: Latencies
    tree: Latencies
    share: Share
    """Part of a link's bandwidth that is data, in rings."""
    tree_share: Share
    """Part of a link's bandwidth that is data, in trees inside one domain."""
    network_tree_share: Share
    """Part of a link's bandwidth that is data, in trees across domains."""
    least_domain_step: Seconds = 0.0
    """Seconds that a step of a ring inside a domain takes at least while others cross the network (posting sends)."""
    corrections: Corrections = Corrections()


class Reduction(Config):
    """Additions in the switches of a domain (NVLink SHARP), and trees of such domains across the network."""

    domain_step: Seconds
    network_step: Seconds
    corrections: Corrections = Corrections()


class ParallelTrees(Config):
    """Parallel aggregated trees (PAT): each rank alone in its domain, as many steps as there are doublings of ranks."""

    base: Seconds
    network_step: Seconds
    share: Share
    """Part of the network's bandwidth that is data."""


class Generation(Config):
    """Constants of a transport that depend on the accelerator's architecture."""

    clock: Annotated[float, Field(gt=0)]
    """Hertz; latencies of steps are those of kernels and scale with its inverse."""
    low_latency_ceilings: tuple[Bandwidth, Bandwidth, Bandwidth]
    """Bus bandwidth that LL reaches at most, on 1, 2 and more domains, bytes per second."""
    reduction_share: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Part of the links' bandwidth reached where switches add; 0 where they cannot."""
    link_share: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Part of the bandwidth of the domain's links that is data, for fabrics whose description says nothing of it."""
    arithmetic_share: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Part of an accelerator's arithmetic that collectives take from computing beside them; 1 where nothing is
    hidden."""


class Scales(Config):
    """The four numbers of a system; 1 is what the transport says by itself."""

    latency: Factor = 1.0
    """Factor of all latencies of collectives inside one domain."""
    network_latency: Factor = 1.0
    """Factor of all latencies of collectives across domains."""
    bandwidth: Factor = 1.0
    """Factor of the bandwidth inside a domain."""
    network_bandwidth: Factor = 1.0
    """Factor of the bandwidth between domains."""


PARAMETERS: Mapping[str, Prior] = {
    "latency": Prior(1.0, 0.4, "", "factor of the latencies of collectives inside a domain"),
    "network_latency": Prior(1.0, 0.8, "", "factor of the latencies of collectives across domains"),
    "bandwidth": Prior(1.0, 0.12, "", "factor of the bandwidth inside a domain"),
    "network_bandwidth": Prior(1.0, 0.12, "", "factor of the bandwidth between domains"),
    "arithmetic_share": Prior(
        1.0, 1.0, "", "share of arithmetic that exchanges take from computing; 1 hides nothing", most=1.0
    ),
}
"""Parameters that a calibration may fit: four of a system, and arithmetic that exchanges take. Spreads are assumed."""


class Transport(Described):
    """How software carries collectives; without protocols it costs nothing (``ideal``)."""

    description: str = ""
    name: str = "ideal"
    protocols: dict[ProtocolName, Protocol] = Field(default_factory=dict)
    reduction: Reduction | None = None
    parallel_trees: ParallelTrees | None = None
    """Trees that run at once in all-gathers and reduce-scatters; null where there are none."""
    rails: bool = False
    """True if all-gathers and reduce-scatters may run one ring for each rank of a domain: NCCL has such kernels from
    2.29.7, for windows that are registered on both sides alone."""
    leaving_ranks: Annotated[int, Field(ge=1, strict=True)] = 8
    """Ranks of a domain by whose network ports rings and trees leave it at most; all pairs use the ports of all."""
    generation: Generation | None = None
    reference_clock: Annotated[float, Field(gt=0)] = 1.98e9
    """Hertz at which factors of latencies are stated."""
    peer_latency: Seconds = 0.0
    """Seconds that each peer adds to an all-to-all."""
    fill: Factor = 1.0
    """Filling the pipeline adds ``fill · sqrt(a · b)`` to a latency a and a transmission b, ..."""
    fill_limit: Factor = 2.0
    """... but at most ``fill_limit · a``: chunks grow with the message until they reach the library's largest."""
    copy_share: Share = 1.0
    """Part of the memory's bandwidth at which a rank copies its own block."""
    all_to_all_share: Share = 1.0
    """Part of the links' bandwidth that an all-to-all reaches, where all pairs send at once."""
    scales: Scales = Scales()
    """Typical factors of the systems that were measured."""
    spreads: dict[str, float] = Field(default_factory=dict)
    """Standard deviation of the logarithm of a parameter, where it is not the one of :data:`PARAMETERS`."""
    sources: dict[str, str] = Field(default_factory=dict)
    """Where each value comes from, by field name."""

    @model_validator(mode="after")
    def _numbers_are_of_protocols(self) -> Self:
        """Raise ValueError for scales other than 1 or a generation without protocols, and for spreads of parameters
        that :data:`PARAMETERS` does not name; otherwise return the transport unchanged."""
        if not self.protocols and (self.scales != Scales() or self.generation is not None):
            raise ValueError("numbers of a transport without protocols: expected field 'base', such as nccl-hopper")
        if unknown := self.spreads.keys() - PARAMETERS.keys():
            raise ValueError(
                f"spreads of unknown parameters: {', '.join(sorted(unknown))}: expected {', '.join(PARAMETERS)}"
            )
        return self

    @property
    def ideal(self) -> bool:
        """True if the transport has no protocols, so that software costs nothing."""
        return not self.protocols

    @property
    def arithmetic_share(self) -> float:
        """Share, 0 to 1, of an accelerator's arithmetic that collectives take from computing beside them; 0 without a
        generation of accelerators."""
        return 0.0 if self.generation is None else self.generation.arithmetic_share

    def priors(self) -> dict[str, Prior]:
        """Return the prior of every parameter that a calibration may change, by name: the four scales (``latency``,
        ``network_latency``, ``bandwidth``, ``network_bandwidth``), and ``arithmetic_share`` where it is not 0. Each has
        this transport's value, spread and source in place of the general ones; a spread that the transport does not
        state stays the general one. Empty for an ideal transport."""
        values = {} if self.ideal else self.scales.model_dump()
        if self.arithmetic_share > 0:
            values["arithmetic_share"] = self.arithmetic_share
        return {
            name: PARAMETERS[name]._replace(
                value=value,
                spread=self.spreads.get(name, PARAMETERS[name].spread),
                source=self.sources.get(name, self.sources.get("scales" if name in Scales.model_fields else name, "")),
            )
            for name, value in values.items()
        }

    def with_parameters(self, values: Mapping[str, float]) -> Self:
        """Return a copy of the transport with other values, not validated, of the scales that ``values`` names and of
        its generation's ``arithmetic_share``. Other names are ignored, and that share where there is no generation."""
        scales = self.scales.model_copy(update={name: values[name] for name in Scales.model_fields if name in values})
        changes: dict[str, object] = {"scales": scales}
        if self.generation is not None and "arithmetic_share" in values:
            changes["generation"] = self.generation.model_copy(update={"arithmetic_share": values["arithmetic_share"]})
        return self.model_copy(update=changes)

    def heading(self) -> str:
        """Return ``transport`` and the name."""
        return f"transport {self.name}"


# Transports by name: the catalog, and a user's YAML file.

CATALOG = Path(__file__).parent / "catalog"


def names() -> list[str]:
    """Return the names of the transports in the catalog, sorted: of a library, or, where it has several generations of
    accelerators, of the library with each, such as ``nccl-hopper``."""
    found = []
    for path in CATALOG.glob("*.yaml"):
        generations = read_yaml(path).get("generations")
        found += [f"{path.stem}-{generation}" for generation in generations] if generations else [path.stem]
    return sorted(found)


@cache
def load_transport(name: str) -> Transport:
    """Return a transport from the catalog, such as ``ideal`` or ``nccl-hopper``, or from a YAML file.

    Raises:
        UnknownNameError: neither a catalog name nor a file; so too a library of several generations without one.
        ConfigError: the file cannot be read or lists several generations, or a field is missing, unknown or out of
            range.
    """
    library, _, generation = name.rpartition("-")
    path = catalog_file(name, CATALOG)
    if path is None and library and (CATALOG / f"{library}.yaml").is_file():
        data = read_yaml(CATALOG / f"{library}.yaml")
        generations = data.pop("generations", {})
        if generation not in generations:
            raise UnknownNameError("transport", name, names())
        return validate(Transport, {**data, "name": name, "generation": generations[generation]}, name)
    if path is None or (path.parent == CATALOG and name not in names()):
        raise UnknownNameError("transport", name, names())
    data = read_yaml(path)
    if "generations" in data:
        raise ConfigError(f"{path}: several generations: expected one, as field 'generation'")
    return validate(Transport, {"name": path.stem, **data}, name)


def _transport_fields(value: object) -> object:
    """Return the transport that a name or a file means, or the fields of one for a mapping with a ``base``: the base's
    with the mapping's laid over, as in ``{base: nccl-hopper, scales: {latency: 0.9}}``, where of ``scales`` only the
    latency changes; anything else unchanged.

    Raises:
        ValueError: the base or name is unknown, or cannot be read.
    """
    name = value.get("base") if isinstance(value, Mapping) else value
    if not isinstance(name, str):
        return value
    try:
        base = load_transport(name)
    except LightloomError as error:
        raise ValueError(str(error)) from error
    if not isinstance(value, Mapping):
        return base
    below = base.model_dump()
    for key, part in value.items():
        if key != "base":
            both = isinstance(below.get(key), Mapping) and isinstance(part, Mapping)
            below[key] = {**below[key], **part} if both else part
    return below


NamedTransport = Annotated[
    Transport, BeforeValidator(_transport_fields, json_schema_input_type=str | Transport | Mapping[str, object])
]
"""A transport as files of fabrics state it: a name of the catalog, a YAML file, or fields over a ``base``."""
