"""Methods are what their names say: names read back, bytes add up, options out of range are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.core.errors import ConfigError, UnknownNameError
from lightloom.exchange.method import (
    CodedSums,
    Gradient,
    Phase,
    nbytes_of_terms,
    sent_in_phase,
)
from lightloom.exchange.methods import (
    DiLoCoExchange,
    PowerSgdExchange,
    TopKExchange,
    TwoLevelExchange,
    families,
    find,
    names,
)

shapes = st.lists(st.lists(st.integers(1, 300), min_size=1, max_size=3).map(tuple), min_size=1, max_size=5).map(tuple)


@pytest.mark.parametrize("name", names())
def test_names_read_back(name: str) -> None:
    method = find(name)
    assert find(method.name) == method
    assert method.name.partition(":")[0] == name
    assert families()[name].summary


@pytest.mark.parametrize("name", ["bf16", "fp16", "fp8", "int8", "int4", "int3", "lloyd2", "sign"])
@given(shapes=shapes, ranks=st.integers(2, 64))
def test_narrow_formats_send_their_bits(name: str, shapes: tuple[tuple[int, ...], ...], ranks: int) -> None:
    method, gradient = find(name), Gradient(shapes)
    bits = {"bf16": 16, "fp16": 16, "fp8": 8, "int8": 8, "int4": 4, "int3": 3, "lloyd2": 2, "sign": 1}[name]
    sent = method.sent_bytes(gradient, ranks)
    share = 2 * (ranks - 1) / ranks
    block = getattr(method, "block", 0)
    scales = 16 / block if block else 0.0
    least = share * gradient.values * (bits + scales) / 8
    largest = share * (gradient.values + len(shapes) * block) * (bits + scales) / 8  # the last block of each is padded
    assert least - 1e-6 <= sent <= largest + 1e-6


def test_int4_sends_7_8_times_less() -> None:
    gradient = Gradient.flat(1 << 20)
    assert find("float32").sent_bytes(gradient, 4) / find("int4").sent_bytes(gradient, 4) == pytest.approx(512 / 66)


@given(sizes=st.lists(st.floats(1, 1e9), min_size=2, max_size=7), ranks=st.integers(2, 64))
def test_bytes_of_sums_lie_between_their_neighbours(sizes: list[float], ranks: int) -> None:
    measured = tuple((2**k, size) for k, size in enumerate(sorted(sizes)))
    phase = Phase(kind="all-reduce", nbytes=measured[0][1], nbytes_by_terms=measured)
    assert measured[0][1] * (1 - 1e-12) <= nbytes_of_terms(phase, ranks) <= measured[-1][1] * (1 + 1e-12)
    plain = Phase(kind="all-reduce", nbytes=measured[0][1])
    assert sent_in_phase(phase, ranks) >= sent_in_phase(plain, ranks) * (1 - 1e-12)


SPELLINGS = [
    "inceptionn:bound=2^-8",
    "inceptionn:bound=0.0078125,scaled",
    "inceptionn:scaled,feedback=no",
    "truncate:bits=22,feedback",
    "topk:share=0.001",
    "powersgd:rank=4,feedback=no",
    "diloco:every=30,inner=(int4:block=64,feedback),fragments=3,outer_lr=1,outer_momentum=0",
    "two-level:between=(inceptionn:scaled),node=4",
    "two-level:inside=(optree:coding=(int4:block=64,feedback=no)),between=(optical:bits=8),node=4",
    "diloco:inner=(two-level:between=(int8),node=2)",
    "optical:averager=(digit-sum:levels=2,power=-9),bits=8,block=64",
]


@pytest.mark.parametrize("text", SPELLINGS)
def test_options_read_back(text: str) -> None:
    method = find(text)
    assert find(method.name) == method


@given(shapes=shapes, ranks=st.integers(2, 64), bits=st.lists(st.floats(2, 34), min_size=7, max_size=7))
def test_rings_send_sums_of_their_sizes(shapes: tuple[tuple[int, ...], ...], ranks: int, bits: list[float]) -> None:
    """What travels around a ring: sums of 1 to ranks - 1 gradients to their owners, then those of all ranks."""
    method = find("inceptionn:bound=2^-10")
    measured = tuple((2**k, size) for k, size in enumerate(sorted(bits)))
    gradient = Gradient(shapes, (CodedSums("inceptionn:2^-10", measured),))
    [phase] = method.phases(gradient, ranks)
    hops = sum(nbytes_of_terms(phase, terms) for terms in range(1, ranks)) / ranks
    assert method.sent_bytes(gradient, ranks) == pytest.approx(
        hops + (ranks - 1) / ranks * nbytes_of_terms(phase, ranks)
    )
    one_ratio = 2 * (ranks - 1) / ranks * phase.nbytes
    assert method.sent_bytes(gradient, ranks) >= one_ratio * (1 - 1e-12)
    unknown = method.sent_bytes(Gradient(shapes), ranks)
    assert unknown >= method.sent_bytes(gradient, ranks) * (1 - 1e-12), "without measured sizes, the largest"


@given(shapes=shapes, ranks=st.integers(2, 64), share=st.floats(1e-3, 1))
def test_top_k_sends_its_pairs_to_all(shapes: tuple[tuple[int, ...], ...], ranks: int, share: float) -> None:
    method, gradient = find(f"topk:share={share}"), Gradient(shapes)
    assert isinstance(method, TopKExchange)
    kept = method.sent_bytes(gradient, ranks) / (8 * (ranks - 1))
    assert share * gradient.values * (1 - 1e-12) <= kept <= share * gradient.values + len(shapes) + 1e-6


@given(shapes=shapes, ranks=st.integers(2, 64), rank=st.integers(1, 8))
def test_low_rank_factors_never_send_more_than_float32(
    shapes: tuple[tuple[int, ...], ...], ranks: int, rank: int
) -> None:
    method, gradient = find(f"powersgd:rank={rank}"), Gradient(shapes)
    assert isinstance(method, PowerSgdExchange)
    assert method.sent_bytes(gradient, ranks) <= find("float32").sent_bytes(gradient, ranks) * (1 + 1e-12)
    matrices = [factors for shape in shapes if (factors := method.factors(shape))]
    assert all((rows + columns) * few < rows * columns for rows, columns, few in matrices)
    assert (method.work(gradient, ranks).flops > 0) == bool(matrices)


@given(shapes=shapes, fragments=st.integers(1, 8))
def test_fragments_hold_every_tensor_once(shapes: tuple[tuple[int, ...], ...], fragments: int) -> None:
    method, gradient = find(f"diloco:every=50,fragments={fragments}"), Gradient(shapes)
    assert isinstance(method, DiLoCoExchange)
    parts = method.parts(gradient)
    assert sum((part.shapes for part in parts), ()) == shapes
    assert len(parts) == min(fragments, len(shapes)) and all(part.shapes for part in parts)
    assert method.sent_bytes(gradient, 4) == pytest.approx(find("float32").sent_bytes(gradient, 4))
    turns = [method.turn(fragment) for fragment in range(fragments)]
    assert turns[-1] == 50 and len({*turns}) == fragments


@given(values=st.integers(1, 10**6), node=st.integers(2, 8), nodes=st.integers(1, 16))
def test_two_levels_add_up(values: int, node: int, nodes: int) -> None:
    method = find(f"two-level:between=(int8:block=64),node={node}")
    assert isinstance(method, TwoLevelExchange)
    slot = -(-values // node)
    inside = 2 * (node - 1) * slot * 4
    between = find("int8:block=64").sent_bytes(Gradient.flat(slot), nodes) if nodes > 1 else 0.0
    assert method.sent_bytes(Gradient.flat(values), node * nodes) == pytest.approx(inside + between)
    with pytest.raises(ConfigError, match="multiple of node"):
        method.sent_bytes(Gradient.flat(values), node * nodes + 1)


def test_light_sends_codes_and_exponents() -> None:
    """As ``OpticalAverageState.statistics`` counts them: codes up and down, an exponent byte a block to every rank."""
    gradient, ranks = Gradient(((1000,), (24,))), 4
    exponents = (ranks - 1) * (4 + 1)
    assert find("optical").sent_bytes(gradient, ranks) == 2 * (ranks - 1) / ranks * 2 * 1024 + exponents


@pytest.mark.parametrize(
    "text",
    [
        "inceptionn:bound=0.3",
        "inceptionn:bound=2^-15",
        "truncate:bits=8",
        "topk:share=0",
        "powersgd:rank=0",
        "diloco:inner=localsgd",
        "diloco:every=3,fragments=4",
        "diloco:inner=(int4",
        "two-level:inside=(ring:coding=int4)",
        "two-level:inside=(ring:coding=topk)",
        "two-level:inside=(ring:block=8)",
        "two-level:between=powersgd",
        "two-level:between=(two-level:node=2)",
        "optical:bits=1",
        "int4:block=7",
        "int4:blok=64",
        "int4:block=64,block=32",
        "int4:",
        "int4:block=",
        "bf16:block=8",
        "int4:feedback=2",
    ],
)
def test_bad_options_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="exchange '"):
        find(text)


def test_unknown_names_are_refused() -> None:
    for text, kind in {
        "int5": "exchange",
        "two-level:inside=int8": "algorithm",
        "two-level:inside=(ring:fabric=string)": "fabric",
    }.items():
        with pytest.raises(UnknownNameError, match=f"unknown {kind}"):
            find(text)


@given(st.lists(st.integers(1, 1 << 20), min_size=1, max_size=5), st.integers(2, 64))
def test_a_codec_by_its_own_name_sends_what_its_method_sends(sizes: list[int], ranks: int) -> None:
    """Scaled, the ring sends a stream for each tensor, whatever the method is called."""
    shapes = tuple((size,) for size in sizes)
    for scaled in ("", "-scaled"):
        sums = CodedSums(f"inceptionn{scaled}:2^-10", ((1, 12.0),))
        gradient = Gradient(shapes, (sums,))
        named = find(f"inceptionn:bound=2^-10{scaled.replace('-', ',')}")
        assert find(f"codec:name=(inceptionn{scaled}:2^-10)").phases(gradient, ranks) == named.phases(gradient, ranks)


@pytest.mark.parametrize(
    ("name", "bits", "header"),
    [
        ("codec:name=(inceptionn:2^-10)", 32, 32),
        ("inceptionn:bound=2^-10", 34, 32),
        ("truncate:bits=16", 16, 32),
        ("truncate:bits=24", 8, 32),
        ("inceptionn:bound=2^-5,scaled=yes", 34, 2 * 36),
    ],
)
def test_rings_whose_codes_nobody_measured_send_the_most_bits_of_a_value(name: str, bits: int, header: int) -> None:
    """Behind a header for each message, or for each of its tensors, and one for every further 65,536 values."""
    gradient = Gradient(((1 << 19,), (1 << 19,)))
    (phase,) = find(name).phases(gradient, 4)
    assert phase.kind == "all-reduce" and phase.nbytes_by_terms == ()
    assert phase.nbytes == (1 << 20) * bits / 8 + 4 * header + (16 - 4) * 8
    (small,) = find(name).phases(Gradient(((100,), (60,))), 4)
    assert small.nbytes == 160 * bits / 8 + 4 * header
