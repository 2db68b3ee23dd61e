"""Bills of materials: TPU v4's circuits, MixNet against fat trees, rails of circuits, optics packaged with switches."""

from __future__ import annotations

from collections.abc import Iterator

from lightloom.core.claims import Claim
from lightloom.fabrics.load import load_fabric
from lightloom.parts.bill import Bill
from lightloom.parts.choices import BillChoices
from lightloom.parts.load import load_part
from lightloom.studies.economics import PAPER

_CHIPS = 4096
_PRICED = (100, 200, 400)
"""Gb/s of which every part has a price."""
_CIRCUIT_SHARE = 6 / 8
"""Of MixNet's eight network cards a server, six lead to circuit switches."""
_PALOMAR = BillChoices(circuit_switch="palomar-136", switches="whole")
"""Whole circuit switches, as TPU v4 has them."""


def claims() -> tuple[Claim, ...]:
    """Return the rows of bills."""
    return (*_tpu_v4(), *_mixnet(), *_rails(), *_copackaged())


def _count(bill: Bill, prefix: str) -> float:
    """Parts of a name that begins so, in the whole fabric."""
    return bill.ranks * sum(line.per_rank for line in bill.lines if line.part.name.startswith(prefix))


def _dollars(bill: Bill) -> float:
    assert bill.dollars.value is not None and bill.dollars.complete, bill.dollars.text()
    return bill.dollars.value


def _tpu_v4() -> Iterator[Claim]:
    bill = load_fabric("tpu-v4", _CHIPS).bill(_PALOMAR)
    switches = round(_count(bill, "palomar-136"))
    fibres = round(_count(bill, "fibre"))
    yield PAPER.claim("tpu_v4.fibres", fibres)
    yield PAPER.claim("tpu_v4.circuit_switches", switches)
    chip, switch = load_part("board-tpu-v4").static_power, load_part("palomar-136").static_power
    assert chip is not None and switch is not None
    share = 100 * switches * switch.value / (_CHIPS * chip.value)
    yield PAPER.claim("tpu_v4.power_of_switches", round(share, 3), watts=switch.value, chip=chip.value)
    yield _optics_of_tpu_v4(fibres, share, chip.value)
    dollars = sum(line.total("dollars").value or 0.0 for line in bill.lines)
    yield PAPER.claim("tpu_v4.cost", None, dollars=dollars)


def _optics_of_tpu_v4(fibres: int, switches: float, chip: float) -> Claim:
    """Return the share of optics and switches, between the least and the most joules a bit of an end in the catalog."""
    pluggable, packaged = load_part("transceiver-400g"), load_part("copackaged-end").static_energy
    assert pluggable.static_power is not None and pluggable.rate is not None and packaged is not None
    bits = 8 * load_fabric("tpu-v4", _CHIPS).link_bandwidth()[0]
    most = pluggable.static_power.value / (8 * pluggable.rate)
    low, high = (switches + 100 * fibres * joules * bits / (_CHIPS * chip) for joules in (packaged.least, most))
    words = {"low": 1e12 * packaged.least, "high": 1e12 * most, "rate": bits / 1e9}
    return PAPER.claim("tpu_v4.power_with_optics", f"{low:.1f} to {high:.1f} %", **words)


def _fat_tree(ranks: int, gbps: int) -> Bill:
    return load_fabric("switch", ranks, {"bandwidth": f"{gbps}Gbps"}).bill()


def _mixnet_ratio(ranks: int, gbps: int) -> float:
    """Dollars of a fat tree over those of MixNet, whose ranks have circuits for most of their cards."""
    tree = _fat_tree(ranks, gbps)
    circuits = load_fabric("circuit-switch", 256, {"degree": 1, "bandwidth": f"{gbps}Gbps"}).bill()
    mixed = circuits.times(_CIRCUIT_SHARE) + tree.times(1 - _CIRCUIT_SHARE)
    return _dollars(tree) / _dollars(mixed)


def _mixnet() -> Iterator[Claim]:
    for tiers, ranks in (("two", 2048), ("three", 4096)):
        mean = sum(_mixnet_ratio(ranks, gbps) for gbps in _PRICED) / len(_PRICED)
        yield PAPER.claim("mixnet.{tiers}_tiers", round(_mixnet_ratio(ranks, 400), 2), tiers=tiers, ranks=ranks)
        yield PAPER.claim("mixnet.mean_{tiers}_tiers", round(mean, 2), tiers=tiers, ranks=ranks)


def _rails() -> Iterator[Claim]:
    """Rows of rails of circuit switches against a fat tree: one port of 400 Gb/s a rank."""
    tree = _fat_tree(2048, 400)
    rail = load_fabric("circuit-switch", 256, {"degree": 1}).bill()
    power = [bill.static_power.value or 0.0 for bill in (tree, rail)]
    yield PAPER.claim("rails.power", round(power[0] / power[1], 1), tree=power[0], rail=power[1])
    yield PAPER.claim("rails.cost", round(_dollars(tree) / _dollars(rail), 1))


def _copackaged() -> Iterator[Claim]:
    plug, packaged = (load_part(name).static_power for name in ("transceiver-800g", "copackaged-bailly-800g"))
    assert plug is not None and packaged is not None
    yield PAPER.claim("copackaged.saving", round(100 * (1 - packaged.value / plug.value), 1))
