"""Training time on SiP-OCS and SiP-Ring against electrical switches, by bandwidth and size.

    best split       of k = 1, 2, 4, ... devices a group, and of the quanta
    data parallel    k = 1: the whole model on every GPU, plain ring all-reduce
    scripts' model   computing + 2 · weights · 8 / B, with the weights of the authors' scripts

All at the authors' global batch, so that the ratio of steps is the ratio of training times.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import product
from math import nan
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, get_args

import numpy as np
from pydantic import BaseModel

from lightloom.core.claims import Claim
from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.core.results import content_hash
from lightloom.machines.accelerators.accelerator import Precision
from lightloom.machines.accelerators.load import load_accelerator
from lightloom.machines.clusters.cluster import Cluster, TrainingSettings
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.models.graph import ComputeGraph, Operator
from lightloom.models.zoo import ZOO, load_workload
from lightloom.papers.sipml import BANDWIDTHS, JOBS, PAPER, RANKS, SCALING, SYSTEMS, TODAY, System, fabric, link, reach
from lightloom.papers.study import rounded
from lightloom.planning.parallelism.operators import graph_times
from lightloom.planning.parallelism.placement.cuts import PartitionRules
from lightloom.planning.parallelism.placement.place import Partitions, place
from lightloom.planning.parallelism.placement.placement import HybridPlan
from lightloom.planning.pricing.group_prices import GroupPrices
from lightloom.planning.search.request import DATA_PARALLEL, STRATEGIES, SearchRequest
from lightloom.planning.search.search import search
from lightloom.planning.simulation.placed_step import PlacedStep, simulate_best

# The exchange between groups: 2 · weights · 8 / B in the authors' scripts, and the bytes of our models.

GRADIENT_BYTES = 4
"""Bytes of one gradient in float32."""


def ring_time(nbytes: float, gbps: float) -> float:
    """Return the seconds of a ring all-reduce of ``nbytes`` bytes a rank over links of ``gbps`` Gb/s, among so many
    ranks that each sends twice its bytes: 16 · ``nbytes`` / (1e9 · ``gbps``)."""
    return 2 * nbytes * 8 / (gbps * 1e9)


def gradient_bytes(key: str) -> float:
    """Return the bytes of the gradients of a job's model in float32, by the job's name: ``resnet50``,
    ``transformer_big`` or ``gpt2_355m``."""
    return float(ZOO[JOBS[key].model].parameters * GRADIENT_BYTES)


def weight_claims() -> Iterator[Claim]:
    """Yield a row for each job with the MB of its model's gradients in float32; the explanation sets the weights
    (bytes) beside it that the authors' scripts exchange."""
    for key, job in JOBS.items():
        parameters = ZOO[job.model].parameters
        values = {"model": key, "millions": parameters / 1e6, "nbytes": job.weights / parameters}
        yield PAPER.claim("example.weights_{model}", round(gradient_bytes(key) / 1e6, 1), job=job, **values)


NAME = "comparison"
"""Name of the file of measurements, without suffix."""


class Choice(NamedTuple):
    """A split and the duration of its step."""

    k: int
    seconds: float


class Network(NamedTuple):
    """A network, its size, and the accelerator of its ranks."""

    system: System
    ranks: int
    gbps: float
    accelerator: str = "a100"
    model: str = ""
    """Model that is trained there; empty where it is the small one."""

    @property
    def key(self) -> str:
        """Key under which results of placed plans are stored: model, accelerator, system, ranks and Gb/s, with spaces
        between: ``resnet50 a100 ocs 1024 512``."""
        return f"{self.model} {self.accelerator} {self.system} {self.ranks} {self.gbps:g}"


def rival_key(system: System, gbps: float) -> str:
    """Return the key under which results of the planner's search on a network are stored, for all models: "rivals ocs
    512" for OCS at 512 Gb/s."""
    return f"rivals {system} {gbps:g}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Stored measurements of all networks, by key."""

    results: Mapping[str, Any]
    inputs: Mapping[str, str] = field(default_factory=dict)
    """Hash of what each part was made from; none in files from before hashes were stored."""

    @classmethod
    def load(cls, folder: Path | None = None) -> Self:
        """Load the measurements in ``comparison.json`` of a folder if it has this file, else those of the package.

        Raises:
            ConfigError: the file cannot be read, or has no results.
        """
        document = PAPER.measured(NAME, folder)
        if "results" not in document:
            raise ConfigError(f"cannot read '{folder}/{NAME}.json': expected 'results'")
        return cls(document["results"], document.get("inputs", {}))

    def rows(
        self, model: str, system: System, gbps: float, ranks: int = RANKS, accelerator: str = "a100"
    ) -> dict[int, dict[str, Any]]:
        """Return the stored rows of one network and model (a job's name), with ``gbps`` Gb/s a GPU, by k, devices per
        group, without refused splits; each row has ``quantum_s``, ``step_s`` and ``makespan_s`` in seconds, ``relayed``
        (relayed over sent bytes) and ``holds`` of circuits.

        Raises:
            KeyError: the network was not measured.
        """
        by_k = self.results[Network(system, ranks, gbps, accelerator, model).key]
        return {int(k): row for k, row in by_k.items() if "step_s" in row}

    def best(
        self, model: str, system: System, gbps: float, ranks: int = RANKS, accelerator: str = "a100"
    ) -> Choice | None:
        """Return the split (k, devices per group) with the fastest step of a model (a job's name) on one network of
        ``gbps`` Gb/s a GPU, and the seconds of that step; None if every split was refused, as it does not fit the
        memory or no circuits serve it. KeyError where the network was not measured."""
        choices = [Choice(k, row["step_s"]) for k, row in self.rows(model, system, gbps, ranks, accelerator).items()]
        return min(choices, key=lambda each: each.seconds, default=None)

    def seconds(self, model: str, system: System, gbps: float, k: int) -> float:
        """Return the seconds of a step of a model (a job's name) split over k devices a group, on 1,024 A100s with
        ``gbps`` Gb/s each; NaN if this k was refused or not tried there. KeyError where the network was not
        measured."""
        row = self.rows(model, system, gbps).get(k)
        return nan if row is None else float(row["step_s"])

    def rival(self, model: str, system: System, gbps: float, which: str = "search") -> dict[str, Any]:
        """Return the stored row of a search on 1,024 GPUs, with ``step_s`` (seconds) and ``strategy`` (its choices by
        name, such as ``dp``, ``tp`` and ``pp``), or ``refused`` (the reason) where there is no plan.

        Args:
            model: name of the job.
            system: of the network.
            gbps: Gb/s of a GPU.
            which: ``search`` for the winner of all strategies; ``ddp`` or ``fsdp`` for that of plain or sharded data
                parallelism alone.

        Raises:
            KeyError: the network was not measured.
        """
        row: dict[str, Any] = self.results[rival_key(system, gbps)][model][which]
        return row

    def speedup(self, model: str, system: System, gbps: float, today: float, accelerator: str = "a100") -> float:
        """Return how many times as fast a system of ``gbps`` Gb/s a GPU trains a model (a job's name) as an electrical
        switch of the lesser of ``today`` and ``gbps``, each with its best placed split on 1,024 GPUs; NaN where either
        has none that fits, KeyError where a network was not measured."""
        optical = self.best(model, system, gbps, accelerator=accelerator)
        electrical = self.best(model, "electrical", min(gbps, today), accelerator=accelerator)
        return electrical.seconds / optical.seconds if optical and electrical else nan

    def script_speedup(self, model: str, gbps: float, today: float, weights: float | None = None) -> float:
        """Return the speed-up of B over an electrical switch of the lesser of ``today`` and B by the authors' script
        model, data parallelism: the step takes computing + 2 · weights · 8 / B, with B in bit/s.

        Args:
            model: name of the job, whose computing on our A100 is taken, k = 1.
            gbps: B, Gb/s of a GPU.
            today: Gb/s of a GPU on the electrical switch.
            weights: bytes that are exchanged; those of the scripts unless given.

        Raises:
            KeyError: k = 1 was refused or not measured on an electrical switch of ``gbps``, whose makespan is the
                computing.
        """
        computing = self.rows(model, "electrical", gbps)[1]["makespan_s"]
        nbytes = JOBS[model].weights if weights is None else weights
        slow, fast = (computing + ring_time(nbytes, each) for each in (min(gbps, today), gbps))
        return float(slow / fast)


# Practitioners' splits on the same networks: the winner of the search, and data parallelism.

ALGORITHMS = ("ring-two-way-striped", "recursive-doubling-striped")
"""Verified schedules of the exchanges; striped, so that they use all circuits or wavelengths."""
_SETTINGS = TrainingSettings(batch_per_rank=1)


def rivals(fabric: Fabric) -> dict[str, dict[str, Any]]:
    """Return, by job (``resnet50``, ``transformer_big``, ``gpt2_355m``) and then by ``search``, ``ddp`` and ``fsdp``,
    the fastest of all strategies and of plain and sharded data parallelism on a fabric of A100s: ``step_s`` in seconds
    and ``strategy`` (its choices by name), or ``refused`` with the reason."""
    prices = GroupPrices(fabric, _SETTINGS, choices=ALGORITHMS)
    return {
        key: search_outcome(load_workload(job.model, batch=1), job.global_batch, fabric, prices)
        for key, job in JOBS.items()
    }


def search_outcome(
    graph: ComputeGraph, global_batch: int, fabric: Fabric, prices: GroupPrices | None = None
) -> dict[str, Any]:
    """Return rows of one model by ``search``, ``ddp`` and ``fsdp``, the fastest of all strategies and of plain and
    sharded data parallelism: ``step_s`` in seconds and ``strategy`` (its choices by name), or ``refused`` with the
    reason. The rank count is the fabric's.

    Args:
        graph: the model, at any batch.
        global_batch: samples of a step.
        fabric: of A100s.
        prices: of the fabric's collectives, to share where several models are searched there; None makes new ones.
    """
    chip = load_accelerator("a100").flat()
    on = Cluster(name="sipml", ranks=fabric.ranks, accelerator=chip, fabric=fabric, training=_SETTINGS)
    try:
        request = SearchRequest(
            global_batches=[global_batch], algorithms=ALGORITHMS, strategies=STRATEGIES, compare=False
        )
        outcome = search(graph, on, request, prices=prices)
    except UnsupportedError as error:
        return {name: {"refused": str(error)} for name in ("search", *DATA_PARALLEL)}
    winners = {"search": outcome.winner} | {name: outcome.best_of(name) for name in DATA_PARALLEL}
    return {
        name: {"refused": "it does not fit, or no algorithm serves it"}
        if plan is None
        else {"step_s": rounded(plan.step_time), "strategy": plan.choice._asdict()}
        for name, plan in winners.items()
    }


# One split of a model on one of the networks: partitioned, placed, granted circuits and simulated.

PRECISIONS: dict[str, Precision] = {"a100": "bf16", "titan-xp": "fp32"}
"""Number format of training, by accelerator."""


def partitions_of(graph: ComputeGraph, accelerator: str, clique: int) -> Partitions:
    """Return the partitions of a graph, whose batch is a group's share, on an accelerator by name (``a100`` in bf16,
    ``titan-xp`` in fp32), made when they are called with k and a quantum; an operator whose parts would each read all
    of its input is cut into at most ``clique`` parts."""
    times = np.stack(graph_times(graph, load_accelerator(accelerator).flat(), PRECISIONS[accelerator]), axis=1)
    return Partitions(graph, times, PartitionRules(most_exchanging=clique))


def simulate_split(on: Network, k: int, quantum: float, partitions: Callable[[int], Partitions]) -> PlacedStep:
    """Simulate one step of a model in groups of k devices over the circuits that make it fastest, one hold or a cycle
    of holds, and return it. There are ranks / k groups (rounded down), among which data are parallel.

    Args:
        on: the network; its model is not read.
        k: devices of a group.
        quantum: τ of the partition, in seconds.
        partitions: function that gives the partitions of the graph, with a group's share of the batch, for the most
            parts of an operator whose parts each read all of its input (as :func:`partitions_of` does).

    Raises:
        UnsupportedError: it does not fit the memory, or no circuits reach.
    """
    groups = on.ranks // k
    within, chip = reach(on.system, k, groups), load_accelerator(on.accelerator)
    balanced = partitions(within.clique(k))(k, quantum)
    placement = place(balanced, k, within, chip.memory, link(on.system, k, groups, on.gbps))
    plan = HybridPlan(placement, balanced, k, groups)
    training = TrainingSettings(precision=PRECISIONS[on.accelerator])
    return simulate_best(plan, fabric(on.system, on.ranks, on.gbps), chip.flat(), training)


# Steps of a small network on the networks of the comparison, as the present code gives them.
#
# Jobs, networks and constants do not tell whether the code that partitions, places, grants circuits, prices exchanges
# and simulates has changed since results were stored. The hash of a part's inputs therefore includes what that code
# makes of a network small enough to be run each time: a change that moves any of these figures makes the stored
# results stale. Refactoring moves none.

_QUANTA = (1e-6, 10e-6)
_SPLITS = ((4, 2), (8, 4), (32, 8), (64, 64), (128, 128))
"""Ranks and k: groups that exchange and one group alone, devices that all reach one another and those that do not."""
_GBPS = (512.0, 8192.0)
_HIDDEN, _SEQUENCE, _BLOCKS, _VOCABULARY = 512, 512, 4, 8192


@cache
def placed_outcomes() -> list[list[float]]:
    """Simulate the small network (8 samples) in each small split (ranks, k) on each system, split by split, and return
    four numbers for each, rounded as results are stored: seconds of the step and of the placement's makespan, bytes
    sent and bytes relayed."""
    outcomes: list[list[float]] = []
    partitions = partial(partitions_of, _small_graph(8), "a100")
    for (ranks, k), system in product(_SPLITS, SYSTEMS):
        gbps = _GBPS[len(outcomes) % 2]
        quantum = _QUANTA[len(outcomes) // 2 % 2]
        step = simulate_split(Network(system, ranks, gbps), k, quantum, partitions)
        figures = step.step_time, step.plan.placement.makespan, step.sent_bytes, step.relayed_bytes
        outcomes.append([rounded(float(figure)) for figure in figures])
    return outcomes


def _small_graph(samples: int) -> ComputeGraph:
    """Return the graph of a small network with a batch of ``samples``: an embedding, four residual blocks (up and an
    activation of four times the hidden channels, down, then an addition of the input), and a head of 16 times. Sizes
    are such that wide operators are cut into parts and narrow ones are not."""
    operators = [_small_operator("tokens", "embedding", (), samples, 1, _VOCABULARY * _HIDDEN, 0)]
    last = "tokens"
    for block in range(_BLOCKS):
        up, gate, down, add = (f"{block}.{name}" for name in ("up", "gate", "down", "add"))
        operators += [
            _small_operator(up, "linear", (last,), samples, 4, 4 * _HIDDEN**2, 8 * _HIDDEN**2),
            _small_operator(gate, "activation", (up,), samples, 4, 0, 4 * _HIDDEN),
            _small_operator(down, "linear", (gate,), samples, 1, 4 * _HIDDEN**2, 8 * _HIDDEN**2),
            _small_operator(add, "add", (last, down), samples, 1, 0, _HIDDEN),
        ]
        last = add
    operators.append(_small_operator("head", "linear", (last,), samples, 16, 16 * _HIDDEN**2, 32 * _HIDDEN**2))
    return ComputeGraph(name="witness", batch=samples, operators=tuple(operators), element_bytes=2)


def _small_operator(
    name: str, kind: str, inputs: tuple[str, ...], samples: int, width: int, parameters: int, flops: int
) -> Operator:
    """Return an operator of the small graph, all numbers of two bytes.

    Args:
        name: of the operator; what stands before a dot is its block.
        kind: of the operator.
        inputs: names of the operators that it reads.
        samples: of the batch, each of a fixed number of tokens.
        width: output channels, in multiples of the hidden ones (:data:`_HIDDEN`).
        parameters: number of weights.
        flops: forward ones for each token; backward there are twice as many.
    """
    tokens, channels = samples * _SEQUENCE, width * _HIDDEN
    sizes = {"in_channel": parameters // channels} if kind == "linear" else {}
    return Operator(
        name=name,
        kind=kind,
        inputs=inputs,
        dimensions={"sample": samples, "sequence": _SEQUENCE, "channel": channels} | sizes,
        forward_flops=tokens * flops,
        backward_flops=2 * tokens * flops,
        parameters=parameters,
        parameter_bytes=2 * parameters,
        activation_bytes=2 * tokens * channels,
        forward_bytes=2 * parameters + 4 * tokens * channels,
        shared_bytes=2 * parameters,
        block=name.split(".")[0] if "." in name else "",
    )


# Inputs of the comparison, and whether stored results were made from the same.

Part = Literal["placed", "rivals"]
"""Steps of placed plans, and of the planner's other splits on the same networks."""
PARTS: tuple[Part, ...] = get_args(Part)
VERSIONS: Mapping[Part, int] = {"placed": 2, "rivals": 2}
"""Version of the code that makes each part, raised when it gives other results. Of placed steps: in 1, parcels that
meet at a receiver of a packet switch had the whole of its port each; in 2, they take turns. Of rivals: in 1, every
group had all circuits; in 2, the groups of a step divide them, and exchanges that share packet links take turns."""
QUANTA = (1e-6, 10e-6)
"""Quanta τ in seconds: the authors' value, and one ten times as long."""
MOST_DEVICES = 128
"""Largest k that is tried: beyond it no samples of a group are left to split, and edges grow with k squared."""


def ports(system: System) -> tuple[float, ...]:
    """Return the bandwidths of a GPU that are measured on a system, in Gb/s: 128 to 8,192 in powers of two, before
    which electrical ones have today's, 200 and 400."""
    return (*TODAY, *BANDWIDTHS) if system == "electrical" else BANDWIDTHS


@cache
def inputs_hash(part: Part) -> str:
    """Return a hash of all that decides the stored results of a part, ``placed`` splits or ``rivals`` (searches): jobs,
    models, accelerators, networks, training, the code's constants and version, and what the code makes of a small
    network, which it computes."""
    own = [QUANTA, MOST_DEVICES, SCALING] if part == "placed" else [ALGORITHMS]
    models = {job.model: ZOO[job.model] for job in JOBS.values()}
    # The module of a model's class may move.
    fields = {
        name: [zoo.parameters, zoo.path.rpartition(":")[2], zoo.arguments, zoo.example] for name, zoo in models.items()
    }
    if part == "placed":
        witness: list[Any] = placed_outcomes()
    else:
        witness = [search_outcome(_small_graph(1), 32, fabric(system, 8, _GBPS[0])) for system in SYSTEMS]
    return content_hash(
        {
            "code": [VERSIONS[part], own],
            "jobs": JOBS,
            "models": fields,
            "accelerators": [_stated_fields(load_accelerator(name).flat()) for name in PRECISIONS],
            "precisions": PRECISIONS,
            "networks": [_stated_fields(fabric(system, RANKS, gbps)) for system in SYSTEMS for gbps in ports(system)],
            "training": TrainingSettings().model_dump(mode="json"),
            "witness": witness,
        }
    )


def _stated_fields(part: BaseModel) -> object:
    """Return the fields of a configuration that are not at their defaults, as JSON values, without sources and
    description, so that a new field alone changes no hash; the small network tells where a default has changed."""
    return part.model_dump(mode="json", exclude={"sources", "description"}, exclude_defaults=True)


def stale(stored: Mapping[str, str], parts: tuple[Part, ...] = PARTS) -> str:
    """Return a sentence that names the parts whose stored hash is missing or not that of their inputs now; empty where
    there is none. It begins with "STALE:" and says which command makes them anew.

    Args:
        stored: hash of the inputs of each part, as stored with its results.
        parts: parts that are looked at, all unless given.
    """
    if not (old := [part for part in parts if stored.get(part) != inputs_hash(part)]):
        return ""
    return (
        f"STALE: the stored results of {' and '.join(old)} were made from other inputs or by an earlier version of the "
        "code; `lightloom reproduce sipml --work DIR` makes them anew"
    )
