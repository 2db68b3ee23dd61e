"""All-to-alls of uneven parts against their bounds, and against a padded all-to-all.

    python -m benchmarks.collectives.uneven [--quick]

Popular experts: every rank sends the k-th most popular rank a share proportional to k^-s of what it sends (Zipf). Times
and bounds are without the first set-up of circuits. *Padded* is the even all-to-all with every part as large as the
largest, which is what a library does that knows one size alone. Where one rank alone sets the bound the table says so.
"""

from __future__ import annotations

import argparse

import numpy as np

import lightloom as ll
from lightloom.collectives.collective import Collective, zipf_sizes
from lightloom.machines.fabrics.fabric import Fabric

_EXPONENTS = (0.8, 1.2)
_CASES: tuple[tuple[str, str, int, dict[str, object]], ...] = (
    ("ring of 64, 64 wavelengths", "wdm-ring", 64, {}),
    ("electrical ring of 64", "ring", 64, {}),
    ("switch of 256", "switch", 256, {}),
    ("circuit switch of 256, degree 8", "circuit-switch", 256, {}),
)
_NBYTES = (16e6, 160e6)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a quarter of the ranks")
    quick = parser.parse_args().quick
    print("| fabric | MB a rank | sizes | time, us | bound, us | ratio | padded, us | bound set by | bytes |")
    print("| --- | ---: | --- | ---: | ---: | ---: | ---: | --- | --- |")
    for name, kind, ranks, fields in _CASES:
        fabric = ll.load_fabric(kind, ranks // (4 if quick else 1), set=fields)
        for nbytes in _NBYTES:
            even = Collective("all-to-all", fabric.ranks, nbytes)
            _line(name, fabric, even, "even")
            for exponent in _EXPONENTS:
                sizes = zipf_sizes(fabric.ranks, exponent)
                _line(name, fabric, Collective("all-to-all-v", fabric.ranks, nbytes, sizes=sizes), f"Zipf {exponent}")


def _line(name: str, fabric: Fabric, collective: Collective, sizes: str) -> None:
    made = ll.synthesize(collective, fabric)
    ours, bound = made.time - fabric.setup_time, made.lower_bound.time - fabric.setup_time
    padded = "" if collective.sizes is None else f"{_padded(collective, fabric) * 1e6:.0f}"
    named = (
        ll.lower_bound(collective, fabric, set={"reconfiguration_time": 0.0}) if fabric.exclusive else made.lower_bound
    )
    row = (
        f"{name} ({fabric.ranks})",
        f"{collective.nbytes / 1e6:g}",
        sizes,
        f"{ours * 1e6:.0f}",
        f"{bound * 1e6:.0f}",
        f"{ours / bound:.3f}",
        padded,
        named.bound_by,
        "conserved" if _conserved(made.schedule) else "NOT CONSERVED",
    )
    print("| " + " | ".join(row) + " |", flush=True)


def _padded(collective: Collective, fabric: Fabric) -> float:
    """Seconds of the even all-to-all whose parts are as large as the largest, circuits in place."""
    assert collective.sizes is not None
    largest = float(collective.sizes.share.max()) * collective.distinct_nbytes
    even = ll.synthesize(Collective("all-to-all", fabric.ranks, largest * fabric.ranks), fabric)
    return even.time - fabric.setup_time


def _conserved(schedule: ll.Schedule) -> bool:
    """Whether every rank receives for good the bytes that are for it: arrivals less departures, part by part."""
    plain = schedule.unfolded(1 << 15)
    collective, ranks = plain.collective, plain.collective.ranks
    nbytes = np.broadcast_to(plain.row_nbytes, len(plain))
    gained = np.bincount(plain.destination, nbytes, ranks) - np.bincount(plain.source, nbytes, ranks)
    share = np.full((ranks, ranks), 1 / ranks**2) if collective.sizes is None else collective.sizes.share
    wanted = (share.sum(axis=0) - share.sum(axis=1)) * collective.distinct_nbytes
    return bool(np.allclose(gained, wanted, rtol=1e-9, atol=1e-9 * collective.distinct_nbytes))


if __name__ == "__main__":
    main()
