"""What hooks keep beside an exchanger: counts of a step, the choice of a plain exchange, checkpoints, residuals."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from lightloom.core.errors import ConfigError
from lightloom.exchange.compression.registry import find as find_codec
from lightloom.exchange.distributed.adaptive import (
    AdaptiveCompression,
    Counts,
    OpticalCounts,
    OpticalStatistics,
    Statistics,
)
from lightloom.exchange.distributed.exchanger import PlainExchanger, Stepwise
from lightloom.exchange.distributed.factory import exchanger
from lightloom.exchange.distributed.group import OwnGroup
from lightloom.exchange.distributed.residuals import (
    Geometry,
    Piece,
    Residuals,
    Share,
    check_names,
    check_values,
    cut_shares,
    without_prefix,
)
from lightloom.exchange.hooks import OpticalAverageState, _check_averager, _method_name, _warn_of
from lightloom.exchange.methods import find
from lightloom.photonics.registry import find_averager
from tests.exchange.threads import among

FIVE = Geometry.joined([("w", (5,))])


@pytest.mark.parametrize(("ranks", "whole", "half"), [(1, 0, 0), (2, 20, 10), (3, 26, 13), (4, 30, 15)])
def test_raw_bytes_are_those_of_a_ring_of_float32(ranks: int, whole: int, half: int) -> None:
    """Of 20 bytes each rank sends (ranks - 1) / ranks to add them up, and as many to gather the sums, rounded down."""

    def work(group: OwnGroup) -> list[tuple[int, int, int, int]]:
        state = Stepwise(PlainExchanger("plain", group), prefix="p/")
        for halves, last in ((2, False), (1, True), (2, True)):
            with state._counted(FIVE, last=last, halves=halves):
                group.sent += 7
        with pytest.raises(KeyError), state._counted(FIVE, last=True):
            raise KeyError
        assert state.adaptive is None and state.statistics.total.seconds > 0
        assert state.statistics.step_count == 2 and state.state_dict() == {}
        return [
            (each.nbytes_raw, each.nbytes_sent, each.buckets, each.plain_buckets)
            for each in (*state.statistics.steps, state.statistics.total)
        ]

    for found in among(ranks, work):
        assert found == [(whole + half, 14, 2, 0), (whole, 7, 1, 0), (2 * whole + half, 21, 3, 0)]


def test_counts_are_added_to_the_step_and_to_the_total() -> None:
    counts = Statistics()
    counts.add(Counts(100, 40, 1.0, 1), last=False)
    counts.add(Counts(50, 10, 0.5, 1), last=True)
    counts.add(Counts(plain_buckets=1), last=True)
    assert [each.nbytes_raw for each in counts.steps] == [150, 0] and counts.step_count == 2
    assert counts.total == Counts(150, 50, 1.5, 2, 1) and counts.total.ratio == 3.0
    assert counts.steps[-1] == Counts(plain_buckets=1) and counts.steps[-1].ratio == 1.0
    assert counts.steps.maxlen == 1000 and counts.plain_steps == 0 and counts.tags is None
    optical = OpticalStatistics()
    optical.add(OpticalCounts(100, 40, 1.0, 1, nbytes_up=3, nbytes_down=4, nbytes_exponents=5), last=True)
    assert isinstance(optical.steps[0], OpticalCounts)
    assert (optical.total.nbytes_up, optical.total.nbytes_down, optical.total.nbytes_exponents) == (3, 4, 5)


def test_tags_are_counted_where_asked_and_a_codec_has_them() -> None:
    codec = find_codec("inceptionn:2^-10")
    counts = Statistics.of(codec, tag_histogram=True)
    stream = codec.encode(np.array([0.0, 1e-5, 0.25, 0.75, 3.0], np.float32))
    counts.observe(stream)
    counts.observe(stream)
    assert counts.tags is not None and counts.tags.sum() == 10 and counts.tags[0] == 4
    plain = Statistics.of(None, tag_histogram=False)
    plain.observe(stream)
    assert plain.tags is None
    for other in (None, find_codec("truncate:16")):
        with pytest.raises(ConfigError, match="has none"):
            Statistics.of(other, tag_histogram=True)


def test_plain_steps_take_the_residuals_with_them() -> None:
    """In the units of scaled gradients: 4 times what was kept of gradients divided by 4."""

    def work(group: OwnGroup) -> bool:
        run = exchanger(find("topk:share=0.2"), group, {"w": 5})
        state = Stepwise(run, adaptive=True, loss_scale=lambda: 4.0, prefix="hook/")
        assert state.adaptive is not None and state.statistics.decisions is state.adaptive.decisions
        assert run.remark == ", stepping aside where plain is faster"
        assert state.adaptive._log == (group.rank == 0)
        assert run.residuals is not None
        run.residuals.buffer(FIVE).copy_(torch.arange(5.0))
        values = torch.ones(5)
        assert not state._plain(values, FIVE, last=True) and values.tolist() == [1.0] * 5
        state.adaptive.use_plain = True
        assert state._plain(values, FIVE, last=True) and values.tolist() == [1.0, 5.0, 9.0, 13.0, 17.0]
        assert state._plain(values, FIVE, last=False) and values.tolist() == [1.0, 5.0, 9.0, 13.0, 17.0]
        assert state.statistics.plain_steps == 1 and state.statistics.total == Counts(plain_buckets=2)
        kept = state.state_dict()
        assert set(kept) == {"hook/ranks", f"hook/rank{group.rank}/w", "hook/adaptive"}
        kept["hook/adaptive"] = {"step": 7, "use_plain": 1, "until_probe": 9}
        state.load_state_dict(kept)
        assert state.adaptive.state_dict() == {"step": 7, "use_plain": 1, "until_probe": 9}
        older = {key: value for key, value in kept.items() if key != "hook/adaptive"}
        state.load_state_dict(older | {"hook/step_aside": {"step": 3, "aside": 0, "until_probe": 2}})
        assert state.adaptive.state_dict() == {"step": 3, "use_plain": 0, "until_probe": 2}
        with pytest.raises(ConfigError, match="it is of another rank"):
            state.load_state_dict({"ranks": 2})
        calm = Stepwise(exchanger(find("topk"), group, {"w": 5}))
        calm.load_state_dict({"ranks": 2, f"rank{group.rank}/w": torch.ones(5), "adaptive": kept["hook/adaptive"]})
        assert calm._scale == 1.0 and state._scale == 4.0
        assert Stepwise(PlainExchanger("plain", group), adaptive=True).adaptive is None
        return True

    assert among(2, work) == [True, True]
    assert among(1, lambda group: Stepwise(exchanger(find("topk"), group), adaptive=True).adaptive) == [None]


def probed(compressed: float, plain: float, before: bool | None = None) -> AdaptiveCompression:
    """A choice that has just been made; after an earlier one where that is given, whose plain it then was."""
    chooser = AdaptiveCompression(lambda numbers: numbers)
    if before is not None:
        chooser._decided_plain = before
        chooser.decisions.append(None)  # type: ignore[arg-type]
    chooser._seconds = {False: [9.0, compressed, 0.0], True: [0.0, plain, 9.0]}
    chooser._decide()
    return chooser


@pytest.mark.parametrize(
    ("compressed", "plain", "before", "chosen", "until"),
    [
        (1.0, 1.5, None, False, 400),  # eight steps, half as long again, cost four: a percent of 400
        (1.5, 1.0, None, True, 400),
        (1.0, 1.0, None, False, 200),
        (1.0, 1.25, None, False, 200),
        (1.0, 1.26, None, False, 208),
        (1.0, 0.999, None, True, 200),
        (1.0, 0.96, False, False, 200),
        (1.0, 0.94, False, True, 200),
        (0.96, 1.0, True, True, 200),
        (0.94, 1.0, True, False, 200),
        (0.0, 0.0, None, False, 200),
    ],
)
def test_a_probe_decides_by_medians_and_sets_the_next(
    compressed: float, plain: float, before: bool | None, chosen: bool, until: int
) -> None:
    chooser = probed(compressed, plain, before)
    decision = chooser.decisions[-1]
    assert (decision.compressed, decision.plain, decision.use_plain) == (compressed, plain, chosen)
    assert chooser.state_dict() == {"step": 0, "use_plain": int(chosen), "until_probe": until}


def test_a_probe_runs_both_kinds_in_turn_and_leaves_out_the_first_of_each() -> None:
    """After five steps four compressed ones, four plain ones, and both again; step n takes n seconds."""
    chooser = AdaptiveCompression(lambda numbers: numbers)
    clock, kinds = 0.0, []
    for step in range(1, 5 + 16 + 1):
        kinds.append(chooser.use_plain)
        clock += step
        chooser.end_step(clock)
    assert kinds == [False] * 9 + [True] * 4 + [False] * 4 + [True] * 4
    # Compressed 7 8 9 and 15 16 17, plain 11 12 13 and 19 20 21.
    (decision,) = chooser.decisions
    assert (decision.step, decision.compressed, decision.plain) == (21, 12.0, 16.0)
    assert chooser.state_dict()["until_probe"] == 267  # 8 (16 / 12 - 1) / 0.01


# Where tensors lie, and what is kept of them.


def test_shares_of_runs_and_their_slots() -> None:
    share = Share.of([(3, 5), (20, 4), (40, 1)], 4)
    assert share.runs.tolist() == [[3, 5, 0], [20, 4, 2], [40, 1, 3]] and share.blocks == 4 and share.block == 4
    slots = share.slots(99, torch.device("cpu"))
    assert slots.tolist() == [3, 4, 5, 6, 7, 99, 99, 99, 20, 21, 22, 23, 40, 99, 99, 99]
    empty = Share.of([], 4)
    assert empty.blocks == 0 and empty.runs.shape == (0, 3) and empty.slots(1, torch.device("cpu")).numel() == 0


def test_blocks_of_a_tensor_go_to_ranks_in_turn_from_the_one_of_its_name() -> None:
    """CRC-32 of "a" is 0xE8B7BE43, 0 modulo 3; of "b" it is 0x71BEEFF9, 2 modulo 3."""
    geometry = Geometry([Piece("b", 0, 10, 3), Piece("a", 0, 0, 10)], 13)
    shares = cut_shares(geometry, 3, 2)
    # "a" has five blocks of two: 0, 1 2, 3 4 to ranks 0, 1, 2. "b" has two: none, 0, 1 to ranks 2, 0, 1.
    assert [share.runs.tolist() for share in shares] == [
        [[0, 2, 0], [10, 2, 1]],
        [[2, 4, 0], [12, 1, 2]],
        [[6, 4, 0]],
    ]
    assert [share.blocks for share in shares] == [2, 3, 2]


def test_geometries_say_what_they_hold() -> None:
    geometry = Geometry.joined([("b", (2, 3)), ("none", (0,)), ("a", ())])
    assert geometry.size == 7 and geometry.pieces == (Piece("b", 0, 0, 6), Piece("a", 0, 6, 1))
    assert geometry.names == {"a", "b"} and geometry.description == "7 values of 2 tensors"
    assert FIVE.description == "5 values of 'w'" and geometry.shapes[0] == ("b", (2, 3))
    others = [Geometry.joined([("b", (3, 2)), ("none", (0,)), ("a", ())]), Geometry.joined([("w", (5,)), ("v", (0,))])]
    assert geometry.digest == Geometry.joined(geometry.shapes).digest and len(geometry.digest) == 16
    assert len({each.digest for each in (geometry, FIVE, *others)}) == 4
    assert Geometry.joined([], 0).size == 0


def test_residuals_move_with_their_tensors_and_stay_for_the_others() -> None:
    residuals = Residuals(1, 3)
    both = Geometry.joined([("a", (2,)), ("b", (3,))])
    residuals.buffer(both).copy_(torch.arange(5.0))
    assert residuals.state_dict().keys() == {"ranks", "rank1/a", "rank1/b"} and residuals.state_dict()["ranks"] == 3
    # Two pieces of "b", the first of which comes last in the buffer.
    cut = Geometry([Piece("b", 1, 0, 2), Piece("b", 0, 2, 1)], 3)
    assert residuals.buffer(cut).tolist() == [3.0, 4.0, 2.0]
    assert {name: values.tolist() for name, values in residuals.by_tensor().items()} == {"a": [0, 1], "b": [2, 3, 4]}
    assert residuals.buffer(both).tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    drained = residuals.drain(both)
    assert drained is not None and drained.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert residuals.drain(both) is None and residuals.buffer(both).tolist() == [0.0] * 5
    again = residuals.drain(both)
    assert again is not None and again.tolist() == [0.0] * 5
    assert residuals.drain(both) is None
    residuals.load_state_dict({"ranks": 3, "rank1/a": torch.tensor([[7.0], [8.0]])})
    assert {name: values.tolist() for name, values in residuals.by_tensor().items()} == {"a": [7, 8], "b": [0, 0, 0]}
    again = residuals.drain(both)
    assert again is not None and again.tolist() == [7.0, 8.0, 0.0, 0.0, 0.0]
    residuals.load_state_dict({"ranks": 3, "rank1/a": torch.ones(4)})
    with pytest.raises(ConfigError, match="the residual of 'a' has 4 values, the parameter 2"):
        residuals.buffer(both)
    whole = Residuals(0, 1, {"a": 2})
    assert whole.by_tensor()["a"].tolist() == [0.0, 0.0]
    with pytest.raises(ConfigError, match="the residual of 'a' has 3 values, the parameter 2"):
        whole.load_state_dict({"ranks": 1, "rank0/a": torch.ones(3)})
    with pytest.raises(ConfigError, match="differ in parameter 'a'"):
        check_names({"c"}, {"a", "c"})
    check_values("x", 3, 3)
    assert without_prefix({"p/a": 1}, "p/") == {"a": 1}


# Names of older hooks.


def test_older_names_of_hooks_say_what_to_call() -> None:
    assert _method_name(None, {}) == "inceptionn:bound=2^-10,feedback"
    assert _method_name(find_codec("inceptionn:2^-6"), {"error_feedback": False}) == "inceptionn:bound=2^-6,feedback=no"
    assert _method_name(find_codec("truncate:16"), {}) == "codec:name=(truncate:16),feedback"
    with pytest.warns(DeprecationWarning, match="old is deprecated: use lightloom.exchange.new"):
        _warn_of("old", "new", {"timeout": 1})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for option in ("tag_histogram", "host", "parameters", "rounding", "seed"):
            _warn_of("old", "new", {option: 1})


def test_averagers_are_for_the_ranks_bits_and_rounding_that_are_asked_for() -> None:
    averager = find_averager("ideal", 4, 8, "half-up", 0)
    _check_averager(averager, 4, None, None)
    _check_averager(averager, 4, 8, "half-up")
    wrong: list[tuple[int, int | None, Any]] = [(3, None, None), (4, 9, None), (4, None, "floor")]
    for arguments in wrong:
        with pytest.raises(ConfigError, match="the averager is for 4 servers, 8 bits, half-up"):
            _check_averager(averager, *arguments)


def test_light_would_send_codes_up_and_down_and_an_exponent_a_block() -> None:
    """13 values of 10 bits are 130 bits, 17 bytes."""
    added: list[tuple[OpticalCounts, bool]] = []
    state = SimpleNamespace(
        averager=SimpleNamespace(bits=10),
        _exchanger=SimpleNamespace(blocks=lambda geometry: geometry.size // 6),
        statistics=SimpleNamespace(add=lambda counts, last: added.append((counts, last))),
    )
    geometry = Geometry.joined([("w", (13,))])
    OpticalAverageState._count(state, Counts(1, 2, 3.0, 4), geometry, last=True)  # type: ignore[arg-type]
    assert added == [(OpticalCounts(1, 2, 3.0, 4, 0, 17, 17, 2), True)]


def test_numbers_are_averaged_over_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two ranks with the same numbers, whose sum is twice what each brings."""
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda values, group: values.mul_(2))

    def work(group: OwnGroup) -> list[float]:
        return Stepwise(PlainExchanger("plain", group))._mean_over_ranks([3.0, 0.1])

    assert among(2, work) == [[3.0, 0.1]] * 2
