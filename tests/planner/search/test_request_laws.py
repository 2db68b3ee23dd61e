"""What can be asked of a search, which kinds of plans that leaves, and what pins say of rows."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest

from lightloom.core.errors import (
    ConfigError,
    LightloomError,
    UnknownNameError,
    UnsupportedError,
)
from lightloom.planning.parallelism.plan import RECOMPUTATIONS
from lightloom.planning.parallelism.strategy_space import MOST_MICRO_BATCHES, MOST_VIRTUAL_STAGES, SHARDINGS
from lightloom.planning.search.request import KINDS, Pins, SearchRequest
from lightloom.planning.search.rows import with_largest_batch
from tests.planner.jobs import job, mixture, space

NAMES = [each.name for each in fields(Pins)]


def pinned(name: str) -> Pins:
    """One choice of two."""
    given: Any = {name: 2}
    return Pins(**given)


def test_pins_say_whether_there_are_any_and_what_they_allow() -> None:
    assert not Pins() and [name for name, _ in Pins()] == NAMES
    values: dict[str, Any] = dict.fromkeys(NAMES, 2) | {"recomputation": "full", "sharding": "zero-1"}
    values |= {"sequence_parallel": False}
    for name, value in values.items():
        pins = Pins(**{name: value})
        assert pins and dict(pins)[name] == value
        assert pins.allows(**{name: value}) and not pins.allows(**{name: "another"}) and pins.allows()
        assert Pins().allows(**{name: value})
        assert pins.allow_placed == (name in ("micro_batches", "micro_batch", "recomputation"))
    assert not Pins(tp=2, pp=2).allows(tp=2, pp=1) and Pins(tp=2, pp=2).allows(tp=2, pp=2, dp=3)
    placed = {kind: Pins(recomputation=kind).allow_placed for kind in RECOMPUTATIONS}
    assert placed == {"none": True, "full": True, "selective": False}
    assert (Pins(sharding="ddp").sharding, Pins(sharding="fsdp").sharding) == ("none", "zero-3")


def test_rows_match_that_have_everything_that_is_pinned() -> None:
    """One replica is sharded in every way and in none."""
    rows = space(job(2, 4, model=mixture), (8,))
    choices = [rows[row] for row in range(len(rows))]
    pins = [
        Pins(),
        *(Pins(sharding=sharding) for sharding in SHARDINGS),
        *(Pins(recomputation=kind, tp=2) for kind in RECOMPUTATIONS),
        *(Pins(micro_batch=count, ep=2) for count in (1, 2)),
        Pins(dp=2, pp=2, sequence_parallel=False, virtual_stages=1),
        Pins(tp=2, sequence_parallel=True, micro_batches=4),
    ]
    for each in pins:
        wanted = {name: value for name, value in each if value is not None and name not in ("sharding", "micro_batch")}
        assert each.match(rows).tolist() == [
            all(getattr(choice, name) == value for name, value in wanted.items())
            and (each.sharding in (None, choice.sharding) or choice.replicas == 1)
            and each.micro_batch in (None, choice.samples)
            for choice in choices
        ]
        assert each.match(rows).any() or each.recomputation == "selective"


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"global_batches": ()}, ConfigError),
        ({"global_batches": (4, 0)}, ConfigError),
        ({"quanta": ()}, ConfigError),
        ({"quanta": (1e-6, 0.0)}, ConfigError),
        ({"quanta": (float("nan"),)}, ConfigError),
        ({"strategies": ()}, ConfigError),
        ({"strategies": ("ddp", "magic")}, UnknownNameError),
        ({"algorithms": ("ring", "magic")}, UnknownNameError),
        ({"pins": Pins(recomputation="half")}, UnknownNameError),
        ({"pins": Pins(sharding="zero-9")}, UnknownNameError),
        *(
            ({"pins": pinned(name), "strategies": ("fsdp", "ddp")}, UnsupportedError)
            for name in ("tp", "pp", "cp", "ep")
        ),
        ({"reconfigure_in_step": True, "cost_model": "paper"}, UnsupportedError),
        ({"reconfigure_in_step": True, "overlap": False}, UnsupportedError),
        ({"strategies": ("placed",), "overlap": False}, UnsupportedError),
        ({"strategies": ("placed", "tensor-pipeline"), "cost_model": "paper"}, UnsupportedError),
        ({"strategies": ("placed",), "pins": Pins(dp=1)}, UnsupportedError),
    ],
)
def test_what_no_search_can_answer_is_refused(asked: dict[str, Any], error: type[LightloomError]) -> None:
    with pytest.raises(error):
        SearchRequest(**asked)


def test_the_least_that_can_be_asked_is_allowed() -> None:
    SearchRequest(global_batches=(1,), quanta=(1e-30,), strategies=("ddp",), pins=Pins(tp=1, pp=1, cp=1, ep=1, dp=2))
    SearchRequest(strategies=("ddp", "tensor-pipeline"), pins=Pins(tp=2))
    SearchRequest(strategies=("placed", "ddp"), reconfigure_in_step=True, algorithms=("library", "ring"))
    for kind, sharding in product(RECOMPUTATIONS, SHARDINGS):
        SearchRequest(pins=Pins(recomputation=kind, sharding=sharding))


def test_kinds_are_those_that_are_asked_for_once_and_can_be_searched() -> None:
    """The paper's model and steps without overlap are of data parallelism alone; placed plans have no degrees."""
    asked = ("placed", "fsdp", "ddp", "placed", "tensor-pipeline")
    for paper, overlap, pins in product((False, True), (False, True), (Pins(), Pins(micro_batches=2), Pins(dp=2))):
        request = SearchRequest(
            strategies=asked, cost_model="paper" if paper else "physical", overlap=overlap, pins=pins
        )
        kinds = ["placed", "fsdp", "ddp", "tensor-pipeline"]
        if paper or not overlap:
            kinds = ["fsdp", "ddp"]
        elif pins.dp:
            kinds.remove("placed")
        assert list(request.kinds) == kinds
    assert SearchRequest().kinds == KINDS


def test_what_is_pinned_is_tried_however_large() -> None:
    for given, (most, chunks) in (
        (Pins(), (MOST_MICRO_BATCHES, MOST_VIRTUAL_STAGES)),
        (Pins(micro_batches=1, virtual_stages=1), (MOST_MICRO_BATCHES, MOST_VIRTUAL_STAGES)),
        (Pins(micro_batches=5000, virtual_stages=99), (5000, 99)),
    ):
        request = SearchRequest(pins=given)
        assert (request.most_micro_batches, request.most_virtual_stages) == (most, chunks)


def test_methods_get_the_engines_of_a_cluster() -> None:
    methods: Any = [SimpleNamespace(on=lambda chip, number=number: (number, chip)) for number in range(2)]
    chip: Any = "chip"
    found: Any = replace(SearchRequest(), exchanges=methods).exchanges_on(chip)
    assert found == ((0, chip), (1, chip))


def test_no_batch_is_the_largest_where_none_fits() -> None:
    rows = space(job(1, 2), (2, 4))
    rows = rows.rows((rows.dp == 2) & (rows.micro_batches == 1) & (rows.recomputation == 0) & (rows.sharding == 0))
    assert rows.global_batch.tolist() == [2, 4]
    rows.global_batch[0] = 1
    for fitting in product((False, True), repeat=2):
        most = [fitting[0] and not fitting[1], fitting[1]]
        assert with_largest_batch(rows, rows.dp * 0 + fitting > 0).tolist() == most


def test_refusals_name_what_was_asked() -> None:
    for asked, told in (({"cost_model": "paper"}, "--cost-model paper"), ({"overlap": False}, "--pin overlap=no")):
        with pytest.raises(UnsupportedError, match=f"^--reconfigure-in-step and {told}: "):
            SearchRequest(reconfigure_in_step=True, **asked)
    for asked, told in (({"cost_model": "paper"}, "the paper cost model"), ({"overlap": False}, "--pin overlap=no")):
        with pytest.raises(UnsupportedError, match=f"^{told} is not for --strategy placed"):
            SearchRequest(strategies=("placed",), **asked)


def test_a_model_of_one_block_has_one_stage() -> None:
    of = job(1, 2)
    assert Pins(tp=1).contradiction(of, (8,)) is None is Pins(virtual_stages=1).contradiction(of, (8,))
    for pins in (Pins(pp=2), Pins(virtual_stages=2)):
        assert "2 stages: the model has 1 blocks" in str(pins.contradiction(of, (8,)))


def test_experts_are_shared_by_the_ranks_that_hold_the_same_parameters() -> None:
    of = job(1, 8, model=mixture)
    for dp, cp, ep in product((1, 2, 4), (None, 1, 2), (2, 4)):
        reasons = filter(None, Pins(dp=dp, cp=cp, ep=ep)._contradictions(of, (16,)))
        assert any("experts to divide the replicas" in why for why in reasons) == (dp * (cp or 1) % ep > 0)


def test_micro_batches_of_interleaved_stages_are_a_multiple_of_the_stages_that_there_are() -> None:
    of, pins = job(6, 6), Pins(virtual_stages=2, micro_batches=3)
    rows = space(of, (36,))
    assert pins.contradiction(of, (36,)) is None and set(rows.pp[pins.match(rows)].tolist()) == {3}
