"""Planned bytes of INCEPTIONN against those of a ring of up to 64 ranks, emulated hop by hop in one process."""

import numpy as np
import pytest

from lightloom.core.arrays import Float32s
from lightloom.exchange.compression.profile import Sample, measure_codecs
from lightloom.exchange.compression.registry import find as find_codec
from lightloom.exchange.method import CodedSums, Gradient
from lightloom.exchange.methods import find
from lightloom.papers.runs.emulated import emulated_ring_sum
from lightloom.planning.gradients import bits_by_terms

VALUES = 1 << 14


def gradient(rank: int) -> Float32s:
    """Heavy tails, as gradients have them, and a part that all ranks share."""
    shared, own = np.random.default_rng(99).laplace(size=VALUES), np.random.default_rng(rank).laplace(size=VALUES)
    return (2e-4 * shared + 8e-4 * own).astype(np.float32)


def counted_bytes(codec_name: str, ranks: int) -> float:
    """Bytes that a rank sends around a ring, on average."""
    values = np.stack([gradient(rank) for rank in range(ranks)])
    return emulated_ring_sum(values, find_codec(codec_name)).nbytes_sent / ranks


@pytest.mark.parametrize("name", ["inceptionn:bound=2^-10", "inceptionn:scaled"])
@pytest.mark.parametrize("ranks", [4, pytest.param(64, marks=pytest.mark.slow)])
def test_profiles_of_sums_predict_the_bytes_of_a_ring(name: str, ranks: int) -> None:
    method = find(name)
    codec_name = getattr(method, "codec", "")
    totals = np.cumsum([gradient(rank) for rank in range(64)], axis=0, dtype=np.float32)
    samples = [Sample(1, terms, {"all": totals[terms - 1]}) for terms in (1, 2, 4, 8, 16, 32, 64)]
    [entry] = measure_codecs("model", VALUES, samples, [find_codec(codec_name)], "drawn").codecs
    sizes = bits_by_terms(entry)
    planned = method.sent_bytes(Gradient(((VALUES,),), (CodedSums(codec_name, sizes),)), ranks)
    counted = counted_bytes(codec_name, ranks)
    assert planned == pytest.approx(counted, rel=0.10)
    one_ratio = method.sent_bytes(Gradient(((VALUES,),), (CodedSums(codec_name, sizes[:1]),)), ranks)
    if method.name.endswith("=2^-10,feedback") and ranks == 64:
        assert counted > 1.4 * one_ratio, "one ratio is optimistic"
