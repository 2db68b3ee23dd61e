"""The averager's levels, latency and energy come from its networks and meshes, unless they are given."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.core.errors import ConfigError
from lightloom.machines.clusters.load import load_cluster
from lightloom.machines.fabrics.load import changed, load_fabric
from lightloom.machines.fabrics.optical_averager import OpticalAverager
from lightloom.machines.reducers.built import Averaging
from lightloom.machines.reducers.capacity import capacity
from lightloom.machines.reducers.compare import RIVALS
from lightloom.machines.reducers.constants import constants, nominal
from lightloom.machines.reducers.hardware import averager_for
from lightloom.machines.reducers.rivals import Setting

PARTS = {
    "unit_latency": "10 ps",
    "receiver_latency": "1 ns",
    "unit_energy": 1e-14,
    "receiver_sensitivity": 1e-5,
    "loss_db": 0.1,
    "laser_efficiency": 0.1,
    "modulator_energy": "1 pJ/bit",
    "receiver_energy": "1 pJ/bit",
    "amplifier_power": 0.01,
}


def fabric(cluster: str, **settings: Any) -> OpticalAverager:
    found = load_cluster(cluster, set={f"fabric.{name}": value for name, value in settings.items()}).fabric
    assert isinstance(found, OpticalAverager)
    return found


DEVICES = {"averaging.reducer": None}
"""Settings with which the averager is a constructed network of given devices."""


@pytest.mark.parametrize(("cluster", "ranks", "levels"), [("optinc-4", 4, 1), ("optinc-16", 16, 2)])
def test_devices_derive_levels_latency_and_instances(cluster: str, ranks: int, levels: int) -> None:
    found, made = fabric(cluster, **DEVICES), averager_for(ranks, 8, servers=4)
    assert found.levels == levels
    assert found.levels * found.averaging_latency == pytest.approx(made.latency(Averaging()).value)
    assert found.diameter_latency() == pytest.approx(2 * found.hop_latency + made.latency(Averaging()).value)
    assert found.sources["averaging_latency"].startswith("derived")
    assert "lower bound without units, receivers" in found.sources["averaging_latency"]
    assert found.energy_per_bit is None and found.power_per_rank is None
    assert found.built is not None and found.built.instances == 16 and found.built.lanes == 64
    assert found.built.watts["heaters"] == pytest.approx(16 * made.power(Averaging()).known["heaters"])
    assert "not known: units" in found.built_of


@pytest.mark.parametrize(("cluster", "ranks", "levels"), [("optinc-4", 4, 1), ("optinc-16", 16, 2)])
def test_the_catalog_has_the_sturdy_network(cluster: str, ranks: int, levels: int) -> None:
    found = fabric(cluster)
    made = capacity(Averaging(reducer="row-gain-network", servers=4), ranks, found.bandwidth)
    assert (found.levels, made.levels, made.instances) == (levels, levels, 16)
    assert found.levels * found.averaging_latency == pytest.approx(made.latency)
    assert found.power_per_rank == pytest.approx(made.total / ranks) and found.energy_per_bit == 0
    assert found.built is not None and found.built.watts == dict(made.watts)
    assert (
        found.sources["power_per_rank"].startswith("assumption") and "90 % of draws" in found.sources["power_per_rank"]
    )
    scaled = "light of two levels is one level's, scaled" in found.sources["power_per_rank"]
    assert scaled == (levels > 1)
    assert "16 instances of 400 Gb/s a rank" in found.built_of and "needs lasers of all servers" in found.built_of


@pytest.mark.parametrize("reducer", ["digit-sum", "digit-sum-nrz", "homodyne-sum", "reducer-asic", "packet-switch"])
def test_any_reducer_makes_an_averager(reducer: str) -> None:
    found = fabric("optinc-4", **{"averaging.reducer": reducer})
    setting, values = Setting(servers=4), nominal(constants())
    rival = RIVALS[reducer](setting, values)
    assert found.power_per_rank == pytest.approx(rival.energy_per_bit * 8 * found.bandwidth)
    assert found.averaging_latency == pytest.approx(rival.total_latency) and found.levels == 1
    assert fabric("optinc-4", **{"averaging.reducer": reducer, "bandwidth": "6401Gbps"}).built.instances == 17  # type: ignore[union-attr]


def test_constants_and_wavelengths_of_a_reducer_are_settings() -> None:
    plain = fabric("optinc-4")
    shared = fabric("optinc-4", **{"averaging.wavelengths": 4})
    assert plain.built is not None and shared.built is not None
    assert (plain.built.meshes, shared.built.meshes) == (16, 4)
    assert shared.built.watts["heaters"] == pytest.approx(plain.built.watts["heaters"] / 4)
    assert shared.built.watts["units"] == plain.built.watts["units"]
    dim = fabric("optinc-4", **{"averaging.constants": {"laser": 0.5}})
    assert plain.power_per_rank is not None and dim.power_per_rank is not None
    assert dim.power_per_rank < plain.power_per_rank


def test_what_is_given_is_kept() -> None:
    found = fabric("optinc-16", averaging_latency="1us", levels=3)
    assert (found.averaging_latency, found.levels) == (1e-6, 3)
    assert not found.sources["averaging_latency"].startswith("derived")
    assert OpticalAverager(ranks=8).averaging_latency == 0
    again = OpticalAverager.model_validate(fabric("optinc-16").model_dump(mode="json"))
    assert again == fabric("optinc-16")


def test_energy_follows_once_every_part_has_a_figure() -> None:
    devices = {f"averaging.{name}": value for name, value in PARTS.items()}
    found = fabric("optinc-16", **DEVICES, **devices)
    numbers = {name: getattr(found.averaging, name) for name in PARTS}
    made = averager_for(16, 8, servers=4).power(Averaging(**numbers))
    assert made.complete and found.power_per_rank == pytest.approx(16 * made.value / 16)
    assert found.energy_per_bit == 0
    assert "lower bound" not in found.sources["averaging_latency"]
    assert found.sources["power_per_rank"] == f"derived: {', '.join(made.known)}; 16 instances"
    del devices["averaging.amplifier_power"]
    assert fabric("optinc-16", **DEVICES, **devices).power_per_rank is None


def test_one_averager_for_all_ranks_unless_ports_are_said() -> None:
    single, double = load_fabric("optical-averager", 16), fabric("optinc-16", **DEVICES)
    assert isinstance(single, OpticalAverager) and single.levels == 1
    assert single.averaging_latency < double.levels * double.averaging_latency


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"averaging.bits": 99}, "'fabric.averaging.bits': 99"),
        ({"averaging.servers": 0}, "'fabric.averaging.servers': 0"),
        ({"averaging.reducer": None, "averaging.servers": 2}, "two levels of averagers for 2 servers each reach 4"),
        ({"averaging.colour": 2}, "unknown field 'fabric.averaging.colour'"),
        ({"averaging.reducer": None, "averaging.unit_latency": "1 parsec"}, "unknown time unit 'parsec'"),
        ({"averaging": 3}, "'fabric.averaging': 3"),
        ({"averaging.reducer": None, "averaging.noise": 0.5}, "limits any network of a cascade"),
        ({"averaging.reducer": "abacus"}, "unknown reducer 'abacus'"),
        ({"averaging.reducer": "digit-sum"}, "digit-sum for 16 servers: no light suffices"),
        ({"averaging.noise": 0.5}, "noise is a figure of devices"),
        ({"averaging.reducer": None, "averaging.constants": {"laser": 1}}, "constants belong to a reducer"),
        ({"averaging.constants": {"lazer": 1}}, "unknown constant 'lazer'.*did you mean 'laser'"),
        ({"averaging.wavelengths": 3}, "wavelengths = 3: expected at most 1, 100 GHz apart"),
        ({"averaging.reducer": None, "averaging.wavelengths": 2}, "wavelengths share the meshes of a reducer"),
        ({"averaging.reducer": "reducer-asic", "averaging.wavelengths": 2}, "reducer-asic has no mesh"),
    ],
)
def test_bad_averagers_are_refused(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        fabric("optinc-16", **settings)


@pytest.mark.parametrize("ranks", [-1, 0])
@pytest.mark.parametrize("averaging", [{}, {"noise": 0.5}, {"servers": 4}])
def test_too_few_ranks_are_named_before_an_averager_is_looked_for(ranks: int, averaging: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"'ranks': {ranks}"):
        load_fabric("optical-averager", ranks, set={"averaging": averaging})


@pytest.mark.parametrize("averaging", [{}, {"reducer": "digit-sum"}, {"servers": 4}])
def test_a_single_rank_has_nothing_to_average(averaging: dict[str, Any]) -> None:
    found = load_fabric("optical-averager", 1, set={"averaging": averaging})
    assert isinstance(found, OpticalAverager) and found.built is None and found.averaging_latency == 0


LOSSY = DEVICES | {f"averaging.{name}": value for name, value in PARTS.items()} | {"averaging.loss_db": 0.99}


def test_an_absurd_launch_power_is_a_warning_with_its_cause() -> None:
    found = fabric("optinc-4", **LOSSY)
    assert found.power_per_rank is not None and found.power_per_rank > 1e6
    (warning,) = found.warnings
    assert "of light a lane at the servers' modulators, which bear 50 mW (assumption)" in warning
    assert "columns of interferometers of 0.99 dB lose" in warning
    assert fabric("optinc-4", **LOSSY | {"averaging.loss_db": 0.05}).warnings == ()


@given(
    loss=st.floats(0, 40, allow_subnormal=False),
    sensitivity=st.floats(1e-7, 1e-3),
    servers=st.sampled_from([2, 4, 8]),
)
def test_lasers_supply_what_all_lanes_send(loss: float, sensitivity: float, servers: int) -> None:
    made = averager_for(servers, 8)
    parts = Averaging(loss_db=loss / made.depth, receiver_sensitivity=sensitivity, laser_efficiency=0.1)
    launched, lasers = made.launched(parts), made.power(parts).known["lasers"]
    assert launched is not None and lasers * 0.1 == pytest.approx(launched * servers * made.levels[0].signals)
    assert launched == pytest.approx(sensitivity * 10 ** (loss / 10))


def test_a_dot_reaches_into_a_part_of_a_fabric() -> None:
    found = load_fabric("optical-averager", 4, set={"averaging.loss_db": 0.1, "averaging.bits": 4})
    assert isinstance(found, OpticalAverager) and found.averaging is not None
    assert (found.averaging.loss_db, found.averaging.bits) == (0.1, 4)
    again = changed(found, {"averaging.bits": 8, "ranks": 16})
    assert again == load_fabric("optical-averager", 16, set={"averaging.loss_db": 0.1})
    with pytest.raises(ConfigError, match=r"optical-averager: unknown field 'averaging.colour'"):
        load_fabric("optical-averager", 4, set={"averaging.colour": 1})
    with pytest.raises(ConfigError, match=r"cannot set field 'bandwidth.x': 'bandwidth' is '6400Gbps', which has no"):
        load_fabric("optical-averager", 4, set={"bandwidth.x": 1})
