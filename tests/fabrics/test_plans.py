"""Plans on fabrics whose circuits do not reach everywhere, and on a fabric that a plug-in adds."""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest

from lightloom.core.errors import UnsupportedError
from lightloom.machines.clusters.load import load_cluster
from lightloom.planning.search.request import SearchRequest
from lightloom.planning.search.search import search
from tests.planner.jobs import transformer

PLUGINS = Path(__file__).parents[2] / "examples" / "plugins"


def test_algorithms_that_need_longer_lightpaths_are_refused_rows() -> None:
    on = load_cluster("terarack-64", set={"fabric.lightpath_reach": 10, "training.unit_parameters": 300_000})
    request = SearchRequest(strategies=("ddp",), compare=True, global_batches=(832,), must_fit=False)
    found = search(transformer(2, 128), replace(on, reference=None), request)
    ranked = {name for plan in found.ranking for name in plan.algorithms}
    assert {"ring", "synthesized"} <= ranked
    refused = {row.algorithm: row.why for row in found.refused}
    assert not ranked & refused.keys()
    assert "lightpaths of 32 links, and light reaches 10" in refused["optree"]


def test_a_placed_plan_names_what_the_rail_plug_in_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(PLUGINS), *sys.path])
    rail = import_module("lightloom_example_plugins.rail")
    on = load_cluster("terarack-64", set={"ranks": 16, "fabric": {"base": "ethernet-400g"}})
    rails = replace(on, fabric=rail.Rail(ranks=16, domain_size=4), reference=None)
    request = SearchRequest(strategies=("placed",), compare=False, global_batches=(32,))
    # What others send along a rail passes the link into a GPU, too, so that no link is the GPU's own.
    with pytest.raises(UnsupportedError, match=r"placed plans on rail: .* \(ports\)"):
        search(transformer(2, 128), rails, request)
