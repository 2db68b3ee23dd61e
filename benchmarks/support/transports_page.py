"""The page ``docs/transports.md``: what transports are, and how near their predictions are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.support.accuracy_page import Check

if TYPE_CHECKING:
    from benchmarks.transports import Judged

_INTRODUCTION = """# Transports

A transport is the software between a collective and the links: protocols with their latencies, ceilings of bandwidth,
pipelines that fill, copies. It answers how long a collective *really* takes on a cluster:

    lightloom accuracy ROWS.csv --cluster dgx-h100-64
    lightloom calibrate ROWS.csv --cluster dgx-h100-64 --out my-nccl.yaml
    lightloom accuracy OTHERS.csv --cluster dgx-h100-64 --calibration my-nccl.yaml
    lightloom plan gpt2-355m --cluster dgx-h100-64 --global-batch 64 --set fabric.transport=my-nccl.yaml

The catalog has `nccl-ampere`, `nccl-hopper`, `nccl-blackwell` and `ideal`, in which software costs nothing. A cluster
whose file names none has the one of its accelerator ([accelerators](accelerators.md)) where its fabric is one of
switches, and the first lines of a plan say so; `transport: ideal` is a choice that a file makes. Rings, tori and
circuits of light have no closed form and are ideal, which plans say, too. A table is a CSV file of
`nodes,gpus,collective,nbytes,time_us` (bytes as nccl-tests counts them), or what nccl-tests prints; with columns
`cluster,transport` it may hold several systems.

![Predicted against measured collectives, sizes that no constant was fitted to](pictures/transports.png)

## The model

A collective takes the quickest of its ways: rings, trees, adding switches (NVLink SHARP), parallel aggregated trees
(PAT) of ranks that are alone in their nodes, all pairs, each by NCCL's protocols LL, LL128 and Simple. All-gathers and
reduce-scatters over nodes go by rings, so that their bus bandwidth is at most that of a node's network ports, as in all
measured tables. A transport with `rails: true` may run one ring for each rank of a node instead, as NCCL does from
2.29.7 on for windows that are registered on both sides. Rings and trees leave a domain by the ports of at most
`leaving_ranks` of its ranks: 8, which is what all-reduces over 2 and 20 racks of 72 reach.

A way has latencies *a* (a base, and one for each step inside a domain and across the network) and a transmission *b*
(its bytes over the tier that is its bottleneck, at the part of the bandwidth that the protocol reaches, and the copies
of a rank's own block through its memory):

    time = b + a + fill,    fill = k sqrt(a b) / sqrt(1 + k² b / (φ² a))

Messages are cut into chunks that are passed on one by one. With the best chunk, filling such a pipeline takes time in
proportion to sqrt(a b); but chunks are no larger than the library's buffers, so that the fill ends at φ a. The time
grows with a and b and is concave in both.

Latencies, shares, ceilings and the efficiency of adding switches are those of NCCL 2.30.7 (`src/graph/tuning.cc`),
bandwidths those of the cluster's fabric. Fitted to all measured systems together, and written beside what is published,
are: a factor of each kind of latency, k, φ, the rate of copies, the share of an all-to-all, the latency of a peer.
Latencies of steps scale with the accelerator's clock, which is an assumption. Four numbers are a system's own: factors
of latency and bandwidth, inside a domain and across the network.

Collectives also take a share of the accelerator's arithmetic from the kernels beside them (`arithmetic_share`: one
multiprocessor a channel, an assumption). C seconds of computing beside E of exchanges take max(E, C + share E), in
gathers and scatters of sharded parameters, buckets of gradients, gradients that leave beside backward passes, and
context rings; sends between stages and messages of placed plans take none. Calibrations on measured steps fit it with
the four numbers. Sends between stages and messages of placed plans pay the latency of a chain of two ranks.

Not modelled: that a library picks a protocol which is not the quickest (at 2 to 4 MiB on two and four GPUs up to 40 %),
congestion by others, and how a fabric's routing collides.

## How near

`published`: NCCL's constants as they are. `left out`: constants fitted to the other systems only. `calibrated`: the
same, and the system's four numbers fitted to its anchors: the smallest size and five spread evenly over the logarithms
from 1 MiB to the largest, or half of the sizes where there are fewer than twelve; errors are those of the other sizes.
Tables of one machine are left out together. An error is |predicted - measured| / measured.

No constant is fitted to `alcf-polaris-a100`, whose nodes of four A100 have no switch and lie on Slingshot: the page
shows what constants of NVSwitches on InfiniBand, RoCE and EFA are worth there. It reaches three quarters of its 200
Gb/s a port at most, a share of its network's software that no data sheet states.

Up to version 0.2.0 all-gathers and reduce-scatters over nodes went over rails by default, and no table had any:
predictions were 45 to 70 % too short.

The form was chosen with these tables in view: a fill without a limit, sums and p-norms of the tiers instead of the
larger, and three ways of counting copies were compared on them, and `leaving_ranks` was read off the tables of racks.
Only tables that nobody looked at judge it without reserve.
"""


def page(entries: Sequence[Judged], checks: Sequence[Check]) -> str:
    """The page: limits, then every system, then small sizes, then the constants."""
    lines = [
        _INTRODUCTION,
        "| figure (every system weighs the same) | reached | limit | |",
        "| --- | ---: | ---: | --- |",
        *(check.line() for check in checks),
        "",
        "| system | constants | ranks | rows | median from 1 MiB | mean | rows | median from 64 MiB | mean |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
        *(line for entry in entries for line in _system_lines(entry)),
        "",
        "## Below 1 MiB",
        "",
        "Medians of the errors with their signs, all rows that were not fitted to.",
        "",
        "| system | constants | ranks | " + " | ".join(f"to {name}" for name, _, _ in _SMALL) + " |",
        "| --- | --- | --- |" + " ---: |" * len(_SMALL),
        *(line for entry in entries for line in _small_lines(entry)),
        "",
        "## Kinds",
        "",
        "Medians of the errors with their signs from 1 MiB, calibrated.",
        "",
        "| system | kind | GPUs | rows | median error | largest |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
        *(line for entry in entries if entry.basis == "calibrated" for line in _kind_lines(entry)),
        "",
        "## Numbers of the systems",
        "",
        "| system | latency | network latency | bandwidth | network bandwidth |",
        "| --- | ---: | ---: | ---: | ---: |",
        *(_number_line(entry) for entry in entries if entry.basis == "calibrated"),
        "",
        "A number near that of its neighbours may be one that the rows do not touch: tables of one domain say nothing",
        "about the network.",
        "",
    ]
    return "\n".join(lines)


_SMALL = (("4 KiB", 0.0, 4096.0), ("64 KiB", 4096.0, 65536.0), ("1 MiB", 65536.0, 2.0**20))


def _reach(across: bool) -> str:
    return "across domains" if across else "one domain"


def _system_lines(entry: Judged) -> Iterator[str]:
    for across in (False, True):
        cells = []
        for least in (2.0**20, 2.0**26):
            rows = entry.rows(across, least)
            errors = np.abs(entry.errors[rows])
            cells += (
                [f"{rows.sum()}", f"{np.median(errors):.1%}", f"{errors.mean():.1%}"] if rows.any() else ["0", "", ""]
            )
        if cells[0] != "0":
            yield f"| `{entry.system.name}` | {entry.basis} | {_reach(across)} | {' | '.join(cells)} |"


def _small_lines(entry: Judged) -> Iterator[str]:
    for across in (False, True):
        masks = [entry.rows(across, least, below) for _, least, below in _SMALL]
        if any(mask.any() for mask in masks):
            cells = [f"{np.median(entry.errors[mask]):+.0%} ({mask.sum()})" if mask.any() else "" for mask in masks]
            yield f"| `{entry.system.name}` | {entry.basis} | {_reach(across)} | {' | '.join(cells)} |"


def _kind_lines(entry: Judged) -> Iterator[str]:
    rows = entry.system.rows
    for kind, gpus in dict.fromkeys((row.collective, row.gpus) for row in rows):
        mask = entry.unseen & (entry.system.nbytes >= 2.0**20)
        mask &= np.array([(row.collective, row.gpus) == (kind, gpus) for row in rows])
        if mask.any():
            errors = entry.errors[mask]
            worst = errors[np.abs(errors).argmax()]
            cells = f"{kind} | {gpus} | {mask.sum()} | {np.median(errors):+.1%} | {worst:+.1%}"
            yield f"| `{entry.system.name}` | {cells} |"


def _number_line(entry: Judged) -> str:
    numbers = entry.transport.scales.model_dump().values()
    return f"| `{entry.system.name}` | " + " | ".join(f"{number:.2f}" for number in numbers) + " |"
