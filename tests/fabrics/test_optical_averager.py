"""The averager's levels, latency and energy come from its networks and meshes, unless they are given."""

from __future__ import annotations

from typing import Any

import pytest

from lightloom.clusters.load import load_cluster
from lightloom.core.errors import ConfigError
from lightloom.fabrics.load import load_fabric
from lightloom.fabrics.optical_averager import OpticalAverager
from lightloom.photonics.averaging.hardware import Parts, averager_for

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
    found = load_cluster(cluster, {f"fabric.{name}": value for name, value in settings.items()}).fabric
    assert isinstance(found, OpticalAverager)
    return found


@pytest.mark.parametrize(("cluster", "ranks", "levels"), [("optinc-4", 4, 1), ("optinc-16", 16, 2)])
def test_the_catalog_derives_levels_and_latency(cluster: str, ranks: int, levels: int) -> None:
    found, made = fabric(cluster), averager_for(ranks, 8, servers=4)
    assert found.levels == levels
    assert found.levels * found.averaging_latency == pytest.approx(made.latency(Parts()).value)
    assert found.diameter_latency() == pytest.approx(2 * found.hop_latency + made.latency(Parts()).value)
    assert found.sources["averaging_latency"].startswith("derived")
    assert "lower bound without units, receivers" in found.sources["averaging_latency"]
    assert found.energy_per_bit is None


def test_what_is_given_is_kept() -> None:
    found = fabric("optinc-16", averaging_latency="1us", levels=3)
    assert (found.averaging_latency, found.levels) == (1e-6, 3)
    assert not found.sources["averaging_latency"].startswith("derived")
    assert OpticalAverager(ranks=8).averaging_latency == 0
    again = OpticalAverager.model_validate(fabric("optinc-16").model_dump(mode="json"))
    assert again == fabric("optinc-16")


def test_energy_follows_once_every_part_has_a_figure() -> None:
    devices = {f"averaging.{name}": value for name, value in PARTS.items()}
    found = fabric("optinc-16", **devices)
    numbers = {name: getattr(found.averaging, name) for name in PARTS}
    made = averager_for(16, 8, servers=4).energy_per_bit(Parts(**numbers))
    assert made.complete and found.energy_per_bit == pytest.approx(made.value / 2)
    assert "lower bound" not in found.sources["averaging_latency"]
    assert found.sources["energy_per_bit"] == "derived: " + ", ".join(made.known)
    del devices["averaging.amplifier_power"]
    assert fabric("optinc-16", **devices).energy_per_bit is None


def test_one_averager_for_all_ranks_unless_ports_are_said() -> None:
    single, double = load_fabric("optical-averager", 16), fabric("optinc-16")
    assert isinstance(single, OpticalAverager) and single.levels == 1
    assert single.averaging_latency < double.levels * double.averaging_latency


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"averaging.bits": 99}, "'fabric.averaging.bits': 99"),
        ({"averaging.servers": 0}, "'fabric.averaging.servers': 0"),
        ({"averaging.servers": 2}, "two levels of averagers for 2 servers each reach 4"),
        ({"averaging.colour": 2}, "unknown field 'fabric.averaging.colour'"),
        ({"averaging.unit_latency": "1 parsec"}, "unknown time unit 'parsec'"),
        ({"averaging": 3}, "'fabric.averaging': 3"),
        ({"averaging.noise": 0.5}, "limits any network of a cascade"),
    ],
)
def test_bad_averagers_are_refused(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        fabric("optinc-16", **settings)


@pytest.mark.parametrize("ranks", [-1, 0, 1])
@pytest.mark.parametrize("averaging", [{}, {"noise": 0.5}, {"servers": 4}])
def test_too_few_ranks_are_named_before_an_averager_is_looked_for(ranks: int, averaging: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"'ranks': {ranks}"):
        load_fabric("optical-averager", ranks, {"averaging": averaging})
