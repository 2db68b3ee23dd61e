"""Exported MSCCL programs with one change: refused where an interpreter of its own finds them wrong, and only there."""

from __future__ import annotations

from benchmarks.interchange.msccl_interpreter import verdict
from benchmarks.interchange.msccl_mutants import mutants, programs


def test_wrong_mutants_are_refused_and_no_right_one_is() -> None:
    drawn = list(mutants(72, seed=7))
    assert [mutant for mutant in drawn if (mutant.wrong is None) != (mutant.refused is None)] == []
    wrong = sum(mutant.wrong is not None for mutant in drawn)
    assert 20 < wrong < 70


def test_the_interpreter_finds_exported_programs_right() -> None:
    assert [verdict(text) for text in programs()] == [None] * len(programs())


def test_the_interpreter_finds_a_missing_sum_and_a_race() -> None:
    text = programs()[0]
    assert verdict(text.replace('type="rrc"', 'type="r"', 1)) is not None
    assert verdict(text.replace('hasdep="1"', 'hasdep="0"')) == "waits for what is never announced"
