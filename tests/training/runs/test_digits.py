"""Training runs of HDC: resumption, and records that other runs can be compared with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lightloom.exchange.compression.registry import find
from lightloom.exchange.transport.launch import launch
from lightloom.papers.runs.digits import tag_shares

RANKS = 2


@pytest.mark.slow
def test_a_run_in_two_halves_records_what_one_run_records(tmp_path: Path) -> None:
    outcomes = launch("tests.training.runs.digits_workers:resumed", RANKS, 900.0, {"folder": str(tmp_path)})
    whole, halves = outcomes[0].value["whole"], outcomes[0].value["halves"]
    # DDP starts a process with other buckets than it ends with, hence with other headers.
    assert whole.pop("nbytes_sent") == pytest.approx(halves.pop("nbytes_sent"), rel=1e-3)
    assert whole == halves
    assert whole["nbytes_raw"] > 0
    assert whole["iterations"] == [2, 4]
    assert len(whole["accuracy"]) == len(whole["loss"]) == len(whole["ratio"]) == len(whole["tags"]) == 2
    assert (tmp_path / "whole" / "latest").read_text() == "4"
    for folder in ("whole", "halves"):
        assert len(list((tmp_path / folder).glob("checkpoint-*.pt"))) == RANKS
    snapshots = [np.load(tmp_path / folder / "gradient-4.npy") for folder in ("whole", "halves")]
    np.testing.assert_array_equal(*snapshots)


@pytest.mark.parametrize("k", [6, 8, 10])
def test_shares_of_tags_are_those_of_the_stream(k: int) -> None:
    values = np.random.default_rng(k).laplace(0, 0.01, 4096).astype(np.float32)
    values[:3] = 1.0, 0.0, -(2.0**-k)
    shares = tag_shares(values, k)
    assert sum(shares) == pytest.approx(1)
    header_free = sum(share * bits for share, bits in zip(shares, (2, 10, 18, 34), strict=True)) * values.size / 8
    overhead = len(find(f"inceptionn:2^-{k}").encode(values)) - header_free
    assert overhead == pytest.approx(len(find(f"inceptionn:2^-{k}").encode(values[:0])), abs=64)
