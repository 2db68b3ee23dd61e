"""Striped forms of algorithms are never slower than others, which prices build only where striped ones fail."""

from __future__ import annotations

import pytest

from lightloom.collectives.collective import Kind
from lightloom.collectives.registry import algorithms
from lightloom.core.errors import UnsupportedError
from lightloom.machines.clusters.load import load_cluster
from lightloom.planning.pricing.collective_prices import Candidate, _in_turn
from lightloom.planning.pricing.group_prices import AUTO, GroupPrices

FABRICS = (
    ("terarack-64", {"ranks": 8}),
    ("terarack-64", {"ranks": 16, "fabric.wavelengths": 2}),
    ("terarack-64", {"ranks": 8, "fabric.wavelengths": 1, "fabric.fibres": 1}),
    ("sip-ocs-1024", {"ranks": 16}),
    ("sip-ocs-1024", {"ranks": 8, "fabric.degree": 3}),
)
KINDS: tuple[Kind, ...] = ("all-gather", "reduce-scatter", "all-reduce")


@pytest.mark.parametrize(("name", "settings"), FABRICS)
def test_the_striped_form_is_never_slower(name: str, settings: dict[str, object]) -> None:
    on = load_cluster(name, set=settings)
    prices, compared = GroupPrices(on.fabric, on.training), 0
    for plain in algorithms().values():
        striped = algorithms().get(f"{plain.name}-striped")
        if striped is None:
            continue
        for kind in KINDS:
            if any(each.refusal(kind, on.fabric, "physical") for each in (plain, striped)):
                continue
            for nbytes in (0.0, 1.0, 1e4, 1e6, 1e9):
                times = []
                for each in (striped, plain):
                    try:
                        times.append(prices.schedules(each, on.fabric)(kind, nbytes).cost.repeated_time)
                    except UnsupportedError:
                        break
                if len(times) == 2:
                    assert times[0] <= times[1] * (1 + 1e-9), (plain.name, kind, nbytes)
                    compared += 1
    assert compared > 20


def test_the_other_form_is_priced_only_where_the_striped_one_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    on = load_cluster("terarack-64", set={"ranks": 8})

    def carriers(failing: str) -> set[str]:
        prices = GroupPrices(on.fabric, on.training)
        usable = prices.failure
        monkeypatch.setattr(
            prices, "failure", lambda kind, each, part: "fails" if each.name == failing else usable(kind, each, part)
        )
        found = _in_turn(prices._candidates(AUTO, 8, 0, 1, "all-gather"), lambda floor: True)
        return {each.algorithm.name for each in found if isinstance(each, Candidate)}

    assert "ring-striped" in carriers("") and "ring" not in carriers("")
    assert "ring-striped" not in carriers("ring-striped") and "ring" in carriers("ring-striped")


@pytest.mark.parametrize(
    ("name", "settings", "outdone"),
    [
        *((*each, set()) for each in FABRICS[:3]),
        # 64 ranks, of which a circuit switch joins each with 8 others.
        ("sip-ocs-1024", {"ranks": 64}, {"one-stage-striped", "worker-aggregator-striped"}),
        ("terarack-64", {"ranks": 32, "fabric.wavelengths": 1, "fabric.fibres": 1}, {"one-stage-striped"}),
        # With a set-up of nothing there is nothing to pay.
        ("sip-ocs-1024", {"ranks": 64, "fabric.reconfiguration_time": 0.0}, set()),
        # On a torus rings have many steps, over one or two of six links.
        ("tpu-v4-1024", {"ranks": 64}, {"ring", "ring-two-way", "ring-two-way-striped", "neighbour-exchange"}),
        ("dadiannao-100g", {}, {"ring"}),
        ("tpu-v4-1024", {"ranks": 128}, {"ring", "neighbour-exchange"}),
    ],
)
def test_what_is_left_out_unbuilt_is_never_the_cheapest(
    name: str, settings: dict[str, object], outdone: set[str]
) -> None:
    on = load_cluster(name, set=settings)
    ranks = on.fabric.ranks
    prices, each_alone = (GroupPrices(on.fabric, on.training) for _ in range(2))
    for kind in KINDS:
        for nbytes in (1e9, 0.0, 1.0, 1e4, 1e6, 1e12):
            alone = []
            for each in algorithms().values():
                if not each.by_size and each.refusal(kind, on.fabric, "physical") is None:
                    try:
                        alone.append(each_alone.schedules(each, on.fabric)(kind, nbytes).cost.repeated_time)
                    except UnsupportedError:
                        continue
            cheapest = prices.price(AUTO, ranks, 0)(kind, nbytes).cost.repeated_time
            assert cheapest == pytest.approx(min(alone), rel=1e-12)
            if nbytes == 1e9:
                assert not outdone & {name for built, name, _ in prices._usable if built == kind}
