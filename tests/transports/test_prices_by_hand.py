"""Prices of a made-up library whose steps take whole seconds, and whose links carry a few bytes a second."""

from __future__ import annotations

from math import inf, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from lightloom.core.errors import ConfigError, UnknownNameError
from lightloom.machines.transports.price import (
    FACTORS,
    SHARED,
    Constants,
    Library,
    WayColumns,
    columns,
    columns_of,
    pipelined,
    ranks_in_domain,
    scales_array,
    seconds,
    seconds_of_ways,
)
from lightloom.machines.transports.transport import (
    PARAMETERS,
    Corrections,
    Generation,
    Latencies,
    ParallelTrees,
    Protocol,
    Reduction,
    Scales,
    Transport,
    load_transport,
    names,
)
from lightloom.machines.transports.ways import LibraryTask, Tasks, Tiers, task_of, ways

RING = Latencies(base=1.0, domain_step=2.0, network_step=3.0)
TREE = Latencies(base=100.0, domain_step=100.0, network_step=100.0)
SIMPLE = Protocol(ring=RING, tree=TREE, share=1.0, tree_share=1.0, network_tree_share=1.0)
PLAIN = Transport(name="plain", protocols={"Simple": SIMPLE}, fill=1e-9)
TIERS = Tiers(domain=4, bandwidth=10.0, network=1.0)
GENERATION = Generation(clock=1e9, low_latency_ceilings=(5.0, 4.0, 2.0), reduction_share=0.5, link_share=0.9)


def arrays(*numbers: float) -> Any:
    return np.array(numbers)


def test_a_pipeline_by_hand() -> None:
    """Where both take a second and it fills without limit nearly 2 k b; with a limit of 1 the fill is 1 / sqrt(2)."""
    one = np.ones(1)
    assert pipelined(one, one, 1.0, 1.0)[0] == pytest.approx(2 + 1 / sqrt(2))
    assert pipelined(one, one, 1.0, 1e9)[0] == pytest.approx(3)
    assert pipelined(4 * one, 9 * one, 2.0, 3.0)[0] == pytest.approx(9 + 4 * (1 + 3 / sqrt(2)))
    assert pipelined(0 * one, 9 * one, 2.0, 3.0)[0] == 9
    assert pipelined(4 * one, 0 * one, 2.0, 3.0)[0] == 4


def test_constants_are_those_of_the_transport_in_their_order() -> None:
    assert FACTORS == (
        "LL base", "LL domain step", "LL network step", "LL128 base", "LL128 domain step", "LL128 network step",
        "Simple base", "Simple domain step", "Simple network step", "reduction domain step", "reduction network step",
    )  # fmt: skip
    corrections = Corrections(base=2.0, domain_step=3.0, network_step=4.0)
    corrected = SIMPLE.model_copy(update={"corrections": corrections})
    reduction = Reduction(
        domain_step=1.0, network_step=1.0, corrections=Corrections(base=9.0, domain_step=5.0, network_step=6.0)
    )
    found = Constants.of(
        PLAIN.model_copy(
            update={
                "protocols": {"Simple": corrected},
                "reduction": reduction,
                "peer_latency": 0.1,
                "fill": 0.2,
                "fill_limit": 0.3,
                "copy_share": 0.4,
                "all_to_all_share": 0.5,
                "scales": Scales(latency=7.0, network_latency=8.0, bandwidth=9.0, network_bandwidth=10.0),
            }
        )
    )
    assert found.factors.tolist() == [1, 1, 1, 1, 1, 1, 2, 3, 4, 5, 6] and found.scales.tolist() == [7, 8, 9, 10]
    assert dict(zip(SHARED, found.shared.tolist(), strict=True)) == {
        "peer_latency": 0.1, "fill": 0.2, "fill_limit": 0.3, "copy_share": 0.4, "all_to_all_share": 0.5,
    }  # fmt: skip
    assert Constants.of(PLAIN).factors.tolist() == [1] * 11
    assert scales_array(Scales()).tolist() == [1] * 4


def test_seconds_of_every_way_from_corrected_terms() -> None:
    """Factors 2, 3, 5 ... 31 of the eleven latencies; of all bytes what takes longest counts."""
    primes = arrays(2.0, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31)
    terms = np.zeros((7, 4, 3))
    terms[0, :3], terms[1], terms[2], terms[3] = 1.0, 10.0, 100.0, 1000.0
    terms[4], terms[5], terms[6] = 6.0, 8.0, 1.0
    terms[:, 3, 2] = inf
    found = WayColumns(
        np.array([0, 1, 2, -1]).repeat(3).reshape(4, 3),
        terms,
        (("a", "b", "c", "d"),) * 3,
        arrays(0.0, 1.0, 0.0),
        arrays(0.0, 0.0, 1.0),
    )
    constants = Constants(primes, arrays(0.5, 1e-9, 2.0, 0.25, 0.5), arrays(1.0, 10.0, 2.0, 4.0))
    latency = arrays(2.0 + 30 + 500, 7 + 110 + 1300, 17 + 190 + 2300, 290 + 3100) + 500
    # Inside 6 / 2 and 1 / 0.25 for the copy are longer than 8 / 4 across; of an all-to-all 6 / 2 / 0.5 + 4.
    expected = np.stack([latency + 7, 10 * latency + 7, latency + 10], axis=1)
    expected[3, 2] = inf
    made = seconds_of_ways(found, constants)
    assert made[:, :2] == pytest.approx(expected[:, :2]) and made[:3, 2] == pytest.approx(expected[:3, 2])
    assert made[3, 2] == inf
    assert seconds(found, constants) == pytest.approx(expected.min(axis=0))
    slow = Constants(primes, arrays(0.5, 1e-9, 2.0, 0.25, 0.5), arrays(1.0, 10.0, 2.0, 0.25))
    assert seconds_of_ways(found, slow)[0] == pytest.approx(latency[0] * arrays(1, 10, 1) + arrays(32, 32, 64))


def test_only_latencies_of_steps_follow_the_clock() -> None:
    """At half of the reference clock steps take twice as long; bytes and copies do not."""
    tasks = Tasks("all-gather", arrays(4.0), arrays(1.0), arrays(40.0))
    tiers = TIERS._replace(memory=2.0)
    slow = PLAIN.model_copy(update={"generation": GENERATION, "reference_clock": 2e9})
    one, other = (columns_of(tasks, tiers, transport) for transport in (PLAIN, slow))
    assert one.names == (("ring Simple",),) and one.protocol.tolist() == [[2]]
    assert one.terms[:, 0, 0].tolist() == pytest.approx([1, 6, 0, 0, 3, 0, 10])
    assert other.terms[:, 0, 0].tolist() == pytest.approx([2, 12, 0, 0, 3, 0, 10])
    assert one.crosses.tolist() == [0] and one.pairs.tolist() == [0]
    apart = columns_of(Tasks("all-gather", arrays(4, 8, 3), arrays(1, 2, 3), arrays(40, 40, 40)), TIERS, PLAIN)
    assert apart.crosses.tolist() == [0, 1, 1] and apart.pairs.tolist() == [0, 0, 0]
    assert apart.terms[4, 0].tolist() == pytest.approx([3, 3.5, 0])  # no bytes inside where each is alone
    alone = columns_of(Tasks("all-to-all", arrays(4.0), arrays(4.0), arrays(40.0)), TIERS, PLAIN)
    assert alone.terms[:, 0, 0].tolist() == pytest.approx([1, 2, 3, 3, 0, 30, 0])
    assert alone.crosses.tolist() == [1] and alone.pairs.tolist() == [1]


def test_kinds_side_by_side_are_filled_up_with_what_never_comes() -> None:
    rows = [
        LibraryTask("all-to-all", 4, 1, 40.0),
        LibraryTask("all-reduce", 8, 2, 40.0),
        LibraryTask("all-to-all", 8, 2, 80.0),
    ]
    found = columns(rows, TIERS, PLAIN)
    assert found.names == (("all pairs Simple",), ("ring Simple", "tree Simple"), ("all pairs Simple",))
    assert found.protocol.tolist() == [[2, 2, 2], [0, 2, 0]]
    assert found.crosses.tolist() == [0, 1, 1] and found.pairs.tolist() == [1, 0, 1]
    assert np.isinf(found.terms[:, 1, [0, 2]]).all() and np.isfinite(found.terms[:, 0]).all()
    # Trees go up and down; of two domains half of all bytes leave, twice, by four ranks.
    assert found.terms[:, 1, 1].tolist() == pytest.approx([100, 2 * 3 * 100, 2 * 100, 0, 8, 10, 0])
    # Of 80 bytes to 8 ranks 7/8 go through a link of 10 bytes a second, and half across.
    assert found.terms[4:6, 0, 2].tolist() == [7.0, 40.0]


def test_a_library_prices_groups_by_their_quickest_way() -> None:
    """Four ranks around a ring: 1 + 3 · 2 s, and 30 bytes through 10 a second; eight take 1 + 6 · 2 + 3 s, and 35 / 4
    bytes leave by each of four ports."""
    library = Library(TIERS, PLAIN)
    assert library.domain == 4 and library.constants.factors.tolist() == [1] * 11
    sizes = np.array([[0.0, 40.0]] * 3)
    found = library.seconds("all-gather", np.array([1, 4, 8]), np.array([1, 1, 1]), sizes)
    assert found == pytest.approx(np.array([[0.0, 0.0], [7.0, 10.0], [16.0, 24.75]]))
    # Two apart only two share a domain: of four ranks one step is inside, twice between two, one outside.
    (apart,) = library.seconds("all-gather", np.array([4]), np.array([2]), np.array([40.0]))
    assert apart == pytest.approx(1 + 2 * 2 + 3 + 30 / 2)
    pairs = Library(TIERS, PLAIN.model_copy(update={"peer_latency": 5.0, "all_to_all_share": 0.5}))
    (exchanged,) = pairs.seconds("all-to-all", np.array([4]), np.array([1]), np.array([40.0]))
    assert exchanged == pytest.approx(1 + 2 + 3 * 5 + 3 / 0.5)
    copying = Library(TIERS._replace(memory=2.0), PLAIN.model_copy(update={"copy_share": 0.5}))
    (copied,) = copying.seconds("all-gather", np.array([4]), np.array([1]), np.array([40.0]))
    assert copied == pytest.approx(7 + 3 + 20)
    with pytest.raises(ValueError):
        library.seconds("gather", np.array([4]), np.array([1]), np.array([40.0]))


def test_messages_take_a_step_inside_or_between_domains() -> None:
    library = Library(TIERS, PLAIN)
    assert [library.message_latency(stride) for stride in (1, 3, 4, 9)] == pytest.approx([3.0, 3.0, 4.0, 4.0])
    source, destination = np.array([0, 0, 3, 7]), np.array([3, 4, 4, 5])
    assert library.message_latencies(source, destination) == pytest.approx([3.0, 4.0, 4.0, 3.0])
    single = Library(TIERS._replace(domain=1), PLAIN)
    assert single.message_latencies(np.array([0, 1]), np.array([1, 1])) == pytest.approx([4.0, 4.0])
    two = Library(TIERS._replace(domain=2), PLAIN)
    assert two.message_latencies(np.array([0, 1]), np.array([1, 2])) == pytest.approx([3.0, 4.0])
    assert library.group(4, 2).domain == 2 and library.group(2, 4).domain == 1 and library.group(2, 1).domain == 2
    assert library.group(8, 1).tiers == TIERS


def test_ranks_that_share_a_domain() -> None:
    ranks, stride = np.array([8, 4, 2, 6, 3, 2]), np.array([1, 2, 4, 1, 3, 8])
    assert ranks_in_domain(4, ranks, stride).tolist() == [4, 2, 1, 2, 1, 1]


def test_tasks_count_domains() -> None:
    """A domain of up to 8 ranks is a node; a larger one holds as many as it can."""
    for domain, ranks, nodes, domains in (
        (8, 16, 2, 2),
        (8, 16, 1, 2),
        (8, 4, 4, 4),
        (9, 16, 16, 2),
        (9, 9, 9, 1),
        (9, 10, 1, 2),
    ):
        found = task_of("reduce", ranks, nodes, 7.0, TIERS._replace(domain=domain))
        assert found == LibraryTask("reduce", ranks, domains, 7.0)


def test_steps_beside_the_network_take_a_least_time_in_rings_alone() -> None:
    least = PLAIN.model_copy(update={"protocols": {"Simple": SIMPLE.model_copy(update={"least_domain_step": 5.0})}})
    for kind, steps in (("all-gather", [3 * 2.0, 6 * 5.0]), ("broadcast", [3 * 2.0, 6 * 2.0])):
        (way, *_) = ways(Tasks(kind, arrays(4.0, 8), arrays(1.0, 2), arrays(8.0, 8)), TIERS, least)
        assert way.domain_steps == pytest.approx(steps) and way.network_steps == pytest.approx([0, 3])


def test_ways_of_a_generation() -> None:
    """LL reaches 5, 4 and 2 bytes a second on one, two and more domains, of 10 at its share of 0.45."""
    low = PLAIN.model_copy(
        update={
            "protocols": {"LL": SIMPLE.model_copy(update={"share": 0.45}), "Simple": SIMPLE},
            "generation": GENERATION,
            "reduction": Reduction(domain_step=7.0, network_step=11.0),
            "parallel_trees": ParallelTrees(base=1.0, network_step=13.0, share=0.5),
        }
    )
    tasks = Tasks("broadcast", arrays(4, 8, 12, 16), arrays(1, 2, 3, 4), arrays(90, 90, 90, 90))
    by_name = {way.name: way for way in ways(tasks, TIERS, low)}
    assert list(by_name) == ["chain LL", "chain Simple"]
    assert by_name["chain LL"].domain_seconds == pytest.approx(90 / arrays(4.5, 4, 2, 2))
    assert by_name["chain Simple"].domain_seconds == pytest.approx([9.0] * 4)
    tasks = Tasks("all-reduce", arrays(4, 8, 2), arrays(1, 2, 1), arrays(90, 90, 90))
    switches = {way.name: way for way in ways(tasks, TIERS._replace(reduction=True), low)}["adding switches"]
    assert switches.protocol == -1 and switches.base == 0 and switches.served is not None
    assert switches.served.tolist() == [True, True, False]
    assert switches.domain_steps == 7.0 and switches.network_steps == pytest.approx([0, 22, 0])
    assert switches.domain_seconds == pytest.approx(90 * arrays(1.25, 1.25, 1.5) / 5)
    assert "adding switches" not in {way.name for way in ways(tasks, TIERS, low)}
    none = low.model_copy(update={"generation": GENERATION.model_copy(update={"reduction_share": 0.0})})
    assert "adding switches" not in {way.name for way in ways(tasks, TIERS._replace(reduction=True), none)}
    tasks = Tasks("reduce-scatter", arrays(6, 1, 8, 2), arrays(6, 1, 2, 2), arrays(60, 60, 60, 60))
    trees = {way.name: way for way in ways(tasks, TIERS, low)}["parallel trees"]
    assert trees.served is not None and trees.served.tolist() == [True, False, False, True]
    assert np.asarray(trees.network_steps)[0] == 3 * 13 and np.asarray(trees.network_seconds)[0] == pytest.approx(100)


# Transports as files.


def test_transports_state_numbers_only_with_protocols() -> None:
    for wrong in ({"scales": {"latency": 2.0}}, {"generation": GENERATION.model_dump()}):
        with pytest.raises(ValidationError, match="expected field 'base', such as nccl-hopper"):
            Transport.model_validate(wrong)
    assert Transport().ideal and Transport().arithmetic_share == 0.0 and not PLAIN.ideal
    with pytest.raises(ValidationError, match="unknown parameters: a, b: expected latency"):
        PLAIN.model_validate(PLAIN.model_dump() | {"spreads": {"b": 1.0, "a": 1.0, "latency": 1.0}})


def test_priors_have_the_values_spreads_and_sources_of_a_transport() -> None:
    sharing = GENERATION.model_copy(update={"arithmetic_share": 0.25})
    transport = PLAIN.model_copy(
        update={
            "generation": sharing,
            "scales": Scales(bandwidth=0.5),
            "spreads": {"bandwidth": 0.03},
            "sources": {"scales": "rows", "latency": "a book", "arithmetic_share": "a page"},
        }
    )
    priors = transport.priors()
    assert {name: (prior.value, prior.spread, prior.source) for name, prior in priors.items()} == {
        "latency": (1.0, 0.4, "a book"),
        "network_latency": (1.0, 0.8, "rows"),
        "bandwidth": (0.5, 0.03, "rows"),
        "network_bandwidth": (1.0, 0.12, "rows"),
        "arithmetic_share": (0.25, 1.0, "a page"),
    }
    assert {name: prior.most for name, prior in PARAMETERS.items()} == {
        "latency": inf, "network_latency": inf, "bandwidth": inf, "network_bandwidth": inf, "arithmetic_share": 1.0,
    }  # fmt: skip
    assert list(PLAIN.priors()) == ["latency", "network_latency", "bandwidth", "network_bandwidth"]
    changed = transport.with_parameters({"latency": 3.0, "arithmetic_share": 0.75, "speed": 9.0})
    assert changed.scales == Scales(latency=3.0, bandwidth=0.5) and changed.arithmetic_share == 0.75
    assert transport.with_parameters({"latency": 3.0}).generation == sharing
    assert PLAIN.with_parameters({"arithmetic_share": 0.75}).generation is None


def test_transports_by_name_and_file(tmp_path: Path) -> None:
    assert names() == sorted(names()) and "ideal" in names() and "nccl-hopper" in names() and "nccl" not in names()
    assert load_transport("nccl-hopper").name == "nccl-hopper"
    path = tmp_path / "mine.yaml"
    path.write_text("description: nothing\n")
    assert load_transport(str(path)).name == "mine" and load_transport(str(path)).ideal
    path = tmp_path / "many.yaml"
    path.write_text("generations: {a: {}}\n")
    with pytest.raises(ConfigError, match="several generations: expected one, as field 'generation'"):
        load_transport(str(path))
    for wrong in ("nccl", "-hopper", "ideal-hopper"):
        with pytest.raises(UnknownNameError):
            load_transport(wrong)
