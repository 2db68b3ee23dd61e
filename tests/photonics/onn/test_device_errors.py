"""Training through the meshes: what devices do to the weights, and which gradient reaches the design."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch")

from lightloom.core.errors import ConfigError  # noqa: E402
from lightloom.photonics.averaging.mapped import fabricated, map_network  # noqa: E402
from lightloom.photonics.averaging.networks import LayeredNetwork  # noqa: E402
from lightloom.photonics.devices import NonIdealities  # noqa: E402
from lightloom.photonics.meshes.mapping import map_matrix  # noqa: E402
from lightloom.photonics.onn.model import (  # noqa: E402
    Chip,
    DrawnDevices,
    row_gains,
    strongest_directions,
)
from lightloom.photonics.onn.recipe import TrainingRecipe  # noqa: E402
from lightloom.photonics.onn.training import train  # noqa: E402

SHAPES = ((6, 3), (5, 6), (2, 5))


def matrices(seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape) for shape in SHAPES]


def recipe(**options: object) -> TrainingRecipe:
    """Two servers of 2 bits: 7 points."""
    defaults = {"layers": (1, 8, 8, 1), "epochs": 6, "batch": 16, "devices": NonIdealities(phase_error=0.01)}
    return TrainingRecipe(servers=2, bits=2, **(defaults | options))  # type: ignore[arg-type]


def test_gains_are_those_of_the_mapping() -> None:
    for matrix in matrices():
        weights = torch.from_numpy(matrix).requires_grad_()
        gains = row_gains(weights, *strongest_directions(weights.detach()))
        np.testing.assert_allclose(gains.detach().numpy(), map_matrix(matrix).gains, rtol=1e-12)
        (gradient,) = torch.autograd.grad(gains[0], weights)
        step = 1e-6 * np.random.default_rng(1).normal(size=matrix.shape)
        change = map_matrix(matrix + step).gains[0] - map_matrix(matrix - step).gains[0]
        assert change == pytest.approx(2 * (gradient.numpy() * step).sum(), rel=1e-5)


@pytest.mark.parametrize("form", ["economy", "svd"])
def test_a_chip_without_errors_is_its_design(form: str) -> None:
    designed = matrices()
    chip = Chip([map_matrix(matrix, form) for matrix in designed], designed)  # type: ignore[arg-type]
    for made, wanted in zip(chip.fabricate(NonIdealities(), np.random.default_rng(0)), designed, strict=True):
        np.testing.assert_allclose(made, wanted, atol=1e-13)


@pytest.mark.parametrize(
    ("devices", "draws"),
    [
        (NonIdealities(loss_db=0.2), 1),
        (NonIdealities(thermal_crosstalk=0.01), 1),
        (NonIdealities(dac_bits=6), 1),
        (NonIdealities(phase_error=0.02), 80),
        (NonIdealities(coupler_error=0.02), 80),
    ],
    ids=["loss", "crosstalk", "quantisation", "phases", "couplers"],
)
def test_a_chip_errs_as_disturbed_meshes_do(devices: NonIdealities, draws: int) -> None:
    """What is not drawn at random is equal; of what is, the median square error of each matrix agrees."""
    designed = matrices()
    mapped = map_network(LayeredNetwork.of(designed))
    chip = Chip([map_matrix(matrix) for matrix in designed], designed)
    errors = np.empty((2, draws, len(SHAPES)))
    for draw in range(draws):
        ours = chip.fabricate(devices, np.random.default_rng((0, draw)))
        theirs = fabricated(mapped, devices, np.random.default_rng((1, draw))).weights
        for side, made in enumerate((ours, theirs)):
            errors[side, draw] = [np.sum((a - b) ** 2) for a, b in zip(made, designed, strict=True)]
    medians = np.median(errors, axis=1)
    np.testing.assert_allclose(medians[0], medians[1], rtol=0.4 if draws > 1 else 1e-9)


def test_errors_scale_with_the_gain_and_gradients_say_so() -> None:
    """W' = W + g(W) e: the derivative along W itself is W', since gains are homogeneous of degree one."""
    drawn = DrawnDevices(recipe())
    weights = [torch.from_numpy(matrix).requires_grad_() for matrix in matrices()]
    made = drawn(weights, 0)
    rng = torch.Generator().manual_seed(0)
    for weight, disturbed in zip(weights, made, strict=True):
        assert not torch.equal(weight, disturbed)
        direction = torch.randn(disturbed.shape, generator=rng, dtype=torch.float64)
        (gradient,) = torch.autograd.grad((disturbed * direction).sum(), weight, retain_graph=True)
        assert (gradient * weight).sum().item() == pytest.approx((disturbed * direction).sum().item(), rel=1e-9)


def test_aware_training_repeats_and_differs_from_unaware_only_from_where_devices_err() -> None:
    first, again = train(recipe()), train(recipe())
    assert all(map(np.array_equal, first.network.weights, again.network.weights))
    late = train(recipe(aware_from=0.999))
    plain = train(recipe(devices=None))
    assert all(map(np.array_equal, late.network.weights, plain.network.weights))
    assert not np.array_equal(first.network.weights[0], plain.network.weights[0])


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"aware_from": 1.0}, "aware_from = 1.0"),
        ({"aware_from": float("nan")}, "aware_from = nan"),
        ({"mesh_form": "qr"}, "mesh_form = 'qr'"),
        ({"devices": NonIdealities(detector_noise=0.1)}, "detector_noise = 0.1"),
    ],
)
def test_recipes_out_of_range_are_refused(options: dict[str, object], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        recipe(**options)


def test_a_recipe_without_erring_devices_is_known_as_before() -> None:
    assert "devices" not in recipe(devices=None).to_json()
    assert recipe().to_json()["devices"]["phase_error"] == 0.01
