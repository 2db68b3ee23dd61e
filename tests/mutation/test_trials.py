"""Verdicts on mutants: a time-out counts only where the unchanged code ends in time on the same machine."""

from __future__ import annotations

import ast

import pytest
from scripts.mutation import trials
from scripts.mutation.children import ROOT, Outcome, Task
from scripts.mutation.operators import mutants
from scripts.mutation.packages import Draw
from scripts.mutation.selection import Module, Selection
from scripts.mutation.trials import Trial

_TEXT = "def twice(x):\n    return x * 2\n"
_TEST = "tests/any/test_any.py::test_twice"
_PASSED = Outcome(passed=1, failed="", errors=[], tests={}, reached={}, modules=[])


class _Scripted:
    """A child whose end is known."""

    def __init__(self, outcome: Outcome | str) -> None:
        self._outcome = outcome

    def poll(self) -> Outcome | str:
        return self._outcome


@pytest.mark.parametrize("signal", ["SIGXCPU", "SIGKILL"])
@pytest.mark.parametrize(("unchanged", "verdict"), [(_PASSED, "out of time"), ("SIGXCPU", "no mutant")])
def test_a_time_out_counts_only_if_the_unchanged_code_ends_in_time(
    monkeypatch: pytest.MonkeyPatch, signal: str, unchanged: Outcome | str, verdict: str
) -> None:
    """The same tests under the same limits, without the change and nothing else."""
    module = Module("lightloom.any", ROOT / "src" / "any.py", _TEXT, ast.parse(_TEXT), frozenset())
    selection = Selection({module.name: module}, {_TEST: 1.0}, {_TEST: [f"{module.name}:twice"]})
    outcomes: list[Outcome | str] = [signal, unchanged]
    tasks: list[Task] = []

    def start(task: Task) -> _Scripted:
        tasks.append(task)
        return _Scripted(outcomes.pop(0))

    monkeypatch.setattr(trials, "start", start)
    mutant = next(each for each in mutants(_TEXT) if each.before != each.after)
    trial = Trial(Draw("any", 0, module.name, mutant), selection)
    assert trial.advance() is None
    entry = trial.advance()
    assert entry is not None and entry["outcome"] == verdict and entry["by"] == signal
    mutated, control = tasks
    assert mutated.code and not control.code
    assert (mutated.tests, mutated.uncached, mutated.cpu_seconds) == (
        control.tests,
        control.uncached,
        control.cpu_seconds,
    )
