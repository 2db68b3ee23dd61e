"""Figures 3 and 12: sizes, shares of communication, and training time with and without ring and compression.

AlexNet, ResNet-50 and VGG-16 cannot be trained here: their step time is Table II's measured computation plus our
communication model, which knows no host: payload and headers at 10 Gbit/s. HDC has rows of both kinds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from statistics import fmean

from lightloom.core.claims import Claim
from lightloom.fabrics.packet_switch import PacketSwitch
from lightloom.studies.inceptionn import PAPER
from lightloom.studies.inceptionn.paper import (
    INC_C,
    INC_C_OVER_INC,
    INC_COMMUNICATION,
    INC_TOTAL,
    ITERATIONS,
    LINK_BITS,
    MEGABYTES,
    MODELS,
    SPEEDUPS,
    TABLE_2,
    WA_C,
    WORKERS,
    ratio,
    size_bytes,
)
from lightloom.studies.inceptionn.tables import slug
from lightloom.workloads.catalog import ZOO

PAYLOAD, FRAMING = 1448, 90
"""Bytes a packet: TCP payload at an MTU of 1500 with timestamps; TCP/IP headers, Ethernet frame, preamble and gap."""


@dataclass(frozen=True, slots=True)
class Step:
    """Durations of an iteration, in seconds."""

    local: float
    communicate: float

    @property
    def total(self) -> float:
        """Duration without overlap, as in the paper."""
        return self.local + self.communicate


def claims() -> tuple[Claim, ...]:
    """Rows of Figures 3 and 12 that need no measurement of ours."""
    return (*_sizes(), *_shares(), *_reductions(), *_compressed(), *_consistency(), *_fitted())


def wire_seconds(nbytes: float, compression: float = 1.0) -> float:
    """Time on one link; compression behind the NIC shrinks payloads, never the number of packets (section VIII-C)."""
    switch = PacketSwitch(ranks=WORKERS, bandwidth=LINK_BITS / 8, packet_payload=PAYLOAD, packet_header=FRAMING)
    return nbytes / compression / switch.with_smaller_packets(compression).data_rate(switch.bandwidth)


@cache
def steps(model: str) -> dict[str, Step]:
    """WA, WA+C, INC and INC+C at 2^-10, by Table III's ratio."""
    column, nbytes, compression = TABLE_2[model], size_bytes(model), ratio(model, 10)
    local = column.local / ITERATIONS
    adding = column.gradient_sum / ITERATIONS
    share = (WORKERS - 1) / WORKERS
    # The aggregator adds (p − 1) n bytes; in a ring every worker adds (p − 1)/p n, at the same time as the others.
    ring_local = local + adding / WORKERS
    weights = wire_seconds(WORKERS * nbytes)
    hops = 2 * share * nbytes
    return {
        "WA": Step(local + adding, weights + wire_seconds(WORKERS * nbytes)),
        "WA+C": Step(local + adding, weights + wire_seconds(WORKERS * nbytes, compression)),
        "INC": Step(ring_local, wire_seconds(hops)),
        "INC+C": Step(ring_local, wire_seconds(hops, compression)),
    }


def percent_less(ours: float, than: float) -> float:
    """Return by how many percent ``ours`` is less."""
    return 100 * (1 - ours / than)


def _sizes() -> Iterator[Claim]:
    names = {"AlexNet": "alexnet", "HDC": "hdc", "ResNet-50": "resnet50", "VGG-16": "vgg16"}
    for model, name in names.items():
        ours = round(4 * ZOO[name].parameters / 2**20, 3)
        yield PAPER.claim("figure3.{model}_size", ours, paper=MEGABYTES[model], model=slug(model))


def _shares() -> Iterator[Claim]:
    for model in MODELS:
        column, wa = TABLE_2[model], steps(model)["WA"]
        paper = 100 * column.communicate / column.total
        ours = 100 * wa.communicate / wa.total
        yield PAPER.claim("figure3.{model}_communication", round(ours, 3), paper=round(paper, 1), model=slug(model))


def _reductions() -> Iterator[Claim]:
    for model in MODELS:
        wa, inc = steps(model)["WA"], steps(model)["INC"]
        reached = 1.5 * size_bytes(model) * 8 / ((1 - INC_COMMUNICATION[model] / 100) * _measured(model)) / 1e9
        for what, ours, paper in (
            ("communication", percent_less(inc.communicate, wa.communicate), INC_COMMUNICATION[model]),
            ("total", percent_less(inc.total, wa.total), INC_TOTAL[model]),
        ):
            values = {"model": slug(model), "what": what, "reached": reached}
            yield PAPER.claim("figure12.{model}_inc_{what}", round(ours, 3), paper=paper, **values)


def _measured(model: str) -> float:
    return TABLE_2[model].communicate / ITERATIONS


def _compressed() -> Iterator[Claim]:
    for what, ours, base, paper in (
        ("wa_c", "WA+C", "WA", WA_C),
        ("inc_c", "INC+C", "WA", INC_C),
        ("inc_c_over_inc", "INC+C", "INC", INC_C_OVER_INC),
    ):
        mean = fmean(percent_less(steps(model)[ours].communicate, steps(model)[base].communicate) for model in MODELS)
        yield PAPER.claim(f"figure12.{what}_communication", round(mean, 3), paper=paper)
    speedups = [steps(model)["WA"].total / steps(model)["INC+C"].total for model in MODELS]
    yield PAPER.claim("figure12.least_speedup", round(min(speedups), 3), paper=SPEEDUPS[0])
    yield PAPER.claim("figure12.greatest_speedup", round(max(speedups), 3), paper=SPEEDUPS[1])


def _consistency() -> Iterator[Claim]:
    """What INC saves beside communication, by the two printed percentages, against all that it could save there."""
    for model in MODELS:
        column = TABLE_2[model]
        total = column.total * (1 - INC_TOTAL[model] / 100)
        communicate = column.communicate * (1 - INC_COMMUNICATION[model] / 100)
        saved = (column.total - column.communicate) - (total - communicate)
        could = column.gradient_sum * (1 - 1 / WORKERS)
        ours = "possible" if saved <= could else f"{saved:.3g} s of {could:.3g} s"
        yield PAPER.claim("figure12.{model}_computation_saved", ours, model=slug(model))


def _fitted() -> Iterator[Claim]:
    """One constant, seconds of host a packet, fitted to AlexNet's INC; everything else follows."""
    nbytes = 2 * (WORKERS - 1) / WORKERS * size_bytes("AlexNet")
    target = (1 - INC_COMMUNICATION["AlexNet"] / 100) * _measured("AlexNet")
    host = (target - wire_seconds(nbytes)) / (nbytes / PAYLOAD)
    for model in MODELS:
        packets = 1.5 * size_bytes(model) / PAYLOAD
        plain = wire_seconds(1.5 * size_bytes(model)) + packets * host
        packed = wire_seconds(1.5 * size_bytes(model), ratio(model, 10)) + packets * host
        ours, values = round(percent_less(packed, plain), 3), {"model": slug(model), "host_us": 1e6 * host}
        yield PAPER.claim("figure12.{model}_inc_c_over_inc_fitted", ours, paper=INC_C_OVER_INC, **values)
