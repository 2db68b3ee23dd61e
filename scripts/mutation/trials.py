"""The trial of one mutant: stages of tests in children, until one kills it or none is left."""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

from scripts.mutation.children import COMPILER_MISTAKES, MISTAKES, ROOT, Child, Outcome, Task, start
from scripts.mutation.journal import COUNTED, Entry, read
from scripts.mutation.operators import mutate
from scripts.mutation.packages import Draw, draw
from scripts.mutation.reach import measure
from scripts.mutation.selection import Selection, load_modules, stale_kernels

SECONDS_TO_START = 60
"""CPU seconds that a child may use besides its tests: it loads the package, and compiles kernels."""
SLACK = 4
"""How many times the CPU time of the unchanged code a child may use."""


class Trial:
    """One mutant under test."""

    def __init__(self, draw: Draw, selection: Selection) -> None:
        modules = selection.modules
        module = modules[draw.module]
        self.draw = draw
        self._selection = selection
        tree = mutate(module.text, draw.mutant.index)
        self._code = {draw.module: compile(tree, str(module.path), "exec", dont_inherit=True)}
        self._uncached = stale_kernels(modules, draw.module, draw.mutant.function)
        self._stages = selection.stages(selection.tests_of(draw.module, draw.mutant.function))
        self._started = time.monotonic()
        self._child: Child | None = None
        self._late = ""
        """The signal that ended a child, while the unchanged code runs the same tests under the same limits."""

    def advance(self) -> Entry | None:
        """Start the next stage if none runs; return the entry once the outcome is known."""
        if self._child is None:
            if not self._stages:
                return self._entry("no test", "")
            self._child = start(self._task(self._stages[0]))
        outcome = self._child.poll()
        if outcome is None:
            return None
        if self._late:
            # A machine that is busy, or a kernel that takes long to compile, is no fault of the mutant.
            return self._entry("no mutant" if isinstance(outcome, str) else "out of time", self._late)
        verdict, test = judge(outcome)
        if verdict == "out of time":
            self._late = test
            self._child = start(replace(self._task(self._stages[0]), code={}))
            return None
        if verdict != "survived" or len(self._stages) == 1:
            return self._entry(verdict, test)
        self._stages.pop(0)
        self._child = None
        return None

    def _task(self, tests: tuple[str, ...]) -> Task:
        expected = sum(self._selection.times[test] for test in tests)
        return Task(tests, self._code, self._uncached, int(SECONDS_TO_START + SLACK * expected))

    def _entry(self, outcome: str, test: str) -> Entry:
        mutant = self.draw.mutant
        return Entry(
            key=self.draw.key,
            package=self.draw.package,
            file=self._selection.modules[self.draw.module].path.relative_to(ROOT).as_posix(),
            line=mutant.line,
            function=mutant.function,
            operator=mutant.operator,
            before=mutant.before,
            after=mutant.after,
            outcome=outcome,
            by=test,
            seconds=round(time.monotonic() - self._started, 1),
        )


def judge(outcome: Outcome | str) -> tuple[str, str]:
    """Return what became of a mutant, and the test that decided it.

    One that dies of a mistake that a type checker finds, or that ends the interpreter, does not count.
    """
    if isinstance(outcome, str):
        return ("out of time" if outcome in ("SIGXCPU", "SIGKILL") else "no mutant"), outcome
    if not outcome["failed"]:
        return "survived", ""
    mistakes = [error for error in outcome["errors"] if error in (*MISTAKES, *COMPILER_MISTAKES)]
    return ("no mutant" if mistakes else "killed"), outcome["failed"]


def run(packages: list[str], seed: int, share: int, workers: int, journal: Path, keep_map: bool) -> None:
    """Draw and try mutants until every package has its share in the journal."""
    modules = load_modules()
    selection = measure(modules, workers, journal.parent / "map.json", keep_map)
    done = {entry["key"] for entry in read(journal)}
    counted = Counter(entry["package"] for entry in read(journal) if entry["outcome"] in COUNTED)
    draws = {package: draw(package, modules, seed) for package in packages}
    trials: list[Trial] = []
    with journal.open("a") as file:
        while draws or trials:
            for package in sorted(draws, key=lambda package: counted[package]):
                under_way = sum(trial.draw.package == package for trial in trials)
                if counted[package] >= share:
                    del draws[package]
                elif len(trials) < workers and counted[package] + under_way < share:
                    chosen = next((one for one in draws[package] if one.key not in done), None)
                    if chosen is None:
                        del draws[package]
                    else:
                        trials.append(Trial(chosen, selection))
            for trial in list(trials):
                entry = trial.advance()
                if entry is not None:
                    trials.remove(trial)
                    counted[entry["package"]] += entry["outcome"] in COUNTED
                    file.write(json.dumps(entry) + "\n")
                    file.flush()
                    print(f"{entry['outcome']:12} {entry['file']}:{entry['line']} {entry['operator']}", flush=True)
            time.sleep(0.02)
