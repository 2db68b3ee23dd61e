"""The hook against plain integers, on one to four ranks: its bits, its bytes, its errors."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch", reason="the hook is one of torch's")

from lightloom.exchange.transport.launch import launch
from tests.launched import TIMEOUT, Processes
from tests.training.hooks import optical_workers as workers


def test_ranks_average_as_the_reference_does(processes: Processes) -> None:
    check(processes.results("optical"))


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 3])
def test_other_numbers_of_ranks_average_as_the_reference_does(ranks: int) -> None:
    check([outcome.value for outcome in launch(workers.everything, ranks, TIMEOUT)])


def check(found: list[dict[str, Any]]) -> None:
    """Check the results of ``optical_workers.everything``, by rank."""
    bits_are_the_references([each["exact"] for each in found], len(found))
    steps_are_the_emulations([each["trained"] for each in found])
    all_are_told([each["unfit"] for each in found])
    errors_are_as_frequent_as_stated([each["noisy"] for each in found])
    for each in found:
        texts = each["refused"]
        for text, words in zip(texts, ("servers", "bits", "sign", "block", "checkpoint", "table2"), strict=True):
            assert words in text
    assert {each["half_precision"]["dtype"] for each in found} == {"torch.bfloat16"}
    assert len({each["half_precision"]["digest"] for each in found}) == 1


def test_a_single_rank_quantises_too(processes: Processes) -> None:
    single = processes.results("optical_single")[0]
    bits_are_the_references([single["exact"]], 1)
    steps_are_the_emulations([single["trained"]])


@pytest.mark.slow
def test_a_lost_rank_ends_the_others() -> None:
    outcomes = launch(workers.lost, 3, TIMEOUT, check=False)
    for outcome in (outcomes[0], outcomes[2]):
        assert outcome.value.startswith("TransportError: rank")


def bits_are_the_references(found: list[dict[str, Any]], ranks: int) -> None:
    count = sum(workers.SIZES)
    assert found[0]["wrong"] == [0] * len(workers.OPTIONS)
    for each in found:
        assert each["digests"] == found[0]["digests"]
        for options, (up, down, exponents, sent) in zip(workers.OPTIONS, each["counts"], strict=True):
            bits, block = options.get("bits", 16), options.get("block", 256)
            assert up == down == -(-count * bits // 8)
            assert exponents == sum(-(-size // block) for size in workers.SIZES)
            if ranks == 1:
                assert sent == 0
            else:
                assert sent >= 2 * (ranks - 1) / ranks * count * (1 if bits <= 8 else 2 if bits <= 16 else 4)


def steps_are_the_emulations(found: list[dict[str, Any]]) -> None:
    assert found[0]["digest"] == found[0]["emulated"]
    for each in found:
        assert each["digest"] == found[0]["digest"]
        # Buckets were rebuilt into several, which must not change a bit.
        assert each["buckets"][0] < each["buckets"][-1]


def all_are_told(found: list[list[str]]) -> None:
    for said in found:
        assert said == found[0]
        for text in said:
            assert text.startswith("the gradients of a rank hold NaN")
            assert "from value 256" in text
            assert not text.endswith("broke")


def errors_are_as_frequent_as_stated(found: list[dict[str, Any]]) -> None:
    from scipy.stats import binom

    for each in found:
        assert each["digest"] == found[0]["digest"]
        assert each["again"]
        assert each["differs"]
        for error, share in (("3", 0.75), ("-1", 0.25)):
            # Two errors may meet in one place, which a rate of 1 % makes 1 % rarer.
            low, high = binom.interval(1 - 1e-9, each["size"], 0.01 * share)
            assert 0.98 * low <= each["errors"][error] <= high
        assert each["errors"]["0"] > 0.98 * each["size"]
