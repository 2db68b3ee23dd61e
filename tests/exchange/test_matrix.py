"""Every method with every feature of DDP is right, or refused in one line; none hangs.

Right: replicas end equal bit for bit, and the loss follows that of the plain exchange within the method's tolerance.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from lightloom.exchange.transport.launch import launch
from tests.launched import RANKS, Processes

METHODS = {
    "float32": 1e-6,
    "bf16": 0.01,
    "fp16": 0.002,
    "fp8": 0.02,
    "int8": 0.005,
    "int4": 0.05,
    "int3:feedback": 0.1,
    "lloyd2": 0.2,
    "sign": 0.5,
    "topk:share=0.1,feedback": 0.5,
    "powersgd:rank=2,feedback": 0.5,
    "inceptionn": 0.05,
    "inceptionn:scaled": 0.1,
    "truncate": 0.01,
    "optical": 0.01,
    "two-level:between=(int4:block=128,feedback),node=2": 0.05,
}
"""By method, how far the last loss may be from that of the plain exchange, relative to the first loss."""
REFUSALS = {"float64": "works in float32", "sparse": "expected dense"}
"""Features that methods refuse, and words of the refusal; ``float32`` takes float64."""
FEATURES = (
    "plain",
    "accumulation",
    "clipping",
    "autocast",
    "bfloat16",
    "scaled",
    "static-graph",
    "unused",
    "bucket-views",
    "small-buckets",
    "join",
    "sub-group",
    "compile",
    "complex",
    "float64",
    "sparse",
)
"""Features of DDP, as ``tests.exchange.features`` trains with them, which only the ranks import."""
DEFAULT = [
    (method, feature)
    for k, method in enumerate(METHODS)
    for j, feature in enumerate(FEATURES)
    if (j - k) % 16 == 0 and (k % 2 == 0 or feature in REFUSALS) and feature != "compile"
]
"""Half of the methods, each with another feature, those that are refused among them; the slow test tries all pairs."""


def beside_plain(cases: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Cases, and those of the plain exchange that they are compared with."""
    return [*cases, *sorted({("float32", feature) for _, feature in cases} - set(cases))]


ARGUMENTS = {"cases": beside_plain(DEFAULT)}
"""Of ``features.matrix``."""


def check(cases: list[tuple[str, str]], results: list[list[dict[str, Any]]]) -> None:
    """Assert that all cases are right or refused, given the results of all cases beside plain ones, by rank."""
    found = {case: list(ranks) for case, *ranks in zip(beside_plain(cases), *results, strict=True)}
    faults = {
        f"{method} with {feature}": fault(method, feature, found[method, feature], found["float32", feature])
        for method, feature in cases
    }
    assert not any(faults.values()), "\n".join(f"{case}: {words}" for case, words in faults.items() if words)


def fault(method: str, feature: str, ranks: list[dict[str, Any]], plain: list[dict[str, Any]]) -> str | None:
    """What is wrong with one case, given the results of all ranks; None if it is right or refused."""
    if feature in REFUSALS and (method, feature) != ("float32", "float64"):
        refusals = {rank.get("refused", "") for rank in ranks}
        right = all(REFUSALS[feature] in line and "\n" not in line for line in refusals)
        return None if right else f"expected a refusal, got {refusals}"
    refusals = {rank["refused"] for rank in ranks if "refused" in rank}
    if refusals:
        return f"refused: {refusals}"
    if not all(rank["finite"] for rank in ranks):
        return "not finite"
    half = RANKS // 2 if feature == "sub-group" else RANKS
    if any(len({rank["digest"] for rank in ranks[begin : begin + half]}) != 1 for begin in range(0, RANKS, half)):
        return "replicas differ"
    first = sum(rank["losses"][0] for rank in plain)
    last, expected = (sum(rank["losses"][-1] for rank in each) for each in (ranks, plain))
    if abs(last - expected) > METHODS[method] * first:
        return f"last loss {last:.4f}, of the plain exchange {expected:.4f}, first {first:.4f}"
    return None if last < first else f"nothing learned: first loss {first:.4f}, last {last:.4f}"


def test_pairs_of_methods_and_features(processes: Processes) -> None:
    check(DEFAULT, processes.results("matrix"))


@pytest.mark.slow
def test_every_feature_is_tried() -> None:
    from tests.exchange import features

    assert tuple(features.FEATURES) == FEATURES


@pytest.mark.slow
@pytest.mark.parametrize("quarter", range(4))
def test_all_methods_with_all_features(quarter: int) -> None:
    """A quarter at a time, so that each launch is bounded."""
    cases = list(product(list(METHODS)[quarter::4], FEATURES))
    outcomes = launch("tests.exchange.features:matrix", RANKS, 60 + 8 * len(cases), {"cases": beside_plain(cases)})
    check(cases, [outcome.value for outcome in outcomes])
