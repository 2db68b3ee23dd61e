"""Methods are what their names say: names read back, bytes add up, options out of range are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.core.errors import ConfigError, UnknownNameError
from lightloom.exchange.method import Gradient, Phase, nbytes_of_terms, sent_in_phase
from lightloom.exchange.registry import families, find, names

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


@pytest.mark.parametrize(
    "text",
    [
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
    with pytest.raises(UnknownNameError, match="exchange"):
        find("int5")
