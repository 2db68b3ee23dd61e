"""Kinds beyond the classic six: what they promise, what they refuse, sizes and permutations as people write them."""

from __future__ import annotations

from pathlib import Path
from time import process_time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lightloom as ll
from lightloom.collectives.algorithms.trees import BINOMIAL_TREE
from lightloom.collectives.bounds.lower_bound import lower_bound
from lightloom.collectives.collective import (
    KINDS,
    RULES,
    Collective,
    Kind,
    Sizes,
    measured_sizes,
    read_permutation,
    read_sizes,
    zipf_sizes,
)
from lightloom.collectives.files.document import read_schedule, write_schedule
from lightloom.collectives.registry import build, find
from lightloom.collectives.verify.verifier import verify
from lightloom.core.errors import ConfigError, VerificationError
from lightloom.machines.fabrics.load import load_fabric
from tests.collectives.strategies import collective_of, collectives

NEW = KINDS[6:]


@pytest.mark.parametrize("kind", NEW)
def test_a_schedule_without_one_of_its_rows_is_refused(kind: str) -> None:
    fabric = load_fabric("switch", 5)
    schedule = build(find("ring-two-way"), collective_of(kind, 5, 1e5), fabric)
    verify(schedule, fabric)
    for row in range(len(schedule)):
        kept = np.arange(len(schedule)) != row
        with pytest.raises(VerificationError):
            verify(schedule.with_columns({name: c[kept] for name, c in schedule.columns().items()}), fabric)


@given(st.data(), st.sampled_from([kind for kind in NEW if kind != "barrier"]))
@settings(max_examples=30, deadline=None)
def test_ten_times_the_bytes_take_ten_times_as_long_without_latency(data: st.DataObject, kind: str) -> None:
    fabric = load_fabric("ring", 6, set={"hop_latency": 0.0})
    wanted = data.draw(collectives(kind, 6)).resized(1e5)
    schedule = build(find("ring-two-way"), wanted, fabric)
    times = [ll.cost(schedule.resized(nbytes), fabric).time for nbytes in (1e5, 1e6)]
    bounds = [lower_bound(wanted.resized(nbytes), fabric).time for nbytes in (1e5, 1e6)]
    assert times[1] == pytest.approx(10 * times[0])
    assert bounds[1] == pytest.approx(10 * bounds[0])


def test_even_sizes_are_those_of_the_even_kind() -> None:
    for fabric in (load_fabric("wdm-ring", 6), load_fabric("torus", 6), load_fabric("circuit-switch", 6)):
        for kind, even, sizes in (
            ("all-to-all-v", "all-to-all", np.ones((6, 6))),
            ("reduce-scatter-v", "reduce-scatter", np.ones(6)),
        ):
            for name in ("one-stage", "ring-two-way"):
                uneven = ll.synthesize(kind, fabric, nbytes=6e6, sizes=sizes, algorithm=name)
                assert uneven.time == pytest.approx(ll.synthesize(even, fabric, nbytes=6e6, algorithm=name).time)


@pytest.mark.parametrize("suffix", [".json", ".arrow"])
@pytest.mark.parametrize("kind", ["permute", "all-to-all-v", "reduce-scatter-v"])
def test_permutations_and_sizes_are_kept_in_files(tmp_path: Path, kind: str, suffix: str) -> None:
    fabric = load_fabric("switch", 4)
    schedule = build(find("ring-two-way"), collective_of(kind, 4, 1e5), fabric)
    read, _ = read_schedule(write_schedule(tmp_path / f"s{suffix}", schedule, fabric))
    assert read.collective == schedule.collective


def test_zipf_sizes() -> None:
    sizes = zipf_sizes(8, 1.0, 3)
    received = np.sort(sizes.share.sum(axis=0))[::-1]
    np.testing.assert_allclose(received, (1 / np.arange(1, 9)) / (1 / np.arange(1, 9)).sum())
    np.testing.assert_allclose(sizes.share.sum(axis=1), 1 / 8)
    assert zipf_sizes(8, 1.0, 3) == sizes != zipf_sizes(8, 1.0, 4)
    assert read_sizes("zipf:1:3", 8, pairs=True) == (sizes, None)


def test_measured_sizes_state_their_bytes(tmp_path: Path) -> None:
    path = tmp_path / "bytes.csv"
    path.write_text("0,3e6,1e6\n1e6,0,0\n2e6,0,0\n")
    sizes, total = measured_sizes(path)
    assert total == 7e6 and sizes.share[0, 1] == pytest.approx(3 / 7)
    schedule = ll.synthesize("all-to-all-v", "switch", ranks=3, sizes=str(path), algorithm="one-stage")
    assert schedule.collective.distinct_nbytes == pytest.approx(7e6)
    assert schedule.lower_bound.bound_by == "what rank 0 must send"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("1,2\n3\n", "line 2 has 1 entries: expected 2"),
        ("\n1,2\n \n3\n", "line 4 has 1 entries: expected 2"),
        ("1,b\n", "line 1: 'b': expected a number: expected bytes"),
        ("\n\n1,b\n", "line 3: 'b': expected a number: expected bytes"),
        ("1,-2\n3,4\n", "not negative"),
        ("1,0\n0,4\n", "something that is sent"),
        ("1,2\n3,4\n5,6\n", "a square"),
        ("", "one above zero"),
    ],
)
def test_files_of_sizes_that_are_wrong(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "bytes.csv"
    path.write_text(text)
    with pytest.raises(ConfigError, match=complaint) as refused:
        measured_sizes(path)
    assert str(path) in str(refused.value)


@pytest.mark.parametrize(
    "text", ["zipf", "zipf:a", "zipf:1:b", "zipf:1:2:3", "zipf:-1", "zipf:nan", "zipf:1:-1", "b.txt"]
)
def test_sizes_of_no_form(text: str) -> None:
    with pytest.raises(ConfigError, match="expected"):
        read_sizes(text, 4, pairs=True)


def test_permutations() -> None:
    assert read_permutation("shift:-1", 4) == (3, 0, 1, 2)
    assert read_permutation("reverse", 4) == (3, 2, 1, 0)
    assert read_permutation("1,0,3,2", 4) == (1, 0, 3, 2)
    assert Collective("permute", 4, 1.0).destinations == (1, 2, 3, 0)
    for text in ("shift", "shift:a", "backwards", "1,0,x"):
        with pytest.raises(ConfigError, match="expected shift:K"):
            read_permutation(text, 4)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("permute", 3, 1.0, (0, 1, 1)), "each of 0 to 2 once"),
        (("permute", 3, 1.0, (0, 1, 2)), "moves something"),
        (("gather", 3, 1.0, (1, 2, 0)), "gather has no permutation"),
        (("barrier", 3, 1.0), "carries no bytes"),
        (("all-to-all-v", 3, 1.0), "expected the sizes"),
        (("all-to-all-v", 3, 1.0, None, Sizes(np.ones(3))), r"expected \(3, 3\)"),
        (("all-to-all", 3, 1.0, None, Sizes(np.ones((3, 3)))), "expected no sizes"),
    ],
)
def test_what_does_not_fit_a_kind(arguments: tuple[object, ...], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        Collective(*arguments)  # type: ignore[arg-type]


def test_parts_without_bytes_need_not_move() -> None:
    share = np.zeros((4, 4))
    share[2, 0] = 1.0
    wanted = Collective("all-to-all-v", 4, 1e6, sizes=Sizes(share))
    fabric = load_fabric("switch", 4)
    schedule = build(find("one-stage"), wanted, fabric)
    sent = schedule.source == 2
    sent &= schedule.destination == 0
    columns = {name: column[sent] for name, column in schedule.columns().items()} | {"lightpath": np.zeros(1)}
    verify(schedule.with_columns(columns), fabric)


def test_every_kind_has_a_rule() -> None:
    assert tuple(RULES) == KINDS


@pytest.mark.parametrize("kind", ["gather", "scatter"])
def test_a_tree_of_tens_of_thousands_of_ranks_is_built_at_once(kind: Kind) -> None:
    """Rows grow with the ranks and their logarithm, and so does the time."""
    began = process_time()
    BINOMIAL_TREE.build(Collective(kind, 32768, 1e9), load_fabric("torus", 32768))
    assert process_time() - began < 5
