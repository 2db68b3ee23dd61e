"""Seconds of the collectives of a job, inside nodes and across them: latencies and reached bandwidths.

Ranks of a tensor group are neighbours; those of a data-parallel group lie tp apart; stages lie dp · tp apart. A group
across nodes takes as many ranks of each node as are in it, and the other groups that pass there share the node's
network.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from lightloom.calibration.jobs import Jobs
from lightloom.calibration.priors import node_link
from lightloom.core.arrays import Floats


class Links:
    """Prices of collectives for given parameters; every array is of shape [jobs]."""

    def __init__(self, jobs: Jobs, values: Mapping[str, float]) -> None:
        self._values = values
        self._dp, self._tp, self._pp = (jobs.column(name) for name in ("dp", "tp", "pp"))
        self._node = jobs.column("gpus_per_node")
        self._inside = values["node_fraction"] * node_link(jobs.accelerator)
        self._network = values["network_fraction"] * jobs.column("node_network_gbps") * 1e9 / 8

    def tensor_all_reduce(self, nbytes: Floats) -> Floats:
        """Return the seconds of one all-reduce of so many bytes among the ranks of a tensor group."""
        moved = 2 * (self._tp - 1) / self._tp * nbytes
        inside = self._node_latency(self._tp) + moved / self._inside
        across = self._network_latency(self._tp) + np.maximum(moved / self._network, moved / self._inside)
        return np.where(self._tp == 1, 0.0, np.where(self._tp <= self._node, inside, across))

    def replica_pass(self, nbytes: Floats) -> Floats:
        """Return the seconds of one all-gather or reduce-scatter of so many bytes among data-parallel ranks."""
        moved = nbytes * (self._dp - 1) / self._dp
        inside = self._node_latency(self._dp) + moved / self._inside
        groups = np.minimum(self._tp, self._node)
        across = self._network_latency(self._dp) + np.maximum(moved * groups / self._network, moved / self._inside)
        one_node = self._dp * self._tp <= self._node
        return np.where(self._dp == 1, 0.0, np.where(one_node, inside, across))

    def stage_send(self, nbytes: Floats) -> Floats:
        """Return the seconds of one send between stages: each tensor rank sends its share, and gathers the others'.

        Source: Narayanan et al., SC 2021, section 4.1 (scatter/gather optimization).
        """
        across_nodes = self._dp * self._tp >= self._node
        sent = nbytes / self._tp * np.where(across_nodes, self._node / self._network, 1 / self._inside)
        gathered = (self._tp - 1) / self._tp * nbytes / self._inside
        seconds = (sent + gathered + self._values["network_latency"]) * self._values["send"]
        return np.where(self._pp > 1, seconds, 0.0)

    def tied_all_reduce(self, nbytes: Floats) -> Floats:
        """Return the seconds in which the first and the last stage add up the gradients of tied embeddings."""
        across_nodes = self._dp * self._tp >= self._node
        seconds = nbytes * np.where(across_nodes, self._node / self._network, 1 / self._inside)
        return np.where(self._pp > 1, seconds + self._values["network_latency"], 0.0)

    def _node_latency(self, ranks: Floats) -> Floats:
        return self._values["node_latency"] + self._values["peer_latency"] * ranks

    def _network_latency(self, ranks: Floats) -> Floats:
        return self._values["network_latency"] * np.log2(np.maximum(ranks, 2.0))
