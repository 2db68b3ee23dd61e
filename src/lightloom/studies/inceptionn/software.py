"""Figure 7: training time with compression in software."""

from __future__ import annotations

from collections.abc import Iterator

from lightloom.core.claims import Claim
from lightloom.studies.base import Record
from lightloom.studies.inceptionn import PAPER
from lightloom.studies.inceptionn.paper import ITERATIONS, TABLE_2, WORKERS, size_bytes
from lightloom.studies.inceptionn.training_time import steps, wire_seconds

NAMES = {"snappy": "snappy", "sz3:2^-10": "SZ3 2^-10"}
"""Names in the codec benchmark of the codecs of the loop."""
RANGE = (2.0, 4.0)
"""Section VI: range of the training time with Snappy or SZ, over that without."""
SLIGHT = 0.75
"""What we take for "only slightly" shorter, which the paper says of truncation: no less than that of the time without,
and less than it in every round."""


def claims(loop: Record, codec: Record) -> tuple[Claim, ...]:
    """Rows from the loop that was measured, and for AlexNet from Table II and the codecs' measured speed."""
    return (*_loop(loop), *_alexnet(codec))


def _general(what: str, factor: float, **values: object) -> Claim:
    """Return the row of a general-purpose codec, for whose training time the paper names a range."""
    ours = _SAYS if RANGE[0] <= factor <= RANGE[1] else f"{factor:.2f} times as long"
    return PAPER.claim("figure7.{what}", ours, paper=_SAYS, what=what, **values)


def _truncation(what: str, factor: float, longest: float, **values: object) -> Claim:
    """Return the row of truncation, from the median of the rounds and the longest of them."""
    paper = "slightly shorter"
    ours = paper if factor >= SLIGHT and longest < 1 else f"{factor:.2f} times as long"
    return PAPER.claim("figure7.{what}", ours, paper=paper, what=what, **values)


_SAYS = f"{RANGE[0]:g} to {RANGE[1]:g} times as long"


def _loop(loop: Record) -> Iterator[Claim]:
    for row in loop["rows"]:
        codec = row["codec"]
        if codec not in ("none", "inceptionn:2^-10"):
            what, factor = f"hdc_{_id(codec)}", row["step_of_none"]
            values = {"row": row, "row_ms": 1e3 * row["step_s"], "loop": loop}
            if codec in NAMES:
                yield _general(what, factor, **values)
            else:
                yield _truncation(what, factor, row["step_of_none_range"][1], **values)


def _alexnet(codec: Record) -> Iterator[Claim]:
    rates = {row["codec"]: row for row in codec["data"][codec["middle"]]}
    for name, known in NAMES.items():
        yield _general(f"alexnet_{_id(name)}", alexnet_factor(rates[known]), rate=rates[known])


def alexnet_factor(rate: Record) -> float:
    """Return the training time over that without a codec, for worker-aggregator with a codec on gradients only."""
    nbytes, plain = size_bytes("AlexNet"), steps("AlexNet")["WA"]
    compute = TABLE_2["AlexNet"].local / ITERATIONS + TABLE_2["AlexNet"].gradient_sum / ITERATIONS
    codec = nbytes / (1e9 * rate["encode_GBps"]) + WORKERS * nbytes / (1e9 * rate["decode_GBps"])
    # Software makes fewer packets, unlike the card.
    wire = wire_seconds(WORKERS * nbytes) + wire_seconds(WORKERS * nbytes / rate["ratio"])
    return float((compute + codec + wire) / plain.total)


def _id(codec: str) -> str:
    return codec.replace(":2^-", "_bound").replace(":", "_")
