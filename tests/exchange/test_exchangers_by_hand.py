"""Exchangers among ranks that are threads: what each rank sends, what is left for the next step, and small means."""

from __future__ import annotations

import math
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import HashStore  # type: ignore[attr-defined]

from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.exchange.compression.registry import find as find_codec
from lightloom.exchange.distributed import block_exchange
from lightloom.exchange.distributed.block_exchange import (
    BlockKernels,
    BlockReference,
    BlockTriton,
    CastFormat,
    wire_format,
)
from lightloom.exchange.distributed.exchanger import Exchanger, PlainExchanger, elements_overlap, real_shape
from lightloom.exchange.distributed.factory import exchanger
from lightloom.exchange.distributed.group import OwnGroup
from lightloom.exchange.distributed.residuals import Geometry, Piece, cut_shares
from lightloom.exchange.distributed.ring_exchange import (
    CodecByTensor,
    OpticalExchanger,
    RingExchanger,
    TensorBlocks,
)
from lightloom.exchange.distributed.sparse_exchange import LargestValues, orthogonalised
from lightloom.exchange.method import Gradient
from lightloom.exchange.methods import BlockExchange, TopKExchange, find
from lightloom.exchange.transport.channel import AgreedError, Stamp, TransportError
from lightloom.photonics.registry import find_averager
from tests.exchange.threads import among

SHAPES = (("weight", (12, 9)), ("bias", (9,)), ("one", (1,)))
GEOMETRY = Geometry.joined(SHAPES)
SIZES = {name: math.prod(shape) for name, shape in SHAPES}


def gradient(rank: int, step: int = 0) -> Tensor:
    """A rank's values of a step, of the same size each step."""
    return torch.randn(GEOMETRY.size, generator=torch.Generator().manual_seed(100 * step + rank))


FED_BACK = [
    "bf16:feedback",
    "fp16:feedback",
    "fp8:feedback",
    "int8:block=8,feedback",
    "int4:block=8",
    "sign:block=8",
    "topk:share=0.2",
    "powersgd:rank=1",
    "inceptionn:bound=2^-4",
    "inceptionn:bound=2^-4,scaled",
    "truncate:bits=22,feedback",
    "two-level:between=(int4:block=8),node=2",
    "two-level:between=(topk:share=0.2),node=2",
]


@pytest.mark.parametrize("name", FED_BACK)
def test_what_an_exchange_leaves_out_is_left_for_the_next(name: str) -> None:
    """Over three steps the results and what ranks have kept at the end make up all gradients, and nothing is kept
    twice."""
    ranks = 4

    def work(group: OwnGroup) -> tuple[list[Tensor], Tensor, bool]:
        run, results = exchanger(find(name), group, SIZES), []
        for step in range(3):
            values = gradient(group.rank, step)
            run.average(values, GEOMETRY)
            results.append(values)
        left = run.drain(GEOMETRY)
        assert left is not None
        return results, left, run.drain(GEOMETRY) is None

    found = among(ranks, work)
    for step in range(3):
        assert all(torch.equal(found[0][0][step], other[0][step]) for other in found)
    wanted = sum(gradient(rank, step) for rank in range(ranks) for step in range(3)) / ranks
    assert isinstance(wanted, Tensor)
    kept = torch.stack([left for _, left, _ in found])
    total = torch.stack(found[0][0]).sum(0)
    assert torch.allclose(total + kept.mean(0), wanted, atol=3e-5)
    assert all(again for _, _, again in found)
    assert float(kept.abs().max()) > 1e-4
    assert not torch.allclose(total, wanted, atol=1e-4)


COUNTED = [
    ("float32", 0.0),
    ("bf16", 0.0),
    ("int8:block=8", 0.0),
    ("topk:share=0.2", 0.0),
    ("powersgd:rank=1", 0.0),
    ("optical:block=8", 0.0),
    ("two-level:between=(bf16),node=2", 0.06),
    ("truncate:bits=16", 0.01),
]


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize(("name", "off"), COUNTED)
def test_ranks_send_what_methods_say(name: str, off: float, ranks: int) -> None:
    """On average over ranks; a slot of a node is rounded up in the plan, and so are the headers of ring messages."""
    if ranks == 1 and name.startswith("two-level"):
        return
    method = find(name)

    def work(group: OwnGroup) -> int:
        run = exchanger(method, group, SIZES)
        run.average(gradient(group.rank), GEOMETRY)
        run.average(gradient(group.rank), GEOMETRY)
        return group.sent

    sent = sum(among(ranks, work)) / ranks / 2
    shapes = tuple(shape for _, shape in SHAPES)
    planned = method.sent_bytes(Gradient(shapes), ranks)
    # Codes of light go to the rank that averages them in equal shares, whose padding is sent too.
    padding = 2 * 2 * (-(-GEOMETRY.size // ranks) * ranks - GEOMETRY.size) * (ranks - 1) / ranks
    assert sent == pytest.approx(planned + padding * name.startswith("optical"), rel=max(off, 1e-9))


@pytest.mark.parametrize("ranks", [2, 3])
def test_halves_hold_a_mean_of_which_a_term_is_too_large_for_them(ranks: int) -> None:
    """fp16 ends at 65,504; a bfloat16 has 8 digits, and is rounded before it is divided."""
    assert [CastFormat(kind).divisor(ranks) for kind in (torch.float16, torch.bfloat16, torch.float32)] == [ranks, 1, 1]
    one = Geometry.joined([("v", (ranks,))])

    def means(name: str, terms: list[float]) -> list[float]:
        def work(group: OwnGroup) -> list[float]:
            values = torch.full((ranks,), terms[group.rank])
            exchanger(find(name), group).average(values, one)
            return values.tolist()

        found = among(ranks, work)
        assert all(each == found[0] for each in found)
        return found[0]

    large = [100_000.0] + [20_000.0 * ranks / 3] * (ranks - 1)
    assert means("fp16", large) == pytest.approx([sum(large) / ranks] * ranks, rel=2e-3)
    # 1.00390625 = 1 + 2^-8 rounds to 1 as a bfloat16, and so does a third of it to another number.
    tie = [1 + 2.0**-8] * ranks
    own = [torch.tensor((tie[0] + (ranks - 1) * 1.0) / ranks).bfloat16().item()] * ranks
    assert means("bf16", tie) == own


def test_the_error_of_a_cast_is_of_what_was_sent() -> None:
    """Of three values those from the second to the last are cast; a divisor is undone, and infinities leave nothing."""
    (share,) = cut_shares(Geometry([Piece("a", 0, 0, 1), Piece("b", 0, 1, 3)], 4), 1, 1)
    fmt = CastFormat(torch.bfloat16)
    values, residual = torch.tensor([1.0, 1 + 2.0**-9, math.inf, 3.0]), torch.tensor([0.0, 2.0**-12, 0.0, 1.0])
    wire = torch.zeros(8, dtype=torch.uint8)
    fmt.encode(values, residual, share, wire, divisor=2)
    assert wire.view(torch.bfloat16).tolist() == [0.5, 0.5, math.inf, 2.0]
    assert residual.tolist() == [0.0, 2.0**-9 + 2.0**-12, 0.0, 0.0]
    assert values.tolist() == [1.0, 1 + 2.0**-9, math.inf, 3.0]
    out = torch.ones(4)
    fmt.decode(wire, share, out, factor=0.5, add=True)
    assert out.tolist() == [1.25, 1.25, math.inf, 2.0]
    fmt.decode(wire, share, out, factor=4.0)
    assert out.tolist() == [2.0, 2.0, math.inf, 8.0]
    fmt.decode(wire, share, out)
    assert out.tolist() == [0.5, 0.5, math.inf, 2.0]
    fmt.encode(values, None, share, wire)
    assert wire.view(torch.bfloat16).tolist() == [1.0, 1.0, math.inf, 3.0]


def block_method(name: str) -> BlockExchange:
    method = find(name)
    assert isinstance(method, BlockExchange)
    return method


@pytest.mark.parametrize(("refusal", "kind"), [(None, BlockTriton), ("no Triton", BlockReference)])
def test_blocks_are_coded_in_triton_where_it_runs(
    monkeypatch: pytest.MonkeyPatch, refusal: str | None, kind: type[object]
) -> None:
    monkeypatch.setattr(block_exchange, "gpu_refusal", lambda: refusal)
    assert type(wire_format(block_method("int4"), "cuda")) is kind
    assert type(wire_format(block_method("fp8"), "cuda")) is BlockReference
    assert type(wire_format(block_method("int4"), "xpu")) is BlockReference


def test_blocks_are_coded_by_kernels_in_cpu_memory_and_in_torch_elsewhere() -> None:
    for name, kind, bits, block in (
        ("fp8", "fp8", 8, 256),
        ("int8", "linear", 8, 256),
        ("int3:block=16", "linear", 3, 16),
        ("lloyd2", "lloyd", 2, 64),
        ("sign", "sign", 1, 256),
    ):
        on_cpu, elsewhere = (wire_format(block_method(name), device) for device in ("cpu", "xpu"))
        assert isinstance(on_cpu, BlockKernels) and isinstance(elsewhere, BlockReference)
        assert (on_cpu.fmt.kind, on_cpu.fmt.bits, on_cpu.block) == (kind, bits, block)
        assert on_cpu.block_bytes == elsewhere.block_bytes == 2 + block * bits // 8
        assert on_cpu.divisor(5) == 1
    assert isinstance(wire_format(block_method("fp8"), "cuda"), BlockReference)
    for name, size in (("float32", 4), ("bf16", 2), ("fp16", 2)):
        cast = wire_format(find(name), "cuda")  # type: ignore[arg-type]
        assert isinstance(cast, CastFormat) and (cast.block, cast.block_bytes) == (1, size)


@pytest.mark.parametrize(
    "name", ["float32", "bf16:feedback", "int8:block=8,feedback", "truncate:bits=16", "inceptionn"]
)
@pytest.mark.parametrize("ranks", [1, 3])
def test_shards_of_a_mean_go_to_their_ranks(name: str, ranks: int) -> None:
    """A mean is not coded again; after three steps that are alike, errors that are fed back are all but gone."""
    length = 10
    pieces = [Piece("w", length * k, length * k, length) for k in range(ranks)]
    geometry = Geometry(pieces, ranks * length)
    terms = [gradient(rank)[: ranks * length] / 4 for rank in range(ranks)]
    mean = sum(terms) / ranks
    assert isinstance(mean, Tensor)

    def work(group: OwnGroup) -> tuple[list[Tensor], int]:
        run, found = exchanger(find(name), group, {"w": ranks * length}), []
        run.check_shards()
        for _ in range(8):
            output = torch.empty(length)
            run.reduce_scatter(terms[group.rank].clone(), geometry, output)
            found.append(output)
        return found, group.sent

    for rank, (found, sent) in enumerate(among(ranks, work)):
        wanted = mean[rank * length : (rank + 1) * length]
        assert torch.allclose(found[0], wanted, atol=0.02)
        assert torch.allclose(torch.stack(found).mean(0), wanted, atol=2e-7 if name == "float32" else 4e-3)
        assert (sent > 0) == (ranks > 1)
        if name == "float32":
            assert sent == 8 * (ranks - 1) * length * 4
    for whole in ("topk", "powersgd", "optical"):

        def refused(group: OwnGroup, whole: str = whole) -> None:
            run = exchanger(find(whole), group)
            with pytest.raises(UnsupportedError, match="cannot shard"):
                run.check_shards()
            with pytest.raises(NotImplementedError):
                run.reduce_scatter(gradient(0), GEOMETRY, torch.empty(1))

        among(1, refused)


def test_a_group_adds_in_the_order_of_ranks_and_counts_what_it_sends() -> None:
    """10^8 - 10^8 + 1 is 1 in float32 only if the terms come in this order; 7 values are parts of 2, 2 and 3."""

    def work(group: OwnGroup) -> dict[str, object]:
        found: dict[str, object] = {}

        def count(what: str, value: Tensor) -> None:
            found[what] = value.tolist(), group.sent
            group.sent = 0

        values = torch.full((7,), [1e8, -1e8, 1.0][group.rank])
        group.all_reduce(values)
        count("sum", values)
        own = torch.full(([1, 2, 0][group.rank],), float(group.rank), dtype=torch.float64)
        everyone = torch.empty(3, dtype=torch.float64)
        group.all_gather(everyone, own, [1, 2, 0])
        count("gathered", everyone)
        # Rank r sends s + 1 values r s to rank s.
        sent = torch.cat([torch.full((s + 1,), 10.0 * group.rank + s) for s in range(3)])
        received = torch.empty(3 * (group.rank + 1))
        group.all_to_all(received, sent, [group.rank + 1] * 3, [1, 2, 3])
        count("exchanged", received)
        part = group.reduce_scatter_in_order(torch.arange(6.0) + group.rank, [1, 2, 3])
        count("scattered", part)
        pair = group.subgroup([2, 0]) if group.rank != 1 else group.subgroup([1])
        values = torch.tensor([float(group.rank)])
        pair.connect()
        pair.all_reduce(values)
        found["pair"] = pair.rank, pair.ranks, pair.members, values.tolist(), pair.sent
        assert group.sent == 0 and pair.base is group.base and pair.timeout == group.timeout == 20
        assert (pair.ring() is None) == (group.rank == 1)
        ring = group.ring()
        assert ring is not None and (ring.rank, ring.size, ring.next) == (group.rank, 3, (group.rank + 1) % 3)
        return found

    first, second, third = among(3, work)
    # A rank sends its parts of all terms to their owners, and its sum to two others.
    assert first["sum"] == ([1.0] * 7, 4 * (2 + 3) + 2 * 4 * 2)
    assert second["sum"] == ([1.0] * 7, 4 * (2 + 3) + 2 * 4 * 2)
    assert third["sum"] == ([1.0] * 7, 4 * (2 + 2) + 2 * 4 * 3)
    assert [each["gathered"] for each in (first, second, third)] == [
        ([0.0, 1.0, 1.0], 2 * 8),
        ([0.0, 1.0, 1.0], 2 * 8 * 2),
        ([0.0, 1.0, 1.0], 0),
    ]
    assert first["exchanged"] == ([0.0, 10.0, 20.0], 4 * 5)
    assert second["exchanged"] == ([1.0, 1.0, 11.0, 11.0, 21.0, 21.0], 4 * 4)
    assert third["exchanged"] == ([2.0] * 3 + [12.0] * 3 + [22.0] * 3, 4 * 3)
    assert [each["scattered"] for each in (first, second, third)] == [
        ([3.0], 4 * 5),
        ([6.0, 9.0], 4 * 4),
        ([12.0, 15.0, 18.0], 4 * 3),
    ]
    assert first["pair"] == (1, 2, [2, 0], [2.0], 4)
    assert third["pair"] == (0, 2, [2, 0], [2.0], 4)
    assert second["pair"] == (0, 1, [1], [1.0], 0)


def test_a_rank_alone_sends_nothing_and_keeps_its_values() -> None:
    def work(group: OwnGroup) -> int:
        values = torch.arange(3.0)
        group.all_reduce(values)
        gathered = torch.empty(3)
        group.all_gather(gathered, values, [3])
        copy = group.reduce_scatter_in_order(values, [3])
        assert values.tolist() == gathered.tolist() == copy.tolist() == [0.0, 1.0, 2.0]
        assert copy.data_ptr() != values.data_ptr()
        for name in ("int4", "topk", "powersgd", "inceptionn", "float32"):
            run = exchanger(find(name), group)
            run.average(values, Geometry.joined([("v", (3,))]))
        assert values.tolist() == [0.0, 1.0, 2.0]
        return group.sent

    assert among(1, work) == [0]


def test_messages_of_the_largest_values_by_hand() -> None:
    """Half of each tensor is sent, rounded up; indices count from the start of a tensor."""
    method = find("topk:share=0.5")
    assert isinstance(method, TopKExchange)
    geometry = Geometry.joined([("a", (3,)), ("b", (1,)), ("c", (2,))])
    messages = LargestValues(method, geometry)
    assert messages.total == 2 + 1 + 1
    values = torch.tensor([1.0, -5.0, 2.0, 0.0, 3.0, -4.0])
    residual = torch.tensor([0.0, 1.0, 2.0, 0.5, -3.0, math.inf])
    message = messages.encode(values, residual)
    assert message[:4].tolist() == [1, 2, 0, 1]
    assert message[4:].view(torch.float32).tolist() == [-4.0, 4.0, 0.5, math.inf]
    assert residual.tolist() == [1.0, 0.0, 0.0, 0.0, 0.0, 0.0] and values.tolist() == [1.0, -5.0, 2.0, 0.0, 3.0, -4.0]
    plain = messages.encode(values, None)
    assert plain[:4].tolist() == [1, 2, 0, 1] and values.tolist() == [1.0, -5.0, 2.0, 0.0, 3.0, -4.0]
    out = torch.ones(6)
    messages.decode_adding(plain, out, 0.5)
    assert out.tolist() == [1.0, -1.5, 2.0, 1.0, 1.0, -1.0]


def test_the_sum_of_sparse_gradients_is_divided_by_the_ranks() -> None:
    """Rank r sends value r + 1 at place r of a tensor of four; where none sends there is 0."""
    geometry = Geometry.joined([("v", (4,))])

    def work(group: OwnGroup) -> list[float]:
        values = torch.full((4,), 0.5)
        values[group.rank] = 2.0 * (group.rank + 1)
        exchanger(find("topk:share=0.25,feedback=no"), group).average(values, geometry)
        return values.tolist()

    assert among(2, work) == [[1.0, 2.0, 0.0, 0.0]] * 2


def test_columns_are_made_orthonormal_in_their_order() -> None:
    """(3, 4, 0) has length 5; (4, 3, 0) less its part along the first, 24/25 of it, is (1.12, -0.84, 0)."""
    made = orthogonalised(torch.tensor([[3.0, 4.0, 0.0], [4.0, 3.0, 0.0], [0.0, 0.0, 0.0]]) * 2.0**90)
    assert torch.allclose(made, torch.tensor([[0.6, 0.8, 0.0], [0.8, -0.6, 0.0], [0.0, 0.0, 0.0]]), atol=1e-6)
    near = orthogonalised(torch.tensor([[1.0, 1.0], [1e-4, 0.0], [0.0, 1e-4]]))
    assert torch.allclose(near.t() @ near, torch.eye(2), atol=1e-6)


def test_matrices_of_low_rank_come_back_and_thin_tensors_go_as_they_are() -> None:
    """After a step the factors start where it ended, with a largest value of 1."""
    left, right = torch.tensor([1.0, -2.0, 3.0, 0.5, 1.0]), torch.tensor([2.0, 1.0, -1.0, 4.0])
    geometry = Geometry.joined([("thin", (2,)), ("m", (5, 2, 2)), ("empty", (0, 3))])

    def work(group: OwnGroup) -> tuple[list[float], dict[str, Tensor], Exchanger]:
        run = exchanger(find("powersgd:rank=1,feedback=no"), group)
        factor = float(group.rank + 1)
        values = torch.cat([torch.tensor([factor, -1.0]), torch.outer(left, right).flatten() * factor])
        run.average(values, geometry)
        return values.tolist(), run.state_dict(), run

    found = among(2, work)
    wanted = [1.5, -1.0, *(1.5 * torch.outer(left, right)).flatten().tolist()]
    for values, state, run in found:
        assert values == pytest.approx(wanted, rel=1e-5)
        assert list(state) == ["start/m"] and state["start/m"].shape == (4, 1)
        # Only the sign of a factor is open.
        assert torch.allclose(state["start/m"][:, 0].abs(), right.abs() / 4, atol=1e-6)
        assert float(state["start/m"].abs().max()) == 1.0
        run.load_state_dict({"start/m": torch.ones(3, 1)})
        assert list(run.state_dict()) == ["start/m"] and run.state_dict()["start/m"].tolist() == [[1.0]] * 3

    def wrong(group: OwnGroup) -> None:
        run = exchanger(find("powersgd:rank=1,feedback=no"), group)
        run.load_state_dict({"start/m": torch.ones(3, 1)})
        with pytest.raises(ConfigError, match=r"factor of 'm' has shape \(3, 1\), expected \(4, 1\)"):
            run.average(torch.zeros(22), geometry)

    def cut(group: OwnGroup) -> None:
        run = exchanger(find("powersgd:rank=1,feedback=no"), group)
        with pytest.raises(UnsupportedError, match="needs whole tensors"):
            run.average(torch.zeros(22), Geometry([Piece("m", 0, 0, 22)], 22))

    among(2, wrong)
    among(2, cut)


def test_first_factors_depend_on_the_name_of_a_tensor_alone() -> None:
    def work(group: OwnGroup) -> list[Tensor]:
        run = exchanger(find("powersgd:rank=2"), group)
        zeros = Geometry.joined([("m", (6, 6)), ("n", (6, 6))])
        run.average(torch.zeros(72), zeros)
        other = exchanger(find("powersgd:rank=2"), group)
        other.average(torch.zeros(36), Geometry.joined([("n", (6, 6))]))
        return [run.state_dict()["start/m"], run.state_dict()["start/n"], other.state_dict()["start/n"]]

    (one, two, again), others = among(2, work)
    assert torch.equal(two, again) and not torch.equal(one, two)
    assert all(torch.equal(a, b) for a, b in zip((one, two, again), others, strict=True))
    assert one.shape == (6, 2) and 0.2 < float(one.std()) < 2.5


def test_blocks_of_a_buffer_hold_a_part_of_every_tensor() -> None:
    """Tensors of 5 and 3 values in two blocks: values 0 1 and 5, then 2 3 4 and 6 7."""
    cut = TensorBlocks(Geometry([Piece("a", 10, 0, 5), Piece("b", 0, 5, 3)], 8), 2)
    assert cut.sizes == [3, 5]
    assert cut.pieces == [
        [Piece("a", 10, 0, 2), Piece("b", 0, 2, 1)],
        [Piece("a", 12, 0, 3), Piece("b", 1, 3, 2)],
    ]
    joined = cut.joined()
    assert joined.size == 8 and joined.pieces == (
        Piece("a", 10, 0, 2),
        Piece("b", 0, 2, 1),
        Piece("a", 12, 3, 3),
        Piece("b", 1, 6, 2),
    )
    flat = torch.zeros(8)
    cut.gather(torch.arange(8.0), cut.split(flat))
    assert flat.tolist() == [0, 1, 5, 2, 3, 4, 6, 7]
    cut.gather(torch.arange(8.0), cut.split(flat), add=True)
    assert flat.tolist() == [0, 2, 10, 4, 6, 8, 12, 14]
    buffer = torch.full((8,), -1.0)
    cut.scatter(1, cut.split(flat)[1], buffer, 0.5)
    assert buffer.tolist() == [-1, -1, 2, 3, 4, -1, 6, 7]
    few = TensorBlocks(Geometry.joined([("a", (1,))]), 3)
    assert few.sizes == [0, 0, 1] and few.pieces[0] == []


def test_a_message_by_tensor_is_streams_behind_their_lengths() -> None:
    cut = TensorBlocks(Geometry.joined([("a", (4,)), ("b", (6,))]), 2)
    inner = find_codec("inceptionn-scaled:2^-10")
    codec = CodecByTensor(inner, cut)
    assert codec.name == inner.name
    values = np.linspace(-1, 1, 10).astype(np.float32)
    blocks = [values[:5], values[5:]]
    codec.place(blocks)
    message = bytes(codec.encode(blocks[1]))
    first, second = bytes(inner.encode(values[5:7])), bytes(inner.encode(values[7:]))
    assert message == len(first).to_bytes(4, "little") + first + len(second).to_bytes(4, "little") + second
    out = np.empty(5, np.float32)
    assert codec.decode(message, out) is out
    assert np.array_equal(out, codec.decode(message)) and np.allclose(out, values[5:], atol=0.01)
    left = blocks[1].copy()
    codec.place([blocks[0], left])
    assert bytes(codec.encode_leaving(left)) == message and np.allclose(left, values[5:] - out, atol=1e-7)
    with pytest.raises(Exception, match="5 values, expected 4"):
        codec.decode(message, np.empty(4, np.float32))
    with pytest.raises(Exception, match=f"a stream of {len(first)} bytes in a message of {len(first) + 3} bytes"):
        codec.decode(message[: len(first) + 3])
    with pytest.raises(Exception, match="a stream of 0 bytes in a message of 4 bytes, from byte 0"):
        codec.decode(bytes(4))
    whole = len(first) + 4
    with pytest.raises(Exception, match=f"a stream of 0 bytes in a message of {whole + 4} bytes, from byte {whole}"):
        codec.decode(message[:whole] + bytes(4))
    assert codec.decode(b"").size == 0


def test_factors_of_large_gradients_do_not_overflow() -> None:
    """Near the largest float32, 3.4e38, where a product with a factor would not fit."""
    large = torch.outer(torch.tensor([1.0, 2.0, -3.0, 2.0]), torch.tensor([1.0, -1.0, 3.0, 2.0, 1.0])) * 3e37

    def work(group: OwnGroup) -> list[float]:
        values = large.flatten().clone()
        exchanger(find("powersgd:rank=1"), group).average(values, Geometry.joined([("m", (4, 5))]))
        return (values / 3e37).tolist()

    for found in among(2, work):
        assert found == pytest.approx((large / 3e37).flatten().tolist(), rel=1e-4)


def test_light_averages_codes_with_the_largest_scale_of_all_ranks() -> None:
    """Blocks of two values; with 8 bits the code of the largest, just below a power of two, is near 127 or 255."""
    geometry = Geometry.joined([("a", (3,)), ("b", (2,))])
    rows = [[1.0, -0.5, 4.0, 100.0, 0.0], [0.5, 0.5, 2.0, 50.0, -25.0]]

    def work(group: OwnGroup) -> tuple[list[float], int, dict[str, object]]:
        run = exchanger(find("optical:bits=8,block=2"), group)
        values = torch.tensor(rows[group.rank])
        run.average(values, geometry)
        assert run.blocks(geometry) == 2 + 1  # type: ignore[attr-defined]
        bad = torch.full((5,), math.nan if group.rank == 1 else 1.0)
        with pytest.raises(AgreedError, match="from value 0 of a bucket"):
            run.average(bad, geometry)
        values = torch.tensor(rows[group.rank])
        run.average(values, geometry)
        with pytest.raises(ConfigError, match="the checkpoint is of 3 ranks, this run has 2"):
            run.load_state_dict({"ranks": 3})
        with pytest.raises(ConfigError, match="the checkpoint holds rank0, ranks: expected ranks"):
            run.load_state_dict({"ranks": 2, "rank0": 1})
        run.load_state_dict({})
        return values.tolist(), group.sent, run.state_dict()

    found = among(2, work)
    assert found[0][0] == found[1][0] and found[0][2] == {"ranks": 2}
    mean = np.mean(rows, axis=0)
    sizes = np.array([1.0, 1.0, 4.0, 100.0, 100.0])
    assert (np.abs(np.array(found[0][0]) - mean) <= sizes / 60).all()
    assert not np.allclose(found[0][0], mean, atol=1e-6)
    # Twice: exponents of 3 blocks, 3 codes to the other rank, and 3 mean codes; once the exponents alone.
    assert [sent for _, sent, _ in found] == [2 * (3 + 3 + 3) + 3] * 2


def test_tensors_whose_elements_share_memory_are_found() -> None:
    base = torch.arange(16.0)
    cases = {
        False: [
            base.view(4, 4),
            base.view(4, 4).t(),
            base.as_strided((2, 3), (6, 2)),
            base.as_strided((3, 2), (2, 3)),  # 0 3 2 5 4 7
            base.as_strided((0, 2), (0, 0)),
            base.as_strided((1, 3), (0, 1)),
        ],
        True: [
            base.as_strided((2, 3), (0, 1)),
            base.as_strided((3, 3), (2, 1)),
            base.as_strided((3, 3), (1, 1)),
            base.as_strided((2, 2, 2), (3, 2, 1)),  # 0 1 2 3 3 ...
            base.as_strided((3, 4), (3, 2)),  # 0 2 4 6 3 5 ... 6
        ],
    }
    for shared, tensors in cases.items():
        for tensor in tensors:
            assert elements_overlap(tensor) is shared
    assert real_shape(torch.zeros(2, 3)) == (2, 3)
    assert real_shape(torch.zeros(2, 3, dtype=torch.complex64)) == (2, 3, 2)


def test_tensors_are_averaged_in_the_type_and_scale_of_a_method() -> None:
    """Plain sums keep a tensor's type and are not scaled; a coded one is divided for the exchange and multiplied."""
    shape = (2, 3)
    geometry = Geometry.joined([("t", shape)])
    seen: list[tuple[torch.dtype, float]] = []

    class Noted(PlainExchanger):
        def average_values(self, values: Tensor, geometry: Geometry) -> None:
            seen.append((values.dtype, float(values.flatten()[-1])))
            super().average_values(values, geometry)

    class Narrow(Noted):
        any_type = False

    def work(group: OwnGroup) -> None:
        plain, narrow = Noted("plain", group), Narrow("narrow", group)
        for run, kind in ((plain, torch.bfloat16), (plain, torch.float64), (narrow, torch.bfloat16)):
            tensor = torch.arange(6.0).reshape(3, 2).to(kind).t()
            run.average_tensor(tensor, geometry, 4.0)
            assert tensor.tolist() == [[0.0, 2.0, 4.0], [1.0, 3.0, 5.0]]
        with pytest.raises(UnsupportedError, match="would lose digits"):
            narrow.average_tensor(torch.zeros(shape, dtype=torch.float64), geometry)
        with pytest.raises(UnsupportedError, match="have no means of their type"):
            plain.average_tensor(torch.zeros(shape, dtype=torch.int64), geometry)
        with pytest.raises(ConfigError, match="state of another exchange than plain"):
            plain.load_state_dict({"x": 1})
        assert plain.state_dict() == {} and plain.drain(geometry) is None
        pair = torch.tensor([1 + 2j, 3 - 4j])
        narrow.average_tensor(pair, Geometry.joined([("p", (2, 2))]), 2.0)
        assert pair.tolist() == [1 + 2j, 3 - 4j]

    among(1, work)
    assert seen == [(torch.bfloat16, 5.0), (torch.float64, 5.0), (torch.float32, 1.25), (torch.float32, -2.0)]


def test_means_lie_where_the_tensors_did() -> None:
    """Transposed, narrow, conjugated and scaled ones of two ranks, 0 to 5 and three times that."""

    def work(group: OwnGroup) -> list[list[float]]:
        plain, coded, found = exchanger(find("float32"), group), exchanger(find("truncate:bits=16"), group), []
        rows = torch.arange(6.0).reshape(3, 2) * (1 + 2 * group.rank)
        for run, tensor, scale in (
            (plain, rows.t(), 1.0),
            (coded, rows.t().clone(), 4.0),
            (coded, rows.to(torch.bfloat16).t(), 2.0),
            (plain, rows.double()[:, 1], 8.0),
        ):
            run.average_tensor(tensor, Geometry.joined([("t", tuple(tensor.shape))]), scale)
            found.append(tensor.flatten().tolist())
        pair = torch.view_as_complex(rows.clone()).conj()
        plain.average_tensor(pair, Geometry.joined([("p", (3, 2))]))
        found.append(torch.view_as_real(pair.resolve_conj()).flatten().tolist())
        return found

    for found in among(2, work):
        assert found == [
            [0.0, 4.0, 8.0, 2.0, 6.0, 10.0],
            [0.0, 4.0, 8.0, 2.0, 6.0, 10.0],
            [0.0, 4.0, 8.0, 2.0, 6.0, 10.0],
            [2.0, 6.0, 10.0],
            [0.0, -2.0, 4.0, -6.0, 8.0, -10.0],
        ]


def test_ranks_that_state_different_things_are_told() -> None:
    def work(group: OwnGroup) -> str:
        method = find("topk" if group.rank else "topk:feedback=no")
        try:
            exchanger(method, group).average(torch.zeros(4), Geometry.joined([("w", (4,))]))
        except Exception as error:
            return str(error)
        return ""

    assert all("the mean of 4 values of 'w', torch.float32" in told for told in among(2, work))


def test_a_ring_observes_every_stream_that_a_rank_encodes() -> None:
    """Of three ranks each encodes two partial sums and one whole sum."""
    streams: list[int] = []

    def work(group: OwnGroup) -> int:
        codec = find_codec("truncate:16")
        run = RingExchanger(codec, group, feedback=False, observe=lambda stream: streams.append(len(stream)))
        assert run.name == "truncate:16" and run.residuals is None
        run.average(gradient(group.rank), GEOMETRY)
        return group.sent

    sent = among(3, work)
    assert len(streams) == 3 * 3 and sum(sent) == pytest.approx(sum(streams) + sum(streams) / 3)


@pytest.mark.parametrize(("inside", "node", "off"), [("ring", 4, 1e-6), ("ring:coding=(int8:block=8)", 2, 0.05)])
def test_nodes_sum_by_the_rows_of_schedules(inside: str, node: int, off: float) -> None:
    """Around a ring every rank sends all blocks but one, twice; coded, each value takes a byte and a block two."""
    method = find(f"two-level:inside=({inside}),between=float32,node={node}")
    geometry = Geometry.joined([("a", (64,)), ("b", (32,))])
    terms = [torch.randn(96, generator=torch.Generator().manual_seed(rank)) for rank in range(4)]

    def work(group: OwnGroup) -> tuple[Tensor, int, str]:
        run = exchanger(method, group)
        values = terms[group.rank].clone()
        run.average(values, geometry)
        return values, group.sent, run.remark

    found = among(4, work)
    mean = sum(terms) / 4
    assert isinstance(mean, Tensor)
    for values, sent, remark in found:
        assert torch.equal(values, found[0][0]) and torch.allclose(values, mean, atol=off)
        assert sent == method.sent_bytes(Gradient(((64,), (32,))), 4)
        assert remark.startswith(", schedules ") and len(remark) == len(", schedules ") + 25
    assert node == 4 or not torch.allclose(found[0][0], mean, atol=1e-6)


def test_checkpoints_of_two_levels_hold_a_slot() -> None:
    """Of tensors of 5 and 2 values slot 0 of three has 1 and 0 of them, slot 1 has 2 and 1, slot 2 the rest."""
    geometry = Geometry.joined([("a", (5,)), ("b", (2,))])

    def work(group: OwnGroup) -> tuple[dict[str, object], list[float]]:
        run = exchanger(find("two-level:between=(topk:share=0.3),node=3"), group, {"a": 5, "b": 2})
        run.average(torch.arange(7.0) * (1 + group.rank), geometry)
        state = run.state_dict()
        other = exchanger(find("two-level:between=(topk:share=0.3),node=3"), group, {"a": 5, "b": 2})
        other.load_state_dict(state)
        first, second = run.drain(geometry), other.drain(geometry)
        assert first is not None and second is not None and torch.equal(first, second)
        with pytest.raises(ConfigError, match="another rank"):
            other.load_state_dict({f"slot{(group.rank + 1) % 3}/ranks": 2})
        return state, first.tolist()

    found = among(6, work)
    for rank, (state, left) in enumerate(found):
        slot, node = rank % 3, rank // 3
        prefix = f"slot{slot}/"
        assert set(state) == {f"{prefix}ranks", f"{prefix}rank{node}/a", f"{prefix}rank{node}/b"}
        counts = {name: len(state[f"{prefix}rank{node}/{name}"]) for name in "ab"}  # type: ignore[arg-type]
        assert counts == [{"a": 1, "b": 0}, {"a": 2, "b": 1}, {"a": 2, "b": 1}][slot]
        places = [[0], [1, 2, 5], [3, 4, 6]][slot]
        assert all(value == 0 for place, value in enumerate(left) if place not in places)
    # Of slot 1 the larger of 1 2 stays no residual, the other does: the node's sum of it over its three ranks.
    assert [left[1] for _, left in found[1::3]] == [1 + 2 + 3, 4 + 5 + 6]


def test_a_rank_that_refuses_its_tensor_tells_the_others() -> None:
    def work(group: OwnGroup) -> str:
        run = exchanger(find("int8"), group)
        tensor = torch.zeros(4, dtype=torch.int64 if group.rank == 1 else torch.float32)
        with pytest.raises(Exception, match="means of their type") as caught:
            run.average_tensor(tensor, Geometry.joined([("t", (4,))]))
        return str(caught.value)

    first, second = among(2, work)
    assert second.startswith("tensors of torch.int64") and "rank 1 refuses: tensors of torch.int64" in first


def test_errors_of_light_differ_between_ranks_and_repeat() -> None:
    """Every rank's generator has a seed of its own, which a checkpoint carries on."""

    def work(group: OwnGroup) -> tuple[dict[str, object], dict[str, object]]:
        run = exchanger(find("optical:averager=(table2:3-7)"), group)
        first = run.state_dict()
        state = np.random.default_rng(np.random.SeedSequence((0, group.rank)).generate_state(1)[0])
        assert first[f"rank{group.rank}"] == state.bit_generator.state
        run.average(gradient(group.rank), GEOMETRY)
        run.load_state_dict(first)
        return first, run.state_dict()

    found = among(2, work)
    assert all(first == again and set(first) == {"ranks", f"rank{rank}"} for rank, (first, again) in enumerate(found))
    assert found[0][0]["rank0"] != found[1][0]["rank1"]


class Device:
    """Collectives of a process group of a device, which only notes what it is asked for."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def _note(self, *call: object) -> object:
        self.calls.append(call)
        return SimpleNamespace(wait=lambda: None)

    def alltoall_base(self, received: Tensor, sent: Tensor, to: list[int], of: list[int], _: object) -> object:
        return self._note("all-to-all", received.numel(), sent.numel(), to, of)

    def alltoall(self, parts: list[Tensor], own: list[Tensor], _: object) -> object:
        return self._note("all-gather", [part.tolist() for part in parts], [part.tolist() for part in own])

    def allreduce(self, values: list[Tensor]) -> object:
        return self._note("all-reduce", [value.tolist() for value in values])


def test_other_devices_exchange_by_their_own_group_and_compare_once() -> None:
    """Rank 1 of three sends bytes to both others; an all-reduce of 5 doubles counts 2 · 2/3 of 40 bytes, 53."""
    base: Any = SimpleNamespace(rank=lambda: 1, size=lambda: 3)
    group, device, compared = OwnGroup(base, 1.0, device="xpu"), Device(), list[bytes]()
    mesh: Any = SimpleNamespace(closed=False, stamp=None, breaking_off=lambda kind: nullcontext())
    mesh.compare = lambda: compared.append(mesh.stamp.digest)
    group._mesh, group._group = mesh, device
    group.all_to_all(torch.zeros(6), torch.zeros(6), [2, 2, 2], [1, 2, 3])
    assert group.sent == 4 * 4
    received = torch.zeros(4, dtype=torch.uint8)
    group.all_gather(received, torch.tensor([7, 8], dtype=torch.uint8), [1, 2, 1])
    assert group.sent == 16 + 2 * 2 and received.tolist() == [0, 7, 8, 0]
    group.all_reduce(torch.ones(5, dtype=torch.float64))
    assert group.sent == 20 + 53
    assert device.calls == [
        ("all-to-all", 6, 6, [2, 2, 2], [1, 2, 3]),
        ("all-gather", [[0], [7, 8], [0]], [[7, 8]] * 3),
        ("all-reduce", [[1.0] * 5]),
    ]
    one, other = Stamp.of("one", "1", b"x"), Stamp.of("other", "1", b"x")
    for stamp, empty in ((one, False), (one, False), (other, False), (one, True), (other, False)):
        with group.exchanging(stamp, empty=empty):
            assert mesh.stamp is stamp
    assert compared == [one.digest, other.digest, one.digest]

    def fail(_: object) -> object:
        raise RuntimeError("first line\nsecond line\n")

    with pytest.raises(TransportError, match=r"rank 1: the exchange among 3 ranks broke: first line$"):
        group._wait(fail)
    mesh.close = lambda: compared.clear()
    group.close()
    assert compared == [] and group._closed
    with pytest.raises(TransportError, match="rank 1: the exchange is closed"):
        group._wait(lambda _: None)
    mesh.closed = True
    with pytest.raises(TransportError, match="rank 1: the exchange is closed"):
        group.connect()
    on_cpu = OwnGroup(base, 1.0)
    assert not on_cpu._closed
    on_cpu._mesh = mesh
    mesh.closed = False
    with on_cpu.exchanging(one):  # messages carry the stamp, nothing is compared before
        assert mesh.stamp is one and compared == []
    with pytest.raises(TransportError, match="rank 1: the exchange is not connected"):
        OwnGroup(base, 1.0).ring()
    pair = group.subgroup([2, 1])
    pair.close()
    assert (pair.rank, pair.ranks, pair.device) == (1, 2, "xpu") and pair._mesh is None


def test_exchangers_are_named_after_what_they_run_unless_named() -> None:
    def work(group: OwnGroup) -> list[str]:
        averager = find_averager("ideal", 1, 8, "half-up", 0)
        codec = find_codec("truncate:16")
        runs = [OpticalExchanger(averager, group), OpticalExchanger(averager, group, block=4, name="light")]
        assert [run.block for run in runs] == [256, 4]
        runs += [RingExchanger(codec, group, name="ring"), RingExchanger(codec, group)]  # type: ignore[list-item]
        assert runs[2].residuals is not None
        with pytest.raises(ConfigError):
            OpticalExchanger(averager, group, block=0)
        group.device = "xpu"
        with pytest.raises(UnsupportedError, match="exchange light runs in CPU memory, the tensors are on xpu"):
            OpticalExchanger(averager, group, name="light")
        return [run.name for run in runs]

    assert among(1, work) == [
        ["optical:IdealAverager,bits=8,rounding=half-up,block=256", "light", "ring", "truncate:16"]
    ]


def test_groups_connect_through_the_store_and_again_after_a_break(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Meetings of the same ranks have numbers; a device's group is made once, of the ranks as all processes count."""
    store, made = HashStore(), list[tuple[list[int], float, bool]]()
    monkeypatch.setattr(dist.distributed_c10d, "_get_process_group_store", lambda _: store)
    monkeypatch.setattr(dist, "get_process_group_ranks", lambda _: [10, 11, 12])

    def new_group(ranks: list[int], timeout: timedelta, use_local_synchronization: bool) -> str:
        made.append((ranks, timeout.total_seconds(), use_local_synchronization))
        return "group"

    monkeypatch.setattr(dist, "new_group", new_group)

    def work(rank: int) -> list[float]:
        base: Any = SimpleNamespace(rank=lambda: rank, size=lambda: 3)
        group = OwnGroup(base, 20.0, host="127.0.0.1")
        group.connect()
        first = group._mesh
        group.connect()
        assert first is not None and group._mesh is first and group._group is None
        group._compared.add(b"x")
        first.close()
        group.connect()
        assert group._mesh is not first and group._compared == set()
        values = torch.tensor([float(rank)])
        group.all_reduce(values)
        pair = group.subgroup([0, 2]) if rank != 1 else group.subgroup([1])
        pair.device = "xpu"
        pair.connect()
        pair.connect()
        assert pair._mesh is None and pair._group == ("group" if rank != 1 else None)
        group.close()
        return values.tolist()

    with ThreadPoolExecutor(3) as threads:
        assert list(threads.map(work, range(3))) == [[3.0]] * 3
    assert made == [([10, 12], 20.0, True)] * 2
    assert [store.add(f"lightloom/exchange/{rank}", 0) for rank in range(3)] == [2, 2, 2]


DROPPING = """
import sys
import threading
from pathlib import Path

from lightloom.exchange.distributed import group

if sys.argv[2] == "waits":
    group.let_threads_drop_at_exit()
    group.let_threads_drop_at_exit()
sys.setswitchinterval(1000)
done = threading.Event()


def drop():
    done.wait()
    Path(sys.argv[1]).write_text("dropped")


threading.Thread(target=drop, daemon=True).start()
done.set()
"""


@pytest.mark.parametrize("waits", [True, False])
def test_threads_that_wait_for_python_get_their_turn_before_it_ends(waits: bool, tmp_path: Path) -> None:
    """As those of gloo, which drop what collectives hold, and abort the process where it ends before."""
    dropped = tmp_path / "dropped"
    arguments = [str(dropped), "waits" if waits else "ends"]
    subprocess.run([sys.executable, "-c", DROPPING, *arguments], check=True, timeout=120)
    assert dropped.exists() == waits
