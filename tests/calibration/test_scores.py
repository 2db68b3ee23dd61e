"""Scores of predictions, folds of rows and what a step says of its job: laws that hold for any rows."""

from __future__ import annotations

from math import inf, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.core.errors import ConfigError
from lightloom.machines.accelerators.load import load_accelerator
from lightloom.planning.calibration.accuracy import accuracy, parameters_of, rounded
from lightloom.planning.calibration.fit import (
    Fit,
    Predictions,
    error_statistics,
    prior_fit,
    random_folds,
    scatter_of,
    scores_of,
)
from lightloom.planning.calibration.rows import (
    MeasuredStep,
    fabric_of,
    jobs_of,
    priors_of,
    settings_of,
    sizes_of,
    strategy_of,
)
from lightloom.planning.pricing.job import PRIOR_SCATTER
from tests.calibration.samples import step, table_of

MACHINE = load_accelerator("a100")


def predictions(steps: list[MeasuredStep], seconds: list[float], half: float = 0.1) -> Predictions:
    return Predictions(np.log(seconds), np.full(len(steps), half), tuple(steps))


@given(st.integers(1, 40))
def test_folds_are_ten_or_one_a_row_and_as_equal_as_can_be(rows: int) -> None:
    fold = random_folds(rows)
    counts = np.bincount(fold)
    assert len(fold) == rows and len(counts) == min(rows, 10)
    assert counts.max() - counts.min() <= 1
    assert np.array_equal(fold, random_folds(rows))


def test_folds_of_many_rows_are_not_in_order() -> None:
    fold = random_folds(40)
    assert not np.array_equal(fold, np.arange(40) % 10)
    assert not np.array_equal(fold, np.sort(fold))


def test_the_scatter_without_rows_is_the_prior_s_and_goes_to_that_of_the_rows() -> None:
    assert scatter_of(np.zeros(0)) == PRIOR_SCATTER
    assert scatter_of(np.full(7, PRIOR_SCATTER)) == pytest.approx(PRIOR_SCATTER)
    # The prior counts for five rows.
    assert scatter_of(np.full(5, -0.5)) == pytest.approx(np.sqrt((0.5**2 + PRIOR_SCATTER**2) / 2))
    assert scatter_of(np.array([-0.5])) == pytest.approx(np.sqrt((0.5**2 + 5 * PRIOR_SCATTER**2) / 6))


def test_the_scatter_is_the_size_that_nine_of_ten_rows_stay_below() -> None:
    """An actual one of them, the next above where none lies there."""
    errors = np.arange(1, 11) / 10 * np.array([1, -1] * 5)
    expected = np.sqrt((10 * 1.0**2 + 5 * PRIOR_SCATTER**2) / 15)
    assert scatter_of(errors) == scatter_of(errors[::-1]) == pytest.approx(expected)
    many = np.arange(1, 102) / 100
    assert scatter_of(many) == pytest.approx(np.sqrt((101 * 0.91**2 + 5 * PRIOR_SCATTER**2) / 106))


def test_statistics_of_errors_are_of_their_sizes_but_the_bias() -> None:
    found = error_statistics(np.array([-0.3, 0.1, 0.1, -0.1]), np.array([True, False, True, True]))
    assert found == pytest.approx({"mean": 0.15, "median": 0.1, "bias": -0.05, "percentile_90": 0.24, "coverage": 0.75})


def test_a_step_at_the_very_end_of_its_interval_is_inside() -> None:
    steps = [step(step_s=time) for time in (1.0, 1.0, 1.0)]
    ends = Predictions(np.zeros(3), np.array([0.0, 0.5, 0.5]), tuple(steps))
    assert scores_of(steps, ends).coverage == 1.0
    assert ends.low == pytest.approx([1.0, np.exp(-0.5), np.exp(-0.5)])
    assert ends.high == pytest.approx([1.0, np.exp(0.5), np.exp(0.5)])
    assert scores_of(steps, Predictions(np.full(3, 0.1), np.full(3, 0.09), tuple(steps))).coverage == 0.0
    assert scores_of(steps, Predictions(np.full(3, -0.1), np.full(3, 0.09), tuple(steps))).coverage == 0.0


def test_scores_have_signs_and_sizes_of_relative_errors() -> None:
    steps = [step(step_s=2.0), step(step_s=2.0)]
    found = scores_of(steps, predictions(steps, [3.0, 1.0], half=0.2))
    assert found.rows == 2 and [found.mean, found.bias] == pytest.approx([0.5, 0.0])
    assert found.half_width == pytest.approx((np.exp(0.2) - np.exp(-0.2)) / 2)
    slow = scores_of(steps, predictions(steps, [3.0, 3.0]))
    assert slow.bias == pytest.approx(0.5)
    assert slow.rank_agreement is None
    assert slow.line().startswith("2 rows: mean error 50.0%, median 50.0%, bias +50.0%, nine of ten below 50.0%; ")
    assert "rank" not in slow.line()


@pytest.mark.parametrize(("rows", "known"), [(4, False), (5, True), (6, True)])
def test_ranks_are_compared_within_models_of_five_rows(rows: int, known: bool) -> None:
    steps = [step(step_s=1.0 + row) for row in range(rows)] + [step(step_s=9.0 - row, layers=26) for row in range(4)]
    same = scores_of(steps, predictions(steps, [each.step_s for each in steps]))
    assert same.rank_agreement == (pytest.approx(1.0) if known else None)
    backwards = predictions(steps, [each.step_s for each in steps[:rows]][::-1] + [1.0] * 4)
    assert scores_of(steps, backwards).rank_agreement == (pytest.approx(-1.0) if known else None)
    assert ("; rank agreement within models 1.00" in same.line()) is known


def test_ranks_are_averaged_over_models_not_over_rows() -> None:
    steps = [step(step_s=1.0 + row) for row in range(5)] + [step(step_s=1.0 + row, layers=26) for row in range(8)]
    seconds = [5.0, 4.0, 3.0, 2.0, 1.0, *(1.0 + row for row in range(8))]
    assert scores_of(steps, predictions(steps, seconds)).rank_agreement == pytest.approx(0.0, abs=1e-12)


def test_rows_that_are_alike_have_no_order() -> None:
    """One step that was measured five times, or five that took as long: without a warning."""
    different, alike = [1.0, 1.1, 1.2, 1.3, 1.4], [1.0] * 5
    for measured, predicted in ((different, alike), (alike, different), (alike, alike)):
        steps = [step(step_s=seconds) for seconds in measured]
        assert scores_of(steps, predictions(steps, predicted)).rank_agreement is None


def test_ranks_are_those_of_tokens_per_gpu() -> None:
    """Twice the batch in less than twice the time trains faster, although its step takes longer."""
    steps = [step(global_batch=64 * 2**row, step_s=1.9**row) for row in range(5)]
    assert [each.tokens_per_second_and_gpu for each in steps] == sorted(
        each.tokens_per_second_and_gpu for each in steps
    )
    assert steps[0].tokens_per_second_and_gpu == 64 * 2048 / 16
    assert scores_of(steps, predictions(steps, [1.8**row for row in range(5)])).rank_agreement == pytest.approx(1.0)


def test_a_parameter_is_determined_where_its_spread_falls_below_seven_tenths() -> None:
    priors = priors_of(MACHINE)
    whole = prior_fit(priors)

    def told(share: float) -> set[bool]:
        entries = parameters_of(Fit(whole.logarithms, whole.covariance * share**2, 0.1), priors)
        assert [entry.prior for entry in entries.values()] == [prior.value for prior in priors.by_name.values()]
        return {entry.determined for entry in entries.values()}

    assert told(1.0) == told(0.71) == {False}
    assert told(0.69) == {True}


def test_values_are_rounded_to_six_digits() -> None:
    assert [rounded(value) for value in (1.23456789, 1.5e-9, 0.0)] == [1.23457, 1.5e-9, 0.0]


def test_the_worst_rows_are_the_farthest_off_in_either_direction() -> None:
    factors = (1.01, 30.0, 1.2, 0.01, 1.3, 1.1, 2.0)
    (base,) = accuracy(table_of([step()])).predicted.seconds
    steps = [step(row=str(row), step_s=float(base) / factor) for row, factor in enumerate(factors)]
    found = accuracy(table_of(steps))
    assert [row["row"] for row in found.worst(3)] == ["1", "6", "3"]
    assert len(found.worst()) == 5
    assert [row["row"] for row in found.rows()] == [str(row) for row in range(len(factors))]
    assert [row["error"] for row in found.rows()] == pytest.approx([factor - 1 for factor in factors])
    assert [row["inside"] for row in found.rows()][:4] == [True, False, True, False]
    shown = found.display_rows()
    assert [row["error"].endswith(" outside") for row in shown] == [not row["inside"] for row in found.rows()]
    assert all(row["assumed"] == "" for row in shown)


def test_what_a_row_leaves_open_is_told_as_assumed() -> None:
    (row,) = accuracy(table_of([step(micro_batch=None, virtual_stages=None)])).rows()
    assert row["assumed"].startswith("micro-batch ") and ", virtual stages " in row["assumed"]


def test_a_strategy_says_all_that_its_row_says() -> None:
    even = strategy_of(step())
    assert (even.dp, even.tp, even.pp, even.virtual_stages) == (4, 2, 2, 1)
    assert (even.global_batch, even.micro_batches, even.micro_batch) == (64, 8, 0)
    assert not even.sequence_parallel and strategy_of(step(sequence_parallel="yes")).sequence_parallel


@pytest.mark.parametrize(
    ("batch", "micro", "expected"),
    [(64, 5, (64, 4, 5)), (65, 4, (68, 5, 4)), (65, 17, (68, 1, 0)), (68, 17, (68, 1, 0)), (68, 18, (68, 1, 0))],
)
def test_all_ranks_have_as_much_to_do_as_the_busiest(batch: int, micro: int, expected: tuple[int, int, int]) -> None:
    """The last micro-batch is smaller where they do not divide, and none is larger than a rank's part."""
    found = strategy_of(step(global_batch=batch, micro_batch=micro))
    assert (found.global_batch, found.micro_batches, found.micro_batch) == expected


def test_settings_and_sizes_are_those_of_the_row() -> None:
    stated = settings_of(step(sharding="zero-3", gradient_bytes=4, attention="flash", precision="bf16"))
    assert stated.overlap_gradients and stated.stage_blocks == "equal"
    assert (stated.precision, stated.attention) == ("bf16", "flash")
    assert stated.gradient_bytes == stated.sharded_gradient_bytes == 4
    assert not settings_of(step()).overlap_gradients
    assert (sizes_of(step()).hidden, sizes_of(step()).layers) == (4096, 24)


def test_every_gpu_has_its_share_of_the_network_of_its_node() -> None:
    node, network = fabric_of(step(), MACHINE).tiers
    assert node.size == 8 and network.bandwidth == 1600e9 / 8 / 8
    assert node.bandwidth == MACHINE.node_bandwidth and network.taper == 1.0
    few = fabric_of(step(gpus=4, dp=1), MACHINE)
    assert few.ranks == few.tiers[0].size == 4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gpus": 8, "dp": 2, "gpus_per_node": 16}, None),
        ({"gpus_per_node": 16}, None),
        ({"gpus_per_node": 5}, "expected a divisor of the 16 GPUs"),
        ({"global_batch": 4, "micro_batch": 1}, None),
        ({"global_batch": 3, "micro_batch": 1}, "expected at least dp, 4"),
        ({"layers": 2}, None),
        ({"layers": 1}, "expected one for each of 2 pipeline stages"),
        ({"virtual_stages": 12, "micro_batch": 2}, None),
        ({"virtual_stages": 13, "micro_batch": 2}, "expected one for each of 26 pipeline stages"),
        ({"virtual_stages": 2, "global_batch": 16}, None),
        ({"virtual_stages": 2, "global_batch": 24}, "to be a multiple of dp · micro_batch · pp"),
        ({"sequence_parallel": "yes"}, None),
        ({"micro_batch": None, "global_batch": 64}, None),
        ({"micro_batch": None, "global_batch": 66}, "expected the sequences of a micro-batch"),
        ({"tp": 32, "gpus": 256, "global_batch": 64}, None),
        ({"tp": 64, "gpus": 512}, "expected a divisor of heads, 32"),
        ({"row": ""}, "row"),
    ],
)
def test_columns_contradict_each_other_from_where_they_must(changes: dict[str, object], message: str | None) -> None:
    if message is None:
        assert step(**changes)
    else:
        with pytest.raises(ValueError, match=message):
            step(**changes)


def test_jobs_of_rows_are_grouped_cut_and_chosen_by_row() -> None:
    rows = [step(row="a", step_s=1.0), step(row="b", micro_batch=None, step_s=2.0), step(row="c", step_s=3.0)]
    jobs = jobs_of(rows, MACHINE)
    assert jobs.measured.tolist() == [1.0, 2.0, 3.0] and jobs.rows == 3
    seconds = np.arange(len(jobs.planned), 0.0, -1.0)
    least, chosen = jobs.fastest(seconds)
    assert [jobs.steps[job].row for job in chosen] == ["a", "b", "c"]
    assert least.tolist() == [seconds[jobs.row == row].min() for row in range(3)]
    one = jobs.only(chosen)
    assert one.row.tolist() == [0, 1, 2] and one.steps[1].micro_batch == 16
    last = jobs.subset(np.array([False, True, True]))
    assert last.rows == 2 and last.measured.tolist() == [2.0, 3.0]
    assert {each.row for each in last.steps} == {"b", "c"}
    assert sorted(place for places, _ in jobs.groups for place in places.tolist()) == list(range(len(jobs.planned)))


def test_rows_that_no_usual_choice_divides_are_refused() -> None:
    odd = step(micro_batch=None, virtual_stages=None, global_batch=4 * 3, dp=4)
    assert [each.micro_batch for each in jobs_of([odd], MACHINE).steps] == [1]
    with pytest.raises(ConfigError, match="row first: column 'micro_batch': not published"):
        jobs_of([odd.model_copy(update={"global_batch": 5})], MACHINE)


def test_usual_stages_are_tried_only_in_pipelines_whose_layers_they_divide() -> None:
    def stages(**changes: object) -> list[int]:
        return sorted(
            {each.virtual_stages or 0 for each in jobs_of([step(virtual_stages=None, **changes)], MACHINE).steps}
        )

    assert stages() == [1, 2, 3, 4, 6]
    assert stages(layers=32) == [1, 2, 4, 8]
    assert stages(layers=20) == [1, 2, 5]
    assert stages(pp=1, gpus=8) == [1]
    # Without virtual stages a stated micro-batch may leave a smaller last one.
    assert stages(micro_batch=3) == [1]


def test_priors_are_centred_on_their_values_and_have_largest_ones() -> None:
    priors = priors_of(MACHINE)
    assert priors.values(priors.center) == pytest.approx({name: each.value for name, each in priors.by_name.items()})
    most = dict(zip(priors.names, priors.most.tolist(), strict=True))
    assert most["gemm_fraction"] == log(1.0) and most["gemm_depth"] == inf
    assert (priors.center <= priors.most).all()
