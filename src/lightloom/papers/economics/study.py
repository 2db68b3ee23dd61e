"""The study of economics: bills of materials and goodput."""

from collections.abc import Iterator
from itertools import product

from lightloom.core.claims import Claim
from lightloom.machines.clusters.load import load_cluster
from lightloom.machines.fabrics.load import load_fabric
from lightloom.machines.parts.bill import Bill, BillChoices
from lightloom.machines.parts.part import load_part
from lightloom.papers.economics import PAPER
from lightloom.papers.study import Study
from lightloom.planning.economics.causes import load_log
from lightloom.planning.economics.estimate import estimate_cluster
from lightloom.planning.economics.job import Checkpoint, reconfigurable_share, static_share, total_job

# Bills of materials: TPU v4's circuits, MixNet against fat trees, rails of circuits, optics packaged with switches.

_CHIPS = 4096
_PRICED = (100, 200, 400)
"""Gb/s of which every part has a price."""
_CIRCUIT_SHARE = 6 / 8
"""Share of MixNet's network cards that lead to circuit switches: six of eight in a server."""
_PALOMAR = BillChoices(circuit_switch="palomar-136", switches="whole")
"""Whole circuit switches, as TPU v4 has them."""


def _count_parts(bill: Bill, prefix: str) -> float:
    """Return how many parts whose name begins with ``prefix`` the whole fabric of a bill has: parts per rank times
    ranks, all such lines added up."""
    return bill.ranks * sum(line.per_rank for line in bill.lines if line.part.name.startswith(prefix))


def _dollars(bill: Bill) -> float:
    """Return the dollars per rank of all parts of a bill.

    Raises:
        AssertionError: a part has no price; the message is the text of the incomplete sum.
    """
    assert bill.dollars.value is not None and bill.dollars.complete, bill.dollars.text()
    return bill.dollars.value


def _parts_of_tpu_v4() -> Iterator[Claim]:
    """Yield five rows on 4,096 chips of TPU v4: the numbers of fibres and of whole circuit switches, the switches'
    watts in percent of the chips', the same with optics (as text "1.0 to 2.5 %"), and the dollars per rank of the parts
    that have a price, rounded to whole dollars."""
    bill = load_fabric("tpu-v4", _CHIPS).bill(_PALOMAR)
    switches = round(_count_parts(bill, "palomar-136"))
    fibres = round(_count_parts(bill, "fibre"))
    yield PAPER.claim("tpu_v4.fibres", fibres)
    yield PAPER.claim("tpu_v4.circuit_switches", switches)
    chip, switch = load_part("board-tpu-v4").static_power, load_part("palomar-136").static_power
    assert chip is not None and switch is not None
    share = 100 * switches * switch.value / (_CHIPS * chip.value)
    yield PAPER.claim("tpu_v4.power_of_switches", round(share, 3), watts=switch.value, chip=chip.value)
    yield _optics_of_tpu_v4(fibres, share, chip.value)
    yield PAPER.claim("tpu_v4.cost", round(sum(line.total("dollars").value or 0.0 for line in bill.lines)))


def _optics_of_tpu_v4(fibres: int, switches: float, chip: float) -> Claim:
    """Return the row on the power of circuit switches and optics in percent of the chips', as text "1.0 to 2.5 %": with
    every fibre's end at the fewest joules a bit of co-packaged optics in the catalog, and at those of a 400G pluggable
    transceiver, both at the rate of the fabric's links all the time.

    Args:
        fibres: number of fibres, each with one end that draws power.
        switches: watts of the circuit switches in percent of the chips'.
        chip: watts of a chip.
    """
    pluggable, packaged = load_part("transceiver-400g"), load_part("copackaged-end").static_energy
    assert pluggable.static_power is not None and pluggable.rate is not None and packaged is not None
    bits = 8 * load_fabric("tpu-v4", _CHIPS).link_bandwidth()[0]
    most = pluggable.static_power.value / (8 * pluggable.rate)
    low, high = (switches + 100 * fibres * joules * bits / (_CHIPS * chip) for joules in (packaged.least, most))
    words = {"low": 1e12 * packaged.least, "high": 1e12 * most, "rate": bits / 1e9}
    return PAPER.claim("tpu_v4.power_with_optics", f"{low:.1f} to {high:.1f} %", **words)


def _fat_tree(ranks: int, gbps: int) -> Bill:
    """Return the bill per rank of the catalog's fabric ``switch``, a tree of packet switches, for so many ranks with a
    port of ``gbps`` Gb/s each."""
    return load_fabric("switch", ranks, set={"bandwidth": f"{gbps}Gbps"}).bill()


def _mixnet_ratio(ranks: int, gbps: int) -> float:
    """Return the dollars of a fat tree over those of MixNet, both for so many ranks at ``gbps`` Gb/s a port; MixNet is
    six eighths of the dollars per rank of circuit switches (the catalog's ``circuit-switch`` for 256 ranks, one port
    each, whatever ``ranks``) and two eighths of the tree's."""
    tree = _fat_tree(ranks, gbps)
    circuits = load_fabric("circuit-switch", 256, set={"degree": 1, "bandwidth": f"{gbps}Gbps"}).bill()
    return _dollars(tree) / _dollars(circuits.times(_CIRCUIT_SHARE) + tree.times(1 - _CIRCUIT_SHARE))


def _fabrics() -> Iterator[Claim]:
    """Yield seven rows: the ratio of dollars of fat trees of two and three tiers (2,048 and 4,096 ranks) to MixNet, at
    400 Gb/s and as the mean over the rates of :data:`_PRICED`; the ratios of watts and of dollars of a fat tree of
    2,048 ranks to rails of circuit switches (one port of 400 Gb/s a rank); and the percentage of watts that a
    co-packaged 800G end saves over a pluggable 800G transceiver."""
    for tiers, ranks in (("two", 2048), ("three", 4096)):
        mean = sum(_mixnet_ratio(ranks, gbps) for gbps in _PRICED) / len(_PRICED)
        yield PAPER.claim("mixnet.{tiers}_tiers", round(_mixnet_ratio(ranks, 400), 2), tiers=tiers, ranks=ranks)
        yield PAPER.claim("mixnet.mean_{tiers}_tiers", round(mean, 2), tiers=tiers, ranks=ranks)
    tree = _fat_tree(2048, 400)
    rail = load_fabric("circuit-switch", 256, set={"degree": 1}).bill()
    power = [bill.static_power.value or 0.0 for bill in (tree, rail)]
    yield PAPER.claim("rails.power", round(power[0] / power[1], 1), tree=power[0], rail=power[1])
    yield PAPER.claim("rails.cost", round(_dollars(tree) / _dollars(rail), 1))
    plug, packaged = (load_part(name).static_power for name in ("transceiver-800g", "copackaged-bailly-800g"))
    assert plug is not None and packaged is not None
    yield PAPER.claim("copackaged.saving", round(100 * (1 - packaged.value / plug.value), 1))


# Goodput: TPU v4's slices, Meta's, Llama 3's and MegaScale's months, and restarts that OPT counted.

_DAY = 86400.0
_BLOCKS, _HOSTS_OF_A_BLOCK = 64, 16
"""TPU v4: blocks of 64 chips, four chips a host."""
_SLICES = {"1k": 16, "2k": 32, "3k": 48}
"""Blocks of a slice."""
_CLUSTER = "h100-1024-no-nvlink-400g"


def _slices_of_tpu_v4() -> Iterator[Claim]:
    """Yield the rows of availability of TPU v4's slices of 1,024, 2,048 and 3,072 chips out of 64 blocks of 64 chips,
    each block of 16 hosts that must all work.

    For each slice, where a host works 99.0 or 99.5 % of the time, ``reconfigurable_share`` (circuits) and
    ``static_share`` (static cabling) in percent; then, for each slice, the least availability of hosts among 99.0, 99.5
    and 99.9 % at which static cabling reaches what circuits do at 99.0 %, as text such as "99.5 %", or "more than 99.9
    %" where none suffices.
    """
    for (name, needed), host in product(_SLICES.items(), (0.99, 0.995)):
        block = host**_HOSTS_OF_A_BLOCK
        fields = {"slice": name, "host": f"{1000 * host:.0f}"}
        circuits, static = (100 * share(_BLOCKS, needed, block) for share in (reconfigurable_share, static_share))
        yield PAPER.claim("tpu_v4.circuits_{slice}_{host}", round(circuits, 2), **fields)
        yield PAPER.claim("tpu_v4.static_{slice}_{host}", round(static, 3), **fields)
    for name, needed in _SLICES.items():
        circuits = reconfigurable_share(_BLOCKS, needed, 0.99**_HOSTS_OF_A_BLOCK)
        enough = [host for host in (0.99, 0.995, 0.999) if static_share(_BLOCKS, needed, host**16) >= circuits]
        static = static_share(_BLOCKS, needed, 0.999**_HOSTS_OF_A_BLOCK)
        ours = f"{100 * enough[0]:.1f} %" if enough else "more than 99.9 %"
        values = {"slice": name, "static": 100 * static, "circuits": 100 * circuits}
        yield PAPER.claim("tpu_v4.hosts_for_static_{slice}", ours, **values)


def _months() -> Iterator[Claim]:
    """Yield eight rows of what operators counted over months, beside our estimates: Meta (hours between failures of a
    job of 16,384, 131,072 and 1,024 ranks at the failure rates of ``rsc-1``), Llama 3 (goodput above or below 90 % at
    its log's hours between failures, with a restart of 300 s and 30 s to write a checkpoint, and of 600 and 60 s),
    MegaScale (the same where 100 failures take three weeks, a restart 1,500 s and a checkpoint stalls for 0.59 s), OPT
    (restarts in 60 days of 992 ranks, at ``rsc-1``'s rate per rank and day) and ByteRobust (goodput of 9,600 ranks in
    percent, with failures detected in 30 s)."""
    for ranks in (16384, 131072, 1024):
        job = estimate_cluster(load_cluster(_CLUSTER), {"rates": "rsc-1"}, ranks=ranks).job
        yield PAPER.claim("meta.mttf_{ranks}", round(job.mtbf / 3600, 3), ranks=ranks)
    log = load_log("llama-3")
    mtbf = log.days * _DAY / log.total
    for restart, write in ((300, 30), (600, 60)):
        goodput = total_job(mtbf, restart, Checkpoint(stall=write)).goodput
        values = {"restart": restart, "write": write, "kept": 100 * goodput, "hours": mtbf / 3600}
        yield PAPER.claim("llama3.effective_{restart}_{write}", _above(goodput), **values)
    checkpoint = Checkpoint(stall=0.59, save=51)
    two, three, four = (100 * total_job(weeks * 7 * _DAY / 100, 1500, checkpoint).goodput for weeks in (2, 3, 4))
    yield PAPER.claim("megascale.effective", _above(three / 100), two=two, three=three, four=four)
    counts = {name: load_log(name) for name in ("llama-3", "rsc-1")}
    ours = {name: log.total / log.ranks / log.days * 992 * 60 for name, log in counts.items()}
    yield PAPER.claim("opt.restarts", round(ours["rsc-1"], 1), llama=ours["llama-3"])
    fields = {"recovery": {"detection": "30s"}}
    kept, usual = (estimate_cluster(load_cluster(_CLUSTER), given, ranks=9600) for given in (fields, None))
    values = {"usual": 100 * usual.most_goodput, "spares": kept.job.spares}
    yield PAPER.claim("byterobust.effective", round(100 * kept.most_goodput, 2), **values)


def _above(share: float) -> str:
    """Return "above 90 %" where a share (0 to 1) is more than 0.9, else "below 90 %"."""
    return f"{'above' if share > 0.9 else 'below'} 90 %"


def study() -> Study:
    """Return the study that sets published figures beside ours: bills of materials first, then goodput; it has no
    figures."""
    return PAPER.study((*_parts_of_tpu_v4(), *_fabrics(), *_slices_of_tpu_v4(), *_months()))
