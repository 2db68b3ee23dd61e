"""Fabrics that cannot be are refused in one line that says what was expected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lightloom.core.errors import InputError
from lightloom.machines.fabrics.fabric import Fabric, GroupFabric
from lightloom.machines.fabrics.failures import Failure, damaged
from lightloom.machines.fabrics.grids import Mesh, Torus
from lightloom.machines.fabrics.load import fabric_from
from lightloom.machines.fabrics.optical_averager import OpticalAverager
from lightloom.machines.fabrics.switches import CircuitSwitch, PartFabric
from lightloom.machines.fabrics.wdm_ring import WdmRing
from tests.collectives.strategies import two_tiers

SWITCH = {"shape": "switch", "bandwidth": 1e9}
PACKETS = {"packet_payload": 1000, "packet_header": 100}
RING = {"kind": "damaged-wdm-ring", "wavelengths": 4}


def of(**fields: Any) -> Callable[[], Fabric]:
    return lambda: fabric_from(fields, 16, where="mine.yaml")


def without(fabric: Fabric, failure: str) -> Callable[[], Fabric]:
    return lambda: damaged(fabric, [Failure.parse(failure)])


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (of(rows=4), "mine.yaml: field 'kind' is missing: expected one of circuit-switch, "),
        (of(kind="moebius"), "moebius"),
        (of(kind=["mesh"]), "mesh"),
        (of(kind="mesh", rows=4, dims="4x4"), "rows and dims contradict each other"),
        (of(kind="mesh", rows=3), "rows=3 does not divide ranks=16"),
        (of(kind="torus", dims="4x5"), "dims 4x5 hold 20 ranks, not ranks=16"),
        (of(kind="tiers", transport="nccl-hopper", tiers=[{**SWITCH, "shape": "torus"}]), "needs tiers of switches"),
        (of(kind="tiers", transport="nccl-hopper", tiers=[SWITCH], **PACKETS), "counts what packets take already"),
        (of(kind="tiers", tiers=[SWITCH], packet_time=1e-6), "need packet_payload"),
        (of(**RING, failures=["link:0:1"]), "link:0:1: expected a failure of a ring of wavelengths"),
        (of(**RING, failures=["plane:1"]), "plane:1: expected a failure of a ring of wavelengths"),
        (of(**RING, failures=["wavelength:-1"]), "wavelength:-1: expected one of 4 wavelengths"),
        (of(**RING, failures=["cable:-1"]), "cable:-1: expected one of 16 nodes"),
        (of(**RING, failures=["transceiver:3:-1"]), "transceiver:3:-1: expected one of 4 channels"),
        (without(Torus(ranks=16), "node:-1"), "node:-1: expected one of 16 nodes"),
        (without(CircuitSwitch(ranks=8, degree=2), "plane:-1"), "plane:-1: expected one of 2 planes"),
        (without(OpticalAverager(ranks=8), "node:1"), "failures of a optical-averager are not modelled"),
        (lambda: GroupFabric.of(Mesh(ranks=12), 5, 1), "groups of 5 ranks at stride 1 do not tile 12 ranks"),
        (lambda: GroupFabric.of(Mesh(ranks=12), 3, 3), "groups of 3 ranks at stride 3 do not tile 12 ranks"),
        (lambda: GroupFabric.of(WdmRing(ranks=8), 4, 1), "a wdm-ring carries no packets"),
        (lambda: GroupFabric.of(OpticalAverager(ranks=8), 4, 1), "a optical-averager carries no packets"),
        (lambda: PartFabric.on(CircuitSwitch(ranks=8), [0, 1]), "a circuit-switch carries no packets"),
        (lambda: PartFabric.on(OpticalAverager(ranks=8), [0, 1]), "a optical-averager carries no packets"),
        *(
            (lambda members=members: PartFabric.on(Mesh(ranks=8), members), "members of a part of 2 ranks")
            for members in ([3, 3], [7, 8], [-1, 0])
        ),
    ],
)
def test_fabrics_that_cannot_be_are_refused(make: Callable[[], Fabric], complaint: str) -> None:
    with pytest.raises((InputError, ValueError), match=complaint):
        make()


def test_those_at_the_limit_are_not() -> None:
    """The last wavelength, node, channel, plane and rank count from 0."""
    for failure in ("wavelength:3", "cable:15", "transceiver:15:3", "node:15"):
        assert of(**RING, failures=[failure])().failures_text == failure
    assert without(CircuitSwitch(ranks=8, degree=2), "plane:1")().channels == 1
    assert without(Torus(ranks=16), "node:15")().ranks == PartFabric.on(Mesh(ranks=16), range(1, 16)).ranks == 15
    assert two_tiers(16, domain_size=32).ranks == 16
