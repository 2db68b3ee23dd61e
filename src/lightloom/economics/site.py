"""The site of a cluster: what its electricity and its building add, and over how long its price is paid."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Self

from pydantic import Field, model_validator

from lightloom.core.configfile import validate
from lightloom.core.fields import Config, Dollars, DollarsPerJoule, Seconds, Share, Watts
from lightloom.core.units import YEAR, format_duration, format_quantity
from lightloom.parts.choices import BillChoices
from lightloom.parts.load import load_part

SOURCES: Mapping[str, str] = MappingProxyType(
    {
        "pue": "assumption: typical; 1.06 liquid-cooled, 1.12 best with air, 1.58 old (mlsysim, defaults.py: Google, "
        "Uptime Institute, 2023)",
        "electricity": "assumption: mlsysim, defaults.py (a cloud provider's, 2024)",
        "amortisation": "assumption: accelerators are replaced after about four years",
        "maintenance": "assumption: mlsysim, defaults.py (Barroso et al., The Datacenter as a Computer)",
    }
)
"""Source of each default."""


class Site(Config):
    """What turns the parts and watts of a cluster into dollars; defaults are assumptions (:data:`SOURCES`)."""

    pue: Annotated[float, Field(ge=1, le=5)] = 1.4
    """Power usage effectiveness: joules at the meter for each joule of the cluster."""
    electricity: DollarsPerJoule = 0.12 / 3.6e6
    """Dollars per joule at the meter; 12 ct/kWh."""
    amortisation: Annotated[Seconds, Field(ge=86400.0, le=100 * YEAR)] = 4 * YEAR
    """Seconds over which the price is paid, in equal parts."""
    maintenance: Annotated[Share, Field(le=1)] = 0.05
    """Share of the price that maintenance costs a year."""
    board_price: Dollars | None = None
    """Dollars of one accelerator with its board. Null: of the catalog's board for the accelerator."""
    host_power: Watts | None = None
    """Watts of a node beside its accelerators, for each of them: processors, memory, fans, disks, network cards and
    switches within the node. Null: of the catalog's host for the accelerator."""
    host_price: Dollars | None = None
    """Dollars of a node beside its accelerators, for each of them. Null: of the catalog's host."""
    fabric_price: Dollars | None = None
    """Dollars of the fabric for each rank, in place of those of its parts. Null: from its bill."""
    prices: dict[str, Dollars] = Field(default_factory=dict)
    """Dollars of one part of the fabric, by name, in place of the catalog's."""
    choices: BillChoices | None = None
    """What the fabric's bill leaves open. Null: the defaults; a fabric that cannot be built then has no bill, where one
    that cannot be built by these is refused."""

    @model_validator(mode="after")
    def _prices_are_of_parts_of_fabrics(self) -> Self:
        for name in self.prices:
            if (kind := load_part(name).kind) in ("board", "host"):
                raise ValueError(f"price of {name}: expected a part of the fabric, or {kind}_price")
            if kind == "fibre":
                raise ValueError(f"price of {name}: fibres are priced by the metre: expected another part")
        if self.fabric_price is not None and self.prices:
            raise ValueError("prices and fabric_price contradict each other: expected the whole or its parts")
        return self

    @property
    def cost_rate(self) -> float:
        """Share of the price that is paid a second, maintenance included."""
        return 1 / self.amortisation + self.maintenance / YEAR

    def texts(self) -> dict[str, str]:
        """Return the four inputs that always count, with their units, by field name."""
        return {
            "pue": f"PUE {self.pue:g}",
            "electricity": f"electricity {format_quantity(self.electricity, 'price_of_electricity')}",
            "amortisation": f"price paid over {format_duration(self.amortisation)}",
            "maintenance": f"maintenance {format_quantity(self.maintenance, 'share')} of the price a year",
        }

    def assumptions(self) -> tuple[str, ...]:
        """Return a line for each input that was left at its default, with what is said of it."""
        return tuple(f"{text}, {SOURCES[name]}" for name, text in self.texts().items() if name in self.defaults)

    def to_json(self) -> dict[str, object]:
        """Return the inputs in SI units, with the sources of those that were left at their defaults."""
        given = dict.fromkeys(self.model_fields_set, "given")
        return self.model_dump(mode="json") | {"sources": {**SOURCES, **given}}

    @property
    def defaults(self) -> tuple[str, ...]:
        """Names of the inputs that were left at their defaults."""
        return tuple(name for name in SOURCES if name not in self.model_fields_set)


def site_of(given: Site | Mapping[str, object] | None) -> Site:
    """Return a site from what a user gives; inputs that are None are left at their defaults.

    >>> site_of({"electricity": "8 ct/kWh", "pue": 1.1})

    Raises:
        ConfigError: an input is unknown, cannot be read or is out of range.
    """
    if isinstance(given, Site):
        return given
    stated = {name: value for name, value in (given or {}).items() if value is not None}
    site: Site = validate(Site, stated, "site")
    return site
