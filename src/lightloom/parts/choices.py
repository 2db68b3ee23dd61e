"""What a bill chooses where a fabric's own fields leave it open: media, port rates, products."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from lightloom.core.fields import Bandwidth, Config, Count

Medium = Literal["optical", "copper"]


class BillChoices(Config):
    """Choices of a bill; the defaults are assumptions unless they name a source."""

    port_rate: Bandwidth | None = None
    """Bytes per second of one port; null: the smallest of the catalog that carries the link, and several of 400
    Gb/s, the fastest whose prices are known, where none does."""
    host_links: Medium = "optical"
    """Links between ranks and their first switch. Assumption: optical, as ranks stand farther than the 2 to 3 m that
    passive copper reaches."""
    grid_links: Medium = "optical"
    """Links between neighbours of rings, meshes and tori. Assumption: optical."""
    copper_cube: Count | None = None
    """Side of the cubes of a mesh or torus whose links are copper, links between cubes being optical; null: all links
    are ``grid_links``."""
    reconfigurable: bool = False
    """Whether optical circuit switches join the cubes of a torus."""
    cards: bool = False
    """Whether links of rings, meshes and tori end at network cards. Assumption: at ports of the chips."""
    wdm: Literal["built", "devices"] = "built"
    """Rings of wavelengths from engines as vendors build them, or from the devices that papers list."""
    link_length: Annotated[float, Field(gt=0)] = 20.0
    """Metres of fibre of a link. Assumption: as long as those to the circuit switches of the catalog."""
    transceiver: str | None = None
    """A transceiver of ``lightloom catalog parts``; null: by the port rate."""
    nic: str | None = None
    """A network card; null: by the port rate."""
    switch_port: str | None = None
    """A port of an electrical switch; null: by the port rate."""
    switch_radix: Count | None = None
    """Ports of an electrical switch; null: those of the part."""
    circuit_switch: str | None = None
    """An optical circuit switch; null: any by the port, or the cheapest product where whole switches are paid."""
    switches: Literal["used", "whole"] = "used"
    """What is paid of switches, electrical and optical: the ports that are used, as MixNet counts (SIGCOMM 2025), whose
    prices are by the port; or whole switches."""
