"""SiP-ML (Khani et al., SIGCOMM 2021): degrees, placement, circuits, and training time against electrical fabrics."""

from typing import Literal, NamedTuple

from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.load import load_fabric
from lightloom.machines.fabrics.switches import CircuitSwitch, PacketSwitch
from lightloom.papers.study import Paper
from lightloom.planning.parallelism.placement.placement import Link, Reach

PAPER = Paper.load(__name__)
"""Published values of the paper, and the texts of its study."""

# Figures of the paper's section 3 and of its authors' published simulator.
#
# Of the paper we have section 3.1 to 3.3; its evaluation was not seen. Facts of the simulator (Rostam, 2021, no
# licence) are numbers and rules, no code.

HOLD_10 = 10.0
"""Hold over reconfiguration that section 3.1 calls a duty cycle of 90 %."""
RANKS = 1024
BANDWIDTHS = (128, 256, 512, 1024, 2048, 4096, 8192)
"""Gb/s a GPU, electrical, in the simulator's scripts."""
TODAY = (200.0, 400.0)
"""Gb/s a GPU of today's electrical fabrics in the scripts."""
SCALING = (64, 128, 256, 512, 1024)
"""Numbers of GPUs that are compared at the fastest bandwidth; the scripts have 1,024 only."""
WAVELENGTH = 25.0
"""Bandwidth of a wavelength, in Gb/s."""
RING_DEGREE = 16
"""Degree Δ of the ring in the scripts."""
OCS_DEGREE = 20
"""Number of planes Q in the scripts."""
HEADLINE = (1.3, 9.1)
"""Better training time than state-of-the-art electrical clusters, least and most (abstract)."""


class Job(NamedTuple):
    """A training job of the scripts."""

    model: str
    """Name of the model in our zoo."""
    data: int
    """Number of groups (data parallelism)."""
    group: int
    """Number of devices per group (model parallelism)."""
    global_batch: int
    weights: float
    """Bytes that the scripts charge for the exchange between groups."""
    iterations: int


JOBS = {
    "resnet50": Job("resnet50", 128, 8, 8192, 250e6, 8192),
    "transformer_big": Job("transformer-big", 128, 8, 1024, 700e6, 16_384),
    "gpt2_355m": Job("gpt2-355m", 128, 8, 1024, 6.8e9, 2_403_000),
}
"""Jobs by the name in row ids."""
NAMES = {"resnet50": "ResNet-50", "transformer_big": "Transformer-big", "gpt2_355m": "GPT-2 355M"}
"""Display names of the models."""

# The networks that are compared, each by the bandwidth of a GPU.
#
# electrical   one non-blocking packet switch with ports of B; the ideal one has SiP-ML's B, today's 400 or 200 Gb/s
# ocs          SiP-OCS: Q = 20 circuits of B / 20 to any ranks, set once
# ring         SiP-Ring: B / 2 each way in wavelengths of 25 Gb/s, reused where circuits do not overlap

System = Literal["electrical", "ocs", "ring"]
SYSTEMS: tuple[System, ...] = ("electrical", "ocs", "ring")
GIGABIT = 1e9 / 8
"""Bytes of a gigabit, which turns Gb/s into bytes per second."""


def fabric(system: System, ranks: int, gbps: float) -> Fabric:
    """Return a system's fabric with so many ranks, each of ``gbps`` Gb/s in each direction over all its links; packets
    and light have no latency, as in the authors' simulator.

    Args:
        system: ``electrical`` (one packet switch), ``ocs`` (20 circuits of ``gbps`` / 20) or ``ring`` (``gbps`` / 2
            each way round, rounded down to whole wavelengths of 25 Gb/s, at least one).
        ranks: number of ranks.
        gbps: Gb/s of a rank.
    """
    if system == "electrical":
        return PacketSwitch(ranks=ranks, bandwidth=gbps * GIGABIT)
    if system == "ocs":
        return CircuitSwitch(ranks=ranks, degree=OCS_DEGREE, bandwidth=gbps * GIGABIT / OCS_DEGREE)
    return load_fabric("sip-ring", ranks, set={"wavelengths": wavelengths(gbps), "hop_latency": 0.0})


def wavelengths(gbps: float) -> int:
    """Return the number of 25 Gb/s wavelengths in each direction of the ring that half of a GPU's bandwidth (Gb/s)
    holds, rounded down; at least 1."""
    return max(1, int(gbps // (2 * WAVELENGTH)))


def reach(system: System, k: int, groups: int) -> Reach:
    """Return the reach of a device in its group of k: at most k − 1 peers (at least 1), and no more than the system's
    degree, 20 for ``ocs``, 16 for ``ring``, which ``electrical`` lacks; one of OCS's 20 planes is data parallelism's
    where there are several groups."""
    degrees = {"electrical": k, "ocs": OCS_DEGREE - (groups > 1), "ring": RING_DEGREE}
    return Reach(min(degrees[system], max(k - 1, 1)))


def link(system: System, k: int, groups: int, gbps: float) -> Link:
    """Return the link that prices a transfer in a group of k devices, with bytes per second: the whole port of ``gbps``
    Gb/s of an electrical network, else the port's bandwidth divided by the most peers that a device may have by
    :func:`reach`; on OCS these are at most 19 instead of 20 where there are several ``groups``."""
    return Link(bandwidth=gbps * GIGABIT / (1 if system == "electrical" else reach(system, k, groups).degree))
