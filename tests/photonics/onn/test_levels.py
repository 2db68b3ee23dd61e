"""Trained cascades: both levels learn their own functions, decimals count, and files hold what was trained."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch")

from lightloom.core.errors import ConfigError  # noqa: E402
from lightloom.photonics.averaging.cascade import load_cascade, save_cascade  # noqa: E402
from lightloom.photonics.onn import training  # noqa: E402
from lightloom.photonics.onn.recipe import TrainingRecipe  # noqa: E402
from lightloom.photonics.onn.training import train_cascade  # noqa: E402


def recipes(**options: object) -> tuple[TrainingRecipe, TrainingRecipe]:
    """Two groups of two servers of 2 bits: 7 and 15 points."""
    values: dict[str, object] = {"servers": 2, "bits": 2, "layers": (1, 8, 1), "form": "free", "epochs": 4}
    return TrainingRecipe.cascade(2, **(values | options))


def test_the_papers_cascade_has_two_square_matrices_more_in_both_levels() -> None:
    for level in TrainingRecipe.cascade(4):
        assert level.layers == (4, 64, 64, 128, 256, 128, 64, 64, 4)
        assert level.mzi_count == TrainingRecipe.scenario(1).mzi_count + 2 * 64 * 65 // 2
    first, second = TrainingRecipe.cascade(4)
    assert (first.function.points, second.function.points) == (28_561, 134_017)
    assert first.function.carries_decimals and not second.function.carries_decimals
    assert first.output_weights == (1.0, 1.0, 1.0, 4.0)


def test_output_weights_that_are_given_are_those_of_both_levels() -> None:
    assert [level.output_weights for level in recipes(output_weights=(3.0,))] == [(3.0,), (3.0,)]
    assert [level.output_weights for level in recipes(output_weights=None)] == [None, None]


def test_decimals_are_right_to_their_own_step() -> None:
    first, _ = recipes()
    _, ideal = training.whole_grid(first)
    steps = training.output_steps(first)
    assert steps.tolist() == [2.0]
    assert training._right(ideal + 0.24, ideal, steps) == 1.0
    assert training._right(ideal + 0.26, ideal, steps) < 0.2  # the largest level stays, for lack of a higher one
    points = next(first.function.grid())
    np.testing.assert_array_equal(first.function.decide(ideal.T.numpy()), first.function.expected(points))


def test_what_is_trained_is_stored_whole(tmp_path: Path) -> None:
    cascade, trainings = train_cascade(recipes())
    read = load_cascade(save_cascade(tmp_path / "cascade.npz", cascade))
    for level, stored, trained in zip(
        (cascade.first, cascade.second), (read.first, read.second), trainings, strict=True
    ):
        assert stored.network.same_weights(level.network)
        assert stored.function == trained.recipe.function
        assert stored.verify().wrong_outputs == trained.verification.wrong_outputs
    assert trainings[0].function_arguments.carries_decimals
    with pytest.raises(ConfigError, match="stored with its level 1"):
        _ = trainings[1].function_arguments


def test_a_cascade_that_is_interrupted_in_level_2_keeps_level_1(tmp_path: Path) -> None:
    whole, _ = train_cascade(recipes())
    epochs: list[int] = []

    def interrupt(done: int) -> None:
        epochs.append(done)
        if sum(epochs) == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_cascade(recipes(), tmp_path, interrupt)
    resumed: list[int] = []
    cascade, _ = train_cascade(recipes(), tmp_path, resumed.append)
    assert resumed[0] == 4 and sum(resumed) == 8  # all of level 1 was there
    assert cascade.first.network.same_weights(whole.first.network)
    assert cascade.second.network.same_weights(whole.second.network)
    assert not list(tmp_path.rglob("*.pt"))


def test_recipes_of_no_cascade_are_refused() -> None:
    first, second = recipes()
    for pair in ((second, first), (first, first), (first.but(servers=3), second)):
        with pytest.raises(ConfigError, match="level 1, which carries decimals"):
            train_cascade(pair)
    with pytest.raises(ConfigError, match="level 2 carries no decimals"):
        second.but(carries_decimals=True)
    assert {"groups", "carries_decimals"} <= set(first.to_json())
    assert "groups" not in first.but(carries_decimals=False).to_json()
