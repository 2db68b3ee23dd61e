"""Options of commands that count dollars: electricity, the building, and over how long a price is paid."""

from __future__ import annotations

from typing import Annotated

from lightloom.cli.options import option

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
INPUTS = ("pue", "electricity", "amortisation", "maintenance", "board_price", "host_power", "host_price")
"""Names of the options, which are the fields of :class:`lightloom.economics.site.Site`."""
