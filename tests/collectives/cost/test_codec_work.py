"""What a codec has to do in a schedule: as much as the real ring does, and no more than coding every transfer."""

from __future__ import annotations

import math
import threading
from collections import Counter
from typing import Any

import numpy as np
import pytest
from benchmarks.support.socket_ring import ring_all_reduce
from hypothesis import given
from hypothesis import strategies as st

from lightloom.collectives.collective import CLASSIC, FROM_ALL_GATHER, Collective
from lightloom.collectives.cost.stepped import CodecWork, codec_work, cost
from lightloom.collectives.registry import admitted, build, find
from lightloom.exchange.compression.inceptionn import Inceptionn
from lightloom.machines.fabrics.load import load_fabric
from tests.collectives.cost.reference import coded_chunks
from tests.training.transport.rings import on_ring

FABRICS = ("switch", "ring", "wdm-ring", "torus", "optical-averager")


class _Counting(Inceptionn):
    """Counts calls by thread, hence by rank."""

    calls: Counter[tuple[str, int]]

    def _count(self, what: str) -> None:
        self.calls[what, threading.get_ident()] += 1

    def encode(self, array: Any, *, threads: int = 1, out: Any = None) -> memoryview:
        self._count("encode")
        return super().encode(array, threads=threads, out=out)

    def decode(self, buffer: Any, out: Any = None, *, threads: int = 1) -> Any:
        self._count("decode")
        return super().decode(buffer, out, threads=threads)

    def decode_adding(self, buffer: Any, out: Any) -> None:
        self._count("decode")
        super().decode_adding(buffer, out)


@pytest.mark.parametrize("ranks", [2, 4, 5])
def test_the_model_counts_what_the_real_ring_does(ranks: int) -> None:
    codec = _Counting()
    object.__setattr__(codec, "calls", Counter())
    done = on_ring(ranks, lambda ring: ring_all_reduce(ring, np.ones(8 * ranks, np.float32), codec)[0].sum())
    assert not [each for each in done if isinstance(each, Exception)]
    schedule = build(find("ring"), Collective("all-reduce", ranks, 1e6), load_fabric("switch", ranks))
    work = codec_work(schedule, in_line=False)
    for what, counted in (("encode", work.encoded), ("decode", work.decoded)):
        assert {count for (name, _), count in codec.calls.items() if name == what} == {int(counted.sum())}
    assert work.encoded.sum() == ranks and work.decoded.sum() == 2 * (ranks - 1) + 1


@pytest.mark.parametrize("fabric", FABRICS)
def test_forwarded_bytes_are_not_encoded_again(fabric: str) -> None:
    on = load_fabric(fabric, 8)
    for kind in FROM_ALL_GATHER:
        for algorithm in admitted(kind, on):
            if algorithm.pipelined:
                continue  # plans charge no codec between its pieces
            schedule = build(algorithm, Collective(kind, 8, 1e6), on)
            between, in_line = (codec_work(schedule, in_line=way) for way in (False, True))
            assert (between.encoded <= in_line.encoded).all(), algorithm.name
            assert (in_line.encoded > 0).all() and (in_line.decoded > 0).all()
            assert between.encoded.sum() >= schedule.chunks / 8


@pytest.mark.parametrize("fabric", FABRICS)
def test_the_busiest_rank_is_that_of_a_plain_count_the_switch_included(fabric: str) -> None:
    on = load_fabric(fabric, 6)
    for kind in CLASSIC:
        for algorithm in admitted(kind, on):
            schedule = build(algorithm, Collective(kind, 6, 6e3), on).first_piece()
            for in_line in (False, True):
                if not schedule.queued:
                    work = codec_work(schedule, in_line=in_line)
                    counted = coded_chunks(schedule, in_line=in_line)
                    assert (work.encoded.tolist(), work.decoded.tolist()) == counted, (algorithm.name, in_line)


@pytest.mark.parametrize("in_line", [False, True])
def test_coding_at_a_great_rate_costs_nothing_and_a_slow_one_is_paid(in_line: bool) -> None:
    on = load_fabric("switch", 4, set={"hop_latency": "1us"})
    schedule = build(find("ring"), Collective("all-reduce", 4, 4e6), on)
    work, plain = codec_work(schedule, in_line=in_line), cost(schedule, on)
    assert cost(schedule, on, codec=work.times(4e6, math.inf, math.inf)) == plain
    slow = cost(schedule, on, codec=work.times(4e6, 1e6, 2e6))
    if in_line:
        # Six steps of a quarter at 1 MB/s, and the way of the last bit.
        assert slow.time == pytest.approx(6 + 6 * on.neighbour_latency()) and slow.encode == slow.decode == 0
    else:
        # Four encodings and seven decodings of a quarter.
        assert slow.encode == pytest.approx(4) and slow.decode == pytest.approx(7 / 2)
        assert slow.time == pytest.approx(plain.time + 7.5)


counts = st.lists(st.integers(0, 9), min_size=1, max_size=5)


@given(counts, st.data())
def test_a_codec_is_called_for_each_message_but_no_oftener_than_for_each_chunk(
    coded: list[int], data: st.DataObject
) -> None:
    """Of either direction, beside the time of the bytes themselves; what is coded and not sent is one message."""
    messages = data.draw(st.lists(st.integers(0, 9), min_size=len(coded), max_size=len(coded)))
    some, none = np.array(coded), np.zeros(len(coded), np.int64)
    called = np.array([min(count, max(sent, 1)) for count, sent in zip(coded, messages, strict=True)])
    for encodes in (True, False):
        work, each = (some, none) if encodes else (none, some), np.array(messages)
        found = CodecWork(work[0], work[1], 4, False, each, each).times(8.0, 5.0, 3.0, (7.0, 11.0))
        expected = some * (2.0 / 5.0) + 7.0 * called if encodes else some * (2.0 / 3.0) + 11.0 * called
        assert (found.encode if encodes else found.decode) == pytest.approx(expected)
        assert not (found.decode if encodes else found.encode).any()
