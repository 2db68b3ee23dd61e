"""Which algorithms and methods carry a collective of a group, why not, and how exchanges of several phases are made."""

from __future__ import annotations

from math import inf
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.collectives.collective import Kind
from lightloom.collectives.levels import GroupPhase
from lightloom.core.errors import UnsupportedError
from lightloom.exchange.method import Phase
from lightloom.machines.clusters.cluster import TrainingSettings
from lightloom.machines.fabrics.load import load_fabric
from lightloom.machines.fabrics.switches import PacketSwitch
from lightloom.planning.pricing import collective_prices, group_prices
from lightloom.planning.pricing.collective_prices import ExchangePrices, group_phases
from lightloom.planning.pricing.group_prices import AUTO, MOST_ROWS, GroupPrices
from lightloom.planning.pricing.library_prices import LIBRARY
from lightloom.planning.pricing.price_lines import PriceLine, chords
from lightloom.planning.pricing.schedule_prices import LINE_SIZES
from lightloom.planning.pricing.strategy_step import ExchangeUse, largest_uses

USES = st.builds(
    ExchangeUse,
    st.sampled_from(["all-reduce", "all-to-all"]),
    st.integers(2, 3),
    st.integers(1, 2),
    st.sampled_from([1.0, 2.0, 3.0]),
    st.sampled_from(["ring", "bruck"]),
)


@given(st.lists(USES, max_size=9))
def test_the_largest_collective_of_each_kind_group_and_algorithm_is_kept_the_largest_first(
    uses: list[ExchangeUse],
) -> None:
    """Those of equal size in the order of their names."""
    alike: dict[ExchangeUse, list[float]] = {}
    for use in uses:
        alike.setdefault(use._replace(nbytes=0.0), []).append(use.nbytes)
    wanted = sorted(use._replace(nbytes=max(sizes)) for use, sizes in alike.items())
    assert largest_uses(uses) == tuple(sorted(wanted, key=lambda use: use.nbytes, reverse=True))


PHASES = st.builds(
    Phase,
    kind=st.sampled_from(["all-reduce", "all-gather", "all-to-all"]),
    nbytes=st.sampled_from([4.0, 12.0, 20.0]),
    nbytes_by_terms=st.sampled_from([(), ((1, 2.0),)]),
    where=st.sampled_from(["everywhere", "between nodes"]),
)


class Method:
    """Phases that are given; between nodes there are a third of the ranks."""

    name, every, in_schedule = "made up", 4, False

    def __init__(self, phases: list[Phase]) -> None:
        self._phases, self.method = phases, self

    def ranks_of(self, phase: Phase, ranks: int) -> int:
        return ranks if phase.where == "everywhere" else ranks // 3

    def phases(self, kind: str, values: float, ranks: int) -> list[Phase]:
        return self._phases

    def coding(self, kind: str, values: float, ranks: int) -> tuple[float, float]:
        return 1 + 2 * values, 3 + 4 * values * ranks

    def sent_bytes(self, kind: str, values: float, ranks: int) -> float:
        return 100 * values + ranks


class Carrier:
    """Says of a group what it is asked."""

    def __init__(self, ranks: int, stride: int) -> None:
        self.group = ranks, stride

    def choice(self, kind: str, nbytes: float) -> Any:
        return SimpleNamespace(algorithm=SimpleNamespace(name=f"{kind} {nbytes} {self.group}"))

    def schedule(self, kind: str, nbytes: float) -> Any:
        return kind, nbytes, *self.group


def wanted_phases(phases: list[Phase], ranks: int, stride: int, in_network: bool) -> list[GroupPhase]:
    """With the sizes that :func:`sized` gives to sums that travel."""
    found: list[GroupPhase] = []
    for phase in phases:
        members, apart = (ranks, stride) if phase.where == "everywhere" else (ranks // 3, 3 * stride)
        if members == 1:
            continue
        if phase.nbytes_by_terms:
            found.append(GroupPhase("reduce-scatter", 7.0 * members, members, apart))
            found.append(GroupPhase("all-gather", 11.0 * members, members, apart))
        elif in_network and phase.kind == "all-gather":
            found.append(GroupPhase("all-reduce", phase.nbytes / members, members, apart))
        else:
            found.append(GroupPhase(phase.kind, phase.nbytes, members, apart))
    return found


@pytest.fixture(autouse=True)
def sized(monkeypatch: pytest.MonkeyPatch) -> None:
    """Made-up sizes of sums that travel around a ring, and of finished ones."""
    monkeypatch.setattr(collective_prices, "sum_over_hops", lambda phase, members: 7.0 * members)
    monkeypatch.setattr(collective_prices, "nbytes_of_terms", lambda phase, members: 11.0 * members)


@pytest.mark.parametrize(("ranks", "stride", "in_network"), [(3, 1, False), (6, 2, False), (6, 5, True)])
@given(phases=st.lists(PHASES, max_size=3))
def test_an_exchange_is_its_phases_in_their_groups(
    phases: list[Phase], ranks: int, stride: int, in_network: bool
) -> None:
    """Ranks between nodes lie as much further apart as there are fewer of them."""
    method: Any = Method(phases)
    wanted = wanted_phases(phases, ranks, stride, in_network)
    assert group_phases(method, "all-reduce", 1.0, ranks, stride, lambda *_: in_network) == wanted
    prices = ExchangePrices(method, Carrier, {"all-reduce": 2}, ranks, stride, lambda *_: in_network)  # type: ignore[arg-type]
    names = tuple(f"{phase.kind} {phase.nbytes} {phase.ranks, phase.stride}" for phase in wanted)
    assert prices.algorithms("all-reduce", 8.0) == names
    assert prices.algorithms("all-gather", 8.0) == (f"all-gather 8.0 {ranks, stride}",)
    whole: Any = prices.choice("all-reduce", 8.0)
    assert whole is prices if wanted else whole.algorithm.name == f"all-reduce 8.0 {ranks, stride}"
    plain: Any = prices.choice("all-gather", 8.0)
    assert plain.algorithm.name == f"all-gather 8.0 {ranks, stride}"
    schedule: Any = prices.schedule("all-gather", 8.0)
    assert schedule == ("all-gather", 8.0, ranks, stride)
    if len(wanted) == 1:
        schedule = prices.schedule("all-reduce", 8.0)
        assert schedule == tuple(wanted[0])
    else:
        with pytest.raises(UnsupportedError, match=f"all-reduce: {len(wanted)} collectives"):
            prices.schedule("all-reduce", 8.0)


@pytest.mark.parametrize("element", [2, 4])
@given(phases=st.lists(PHASES, max_size=3), missing=st.booleans())
def test_lines_of_an_exchange_add_up_those_of_its_phases_and_coding(
    element: int, phases: list[Phase], missing: bool
) -> None:
    """A step pays its share of all; bytes count as those of float32."""
    prices = ExchangePrices(Method(phases), Carrier, {"all-reduce": element}, 6, 2, lambda *_: False)  # type: ignore[arg-type]
    assert (
        prices.values_nbytes("all-reduce", 12.0) == 12.0 / element * 4 and prices.values_nbytes("all-gather", 1) is None
    )
    assert prices.sent_nbytes("all-reduce", 12.0) == (100 * 12.0 / element + 6) / 4

    def lines_of(kind: str, ranks: int, stride: int) -> list[Any]:
        slope = len(kind) + 10 * ranks + 100 * stride
        return [] if missing and kind == "all-to-all" else [chords((0.0, 1e3), (0.0, slope * 1e3))] * 2

    found = prices.lines("all-reduce", lines_of)
    wanted = wanted_phases(phases, 6, 2, False)
    if missing and any(phase.kind == "all-to-all" for phase in wanted):
        assert found == []
        return
    assert len(found) == 1
    for nbytes in (0.0, 5.0):
        seconds = 1 + 2 * nbytes / element + 3 + 4 * nbytes / element * 6
        for phase in wanted:
            seconds += (len(phase.kind) + 10 * phase.ranks + 100 * phase.stride) * phase.nbytes * nbytes
        assert found[0](np.array(nbytes)) == pytest.approx(seconds / 4)


def bare(fabric: Any = None, choices: tuple[str, ...] = (), exchanges: tuple[Any, ...] = ()) -> Any:
    """Prices whose parts can be replaced."""
    fabric = PacketSwitch(ranks=8) if fabric is None else fabric
    return GroupPrices(fabric, TrainingSettings(), exchanges=exchanges, choices=choices)


@given(
    st.sampled_from(["all-reduce", "all-to-all"]),
    st.integers(0, 2),
    st.sampled_from([None, "no such method"]),
    st.sampled_from([("a",), ("a", None), ("a", "b", "a")]),
)
def test_a_collective_is_refused_where_its_method_is_or_every_algorithm(
    kind: str, exchange: int, why: str | None, declined: tuple[str | None, ...]
) -> None:
    """Method 1 codes along schedules, 2 has phases of its own; kinds without gradients are exchanged as they are."""
    prices = bare(exchanges=(SimpleNamespace(in_schedule=True), SimpleNamespace(in_schedule=False)))
    prices._part = lambda ranks, stride: SimpleNamespace(parts=())
    own = exchange if kind == "all-reduce" else 0
    told = {own: declined, 3: ("wrong method",)}
    prices._exchange_refusal = lambda k, name, part, number, stride: why if number == own else "wrong method"
    prices._among = lambda k, name, part, number: range(len(told[number]))
    prices._declined = lambda k, place, part, number: told[number][place]
    found = prices.refusal(kind, "ring", 4, exchange, 2)
    if own and why:
        assert found == why
    elif own == 2 or None in declined:
        assert found is None
    else:
        assert found == ("a; b" if "b" in declined else "a")


@pytest.mark.parametrize(("method", "group"), [(None, None), ("light", None), (None, "ranks"), ("light", "ranks")])
@given(st.booleans(), st.booleans(), st.integers(0, 2), st.integers(0, 1))
def test_a_method_is_refused_by_itself_by_standing_circuits_or_by_its_phases(
    method: str | None, group: str | None, in_schedule: bool, divided: bool, phases: int, refused: int
) -> None:
    asked: list[Any] = []

    def refusal(kind: str, *, in_network: bool, stride: int) -> str | None:
        asked.append((kind, in_network, stride))
        return method

    made = SimpleNamespace(method=None, in_schedule=in_schedule, refusal=refusal, group_refusal=lambda ranks: group)
    prices = bare(exchanges=(made,))
    prices._divided = divided
    each = [GroupPhase("all-gather", 1.0, 2 + place, 3) for place in range(phases)]
    prices._phased = lambda *told: SimpleNamespace(phases=lambda kind, values: each)
    prices.refusal = lambda kind, name, ranks, number, stride: f"{ranks} ranks" if ranks == 2 + refused else None
    part: Any = SimpleNamespace(ranks=4, only_adds=True, parts=())
    found = prices._exchange_refusal("all-reduce", "ring", part, 1, 5)
    assert asked == [("all-reduce", True, 5)]
    if method or group:
        assert found == (method or group)
    elif in_schedule:
        assert found is None
    elif divided and phases > 1:
        assert "has several" in found
    else:
        assert found == (f"{2 + refused} ranks" if refused < phases else None)


@given(st.booleans(), st.booleans(), st.integers(0, 1), st.integers(4, 6), st.sampled_from([None, "no links"]))
def test_an_algorithm_is_declined_for_its_steps_its_rows_or_its_own_reason(
    by_size: bool, pipelined: bool, exchange: int, rows: int, why: str | None
) -> None:
    part = PacketSwitch(ranks=4)
    asked: list[Any] = []
    algorithm: Any = SimpleNamespace(name="made up", by_size=by_size, pipelined=pipelined, rows=lambda *_: rows)
    algorithm.refusal = lambda *told: asked.append(told) or why  # type: ignore[func-returns-value]
    prices = GroupPrices(part, TrainingSettings(), most_rows=5)
    for _ in range(2):
        found = prices._declined("all-reduce", algorithm, part, exchange)
        if exchange and (by_size or pipelined):
            assert found is not None and "no steps between which a codec" in found
        elif rows > 5:
            assert found == "made up lists 6 transfers among 4 ranks, and at most 5 are listed here"
        else:
            assert found == why
    assert len(asked) <= 1
    assert "no codec between its hops" in (prices._declined("all-reduce", LIBRARY, part, 1) or "")
    assert prices._declined("all-reduce", LIBRARY, part, 0) == LIBRARY.refusal("all-reduce", part, "physical")


def test_plans_of_many_ranks_list_fewer_rows() -> None:
    for ranks, most, limit in ((8192, inf, inf), (8193, inf, MOST_ROWS), (8193, 3, 3), (64, 3, 3)):
        fabric: Any = SimpleNamespace(ranks=ranks)
        assert GroupPrices(fabric, TrainingSettings(), most_rows=most)._most_rows == limit


@pytest.mark.parametrize("library", [False, True])
def test_collectives_choose_among_what_is_named_or_the_library_or_all_of_one_schedule(library: bool) -> None:
    part = load_fabric("dgx-h100", 16, set={"transport": "nccl-hopper"} if library else {})
    free, named = bare(part), bare(part, ("ring", "bruck"))

    def names(prices: Any, kind: str, algorithm: str = AUTO) -> list[str]:
        return [each.name for each in prices._among(kind, algorithm, part, 0)]

    assert names(named, "all-reduce") == ["ring", "bruck"] and names(free, "all-reduce", "bruck") == ["bruck"]
    every = [each.name for each in free._choices]
    assert "ring" in every and "synthesized" not in every
    assert names(free, "all-reduce") == (["library"] if library else every)
    # Blocks go straight where none of the algorithms carries an all-to-all.
    straight = names(free, "all-to-all", "ring")
    assert len(straight) == 1 and straight[0] in ("one-stage-striped", "one-stage")
    assert names(bare(part, ("ring",)), "all-to-all") == straight
    assert names(bare(part, ("ring", "one-stage")), "all-to-all") == ["ring", "one-stage"]
    assert names(free, "all-gather", "ring") == ["ring"]


def test_a_library_carries_groups_of_any_size() -> None:
    """It lists no transfers, of which many ranks would have too many."""
    many = load_fabric("dgx-h100-superpod", 16384, set={"transport": "nccl-hopper"})
    prices = GroupPrices(many, TrainingSettings())
    kinds: list[tuple[Kind, int]] = [("all-reduce", 16384), ("all-gather", 2048), ("all-to-all", 8192)]
    for kind, ranks in kinds:
        part = prices._part(ranks, 1)
        assert part is not None and prices._among(kind, AUTO, part, 0) == [LIBRARY]
        assert prices.refusal(kind, AUTO, ranks, 0) is None


def test_prices_on_another_fabric_share_what_is_built_and_know_that_circuits_stand() -> None:
    for choices in ((), ("ring", "bruck")):
        prices = bare(choices=choices)
        other, again = (prices.on(PacketSwitch(ranks=4)) for _ in range(2))
        assert other is again and other is not prices.on(PacketSwitch(ranks=2))
        assert other._divided and not prices._divided and not prices.with_choices(("ring",))._divided
        assert other._plain is prices._plain and other._named == bool(choices)
        assert [each.name for each in other._choices] == [each.name for each in prices._choices]


@pytest.mark.parametrize("exchange", [0, 1])
@given(st.lists(st.tuples(*[st.booleans()] * 4), max_size=4))
def test_candidates_are_not_declined_and_nothing_is_built_for_each_size(
    exchange: int, each: list[tuple[bool, bool, bool, bool]]
) -> None:
    """Those that build for each size come last, pipelines first; floors are of gradients as they are."""
    form = {"striped": False, "ends": None}
    algorithms = [
        SimpleNamespace(name=f"a{number}", declined=declined, by_size=by_size, fails=fails, pipelined=pipelined, **form)
        for number, (declined, by_size, fails, pipelined) in enumerate(each)
    ]
    prices = bare()
    prices._part = lambda ranks, stride: SimpleNamespace(parts=())
    prices._exchanges = {1: SimpleNamespace(in_schedule=True)}
    prices._among = lambda kind, name, part, number: algorithms
    prices._declined = lambda kind, algorithm, part, number: "declined" if algorithm.declined else None
    prices.failure = lambda kind, algorithm, part: "fails" if algorithm.fails else None
    prices.schedules = lambda algorithm, part: algorithm.name
    prices._with_codec = lambda name, method: ("coded", name)
    prices._floor = lambda kind, algorithm, part: (PriceLine(*[float(algorithm.name[1:])] * 4), True)
    prices._line = lambda prices_of, kind, hidden: (prices_of(), kind, hidden)
    found = prices._candidates("ring", 4, exchange, 2, "all-reduce")
    kept = [algorithm for algorithm in algorithms if not algorithm.declined]
    assert [one.algorithm for one in found] == sorted(kept, key=lambda one: (one.by_size, not one.pipelined))
    for one in found:
        name = one.algorithm.name
        own = name if exchange == 0 else ("coded", name)
        assert one.prices() == own and one.line(True) == (own, "all-reduce", True)
        assert one.failure() == ("fails" if one.algorithm.fails and not one.algorithm.by_size else None)
        assert (one.floor, one.near) == ((PriceLine(*[float(name[1:])] * 4), True) if exchange == 0 else (None, False))
    lines = prices.lines("all-reduce", "ring", 4, exchange, 2, hidden_setup=True)
    assert [line._candidates for line in lines] == ([found] if found else [])


@pytest.mark.parametrize("exchange", [0, 1, 2])
def test_methods_with_phases_are_priced_by_them(exchange: int, monkeypatch: pytest.MonkeyPatch) -> None:
    prices = bare(exchanges=(SimpleNamespace(in_schedule=True), SimpleNamespace(in_schedule=False)))
    prices._cheapest = lambda *told: ("cheapest", told)
    asked: list[Any] = []
    phased = SimpleNamespace(lines=lambda kind, plain: asked.append((kind, plain)) or ["phased"])  # type: ignore[func-returns-value]
    prices._phased = lambda *told: phased
    key = "ring", 4, exchange, 3
    assert prices.price(*key) == (phased if exchange == 2 else ("cheapest", key))
    prices._candidates = lambda *told: [SimpleNamespace(algorithm="ring", told=told)]
    monkeypatch.setattr(group_prices, "LeastPrice", lambda each, *, hidden_setup: (each[0].told, hidden_setup))
    assert prices.lines("all-gather", *key, hidden_setup=True) == [(("ring", 4, 0, 3, "all-gather"), True)]
    found = prices.lines("all-reduce", *key, hidden_setup=True)
    assert found == (["phased"] if exchange == 2 else [(("ring", 4, exchange, 3, "all-reduce"), True)])
    assert len(asked) == (exchange == 2)
    if asked:
        assert asked[0][0] == "all-reduce"
        assert asked[0][1]("all-reduce", ranks=2, stride=5) == [(("ring", 2, 0, 5, "all-reduce"), True)]


def test_proved_lines_are_those_of_no_schedule_unless_a_codec_or_a_library_changes_prices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    built: list[Any] = []
    monkeypatch.setattr(group_prices, "proved_line", lambda *told: built.append(told) or "proved")  # type: ignore[func-returns-value]
    for library in (False, True):
        fabric = load_fabric("dgx-h100", 8, set={"transport": "nccl-hopper"} if library else {})
        prices = bare(fabric, exchanges=(SimpleNamespace(in_schedule=True),))
        prices.lines = lambda *told, hidden_setup: ("lines", told, hidden_setup)
        for kind, exchange in (("all-reduce", 0), ("all-reduce", 1), ("all-to-all", 1), ("all-reduce", 0)):
            found = prices.proved_lines(kind, AUTO, 8, exchange, 1, hidden_setup=True)
            own = exchange if kind == "all-reduce" else 0
            told = ("lines", (kind, AUTO, 8, own, 1), True)
            assert found == (told if own or library else ["proved"])
    assert [kind for kind, *_ in built] == ["all-reduce", "all-to-all"]


@pytest.mark.parametrize(
    ("ranks", "kind", "light"),
    [(128, "all-reduce", False), (129, "all-reduce", False), (129, "all-to-all", False), (129, "all-reduce", True)],
)
def test_an_algorithm_is_tried_at_the_sizes_of_lines_coded_too(
    ranks: int, kind: Any, light: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By methods that code along a schedule, in kinds that carry gradients; of many ranks no rows are kept."""
    prices = bare(exchanges=(SimpleNamespace(in_schedule=True), SimpleNamespace(in_schedule=False)))
    asked: list[Any] = []
    dropped: list[int] = []

    class Prices:
        def __init__(self, name: str) -> None:
            self.name = name

        def __call__(self, kind: str, nbytes: float) -> None:
            asked.append((self.name, kind, nbytes))

        def drop_schedules(self) -> None:
            dropped.append(ranks)

    prices._key = lambda part: "key"
    prices.schedules = lambda algorithm, part: Prices("plain")
    prices._with_codec = lambda plain, number: Prices(f"coded {number}")
    part: Any = SimpleNamespace(ranks=ranks, in_network_reduction=light)
    monkeypatch.setattr(group_prices, "attempt", lambda algorithm, draw: draw())
    algorithm: Any = SimpleNamespace(name="ring")
    for _ in range(2):
        assert prices.failure(kind, algorithm, part) is None
    names = ["plain", *(["coded 1"] if kind == "all-reduce" and not light else [])]
    assert asked == [(name, kind, size) for name in names for size in LINE_SIZES]
    assert bool(dropped) == (ranks > 128)
    assert prices.failures == {}
    asked.clear()
    assert prices.failure("all-reduce", LIBRARY, part) is None
    assert {name for name, _, _ in asked} <= {"plain"}
