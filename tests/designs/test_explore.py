"""The search over designs: pruned as unpruned, budgets, files of designs and bad input."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from itertools import count, permutations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

import lightloom as ll
from lightloom.app.api import designing
from lightloom.app.api.designing import DesignFront
from lightloom.app.cli.design import _page, verdict_lines
from lightloom.core.errors import ConfigError, InputError, UnsupportedError
from lightloom.machines.accelerators.load import load_accelerator
from lightloom.planning.designs import explore
from lightloom.planning.designs.explore import (
    Bounded,
    Evaluated,
    Question,
    Task,
    solve_task,
)
from lightloom.planning.designs.page import break_even, price_text, ratio
from lightloom.planning.designs.space import read_space
from lightloom.planning.economics.ledger import Site, board_of, site_of
from lightloom.planning.pricing.group_prices import GroupPrices
from lightloom.planning.search import search
from lightloom.planning.search.rows import ClusterRows

MODEL = "alexnet"
SPACE = """
description: few designs
families:
  - name: switch
    technology: electrical
    fabric: switch
    set: {bandwidth: [50Gbps, 100Gbps, 400Gbps]}
  - name: circuits
    technology: optical
    fabric: circuit-switch
    set: {degree: [1, 2, 4], bandwidth: [100Gbps, 400Gbps]}
  - name: wavelengths
    technology: optical
    fabric: wdm-ring
    set: {wavelengths: [4, 8]}
"""


@pytest.fixture
def space(tmp_path: Path) -> Path:
    path = tmp_path / "space.yaml"
    path.write_text(SPACE)
    return path


@cache
def explored(*, prune: bool = True, host_price: float | None = None) -> DesignFront:
    """Designs of the space above among 8 ranks, found once for all tests that only look at them."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "space.yaml"
        path.write_text(SPACE)
        site = {} if host_price is None else {"host_price": host_price}
        return ll.design(MODEL, ranks=8, batch=4, space=path, site=site, prune=prune)


@pytest.mark.long
@pytest.mark.parametrize("price", [None, 5000.0], ids=["host without a price", "host of $ 5000"])
def test_the_pruned_front_is_that_of_all_designs(price: float | None) -> None:
    pruned, every = (explored(prune=prune, host_price=price) for prune in (True, False))
    assert [row["name"] for row in pruned.rows() if row["on_front"]] == [
        row["name"] for row in every.rows() if row["on_front"]
    ]
    leading = [
        [(row["name"], row["samples_per_dollar"], row["break_even"]) for row in found.rows() if row["leads_technology"]]
        for found in (pruned, every)
    ]
    assert leading[0] == leading[1]
    assert len(every.exploration.candidates) + len(every.exploration.refused) == 11 > len(pruned.exploration.candidates)


@pytest.mark.long
def test_what_leads_at_some_host_price_stays_where_nothing_states_it(space: Path) -> None:
    """A missing price is not nothing, neither for the front nor for a ratio or a break-even price."""
    unknown, free = explored(prune=False), explored(prune=False, host_price=0.0)
    fronts = [{row["name"] for row in each.rows() if row["on_front"]} for each in (unknown, free)]
    assert fronts[1] <= fronts[0]
    pair = [unknown.exploration.best(technology, 0, known=True) for technology in ("optical", "electrical")]
    assert pair[0] is not None and pair[1] is not None
    told = ratio(pair[0], pair[1], 0)
    even = break_even(pair[0], pair[1])
    crossings = 0
    for first, second in permutations(unknown.exploration.candidates, 2):
        if (price := ratio(first, second, 0).equal_at) is not None:
            rivals = [each.assuming({"price of host-hgx-h100": price}).point[0] for each in (first, second)]
            assert price > 0 and rivals[0] == pytest.approx(rivals[1])
            crossings += 1
    assert crossings >= 2
    assert told.limit is not None and told.least != pytest.approx(told.limit)
    for price in (5000.0, 40_000.0):
        stated = explored(prune=False, host_price=price)
        names = {row["name"] for row in stated.rows() if row["on_front"]}
        assert names <= fronts[0]
        same = [
            next(each for each in stated.exploration.candidates if each.design.key == one.design.key)
            for one in pair
            if one is not None
        ]
        at = same[0].point[0] / same[1].point[0]
        assert min(told.least, told.limit) <= at <= max(told.least, told.limit)
        expected = even.fabric_dollars + price * even.dollars_more["price of host-hgx-h100"]
        assert break_even(same[0], same[1]).fabric_dollars == pytest.approx(expected)
        assert not stated.exploration.candidates[0].worth.alike
    lines = [line for line in verdict_lines(unknown) if line.startswith("samples per dollar")]
    assert lines and all("if the price of host-hgx-h100 is nothing" in line for line in lines)
    again = ll.design(MODEL, ranks=8, batch=4, space=space, prune=False)
    hashes = [each.to_json()["provenance"]["configuration"] for each in (unknown, again, stated)]
    assert hashes[0] == hashes[1] != hashes[2]


@pytest.mark.long
def test_a_break_even_price_that_is_put_back_makes_rivals_equal(tmp_path: Path) -> None:
    """As a price of the unknown part, and as one of a whole fabric; both as command and file take them."""
    path = tmp_path / "pair.yaml"
    pair = SPACE.replace("[50Gbps, 100Gbps, 400Gbps]", "[400Gbps]").replace("wavelengths: [4, 8]", "wavelengths: [8]")
    first, switch, _, ring = pair.split("  - name: ")
    path.write_text("  - name: ".join((first, switch, ring)))

    def points(space: Path, **site: object) -> tuple[DesignFront, list[float]]:
        found = ll.design(MODEL, ranks=8, batch=4, space=space, site={"host_price": "20 k$", **site}, prune=False)
        best = [found.exploration.best(technology, 0) for technology in ("optical", "electrical")]
        return found, [each.point[0] for each in best if each is not None]

    found, before = points(path)
    optical, electrical = (found.exploration.best(technology, 0) for technology in ("optical", "electrical"))
    assert optical is not None and electrical is not None and before[0] != pytest.approx(before[1])
    even = break_even(optical, electrical)
    assert even.part == "wdm-engine"
    _, priced = points(path, prices={"wdm-engine": even.part_price})
    assert priced[0] == pytest.approx(priced[1]) and priced[1] == pytest.approx(before[1])
    whole = tmp_path / "whole.yaml"
    whole.write_text(path.read_text() + f"    fabric_price: {even.fabric_dollars!r}\n")
    assert points(whole)[1] == pytest.approx(priced)
    with pytest.raises(ConfigError, match="the price of splitter changes nothing here"):
        points(path, prices={"splitter": 5})
    with pytest.raises(ConfigError, match="expected a part of the fabric, or host_price"):
        points(path, prices={"host-hgx-h100": 5})


def test_the_summary_names_a_lead_only_among_known_prices(space: Path) -> None:
    """Rings of wavelengths, whose engines nothing prices, are an upper bound and not ahead of anything."""
    families = SPACE.split("  - name: ")
    space.write_text(f"{families[0]}  - name: {families[1]}  - name: {families[3]}")
    found = ll.design(MODEL, ranks=8, batch=4, space=space)
    first = found.exploration.candidates[0]
    known = found.exploration.best("electrical", 0, known=True)
    assert first.design.family == "wavelengths"
    assert known is not None
    assert f"{known.design.name} trains most, at most {known.point[0]:.4g} samples" in found.summary()
    assert f"{first.design.name} trains at most {first.point[0]:.4g}" in found.summary()
    assert "price of wdm-engine" in found.summary()
    assert "ahead" not in found.summary()
    rival = found.exploration.best("electrical", 0)
    assert rival is not None
    line = next(line for line in verdict_lines(found) if line.startswith("samples per dollar, of all designs"))
    assert ("trains at most " in line) == (not rival.worth.unknown)
    assert ("both figures are upper bounds" in line) == bool(rival.worth.unknown)
    page = _page(found)
    optical = next(table for table in page.tables if table.title.startswith("Optical"))
    assert all(row[2].startswith("≤ ") and row[3].startswith("≤ ") for row in optical.rows)
    assert not any(note.strip().startswith("it breaks even") for note in page.notes)


def test_the_least_bound_of_few_strategies_is_that_of_all(space: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few are bounded on each fabric, in the order of their floors; nodes of several sizes have floors of their own."""
    monkeypatch.setattr(search, "_AT_ONCE", 1)
    nodes = "  - {name: nodes, technology: electrical, fabric: two-tier-400g, set: {tiers.domain.size: [2, 4]}}\n"
    space.write_text(SPACE + nodes)
    question = Question(graph=ll.trace(MODEL), batch_per_rank=4, site=Site())
    for design in read_space(space).designs([8], "h100", space.parent):
        cluster, request = design.cluster(), question.request(8)
        rows = ClusterRows(question.graph, cluster, request, GroupPrices(cluster.fabric, cluster.training))
        found = solve_task(Task(question=question, design=design))
        assert isinstance(found, Bounded)
        assert found.least_time == min(rows.first((32,))).per_sample


@pytest.mark.long
def test_an_interrupted_search_resumes(space: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was found before the interruption is not computed again, and the results are those of one run."""
    done: list[str] = []

    def interrupted(task: Task) -> Bounded | Evaluated:
        if len(done) == 4:
            raise KeyboardInterrupt
        done.append(task.design.key)
        return solve_task(task)

    ask = partial(ll.design, MODEL, ranks=8, batch=4, space=space)
    monkeypatch.setattr(designing, "solve_task", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ask(folder=tmp_path / "kept")
    counted: list[str] = []

    def counting(task: Task) -> Bounded | Evaluated:
        counted.append(task.design.key)
        return solve_task(task)

    monkeypatch.setattr(designing, "solve_task", counting)
    whole = ask()
    alone = len(counted)
    assert ask(folder=tmp_path / "kept").rows() == whole.rows()
    assert len(counted) == 2 * alone - len(done)
    assert ask(folder=tmp_path / "kept").rows() == whole.rows()
    assert len(counted) == 2 * alone - len(done)


def test_schedules_that_could_not_be_built_are_named(space: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A design whose faster plans may be missing is not among the beaten ones, but says why."""
    why = "ring raises MemoryError: Unable to allocate 24.0 GiB"
    monkeypatch.setattr(GroupPrices, "failures", property(lambda _: {"ring": why, "optree": "optree serves rings"}))
    evaluations = count()

    def beyond_the_first(task: Task) -> Bounded | Evaluated:
        slow = task.below is not None and next(evaluations) > 0
        return solve_task(replace(task, below=1e-12) if slow else task)

    monkeypatch.setattr(designing, "solve_task", beyond_the_first)
    found = ll.design(MODEL, ranks=8, batch=4, space=space)
    assert [row["left_out"] for row in found.rows()] == [why]
    unfinished = [each for each in found.exploration.refused if each.why.endswith(why)]
    assert unfinished
    assert found.designs == 11


@pytest.mark.long
def test_designs_whose_large_groups_were_not_tried_are_not_taken_for_beaten(
    space: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only where exchanges that take no time would not help either; bounds of those count groups of any size."""
    question = Question(graph=ll.trace(MODEL), batch_per_rank=4, site=Site())
    free = explore.least_time(question, 8, "h100")
    monkeypatch.setattr(explore, "MOST_ROWS", 12)
    assert explore.least_time(question, 8, "h100") == free
    found = ll.design(MODEL, ranks=8, batch=4, space=space)
    limit = "no schedule among all 8 ranks was tried: each lists more than 12 transfers"
    optical = [row for row in found.rows() if row["technology"] == "optical"]
    assert {row["left_out"] for row in optical} == {limit}
    assert all(limit in each.why for each in found.exploration.refused)
    assert all(
        each.least_time == pytest.approx(free) for each in found.exploration.beaten if "switch" not in each.design.name
    )
    assert found.designs == 11


@pytest.mark.long
def test_a_budget_chooses_the_ranks(space: Path) -> None:
    found = ll.design(MODEL, budget_dollars=600_000, batch=4, space=space)
    assert {row["ranks"] for row in found.rows()} <= {8, 16}
    assert all(row["dollars"] <= 600_000 for row in found.rows())


def test_the_budget_that_a_refusal_names_is_the_least(space: Path) -> None:
    """A dollar more finds the cheapest design, a dollar less none."""
    ask = partial(ll.design, MODEL, ranks=8, batch=4, space=space, site={"host_price": 5000.0})
    with pytest.raises(UnsupportedError) as refused:
        ask(budget_dollars=1000)
    named = re.search(r"costs (?:at least )?\$([\d,]+)", str(refused.value))
    assert named is not None
    dollars = float(named[1].replace(",", ""))
    found = [row["dollars"] for row in ask(budget_dollars=dollars + 1).rows()]
    assert found == [pytest.approx(dollars, abs=1)] * len(found) and found
    with pytest.raises(UnsupportedError, match=re.escape(f"${named[1]} and")):
        ask(budget_dollars=dollars - 1)


@pytest.mark.parametrize(
    ("dollars", "more", "text"),
    [
        (119.0, {}, "$ 119"),
        (119.0, {"host": -0.0013, "board": 2.0}, "$ 119 - 0.0013 x host + 2 x board"),
        (0.0, {"host": -1.0}, "$ 0 - 1 x host"),
        (-5.0, {"host": 0.1}, "-$ 5 + 0.1 x host"),
        (-5.0, {"host": 0.0, "board": -1.0}, "no price"),
        (-5.0, {}, "no price"),
    ],
)
def test_break_even_prices_are_none_where_no_price_is_low_enough(
    dollars: float, more: dict[str, float], text: str
) -> None:
    assert price_text(dollars, more) == text


@pytest.mark.long
def test_tables_mark_the_front_and_upper_bounds_and_stand_for_all_designs() -> None:
    found = explored(prune=False)
    page = _page(found)
    tables = {table.title: table for table in page.tables}
    for technology in ("electrical", "optical"):
        own = [each for each in found.exploration.candidates if each.design.technology == technology]
        rows = tables[f"{technology.capitalize()} designs"].rows
        counts = [int(row[0].rpartition(" (")[2].removesuffix(" alike)")) if " alike)" in row[0] else 1 for row in rows]
        assert sum(counts) == len(own) and all(count > 0 for count in counts)
        named = {each.design.name: each for each in own}
        for row in rows:
            each = named[row[0].removeprefix("* ").partition(" (")[0]]
            assert row[0].startswith("* ") == each.on_front
            assert row[1] == "8"
            for objective, text in enumerate(row[2:4]):
                assert text.startswith("≤ ") == each.worth.at_most(objective)
                assert float(text.removeprefix("≤ ").replace(",", "")) == pytest.approx(each.point[objective], rel=1e-3)
            assert row[7] == f"{each.worth.goodput:.4f}"
            assert row[9] == each.evaluated.plan
    assert [row[0] for row in tables["Designs that proved bounds leave out"].rows] == [
        each.design.name for each in found.exploration.beaten
    ]
    assert [row[::2] for row in tables["Designs without a plan"].rows] == [
        (each.design.name, each.why) for each in found.exploration.refused
    ]


def test_a_budget_pays_as_many_ranks_as_its_boards_alone_allow() -> None:
    board = board_of(load_accelerator("h100"), Site())
    assert board.dollars is not None and board.static_power is not None
    price, power = board.dollars.value, board.static_power.value

    def ranks(dollars: float, watts: float, accelerator: str = "h100", **site: Any) -> tuple[int, ...]:
        return designing._ranks(None, dollars, watts, accelerator, site_of(site))

    assert ranks(32 * price, math.inf) == (8, 16, 32) == ranks(63.9 * price, math.inf)
    assert ranks(math.inf, 16 * 2 * power, pue=2.0) == (8, 16) == ranks(math.inf, 31.9 * 2 * power, pue=2.0)
    assert ranks(32 * price, 8 * power, pue=1.0) == (8,)
    assert ranks(math.inf, 1e12) == tuple(8 << doubling for doubling in range(12))
    with pytest.raises(ConfigError, match=f"at least {8 * price:,.0f} dollars and {8 * 2 * power:,.0f} W, 8 boards"):
        ranks(8 * price - 1, math.inf, pue=2.0)
    # What has no price costs nothing here.
    with pytest.raises(ConfigError, match="expected at least 0 dollars and"):
        ranks(math.inf, 1.0, accelerator="titan-xp")


def test_one_sample_for_each_rank_is_a_batch(tmp_path: Path) -> None:
    """What is refused is the file, which is read next."""
    with pytest.raises(InputError, match=r"absent\.yaml"):
        ll.design("resnet50", ranks=8, batch=1, space=tmp_path / "absent.yaml")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda space: ll.design("resnet50", space=space), "neither ranks nor a budget"),
        (lambda space: ll.design("resnet50", ranks=8, budget_dollars=1000, space=space), "the cheapest of"),
        (lambda space: ll.design("resnet50", budget_dollars=1000, space=space), "expected at least"),
        (lambda space: ll.design("resnet50", ranks=8, budget_watts=-1, space=space), "expected more than 0"),
        (lambda space: ll.design("resnet50", ranks=1, space=space), "at least 2"),
        (lambda space: ll.design("resnet50", ranks=8, batch=0, space=space), "batch=0"),
    ],
)
def test_contradictions_are_one_line(space: Path, call: Callable[[Path], object], words: str) -> None:
    with pytest.raises(InputError, match=words) as raised:
        call(space)
    assert "\n" not in str(raised.value)
    assert isinstance(raised.value, ConfigError | UnsupportedError)


def test_malformed_spaces_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    for text, words in (
        ("families: []", "no families"),
        ("families: [{name: a, technology: magnetic, fabric: switch}]", "technology"),
        ("families: [{name: a, technology: optical, fabric: switch, set: {bandwidth: []}}]", "at least one"),
        (SPACE + SPACE.split("families:")[1], "two families"),
    ):
        path.write_text(text)
        with pytest.raises(ConfigError, match=words):
            read_space(path)


def test_the_default_space_has_two_hundred_designs_of_both_technologies() -> None:
    designs = list(read_space().designs([64], "h100", Path()))
    assert len(designs) >= 200
    assert {design.technology for design in designs} == {"electrical", "optical"}
    assert len({design.key for design in designs}) == len(designs)


@pytest.mark.slow
def test_all_designs_of_the_default_space_at_64_ranks_give_the_same_front() -> None:
    fronts = [
        [(row["name"], row["samples_per_dollar"], row["samples_per_joule"]) for row in found.rows() if row["on_front"]]
        for found in (ll.design("gpt2-355m", ranks=64, batch=8, prune=prune) for prune in (True, False))
    ]
    assert fronts[0] == fronts[1]


@pytest.mark.long
def test_results_say_which_designs_pay_for_a_library(space: Path) -> None:
    said = "\n".join(explored().to_json()["assumptions"])
    assert "electrical designs are carried by nccl-hopper" in said
    assert "optical designs are carried by ideal software" in said
    assert "lead is an upper bound" in said
    space.write_text(SPACE.replace("bandwidth: [50Gbps, 100Gbps, 400Gbps]", "transport: [ideal]"))
    alike = "\n".join(ll.design(MODEL, ranks=8, batch=4, space=space).to_json()["assumptions"])
    assert "electrical designs are carried by ideal software, as stated" in alike
    assert "upper bound" not in alike
