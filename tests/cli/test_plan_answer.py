"""The answer of a plan fits one screen, explains what it prints, and its changed questions are answered as asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lightloom as ll
from lightloom.app.api.planning import PlanRanking
from lightloom.core.answer import Answer
from lightloom.planning.search.answer import MOST_ROWS, SURE, division_rows
from lightloom.planning.search.plans import _with_slopes, division
from lightloom.planning.search.what_if import MOST
from tests.cli.commands import lightloom

NORMAL = 1.645
SMALL = ("gpt2-355m", "h100-512-two-tier", 16)


def lines(answer: Answer, width: int) -> list[str]:
    """All lines of an answer but those of its table."""
    return [*answer.head(width), *answer.foot(width)]


@pytest.fixture(scope="module")
def ranking() -> PlanRanking:
    model, cluster, ranks = SMALL
    return ll.plan(model, cluster, ranks=ranks, every_algorithm=False)


@pytest.mark.long
def test_an_answer_fits_one_screen(ranking: PlanRanking) -> None:
    answer = ranking.answer()
    assert len(answer.rows) <= MOST_ROWS and len(answer.what_if) <= MOST + 1
    for width in (80, 120):
        found = lines(answer, width)
        assert len(found) + 1 + len(answer.rows) <= 25
        assert all(len(line) <= width for line in found)


def test_every_mark_and_abbreviation_is_explained_and_the_reverse(ranking: PlanRanking) -> None:
    answer = ranking.answer()
    table = " ".join([*answer.rows[0], *(cell for row in answer.rows for cell in row.values())])
    for symbol in ("=", "MFU", "waits", "batches"):
        assert (symbol in table.split()) == (f"{symbol}:" in answer.legend or f"{symbol} too" in answer.legend)
    assert not set(table) & set("◆≈τ≥≤~·█▓░")


@pytest.mark.long
def test_a_row_for_each_division_and_all_of_them_on_request(ranking: PlanRanking) -> None:
    shown = division_rows(ranking.search)
    keys = [division(row.plan.choice) for row in shown]
    assert len(set(keys)) == len(keys) and shown[0].plan is ranking.winner
    for row in shown:
        alike = [plan for plan in ranking if division(plan.choice) == division(row.plan.choice)]
        assert row.plan is alike[0]
    everything = ranking.answer(everything=True, what_if=False)
    assert len(everything.rows) == len(ranking) and not everything.hidden


@pytest.mark.long
def test_the_winner_is_that_of_every_algorithm(ranking: PlanRanking) -> None:
    model, cluster, ranks = SMALL
    whole = ll.plan(model, cluster, ranks=ranks)
    assert whole.winner.label == ranking.winner.label and whole.winner.step_time == ranking.winner.step_time
    assert len(whole) >= len(ranking)


def asked_anew(ranking: PlanRanking, model: str, cluster: str, ranks: int | None) -> int:
    """Ask every changed question of a ranking by itself; return how many there were."""
    asked = 0
    for what_if in ranking.what_ifs:
        if what_if.winner is None or not what_if.change.arguments:
            continue
        given = {"global_batch": ranking.winner.global_batch} | dict(what_if.change.arguments)
        if ranks is not None:
            given["ranks"] = ranks
        found = ll.plan(model, cluster, every_algorithm=False, **given)  # type: ignore[arg-type]
        assert found.winner.sample_time == what_if.winner.sample_time, what_if.change.name
        assert found.winner.label == what_if.winner.label, what_if.change.name
        asked += 1
    return asked


@pytest.mark.long
def test_changed_questions_are_answered_as_if_they_had_been_asked(ranking: PlanRanking) -> None:
    assert asked_anew(ranking, *SMALL) >= 2


CASES = (
    ("gpt2-355m", "dgx-h100-64", None),
    ("gpt2-355m", "dgx-a100-64", 16),
    ("gpt2-355m", "terarack-64", 16),
    ("gpt2-355m", "sip-ocs-1024", 32),
    ("gpt2-355m", "sip-ring-1024", 16),
    ("gpt2-355m", "tpu-v4-1024", 64),
    ("gpt2-355m", "nvl72", 8),
    ("llama2-7b", "dgx-h100-64", None),
    ("llama2-7b", "a100-1024-two-tier", 64),
    ("llama2-7b", "dgx-h100-256", None),
    ("mixtral-8x7b", "dgx-h100-64", None),
    ("transformer-big", "inceptionn-4", None),
    ("transformer-big", "dgx-h100-64", None),
    ("transformer-big", "h100-1024-no-nvlink-400g", 64),
    ("resnet50", "terarack-64", 16),
    ("resnet50", "inceptionn-4", None),
    ("resnet152", "dgx-b200-64", 16),
    ("vgg16", "sip-ocs-1024", 16),
    ("hdc", "optinc-4", None),
)


@pytest.mark.slow
def test_sixty_changed_questions_are_answered_as_if_they_had_been_asked() -> None:
    asked = 0
    for model, cluster, ranks in CASES:
        fields: dict[str, Any] = {} if ranks is None else {"ranks": ranks}
        asked += asked_anew(ll.plan(model, cluster, every_algorithm=False, **fields), model, cluster, ranks)
    assert asked >= 60


@pytest.mark.slow
@pytest.mark.parametrize(("model", "cluster", "ranks"), [case for case in CASES[:11] if case[1] != "tpu-v4-1024"])
def test_winner_and_marks_hold_elsewhere(model: str, cluster: str, ranks: int | None) -> None:
    fields: dict[str, Any] = {} if ranks is None else {"ranks": ranks}
    ranking, whole = (ll.plan(model, cluster, every_algorithm=every, **fields) for every in (False, True))
    assert whole.winner.sample_time == ranking.winner.sample_time and whole.winner.label == ranking.winner.label
    test_marks_are_what_draws_with_shared_errors_say(ranking)


def test_no_change_of_the_network_gains_more_than_the_limit(ranking: PlanRanking) -> None:
    assert 0 < ranking.limit <= 1
    for what_if in ranking.what_ifs:
        if what_if.change.network and not what_if.why:
            assert what_if.step >= ranking.limit * (1 - 1e-9)


def test_marks_are_what_draws_with_shared_errors_say(ranking: PlanRanking) -> None:
    draws, random = 10_000, np.random.default_rng(7)
    first = _with_slopes(ranking.winner)
    assert first is not None
    shared = random.multivariate_normal(np.zeros(len(first.slopes)), first.belief.covariance, draws)
    for row in division_rows(ranking.search)[1:]:
        other = _with_slopes(row.plan)
        assert other is not None and row.interval is not None
        scatter = random.normal(0, first.belief.scatter / NORMAL, (2, draws))
        ahead = np.log(row.plan.sample_time / ranking.winner.sample_time)
        times = ahead + shared @ (other.slopes - first.slopes) + scatter[0] - scatter[1]
        share = float((np.sign(times) == np.sign(ahead)).mean())
        assert row.interval.order_holds == pytest.approx(share, abs=0.02)
        assert row.too_close == (row.interval.order_holds < SURE)


@pytest.mark.long
def test_the_page_opens_with_the_same_lines(ranking: PlanRanking, tmp_path: Path) -> None:
    model, cluster, ranks = SMALL
    page = tmp_path / "page.html"
    done = lightloom("plan", model, "--cluster", cluster, "--ranks", str(ranks), "--report", str(page))
    assert done.code == 0 and done.err == ""
    text = page.read_text()
    for line in done.out.splitlines():
        if line.startswith("Limit"):
            assert line in text
    assert done.out.splitlines()[1].removeprefix("BEST").strip() in text


def test_former_spellings_warn_and_mean_the_same(tmp_path: Path) -> None:
    old = lightloom("plan", "hdc", "--cluster", "inceptionn-4", "--micro-batches", "1", "--no-what-if")
    new = lightloom("plan", "hdc", "--cluster", "inceptionn-4", "--pin", "micro_batches=1", "--no-what-if")
    assert old.code == new.code == 0 and old.out == new.out and new.err == ""
    assert old.err.splitlines() == [
        "warning: --micro-batches is spelt `--pin micro_batches=...` now; the former spelling works in this release"
    ]


def test_another_cluster_is_compared_in_ten_lines() -> None:
    done = lightloom("plan", "hdc", "--cluster", "inceptionn-4", "--vs", "optinc-4", "--no-what-if")
    assert done.code == 0
    compared = done.out[done.out.index("optinc-4 is ") :].splitlines()
    assert 3 <= len(compared) <= 10 and any("a sample:" in line for line in compared)
