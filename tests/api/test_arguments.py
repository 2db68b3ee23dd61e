"""Arguments of the API: what is taken, what is refused in which words, and where the bounds lie."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import lightloom as ll
from lightloom.app.api import composing, planning
from lightloom.app.api.arguments import collective_of
from lightloom.app.api.composing import Gain, compose
from lightloom.app.api.designing import _budget, _ranks
from lightloom.app.api.goodput import GoodputSettings, Rack, format_duration
from lightloom.app.api.planning import ExchangeChoice
from lightloom.app.api.traffic import _request
from lightloom.collectives.collective import Collective, Sizes
from lightloom.core.errors import ConfigError, InputError, UnknownNameError, UnsupportedError
from lightloom.machines.accelerators.load import load_accelerator
from lightloom.machines.clusters.load import load_cluster
from lightloom.planning.economics.job import World
from lightloom.planning.economics.ledger import Site, board_of
from lightloom.planning.search.request import SearchRequest
from lightloom.planning.traffic.jobs import TrafficJob


@pytest.mark.parametrize(
    "beside", [{"nbytes": 1}, {"nbytes_per_rank": 1}, {"permutation": "reverse"}, {"sizes": [1.0] * 4}]
)
def test_a_collective_states_everything_about_itself(beside: dict[str, Any]) -> None:
    whole = Collective("all-gather", 4, 1e6)
    assert collective_of(whole, 4, None) is whole
    with pytest.raises(ConfigError, match="expected none of nbytes, nbytes_per_rank, permutation and sizes beside it"):
        collective_of(whole, 4, **{"nbytes": None, **beside})
    with pytest.raises(ConfigError, match="the collective is over 4 ranks, the fabric has 5"):
        collective_of(whole, 5, None)


def test_sizes_are_of_all_ranks_or_of_each() -> None:
    assert collective_of("all-gather", 4, "4kB") == collective_of("all-gather", 4, None, "1kB")
    assert collective_of("all-gather", 4, "4kB").nbytes == 4000
    for given in ((None, None), (1, 1)):
        with pytest.raises(ConfigError, match="give either the total size"):
            collective_of("all-gather", 4, *given)
    assert collective_of("barrier", 4, None).nbytes == 0


def test_permutations_are_words_or_ranks() -> None:
    shifted = collective_of("permute", 4, 1, permutation="shift:1")
    assert shifted.destinations == (1, 2, 3, 0) and all(type(rank) is int for rank in shifted.destinations)
    assert collective_of("permute", 4, 1, permutation=cast(Any, np.array([1, 2, 3, 0]))) == shifted
    assert collective_of("permute", 4, 1).destinations == shifted.destinations


def test_a_file_of_sizes_states_the_total(tmp_path: Path) -> None:
    path = tmp_path / "sizes.csv"
    path.write_text("0,1,2\n3,0,4\n5,6,0\n")
    assert collective_of("all-to-all-v", 3, None, sizes=path).nbytes == pytest.approx(21 / 3)
    assert collective_of("all-to-all-v", 3, 9, sizes=path).nbytes == 9
    path.write_text("1\n2\n4\n")
    assert collective_of("reduce-scatter-v", 3, None, sizes=str(path)).nbytes == pytest.approx(7)
    parts = Sizes(np.array([1.0, 2.0, 4.0]))
    assert collective_of("reduce-scatter-v", 3, 7, sizes=parts).sizes == parts
    assert collective_of("reduce-scatter-v", 3, 7, sizes=[1, 2, 4]).sizes == parts
    with pytest.raises(ConfigError, match="give either"):
        collective_of("reduce-scatter-v", 3, None, sizes=[1, 2, 4])
    with pytest.raises(ConfigError, match="expected numbers, one a rank or one a pair of ranks"):
        collective_of("reduce-scatter-v", 3, 7, sizes=cast(Any, ["a", "b", "c"]))


def test_settings_of_a_goodput_ask_for_a_simulation_only_where_one_has_them() -> None:
    assert "simulate" not in GoodputSettings().arguments()
    assert GoodputSettings(months=2, spares=3).arguments()["months"] == 2
    assert GoodputSettings(weibull=0.7).arguments()["simulate"] == World(shape=0.7)
    assert GoodputSettings(crews=2).arguments()["simulate"] == World(crews=2)
    racks = GoodputSettings(rack=Rack(nodes=4, mtbf=1e6)).arguments()
    assert racks["simulate"] == World(rack=4, rack_rate=1e-6)
    assert not {"weibull", "crews", "rack"} & racks.keys()


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (172_800, "2 days"),
        (172_799, "48 h"),
        (7_200, "2 h"),
        (7_199, "120 min"),
        (120, "2 min"),
        (119, "119 s"),
        (8.64e6, "100 days"),
    ],
)
def test_durations_are_in_the_largest_unit_of_which_there_are_two(seconds: float, words: str) -> None:
    assert format_duration(seconds) == words


def test_months_are_more_than_none_and_at_most_a_century() -> None:
    for months in (0, -1, 1200.1):
        with pytest.raises(ConfigError, match="expected more than 0 and at most 1200"):
            ll.goodput("dgx-h100-64", months=months)
    one, most = (ll.goodput("dgx-h100-64", months=months) for months in (1, 1200))
    assert most.interruptions == pytest.approx(1200 * one.interruptions)
    assert most.goodput == one.goodput and one.simulated is None


def test_a_name_of_a_fabric_and_a_cluster_is_the_fabric_s(tmp_path: Path) -> None:
    assert ll.bill("two-tier-400g", 64).name == "fabric two-tier-400g"
    assert ll.bill("dgx-h100-64").name == "cluster dgx-h100-64"
    assert ll.bill("dadiannao-100g", 16).name == "fabric dadiannao-100g"
    cluster = load_cluster("dgx-h100-64")
    assert ll.bill(cluster).name == "cluster dgx-h100-64"
    assert ll.bill(cluster.fabric).name.startswith("fabric tiers")
    assert len(ll.bill(cluster).rows()) > len(ll.bill(cluster.fabric).rows())
    with pytest.raises(InputError, match=r"unknown field 'wings'.*; or a choice of the bill, one of "):
        ll.bill("two-tier-400g", 64, wings=2)
    with pytest.raises(InputError) as refused:
        ll.bill("two-tier-500g", 64)
    assert "choice of the bill" not in str(refused.value)


def test_the_precision_of_the_five_ideas_is_that_of_training_or_of_the_highest_rate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Asked(Exception):
        """Carries the precision that was asked for."""

    def ask(*_: object, set: dict[str, str]) -> None:
        raise Asked(set["training.precision"])

    monkeypatch.setattr(composing, "load_cluster", ask)

    def precision(*peaks: str) -> str:
        path = tmp_path / "chip.yaml"
        path.write_text("description: chip\npeak:\n" + "".join(f"  {peak} TFLOPS\n" for peak in peaks))
        with pytest.raises(Asked) as asked:
            compose("hdc", accelerator=str(path))
        return str(asked.value)

    assert precision("fp64: 5", "fp32: 10") == precision("fp32: 10", "fp64: 5") == "fp32"
    assert precision("fp64: 50", "fp32: 10") == "fp64"
    assert precision("fp16: 5", "bf16: 1", "fp32: 10") == "bf16"
    assert precision("fp16: 5", "fp32: 10") == "fp16"


def test_the_five_ideas_need_a_bandwidth_and_a_common_quantity() -> None:
    for bandwidth in (0, -1, float("inf")):
        with pytest.raises(InputError, match=r"expected more than 0|bandwidth"):
            compose("hdc", bandwidth=bandwidth)
    with pytest.raises(UnknownNameError, match="common quantity of networks 'weight'"):
        compose("hdc", equal=cast(Any, "weight"))


@pytest.mark.parametrize(
    ("share", "half", "words"),
    [
        (0.0, 0.1, "0 %"),
        (4.9e-4, None, "0 %"),
        (-4.9e-4, 0.1, "0 %"),
        (5e-4, None, "+0.1 %"),
        (-0.05, None, "-5.0 %"),
        (0.0994, 0.03, "+9.9 ±3 %"),
        (0.0996, 0.03, "+10 ±3 %"),
        (-0.5, 0.0, "-50 ±0 %"),
    ],
)
def test_gains_are_in_per_cent_with_two_digits(share: float, half: float | None, words: str) -> None:
    assert str(Gain(share, half, True)) == words


def test_budgets_of_designs_are_amounts_above_nothing() -> None:
    assert _budget("budget_dollars", None, "price") == float("inf")
    assert _budget("budget_dollars", "1,500 k$", "price") == 1.5e6
    assert _budget("budget_watts", "200kW", "power") == 2e5
    assert _budget("budget_watts", 3.0, "power") == 3.0
    for given in (0, -1.0, "0 W", float("nan")):
        with pytest.raises(ConfigError, match=r"budget_watts .*: expected more than 0|budget_watts:"):
            _budget("budget_watts", given, "power")
    with pytest.raises(ConfigError, match="budget_dollars: "):
        _budget("budget_dollars", "many", "price")


def test_ranks_of_designs_are_powers_of_two_whose_boards_the_budget_pays() -> None:
    site, most = Site(), float("inf")
    assert _ranks([4, 2, 4], most, most, "h100", site) == (4, 2)
    assert _ranks(2, most, most, "h100", site) == (2,)
    for given in (1, [8, 1], [], 0):
        with pytest.raises(ConfigError, match="expected numbers of at least 2"):
            _ranks(given, most, most, "h100", site)
    with pytest.raises(ConfigError, match="neither ranks nor a budget"):
        _ranks(None, most, most, "h100", site)
    counts = _ranks(None, 1e12, most, "h100", site)
    assert counts == tuple(2**power for power in range(3, 15))
    with pytest.raises(ConfigError, match="expected at least") as refused:
        _ranks(None, most, 1.0, "h100", site)
    board = board_of(load_accelerator("h100"), site)
    assert board.static_power is not None
    exactly = 16 * board.static_power.value * site.pue
    assert _ranks(None, most, exactly, "h100", site) == (8, 16)
    watts = float(str(refused.value).split("dollars and ")[2].split(" W")[0].replace(",", ""))
    assert _ranks(None, most, watts + 1, "h100", site) == (8,)
    assert _ranks(None, most, 2 * watts + 2, "h100", site) == (8, 16)
    assert _ranks(None, most, 2 * watts - 2, "h100", site) == (8,)


def choice(*names: str, **given: Any) -> ExchangeChoice:
    return ExchangeChoice(names, **{"profile": None, "ratio": None, "engine": None, **given})


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (choice(ratio=4), "--exchange-ratio needs --exchange METHOD"),
        (choice(profile="p", engine="nic"), "--exchange-profile needs --exchange METHOD"),
        (choice("int4", ratio=4), "--exchange-ratio is for methods whose bytes depend on the gradient"),
        (choice("inceptionn", ratio=4, profile="p"), "give either --exchange-profile or --exchange-ratio"),
        (choice("int4", engine="nic"), "--exchange-engine nic runs inceptionn only, not int4"),
        (choice("inceptionn", ratio=0), "--exchange-ratio 0: expected a positive number"),
        (choice("inceptionn", ratio="many"), "--exchange-ratio many: expected a positive number"),
        (choice("inceptionn", ratio=float("inf")), "--exchange-ratio inf: expected a positive number"),
        (choice("inceptionn", ratio=1e6), "--exchange-ratio 1e.06: expected at most .*of zeros"),
        (choice("no-such-method"), "no-such-method"),
        (choice("inceptionn", engine="steam"), "steam"),
    ],
)
def test_methods_of_exchange_and_their_options_go_together(asked: ExchangeChoice, message: str) -> None:
    with pytest.raises(InputError, match=message):
        asked.check()


def test_methods_of_exchange_are_taken_once_and_without_options() -> None:
    choice().check()
    choice("int4").check()
    choice("int4", engine="accelerator").check()
    choice("inceptionn", ratio="4", engine="nic").check()
    choice("int4", "inceptionn", ratio=4).check()
    graph = ll.trace("hdc")
    found = choice("int4", "inceptionn", "int4", ratio=4).priced("hdc", graph)
    assert len(found) == 2


def test_names_are_taken_once_and_all_is_no_name() -> None:
    assert planning._names("all") == planning._names([]) == planning._names(["all"]) == ()
    assert planning._names("ddp") == ("ddp",)
    assert planning._names(["fsdp", "all", "ddp", "fsdp"]) == ("fsdp", "ddp")


def test_batches_are_of_a_rank_of_a_step_or_those_of_the_clusters() -> None:
    clusters = [load_cluster("terarack-64", ranks) for ranks in (8, 16, 8)]
    stated = [load_cluster("terarack-64", 4, set={"training.batch_per_rank": 3})]

    def batches(batch: Any = None, whole: Any = None, on: Any = clusters) -> Any:
        return planning._with_batches(SearchRequest(), on, batch, whole).global_batches

    assert batches() is None and batches(on=[*clusters, *stated]) == (12,)
    assert batches(2) == (16, 32)
    assert batches(whole=7, on=stated) == (7,) and batches(whole=[7, 9, 7]) == (7, 9)
    largest = planning._with_batches(SearchRequest(), clusters, "max", None)
    assert largest.largest_batches and largest.global_batches is None
    with pytest.raises(ConfigError, match="--batch many: expected samples of a rank, or max"):
        planning._with_batches(SearchRequest(), clusters, "many", None)
    with pytest.raises(ConfigError, match="--batch 2 and --global-batch 7: expected one of them"):
        batches(2, [7, 9])
    with pytest.raises(ConfigError, match="--batch max and --global-batch 7"):
        batches("max", 7)
    assert batches(1) == (8, 16) and batches(10_000_000, on=stated) == (40_000_000,)
    for wrong in (0, 10_000_001):
        with pytest.raises(ConfigError, match=f"--batch {wrong}: expected 1 to 10,000,000 samples"):
            batches(wrong)
        with pytest.raises(ConfigError, match=f"--global-batch {wrong}: expected 1 to 10,000,000 samples"):
            batches(whole=[1, wrong])


@pytest.mark.parametrize(
    ("model", "given", "message"),
    [
        ("hdc", {"inputs": ()}, "hdc: brings its own example inputs: expected no inputs"),
        ("hdc", {"step": 0}, "--step 0: hdc is no execution trace"),
        ("hdc", {"define": {"a": 1}}, "--define a: hdc is no file that leaves values open"),
    ],
)
def test_arguments_that_a_model_does_not_take_are_refused(model: str, given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ll.trace(model, **given)
    graph = ll.trace(model)
    with pytest.raises(ConfigError, match=r"a graph is traced already|is no execution trace|is no file"):
        ll.trace(graph, **given)
    with pytest.raises(ConfigError, match="a graph is traced already: expected neither inputs nor sequence_length"):
        ll.trace(graph, sequence_length=8)
    assert ll.trace(model, define={}) == graph


def job(text: str) -> Any:
    return _request(TrafficJob.parse(text), load_cluster("dgx-h100-64"))


def test_a_job_of_a_collective_has_one_size() -> None:
    assert job("all-reduce@0-7:nbytes=64MiB").nbytes == job("all-reduce@0-7:nbytes-per-rank=8MiB").nbytes == 2**26
    found = job("all-reduce@0-7:nbytes=64MiB,algorithm=ring")
    assert found.algorithm == "ring" and found.graph is None and found.search is None
    for text in ("all-reduce@0-7", "all-reduce@0-7:nbytes=1,nbytes-per-rank=1"):
        with pytest.raises(ConfigError, match="expected one of nbytes and nbytes-per-rank"):
            job(text)
    with pytest.raises(ConfigError, match="option 'tp': expected one of nbytes, nbytes-per-rank, algorithm"):
        job("all-reduce@0-7:nbytes=1,tp=2")
    with pytest.raises(ConfigError, match="barrier shares no links with others yet: expected all-gather"):
        job("barrier@0-7")


def test_a_job_of_a_model_has_pins_and_one_batch() -> None:
    found = job("hdc@0-7:dp=4,tp=2,global-batch=64,algorithm=ring+optree").search
    assert found.global_batches == (64,) and found.algorithms == ("ring", "optree")
    assert (found.pins.dp, found.pins.tp, found.pins.pp) == (4, 2, None) and not found.compare
    assert job("hdc@0-7:batch=4").search.global_batches == (32,)
    assert job("hdc@0-7").search.algorithms == ()
    with pytest.raises(ConfigError, match="options batch and global-batch: expected one of them"):
        job("hdc@0-7:batch=4,global-batch=32")
    with pytest.raises(ConfigError, match="option 'nbytes': expected one of dp, tp"):
        job("hdc@0-7:nbytes=1")
    for wrong in ("0", "-1", "1.5", "many"):
        with pytest.raises(ConfigError, match=f"tp={wrong}: expected a whole number, 1 or more"):
            job(f"hdc@0-7:tp={wrong}")
    assert job("hdc@0-7:tp=1").search.pins.tp == 1


def test_algorithms_of_a_collective_are_all_or_those_that_are_named() -> None:
    def ranked(algorithm: Any) -> list[str]:
        found = ll.collective("all-gather", "wdm-ring", 4, 1e6, algorithm=algorithm, wavelengths=2)
        assert found.algorithm == (algorithm if isinstance(algorithm, str) else "+".join(dict.fromkeys(algorithm)))
        return sorted(each.algorithm for each in found)

    assert ranked("ring") == ["ring"] and ranked(["ring", "optree", "ring"]) == ["optree", "ring"]
    with pytest.raises(UnsupportedError, match="wrht"):
        ll.collective("all-to-all", "wdm-ring", 4, 1e6, algorithm="wrht")


def test_questions_of_collectives_are_changed_up_to_so_many_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    def words(fabric: str, **fields: Any) -> list[str]:
        found = ll.collective("all-gather", fabric, 4, 1e6, algorithm=["ring"], **fields)
        return [text for text, _ in found.what_ifs()]

    every = ["twice the bandwidth", "half the set-up time", "ten times the bytes", "a tenth of the bytes"]
    assert words("circuit-switch") == every
    assert words("switch") == [every[0], *every[2:]]
    monkeypatch.setattr("lightloom.app.api.collectives.MOST_CHANGED", 4)
    assert words("circuit-switch") == every
    monkeypatch.setattr("lightloom.app.api.collectives.MOST_CHANGED", 3)
    assert words("circuit-switch") == []


def test_changed_questions_have_the_answers_of_what_they_say() -> None:
    found = ll.collective("all-gather", "circuit-switch", 4, 1e6, algorithm=["ring"])
    changed = dict(found.what_ifs())
    assert changed["ten times the bytes"].collective.nbytes == 1e7
    assert changed["a tenth of the bytes"].collective.nbytes == 1e5
    assert changed["half the set-up time"].fabric.setup_time == found.fabric.setup_time / 2
    twice = changed["twice the bandwidth"].fabric.total_receive_bandwidth()
    assert twice == pytest.approx(2 * found.fabric.total_receive_bandwidth())
    assert all(each.algorithm == "ring" for each in changed.values())


def test_families_of_algorithms_are_told_by_the_beginnings_of_their_names() -> None:
    found = ll.collective("all-gather", "wdm-ring", 8, 1e6, wavelengths=4)
    families = [each.algorithm for each in found.families()]
    ring = [each.algorithm for each in found if each.algorithm.startswith("ring")]
    assert len(ring) > 1 and [name for name in families if name.startswith("ring")] == [ring[0]]
    assert families[0] == found.winner.algorithm
    assert [each.time for each in found.families()] == sorted(each.time for each in found.families())
