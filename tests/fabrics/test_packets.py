"""Packets: headers and time only ever cost, and a codec behind the port leaves their number alone."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.collectives.algorithm import Algorithm
from lightloom.collectives.collective import OF_SIZE, Collective
from lightloom.collectives.registry import admitted, evaluate, find
from lightloom.core.errors import ConfigError
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.load import fabric_from, load_fabric
from lightloom.machines.fabrics.switches import PacketSwitch
from lightloom.machines.transports.transport import load_transport
from tests.collectives.strategies import two_tiers

_packets = st.fixed_dictionaries(
    {
        "packet_payload": st.floats(64, 9000),
        "packet_header": st.floats(0, 200),
        "packet_time": st.sampled_from([0.0, 1e-7, 1e-5]),
    }
)


@given(_packets, st.floats(1, 1e9), st.floats(1, 50))
def test_a_codec_behind_the_port_leaves_the_number_of_packets_alone(
    packets: dict[str, float], nbytes: float, ratio: float
) -> None:
    fabric = PacketSwitch(ranks=4, bandwidth=1.25e9).model_copy(update=packets)
    smaller = fabric.with_smaller_packets(ratio)
    assert smaller.packets(nbytes / ratio) == pytest.approx(fabric.packets(nbytes))
    headers = fabric.wire_bytes(nbytes) - nbytes
    assert smaller.wire_bytes(nbytes / ratio) == pytest.approx(nbytes / ratio + headers)
    seconds = nbytes / ratio / smaller.data_rate(1.25e9)
    expected = smaller.wire_bytes(nbytes / ratio) / 1.25e9 + fabric.packets(nbytes) * fabric.packet_time
    assert seconds == pytest.approx(expected)
    # In software the packets become fewer as well, which is never worse.
    assert seconds >= nbytes / ratio / fabric.data_rate(1.25e9) * (1 - 1e-9)


@given(_packets, st.sampled_from(["switch", "torus", "full-mesh"]), st.integers(1, 4), st.booleans())
def test_ports_of_a_rank_take_the_time_of_packets_side_by_side(
    packets: dict[str, float], shape: str, ports: int, outer: bool
) -> None:
    def rate(count: int) -> Any:
        tiers = [{"shape": "switch", "size": 2, "bandwidth": "50GB/s"}] if outer else []
        child = 2 if outer else 1
        tiers.append({"shape": shape, "size": 4, "bandwidth": "10GB/s", "ports": count * child})
        fabric = fabric_from({"kind": "tiers", "tiers": tiers, **packets}, 4 * child, where="here")
        return fabric.link_bandwidth()[-1]

    assert rate(ports) == pytest.approx(ports * rate(1))


_FABRICS: dict[str, dict[str, Any]] = {
    "switch": {},
    "tiers": {"tiers": two_tiers(8, domain_size=2, taper=2.0).tiers},
}


def _fabric(kind: str, **packets: float) -> Fabric:
    return fabric_from({"kind": kind, **_FABRICS[kind], **packets}, 8, where="here")


def _seconds(fabric: Fabric, algorithm: Algorithm, kind: str) -> float:
    return evaluate(algorithm, Collective(kind, 8, 1e6), fabric).cost.time  # type: ignore[arg-type]


@cache
def _free(fabric: str, algorithm: str, kind: str) -> float:
    """Seconds on a fabric without packets."""
    return _seconds(_fabric(fabric), find(algorithm), kind)


@pytest.mark.long
@given(_packets)
@settings(max_examples=10)
def test_packets_only_ever_cost_and_costs_stay_above_their_bounds(packets: dict[str, float]) -> None:
    for name in _FABRICS:
        fabric = _fabric(name, **packets)
        assert (fabric.link_bandwidth() <= _fabric(name).link_bandwidth() * (1 + 1e-12)).all()
        for kind in OF_SIZE:
            for algorithm in admitted(kind, fabric):
                # Raises BoundError below the bound; packets that cost nothing round differently.
                assert _seconds(fabric, algorithm, kind) >= _free(name, algorithm.name, kind) * (1 - 1e-12)


def test_without_packets_nothing_changes() -> None:
    fabric = PacketSwitch(ranks=4)
    assert fabric.data_rate(50e9) == 50e9 and fabric.wire_bytes(7) == 7 and fabric.packets(7) == 0
    assert fabric.with_smaller_packets(8) is fabric
    ring = load_fabric("ring", 4)
    assert ring.with_smaller_packets(8) is ring and ring.wire_bytes(7) == 7


def test_a_full_ethernet_frame_of_tcp_carries_1460_of_1538_bytes() -> None:
    fabric = load_fabric("ethernet-10g", 4)
    assert fabric.link_bandwidth()[0] == pytest.approx(1.25e9 * 1460 / 1538)


@pytest.mark.parametrize("field", ["packet_header", "packet_time"])
def test_costs_of_packets_need_packets(field: str) -> None:
    with pytest.raises(ConfigError, match="need packet_payload"):
        fabric_from({"kind": "switch", field: 1}, 4, where="here")


def test_software_is_named_by_what_carries_collectives() -> None:
    """A transport, or why there is none: packets instead, links of another shape, or nothing that names one."""
    plain = PacketSwitch(ranks=4)
    packets = PacketSwitch(ranks=4, packet_payload=1000)
    stated, ideal = (plain.model_copy(update={"transport": load_transport(name)}) for name in ("nccl-hopper", "ideal"))
    assert plain.software == "ideal software, as nothing names a transport"
    assert packets.software == "ideal software, as packets are counted instead"
    assert load_fabric("mesh", 4).software == "ideal software, as no closed form of a library serves such links"
    assert stated.software == stated.transport.name == "nccl-hopper"  # type: ignore[union-attr]
    assert ideal.software == "ideal software, as stated"
    assert [each.library is None for each in (plain, packets, stated, ideal)] == [True, True, False, True]
    assert plain.arithmetic_share == 0 and stated.arithmetic_share == stated.transport.arithmetic_share  # type: ignore[union-attr]


def test_a_default_transport_serves_switches_that_state_none_and_no_packets() -> None:
    transport = load_transport("nccl-hopper")
    plain = PacketSwitch(ranks=4, sources={"bandwidth": "a file"})
    given = plain.with_default_transport(transport, "the accelerator's")
    assert given.transport == transport
    assert given.sources == {"bandwidth": "a file", "transport": "the accelerator's"}
    packets, mesh = PacketSwitch(ranks=4, packet_payload=1000), load_fabric("mesh", 4)
    for fabric in (given, packets, mesh):
        assert fabric.with_default_transport(transport, "again") is fabric
    carried = given.as_carried()
    assert carried.transport is None and carried.bandwidth == transport.scales.network_bandwidth * plain.bandwidth
    assert plain.as_carried() is plain


def test_time_of_packets_is_shared_by_the_ports_that_a_link_serves() -> None:
    fabric = PacketSwitch(ranks=4, packet_payload=900, packet_header=100, packet_time=1e-6)
    assert fabric.data_rate(1e9) == pytest.approx(900 / (1e-6 + 1e-6))
    assert fabric.data_rate(1e9, 4) == pytest.approx(900 / (1e-6 + 0.25e-6))
    assert fabric.packets(450) == 0.5 and fabric.wire_bytes(450) == 500
