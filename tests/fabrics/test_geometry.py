"""Geometry of every fabric: links exist, routes are walks, cuts are honest, sources are given."""

from __future__ import annotations

from time import process_time
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.collectives.bounds.lower_bound import lower_bound
from lightloom.collectives.collective import Collective
from lightloom.core.errors import ConfigError, UnknownNameError
from lightloom.machines.fabrics import derived, load
from lightloom.machines.fabrics.derived import links_of
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.grids import Mesh, Torus
from lightloom.machines.fabrics.load import (
    description,
    kinds,
    load_fabric,
    names,
)
from lightloom.machines.fabrics.wdm_ring import Ring
from tests.collectives.strategies import fabrics, packet_fabrics


def _all_pairs(fabric: Fabric) -> tuple[np.ndarray, np.ndarray]:
    source, destination = np.indices((fabric.ranks, fabric.ranks)).reshape(2, -1)
    stride = source != destination
    return source[stride], destination[stride]


def _links_of(fabric: Fabric, source: np.ndarray, destination: np.ndarray, route: np.ndarray) -> list[list[int]]:
    runs = fabric.footprint(source, destination, route)
    return [
        [
            int(base + (start + k) % period)
            for base, start, length, period in zip(
                runs.base[row], runs.start[row], runs.length[row], runs.period[row], strict=True
            )
            for k in range(length)
        ]
        for row in range(len(source))
    ]


@given(fabrics(largest=20))
@settings(max_examples=120, deadline=None)
def test_every_transfer_crosses_existing_links_once_and_no_more_than_the_diameter(fabric: Fabric) -> None:
    if fabric.in_network_reduction:
        return
    source, destination = _all_pairs(fabric)
    route = fabric.route(source, destination)
    crossed = _links_of(fabric, source, destination, route)
    assert all(len(set(links)) == len(links) for links in crossed)
    assert all(0 <= link < fabric.links for links in crossed for link in links)
    hops = fabric.hops(source, destination, route)
    assert hops.tolist() == [len(links) for links in crossed]
    assert hops.max() == fabric.diameter()
    latency = fabric.latency(source, destination, route)
    # Two transfers over an outer tier, or over links that are more but quicker, may be quicker than one.
    relayed = fabric.kind_name in ("tiers", "graph")
    assert latency.max() <= fabric.diameter_latency() * (1 + 1e-12) or relayed
    assert latency.min() >= fabric.neighbour_latency() * (1 - 1e-12)
    assert len({fabric.link_name(link) for link in range(fabric.links)}) == fabric.links
    assert fabric.link_bandwidth().shape == (fabric.links,)


@given(fabrics(largest=16))
@settings(max_examples=120, deadline=None)
def test_what_enters_a_rank_fits_its_cut(fabric: Fabric) -> None:
    """The links on which transfers can end at a rank carry together what the bounds say that some rank can receive."""
    if fabric.in_network_reduction or (not fabric.exclusive and fabric.routes == 1 and fabric.kind_name != "switch"):
        return
    source, destination = _all_pairs(fabric)
    bandwidth = fabric.link_bandwidth()
    receives = []
    for rank in range(fabric.ranks):
        arrive = np.flatnonzero(destination == rank)
        last = {
            links[-1] if route == 0 else links[0]
            for route in range(fabric.routes)
            for links in _links_of(fabric, source[arrive], destination[arrive], np.full(len(arrive), route))
        }
        limit = np.inf if fabric.transmitters is None else fabric.transmitters * fabric.channel_bandwidth
        receives.append(min(limit, sum(bandwidth[link] for link in last)))
    assert min(receives) == pytest.approx(min(cut.capacity for cut in fabric.cuts() if cut.ranks == 1))
    assert sum(receives) == pytest.approx(fabric.total_receive_bandwidth())


@pytest.mark.parametrize("ranks", [4, 9, 12, 16, 36])
def test_mesh_routes_take_manhattan_distance(ranks: int) -> None:
    mesh, torus = Mesh(ranks=ranks), Torus(ranks=ranks)
    rows, columns = mesh.shape
    source, destination = _all_pairs(mesh)
    (r, c), (s, d) = np.divmod(source, columns), np.divmod(destination, columns)
    down, across = abs(r - s), abs(c - d)
    assert (mesh.hops(source, destination, np.zeros_like(source)) == down + across).all()
    shortest = np.minimum(down, rows - down) + np.minimum(across, columns - across)
    assert (torus.hops(source, destination, np.zeros_like(source)) == shortest).all()


@pytest.mark.parametrize("ranks", [2, 3, 8, 9])
def test_a_ring_route_and_its_reverse_share_no_link_and_mirror_each_other(ranks: int) -> None:
    ring = Ring(ranks=ranks)
    source, destination = _all_pairs(ring)
    route = ring.route(source, destination)
    assert (ring.route(destination, source) == ring.reverse_route(route)).all()
    there = _links_of(ring, source, destination, route)
    back = _links_of(ring, destination, source, ring.reverse_route(route))
    assert all({link % ranks for link in a} == {link % ranks for link in b} for a, b in zip(there, back, strict=True))


def test_every_value_of_the_catalog_has_a_source() -> None:
    for name in names():
        entry = description(name)
        values = {key for key, value in entry.items() if value is not None} - {
            "description",
            "kind",
            "sources",
            "tiers",
        }
        for tier in entry.get("tiers", []):
            values |= {f"tiers.{tier['name']}.{key}" for key in tier.keys() - {"name", "shape"}}
        assert values <= set(entry["sources"]), f"{name}: no source for {values - set(entry['sources'])}"
        assert "tiers" in entry or load_fabric(name, 16).ranks == 16


def test_defaults_are_figures_of_the_catalog_or_leave_something_out() -> None:
    """An entry of the kind has the same number, with its source; no times, no headers and whole shares are neutral."""
    entries = [load_fabric(name, 1) for name in names()]
    for kind in (kind for kind in kinds().values() if not kind.damaged):
        for name, field in kind.model_fields.items():
            if isinstance(field.default, int | float) and not isinstance(field.default, bool):
                neutral = 0 if name.endswith(("_latency", "_time", "_header")) else 1
                stated = [getattr(entry, name) for entry in entries if type(entry) is kind and name in entry.sources]
                assert field.default == neutral or pytest.approx(field.default, rel=1e-12) in stated, (kind, name)


@given(fabrics(largest=8), st.sampled_from([0.0, 1e-6, 1.0]))
@settings(max_examples=60, deadline=None)
def test_the_latency_of_a_hop_is_taken_where_it_changes_a_latency(fabric: Fabric, seconds: float) -> None:
    fields = fabric.model_dump() | {"hop_latency": fabric.hop_latency + 1.0}
    slower = type(fabric).model_validate(fields)
    if fabric.ranks > 1 and not fabric.in_network_reduction:
        ends = _all_pairs(fabric)
        used = np.unique(links_of(fabric.footprint(*ends, fabric.route(*ends)))[1])
        changed = slower.link_latency() != fabric.link_latency()
        # Of a graph, links that no route takes count too.
        assert fabric.takes_hop_latency == (changed if fabric.kind_name == "graph" else changed[used]).any()
        assert fabric.latency_unstated == fabric.takes_hop_latency
        other = fabric.with_hop_latency(seconds)
        assert other.hop_latency == seconds and other.links == fabric.links
        own = other.link_latency()
        assert ((own == seconds) | (own == fabric.link_latency())).all()


@given(packet_fabrics(24), st.data())
@settings(max_examples=60, deadline=None)
def test_no_rank_receives_or_sends_faster_than_its_bandwidths(fabric: Fabric, data: st.DataObject) -> None:
    """Whatever it exchanges with the others: its links take at least as long. Derived bandwidths are no smaller."""
    rank = data.draw(st.integers(0, fabric.ranks - 1))
    sent = np.array(data.draw(st.lists(st.integers(0, 9), min_size=fabric.ranks - 1, max_size=fabric.ranks - 1)))
    others, own = np.delete(np.arange(fabric.ranks), rank), np.full(fabric.ranks - 1, rank)
    ends = (others, own), (own, others)
    for rates, general, (source, destination) in zip(
        fabric.rank_bandwidths(), derived.rank_bandwidths(fabric), ends, strict=True
    ):
        transfer, link = links_of(fabric.footprint(source, destination, fabric.route(source, destination)))
        load = np.bincount(link, sent[transfer], fabric.links)
        assert (load / fabric.link_bandwidth()).max() * rates[rank] >= sent.sum() * (1 - 1e-9)
        assert (rates <= general * (1 + 1e-9)).all()


@pytest.mark.parametrize(("name", "ranks"), [("torus", 65536), ("mesh", 65536), ("gb200-nvl72-racks", 73728)])
def test_a_bound_on_tens_of_thousands_of_ranks_is_found_at_once(name: str, ranks: int) -> None:
    fabric = load_fabric(name, ranks)
    began = process_time()
    assert lower_bound(Collective("permute", ranks, 1e9), fabric).time > 0
    assert process_time() - began < 5


class _Added(Ring):
    """A ring that an installed package adds."""

    kind: Literal["added"] = "added"  # type: ignore[assignment]


def test_plug_ins_add_fabrics_by_their_names_but_those_of_the_catalog_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[str, Any] = {"added": _Added, "torus": _Added}
    monkeypatch.setattr(load, "load_plugins", lambda group: found if group == "fabrics" else {})
    monkeypatch.setattr(load, "kinds", lambda: kinds() | {"added": _Added})
    assert load_fabric("added", 8, set={"hop_latency": 1e-6}) == _Added(ranks=8, hop_latency=1e-6)
    assert load_fabric("torus", 8).kind_name == "torus"
    assert description("added") == {"description": "A ring that an installed package adds.", "kind": "added"}
    assert description("torus")["kind"] == "torus" and "added" in names()
    with pytest.raises(UnknownNameError, match="did you mean 'added'"):
        load_fabric("aded", 8)


def test_unknown_fabric_and_field_are_named() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'wdm-ring'"):
        load_fabric("wdm-rnig", 16)
    with pytest.raises(ConfigError, match="unknown field 'bandwidth'"):
        load_fabric("wdm-ring", 16, set={"bandwidth": "1Gbps"})
    with pytest.raises(ConfigError, match="rows=3 does not divide ranks=16"):
        load_fabric("mesh", 16, set={"rows": 3})
