"""What is timed of a method's kernels: the values, matrices and messages that they are given."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from lightloom.exchange import measuring
from lightloom.exchange.comparison import REFERENCE, Case, Result, cases, compare_runs
from lightloom.exchange.measuring import KernelRates, measurable, measure_kernels
from lightloom.exchange.methods import BlockExchange, PowerSgdExchange, RingCodecExchange, TopKExchange, find

VALUES = measuring._draw_values(4096)


def test_values_are_small_and_always_the_same() -> None:
    assert VALUES.dtype == np.float32 and VALUES.shape == (4096,)
    assert np.array_equal(VALUES, measuring._draw_values(4096))
    assert float(VALUES.std()) == pytest.approx(1e-3, rel=0.05) and abs(float(VALUES.mean())) < 1e-4


@pytest.mark.parametrize(
    ("count", "rank", "shape"), [(4096, 2, (16, 2)), (4096, 300, (16, 256)), (1 << 15, 3, (32, 3))]
)
def test_products_are_those_of_narrow_matrices(count: int, rank: int, shape: tuple[int, int]) -> None:
    """Of 4096 values a matrix of 16 x 256, of 32,768 one of 32 x 1024; by a factor of ones."""
    method = find(f"powersgd:rank={rank}")
    assert isinstance(method, PowerSgdExchange)
    encode, decode = measuring._products(method, count)
    made, left = encode(), decode()
    assert isinstance(made, torch.Tensor) and isinstance(left, torch.Tensor) and made.shape == shape
    matrix = torch.from_numpy(measuring._draw_values(count)).view(shape[0], -1)
    sums = matrix.sum(1)
    assert torch.allclose(made[:, 0], sums, atol=1e-6)
    assert torch.allclose(left, matrix - shape[1] * sums[:, None], atol=1e-4)


@pytest.mark.parametrize("feedback", ["", ",feedback"])
def test_blocks_are_coded_with_errors_where_the_method_keeps_them(feedback: str) -> None:
    method = find(f"int8:block=64{feedback}")
    assert isinstance(method, BlockExchange)
    encode, decode = measuring._block_kernels(method, 4096)
    encode()
    out = measuring_out(decode)
    assert torch.allclose(out, torch.from_numpy(VALUES), atol=2e-5)
    encode()
    again = measuring_out(decode)
    # Added once more; with feedback the second message makes up for the first one's error.
    error = (again - 2 * torch.from_numpy(VALUES)).abs().max()
    single = (out - torch.from_numpy(VALUES)).abs().max()
    assert (error < 1.2 * single) == bool(feedback)


def measuring_out(decode: object) -> torch.Tensor:
    """The buffer that a decoder adds to, after one more call."""
    decode()  # type: ignore[operator]
    cells = [cell.cell_contents for cell in decode.__closure__]  # type: ignore[attr-defined]
    (out,) = (cell for cell in cells if isinstance(cell, torch.Tensor) and cell.dtype == torch.float32)
    return out.clone()


@pytest.mark.parametrize("feedback", ["yes", "no"])
def test_codecs_code_the_values_and_leave_them(feedback: str) -> None:
    method = find(f"truncate:bits=16,feedback={feedback}")
    assert isinstance(method, RingCodecExchange)
    encode, decode = measuring._codec_kernels(method, 256)
    first, second = encode(), encode()
    assert bytes(first) == bytes(second)  # type: ignore[call-overload]
    decode()
    decode()
    (out,) = (cell.cell_contents for cell in decode.__closure__ or () if isinstance(cell.cell_contents, np.ndarray))
    assert np.allclose(out, 2 * measuring._draw_values(256), rtol=0.02)


def test_the_largest_values_are_chosen_with_what_was_kept() -> None:
    for text, same in (("topk:share=0.25", False), ("topk:share=0.25,feedback=no", True)):
        method = find(text)
        assert isinstance(method, TopKExchange)
        encode, decode = measuring._top_k(method, 256)
        first, second = encode(), encode()
        assert isinstance(first, torch.Tensor) and isinstance(second, torch.Tensor)
        assert first.shape == (2 * 64,) and torch.equal(first, second) is same
        decode()


def test_methods_that_code_nothing_are_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [measurable(find(name)) for name in ("int8", "truncate", "topk", "powersgd", "diloco:inner=int8")] == [
        True
    ] * 5
    assert [measurable(find(name)) for name in ("float32", "localsgd", "optical")] == [False] * 3
    monkeypatch.setattr(measuring, "_LARGE", 4096)
    found = measure_kernels(find("diloco:inner=(int8:block=64)"))
    assert found.kernel == "int8 kernels on one thread"
    assert min(found.encode, found.decode) > 0 and found.encode_message >= 0 and found.decode_message >= 0
    assert replace(found, flops=1.0) == KernelRates(
        encode=found.encode,
        decode=found.decode,
        encode_message=found.encode_message,
        decode_message=found.decode_message,
        kernel=found.kernel,
        flops=1.0,
    )


# Comparisons.


def result(method: str, loss: float, sent: float, seed: int = 0, seconds: float = 0.01) -> Result:
    case = Case(task="chars", method=method, seed=seed, steps=4, ranks=2)
    return Result(case, [2, 4], [2 * loss, loss], sent, 1000.0, True, "", seconds)


def test_the_front_is_what_nothing_beats_in_bytes_and_loss() -> None:
    """A row of the same bytes and a lower loss beats another, so does one of the same loss and fewer bytes; no twin."""
    rows = [(REFERENCE, 1.0, 1000.0), ("a", 2.0, 500.0), ("b", 2.5, 500.0), ("c", 2.0, 600.0), ("d", 2.0, 500.0)]
    found = compare_runs([result(*row) for row in rows], 1e6)
    assert {row.method: row.on_front for row in found} == {
        REFERENCE: True,
        "a": True,
        "b": False,
        "c": False,
        "d": True,
    }


def test_runs_are_told_apart_by_all_that_they_are() -> None:
    base = Case(task="chars", method="int8", seed=0, steps=4, ranks=2)
    others = [
        replace(base, task="mnist"), replace(base, method="int4"), replace(base, seed=1), replace(base, steps=5),
        replace(base, ranks=3),
    ]  # fmt: skip
    assert len({case.file for case in (base, *others)}) == 6
    assert len(base.file) == 16 + 5 and base.file.endswith(".json") and int(base.file[:16], 16) > 0
    assert [(case.seed, case.ranks, case.steps, case.task) for case in cases("mnist", [], 2, 3, 7)] == [
        (0, 3, 7, "mnist"),
        (1, 3, 7, "mnist"),
    ]


@pytest.mark.parametrize("name", ["int8", "topk", "powersgd"])
def test_kernels_run_on_one_thread(name: str) -> None:
    method, before = find(name), torch.get_num_threads()
    made: Any = {"int8": measuring._block_kernels, "topk": measuring._top_k, "powersgd": measuring._products}[name]
    torch.set_num_threads(2)
    try:
        made(method, 256)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)
