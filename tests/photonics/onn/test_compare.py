"""What is committed in ``trained/`` is what the committed weights do."""

import json
from functools import cache
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch")

from lightloom.photonics.averaging.networks import LayeredNetwork, load_network
from lightloom.photonics.averaging.proof import TARGET, noisy_accuracy, verify
from lightloom.photonics.meshes.mapping import approximate, network_count
from lightloom.photonics.onn.compare import (
    CONSTRUCTED,
    KEPT,
    TRAINED,
    contenders,
    verdict,
)

COMMITTED: dict[str, Any] = json.loads((TRAINED / "noise.json").read_text())
ROWS = {row["name"]: row for row in COMMITTED["networks"]}
EVALUATIONS = 30_000
FUNCTION = KEPT["exact"].function


CONSTRUCTED_FIRST, *SLOW = CONSTRUCTED
"""Networks that take seconds to construct; one is constructed in any case."""
NAMES = [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in ROWS]


@cache
def contender_of(name: str) -> tuple[LayeredNetwork, int]:
    """A network that is compared, and its number of MZIs; those before it are built too."""
    return next((network, mzi_count) for own, _, network, mzi_count in contenders() if own == name)


def test_all_networks_were_compared() -> None:
    trained = [name for name in KEPT if (TRAINED / f"{name}.npz").exists()]
    assert [*trained, *CONSTRUCTED] == list(ROWS)
    assert {path.stem for path in TRAINED.glob("*.npz")} <= set(KEPT)


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_weights_give_the_committed_accuracy(name: str) -> None:
    (network, mzi_count), row = contender_of(name), ROWS[name]
    found = verify(network, FUNCTION)
    assert found.exhaustive
    assert (found.wrong_outputs, found.checked_inputs) == (row["wrong_outputs"], row["checked_inputs"])
    assert mzi_count == row["mzi_count"]
    assert network.nonlinearity == row["nonlinearity"]


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in ("exact", CONSTRUCTED_FIRST) else pytest.mark.slow) for name in ROWS],
)
def test_weights_bear_the_committed_noise(name: str) -> None:
    """Other draws than the committed ones, at the limit and where the curve is steep: within 5 standard errors."""
    row, (network, _) = ROWS[name], contender_of(name)
    rates = np.array(row["error_rates"])
    steep = int(np.argmax(rates > 0.01))
    for sigma, rate in ((row["noise_limit"], 1 - TARGET), (COMMITTED["sigmas"][steep], rates[steep])):
        errors = 1 - noisy_accuracy(network, FUNCTION, sigma, EVALUATIONS, seed=7)
        # Bisection ends within 3 % of the limit, and errors grow steeply there.
        slack = 1e-4 if sigma == row["noise_limit"] else 0.0
        assert abs(errors - rate) <= 5 * (rate / EVALUATIONS) ** 0.5 + slack


@pytest.mark.parametrize("name", KEPT)
def test_kept_networks_are_of_their_recipe(name: str) -> None:
    path = TRAINED / f"{name}.npz"
    if not path.exists():
        pytest.skip(f"{name} is not kept")
    network, arguments = load_network(path)
    recipe = KEPT[name]
    assert arguments.function() == recipe.function
    assert network.layers == recipe.layers
    assert path.stat().st_size < 2e6
    for layer in recipe.approximated:
        weights = network.weights[layer - 1].astype(np.float64)
        assert np.abs(approximate(weights) - weights).max() <= 1e-6
    log = json.loads(path.with_suffix(".json").read_text())
    assert log["recipe"] == recipe.to_json()
    assert log["mzi_count"] == network_count(recipe.layers, recipe.approximated)


def test_the_exact_network_is_exact_with_every_matrix_approximated() -> None:
    assert KEPT["exact"].approximated == (1, 2, 3, 4, 5, 6)
    assert ROWS["exact"]["wrong_outputs"] == 0


def test_the_verdict_is_that_of_the_rows() -> None:
    assert verdict(COMMITTED["networks"]) == COMMITTED["verdict"]
    for found in COMMITTED["verdict"]:
        ours, theirs = ROWS[found["constructed"]], ROWS[found["trained"]]
        assert found["tolerance_ratio"] == pytest.approx(ours["noise_limit"] / theirs["noise_limit"])
        others = [r for r in ROWS.values() if r["kind"] == "trained" and found["units"] in ("any", r["nonlinearity"])]
        assert theirs["noise_limit"] == max(r["noise_limit"] for r in others)
        assert found["met"] == (
            ours["noise_limit"] >= 2 * theirs["noise_limit"] and ours["mzi_count"] < 0.02 * theirs["mzi_count"]
        )


def test_no_network_passes_the_bound_of_the_inputs() -> None:
    assert all(row["noise_limit"] <= COMMITTED["bound"] for row in ROWS.values())
