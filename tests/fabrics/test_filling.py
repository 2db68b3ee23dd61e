"""Domains that ranks do not fill wholly: all alike, at least half full, and for each rank as fast as whole ones."""

from __future__ import annotations

import re
from math import prod

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from lightloom.collectives.collective import Collective, Kind
from lightloom.collectives.registry import admitted, build
from lightloom.core.errors import ConfigError
from lightloom.machines.clusters.load import load_cluster
from lightloom.machines.fabrics.conformance import check_fabric
from lightloom.machines.fabrics.load import load_fabric
from lightloom.machines.fabrics.tiers.tier import Tier, filled_tiers
from lightloom.machines.fabrics.tiers.tiers import Tiers
from lightloom.planning.search.assumptions import assumptions
from tests.collectives.strategies import tier_fabrics

SIZES = st.integers(2, 9)


@st.composite
def systems(draw: st.DrawFn) -> tuple[Tier, ...]:
    """Domains, maybe groups of domains, and a network; ports for each rank, for some, or several a rank."""
    sizes = draw(st.lists(SIZES, min_size=1, max_size=2))
    tiers: list[Tier] = []
    child = 1
    for number, size in enumerate([*sizes, None]):
        beneath = tiers[-1] if tiers else None
        through = beneath is not None and beneath.shape == "switch" and draw(st.booleans())
        rails = number > 0 and draw(st.booleans())
        ports = [None, *(count for count in range(1, 2 * child + 1) if child % count == 0 or count % child == 0)]
        shape = "full-mesh" if number == 0 and draw(st.booleans()) else "switch"
        fields = {"through_switch": through, "separate_rails": rails, "ports": draw(st.sampled_from(ports))}
        tapers = [None, 2.0] if number and not rails else [None]
        tiers.append(
            Tier.model_validate(
                {
                    "shape": shape,
                    "size": size,
                    "bandwidth": 1e9 * (3 - number),
                    "taper": draw(st.sampled_from(tapers)),
                    **fields,
                }
            )
        )
        child *= size or 1
    return tuple(tiers)


@given(SIZES, st.integers(1, 200))
def test_the_fewest_domains_that_divide_the_ranks_are_taken_from_half_full_on(size: int, ranks: int) -> None:
    tiers = Tier(shape="switch", size=size, bandwidth=1e9), Tier(shape="switch", bandwidth=1e9)
    fits = [part for part in range(size, 0, -1) if ranks % part == 0 and 2 * part >= size]
    if ranks <= size or fits:
        assert Tiers(ranks=ranks, tiers=tiers).node_ranks == (ranks if ranks <= size else fits[0])
        return
    with pytest.raises(ConfigError, match="at least half full") as refusal:
        load_fabric("two-tier-400g", ranks, set={"tiers.domain.size": size})
    fewer, more = (int(number) for number in re.findall(r"\d+", str(refusal.value).partition("e.g.")[2]))
    works = [
        n for n in range(1, ranks + size + 1) if n <= size or any(n % p == 0 for p in range(-(-size // 2), size + 1))
    ]
    assert (fewer, more) == (max(n for n in works if n < ranks), min(n for n in works if n > ranks))


@given(tier_fabrics())
def test_tiers_that_ranks_fill_stay_as_they_are(fabric: Tiers) -> None:
    assert filled_tiers(fabric.ranks, fabric.tiers) == fabric.tiers and fabric.filling is None


@pytest.mark.long
@given(systems(), st.integers(2, 60))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
def test_every_rank_has_the_part_of_the_network_that_it_has_where_domains_are_full(
    tiers: tuple[Tier, ...], ranks: int
) -> None:
    """So that no rank sends faster, nor over fewer links, than in full domains, whatever they exchange."""
    fabric = _fabric(ranks, tiers)
    check_fabric(fabric)
    sizes = [
        tier.size if tier.size and filled.size != tier.size else level.size
        for level, tier, filled in zip(fabric.levels, tiers, filled_tiers(ranks, tiers), strict=True)
    ]
    full = Tiers(ranks=prod(sizes), tiers=tiers, hop_latency=1e-6)
    assert full.filling is None and fabric.filling is not None
    assert f"the {full.ranks - ranks:,} idle" in fabric.filling
    ours, theirs = fabric.library_tiers(), full.library_tiers()
    if ours is not None and theirs is not None:
        assert (ours.bandwidth, ours.network) == pytest.approx((theirs.bandwidth, theirs.network))
    for level, other in zip(fabric.levels, full.levels, strict=True):
        assert level.latency == other.latency
        rates = [[part.bandwidth * part.links / side.ranks for part in side.classes] for side in (level, other)]
        assert level.size == 1 or not level.switched or rates[0] == pytest.approx(rates[1])


@given(systems(), st.integers(2, 40), st.data())
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
def test_schedules_on_domains_filled_in_part_are_verified(
    tiers: tuple[Tier, ...], ranks: int, data: st.DataObject
) -> None:
    fabric = _fabric(ranks, tiers)
    kinds: tuple[Kind, ...] = ("all-gather", "all-reduce", "all-to-all")
    kind = data.draw(st.sampled_from(kinds))
    algorithms = sorted(admitted(kind, fabric), key=lambda algorithm: algorithm.name)
    assume(algorithms)
    build(data.draw(st.sampled_from(algorithms)), Collective(kind, ranks, 1e6), fabric)


def _fabric(ranks: int, tiers: tuple[Tier, ...]) -> Tiers:
    """The fabric, where some domain is filled in part."""
    try:
        assume(filled_tiers(ranks, tiers) != tiers)
        return Tiers(ranks=ranks, tiers=tiers, hop_latency=1e-6)
    except ValueError:
        assume(False)
        raise


def test_256_ranks_on_racks_of_72_are_4_racks_of_64() -> None:
    cluster = load_cluster("nvl72-576", set={"ranks": 256})
    said = "4 domains of NVLink hold 64 of 72 ranks each; the 32 idle ones are not counted"
    assert (cluster.fabric.node_ranks, cluster.fabric.filling) == (64, said)
    assert said in cluster.fabric.bill().notes
    assert any(line.startswith("fabric.filling: assumption") for line in assumptions(cluster))
    with pytest.raises(ConfigError, match=r"expected e\.g\. 72 or 74"):
        load_cluster("nvl72-576", set={"ranks": 73})
