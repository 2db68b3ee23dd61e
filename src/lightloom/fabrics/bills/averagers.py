"""Bills of in-network averagers: ends of the ranks, and what the averager itself draws."""

from __future__ import annotations

from collections.abc import Mapping

from lightloom.fabrics.bills.links import fibres, nic, ports_for, transceiver
from lightloom.parts.bill import Bill, Line
from lightloom.parts.choices import BillChoices
from lightloom.parts.figure import Power
from lightloom.parts.part import Part


def averager_bill(
    ranks: int, bandwidth: float, watts: Mapping[str, float], unknown: tuple[str, ...], choices: BillChoices
) -> Bill:
    """Return the bill of an averager.

    Args:
        ranks: at the averager.
        bandwidth: bytes per second of a rank.
        watts: of all instances by part, with the ranks' optical ends; empty where nothing is derived.
        unknown: parts of the averager without a figure.
        choices: of the bill.
    """
    ports = ports_for(bandwidth, choices)
    lines = [
        Line(nic(ports, choices), ports.number, ports.why, rate=ports.rate),
        Line(
            transceiver(ports, choices),
            ports.number,
            f"one end of {ports.why}",
            rate=ports.rate,
            counted_elsewhere=("static_power",) if watts or unknown else (),
        ),
        fibres(1, "one for each rank", choices),
    ]
    for name, total in watts.items():
        figure = Power(value=total, confidence="assumption", source="derived from the averager's devices")
        lines.append(Line(_device(name, figure), 1 / ranks, f"all instances / {ranks:,} ranks"))
    lines += [Line(_device(name, None), 1 / ranks, f"all instances / {ranks:,} ranks") for name in unknown]
    missing = () if watts or unknown else ("what the averager is made of",)
    return Bill(ranks, tuple(lines), missing, bandwidth=bandwidth, kind="optical-averager")


def _device(name: str, power: Power | None) -> Part:
    """Return one kind of device of the averager, of all instances together."""
    return Part(
        name=f"{name} of the averager",
        kind="averager",
        description=f"{name} of all instances of the averager",
        static_power=power,
        counted_elsewhere={"dynamic_energy": "every part of an averager draws its power busy or idle"},
    )
