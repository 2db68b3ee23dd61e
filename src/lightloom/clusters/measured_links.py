"""Links as timed collectives reach them, and the fields of a two-tier fabric that follow.

``lightloom calibrate --collectives`` writes a file of fitted tiers; a cluster lays it over its fabric as
``fabric: {base: two-tier-200g, links: my-links.yaml}``. A field is chosen such that an all-reduce over a ring of the
ranks that were measured, priced on the fabric, takes what was fitted:

    time = base + (n - 1) · peer + 2 (n - 1)/n · bytes / bandwidth + bytes / pass bandwidth
         = 2 (n - 1) · links a step · latency + 2 (n - 1)/n · bytes / rate

Rings over all ports of a node carry a collective across nodes, so that one port has its share of the rate there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from lightloom.accelerators.calibrated import CalibrationRows
from lightloom.core.configfile import read_yaml, validate
from lightloom.core.fields import Config

Positive = Annotated[float, Field(gt=0)]
DETERMINED = 0.7
"""Spread after over spread before the rows, below which they count as having determined a parameter."""


class Tier(Config):
    """What collectives reach on the links of one tier."""

    base_latency: Positive
    """Seconds of every all-reduce, whatever its size."""
    latency_per_peer: Positive
    """Seconds that each further rank adds to an all-reduce."""
    bandwidth: Positive
    """Bytes per second of one rank into the tier."""
    pass_bandwidth: Positive
    """Bytes per second at which a rank moves what it holds through its own memory."""


class TierCalibration(Config):
    """A tier fitted to timed collectives."""

    tier: Literal["node", "network"]
    """``node`` for collectives inside one node, ``network`` for those across nodes."""
    gpus: Annotated[int, Field(ge=2)]
    """Ranks of the largest collective among the rows."""
    values: Tier
    spreads: dict[str, float]
    """Standard deviation of the logarithm of each value, given the rows."""
    prior_spreads: dict[str, float]
    rows: CalibrationRows
    mean_error: float
    """Mean size of the relative error on these rows."""

    def undetermined(self) -> list[str]:
        """Return the values that the rows leave near their priors."""
        return [name for name, spread in self.spreads.items() if spread > DETERMINED * self.prior_spreads[name]]

    @property
    def ring_rate(self) -> float:
        """Bytes per second at which a ring of :attr:`gpus` ranks carries data, their own pass included."""
        rounds = 2 * (self.gpus - 1) / self.gpus
        return rounds / (rounds / self.values.bandwidth + 1 / self.values.pass_bandwidth)

    @property
    def step_latency(self) -> float:
        """Seconds of one of the 2 (n - 1) steps of that ring, without its bytes."""
        return (self.values.base_latency / (self.gpus - 1) + self.values.latency_per_peer) / 2


class FittedLinks(Config):
    """The tiers of one kind of node, as ``lightloom calibrate --collectives`` writes them."""

    accelerator: str
    tiers: Annotated[list[TierCalibration], Field(min_length=1)]


class _Fields(NamedTuple):
    """Fields of a two-tier fabric that a tier sets."""

    rate: str
    latency: str
    links: int
    """Links that one transfer takes."""


_FIELDS = {"node": _Fields("domain_bandwidth", "domain_latency", 2), "network": _Fields("bandwidth", "hop_latency", 4)}
FABRIC_FIELDS = frozenset(name for fields in _FIELDS.values() for name in (fields.rate, fields.latency))
"""Fields that a fabric needs for fitted links to be laid over it."""


def read_links(path: Path) -> FittedLinks:
    """Read what ``lightloom calibrate --collectives`` wrote.

    Raises:
        ConfigError: the file cannot be read, or a field is missing, unknown or out of range.
    """
    links: FittedLinks = validate(FittedLinks, read_yaml(path), str(path))
    return links


def fabric_fields(links: FittedLinks, domain_size: int) -> tuple[dict[str, float], dict[str, str]]:
    """Return the fields of a two-tier fabric that fitted links set, in SI units, and their sources."""
    values: dict[str, float] = {}
    sources: dict[str, str] = {}
    for tier in links.tiers:
        fields = _FIELDS[tier.tier]
        ports = 1 if tier.tier == "node" else domain_size
        values |= {fields.rate: tier.ring_rate / ports, fields.latency: tier.step_latency / fields.links}
        source = f"fitted to {tier.rows.line()} on {links.accelerator}, mean error {tier.mean_error:.1%}"
        sources |= dict.fromkeys((fields.rate, fields.latency), source)
    return values, sources


def reached_fields(links: FittedLinks) -> dict[str, float]:
    """Return the fields of a transport that fitted links leave nothing to: rates and latencies are reached already."""
    tiers = {tier.tier for tier in links.tiers}
    node = {"node_fraction": 1.0, "node_latency": 0.0, "peer_latency": 0.0} if "node" in tiers else {}
    return node | ({"network_fraction": 1.0, "network_latency": 0.0} if "network" in tiers else {})
