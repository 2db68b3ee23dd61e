"""Options of commands that count dollars: electricity, the building, and over how long a price is paid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from lightloom.cli.options import option
from lightloom.core.errors import ConfigError
from lightloom.core.results import Document
from lightloom.parts.choices import BillChoices

Pue = Annotated[str | None, option("Joules at the meter for each of the cluster; 1.4 without it, an assumption.", "X")]
Electricity = Annotated[
    str | None, option("Price of electricity, e.g. 8 ct/kWh; 12 ct/kWh without it, an assumption.", "PRICE")
]
Amortisation = Annotated[
    str | None, option("Time over which prices are paid, e.g. 5 years; 4 years without it, an assumption.", "TIME")
]
Maintenance = Annotated[
    str | None, option("Share of the price that maintenance costs a year; 5 % without it, an assumption.", "SHARE")
]
BoardPrice = Annotated[str | None, option("Dollars of one accelerator; the catalog's board without it.", "PRICE")]
HostPower = Annotated[
    str | None,
    option("Watts of a node beside its accelerators, for each of them; the catalog's host without it.", "POWER"),
]
HostPrice = Annotated[str | None, option("Dollars of the same; missing without it, as no source gives any.", "PRICE")]
FabricPrice = Annotated[
    str | None, option("Dollars of the fabric for each rank, in place of those of its parts.", "PRICE")
]
Prices = Annotated[
    list[str] | None,
    option("part=price of one part of the fabric, e.g. wdm-engine='$ 120'; repeatable.", "PART=PRICE", "--price"),
]
_INPUTS = (
    "pue",
    "electricity",
    "amortisation",
    "maintenance",
    "board_price",
    "host_power",
    "host_price",
    "fabric_price",
)


def site_inputs(options: Mapping[str, Any], settings: Document) -> Document:
    """Return the inputs of a :class:`lightloom.economics.site.Site` from options of its fields' names; None where one
    is left out.

    Args:
        options: of a command.
        settings: of ``--set``; choices of the bill are taken out of them.

    Raises:
        ConfigError: a price without a part, or two of one.
    """
    chosen = {name: settings.pop(name) for name in BillChoices.model_fields if name in settings}
    inputs = {name: options.get(name) for name in _INPUTS}
    return {**inputs, "prices": read_prices(options.get("prices")), "choices": chosen or None}


def read_prices(given: Sequence[str] | None) -> dict[str, str] | None:
    """Return the prices of parts by name; None where none are given.

    Raises:
        ConfigError: a price without a part, or two of one.
    """
    prices: dict[str, str] = {}
    for text in given or ():
        name, equals, price = (word.strip() for word in text.partition("="))
        if not (name and equals and price):
            raise ConfigError(f"--price {text}: expected part=price, e.g. wdm-engine='$ 120'")
        if name in prices:
            raise ConfigError(f"--price {text}: {name} is given twice: expected it once")
        prices[name] = price
    return prices or None
