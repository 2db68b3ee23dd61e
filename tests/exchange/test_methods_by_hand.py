"""Phases, work and names of every method for a gradient of 3 x 5 and 7 values, counted by hand."""

from __future__ import annotations

from dataclasses import astuple
from math import log2

import pytest

from lightloom.core.errors import ConfigError
from lightloom.exchange.method import Gradient, Phase, Work, nbytes_of_terms, sent_in_phase, sum_over_hops
from lightloom.exchange.methods import (
    BuiltInExchange,
    DiLoCoExchange,
    PowerSgdExchange,
    TopKExchange,
    TwoLevelExchange,
    compared,
    find,
)

GRADIENT = Gradient(((3, 5), (7,)))
RANKS = 4
Phases = list[tuple[str, float, str, bool]]


def everywhere(*phases: tuple[str, float], hideable: bool = True) -> Phases:
    return [(kind, nbytes, "everywhere", hideable) for kind, nbytes in phases]


INT8 = "(int8:block=8)"
CASES: list[tuple[str, Phases, Work]] = [
    ("float32", everywhere(("all-reduce", 88.0)), Work()),
    # Of 15 values there are two blocks, of 7 one; each has 2 bytes of scale.
    (
        "int8:block=8",
        everywhere(("all-to-all", 3 * 10.0), ("all-gather", 3 * 10.0)),
        Work(encoded_values=22, decoded_values=22 * 1.75, encoded_messages=4, decoded_messages=7),
    ),
    (
        "int3:block=8",
        everywhere(("all-to-all", 3 * 5.0), ("all-gather", 3 * 5.0)),
        Work(encoded_values=22, decoded_values=22 * 1.75, encoded_messages=4, decoded_messages=7),
    ),
    (
        "bf16",
        everywhere(("all-to-all", 44.0), ("all-gather", 44.0)),
        Work(encoded_values=22, decoded_values=22 * 1.75, encoded_messages=4, decoded_messages=7),
    ),
    # Of 15 values two are kept, of 7 one; each takes 8 bytes, from each of four ranks.
    (
        "topk:share=0.1",
        everywhere(("all-gather", 4 * 3 * 8.0)),
        Work(encoded_values=22, decoded_values=12, encoded_messages=1, decoded_messages=4),
    ),
    (
        "powersgd:rank=1",
        everywhere(("all-reduce", 4 * 7.0), ("all-reduce", 4 * 3.0), ("all-reduce", 4 * 5.0)),
        Work(encoded_values=30, decoded_values=15, calls=3, flops=6 * 15 + 2 * 3),
    ),
    # Factors of rank 2 would have 16 values, more than the matrix.
    ("powersgd:rank=2", everywhere(("all-reduce", 88.0)), Work()),
    (
        "truncate:bits=24",
        everywhere(("all-reduce", 22 * 1.0 + 4 * 32)),
        Work(encoded_values=22, decoded_values=22 * 1.75, encoded_messages=4, decoded_messages=7),
    ),
    # Blocks of four values: four of 15, two of 7, an exponent each from every rank.
    (
        "optical:bits=12,block=4",
        everywhere(("all-gather", 4 * 6.0), ("all-reduce", 33.0)),
        Work(encoded_values=22, decoded_values=22, encoded_messages=1, decoded_messages=1),
    ),
    ("localsgd:every=20", everywhere(("all-reduce", 88.0), hideable=False), Work()),
    (
        f"diloco:every=30,inner={INT8},fragments=2",
        everywhere(
            ("all-to-all", 20.0), ("all-gather", 20.0), ("all-to-all", 10.0), ("all-gather", 10.0), hideable=False
        ),
        Work(encoded_values=22, decoded_values=22 * 1.75, encoded_messages=8, decoded_messages=14),
    ),
    # A slot has 11 values, two blocks; two slots of float32 go around in a node.
    (
        f"two-level:between={INT8},node=2",
        [
            ("reduce-scatter", 88.0, "in a node", True),
            ("all-to-all", 20.0, "between nodes", True),
            ("all-gather", 20.0, "between nodes", True),
            ("all-gather", 88.0, "in a node", True),
        ],
        Work(encoded_values=11, decoded_values=11 * 1.5, encoded_messages=2, decoded_messages=3),
    ),
    (
        f"two-level:inside=(ring:coding={INT8}),between=bf16,node=4",
        [("reduce-scatter", 40.0, "in a node", True), ("all-gather", 40.0, "in a node", True)],
        Work(encoded_values=24, decoded_values=24 * 1.75, encoded_messages=4, decoded_messages=7),
    ),
    (
        f"two-level:inside=(ring:coding={INT8}),between=bf16,node=2",
        [
            ("reduce-scatter", 40.0, "in a node", True),
            ("all-to-all", 22.0, "between nodes", True),
            ("all-gather", 22.0, "between nodes", True),
            ("all-gather", 40.0, "in a node", True),
        ],
        Work(encoded_values=11 + 22, decoded_values=11 * 1.5 + 22 * 1.5, encoded_messages=4, decoded_messages=6),
    ),
]


@pytest.mark.parametrize(("name", "phases", "work"), CASES)
def test_what_a_method_sends_and_computes(name: str, phases: Phases, work: Work) -> None:
    method = find(name)
    found = method.phases(GRADIENT, RANKS)
    assert [(each.kind, each.nbytes, each.where, each.hideable) for each in found] == phases
    assert all(each.nbytes_by_terms == () for each in found)
    assert astuple(method.work(GRADIENT, RANKS)) == pytest.approx(astuple(work))


DEFAULTS = [
    "float32",
    "bf16",
    "fp16",
    "fp8:block=256",
    "int8:block=256",
    "int4:block=128,feedback",
    "int3:block=128,feedback",
    "lloyd2:block=64,feedback",
    "sign:block=256,feedback",
    "codec:name=block-fixed-point:8",
    "inceptionn:bound=2^-10,feedback",
    "truncate:bits=16",
    "topk:share=0.01,feedback",
    "powersgd:rank=2,feedback",
    "localsgd:every=20",
    "diloco:every=50,inner=float32,fragments=1,outer_lr=0.7,outer_momentum=0.9",
    "two-level:inside=float32,between=(int4:block=128,feedback),node=8",
    "optical:averager=ideal,bits=16,block=256",
]


@pytest.mark.parametrize("name", DEFAULTS)
def test_defaults_are_spelled_in_full(name: str) -> None:
    method = find(name.partition(":")[0])
    assert method.name == str(method) == name and find(name) == method
    assert isinstance(method, BuiltInExchange) and method.family == name.partition(":")[0]
    assert method.feedback == name.endswith(",feedback")
    other = (
        find(f"{name.partition(':')[0]}:feedback={'no' if method.feedback else 'yes'}") if off_and_on(name) else None
    )
    if other is not None:
        assert other.feedback != method.feedback
        assert other.name == (f"{name}=no" if method.feedback else f"{name}{',' if ':' in name else ':'}feedback")


def off_and_on(name: str) -> bool:
    return name.partition(":")[0] not in ("float32", "localsgd", "diloco", "two-level", "optical")


LIMITS: list[tuple[str, list[object], list[object]]] = [
    ("int8:block={}", [8, 64, 4096], [4, 12, 8192, -8, "8.0"]),
    ("topk:share={}", [1e-6, 1], [9e-7, 1.01, "nan", "x"]),
    ("powersgd:rank={}", [1, 1024], [0, 1025]),
    ("localsgd:every={}", [1, 100_000], [0, 100_001]),
    ("diloco:every=5,fragments={}", [1, 5], [0, 6]),
    ("diloco:outer_lr={}", [0, 10], [-0.1, 10.1]),
    ("diloco:outer_momentum={}", [0, 0.9999], [-0.1, 1]),
    ("two-level:node={}", [2, 4096], [1, 4097]),
    ("optical:bits={}", [2, 32], [1, 33]),
    ("optical:block={}", [1, 1 << 20], [0, (1 << 20) + 1]),
    ("inceptionn:bound={}", ["2^-1", "2**-14", "0.5", 2.0**-14], ["2^0", "2^-15", 0.75, -0.5, "x"]),
    ("truncate:bits={}", [16, 22, 24], [8, 23]),
]


@pytest.mark.parametrize(("text", "good", "bad"), LIMITS)
def test_options_have_limits(text: str, good: list[object], bad: list[object]) -> None:
    for value in good:
        assert find(text.format(value))
    for value in bad:
        with pytest.raises(ConfigError):
            find(text.format(value))


def test_bounds_are_read_as_their_exponents() -> None:
    for text, exponent in (("2^-1", 1), ("0.25", 2), ("2**-14", 14), ("0.0009765625", 10)):
        method = find(f"inceptionn:bound={text}")
        assert getattr(method, "exponent", 0) == exponent and f"bound=2^-{exponent}" in method.name
    assert find("inceptionn:bound=2^-3").codec == "inceptionn:2^-3"  # type: ignore[attr-defined]
    assert find("inceptionn:bound=2^-3,scaled").codec == "inceptionn-scaled:2^-3"  # type: ignore[attr-defined]
    assert find("truncate:bits=22").codec == "truncate:22"  # type: ignore[attr-defined]


PROPERTIES = {
    # name: (scale-free, one kernel, bytes depend on values, values kept, every)
    "float32": (True, True, False, 0.0, 1),
    "fp16": (False, True, False, 0.0, 1),
    "bf16:feedback": (True, True, False, 1.0, 1),
    "fp8": (True, False, False, 0.0, 1),
    "int4": (True, True, False, 1.0, 1),
    "topk": (True, False, False, 1.0, 1),
    "powersgd:feedback=no": (False, True, False, 0.0, 1),
    "inceptionn": (False, True, True, 1.0, 1),
    "inceptionn:scaled": (True, True, True, 1.0, 1),
    "truncate:bits=22": (True, True, False, 0.0, 1),
    "truncate:bits=24": (False, True, False, 0.0, 1),
    "codec": (False, True, True, 0.0, 1),
    "optical": (True, True, False, 0.0, 1),
    "optical:averager=(digit-sum:levels=2)": (False, True, False, 0.0, 1),
    "localsgd": (True, True, False, 0.0, 20),
    "diloco:inner=inceptionn": (False, True, True, 3.0, 50),
    "diloco:inner=float32,every=7": (True, True, False, 2.0, 7),
    "two-level:between=int4,node=4": (True, True, False, 0.25, 1),
    "two-level:between=fp16,node=4": (False, True, False, 0.0, 1),
    "two-level:between=inceptionn,node=4": (False, True, True, 0.25, 1),
    "two-level:inside=(ring:coding=fp16),between=int8,node=4": (False, True, False, 0.0, 1),
}


@pytest.mark.parametrize("name", PROPERTIES)
def test_properties_of_methods(name: str) -> None:
    method = find(name)
    found = method.scale_free, method.fused, method.needs_values, method.state_values, method.every
    assert found == PROPERTIES[name]
    assert method.synchronous == (method.every == 1)
    inner = {"diloco:inner=inceptionn": "inceptionn", "two-level:between=int4,node=4": "int4"}.get(name)
    assert method.coding == (find(inner) if inner else method.coding)
    assert (method.coding == method) == (method.name.partition(":")[0] not in ("diloco", "two-level"))


def test_tensors_are_divided_into_fragments_about_equally_large() -> None:
    """The first fragment ends at the tensor that passes its share, and none is empty."""
    for values, fragments, sizes in (
        ((1, 1, 10, 1, 1), 2, [3, 2]),
        ((1, 1, 10, 1, 1), 3, [3, 1, 1]),
        ((10, 1, 1), 3, [1, 1, 1]),
        ((1, 1, 10), 3, [1, 1, 1]),
        ((4, 4, 4, 4), 2, [2, 2]),
        ((5, 1, 1, 5), 2, [2, 2]),
        ((3,), 5, [1]),
    ):
        method = find(f"diloco:fragments={fragments}")
        assert isinstance(method, DiLoCoExchange)
        parts = method.parts(Gradient(tuple((count,) for count in values)))
        assert [len(part.shapes) for part in parts] == sizes
    method = find("diloco:every=50,fragments=3")
    assert isinstance(method, DiLoCoExchange)
    assert [method.turn(fragment) for fragment in range(3)] == [16, 33, 50]


def test_factors_of_tensors_are_cut_to_their_sizes() -> None:
    method = find("powersgd:rank=4")
    assert isinstance(method, PowerSgdExchange)
    assert method.factors((100, 4, 10)) == (100, 40, 4)
    assert method.factors((100, 3)) is None  # 103 times 3 values are more than 300
    assert method.factors((1, 9)) is None and method.factors((9,)) is None and method.factors(()) is None
    one = find("powersgd:rank=1")
    assert isinstance(one, PowerSgdExchange)
    assert one.factors((2, 3)) == (2, 3, 1) and one.factors((2, 2)) is None


def test_a_tensor_sends_at_least_one_value_and_at_most_all() -> None:
    method = find("topk:share=0.3")
    assert isinstance(method, TopKExchange)
    assert [method.kept(values) for values in (0, 1, 3, 4, 10, 11)] == [0, 1, 1, 2, 3, 4]


def test_ranks_of_two_levels() -> None:
    method = find("two-level:between=int8,node=4")
    assert isinstance(method, TwoLevelExchange)
    inside, between = (Phase(kind="all-gather", nbytes=1.0, where=where) for where in ("in a node", "between nodes"))
    assert (method.ranks_of(inside, 12), method.ranks_of(between, 12)) == (4, 3)
    assert method.slot(GRADIENT).shapes == ((6,),)
    with pytest.raises(ConfigError, match="10 ranks: expected a multiple of node=4"):
        method.nodes(10)
    nested = find("diloco:inner=(two-level:between=int8,node=4)")
    assert nested.ranks_of(inside, 12) == 4
    with pytest.raises(ConfigError, match=r"inside=\(in-network:coding=float32,fabric=wdm-ring\) among 4 ranks"):
        find("two-level:inside=(in-network:coding=float32),node=4")


def test_sums_around_a_ring_grow_with_their_terms() -> None:
    """Four ranks: sums of 1, 2 and 3 gradients to their owners, those of all four back."""
    phase = Phase(kind="all-reduce", nbytes=100.0, nbytes_by_terms=((1, 100.0), (4, 200.0)))
    sizes = [nbytes_of_terms(phase, terms) for terms in (1, 2, 3, 4, 8)]
    assert sizes == pytest.approx([100.0, 150.0, 100 + 50 * log2(3), 200.0, 200.0])
    assert sum_over_hops(phase, 4) == pytest.approx(sum(sizes[:3]) / 3)
    assert sum_over_hops(phase, 1) == 0
    assert sent_in_phase(phase, 4) == pytest.approx(0.75 * (sum(sizes[:3]) / 3 + 200))
    for kind, factor in (("all-reduce", 1.5), ("reduce-scatter", 0.75), ("all-gather", 0.75), ("all-to-all", 0.75)):
        assert sent_in_phase(Phase(kind=kind, nbytes=100.0), 4) == 100 * factor  # type: ignore[arg-type]


def test_comparisons_run_a_method_of_each_family_that_can_be_compared() -> None:
    narrow = ("bf16", "fp16", "fp8", "int8", "int4", "int3", "lloyd2", "sign")
    others = ("inceptionn", "inceptionn:scaled", "truncate", "topk", "powersgd", "localsgd", "diloco:every=20")
    assert [name for name in compared() if name.partition(":")[0] in {*narrow, "float32", *others, "diloco"}] == [
        "float32",
        *narrow,
        *others,
    ]
    assert not {"codec", "two-level", "optical"} & set(compared())
