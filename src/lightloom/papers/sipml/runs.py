"""Measurements of the comparison: every model on every network, split over k devices per group in several ways.

Too long for every run of the study (minutes), so that its results come with the package; the command repeats it:

    lightloom reproduce sipml --work DIR
"""

import json
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from itertools import product
from pathlib import Path
from typing import Any

from lightloom.core.errors import UnsupportedError
from lightloom.core.files import write_atomically
from lightloom.core.results import Advance, ignore
from lightloom.machines.accelerators.accelerator import ELEMENT_BYTES
from lightloom.models.zoo import load_workload
from lightloom.papers.sipml import BANDWIDTHS, JOBS, RANKS, SCALING, SYSTEMS, TODAY, System, fabric
from lightloom.papers.sipml.comparison import (
    MOST_DEVICES,
    NAME,
    PARTS,
    PRECISIONS,
    QUANTA,
    Comparison,
    Network,
    Part,
    inputs_hash,
    partitions_of,
    ports,
    rival_key,
    rivals,
    simulate_split,
)
from lightloom.papers.study import Experiment, origin, rounded
from lightloom.planning.parallelism.placement.place import Partitions
from lightloom.planning.simulation.placed_step import PlacedStep


def settings() -> list[Network]:
    """Return all networks, with models (every job), on which placed plans are measured: every bandwidth and accelerator
    at 1,024 ranks, and fewer ranks of A100s at the fastest bandwidth and, electrical, at today's."""
    whole = product(JOBS, PRECISIONS, networks())
    fewer = product(JOBS, SCALING[:-1], [each for each in networks() if each[1] in (*TODAY, BANDWIDTHS[-1])])
    return [
        *(Network(system, RANKS, gbps, chip, model) for model, chip, (system, gbps) in whole),
        *(Network(system, ranks, gbps, model=model) for model, ranks, (system, gbps) in fewer),
    ]


def networks() -> list[tuple[System, float]]:
    """Return (system, Gb/s a GPU) of all networks of the comparison; the planner's own strategies are searched on each,
    at 1,024 ranks."""
    return [(system, gbps) for system in SYSTEMS for gbps in ports(system)]


def measure(work: Path, _data: Path, advance: Advance = ignore) -> Path:
    """Run the measurements of the comparison that have no result in ``comparison.json`` in ``work``, write this file
    after each, and return ``work``. They are placed plans on all of :func:`settings`, then the planner's searches on
    all of :func:`networks`.

    Results that were made from other inputs count as missing. No data sets are needed; ``advance`` is called with 1 for
    each measurement, done or kept.

    Raises:
        ConfigError: results in ``work`` cannot be read or written.
        WorkloadError: PyTorch, which counts the models the first time, is missing.
    """
    path = work / f"{NAME}.json"
    hashes = {part: inputs_hash(part) for part in PARTS}
    done = _resumed(Comparison.load(work), hashes) if path.is_file() else {}

    def keep(key: str, results: Callable[[], Any]) -> None:
        """Run and store a measurement unless its key has results."""
        if key not in done:
            done[key] = results()
            document = {"results": done, "inputs": hashes, "provenance": origin({"study": "sipml"})}
            write_atomically(path, _document_text(document))
        advance(1)

    for setting in settings():
        keep(setting.key, partial(plans, setting))
    for system, gbps in networks():
        keep(rival_key(system, gbps), partial(rivals, fabric(system, RANKS, gbps)))
    return work


def _resumed(stored: Comparison, hashes: Mapping[Part, str]) -> dict[str, Any]:
    """Return those of the stored results, by key, whose part (``placed`` or ``rivals``) was made from inputs with the
    hash in ``hashes``, that of today's."""
    rival_keys = {rival_key(system, gbps) for system, gbps in networks()}
    part_of: dict[str, Part] = {key: "rivals" if key in rival_keys else "placed" for key in stored.results}
    return {key: row for key, row in stored.results.items() if stored.inputs.get(part_of[key]) == hashes[part_of[key]]}


def plans(setting: Network) -> dict[str, Any]:
    """Return the outcome of placed plans on one network, a document by k, devices a group (powers of two up to 128,
    written as text): of the step with the fastest quantum, as :func:`_split_outcome` returns it, or ``refused`` with
    the last quantum's reason if no quantum can be placed; k = 1 is tried with the first quantum alone. A k with more
    devices than ranks, or more groups than samples, is left out."""
    by_k: dict[str, Any] = {}
    splits = (1 << power for power in range(MOST_DEVICES.bit_length()))
    for k in (k for k in splits if k <= setting.ranks <= JOBS[setting.model].global_batch * k):
        steps, refused = [], ""
        for quantum in QUANTA if k > 1 else QUANTA[:1]:
            try:
                steps.append((quantum, simulated(setting, k, quantum)))
            except UnsupportedError as error:
                refused = str(error)
        best = min(steps, key=lambda each: each[1].step_time, default=None)
        by_k[str(k)] = {"refused": refused} if best is None else _split_outcome(*best)
    return by_k


def simulated(setting: Network, k: int, quantum: float) -> PlacedStep:
    """Simulate one step of the network's model, split into groups of k devices with the quantum τ (seconds), over the
    circuits that make it fastest: one hold or a cycle of holds.

    Raises:
        UnsupportedError: it does not fit the memory, or no circuits reach.
    """
    samples = JOBS[setting.model].global_batch // (setting.ranks // k)
    return simulate_split(setting, k, quantum, partial(_partitions, setting.model, setting.accelerator, samples))


@lru_cache(16)
def _partitions(model: str, accelerator: str, samples: int, clique: int) -> Partitions:
    """Return the partitions of a job's model with so many samples (the batch of a group) in the accelerator's training
    format, bf16 or fp32; an operator whose parts would each read all of its input is cut into at most ``clique``
    parts."""
    graph = load_workload(JOBS[model].model, batch=samples)
    return partitions_of(graph.with_element_bytes(ELEMENT_BYTES[PRECISIONS[accelerator]]), accelerator, clique)


def _split_outcome(quantum: float, step: PlacedStep) -> dict[str, Any]:
    """Return what is stored of a step: the quantum and the seconds of the step and of the placement (``quantum_s``,
    ``step_s``, ``makespan_s``), relayed bytes over sent ones (``relayed``), and the number of holds of circuits
    (``holds``, 0 where none are assigned); floats have six digits."""
    granted = step.circuits.assignment
    return {
        "quantum_s": quantum,
        "step_s": rounded(step.step_time),
        "makespan_s": rounded(step.plan.placement.makespan),
        "relayed": rounded(step.relayed_bytes / max(step.sent_bytes, 1.0)),
        "holds": granted.circuits.holds if granted is not None else 0,
    }


def _document_text(document: dict[str, Any]) -> str:
    """Return the document as JSON text, one line for each of its ``results``, then its ``inputs`` (hashes) and
    ``provenance``."""
    rows = ",\n".join(f"{json.dumps(key)}: {json.dumps(row)}" for key, row in document["results"].items())
    others = ",\n".join(f'"{name}": {json.dumps(document[name])}' for name in ("inputs", "provenance"))
    return f'{{"results": {{\n{rows}\n}},\n{others}}}\n'


EXPERIMENTS = {"comparison": Experiment(lambda: len(settings()) + len(networks()), measure, data=False)}
"""The long measurements, by name."""
