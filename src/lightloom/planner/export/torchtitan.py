"""A split as torchtitan's job configuration, the TOML file that ``torchtitan.config.JobConfig`` reads.

Sections and keys as in ``torchtitan/config/job_config.py`` of 2025, while torchtitan read TOML; later releases, which
are configured in Python, have fields of the same names.
"""

from __future__ import annotations

import json
from itertools import pairwise

from lightloom.planner.export.job import ExportedJob, common_notes

Value = str | int | bool | list[list[str]]
ENDS = (1, 1)
"""Layers that torchtitan counts for the embedding and for the head when it divides layers between stages."""


def settings(job: ExportedJob) -> dict[str, dict[str, Value]]:
    """Section, key, value."""
    strategy = job.strategy
    sharers = {"none": 1, "zero-1": 1, "hybrid": job.node_replicas // strategy.cp}.get(strategy.sharding, strategy.dp)
    sharers = max(sharers, 1)
    staged = strategy.pp > 1
    parallelism: dict[str, Value] = {
        "data_parallel_replicate_degree": strategy.dp // sharers,
        "data_parallel_shard_degree": sharers,
        "tensor_parallel_degree": strategy.tp,
        "pipeline_parallel_degree": strategy.pp,
        "context_parallel_degree": strategy.cp,
    }
    if strategy.ep > 1:
        parallelism["expert_parallel_degree"] = strategy.ep
    if strategy.sharding in ("zero-2", "zero-3", "hybrid"):
        parallelism["fsdp_reshard_after_forward"] = "never" if strategy.sharding == "zero-2" else "always"
    if staged:
        interleaved = strategy.virtual_stages > 1
        parallelism["pipeline_parallel_schedule"] = "Interleaved1F1B" if interleaved else "1F1B"
        parallelism["pipeline_parallel_microbatch_size"] = strategy.samples
        if job.layers != divided(job.blocks, strategy.pp * (2 if interleaved else 1)):
            parallelism["module_fqns_per_model_part"] = _modules(job.layers)
    replica = strategy.global_batch // strategy.dp
    training: dict[str, Value] = {
        # A pipeline divides the local batch itself; without stages, what is left of the global batch is accumulated.
        "local_batch_size": replica if staged else strategy.samples,
        "global_batch_size": strategy.global_batch,
        "mixed_precision_param": "bfloat16" if job.precision in ("bf16", "fp16", "fp8") else "float32",
    }
    if job.sequence_length is not None:
        training["seq_len"] = job.sequence_length
    return {
        "training": training,
        "parallelism": parallelism,
        "activation_checkpoint": {"mode": strategy.recomputation},
    }


def notes(job: ExportedJob) -> list[str]:
    """What these settings do not say, or say otherwise."""
    strategy = job.strategy
    found = common_notes(job)
    if strategy.sharding == "zero-1":
        found.append("torchtitan does not shard the optimizer's state alone: its replicas keep all of it")
    if strategy.sharding in ("none", "zero-1") and strategy.dp > 1 and strategy.tp * strategy.pp > 1:
        found.append("replicas with tensor or pipeline parallelism: some releases refuse that without sharding")
    if strategy.ep > 1 and strategy.sharding in ("none", "zero-1"):
        found.append("torchtitan takes the ranks of expert groups from sharded replicas; the plan's are not sharded")
    accumulates = strategy.pp == 1 and strategy.micro_batches > 1
    if strategy.sharding == "zero-2" and job.zero_2_exchange == "step" and accumulates:
        found.append("without stages torchtitan gathers and reduces for every micro-batch; the plan does once a step")
    if strategy.cp > 1 and strategy.sharding in ("none", "zero-1"):
        found.append("torchtitan shards over the ranks of a context group; the plan's hold everything")
    if strategy.cp > 1 and strategy.sharding == "hybrid" and job.node_replicas % strategy.cp:
        found.append("torchtitan shards over whole context groups; the plan's nodes have a part of one each")
    if strategy.tp > 1 and not strategy.sequence_parallel:
        found.append("torchtitan's tensor parallelism is sequence-parallel too; the plan's is not")
    if job.vocabulary is not None and job.vocabulary % strategy.tp:
        found.append(
            f"torchtitan pads no vocabulary: of {job.vocabulary:,} rows the fullest of {strategy.tp} ranks holds "
            f"{-(-job.vocabulary // strategy.tp):,}, as priced"
        )
    if job.precision not in ("bf16", "fp32", "tf32"):
        found.append(f"the plan computes in {job.precision}: set it up yourself")
    return found


def to_toml(job: ExportedJob) -> str:
    """The file."""
    lines = [f"# {line}" for line in (f"lightloom: {job.origin}", *notes(job))]
    for section, values in settings(job).items():
        # Basic strings, whole numbers, booleans and lists of them are written alike in TOML and JSON.
        lines += ["", f"[{section}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items())]
    return "\n".join(lines) + "\n"


def divided(layers: int, chunks: int, ends: tuple[int, int] = ENDS) -> tuple[int, ...]:
    """Return the layers of each chunk as torchtitan divides them: the first chunks have what is left over.

    Args:
        layers: of the model.
        chunks: of all stages together.
        ends: layers that the embedding and the head count as.
    """
    share, more = divmod(layers + sum(ends), chunks)
    found = [share + (chunk < more) for chunk in range(chunks)]
    found[0] -= ends[0]
    found[-1] -= ends[1]
    return tuple(found)


def _modules(layers: tuple[int, ...]) -> list[list[str]]:
    """Return the names of the modules of each chunk."""
    begins = [sum(layers[:chunk]) for chunk in range(len(layers) + 1)]
    parts = [[f"layers.{layer}" for layer in range(*span)] for span in pairwise(begins)]
    return [["tok_embeddings", *parts[0]], *parts[1:-1], [*parts[-1], "norm", "output"]]
