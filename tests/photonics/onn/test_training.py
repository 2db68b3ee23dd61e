"""Training on small grids: it repeats, it can be interrupted, what it exports is what it trained."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch")

from lightloom.core.errors import ConfigError  # noqa: E402
from lightloom.photonics.averaging.proof import verify  # noqa: E402
from lightloom.photonics.meshes.mapping import approximate  # noqa: E402
from lightloom.photonics.onn import model, training  # noqa: E402
from lightloom.photonics.onn.model import Noise, OpticalNetwork  # noqa: E402
from lightloom.photonics.onn.recipe import TrainingRecipe  # noqa: E402
from lightloom.photonics.onn.training import Trained, gradient_loss, output_loss, train  # noqa: E402


def small(**options: Any) -> TrainingRecipe:
    """Two servers of 4 bits: 49 points."""
    defaults: dict[str, Any] = {"layers": (2, 16, 16, 2), "epochs": 20, "batch": 16, "learning_rate": 5e-3}
    return TrainingRecipe(**({"servers": 2, "bits": 4} | defaults | options))


def smallest(**options: Any) -> TrainingRecipe:
    """Two servers of 2 bits: 7 points, learnt in a blink."""
    defaults: dict[str, Any] = {"layers": (1, 8, 8, 1), "epochs": 400, "batch": 16, "learning_rate": 1e-2}
    return TrainingRecipe(servers=2, bits=2, **(defaults | options))


def same(a: Trained, b: Trained) -> bool:
    pairs = zip(a.network.weights + a.network.biases, b.network.weights + b.network.biases, strict=True)
    return all(np.array_equal(x, y) for x, y in pairs)


@pytest.mark.parametrize("form", ["free", "cayley", pytest.param("periodic", marks=pytest.mark.slow)])
def test_it_learns_a_small_function_exactly_and_in_the_form(form: str) -> None:
    approximated = () if form == "free" else (1, 2, 3)
    trained = train(smallest(form=form, approximated=approximated))
    assert trained.accuracy == 1.0
    assert trained.verification.exhaustive
    assert trained.verification.checked_inputs == 7
    for layer in approximated:
        weights = trained.network.weights[layer - 1]
        np.testing.assert_allclose(approximate(weights), weights, atol=1e-9)


@pytest.mark.long
@pytest.mark.parametrize("form", ["cayley", "periodic", "free"])
def test_training_starts_from_constructed_weights(form: str) -> None:
    """Nothing is wrong before the first step, in the form of the training, nor after steps too small to matter."""
    approximated = () if form == "free" else (1, 2, 3, 4)
    recipe = small(layers=(2, 30, 30, 30, 2), form=form, approximated=approximated, constructed=True)
    assert recipe.to_json()["constructed"] and "constructed" not in small().to_json()
    assert verify(OpticalNetwork(recipe, torch.Generator()).export(), recipe.function).wrong_outputs == 0
    assert train(recipe.but(learning_rate=1e-9, epochs=1)).accuracy == 1.0


def test_full_scales_are_the_largest_signals() -> None:
    trained = train(small(epochs=5))
    points = next(trained.recipe.function.grid())
    signals = trained.network.signals(trained.recipe.function.light(points))
    for signal, scale in zip(signals, trained.network.full_scale, strict=True):
        np.testing.assert_allclose(np.abs(signal).max(axis=1), scale)


def test_the_same_recipe_gives_the_same_bits_and_another_seed_others() -> None:
    recipe = small(form="cayley", approximated=(1, 2, 3), epochs=10, noise=5e-3)
    assert same(train(recipe), train(recipe))
    assert not same(train(recipe), train(recipe.but(seed=1)))


class _Interrupt(Exception):
    pass


@pytest.mark.parametrize("form", [pytest.param("periodic", marks=pytest.mark.slow), "cayley"])
def test_an_interrupted_training_ends_as_if_it_was_not(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = small(form=form, approximated=(2,), noise=5e-3, project_every=3)
    monkeypatch.setattr(training, "SAVE_EVERY", 0.0)
    seen: list[int] = []

    def stop(count: int) -> None:
        seen.append(count)
        if sum(seen) == 11:
            raise _Interrupt

    with pytest.raises(_Interrupt):
        train(recipe, tmp_path, stop)
    assert sum(seen) == 11
    rest: list[int] = []
    resumed = train(recipe, tmp_path, rest.append)
    assert rest[0] == 10, "the epoch that was under way is done again, what came before is not"
    assert sum(rest) == 20
    assert same(resumed, train(recipe))
    assert not list(tmp_path.iterdir())


def test_a_checkpoint_of_another_recipe_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    training.Checkpoint(tmp_path, small()).save({})
    with pytest.raises(ConfigError, match="another recipe"):
        train(small(seed=1), tmp_path)
    (tmp_path / "checkpoint.pt").write_bytes(b"no archive")
    with pytest.raises(ConfigError, match="not a checkpoint"):
        train(small(), tmp_path)


def test_a_failed_training_leaves_torch_as_it_was() -> None:
    before = torch.get_num_threads()
    with pytest.raises(ConfigError, match="device = 'nowhere'"):
        train(small(device="nowhere"))
    assert torch.get_num_threads() == before
    assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.parametrize("nonlinearity", ["relu", "clipped"])
def test_the_export_is_the_network(nonlinearity: str) -> None:
    recipe = small(nonlinearity=nonlinearity)
    network = OpticalNetwork(recipe, torch.Generator().manual_seed(5))
    light, _ = training.whole_grid(recipe)
    expected = network(light).detach().numpy().T
    exported = network.export()
    np.testing.assert_allclose(exported(light.numpy().T.astype(np.float64)), expected, atol=1e-5)


def test_noise_is_what_the_evaluation_adds() -> None:
    """Same statistics of the outputs as `LayeredNetwork.signals` with the same sigma."""
    recipe = small()
    network = OpticalNetwork(recipe, torch.Generator().manual_seed(5))
    light, _ = training.whole_grid(recipe)
    point = light[20:21].repeat(40_000, 1)
    noise = Noise(0.02, network.full_scales(light), torch.Generator().manual_seed(0))
    ours = network(point, noise).detach().numpy()
    theirs = network.export()(point.numpy().T.astype(np.float64), 0.02, np.random.default_rng(0)).T
    np.testing.assert_allclose(ours.std(0), theirs.std(0), rtol=0.03)
    np.testing.assert_allclose(ours.mean(0), theirs.mean(0), atol=0.05 * ours.std(0).max())


def test_a_full_scale_has_the_gradient_of_its_largest_signal_however_rare() -> None:
    signal = torch.tensor([[0.0], [1e-7], [5e-8]], requires_grad=True)
    scale = model.full_scale_of(torch.ones(1), signal)
    assert scale.item() == 1.0
    (gradient,) = torch.autograd.grad(scale, signal)
    assert gradient.flatten().tolist() == [0.0, 1.0, 0.0]


def test_a_budget_of_cpu_time_is_used_up_in_the_first_phase_whatever_the_epochs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(training, "gradient_loss", None)
    trained = train(smallest(epochs=1, cpu_seconds=0.1))
    assert trained.cpu_seconds >= 0.1
    assert trained.history[-1]["epoch"] > 1


@pytest.mark.slow
def test_training_with_noise_bears_more_of_it() -> None:
    from lightloom.photonics.averaging.proof import noisy_accuracy

    plain, sturdy = (train(smallest(epochs=600, noise=noise)) for noise in (0.0, 0.03))
    at = [noisy_accuracy(t.network, t.recipe.function, 0.03, 40_000) for t in (plain, sturdy)]
    assert at[1] > at[0]
    assert sturdy.history[-1]["noise"] > 5e-4


def test_losses_are_those_of_eq_7() -> None:
    outputs = torch.tensor([[1.2, 2.0], [0.0, 3.0]], requires_grad=True)
    ideal = torch.tensor([[1.0, 2.0], [1.0, 3.0]])
    recipe = small(output_weights=(4.0, 1.0))
    assert output_loss(outputs, ideal, recipe).item() == pytest.approx((4 * 0.04 + 4 * 1) / 2)
    assert gradient_loss(outputs, ideal, recipe).item() == pytest.approx((0.8**2 + 4**2) / 2)
    straight = recipe.but(gradient_loss="straight-through")
    loss = gradient_loss(outputs, ideal, straight)
    assert loss.item() == pytest.approx(4**2 / 2)
    loss.backward()  # type: ignore[no-untyped-call]
    assert outputs.grad is not None
    assert outputs.grad[1, 0].item() == pytest.approx(2 * -4 * 4 / 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layers": (4, 8, 2)}, "expected 2, hidden layers, 2"),
        ({"form": "cayley"}, "approximated"),
        ({"form": "cayley", "approximated": (9,)}, "matrices 1 to 3"),
        ({"layers": (2, 5, 2), "form": "cayley", "approximated": (1,)}, "no multiple"),
        ({"epochs": 0}, "epochs = 0"),
        ({"noise": -1.0}, "noise = -1.0"),
        ({"form": "other"}, "form = 'other'"),
        ({"gradient_epochs": 1000}, "gradient_epochs"),
        ({"cpu_seconds": 1.0, "gradient_epochs": 5}, "no gradient_epochs"),
        ({"output_weights": (1.0,)}, "expected 2"),
        ({"servers": 0}, "servers = 0"),
        ({"groups": 2, "constructed": True}, "no constructed start"),
    ],
)
def test_bad_recipes_are_refused_in_one_line(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        small(**options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_scenarios_are_the_rows_of_table_i(number: int) -> None:
    recipe = TrainingRecipe.scenario(number)
    assert recipe.mzi_count == {1: 41_664, 2: 177_040, 3: 702_352, 4: 213_738}[number]
    assert TrainingRecipe.scenario(number, form="free").approximated == ()
    with pytest.raises(ConfigError, match="scenario 5"):
        TrainingRecipe.scenario(5)


@pytest.mark.slow
def test_scenario_1_is_learnt_exactly_with_every_layer_approximated() -> None:
    trained = train(TrainingRecipe.scenario(1))
    assert trained.verification.wrong_outputs == 0
    assert trained.verification.checked_inputs == 28_561
    assert verify(trained.network, trained.recipe.function).wrong_outputs == 0
    for weights in trained.network.weights:
        assert np.abs(approximate(weights) - weights).max() <= 1e-6
