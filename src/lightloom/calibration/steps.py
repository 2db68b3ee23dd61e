"""Seconds of a training step of a uniform transformer, in closed form and for many jobs at once.

    pipeline   p stages, v chunks each, n micro-batches:  n · stage + (p − 1)/v · stage + sends
    sharding   gathers and reductions of each block beside its compute: the longer of the two, and an exposed part
    end        gradient exchange, update of the optimizer, what every step adds

Source of the pipeline's bubble: Narayanan et al., SC 2021, section 2.2.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from lightloom.accelerators.kernels import Rates
from lightloom.calibration.blocks import Blocks, BlockTimes
from lightloom.calibration.jobs import Jobs
from lightloom.calibration.links import Links
from lightloom.calibration.priors import kernels_with
from lightloom.clusters.settings import TrainingSettings
from lightloom.core.arrays import Floats

_UPDATE_BYTES = TrainingSettings().optimizer_traffic_bytes
"""Bytes an update of the optimizer moves for one parameter."""


def step_seconds(jobs: Jobs, values: Mapping[str, float]) -> Floats:
    """Return the seconds of a step of each job: [jobs].

    Args:
        jobs: columns of jobs.
        values: parameters by their names in :mod:`lightloom.calibration.priors`.
    """
    return _Step(jobs, values).seconds()


class _Step:
    def __init__(self, jobs: Jobs, values: Mapping[str, float]) -> None:
        self._jobs = jobs
        self._values = values
        self._links = Links(jobs, values)
        self._kernels = kernels_with(jobs.accelerator, values)
        self._blocks = Blocks(jobs, self._kernels, self._links)
        self._pp, self._virtual = jobs.column("pp"), jobs.column("virtual_stages")
        self._stage_blocks = np.ceil(jobs.column("layers") / (self._pp * self._virtual)) * self._virtual
        self._gathers_parameters = jobs.where("sharding", "zero-2", "zero-3", "hybrid") & (self._pp == 1)

    def seconds(self) -> Floats:
        batch = np.minimum(self._jobs.column("micro_batch"), self._jobs.share)
        whole = np.floor(self._jobs.share / batch)
        rest = self._jobs.share - whole * batch
        stage, head = self._micro_batch(batch)
        last = np.zeros_like(rest)
        if rest.any():
            rest_stage, rest_head = self._micro_batch(np.where(rest > 0, rest, batch))
            last = np.where(rest > 0, rest_stage + rest_head, 0.0)
        bubble = (self._pp - 1) / self._virtual * stage
        seconds: Floats = whole * (stage + head) + last + bubble + self._sends(batch, whole) + self._end()
        return seconds

    def _micro_batch(self, batch: Floats) -> tuple[Floats, Floats]:
        """Seconds of a micro-batch in the blocks of a stage and in the head, both passes."""
        forward, backward = self._sharded(self._blocks.times(batch))
        return self._stage_blocks * (forward + backward), self._blocks.head(batch)

    def _sharded(self, block: BlockTimes) -> tuple[Floats, Floats]:
        """Passes of a block beside the gathers of parameters and the reductions of gradients that they overlap."""
        shared = self._blocks.parameters / self._jobs.column("tp")
        gather = self._links.replica_pass(2 * shared)
        reduce = self._links.replica_pass(self._jobs.column("gradient_bytes") * shared)
        regathers = self._jobs.where("sharding", "zero-3", "hybrid")
        forward = np.where(self._gathers_parameters, gather, 0.0)
        backward = np.where(self._gathers_parameters, np.where(regathers, gather, 0.0) + reduce, 0.0)
        return self._beside(block.forward, forward), self._beside(block.backward, backward)

    def _beside(self, compute: Floats, exchange: Floats) -> Floats:
        return np.maximum(compute, exchange) + self._values["exposed"] * np.minimum(compute, exchange)

    def _sends(self, batch: Floats, micro_batches: Floats) -> Floats:
        """Sends on the way through the pipeline and back, and half of those of every micro-batch."""
        send = self._links.stage_send(2 * batch * self._jobs.column("sequence_length") * self._jobs.column("hidden"))
        return (self._pp - 1) * 2 * send + micro_batches * self._virtual * send

    def _end(self) -> Floats:
        """Gradient exchange, update, and what every step adds."""
        jobs = self._jobs
        embedding = jobs.column("vocabulary") * jobs.column("hidden")
        held = (self._blocks.parameters * jobs.column("layers") / self._pp + embedding) / jobs.column("tp")
        exchange = 2 * self._links.replica_pass(held * jobs.column("gradient_bytes"))
        updated = np.where(jobs.where("sharding", "none"), held, held / jobs.column("dp"))
        rates = Rates(jobs.peak, jobs.column("memory_bandwidth_gbs") * 1e9)
        update = self._kernels.memory_time(updated * _UPDATE_BYTES * self._kernels.optimizer_traffic, rates)
        tied = self._links.tied_all_reduce(embedding / jobs.column("tp") * jobs.column("gradient_bytes"))
        return np.where(self._gathers_parameters, 0.0, exchange) + tied + update + self._values["step_overhead"]
