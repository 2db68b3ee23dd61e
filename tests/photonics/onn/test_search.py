"""Successive halving: its bookkeeping, its front, and that it goes on where it was."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch", reason="needs torch")

from lightloom.core.errors import ConfigError
from lightloom.photonics.averaging.networks import FunctionArguments
from lightloom.photonics.onn.search import Trial, fronts, rounds, search, work

SMALLEST = FunctionArguments(servers=2, bits=2)
OPTIONS: dict[str, Any] = {"batch": 16, "learning_rate": 1e-2}

trials = st.lists(
    st.builds(
        Trial,
        layers=st.just((1, 2, 1)),
        epochs=st.just(1),
        mzi_count=st.integers(1, 4),
        accuracy=st.sampled_from([0.5, 0.9, 1.0]),
        noise_limit=st.sampled_from([0.0, 1e-3]),
    ),
    min_size=1,
    max_size=12,
)


@given(trials)
def test_fronts_part_the_trials_and_each_is_beaten_by_the_one_before(found: list[Trial]) -> None:
    parts = fronts(found)
    assert sorted(map(repr, (t for part in parts for t in part))) == sorted(map(repr, found))
    for earlier, part in zip([[], *parts], parts, strict=False):
        assert not any(a.beats(b) for a in part for b in part)
        assert not earlier or all(any(a.beats(b) for a in earlier) for b in part)


@given(st.integers(1, 40))
def test_rounds_halve_the_networks_and_double_the_epochs(count: int) -> None:
    found = rounds(count, 1 << 10)
    assert found[0][0] == count
    assert found[-1] == (1, 1 << 10)
    for (n, epochs), (fewer, more) in pairwise(found):
        assert fewer == -(-n // 2)
        assert more == 2 * epochs


def test_a_search_goes_on_where_it_was_to_the_same_end(tmp_path: Path) -> None:
    def stop(count: int) -> None:
        done.append(count)
        if len(done) == 60:
            raise KeyboardInterrupt

    done: list[int] = []
    whole = search(SMALLEST, (2, 6), (1, 2), 40, **OPTIONS)
    assert [t.epochs for t in whole.trials] == [10] * 4 + [20] * 2 + [40]
    with pytest.raises(KeyboardInterrupt):
        search(SMALLEST, (2, 6), (1, 2), 40, tmp_path, stop, **OPTIONS)
    counted: list[int] = []
    again = search(SMALLEST, (2, 6), (1, 2), 40, tmp_path, counted.append, **OPTIONS)
    assert again == whole
    assert sum(counted) == work((2, 6), (1, 2), 40) == 120
    best = max(t.accuracy for t in whole.trials)
    assert max(t.accuracy for t in whole.front) == best
    with pytest.raises(ConfigError, match="another search"):
        search(SMALLEST, (2, 6), (1, 2), 80, tmp_path, **OPTIONS)


@pytest.mark.parametrize(("widths", "depths", "budget"), [((), (1,), 40), ((4,), (0,), 40), ((4, 8, 9), (1, 2), 4)])
def test_a_search_for_nothing_is_refused(widths: tuple[int, ...], depths: tuple[int, ...], budget: int) -> None:
    with pytest.raises(ConfigError, match=r"expected some|too few"):
        search(SMALLEST, widths, depths, budget)
