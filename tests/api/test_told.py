"""What results tell beside their tables: sentences, orders and limits of comparisons, profiles and calibrations."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import yaml

import lightloom as ll
from lightloom.app.api import calibrating
from lightloom.app.api.accuracy import StepComparison, compare_step
from lightloom.app.api.calibrating import CollectiveAccuracy, StepsCalibration, TransportCalibration
from lightloom.app.api.comparison import PlanChange
from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.core.units import format_time
from lightloom.machines.clusters.load import load_cluster
from lightloom.machines.transports.transport import load_transport
from lightloom.machines.transports.ways import Tiers
from lightloom.models.traces.operators import TracedExchange
from lightloom.planning.calibration.collectives import MeasuredCollective, System
from lightloom.planning.calibration.profile import (
    FITTED,
    TIMED_FROM,
    ExchangeRow,
    OperatorKey,
    ProfiledOperator,
    StepPart,
)
from tests.calibration.gpu_profile import gpu_profile
from tests.calibration.samples import made_calibration
from tests.interchange.test_kineto_workload import events, written


def row(compute: float, network: float = 0.0, **facts: Any) -> dict[str, Any]:
    """A row of a ranking's document, of a step of four samples."""
    parts = {"compute_s": 4 * compute, "exposed_communication_s": 4 * network, "idle_s": 0.0}
    fields: dict[str, Any] = {"rank": 1, "label": "dp 4", "strategy": "ddp", "algorithm": "ring", "global_batch": 4}
    fields |= {"algorithms": [{"algorithm": "ring"}], "choice": {"dp": 4}, "ranks": 4, "breakdown": parts}
    fields |= {"sample_time_s": compute + network, "iteration_time_s": 4 * (compute + network), "fits": True}
    return {**fields, "memory_bytes": 1.0, **facts}


def document(*rows: dict[str, Any], **facts: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {"schema": "lightloom.plan/2", "model": "hdc", "parameters": 1, "global_batches": [4]}
    fields |= {"cost_model": "physical", "strategies": ["ddp"], "algorithms": ["ring"], "pins": {}, "refused": []}
    fields |= {"clusters": [{"name": "here", "fabric": {"kind": "ring"}}], "provenance": {"lightloom": "1"}}
    return {**fields, "ranking": list(rows), **facts}


def why(before: dict[str, Any], after: dict[str, Any]) -> str:
    return PlanChange(before=before, after=after).why


def test_parts_are_named_from_a_tenth_of_all_changes() -> None:
    assert why(row(1.0), row(1.0)) == "unchanged"
    assert why(row(1.0), row(2.0)) == "compute +1 s a sample"
    assert why(row(1.0, 1.0), row(10.0, 2.0)) == "compute +9 s, exposed communication +1 s a sample"
    assert why(row(1.0, 1.0), row(11.0, 2.0)) == "compute +10 s a sample"
    assert why(row(2.0, 1.0), row(1.0, 3.0)).startswith("compute -1 s, exposed communication +2 s")
    assert why(row(1.0), row(1.0 + 1e-7)) == "unchanged"


def test_other_algorithms_and_memory_are_named_once() -> None:
    two = [{"algorithm": "ring"}, {"algorithm": "tree"}, {"algorithm": "ring"}]
    assert why(row(1.0), row(1.0, algorithms=two)) == "ring + tree instead of ring"
    assert why(row(1.0), row(1.0, algorithms=[])) == "no exchange instead of ring"
    assert why(row(1.0, algorithms=[]), row(1.0)) == "ring instead of none"
    assert why(row(1.0), row(1.0, fits=False)) == "does not fit any more"
    assert why(row(1.0, fits=False), row(2.0)) == "compute +1 s a sample; fits now"


def test_ratios_of_steps_that_take_no_time() -> None:
    nothing, something = row(1.0, sample_time_s=0.0), row(1.0)
    assert PlanChange(before=nothing, after=nothing).ratio == 1
    assert PlanChange(before=nothing, after=something).ratio == float("inf")
    assert PlanChange(before=something, after=nothing).ratio == 0


def test_the_first_winner_is_followed_into_the_second_ranking() -> None:
    first, second = row(1.0), row(2.0, label="dp 2", choice={"dp": 2}, rank=2)
    swapped = [{**second, "rank": 1}, {**first, "rank": 2}]
    found = ll.compare(document(first, second), document(*swapped))
    assert found.explanation == "The first winner, dp 4, is number 2 of the second ranking: unchanged."
    assert "dp 2 wins instead of dp 4" in found.summary() and "2 times as long a sample" in found.summary()
    gone = ll.compare(document(first), document(second))
    assert gone.explanation.startswith("The first winner, dp 4, is not in the second ranking: not simulated")
    assert [each["label"] for each in gone.gone] == ["dp 4"] and [each["label"] for each in gone.new] == ["dp 2"]
    refusal = {"strategy": "ddp", "algorithm": "ring", "why": "too slow"}
    other = document(second, refused=[{**refusal, "algorithm": "tree"}, refusal])
    assert ll.compare(document(first), other).explanation.endswith("is not in the second ranking: too slow.")
    coded = row(1.0, compression={"codec": "int4"})
    assert ll.compare(document(coded), other).absence(coded, other).startswith("not simulated")


def test_the_same_plan_on_several_clusters_is_paired_in_order() -> None:
    fast, slow = row(1.0), row(2.0, rank=2)
    found = ll.compare(document(fast, slow), document(row(1.5), row(4.0, rank=2)))
    assert [change.ratio for change in found.changes] == [1.5, 2.0]
    alone = ll.compare(document(fast, slow), document(fast))
    assert alone.gone == (slow,) and len(alone.changes) == 1
    batch = row(1.0, choice={"dp": 4, "global_batch": 8, "exchange": 1})
    assert len(ll.compare(document(fast), document(batch)).changes) == 1


def test_inputs_are_compared_by_path_and_what_describes_is_left_out() -> None:
    before, after = document(row(1.0)), document(row(1.0))
    after["clusters"] = [{"name": "here", "fabric": {"kind": "ring"}, "sources": {"a": 1}, "description": "x"}]
    assert not ll.compare(before, after).inputs
    after = copy.deepcopy(before)
    after["clusters"][0]["fabric"] = {"kind": "torus", "taps": 2}
    after["provenance"] = {"lightloom": "2"}
    changed = [(each.field, each.before, each.after) for each in ll.compare(before, after).inputs]
    assert changed == [
        ("cluster.fabric.kind", "ring", "torus"),
        ("cluster.fabric.taps", None, 2),
        ("lightloom", "1", "2"),
    ]
    after["clusters"] = [before["clusters"][0], {"name": "there"}]
    fields = [each.field for each in ll.compare(before, after).inputs]
    assert "cluster 2.name" in fields and "cluster 1.name" in fields and "cluster.name" in fields
    none = ll.compare(document(row(1.0), algorithms=[]), before).inputs
    assert [(each.field, each.before, each.after) for each in none] == [("algorithms", [], ["ring"])]


def test_both_winners_are_drawn_before_and_after() -> None:
    first, second = row(1.0), row(2.0, label="dp 2", choice={"dp": 2})
    found = ll.compare(document(first, second), document(row(0.5, label="dp 2", choice={"dp": 2}), first))
    names = [label.get_text() for label in found.figure().axes[0].get_yticklabels()]
    assert names == ["before dp 4", "after dp 4", "before dp 2", "after dp 2"]
    alone = ll.compare(document(first), document(second)).figure().axes[0]
    assert [label.get_text() for label in alone.get_yticklabels()] == ["dp 4", "dp 2"]
    same = ll.compare(document(first), document(first)).figure().axes[0]
    assert [label.get_text() for label in same.get_yticklabels()] == ["before dp 4", "after dp 4"]


@pytest.fixture
def comparison(tmp_path: Path) -> StepComparison:
    device = [{"name": "NVIDIA A100-SXM4-80GB", "totalGlobalMem": 85e9}]
    return compare_step(written(tmp_path, events(), deviceProperties=device))


def with_step(comparison: StepComparison, **changes: Any) -> StepComparison:
    return replace(comparison, step=replace(comparison.step, **changes))


def test_parts_that_differ_are_told_from_half_a_per_cent_on_the_largest_first(comparison: StepComparison) -> None:
    def told(*parts: tuple[float, float]) -> str:
        named = (StepPart(name, *part, "") for name, part in zip("abc", parts, strict=False))
        return with_step(comparison, parts=tuple(named)).summary()

    assert told((200.0, 201.0)) == "measured 200 s, predicted 201 s (+0.5%); the difference is in a (+1 s)"
    assert told((200.0, 200.9)).endswith("; no part differs by 0.5 % of the step")
    assert told((1.0, 1.1), (1.0, 0.5), (1.0, 1.2)).endswith("is in b (-500 ms), c (+200 ms), a (+100 ms)")
    assert told((0.0, 1.0)) == "measured 0 ns, predicted 1 s; the difference is in a (+1 s)"


def operator(name: str, seconds: float) -> ProfiledOperator:
    return ProfiledOperator(OperatorKey(name, ((2, 3), ()), "bf16", "forward"), None, 2, 2 * seconds)


def test_operators_that_change_a_step_most_are_told_first_and_three_of_them(comparison: StepComparison) -> None:
    priced = [(operator(f"aten::{name}", 1.0), price) for name, price in zip("abcd", (1.1, 0.5, 1.2, 1.3), strict=True)]
    found = with_step(comparison, operators=tuple(priced), exchanges=(), steps=2).lines()
    assert found[1].startswith("mean of 2 steps on NVIDIA A100-SXM4-80GB, predicted for a100; overlap as it was: ")
    assert found[2:] == [
        "-500 ms in 1 x aten::b (2x3 1, forward), measured 1 s each",
        "+300 ms in 1 x aten::d (2x3 1, forward), measured 1 s each",
        "+200 ms in 1 x aten::c (2x3 1, forward), measured 1 s each",
    ]
    assert "mean of one step on" in with_step(comparison, operators=(), exchanges=(), steps=1).lines()[1]


def test_operators_without_a_price_are_named_once_and_six_of_them(comparison: StepComparison) -> None:
    unpriced = [(operator(f"aten::{name}", 1.0), None) for name in "aabcdefg"]
    for steps, seconds in ((1, "16 s"), (2, "8 s")):
        found = with_step(comparison, operators=tuple(unpriced), exchanges=(), steps=steps)
        (line,) = found.lines()[2:]
        named = "aten::a, aten::b, aten::c, aten::d, aten::e, ..."
        assert line == f"not priced, taken as measured: 8 operators, {seconds} ({named})"
        rows = found.to_json()["operators"]
        assert [row["calls_per_step"] for row in rows] == [2 / steps] * 8
        assert all(row["measured_s"] == 1.0 and row["predicted_s"] is None for row in rows)


@pytest.mark.parametrize(("count", "more"), [(3, []), (5, ["... and 2 more kinds of exchanges, in --json"])])
def test_three_kinds_of_exchanges_are_told(comparison: StepComparison, count: int, more: list[str]) -> None:
    rows = [ExchangeRow(TracedExchange("all-reduce", 1024, ranks=8), 2.0, 1.0, 3.0)]
    rows += [ExchangeRow(TracedExchange("send", None), 1.0, 1.0, None)] * (count - 1)
    found = with_step(comparison, operators=(), exchanges=tuple(rows)).lines()[2:]
    assert found[0] == "2 x all-reduce among 8 ranks, 1 KiB put in: measured 1 s each, predicted 3 s"
    assert found[1] == found[2] == "1 x send, bytes not recorded: measured 1 s each, not predicted"
    assert found[3:] == more


def test_a_profile_that_names_no_machine_needs_a_cluster(tmp_path: Path) -> None:
    nameless = written(tmp_path, events())
    with pytest.raises(ConfigError, match="measured on a machine that the profile does not name: expected --cluster"):
        compare_step(nameless)
    found = compare_step(nameless, "dgx-a100-64")
    assert found.machine == "a100-calibrated on dgx-a100-64"
    assert found.where == "an accelerator that the profile does not name"
    with pytest.raises(UnsupportedError, match="'titan-xp' has no kernel model"):
        compare_step(nameless, load_cluster("inceptionn-4"))
    odd = written(tmp_path, events(), deviceProperties=[{"name": "Abacus"}])
    with pytest.raises(ConfigError, match="measured on Abacus, which the catalog lacks"):
        compare_step(odd)
    host = written(tmp_path, [each for each in events() if each["cat"] in ("cpu_op", "user_annotation")])
    assert compare_step(host, "dgx-a100-64").where == "the host alone"


def timed(nbytes: float, *, nodes: int = 1) -> MeasuredCollective:
    return MeasuredCollective(nodes=nodes, gpus=8, collective="all-reduce", nbytes=nbytes, time_us=1e6)


def test_errors_of_collectives_are_told_by_size() -> None:
    sizes = (2.0**20 - 1, 2.0**20, 2.0**26 - 1, 2.0**26)
    tiers = Tiers(8, 370e9, 48e9, True, 3.35e12)
    whole = System("s", [timed(nbytes) for nbytes in sizes], tiers, load_transport("nccl-hopper"))
    (line,) = CollectiveAccuracy((whole,), (np.array([1.5, 0.9, 1.2, 1.0]),), {}).lines()
    assert line == (
        "s, nccl-hopper: below 1 MiB median error 50.0%, mean 50.0% (1 rows); from 1 MiB median error 10.0%, "
        "mean 10.0% (3 rows); from 64 MiB median error 0.0%, mean 0.0% (1 rows)"
    )
    small = System("s", [timed(1024)], tiers, load_transport("nccl-hopper"))
    found = CollectiveAccuracy((small,), (np.array([1.5]),), {})
    assert found.lines() == ["s, nccl-hopper: below 1 MiB median error 50.0%, mean 50.0% (1 rows)"]
    assert found.rows()[0]["error"] == pytest.approx(0.5) and found.display_rows()[0]["error"] == "+50.0%"


@pytest.mark.parametrize(
    ("nodes", "told"),
    [
        ((1, 1), ["no row crosses domains: what is said of the network is typical of other systems"]),
        ((2, 2), ["every row crosses domains: the latency inside a domain is typical of other systems"]),
        ((1, 2), []),
    ],
)
def test_what_no_row_measured_is_said(nodes: tuple[int, ...], told: list[str]) -> None:
    transport = load_transport("nccl-hopper")
    rows = [timed(2.0**20, nodes=count) for count in nodes]
    system = System("s", rows, Tiers(8, 370e9, 48e9, True, 3.35e12), transport)
    found = TransportCalibration(transport, system, {})
    assert found.remarks()[1:] == told
    assert found.title == "nccl-hopper fitted to the 2 rows of s"
    assert all(row["typical"] == row["fitted"] for row in found.rows())


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({}, "one of the three"),
        ({"rows": "a", "profile": "b", "accelerator": "a100"}, "one of the three"),
        ({"rows": "a"}, "expected --accelerator, what was measured on"),
        ({"rows": "a", "accelerator": "a100", "cluster": "x"}, "--cluster x: of collectives, of which there are none"),
        ({"profile": "a", "accelerator": "a100", "transport": "x"}, "--transport x: of collectives"),
        ({"collectives": "a", "accelerator": "a100", "cluster": "x"}, "--accelerator a100: --cluster x states it"),
    ],
)
def test_what_is_calibrated_on_is_said_once(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ll.calibrate(**asked)


def test_what_is_left_out_is_rows_or_models() -> None:
    with pytest.raises(ConfigError, match="--cross-validate 'days': expected rows or models"):
        ll.accuracy("absent.csv", cross_validate=cast("Any", "days"))
    with pytest.raises(ConfigError, match="exclude one another"):
        ll.accuracy("absent.csv", calibration="a100-calibrated", cross_validate="rows")


@pytest.mark.parametrize(("rows", "fitted"), [(2, False), (3, True)])
def test_transports_are_fitted_to_three_rows_of_one_system(tmp_path: Path, rows: int, fitted: bool) -> None:
    path = tmp_path / "timed.csv"
    lines = [f"1,8,all-reduce,{2**power},{2 ** (power - 15)}" for power in range(20, 20 + rows)]
    path.write_text("\n".join(["nodes,gpus,collective,nbytes,time_us", *lines, ""]))
    if fitted:
        assert isinstance(ll.calibrate(collectives=path, accelerator="h100"), TransportCalibration)
    else:
        with pytest.raises(ConfigError, match="2 rows: expected at least 3 to fit a transport to"):
            ll.calibrate(collectives=path, accelerator="h100")
    named = "nodes,gpus,collective,nbytes,time_us,cluster,transport\n"
    path.write_text(
        named + "".join(f"1,8,all-reduce,1024,9,{name},nccl-hopper\n" for name in ("dgx-h100-64", "dgx-h100-256"))
    )
    with pytest.raises(ConfigError, match=r"2 systems \(timed, dgx-h100-64; timed, dgx-h100-256\): expected one"):
        ll.calibrate(collectives=path)


def test_a_calibration_tells_each_parameter_by_what_it_rests_on() -> None:
    made = made_calibration(gemm_fraction=0.6)
    found = StepsCalibration(made, {})
    rests = {row["parameter"]: row["rests on"] for row in found.display_rows()}
    assert list(rests) == [row["parameter"] for row in found.rows()] == list(made.parameters)
    assert {name for name, basis in rests.items() if basis == "rows"} == {"gemm_fraction"}
    assert set(rests.values()) == {"rows", "prior"}
    held, left = found.remarks()
    assert held == (
        "held out in 10 folds: mean error 5.0%, median 3.0%, bias +0.0%, nine of ten below 10.0%; "
        "90 % intervals hold 90%"
    )
    others = [name for name in made.parameters if name != "gemm_fraction"]
    assert left == f"the rows say little about {', '.join(others)}: near their priors"
    all_known = made_calibration("a100", **{name: each.value for name, each in made.parameters.items()})
    assert StepsCalibration(all_known, {}).remarks() == [held]
    assert found.to_json()["schema"] == "lightloom.calibration/1"


def test_a_calibration_of_a_profile_tells_what_its_operators_determine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "gpu.json"
    document = gpu_profile()
    path.write_text(json.dumps(document))
    found = ll.calibrate(accelerator="a100", profile=path)
    assert found.origin["seed"] == 0
    monkeypatch.setattr(calibrating, "calibrate_on_profile", lambda *_: made_calibration(gemm_fraction=0.6))
    steps, fitted, left, held = found.remarks()
    assert steps.startswith("2 steps of 1000 ms each, ") and steps.endswith(" of it in these operators")
    least = format_time(TIMED_FROM)
    assert fitted == f"fitted to 11 operators that are priced and take {least} or more: gemm_fraction 0.85 to 0.6"
    assert left == f"the operators say little about {', '.join(FITTED[1:])}: near their priors"
    assert held.startswith("operators held out in 10 folds: mean error 5.0%, median 3.0%; ")
    rows, shown = found.rows(), found.display_rows()
    assert {row["operator"] for row in shown} == {"mm", "_scaled_dot_product_flash_attention", "add"}
    assert [row["operator"] for row in rows] == [f"aten::{row['operator']}" for row in shown]
    assert {row["format"] for row in rows} == {"bf16"} and {row["calls a step"] for row in shown} == {"1"}
    assert {row["inputs"] for row in shown if row["operator"] == "add"} == {
        f"{2**power} {2**power}" for power in (26, 27, 28)
    }
    assert all("fitted" in row for row in shown)
    # The seconds of all operators of both steps, of which a remark says half.
    total = sum(row["measured_s"] for row in rows)
    assert format_time(total) in steps
    assert [row["share"] for row in rows] == pytest.approx([row["measured_s"] / total for row in rows])
    assert all(row["fitted_s"] > row["predicted_s"] for row in rows if row["operator"] == "aten::mm")
    assert [row["fitted_s"] for row in rows if row["operator"] == "aten::add"] == pytest.approx(
        [row["predicted_s"] for row in rows if row["operator"] == "aten::add"]
    )
    assert found.to_json()["refusal"] is None and found.to_json()["calibration"]["accelerator"] == "a100"


def test_a_profile_that_calibrates_nothing_shows_no_fit(tmp_path: Path) -> None:
    path = written(tmp_path, events())
    found = ll.calibrate(accelerator="a100", profile=path)
    assert found.refusal is not None and list(found.remarks())[-1] == f"nothing fitted: {found.refusal}"
    assert all("fitted" not in row for row in found.display_rows())
    assert all(row["fitted_s"] is None and row["format"] is not None for row in found.rows())
    assert (found.to_json()["calibration"], found.to_json()["refusal"]) == (None, found.refusal)


def test_the_file_of_a_fitted_transport_says_what_it_was_fitted_to() -> None:
    transport = load_transport("nccl-hopper")
    system = System("s", [timed(2.0**20)] * 3, Tiers(8, 370e9, 48e9, True, 3.35e12), transport)
    found = TransportCalibration(transport, system, {"lightloom": "1"})
    document = yaml.safe_load(found.text())
    assert document["description"] == "nccl-hopper fitted to the 3 rows of s"
    assert document["sources"] == {**transport.sources, "scales": "fitted to s"}
    assert "name" not in document and "null" not in found.text()
    shown = [row["number"] for row in found.display_rows()]
    assert shown == ["latency", "network latency", "bandwidth", "network bandwidth"]
    assert found.to_json()["rows"] == 3 and found.to_json()["provenance"] == {"lightloom": "1"}
