"""SAX computes from a netlist alone what our own wavelength model says, at several wavelengths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lightloom.core.errors import UnsupportedError
from lightloom.photonics.averaging.mapped import MappedAverager, Part, map_averager
from lightloom.photonics.averaging.networks import FunctionArguments, LayeredNetwork
from lightloom.photonics.chip.netlist import Netlist, _NetlistBuilder, chip_netlist, models
from lightloom.photonics.chip.wavelengths import COLUMN_LENGTH, Dispersion, chip_matrix, part_matrix
from lightloom.photonics.meshes.mapping import MeshMapping, map_blocks, map_components, map_matrix

DISPERSION = Dispersion(mismatch=2e-8, coupler_slope=4e6, group_index=4.1)
WAVELENGTHS = np.array([1.545, 1.549, 1.55, 1.5512, 1.556])
Matrix = NDArray[np.complex128]


def part_netlist(part: Part, dispersion: Dispersion | None = None, seed: int = 0) -> Netlist:
    """The netlist of one mapped matrix with its amplifiers."""
    builder = _NetlistBuilder(dispersion or Dispersion(), COLUMN_LENGTH)
    lanes = part.shape[1]
    return builder.netlist(lanes, builder.part("part", part, {mode: f"in{mode}" for mode in range(lanes)}, seed))


def sax_matrices(content: Netlist, outputs: int, inputs: int) -> Matrix:
    """Return the matrices [wavelengths, outputs, inputs] that SAX finds."""
    sax = pytest.importorskip("sax")
    configuration = pytest.importorskip("jax").config
    configuration.update("jax_enable_x64", True)
    configuration.update("jax_disable_most_optimizations", True)  # compiling takes longer than computing
    circuit, _ = sax.circuit(netlist=content, models=models())
    light: dict[Any, Any] = sax.sdict(circuit(wl=WAVELENGTHS))
    found = np.zeros((WAVELENGTHS.size, outputs, inputs), np.complex128)
    for output in range(outputs):
        for entry in range(inputs):
            found[:, output, entry] = np.asarray(light.get((f"in{entry}", f"out{output}"), 0))
    return found


def our_matrices(matrix: Callable[[float], Matrix]) -> Matrix:
    return np.stack([matrix(float(wavelength) * 1e-6) for wavelength in WAVELENGTHS])


def random(rows: int, columns: int) -> Matrix:
    return np.asarray(np.random.default_rng(rows).normal(size=(rows, columns)) + 0j)


@pytest.mark.slow
@pytest.mark.parametrize(
    "mapped",
    [
        lambda: map_matrix(random(3, 2), "svd"),
        lambda: map_matrix(random(2, 5)),
        lambda: map_matrix(random(5, 5), kind="triangular"),
        lambda: map_matrix(random(3, 3), "sigma-u"),
        lambda: map_components(np.array([[1.0, 0, 0], [0.5, 0, 0], [0, 1, 2]])),
    ],
    ids=["svd", "wide", "triangular", "sigma-u", "components"],
)
def test_sax_agrees_on_a_matrix_at_five_wavelengths(mapped: Callable[[], Any]) -> None:
    part = mapped()
    found = sax_matrices(part_netlist(part, DISPERSION, seed=3), *part.shape)
    ours = our_matrices(lambda wavelength: part_matrix(part, wavelength, DISPERSION, seed=3))
    np.testing.assert_allclose(found, ours, atol=1e-9)
    np.testing.assert_allclose(ours[2], part.matrix(), atol=1e-12)
    assert np.abs(ours[0] - ours[2]).max() > 1e-2


@pytest.fixture
def small() -> MappedAverager:
    """Two lanes, two layers of two channels, gains above and below one: 16 interferometers."""
    weights = np.array([[1.0, 0.5], [0.0, 2.0]]), np.array([[0.5, -1.0], [0.25, 0.0]])
    network = LayeredNetwork(weights, (np.array([0.0, -0.5]), np.zeros(2)), "relu", (np.full(2, 3.0),) * 3)
    return map_averager(network, FunctionArguments(servers=2, bits=4), MeshMapping(form="compact", components=True))


@pytest.mark.long
def test_sax_agrees_on_a_whole_chip_at_five_wavelengths(small: MappedAverager) -> None:
    _assert_sax_agrees(small)


@pytest.mark.slow
def test_sax_agrees_on_a_whole_averager_at_five_wavelengths(averager: MappedAverager) -> None:
    _assert_sax_agrees(averager)


def _assert_sax_agrees(averager: MappedAverager) -> None:
    lanes = averager.preprocessing.shape[1]
    found = sax_matrices(chip_netlist(averager, DISPERSION, slope=0.7, seed=5), lanes, lanes)
    ours = our_matrices(lambda wavelength: chip_matrix(averager, wavelength, DISPERSION, slope=0.7, seed=5))
    np.testing.assert_allclose(found, ours, atol=1e-9)
    assert np.abs(ours).max() > 0.1 and np.abs(ours[0] - ours[2]).max() > 1e-2


def test_every_port_is_joined_once_and_every_device_is_there(averager: MappedAverager) -> None:
    content = chip_netlist(averager)
    joined = [*content["connections"], *content["connections"].values(), *content["ports"].values()]
    assert len(joined) == len(set(joined))
    kinds = [instance["component"] for instance in content["instances"].values()]
    assert kinds.count("mzi") == averager.mzis
    assert kinds.count("unit") == sum(matrix.shape[0] for matrix in averager.layers.matrices)
    lanes = averager.preprocessing.shape[1]
    assert sorted(content["ports"]) == sorted(f"{way}{lane}" for way in ("in", "out") for lane in range(lanes))
    gains = [i["settings"]["gain"] for i in content["instances"].values() if i["component"] == "amplifier"]
    assert max(gains) == pytest.approx(averager.gain)


def test_blocks_that_share_inputs_are_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"part: blocks share waveguides \(sigma-u\)"):
        part_netlist(map_blocks(np.ones((4, 2))))
