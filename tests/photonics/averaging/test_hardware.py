"""Depth, counts and budgets are those of the meshes that are really built; what is unknown is said."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.machines.reducers.built import Averaging
from lightloom.machines.reducers.hardware import (
    AveragerHardware,
    AveragerLevel,
    averager_for,
    columns,
    of_layers,
)
from lightloom.photonics.averaging.construct import build
from lightloom.photonics.averaging.mapped import map_network
from lightloom.photonics.averaging.networks import FunctionArguments, unit_matrices
from lightloom.photonics.devices import LIGHT
from lightloom.photonics.meshes.mapping import map_matrix

ALL = Averaging(
    unit_latency=1e-11,
    receiver_latency=1e-9,
    unit_energy=1e-14,
    receiver_sensitivity=1e-5,
    loss_db=0.1,
    laser_efficiency=0.1,
    modulator_energy=1e-12,
    receiver_energy=1e-12,
    amplifier_power=1e-2,
)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 12), st.integers(1, 12))
def test_columns_are_those_of_the_mapped_matrix(outputs: int, inputs: int) -> None:
    matrix = np.random.default_rng(0).normal(size=(outputs, inputs))
    assert columns(outputs, inputs) == map_matrix(matrix).depth


@pytest.mark.parametrize(("servers", "bits"), [(2, 4), (4, 8), (3, 6)])
def test_a_level_is_its_network_with_p_and_t(servers: int, bits: int) -> None:
    network = build(servers, bits).network
    [level] = of_layers(servers, bits, network.layers).levels
    mapped = [
        *map_network(network).matrices,
        *(map_matrix(m) for m in unit_matrices(FunctionArguments(servers=servers, bits=bits)).values()),
    ]
    assert level.columns == sum(each.depth for each in mapped)
    assert level.mzis == sum(each.mzis for each in mapped)
    hidden = map_network(network).matrices[:-1]
    assert level.units == sum(each.shape[0] for each in hidden)


def test_latency_is_the_way_of_the_light_and_what_stands_on_it() -> None:
    averager = averager_for(4, 8)
    depth, hidden = averager.levels[0].columns, len(averager.levels[0].layers) - 2
    flight = depth * 3e-4 * 4.2 / LIGHT
    known = averager.latency(Averaging())
    assert known.value == pytest.approx(flight)
    assert known.lacking == ("units", "receivers")
    whole = averager.latency(ALL)
    assert whole.complete and whole.value == pytest.approx(flight + hidden * 1e-11 + 1e-9)


def test_power_lacks_what_has_no_figure_and_grows_with_loss() -> None:
    averager = averager_for(4, 8)
    some = averager.power(Averaging())
    assert set(some.known) == {"heaters"} and len(some.lacking) == 5
    whole = averager.power(ALL)
    assert whole.complete and whole.value > some.value
    lossy = averager.power(Averaging(receiver_sensitivity=1e-5, loss_db=0.2, laser_efficiency=0.1)).known["lasers"]
    ratio = 10 ** (0.1 * averager.levels[0].columns / 10)
    assert lossy / whole.known["lasers"] == pytest.approx(ratio)


def test_every_output_of_a_layer_has_an_amplifier_in_every_averager() -> None:
    """Three averagers with outputs of 5 and 6, and one with outputs of 7 and 2: 42 amplifiers of 10 mW."""
    first = AveragerLevel(averagers=3, ports=2, bits=4, layers=(4, 5, 6))
    second = AveragerLevel(averagers=1, ports=3, bits=4, layers=(6, 7, 2))
    assert AveragerHardware(6, (first, second)).power(ALL).known["amplifiers"] == pytest.approx(0.42)


def test_two_levels_serve_up_to_the_square() -> None:
    assert [len(averager_for(ranks, 8, servers=4).levels) for ranks in (2, 4, 5, 16)] == [1, 1, 2, 2]
    first, second = averager_for(16, 8, servers=4).levels
    assert (first.averagers, first.ports, second.averagers, second.ports) == (4, 4, 1, 4)
    with pytest.raises(ConfigError, match="two levels of averagers for 4 servers each reach 16"):
        averager_for(17, 8, servers=4)
    with pytest.raises(UnsupportedError, match="limits any network of a cascade"):
        averager_for(16, 8, servers=4, noise=0.1)
    with pytest.raises(ValueError, match="mzi_length"):
        Averaging(mzi_length=0)
    with pytest.raises(ValueError, match="laser_efficiency"):
        Averaging(laser_efficiency=1.5)
