"""Fig. 7(b): time of a step with the ring and with OptINC, by plans and schedules; the batch is not stated.

    saving = (R - O) / (R + b c)      R, O: seconds on the network; c: seconds of computing for one sample

R / O = 2 (N - 1) / N bounds it: at N = 4 no batch, model or speed saves more than a third.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from lightloom.clusters.load import load_cluster
from lightloom.clusters.settings import TrainingSettings
from lightloom.collectives.registry import find
from lightloom.core.claims import Claim
from lightloom.fabrics.load import changed
from lightloom.parallelism.load import make_plan
from lightloom.planner.pricing.schedule_prices import SchedulePrices
from lightloom.simulation.step import StepResult, simulate_step
from lightloom.studies.optinc import PAPER
from lightloom.studies.optinc.paper import SAVED
from lightloom.studies.optinc.traffic import sent
from lightloom.studies.optinc.workloads import TOKENS, workload

CODE_BYTES, FLOAT_BYTES = 2, 4
"""Bytes per gradient value in OptINC's fourth scenario and in DDP."""
USUAL = {"resnet50": 32, "llama": 8}
"""Images and sequences of 256 tokens per server, in the rows; not chosen to match the paper."""
TOKENS_OF_A_SAMPLE = {"llama": 256, "llama-short": TOKENS}


@dataclass(frozen=True, slots=True)
class Step:
    """Durations of a step, in seconds."""

    compute: float
    ring: float
    optical: float

    @property
    def saving(self) -> float:
        """Time saved over the ring, in percent."""
        return 100 * (self.ring - self.optical) / (self.compute + self.ring)


@cache
def step(model: str, batch: int, ring_bytes: int = CODE_BYTES) -> Step:
    """One step of ``batch`` samples a server; network and computing follow each other, as in the paper's bars.

    Args:
        model: of ``workloads.GRAPHS``. batch: samples. ring_bytes: of a value on the ring; OptINC always sends codes.
    """
    ring = simulated(model, batch, "ring", ring_bytes)
    optical = simulated(model, batch, "in-network", CODE_BYTES)
    return Step(ring.compute_time, *(each.step_time - each.compute_time for each in (ring, optical)))


@cache
def simulated(model: str, batch: int, algorithm: str, nbytes: int, overlap: bool = False) -> StepResult:
    """A step of data parallelism on four servers as section IV equips them: 60 TFLOP/s · 0.6, 8 · 800 Gbit/s."""
    cluster = load_cluster("optinc-4")
    fabric = cluster.fabric if algorithm == "in-network" else cluster.reference
    assert fabric is not None
    fabric = changed(fabric, {"hop_latency": 0.0})  # the paper counts no fibre and no switch
    settings = TrainingSettings(batch_per_rank=batch, gradient_bytes=nbytes)
    plan = make_plan("ddp", workload(model).with_batch(batch), cluster.ranks, settings)
    prices = SchedulePrices(find(algorithm), fabric, "physical")
    return simulate_step(plan, cluster.accelerator, fabric, prices, overlap=overlap)


def batch_of(model: str, saving: float, ring_bytes: int = CODE_BYTES) -> float:
    """Samples a server at which that percentage is saved; computing is proportional to them."""
    one = step(model, 1, ring_bytes)
    return (100 * (one.ring - one.optical) / saving - one.ring) / one.compute


def bound(servers: int) -> float:
    """No step saves more, percent: everything but the network takes no time."""
    return 100 * (1 - sent("in-network", servers) / sent("ring", servers))


def claims() -> tuple[Claim, ...]:
    """Return the rows of Fig. 7(b)."""
    return (*_savings(), *_batches(), *_bounds())


def _savings() -> Iterator[Claim]:
    for model, paper in SAVED.items():
        batch = USUAL[model]
        size = TOKENS_OF_A_SAMPLE.get(model, 1)
        short = "llama-short" if model == "llama" else model
        yield PAPER.claim(
            "figure7b.{model}_saving",
            round(step(model, batch).saving, 1),
            paper=paper,
            model=model,
            samples=batch * size,
            kind="tokens" if size > 1 else "images",
            with_float32=step(model, batch, FLOAT_BYTES).saving,
            met=batch_of(short, paper) * TOKENS_OF_A_SAMPLE.get(short, 1),
            ring_percent=100 * paper / bound(4),
        )


def _batches() -> Iterator[Claim]:
    for model, label in (
        ("resnet50", "resnet50_images"),
        ("resnet50-small-stem", "resnet50_small_stem_images"),
        ("llama-short", "llama_tokens"),
    ):
        saving = SAVED["llama" if "llama" in model else "resnet50"]
        size = TOKENS_OF_A_SAMPLE.get(model, 1)
        codes, floats = (batch_of(model, saving, nbytes) * size for nbytes in (CODE_BYTES, FLOAT_BYTES))
        yield PAPER.claim(f"figure7b.{label}", float(f"{codes:.2g}"), saving=saving, with_float32=floats)


def _bounds() -> Iterator[Claim]:
    bounds = {n: bound(n) for n in (4, 8, 16)}
    below = "below the bound" if max(SAVED.values()) < bounds[4] else "above the bound"
    grows = "grows with the servers" if bounds[4] < bounds[8] < bounds[16] else "does not grow"
    yield PAPER.claim("figure7b.bound_n4", below, bounds=bounds)
    yield PAPER.claim("figure7b.bound_trend", grows, bounds=bounds)
