"""Whole averagers on meshes: the counted interferometers, exact matrices, crossings, and one definition of gain."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from lightloom.core.errors import ConfigError
from lightloom.photonics.averaging.construct import Construction, build
from lightloom.photonics.averaging.function import preprocessing_matrix
from lightloom.photonics.averaging.mapped import map_averager, part_crossings
from lightloom.photonics.averaging.networks import FunctionArguments, largest_gain_db
from lightloom.photonics.meshes.mapping import (
    Form,
    MeshMapping,
    crossings,
    decibels,
    map_components,
    map_matrix,
)


@cache
def sturdy() -> Construction:
    """The network that the documents describe."""
    return build(4, 8, noise=5e-3, nonlinearity="clipped")


ARGUMENTS = FunctionArguments(servers=4, bits=8)


@pytest.mark.long
@pytest.mark.parametrize(
    ("form", "components", "in_layers", "with_units"),
    [
        ("economy", False, 205, 333),
        ("svd", True, 186, 254),
        ("compact", True, 107, 139),
        ("economy", True, 120, 152),
    ],
)
def test_the_known_network_takes_the_counted_mzis(
    form: Form, components: bool, in_layers: int, with_units: int
) -> None:
    mapped = map_averager(sturdy().network, ARGUMENTS, MeshMapping(form=form, components=components))
    assert (mapped.layers.mzis, mapped.mzis) == (in_layers, with_units)
    for name, part in mapped.parts.items():
        scale = np.abs(mapped.targets[name]).max()
        np.testing.assert_allclose(part.matrix(), mapped.targets[name], atol=1e-13 * scale)
    assert mapped.depth == sum(part.depth for part in mapped.parts.values())
    assert (mapped.crossings > 0) == components


def test_commands_mean_the_same_by_gain() -> None:
    mapped = map_averager(sturdy().network, ARGUMENTS)
    assert decibels(mapped.gain) == pytest.approx(largest_gain_db(sturdy().network))
    # Splitting among 4 servers and averaging them need no amplifier.
    assert mapped.splitting.gain == pytest.approx(1.0)
    assert mapped.preprocessing.gain == pytest.approx(0.5)


def test_a_bias_before_the_gain_keeps_the_peak_low() -> None:
    mapped = map_averager(sturdy().network, ARGUMENTS)
    points = next(iter(sturdy().function.grid()))
    light = sturdy().function.light(points) / 3
    weights, gains = mapped.layers.target_matrices[0], mapped.layers.matrices[0].gains
    late = np.abs(weights @ light).max()
    early = np.abs((weights @ light) / gains[:, None]).max()
    assert late == pytest.approx(48.0)
    assert early <= 1.0


def test_crossings_sort_the_lanes_by_digit() -> None:
    """P brings digit j of 4 servers together: pairs of lanes of other servers and lower digits cross, 6 times 6."""
    averaging = map_components(preprocessing_matrix(4, 4, 4))
    assert part_crossings([averaging]) == 36
    assert part_crossings([map_matrix(preprocessing_matrix(4, 4, 4))]) == 0
    # Blocks of one waveguide: a permutation crosses as often as it exchanges neighbours, and units stand anywhere.
    order = np.eye(5)[[3, 1, 4, 0, 2]]
    permuting = map_components(order)
    assert part_crossings([permuting]) == 6 and crossings([3, 1, 4, 0, 2]).tolist() == [3, 2, 2, 3, 2]
    assert part_crossings([permuting, map_components(order.T)]) <= 12
    assert part_crossings([map_components(np.eye(5))] * 3) == 0


def test_a_network_for_a_cascade_has_no_t() -> None:
    first = build(2, 2, carries_decimals=True)
    with pytest.raises(ConfigError, match="carries decimals"):
        map_averager(first.network, FunctionArguments(servers=2, bits=2, carries_decimals=True))
