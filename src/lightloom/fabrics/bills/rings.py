"""Bills of rings of wavelengths: engines as they are built, or the devices that they hold.

A rank with T transceivers has T modulators, T receivers, 2 T locked rings and ceil(T / 16) light sources (assumption:
16 wavelengths a source, as SuperNova has). As built, an engine draws its joules per bit whether it sends or not.
"""

from __future__ import annotations

from math import ceil

from lightloom.core.units import format_bandwidth, format_quantity
from lightloom.fabrics.bills import links
from lightloom.parts.bill import Bill, Line
from lightloom.parts.choices import BillChoices
from lightloom.parts.figure import Power
from lightloom.parts.load import load_part

_PER_SOURCE = 16
"""Wavelengths of a light source."""


def wavelength_ring_bill(
    nodes: int, transceivers: int, bandwidth: float, fibres: int, launch: float, choices: BillChoices
) -> Bill:
    """Return the bill of a ring.

    Args:
        nodes: on the ring.
        transceivers: of a node; each sends on a wavelength and receives on one.
        bandwidth: bytes per second of a wavelength.
        fibres: leaving a node, both ways together.
        launch: watts of light of a wavelength, from the link budget.
        choices: of the bill.
    """
    count = f"{transceivers} wavelengths of {format_bandwidth(bandwidth)}"
    fibre = links.fibres(fibres, f"{fibres} fibres to the next node, both ways together", choices)
    if choices.wdm == "built":
        lines = [Line(load_part("wdm-engine"), transceivers, count, rate=bandwidth)]
    else:
        lines = [
            Line(load_part("ring-modulator"), transceivers, count, rate=bandwidth),
            Line(load_part("photoreceiver"), transceivers, count, rate=bandwidth),
            Line(load_part("ring-lock"), 2 * transceivers, f"a modulator and a filter for each of {count}"),
            Line(load_part("serialiser"), transceivers, count, rate=bandwidth),
            _light(transceivers, launch),
        ]
    return Bill(nodes, (*lines, fibre), bandwidth=transceivers * bandwidth, kind="wdm-ring")


def _light(wavelengths: int, launch: float) -> Line:
    """Return the light sources, whose watts follow from the link budget."""
    source = load_part("comb-source")
    sources = ceil(wavelengths / _PER_SOURCE)
    efficiency = source.efficiency
    assert efficiency is not None
    watts = wavelengths * launch / sources
    power = Power(
        value=watts / efficiency.value,
        low=watts / efficiency.most,
        high=watts / efficiency.least,
        confidence="assumption",
        source=f"{format_quantity(launch, 'power')} of light a wavelength (link budget); {efficiency.source}",
    )
    why = f"{wavelengths} wavelengths / {_PER_SOURCE}"
    return Line(source.model_copy(update={"static_power": power}), sources, why)
