"""Figure 7: training time with compression in software."""

from __future__ import annotations

from collections.abc import Iterator

from lightloom.core.claims import Claim
from lightloom.studies.base import Record
from lightloom.studies.inceptionn import PAPER
from lightloom.studies.inceptionn.paper import ITERATIONS, TABLE_2, WORKERS, size_bytes
from lightloom.studies.inceptionn.tables import slug
from lightloom.studies.inceptionn.training_time import steps, wire_seconds

NAMES = {"snappy": "snappy", "sz3:2^-10": "SZ3 2^-10"}
"""Names in the codec benchmark of the codecs of the loop."""
RANGE = (2.0, 4.0)
"""Section VI: range of the training time with Snappy or SZ, over that without."""
SLIGHT = (0.75, 1.0)
"""What we take for "only slightly" shorter, which the paper says of truncation."""


def claims(loop: Record, codec: Record) -> tuple[Claim, ...]:
    """Rows from the loop that was measured, and for AlexNet from Table II and the codecs' measured speed."""
    return (*_loop(loop), *_alexnet(codec))


def _verdict(factor: float, says: str) -> str:
    low, high = RANGE if says == _SAYS else SLIGHT
    return says if low <= factor <= high else f"{factor:.2f} times as long"


_SAYS = f"{RANGE[0]:g} to {RANGE[1]:g} times as long"
_SLIGHTLY = "slightly shorter"


def _loop(loop: Record) -> Iterator[Claim]:
    for row in loop["rows"]:
        if row["codec"] in ("none", "inceptionn:2^-10"):
            continue
        low, high = row["step_of_none_range"]
        general = row["codec"] in ("snappy", "sz3:2^-10")
        yield PAPER.claim(
            "figure7.hdc_{codec}",
            _verdict(row["step_of_none"], _SAYS if general else _SLIGHTLY),
            paper=_SAYS if general else _SLIGHTLY,
            codec=_id(row["codec"]),
            row_ms=1e3 * row["step_s"],
            row=row,
            low=low,
            high=high,
            loop=loop,
        )


def _alexnet(codec: Record) -> Iterator[Claim]:
    rates = {row["codec"]: row for row in codec["data"][codec["middle"]]}
    for name, known in NAMES.items():
        factor = alexnet_factor(rates[known])
        yield PAPER.claim(
            "figure7.{model}_{codec}",
            _verdict(factor, _SAYS),
            paper=_SAYS,
            why="Table II's computation, our communication model, and one thread's speed on HDC's middle gradients "
            f"({rates[known]['encode_GBps']:.2f} GB/s in, {rates[known]['decode_GBps']:.2f} GB/s out, ratio "
            f"{rates[known]['ratio']:.1f}): a worker encodes n bytes, the aggregator decodes 4 n",
            model=slug("AlexNet"),
            codec=_id(name),
        )


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
