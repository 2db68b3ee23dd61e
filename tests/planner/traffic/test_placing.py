"""Channels and links of jobs that share a fabric."""

from __future__ import annotations

from itertools import product

import pytest

from lightloom.machines.fabrics.switches import CircuitSwitch, PacketSwitch
from lightloom.planning.traffic.jobs import (
    TrafficJob,
    held_links,
    job_fabric,
    neighbours,
    splits,
)
from tests.collectives.strategies import wdm_ring


def _job(*ranks: int) -> TrafficJob:
    return TrafficJob(what="all-reduce", ranks=ranks)


@pytest.mark.parametrize(
    ("total", "jobs", "most"), [(6, 3, 8), (64, 3, 8), (10, 2, 4), (5, 1, 8), (3, 3, 8), (2, 3, 8)]
)
def test_channels_are_shared_out_in_every_way(total: int, jobs: int, most: int) -> None:
    parts = min(total, most)
    ways = [way for way in product(range(1, parts + 1), repeat=jobs) if sum(way) == parts]
    whole = [[part * total // parts for part in way[:-1]] for way in ways]
    assert sorted(splits(total, jobs, most)) == sorted((*way, total - sum(way)) for way in whole)


@pytest.mark.parametrize(
    ("ranks", "clockwise"),
    [
        ((1, 2, 3), {1, 2}),
        ((1, 3, 5), {1, 2, 3, 4}),
        # All around the ring.
        ((0, 2, 4, 6), set(range(8))),
        ((2, 3), {2}),
    ],
)
def test_a_job_on_a_ring_holds_the_links_between_its_first_and_last_rank(
    ranks: tuple[int, ...], clockwise: set[int]
) -> None:
    """Both ways; links that leave a rank clockwise come first, those the other way are numbered by the same cable."""
    fabric = wdm_ring(8, 4)
    assert set(held_links(_job(*ranks), fabric).tolist()) == clockwise | {8 + link for link in clockwise}


def test_jobs_are_neighbours_where_links_overlap_also_by_way_of_others() -> None:
    ring = wdm_ring(12, 4)
    jobs = [_job(0, 1, 2), _job(8, 9), _job(2, 3, 4), _job(3, 5), _job(10, 11)]
    assert neighbours(jobs, ring) == [[0], [1], [2, 3], [4]]
    chain = [_job(0, 2), _job(3, 5), _job(1, 4)]
    assert neighbours(chain, ring) == [[0, 1, 2]]
    assert neighbours(chain, CircuitSwitch(ranks=12, degree=4)) == [[0], [1], [2]]


def test_a_job_gets_its_channels_of_a_ring_and_of_planes_and_all_of_a_packet_network() -> None:
    ring = job_fabric(_job(0, 2, 4, 6), wdm_ring(8, 4), 3)
    assert ring.ranks == 4 and ring.channels == 3
    assert job_fabric(_job(0, 2, 4, 6), wdm_ring(8, 4)).channels == 4
    planes = CircuitSwitch(ranks=8, degree=4)
    assert [job_fabric(_job(0, 1, 2), planes, held).channels for held in (1, 3)] == [1, 3]
    assert job_fabric(_job(0, 1, 2), planes).channels == 4
    assert job_fabric(_job(5, 1, 2), PacketSwitch(ranks=8)).ranks == 3
