"""Bills: what a fabric or a cluster is built of, and what that costs, draws and how often it fails."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lightloom.api.arguments import ClusterLike, FabricLike, Settings, load_cluster, load_fabric
from lightloom.clusters import load as clusters
from lightloom.clusters.base import Cluster
from lightloom.core.configfile import read_yaml, validate
from lightloom.core.errors import ConfigError
from lightloom.core.provenance import provenance
from lightloom.core.results import Document, Result
from lightloom.economics.ledger import ClusterLedger, fabric_bill, unused_inputs
from lightloom.economics.site import site_of
from lightloom.fabrics import load as fabrics
from lightloom.parts.bill import Bill, Line, Total
from lightloom.parts.choices import BillChoices


@dataclass(frozen=True, repr=False, kw_only=True)
class PricedBill(Result):
    """The bill of a fabric, or of a cluster with its boards and hosts."""

    name: str
    """What is billed: ``fabric two-tier-400g``."""
    bill: Bill
    choices: BillChoices
    unused: tuple[str, ...] = ()
    """Choices and prices that were given and change nothing."""

    @property
    def dollars(self) -> Total:
        """Price of the parts of one rank, in dollars, and what has no price."""
        return self.bill.dollars

    @property
    def static_power(self) -> Total:
        """Watts per rank, busy or idle."""
        return self.bill.static_power

    @property
    def failure_rate(self) -> Total:
        """Failures a second, per rank."""
        return self.bill.failure_rate

    def summary(self) -> str:
        return f"{self.name}, {self.bill.ranks:,} ranks: {self.dollars.text()} a rank"

    def rows(self) -> list[Document]:
        return [_row(line) for line in self.bill.lines]

    def to_json(self) -> Document:
        document: Document = {
            "schema": "lightloom.bill/1",
            "name": self.name,
            **self.bill.to_json(),
            "choices": self.choices.model_dump(mode="json"),
            "unused_choices": list(self.unused),
        }
        return document | {"provenance": provenance(["bill", document])}


def _row(line: Line) -> Document:
    """Return a line of the bill as a row, in SI units; null is unknown."""
    return {
        "part": line.part.name,
        "per_rank": line.per_rank,
        "dollars_per_rank": line.total("dollars").value,
        "static_watts_per_rank": line.total("static_power").value,
        "failures_per_second_per_rank": line.total("mtbf").value,
        "formula": line.why,
    }


def bill(
    built: FabricLike | ClusterLike,
    ranks: int | None = None,
    *,
    set: Settings | None = None,
    prices: Mapping[str, object] | None = None,
    **fields: object,
) -> PricedBill:
    """Return what a fabric, or a cluster with its boards and hosts, is built of, per rank.

    >>> bill("two-tier-400g", 1024, circuit_switch="polatis-7000")

    Args:
        built: a fabric or a cluster: a name of a catalog, a file, or an object. A name of both is the fabric's.
        ranks: number of ranks; a cluster's own without it.
        set: fields of the fabric or the cluster, and choices of the bill (`lightloom.parts.choices.BillChoices`).
        prices: dollars of parts of the fabric by name, in place of the catalog's.
        fields: the same as ``set``, by keyword.

    Raises:
        UnknownNameError: no such fabric, cluster or part.
        ConfigError: a field is unknown or out of range, or no tree of such switches joins the ranks.
        UnsupportedError: no product joins the ranks.
    """
    settings = {**(set or {}), **fields}
    chosen = {name: value for name, value in settings.items() if name in BillChoices.model_fields}
    others = {name: value for name, value in settings.items() if name not in chosen}
    choices: BillChoices = validate(BillChoices, chosen, "bill")
    site = site_of({"choices": choices, "prices": prices})
    try:
        if _is_cluster(built):
            cluster = load_cluster(built, ranks, set=others)  # type: ignore[arg-type]
            made, unused = ClusterLedger.of(cluster, site).bill, unused_inputs(cluster.fabric, site)
            return PricedBill(name=f"cluster {cluster.name}", bill=made, choices=choices, unused=unused)
        fabric = load_fabric(built, ranks, set=others)  # type: ignore[arg-type]
    except ConfigError as error:
        if "unknown field" not in str(error):
            raise
        raise ConfigError(f"{error}; or a choice of the bill, one of {', '.join(BillChoices.model_fields)}") from error
    name = str(built) if isinstance(built, str | Path) else fabric.kind_name
    made = fabric_bill(fabric, site)
    return PricedBill(name=f"fabric {name}", bill=made, choices=choices, unused=unused_inputs(fabric, site))


def _is_cluster(built: FabricLike | ClusterLike) -> bool:
    """Whether a name, a file or an object is of a cluster."""
    if not isinstance(built, str | Path):
        return isinstance(built, Cluster)
    name = str(built)
    if name.endswith((".yaml", ".yml")):
        fields: Mapping[str, object] = read_yaml(Path(name))
        return "fabric" in fields
    return name not in fabrics.names() and name in clusters.names()
