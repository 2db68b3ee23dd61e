"""Placed plans whose circuits are granted anew within a step: never slower than granted once, nor below their bound."""

from __future__ import annotations

import pytest

from lightloom.core.errors import UnsupportedError
from lightloom.machines.accelerators.load import load_accelerator
from lightloom.machines.clusters.cluster import Cluster, TrainingSettings
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.switches import PacketSwitch
from lightloom.machines.fabrics.wdm_ring import WdmRing
from lightloom.planning.pricing.group_prices import GroupPrices
from lightloom.planning.pricing.job import Job
from lightloom.planning.pricing.placed_space import PlacedChoice
from lightloom.planning.reconfiguration.in_step import RegrantedStep
from lightloom.planning.search.document import regranted_json
from lightloom.planning.search.request import SearchRequest
from lightloom.planning.search.rows import PlacedPlans
from lightloom.planning.search.search import search
from tests.planner.jobs import transformer

CHOICE = PlacedChoice(4, 2, 1e-7, 32, 4, 1.0)
MODEL = transformer(2, 1024)


def ring(seconds: float) -> WdmRing:
    return WdmRing(ranks=8, wavelengths=8, wavelength_bandwidth=1e10, reconfiguration_time=seconds)


def small(fabric: Fabric) -> Cluster:
    chip = load_accelerator("a100").flat()
    return Cluster(name="small", ranks=fabric.ranks, accelerator=chip, fabric=fabric)


def job_on(seconds: float) -> Job:
    fabric, training = ring(seconds), TrainingSettings()
    prices = GroupPrices(fabric, training)
    return Job.of(MODEL, load_accelerator("a100").flat(), fabric, training, prices)


@pytest.mark.parametrize("seconds", [1e-6, 1e-4])
@pytest.mark.parametrize("micro_batches", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_no_slower_than_circuits_granted_once_and_not_below_the_bound(seconds: float, micro_batches: int) -> None:
    job, choice = job_on(seconds), CHOICE._replace(micro_batches=micro_batches)
    anew = PlacedPlans(job, regrants=True)
    once, step = PlacedPlans(job).simulate(choice), anew.simulate(choice)
    assert anew.circuits_bound(choice) <= step.step_time <= once.step_time
    assert step.sent_bytes == pytest.approx(once.sent_bytes - once.relayed_bytes)
    assert step.timeline.step_time == pytest.approx(step.step_time)
    assert isinstance(step, RegrantedStep) == (seconds < 1e-4)
    if isinstance(step, RegrantedStep):
        assert step.gain == once.step_time - step.step_time > 0
        assert step.grants * step.timing.period >= step.step_time


def test_a_slow_ring_grants_its_circuits_once() -> None:
    """A hold longer than the step is granted once."""
    assert not isinstance(PlacedPlans(job_on(1.0), regrants=True).simulate(CHOICE), RegrantedStep)


def test_the_document_says_what_granting_anew_gains() -> None:
    step = PlacedPlans(job_on(1e-6), regrants=True).simulate(CHOICE)
    assert isinstance(step, RegrantedStep)
    row = regranted_json(step)
    assert row["reconfiguration_time_s"] == 1e-6 and round(row["hold_s"] * 1e6) in (4, 10)
    assert row["gain_s"] == step.gain > 0
    assert row["standing_step_s"] == step.step_time + step.gain


def test_splits_on_a_ring_have_nothing_granted_anew() -> None:
    request = SearchRequest(global_batches=(16,), strategies=("fsdp",), reconfigure_in_step=True)
    with pytest.raises(UnsupportedError, match="only placed plans are granted wavelengths anew"):
        search(MODEL, small(ring(1e-6)), request)


def test_packet_fabrics_have_nothing_to_grant() -> None:
    with pytest.raises(UnsupportedError, match="expected switch planes"):
        search(
            MODEL,
            small(PacketSwitch(ranks=4)),
            SearchRequest(global_batches=(16,), reconfigure_in_step=True),
        )
