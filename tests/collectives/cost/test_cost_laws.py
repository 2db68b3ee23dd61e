"""The cost models agree with a slow, obvious price of every schedule, whatever the order of its rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from lightloom.collectives.algorithm import Algorithm
from lightloom.collectives.collective import Collective
from lightloom.collectives.cost import loads
from lightloom.collectives.cost.loads import _interval_loads, _seconds_of_runs, _StepChunks, step_loads
from lightloom.collectives.cost.price import play
from lightloom.collectives.cost.stepped import CodecTimes, codec_work, cost, loads_times, straggling
from lightloom.collectives.registry import build, find
from lightloom.collectives.schedule.columns import Schedule, circuits_key
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.grids import Mesh
from lightloom.machines.fabrics.optical_averager import OpticalAverager
from lightloom.machines.fabrics.switches import PacketSwitch
from tests.collectives.cost.reference import coded_chunks, queued_times, shuffled, stepped_price
from tests.collectives.queued_reference import chained, exchanged, tapped
from tests.collectives.strategies import fabrics, jobs, wdm_ring

QUICK = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])


def drawn_order(draw: st.DataObject, rows: int) -> list[int]:
    order: list[int] = np.random.default_rng(draw.draw(st.integers(0, 1 << 16))).permutation(rows).tolist()
    return order


@st.composite
def dependencies(draw: st.DrawFn, steps: int) -> np.ndarray | None:
    """Some pairs (step, step before it), in an order of the steps that is not their number's; or none at all."""
    if draw(st.booleans()) or steps < 2:
        return None
    order = np.random.default_rng(draw(st.integers(0, 1 << 16))).permutation(steps)
    pairs = draw(st.lists(st.tuples(st.integers(0, steps - 1), st.integers(0, steps - 1)), max_size=2 * steps))
    return np.array([(order[max(p)], order[min(p)]) for p in pairs if p[0] != p[1]], np.int64).reshape(-1, 2)


@QUICK
@given(jobs(fabrics(largest=9)), st.sampled_from(["paper", "physical"]), st.data())
def test_a_schedule_of_steps_costs_what_its_rows_say(
    job: tuple[Algorithm, Collective, Fabric], model: str, data: st.DataObject
) -> None:
    algorithm, collective, fabric = job
    assume(not algorithm.by_size)
    fabric = fabric.model_copy(update={"energy_per_bit": 3e-12})
    schedule = build(algorithm, collective, fabric)
    alike = fabric.exclusive or collective.sizes is None
    if alike and schedule.pipeline is None and not (fabric.exclusive and fabric.setup_time):
        # Which circuits change depends on the order of steps that nothing orders.
        drawn = data.draw(dependencies(schedule.steps))
        if drawn is not None:
            schedule = replace(schedule.unfolded(fabric.fibre_channels), dependencies=drawn)
    schedule = shuffled(schedule, drawn_order(data, len(schedule)))
    price = cost(schedule, fabric, model)  # type: ignore[arg-type]
    expected = stepped_price(schedule.unfolded(fabric.fibre_channels), fabric, model)
    parts = price.transmission + price.conversion + price.reconfiguration
    assert price.time == pytest.approx(parts, rel=1e-12)
    assert price.time == pytest.approx(sum(expected[:3]), rel=1e-9, abs=1e-18)
    assert price.energy == pytest.approx(expected.energy, rel=1e-9)
    assert price.setup == pytest.approx(min(fabric.setup_time, price.reconfiguration))
    if schedule.dependencies is None:
        assert price.static == expected.static
        assert price.conversion == pytest.approx(expected.conversion)
        assert price.reconfiguration == pytest.approx(expected.reconfiguration)
    schedule = schedule.first_piece()
    for in_line in (False, True):
        work = codec_work(schedule, in_line=in_line)
        if schedule.dependencies is None:
            assert (work.encoded.tolist(), work.decoded.tolist()) == coded_chunks(schedule, in_line=in_line)


@pytest.mark.parametrize("kind", ["all-reduce", "all-gather", "broadcast"])
def test_a_pipeline_costs_what_all_its_pieces_say(kind: str) -> None:
    mesh = Mesh(ranks=6, energy_per_bit=3e-12)
    schedule = build(find("hierarchical"), Collective(kind, 6, 1e6), mesh)  # type: ignore[arg-type]
    assert schedule.pipeline is not None
    for pieces in (1, 3, 6):
        cut = schedule.in_pieces(pieces)
        price, expected = cost(cut, mesh), stepped_price(cut.unfolded(mesh.fibre_channels), mesh, "physical")
        assert price.time == pytest.approx(sum(expected[:3]), rel=1e-9)
        assert price.energy == pytest.approx(expected.energy, rel=1e-9)


def queued(which: str, ranks: int, nbytes: float) -> Schedule:
    """Unfolded queued schedules whose lightpaths bundle one to three wavelengths."""
    fabric = wdm_ring(ranks, 8)
    schedule = {
        "all-to-all": lambda: exchanged(ranks, 2, ranks, nbytes),
        "multicast": lambda: tapped(ranks, 3, nbytes),
        "broadcast": lambda: chained("broadcast", ranks, 3, nbytes),
        "reduce": lambda: chained("reduce", ranks, 3, nbytes),
        "all-reduce": lambda: build(find("synthesized"), Collective("all-reduce", ranks, nbytes), fabric),
    }[which]().unfolded(fabric.fibre_channels)
    return schedule.with_columns({"wavelength_count": 1 + schedule.lightpath % 3})


@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from(["all-to-all", "multicast", "broadcast", "reduce", "all-reduce"]),
    st.sampled_from([4, 6, 7]),
    st.sampled_from([1e3, 1e5, 1e8]),
    st.data(),
)
def test_a_queued_schedule_costs_what_its_rows_say(which: str, ranks: int, nbytes: float, data: st.DataObject) -> None:
    seconds = st.sampled_from([0.0, 3e-7, 1e-5])
    times = ("hop_latency", "conversion_time", "guard_time", "reconfiguration_time")
    fields: dict[str, object] = {name: data.draw(seconds) for name in times}
    fabric = wdm_ring(ranks, 8, wavelength_bandwidth=4e9, energy_per_bit=3e-12, **fields)
    schedule = queued(which, ranks, nbytes)
    in_steps: list[int] = np.lexsort((schedule.lightpath, schedule.step)).tolist()
    order = in_steps if data.draw(st.booleans()) else drawn_order(data, len(schedule))
    mixed = shuffled(schedule, order)
    begin, end, sent = queued_times(schedule, fabric)
    time, _, beginnings = play(mixed, fabric)
    assert time == pytest.approx(end, rel=1e-12)
    assert beginnings == pytest.approx(np.array(begin)[order], rel=1e-12, abs=1e-18)
    price = cost(mixed, fabric)
    assert price.time == pytest.approx(fabric.setup_time + end, rel=1e-12)
    assert price.energy == pytest.approx(8 * sent * schedule.chunk_nbytes * 3e-12, rel=1e-12)
    assert (price.steps, price.static, price.setup, price.encode) == (1, True, fabric.setup_time, 0.0)
    assert price.reconfiguration == fabric.setup_time
    assert price.conversion == min(fabric.step_overhead, time)
    assert price.transmission == pytest.approx(time - price.conversion)
    assert circuits_key(mixed, fabric.fibre_channels) == circuits_key(schedule, fabric.fibre_channels)


@pytest.mark.parametrize("which", ["all-to-all", "multicast", "broadcast", "reduce"])
def test_a_straggler_delays_by_what_a_replay_says(which: str) -> None:
    """A rank that sends slower holds its lightpaths longer; one that starts late sends nothing earlier."""
    fabric = wdm_ring(6, 8, hop_latency=2e-7, conversion_time=1e-6, guard_time=3e-7)
    schedule = queued(which, 6, 1e5)
    mixed = shuffled(schedule, np.random.default_rng(1).permutation(len(schedule)).tolist())
    end = queued_times(schedule, fabric)[1]
    for late, slower in ((0.0, 1.0), (2e-5, 1.0), (1e-3, 1.0), (0.0, 3.0)):
        result = straggling(mixed, fabric, late=late, slower=slower)
        assert result.time == pytest.approx(fabric.setup_time + end, rel=1e-12)
        assert np.array_equal(result.later, straggling(schedule, fabric, late=late, slower=slower).later)
        if (late, slower) == (0.0, 1.0):
            assert result.later == pytest.approx(np.zeros(6), abs=1e-15)
        assert result.later.max() <= (late + (slower - 1) * end) * (1 + 1e-9) + 1e-15
        assert result.worst == int(np.argmax(result.later))
    senders = set(schedule.source.tolist())
    later = straggling(schedule, fabric, late=1.0).later
    for rank in range(6):
        assert (later[rank] > 0.9) == (rank in senders)


@pytest.mark.parametrize("in_line", [False, True])
def test_codecs_add_to_steps_or_run_beside_them(in_line: bool) -> None:
    """Between hops both directions add to every step; in line a step waits for the slowest, and for one hop more."""
    fabric = wdm_ring(5, 2, hop_latency=1e-6, conversion_time=3e-6)
    schedule = build(find("ring"), Collective("all-gather", 5, 1e6), fabric)
    encode, decode = np.array([1e-9, 2e-3, 5e-3, 1e-9]), np.array([4e-3, 1e-9, 3e-3, 2e-9])
    plain = loads_times(step_loads(schedule, fabric), fabric)
    times = loads_times(step_loads(schedule, fabric), fabric, codec=CodecTimes(encode, decode, in_line))
    if in_line:
        expected = [
            max(sent, a + 1e-6, b + 1e-6) for sent, a, b in zip(plain.transmission, encode, decode, strict=True)
        ]
        assert times.transmission == pytest.approx(expected) and not times.encode.any()
        paper = loads_times(step_loads(schedule, fabric, "paper"), fabric, codec=CodecTimes(encode, decode, True))
        assert paper.transmission[2] == pytest.approx(5e-3) and paper.conversion == pytest.approx([3e-6] * 4)
    else:
        assert times.transmission == pytest.approx(plain.transmission)
        assert np.array_equal(times.encode, encode) and np.array_equal(times.decode, decode)
    assert times.duration == pytest.approx(
        times.transmission + times.conversion + times.reconfiguration + times.encode + times.decode
    )


def test_in_line_codecs_code_what_is_forwarded_and_others_do_not() -> None:
    """Chunk 0 goes 0 → 1 → 2 → 3 and is stored: between hops it is coded once, in line at every hop."""
    fabric = PacketSwitch(ranks=4)
    schedule = build(find("ring"), Collective("broadcast", 4, 4e6), fabric)
    between, in_line = codec_work(schedule, in_line=False), codec_work(schedule, in_line=True)
    assert int(between.encoded.sum()) == schedule.chunks
    assert in_line.encoded.tolist() == [1] * schedule.steps == in_line.decoded.tolist()
    # The root adopts its own decoded chunk; every later hop only decodes what arrives.
    assert between.decoded.tolist() == [1] * schedule.steps
    work = between.times(8e6, 2e6, 4e6)
    assert work.encode == pytest.approx(between.encoded * (8e6 / schedule.chunks / 2e6))
    assert work.decode == pytest.approx(between.decoded * (8e6 / schedule.chunks / 4e6))


def test_a_circuit_key_names_every_column_of_the_circuits() -> None:
    fabric = wdm_ring(6, 8)
    schedule = build(find("one-stage"), Collective("all-gather", 6, 6e6), fabric)
    key = circuits_key(schedule, fabric.fibre_channels)
    assert key == circuits_key(schedule.resized(1.0), fabric.fibre_channels) and len(key) == 16
    for name in ("source", "destination", "route", "fibre", "first_wavelength", "wavelength_count"):
        column = getattr(schedule, name).copy()
        column[3] += 1
        assert circuits_key(schedule.with_columns({name: column}), fabric.fibre_channels) != key, name


def test_a_switch_that_reduces_charges_the_way_up_and_down() -> None:
    fabric = OpticalAverager(ranks=4, hop_latency=1e-7, averaging_latency=3e-7)
    schedule = build(find("in-network"), Collective("reduce", 4, 1e6), fabric)
    expected = stepped_price(schedule, fabric, "physical")
    assert cost(schedule, fabric).transmission == pytest.approx(expected.transmission)


def test_rows_may_be_listed_place_by_place_instead_of_lightpath_by_lightpath() -> None:
    fabric = wdm_ring(3, 8, conversion_time=1e-6, hop_latency=2e-7)
    by_lightpath = chained("broadcast", 3, 2, 1e5)
    by_lightpath = by_lightpath.with_columns({"step": np.array([0, 1, 0, 1])})
    end = queued_times(by_lightpath, fabric)[1]
    # Place by place; and lightpath by lightpath, the first one's rows from the last place to the first.
    for rows in ([0, 1, 2, 3], [0, 2, 1, 3], [1, 0, 2, 3]):
        assert play(shuffled(by_lightpath, rows), fabric).seconds == pytest.approx(end, rel=1e-12)
    # One lightpath carries two chunks and the other the last of them: three in a row and two conversions.
    chunk = 5e4 / fabric.wavelength_bandwidth
    assert end == pytest.approx(3 * chunk + 2 * 1.2e-6)


@pytest.mark.parametrize("kind", ["all-reduce", "broadcast"])
def test_loads_of_another_size_keep_their_steps_unless_pieces_follow_each_other(kind: str) -> None:
    mesh = Mesh(ranks=6)
    schedule = build(find("hierarchical"), Collective(kind, 6, 1e6), mesh)  # type: ignore[arg-type]
    loads = step_loads(schedule, mesh)
    alone = replace(loads, pipeline=None)
    sized = alone.at_size(2e6, mesh)
    assert (sized.pipeline, sized.steps, sized.chunks) == (None, loads.steps, loads.chunks)
    assert sized.chunk_nbytes == 2 * loads.chunk_nbytes
    # The pieces that it had are never faster than those that it chooses.
    fewer, more = (loads.at_size(nbytes, mesh) for nbytes in (1e3, 1e9))
    for sized in (fewer, more):
        kept = replace(loads, collective=sized.collective)
        assert sized.transmission(mesh).sum() <= kept.transmission(mesh).sum()
    # Without the tables of a pipeline, as on circuits, its pieces stay.
    ring = wdm_ring(6, 8)
    plain = step_loads(build(find("ring"), Collective("all-gather", 6, 1e6), ring), ring)
    piped = replace(plain, pipeline=loads.pipeline)
    assert piped.at_size(2e6, ring).pipeline == loads.pipeline


def test_a_place_of_a_pipeline_at_which_nothing_is_sent_takes_no_time() -> None:
    seconds, latency = _seconds_of_runs(np.array([[0.0, 0.0], [4.0, 2.0]]), np.array([0.0, 1e-6]), np.array([2.0, 2.0]))
    assert seconds.tolist() == [[0.0, 2.0], [0.0, 2.0]] and latency.tolist() == [[0.0, 1e-6], [0.0, 1e-6]]
    seconds, _ = _seconds_of_runs(np.zeros((2, 3)), np.zeros(2), np.ones(3))
    assert not seconds.any()


@given(st.integers(1, 9), st.integers(1, 12), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=25)
def test_steps_an_interval_apart_take_what_they_load_together(steps: int, interval: int, seed: int) -> None:
    """Links carry what all steps load, the longest delay counts, and places after the last step take no time."""
    rng = np.random.default_rng(seed)
    loads = [_StepChunks(rng.integers(0, 4, 3), float(rng.random())) for _ in range(steps)]
    bandwidth, places = np.array([1.0, 2.0, 4.0]), -(-steps // interval)
    found = _interval_loads(loads, interval, bandwidth)
    assert found.per_byte.shape == found.latency.shape == (interval, places, places)
    for residue, first, last in np.ndindex(interval, places, places):
        own = loads[residue::interval][first : last + 1]
        seconds = max((sum(load.chunks for load in own) / bandwidth).tolist()) if own else 0.0
        assert found.per_byte[residue, first, last] == pytest.approx(seconds)
        assert found.latency[residue, first, last] == max([0.0, *(load.latency for load in own)])


@pytest.mark.parametrize("block", [1, 7])
def test_loads_of_links_are_those_of_all_blocks_of_rows(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    fabric = Mesh(ranks=9)
    schedule = build(find("synthesized"), Collective("all-gather", 9, 9e3), fabric)
    weights = np.random.default_rng(0).random(len(schedule))
    whole = loads._link_loads(schedule, fabric, weights)
    monkeypatch.setattr(loads, "BLOCK", block)
    for one, other in zip(whole, loads._link_loads(schedule, fabric, weights), strict=True):
        assert one == pytest.approx(other)
