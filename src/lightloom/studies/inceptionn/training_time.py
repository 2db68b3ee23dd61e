"""Figures 3 and 12: sizes, shares of communication, and training time with and without ring and compression.

AlexNet, ResNet-50 and VGG-16 cannot be trained here: their step time is Table II's measured computation plus our
communication model, which knows no host: payload and headers at 10 Gbit/s. HDC has rows of both kinds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

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
_BASIS = "Table II's computation plus our communication model (payload and headers at 10 Gbit/s, no host)"


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
    why = {
        "HDC": "five weight layers of width 500 have 1.149 M parameters; 2.5 MB fits three of them, 784-500-500-10",
        "VGG-16": "138,357,544 parameters; the paper's figure lies 0.5 % lower",
    }
    for model, name in names.items():
        ours = 4 * ZOO[name].parameters / 2**20
        basis = why.get(model, "our traced model's parameters, 4 bytes each")
        yield PAPER.claim("figure3.{model}_size", round(ours, 3), paper=MEGABYTES[model], why=basis, model=slug(model))


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
        why = (
            f"{_BASIS}: the ring sends 2(p−1)/p = 1.5 n where the aggregator's link carries 2p = 8 n, for every model. "
            f"The paper's own time for this ring means {reached:.1f} Gbit/s of its 10"
        )
        yield PAPER.claim(
            "figure12.{model}_inc_communication",
            round(percent_less(inc.communicate, wa.communicate), 3),
            paper=INC_COMMUNICATION[model],
            why=why,
            model=slug(model),
        )
        yield PAPER.claim(
            "figure12.{model}_inc_total",
            round(percent_less(inc.total, wa.total), 3),
            paper=INC_TOTAL[model],
            why=why,
            model=slug(model),
        )


def _measured(model: str) -> float:
    return TABLE_2[model].communicate / ITERATIONS


def _compressed() -> list[Claim]:
    every = {model: steps(model) for model in MODELS}

    def mean(of: str, than: str) -> float:
        found = [percent_less(each[of].communicate, each[than].communicate) for each in every.values()]
        return sum(found) / len(found)

    speedups = [each["WA"].total / each["INC+C"].total for each in every.values()]
    why = f"mean of the four models; {_BASIS}, Table III's ratios at 2^-10, packets unchanged"
    return [
        PAPER.claim(
            "figure12.wa_c_communication",
            round(mean("WA+C", "WA"), 3),
            paper=WA_C,
            why=f"{why}; one leg of two can save at most 50 %. The paper says about",
        ),
        PAPER.claim(
            "figure12.inc_c_communication",
            round(mean("INC+C", "WA"), 3),
            paper=INC_C,
            why=f"{why}. The paper says about",
        ),
        PAPER.claim(
            "figure12.inc_c_over_inc_communication",
            round(mean("INC+C", "INC"), 3),
            paper=INC_C_OVER_INC,
            why=f"{why}; without a host only headers stay. The paper says about",
        ),
        PAPER.claim("figure12.least_speedup", round(min(speedups), 3), paper=SPEEDUPS[0], why=why),
        PAPER.claim("figure12.greatest_speedup", round(max(speedups), 3), paper=SPEEDUPS[1], why=why),
    ]


def _consistency() -> Iterator[Claim]:
    """What INC saves beside communication, by the two printed percentages, against all that it could save there."""
    for model in MODELS:
        column = TABLE_2[model]
        total = column.total * (1 - INC_TOTAL[model] / 100)
        communicate = column.communicate * (1 - INC_COMMUNICATION[model] / 100)
        saved = (column.total - column.communicate) - (total - communicate)
        could = column.gradient_sum * (1 - 1 / WORKERS)
        possible = "possible"
        yield PAPER.claim(
            "figure12.{model}_computation_saved",
            possible if saved <= could else f"{saved:.3g} s of {could:.3g} s",
            model=slug(model),
        )


def _fitted() -> Iterator[Claim]:
    """One constant, seconds of host a packet, fitted to AlexNet's INC; everything else follows."""
    nbytes = 2 * (WORKERS - 1) / WORKERS * size_bytes("AlexNet")
    target = (1 - INC_COMMUNICATION["AlexNet"] / 100) * _measured("AlexNet")
    host = (target - wire_seconds(nbytes)) / (nbytes / PAYLOAD)
    for model in MODELS:
        packets = 1.5 * size_bytes(model) / PAYLOAD
        plain = wire_seconds(1.5 * size_bytes(model)) + packets * host
        packed = wire_seconds(1.5 * size_bytes(model), ratio(model, 10)) + packets * host
        yield PAPER.claim(
            "figure12.{model}_inc_c_over_inc_fitted",
            round(percent_less(packed, plain), 3),
            paper=INC_C_OVER_INC,
            model=slug(model),
            host_us=1e6 * host,
        )
