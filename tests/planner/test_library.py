"""A collective library with protocols on tiers of switches: its prices, the lines below them, and who states one."""

from __future__ import annotations

import numpy as np
import pytest

from lightloom.collectives.bounds.lower_bound import lower_bound
from lightloom.collectives.collective import Collective, Kind
from lightloom.core.errors import ConfigError
from lightloom.machines.accelerators.load import load_accelerator
from lightloom.machines.clusters.load import load_cluster
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.load import load_fabric
from lightloom.machines.transports.transport import PARAMETERS
from lightloom.planning.pricing.job import belief_of
from lightloom.planning.pricing.library_prices import LibraryPrices
from lightloom.planning.pricing.price_lines import line_below
from lightloom.planning.search.plans import priced_lines
from lightloom.planning.search.request import SearchRequest
from lightloom.planning.search.search import search
from tests.planner.jobs import transformer

NCCL = {"transport": "nccl-hopper"}


def dgx(ranks: int = 32) -> Fabric:
    """DGX H100 nodes whose collectives NCCL carries."""
    return load_fabric("dgx-h100", ranks, set=NCCL)


@pytest.mark.parametrize("kind", ["all-reduce", "all-gather", "all-to-all", "broadcast"])
@pytest.mark.parametrize(("ranks", "stride"), [(32, 1), (8, 1), (4, 8)])
def test_lines_stay_below_prices_and_prices_above_bounds(kind: Kind, ranks: int, stride: int) -> None:
    part = dgx().group(ranks, stride) if ranks < 32 else dgx()
    assert part is not None
    prices = LibraryPrices(part, "physical")
    line = line_below(prices, kind, hidden_setup=False)
    sizes = np.exp(np.random.default_rng(1).uniform(0, np.log(2e10), 40))
    priced = np.array([prices(kind, size).cost.time for size in sizes])
    assert (line(sizes) <= priced).all()
    assert (line(sizes) > 0.98 * priced).all()
    links = part.as_carried()
    bounds = [lower_bound(Collective(kind, part.ranks, size), links, switches_add=True).time for size in sizes]
    assert (priced >= np.array(bounds) * (1 - 1e-9)).all()


def test_groups_keep_the_ranks_that_share_a_domain() -> None:
    inside = {(8, 1): 8, (4, 2): 4, (4, 8): 1, (16, 2): 4, (2, 16): 1}
    for (ranks, stride), together in inside.items():
        part = dgx().group(ranks, stride)
        assert part is not None
        assert part.library is not None
        assert min(part.library.domain, ranks) == together, (ranks, stride)
        assert (part.library.tiers.bandwidth, part.library.tiers.network) == pytest.approx((0.824 * 450e9, 48.5e9))


def test_columns_of_groups_are_priced_as_each_alone() -> None:
    library = dgx().library
    assert library is not None
    ranks, stride, nbytes = np.array([1, 8, 4]), np.array([1, 1, 8]), np.array([[1e3, 1e9]] * 3)
    together = library.seconds("all-reduce", ranks, stride, nbytes)
    assert together[0].tolist() == [0, 0]
    for row in (1, 2):
        for column in (0, 1):
            group = ranks[row : row + 1], stride[row : row + 1], nbytes[row, column : column + 1]
            assert together[row, column] == library.seconds("all-reduce", *group)[0]


def test_without_a_transport_software_costs_nothing() -> None:
    assert load_fabric("dgx-h100", 32).library is None
    assert load_fabric("dgx-h100", 32, set={"transport": "ideal"}).library is None
    with pytest.raises(ConfigError, match="did you mean 'nccl-hopper'"):
        load_fabric("dgx-h100", 32, set={"transport": "nccl-hoper"})
    with pytest.raises(ConfigError, match="tiers of switches"):
        load_fabric("tpu-v4", 64, set={"transport": "nccl-hopper"})


def test_what_is_believed_of_such_a_fabric_is_that_of_its_accelerator_and_its_transport() -> None:
    machine = load_accelerator("h100")
    ours, ideal = belief_of(machine, dgx()), belief_of(machine, load_fabric("dgx-h100", 32))
    assert ours is not None
    assert ideal is not None
    assert ours.names == (*ideal.names, *PARAMETERS)


def test_messages_of_placed_plans_pay_the_library_s_latency() -> None:
    library = dgx().library
    assert library is not None
    inside, across = library.message_latencies(np.array([0, 0]), np.array([7, 8])).tolist()
    assert 5e-6 < inside < across
    assert (inside, across) == (library.message_latency(1), library.message_latency(8))
    steps = []
    for changes in ({"transport": "ideal"}, {}):
        fabric = {"base": "two-tier-400g", "tiers": {"domain": {"size": 2}}, **changes}
        on = load_cluster("terarack-64", set={"ranks": 4, "fabric": fabric})
        request = SearchRequest(strategies=("placed",), quanta=(1e-6,), global_batches=(8,), compare=False)
        steps.append(search(transformer(1), on, request).winner.step_time)
    assert steps[1] > steps[0]


def test_documents_say_by_what_each_cluster_is_priced() -> None:
    request = SearchRequest(strategies=("ddp",), global_batches=(8,), compare=False)
    for transport, said in (({}, "collectives by nccl-ampere"), ({"transport": "ideal"}, "ideal software, as stated")):
        fabric = {"base": "two-tier-200g", "tiers": {"domain": {"size": 2}}, **transport}
        on = load_cluster("a100-1024-two-tier", set={"ranks": 4, "fabric": fabric})
        (line,) = priced_lines(search(transformer(1), on, request))
        assert said in line
        assert "a100 calibrated on 55 steps of megatron-a100" in line
