"""Results of methods that are kept with their object, and those that were set last."""

from __future__ import annotations

import gc
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.core.caches import Latest, cached_method


class Squares:
    """Notes what it is asked, and squares it."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    @cached_method()
    def of(self, number: int, *, power: int = 2) -> int:
        """Return a power of a number."""
        if number < 0:
            self.asked.append(number)
            raise ValueError("negative")
        self.asked.append(number)
        return int(number**power)

    @cached_method(most=2)
    def latest(self, number: int) -> int:
        """Return the square of a number."""
        self.asked.append(number)
        return number**2


class Cubes(Squares):
    """Asks what it inherits, and keeps results of its own."""

    @cached_method()
    def of(self, number: int, *, power: int = 3) -> int:
        """Return a power of a number, the third if none is named."""
        return super().of(number, power=power)


def test_results_are_kept_by_object_and_arguments_and_errors_are_not() -> None:
    one, other = Squares(), Squares()
    assert [one.of(3), one.of(3), one.of(3, power=1), other.of(3)] == [9, 9, 3, 9]
    assert (one.asked, other.asked) == ([3, 3], [3])
    for _ in range(2):
        with pytest.raises(ValueError, match="negative"):
            one.of(-1)
    assert one.asked == [3, 3, -1, -1]
    cubes = Cubes()
    assert [cubes.of(2), cubes.of(2), cubes.asked] == [8, 8, [2]]


def test_the_latest_results_are_kept_of_as_many_as_are_allowed() -> None:
    squares = Squares()
    assert [squares.latest(number) for number in (1, 2, 1, 3, 2, 1)] == [1, 4, 1, 9, 4, 1]
    assert squares.asked == [1, 2, 3, 1]


@pytest.mark.long
def test_an_object_goes_with_its_results() -> None:
    squares = Squares()
    squares.of(5)
    gone = weakref.ref(squares)
    del squares
    gc.collect()
    assert gone() is None


@given(st.integers(1, 4), st.lists(st.tuples(st.integers(0, 6), st.integers())))
def test_the_results_that_were_set_last_are_kept(most: int, given: list[tuple[int, int]]) -> None:
    kept: Latest[int, int] = Latest(most)
    for number, (key, result) in enumerate(given, start=1):
        kept[key] = result
        last = dict.fromkeys(key for key, _ in reversed(given[:number]))
        assert list(kept) == [*last][:most][::-1] and all(kept[each] == dict(given[:number])[each] for each in kept)
