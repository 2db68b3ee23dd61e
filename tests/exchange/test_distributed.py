"""Methods among four processes: equal replicas, nothing lost with feedback, planned bytes, resumed bit for bit."""

from math import prod
from typing import Any

import pytest

from lightloom import exchange
from lightloom.exchange.transport.launch import launch
from tests.launched import RANKS, TIMEOUT, Processes, can_shard

METHODS = {
    "float32": 1e-6,
    "bf16": 0.01,
    "bf16:feedback": 0.01,
    "fp16": 0.01,
    "fp8": 0.1,
    "int8": 0.02,
    "int8:block=64,feedback": 0.02,
    "int4": 0.1,
    "int3": 0.5,
    "lloyd2": 0.6,
    "sign": 0.9,
    "inceptionn": 0.1,
    "inceptionn:bound=2^-8,scaled": 0.3,
    "truncate:bits=16": 0.02,
    "topk:share=0.1": 0.9,
    "topk:share=0.1,feedback=no": 0.9,
    "topk:share=1": 1e-6,
    "optical": 0.001,
    "optical:bits=8": 0.1,
    "optical:averager=(table2:4-8),bits=16": 0.5,
    "two-level:between=float32,node=2": 1e-6,
    "two-level:between=(int4:block=64),node=2": 0.1,
    "two-level:between=(topk:share=0.1),node=2": 0.9,
    "two-level:between=inceptionn,node=2": 0.1,
    "two-level:between=int4,node=4": 1e-6,
    "two-level:inside=(synthesized:coding=(int8:block=8)),between=(optical),node=2": 0.02,
    "powersgd:rank=2": 0.95,
    "powersgd:rank=4,feedback=no": 0.95,
}
"""By method, the largest error of the sum of four averages of noise, relative to that sum."""
VARIANTS = {
    "bf16",
    "fp16",
    "int8",
    "int3",
    "inceptionn",
    "topk:share=1",
    "optical:averager=(table2:4-8),bits=16",
    "two-level:between=inceptionn,node=2",
    "two-level:between=int4,node=4",
    "powersgd:rank=4,feedback=no",
}
"""Methods of which others have the same code with more options."""

EVERY_STEP = ["diloco:every=1,outer_lr=1,outer_momentum=0", "localsgd:every=1"]
"""Methods that are SGD with plain averages."""
PERIODIC = {
    "localsgd:every=4": [4, 8, 12],
    "diloco:every=4": [4, 8, 12],
    "diloco:every=5,inner=(int4:block=64),fragments=2": [2, 5, 7, 10, 12],
    "diloco:every=3,inner=powersgd,outer_lr=0.5,outer_momentum=0": [3, 6, 9, 12],
}
"""By method, the steps after which something is exchanged."""


SHAPES = [(48, 64), (64,), (), (16, 8, 3, 3)]
"""Of ``method_workers.SHAPES``."""
LAWS = "tests.exchange.method_workers:laws_of_all"
"""What runs in the ranks, by name: this process need not import it."""
ARGUMENTS = {
    "methods": [text for text in METHODS if text not in VARIANTS],
    "every step": EVERY_STEP,
    "periodic": list(PERIODIC),
}
"""Of ``method_workers.everything``."""


@pytest.fixture
def ranks(processes: Processes) -> list[dict[str, Any]]:
    return processes.results("methods")


def check_laws(text: str, results: list[dict[str, Any]]) -> None:
    """Assert what must hold of a method, given the results of all ranks."""
    method, first = exchange.find(text), results[0]
    assert all(result["digests"] == first["digests"] for result in results), "replicas differ"
    assert all(result["resumed"] == first["resumed"] for result in results)
    if "float32" not in text and "table2" not in text:  # noise, and torch's order of additions, depend on the bucket
        assert first["resumed"][0] == first["resumed"][1], "resumed, it goes on otherwise"
    assert first["error"] <= METHODS[text]
    if method.scale_free:
        assert first["scaled"][1:] == first["scaled"][:1] * 2, "the scale of gradients matters"
    if first["kept"] is not None:
        assert first["kept"] <= 1e-6, "something is neither sent nor kept"
    if "feedback" in method.name and "feedback=no" not in method.name and "node=4" not in text:
        assert max(result["given back"] for result in results) < 1e-6, "stepping aside loses residuals"
    values = sum(prod(shape) for shape in SHAPES)
    assert sum(result["state"] for result in results) / len(results) == pytest.approx(
        method.state_values * values, rel=0.01
    ), "plans count another state than a rank keeps"
    sent, planned = sum(result["sent"] for result in results) / len(results), first["planned"]
    if not method.needs_values:
        assert sent == pytest.approx(planned, rel=0.01)
    assert all("refused" in result or result["passed_on"] for result in results), "Inf must reach the loss scaler"
    assert all(result["recovered"] for result in results)


@pytest.mark.long
@pytest.mark.parametrize("text", ARGUMENTS["methods"])
def test_a_method_keeps_its_laws(ranks: list[dict[str, Any]], text: str) -> None:
    check_laws(text, [rank["laws"][text] for rank in ranks])


@pytest.mark.slow
def test_variants_of_methods_keep_their_laws() -> None:
    ranks = [outcome.value for outcome in launch(LAWS, RANKS, TIMEOUT, {"methods": sorted(VARIANTS)})]
    for text in VARIANTS:
        check_laws(text, [rank[text] for rank in ranks])


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 8])
def test_methods_among_other_numbers_of_ranks(count: int) -> None:
    methods = [text for text in METHODS if "node=4" not in text and "table2" not in text]
    arguments = {"methods": methods}
    ranks = [outcome.value for outcome in launch(LAWS, count, TIMEOUT, arguments)]
    for text in methods:
        check_laws(text, [rank[text] for rank in ranks])


@pytest.mark.long
def test_power_sgd_is_exact_for_gradients_of_its_rank(ranks: list[dict[str, Any]]) -> None:
    assert all(rank["factors"] < 1e-5 for rank in ranks)


@pytest.mark.long
def test_the_function_averages_any_tensor(ranks: list[dict[str, Any]]) -> None:
    for rank in ranks:
        results = rank["functions"]
        assert all(results[name] for name in results if name.startswith("torch.")), results
        assert results["float64"]
        assert "works in float32" in results["refused {'method': 'int8'}"]
        assert "does not average gradients at every step" in results["refused {'method': 'diloco'}"]
        assert results["closed"].endswith("the exchange is closed")
        assert "neither method nor state" in results["refused {}"]
        assert results["stateful"] < 0.2


@pytest.mark.long
@pytest.mark.parametrize("text", EVERY_STEP)
def test_exchanging_every_step_is_plain_sgd(ranks: list[dict[str, Any]], text: str) -> None:
    assert max(rank["periodic"]["every step"][text] for rank in ranks) < 1e-6


@pytest.mark.long
@pytest.mark.parametrize("text", PERIODIC)
def test_ranks_train_alone_and_agree_when_it_is_due(ranks: list[dict[str, Any]], text: str) -> None:
    results = [rank["periodic"]["training"][text] for rank in ranks]
    due = PERIODIC[text]
    for result in results:
        assert [step for step, exchanged in enumerate(result["exchanged"], start=1) if exchanged] == due
        assert result["exchanges"] == len(due)
        assert result["resumed"] == result["steps"][-1], "resumed, it goes on otherwise"
    whole = "fragments=" not in text
    for step in range(1, 13):
        digests = {result["steps"][step - 1] for result in results}
        assert len(digests) == (1 if step in due and whole else RANKS)
    assert sum(r["losses"][-1] for r in results) < sum(r["losses"][0] for r in results)


@pytest.mark.long
def test_other_methods_and_wrapped_models_are_refused(ranks: list[dict[str, Any]]) -> None:
    expected = [
        "averages gradients at every step: expected localsgd or diloco",
        "expected the module itself",
        "expected a whole number from 1",
        "differ in parameter",
        f"backup/turn has 3 values, the parameter {360 if can_shard() else 180}",
    ]
    for rank in ranks:
        lines = rank["periodic"]["refusals"]
        assert all(words in line for words, line in zip(expected, lines, strict=True)), lines
