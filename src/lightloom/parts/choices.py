"""What a bill chooses where a fabric's own fields leave it open: media, port rates, products."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from lightloom.core.fields import Bandwidth, Config, Count

Medium = Literal["optical", "copper"]


class BillChoices(Config):
    """Choices of a bill; the defaults are assumptions unless they name a source."""

    port_rate: Bandwidth | None = None
    """Bytes per second of one port; null: the smallest of the catalog that carries the link, or several of the
    largest."""
    host_links: Medium = "optical"
    """Links between ranks and their first switch. Assumption: optical, as ranks stand farther than the 2 to 3 m that
    passive copper reaches."""
    link_length: Annotated[float, Field(gt=0)] = 20.0
    """Metres of fibre of a link. Assumption: as the catalog's fabrics have it."""
    transceiver: str | None = None
    """A transceiver of ``lightloom catalog parts``; null: by the port rate."""
    nic: str | None = None
    """A network card; null: by the port rate."""
    switch_port: str | None = None
    """A port of an electrical switch; null: by the port rate."""
    switch_radix: Count | None = None
    """Ports of an electrical switch; null: those of the part."""
    circuit_switch: str | None = None
    """An optical circuit switch, or ``circuit-switch-port`` to count used ports alone; null: the smallest product that
    holds a plane."""
