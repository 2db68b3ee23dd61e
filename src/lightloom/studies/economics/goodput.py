"""Goodput: TPU v4's slices, Meta's, Llama 3's and MegaScale's months, and crashes that Alibaba and OPT counted."""

from __future__ import annotations

from collections.abc import Iterator

from lightloom.clusters.load import load_cluster
from lightloom.core.claims import Claim
from lightloom.economics.goodput.availability import reconfigurable_share, static_share
from lightloom.economics.goodput.daly import Checkpoint
from lightloom.economics.goodput.evaluate import estimate_cluster
from lightloom.economics.goodput.job import total_job
from lightloom.economics.goodput.logs import load_log
from lightloom.studies.economics import PAPER

_DAY = 86400.0
_BLOCKS, _HOSTS_OF_A_BLOCK = 64, 16
"""TPU v4: blocks of 64 chips, four chips a host."""
_SLICES = {"1k": 16, "2k": 32, "3k": 48}
"""Blocks of a slice."""
_CLUSTER = "h100-1024-fat-tree-400g"
_LINK_A_MONTH, _TOR_A_MONTH, _TOR_PORTS = 0.00057, 0.00051, 128
"""Shares of links to top-of-rack switches, and of these, that fail a month (HPN, section 2.3), and links of one."""


def claims() -> tuple[Claim, ...]:
    """Return the rows of goodput."""
    return (*_tpu_v4(), *_meta(), *_llama(), *_megascale(), *_crashes(), *_byterobust())


def _tpu_v4() -> Iterator[Claim]:
    for name, needed in _SLICES.items():
        for host in (0.99, 0.995):
            block = host**_HOSTS_OF_A_BLOCK
            fields = {"slice": name, "host": f"{1000 * host:.0f}"}
            yield PAPER.claim(
                "tpu_v4.circuits_{slice}_{host}", round(100 * reconfigurable_share(_BLOCKS, needed, block), 2), **fields
            )
            yield PAPER.claim(
                "tpu_v4.static_{slice}_{host}", round(100 * static_share(_BLOCKS, needed, block), 3), **fields
            )
    for name, needed in _SLICES.items():
        circuits = reconfigurable_share(_BLOCKS, needed, 0.99**_HOSTS_OF_A_BLOCK)
        enough = [host for host in (0.99, 0.995, 0.999) if static_share(_BLOCKS, needed, host**16) >= circuits]
        static = static_share(_BLOCKS, needed, 0.999**_HOSTS_OF_A_BLOCK)
        ours = f"{100 * enough[0]:.1f} %" if enough else "more than 99.9 %"
        yield PAPER.claim(
            "tpu_v4.hosts_for_static_{slice}", ours, slice=name, static=100 * static, circuits=100 * circuits
        )


def _meta() -> Iterator[Claim]:
    for ranks in (16384, 131072, 1024):
        job = estimate_cluster(load_cluster(_CLUSTER), {"rates": "rsc-1"}, ranks=ranks).job
        yield PAPER.claim("meta.mttf_{ranks}", round(job.mtbf / 3600, 3), ranks=ranks)


def _llama() -> Iterator[Claim]:
    log = load_log("llama-3")
    yield PAPER.claim("llama3.interruptions", log.total)
    mtbf = log.days * _DAY / log.total
    for restart, write in ((300, 30), (600, 60)):
        kept = total_job(mtbf, restart, Checkpoint(stall=write)).goodput
        yield PAPER.claim(
            "llama3.effective_{restart}_{write}",
            _above(kept, 0.9),
            restart=restart,
            write=write,
            kept=100 * kept,
            hours=mtbf / 3600,
        )


def _megascale() -> Iterator[Claim]:
    shares = {
        weeks: 100 * total_job(weeks * 7 * _DAY / 100, 1500, Checkpoint(stall=0.59, save=51)).goodput
        for weeks in (2, 3, 4)
    }
    yield PAPER.claim(
        "megascale.effective", _above(shares[3] / 100, 0.9), two=shares[2], three=shares[3], four=shares[4]
    )


def _crashes() -> Iterator[Claim]:
    for ranks in (2048, 3072):
        crashes = ranks * (_LINK_A_MONTH + _TOR_A_MONTH / _TOR_PORTS)
        yield PAPER.claim("hpn.crashes_{ranks}", round(crashes, 2), ranks=ranks)
    counts = {name: load_log(name) for name in ("llama-3", "rsc-1")}
    ours = {name: log.total / log.ranks / log.days * 992 * 60 for name, log in counts.items()}
    yield PAPER.claim("opt.restarts", round(ours["rsc-1"], 1), llama=ours["llama-3"])


def _byterobust() -> Iterator[Claim]:
    fields = {"recovery": {"detection": "30s"}}
    kept = estimate_cluster(load_cluster(_CLUSTER), fields, ranks=9600)
    usual = estimate_cluster(load_cluster(_CLUSTER), ranks=9600)
    yield PAPER.claim(
        "byterobust.effective",
        round(100 * kept.most_goodput, 2),
        usual=100 * usual.most_goodput,
        spares=kept.job.spares,
    )


def _above(share: float, bound: float) -> str:
    return f"{'above' if share > bound else 'below'} {100 * bound:.0f} %"
