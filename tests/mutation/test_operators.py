"""What the mutation run changes, and what it leaves alone because no test could notice."""

from __future__ import annotations

import ast

import pytest
from scripts.mutation.operators import mutants, mutate


def _after(body: str) -> set[str]:
    """Every changed line of one function."""
    return {mutant.after for mutant in mutants(f"def f(a, b):\n    {body}\n")}


@pytest.mark.parametrize(
    "statement",
    [
        "_BLOCK: Effort = 1 << 16",
        "def f_text(a):\n    return a + 1",
        "def label(a):\n    return a + 1",
        "while len(kept) > MOST:\n    kept.popitem(last=False)",
        "config = ConfigDict(frozen=True)",
    ],
)
def test_efforts_labels_and_evictions_are_left_alone(statement: str) -> None:
    assert mutants(statement) == []


def test_a_mark_is_changed_by_its_sign_alone() -> None:
    assert _after("x = np.full(a, -1)") == {"x = np.full(a, 1)"}
    assert _after("return (-1, a)") == {"return (1, a)"}
    assert _after("return a.reshape(-1, b)") == {"return a.reshape(1, b)"}
    # Indices, comparisons and steps are not marks.
    assert _after("return a[-1]") == {"return a[1]", "return a[-2]", "return a[-0]"}
    assert "if a == -2:" in _after("if a == -1:\n        return b")
    assert "return range(a, -2, -1)" in _after("return range(a, -1, -1)")
    assert "x = a + -2" in _after("x = a + -1")


def test_an_amount_is_left_alone_where_it_is_compared_with_an_effort() -> None:
    found = mutants("_MOST: Effort = 1 << 16\ndef f(a):\n    return 2 * a + 1 > _MOST\n")
    assert {mutant.after for mutant in found} == {"return 2 * a + 1 <= _MOST"}
    found = mutants("_MOST: Effort = 1 << 16\ndef f(a, b):\n    return min(a, b) + min(-a, _MOST)\n")
    after = {mutant.after for mutant in found}
    assert "return max(a, b) + min(-a, _MOST)" in after and "return min(a, b) + min(a, _MOST)" in after
    assert not any("max(-a, _MOST)" in text for text in after)


def test_a_margin_is_left_alone_but_not_what_it_is_added_to() -> None:
    assert _after("x = a * (1 + _ROUNDING)") == {
        "x = a / (1 + _ROUNDING)",
        "x = a * _ROUNDING",
        "x = a * (2 + _ROUNDING)",
        "x = a * (0 + _ROUNDING)",
    }
    assert _after("return a < b - slack") == {"return a >= b - slack"}
    assert _after("return a < b") == {"return a <= b", "return a >= b"}
    # Real quantities are not margins.
    assert "return a" in _after("return a + 1e-6")


def test_arguments_that_change_no_result_are_left_alone() -> None:
    assert _after("return zip(a, b, strict=True)") == set()
    assert _after("return a.astype(b, copy=False)") == set()
    assert _after("return np.add.reduce(a, axis=0)") == {
        "return np.add.reduce(a, axis=1)",
        "return np.add.reduce(a, axis=-1)",
    }
    assert "return np.add.reduce(a)" in _after("return np.add.reduce(a, axis=1)")


def test_sizes_of_new_arrays_are_left_alone_but_not_their_values() -> None:
    assert _after("x = np.full(a + 1, b + 2)") == {
        f"x = np.full(a + 1, {value})" for value in ("b - 2", "b", "2", "b + 3", "b + 1")
    }


def test_a_mutant_is_made_again_from_its_index() -> None:
    text = "def f(a, b):\n    if a > 0:\n        return min(a, b) - 1\n    return -1\n"
    for mutant in mutants(text):
        assert mutant.after in ast.unparse(mutate(text, mutant.index))
        assert mutant.before != mutant.after
