"""Synthesis of what goes from rank to rank: near its bound, never slower than plain algorithms, around damage."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lightloom as ll
from lightloom.collectives.algorithm import Algorithm
from lightloom.collectives.collective import KINDS, OF_PARTS, Collective, Sizes, zipf_sizes
from lightloom.collectives.registry import (
    admitted,
    algorithms,
    build,
    evaluate,
    find,
)
from lightloom.core.errors import InputError
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.failures import Failure, damaged
from lightloom.machines.fabrics.load import load_fabric
from lightloom.machines.fabrics.wdm_ring import WdmRing
from tests.collectives.strategies import collective_of, collectives, fabrics, wdm_ring

FAILURES = ("wavelength:0", "cable:1", "segment:0:clockwise", "node:1", "dark-node:0", "transceiver:0:0")
OTHER_FAILURES = ("link:0:1", "node:1", "dark-node:0", "plane:0")
"""Of fabrics without wavelengths."""
PLAIN = ("one-stage", "one-stage-striped", "ring-two-way-striped")


@pytest.mark.parametrize("kind", OF_PARTS)
@pytest.mark.parametrize("name", ["wdm-ring", "circuit-switch", "torus", "switch"])
def test_never_slower_than_what_it_could_take(kind: str, name: str) -> None:
    fabric = load_fabric(name, 9)
    for nbytes in (9e3, 9e6):
        wanted = collective_of(kind, 9, nbytes)
        ours = evaluate(find("synthesized"), wanted, fabric).cost.time
        for plain in PLAIN:
            if find(plain).refusal(kind, fabric) is None:
                assert ours <= evaluate(find(plain), wanted, fabric).cost.time * 1.021


@pytest.mark.parametrize("exponent", [0.8, 1.2])
def test_skewed_all_to_alls_are_near_their_bounds(exponent: float) -> None:
    for fabric, near in (
        (load_fabric("wdm-ring", 16), 1.05),
        (load_fabric("circuit-switch", 24, set={"degree": 4}), 1.35),
    ):
        wanted = Collective("all-to-all-v", fabric.ranks, 1e8, sizes=zipf_sizes(fabric.ranks, exponent))
        made = evaluate(find("synthesized"), wanted, fabric)
        assert (made.cost.time - fabric.setup_time) / (made.bound.time - fabric.setup_time) < near


@pytest.mark.parametrize("kind", ["gather", "scatter"])
@pytest.mark.parametrize("name", ["torus", "mesh"])
def test_the_root_of_a_grid_keeps_all_its_links_busy(kind: str, name: str) -> None:
    """Routes in one order of dimensions bring nearly all over half of the root's links: 1.6 times the bound."""
    fabric, wanted = load_fabric(name, 25), collective_of(kind, 25, 25e6)
    straight, made = (evaluate(find(algorithm), wanted, fabric) for algorithm in ("one-stage", "synthesized"))
    assert straight.cost.time > 1.6 * straight.bound.time
    assert made.cost.time < 1.03 * made.bound.time


def test_one_receiver_is_named() -> None:
    share = np.full((8, 8), 1e-3)
    share[:, 5] = 1.0
    bound = ll.lower_bound("all-to-all-v", "switch", ranks=8, nbytes=1e8, sizes=Sizes(share).share)
    assert bound.bound_by == "what rank 5 must receive"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("failure", ["cable:3", "node:2", "wavelength:1", "transceiver:1:0"])
def test_every_kind_goes_around_damage(kind: str, failure: str) -> None:
    ring = wdm_ring(7, 4)
    left = damaged(ring, [Failure.parse(failure)])
    made = evaluate(find("synthesized"), collective_of(kind, left.ranks, 1e6), left)
    assert made.cost.time >= made.bound.time * (1 - 1e-9)


@st.composite
def everything(draw: st.DrawFn) -> tuple[Algorithm, Collective, Fabric]:
    """Any kind, any fabric, reach, taps, transceivers, damaged parts; any algorithm, admitted or not."""
    on = draw(fabrics(largest=10))
    if isinstance(on, WdmRing):
        fields = {
            "lightpath_reach": draw(st.sampled_from([None, 1, 3, 10])),
            "multicast_taps": draw(st.integers(1, 4)),
            "transceivers": draw(st.none() | st.integers(1, 9)),
        }
        on = on.model_copy(update=fields)
        broken = draw(st.lists(st.sampled_from(FAILURES), max_size=2, unique=True))
        # Some leave nothing to send on, or cut the ring.
        with suppress(InputError):
            on = damaged(on, [Failure.parse(text) for text in broken]) if broken else on
    elif draw(st.booleans()) and on.may_fail:
        with suppress(InputError):
            on = damaged(on, [Failure.parse(draw(st.sampled_from(OTHER_FAILURES)))])
    kind = draw(st.sampled_from(KINDS))
    offered = admitted(kind, on) if draw(st.booleans()) else list(algorithms().values())
    algorithm = draw(st.sampled_from(offered or list(algorithms().values())))
    ranks = max(on.ranks, 2)
    return algorithm, draw(collectives(kind, ranks)), on


def _refused_or_verified(job: tuple[Algorithm, Collective, Fabric]) -> None:
    algorithm, wanted, fabric = job
    if fabric.ranks < 2:
        return
    try:
        made = evaluate(algorithm, wanted, fabric)
    except InputError as refused:
        assert str(refused) and "\n" not in str(refused)
        return
    assert made.cost.time >= made.bound.time * (1 - 1e-9)


@given(everything())
@settings(max_examples=25, deadline=None)
def test_refused_with_a_reason_or_verified(job: tuple[Algorithm, Collective, Fabric]) -> None:
    _refused_or_verified(job)


@pytest.mark.slow
@given(everything())
@settings(max_examples=5000, deadline=None)
def test_refused_with_a_reason_or_verified_many_times(job: tuple[Algorithm, Collective, Fabric]) -> None:
    _refused_or_verified(job)


def test_cached_schedules_keep_permutations_and_sizes() -> None:
    fabric = load_fabric("wdm-ring", 5)
    for sizes in (1.0, 2.0):
        wanted = Collective("all-to-all-v", 5, 1e6, sizes=zipf_sizes(5, sizes))
        for _ in range(2):
            assert build(find("synthesized"), wanted, fabric).collective == wanted
