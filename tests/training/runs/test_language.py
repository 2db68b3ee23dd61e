"""Servers in one process: bit for bit what block quantisation and the averager say, interrupted or not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lightloom.core.errors import ConfigError, InputError
from lightloom.photonics.averaging.averagers import (
    Averager,
    ErringAverager,
    ErrorDistribution,
    IdealAverager,
)
from lightloom.photonics.averaging.block_quantisation import Rounding
from tests.photonics.quantisation_reference import BlockQuantisation

torch = pytest.importorskip("torch")

from lightloom.exchange.datasets import (  # noqa: E402
    Corpus,
    Images,
)
from lightloom.papers.runs import images, language  # noqa: E402
from lightloom.papers.runs.emulated import EmulatedServers, averaged  # noqa: E402

CHANCE = np.random.default_rng(0)
TEXT = Corpus("test", CHANCE.integers(97, 101, 4_000, np.uint8), CHANCE.integers(97, 101, 400, np.uint8))
TINY = language.Recipe(
    seed=3,
    bits=16,
    rounding="floor",
    errors="3-6",
    layers=1,
    hidden=16,
    heads=2,
    intermediate=24,
    sequence=8,
    windows_per_server=2,
    steps=9,
    warm_up=3,
    record_every=3,
    validation_windows=4,
)


@settings(max_examples=60, deadline=None)
@given(
    gradients=hnp.arrays(
        np.float32,
        st.tuples(st.integers(1, 5), st.integers(1, 70)),
        elements=st.floats(-(2.0**126), 2.0**126, width=32) | st.floats(-1, 1, width=32),
    ),
    bits=st.sampled_from([2, 7, 8, 16, 24]),
    block=st.sampled_from([1, 16, 256]),
    rounding=st.sampled_from(["floor", "half-up"]),
    erring=st.booleans(),
    data=st.data(),
)
def test_averages_equal_those_of_block_quantisation(
    gradients: Any, bits: int, block: int, rounding: Rounding, erring: bool, data: st.DataObject
) -> None:
    """Parameter by parameter, with NumPy alone."""
    errors = ErrorDistribution(rate=0.3, shares=((1, 0.5), (-2, 0.5)))

    def averager() -> Averager:
        ideal = IdealAverager(len(gradients), bits, rounding)
        return ErringAverager(ideal, errors, 7) if erring else ideal

    first = data.draw(st.integers(0, gradients.shape[1]))
    found = averaged(gradients, averager(), [first, gradients.shape[1] - first], block)
    reference = BlockQuantisation(bits=bits, block=block)
    parts = [part for part in (gradients[:, :first], gradients[:, first:]) if part.size]
    exponents = [reference.agree(*(reference.exponents(row) for row in part)) for part in parts]
    codes = [
        np.stack([reference.encode(row, each) for row in part]) for part, each in zip(parts, exponents, strict=True)
    ]
    means = np.split(averager()(np.concatenate(codes, axis=1)), [first] if len(parts) == 2 else [])
    expected = np.concatenate([reference.decode(mean, each) for mean, each in zip(means, exponents, strict=True)])
    assert found.tobytes() == expected.astype(np.float32).tobytes()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_no_scale_fits_is_refused(bad: float) -> None:
    gradients = np.ones((2, 10), np.float32)
    gradients[1, 7] = bad
    with pytest.raises(InputError, match="NaN, Inf or"):
        averaged(gradients, IdealAverager(2, 8))
    with pytest.raises(InputError, match="one row for each of 3"):
        averaged(gradients, IdealAverager(3, 8))
    with pytest.raises(ConfigError, match="servers = 2"):
        EmulatedServers(torch.nn.Linear(2, 2), 2, IdealAverager(3, 8))


def test_servers_see_the_gradient_of_the_joint_batch() -> None:
    torch.manual_seed(0)
    net, batch = torch.nn.Linear(5, 3), torch.randn(4, 6, 5)
    servers = EmulatedServers(net, 4)
    for _ in range(2):
        servers.step(lambda server: net(batch[server]).square().mean())
    found = [p.grad.clone() for p in net.parameters()]
    net.zero_grad()
    net(batch.flatten(0, 1)).square().mean().backward()
    for parameter, mean in zip(net.parameters(), found, strict=True):
        torch.testing.assert_close(mean, parameter.grad)


class StopError(Exception):
    """Stands for whatever ends a process."""


def stop_after(count: int) -> Callable[[int], None]:
    left = iter([None] * count)

    def advance(done: int) -> None:
        if done and next(left, "stop") == "stop":
            raise StopError

    return advance


def test_an_interrupted_run_ends_like_one_that_was_not(tmp_path: Path) -> None:
    whole = language.train(TEXT, TINY)
    with pytest.raises(StopError):
        language.train(TEXT, TINY, tmp_path, advance=stop_after(4))
    done: list[int] = []
    resumed = language.train(TEXT, TINY, tmp_path, advance=done.append)
    assert done[0] == 3 and sum(done) == TINY.steps
    for record in (whole, resumed):
        assert record.pop("cpu_seconds") > 0
    assert resumed == whole
    assert whole["steps"] == [3, 6, 9]


def test_pairs_see_the_same_data_and_differ_by_their_average_alone() -> None:
    exact = language.train(TEXT, replace(TINY, bits=None, errors=None, steps=3))
    fine = language.train(TEXT, replace(TINY, bits=24, rounding="half-up", errors=None, steps=3))
    coarse = language.train(TEXT, replace(TINY, bits=2, errors=None, steps=3))
    gap = abs(fine["validation_loss"][0] - exact["validation_loss"][0])
    assert gap < 1e-3 < abs(coarse["validation_loss"][0] - exact["validation_loss"][0])


def test_a_text_too_short_is_refused() -> None:
    with pytest.raises(ConfigError, match="a step takes"):
        language.train(Corpus("short", TEXT.training[:20], TEXT.validation), TINY)


def test_images_are_learned_with_any_averager(tmp_path: Path) -> None:
    """Two classes, told apart by their brightness; interrupted and not."""
    labels = np.arange(32, dtype=np.uint8) % 2
    pixels = np.clip(CHANCE.normal(70 + 110 * labels, 20, (3, 32, 32, 32)).T, 0, 255).astype(np.uint8)
    data = Images(np.ascontiguousarray(pixels.transpose(0, 3, 1, 2)), labels)
    recipe = images.ImageRecipe(seed=0, images_per_server=2, epochs=5, learning_rate=1e-3)
    errors = ErrorDistribution(rate=0.01, shares=((1, 1.0),))

    def run(folder: Path | None, advance: Callable[[int], None]) -> dict[str, Any]:
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3072, 2))
        return images.train(data, data, recipe, ErringAverager(IdealAverager(4, 8), errors), net, folder, advance)

    record = run(None, lambda _: None)
    assert record["accuracy"][-1] == 1.0
    assert record["training_loss"][-1] < record["training_loss"][0]
    with pytest.raises(StopError):
        run(tmp_path, stop_after(1))
    assert run(tmp_path, lambda _: None) == record
    with pytest.raises(ConfigError, match="a step takes 128"):
        images.train(data, data, images.ImageRecipe(seed=0))


def test_resnet50_keeps_cifars_resolution() -> None:
    net = images.resnet50_for_cifar()
    assert net.example_inputs(1)[0].shape == (1, 3, 32, 32)
    with torch.no_grad():
        net.eval()
        assert net.stem(torch.zeros(1, 3, 32, 32)).shape[-2:] == (32, 32)
        assert net(torch.zeros(1, 3, 32, 32)).shape == (1, 100)


def test_moved_images_are_windows_of_their_padding() -> None:
    pixels = CHANCE.integers(1, 256, (20, 3, 32, 32), dtype=np.uint8)
    moved = images.augmented(pixels, np.random.default_rng(1))
    assert moved.shape == pixels.shape
    for before, after in zip(pixels, moved, strict=True):
        padded = np.pad(before, ((0, 0), (4, 4), (4, 4)))
        windows = [padded[:, r : r + 32, c : c + 32] for r in range(9) for c in range(9)]
        assert any((after == w).all() or (after == w[..., ::-1]).all() for w in windows)
