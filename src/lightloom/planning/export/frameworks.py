"""Settings of training frameworks for a split: Megatron's arguments and torchtitan's job configuration."""

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from lightloom.core.errors import UnsupportedError
from lightloom.core.results import attributes
from lightloom.machines.clusters.cluster import TrainingSettings
from lightloom.models.files.torchtitan import divided
from lightloom.models.graph import ComputeGraph
from lightloom.planning.parallelism.operators import logits_of
from lightloom.planning.parallelism.strategy_space import Strategies, Strategy, node_replicas
from lightloom.planning.search.plans import Plan, PlanSearch, sequence_length


class ExportedJob(NamedTuple):
    """A split in the terms of Megatron and torchtitan."""

    origin: str
    """One line that says what is exported: model, cluster, ranks, plan and samples of a step."""
    ranks: int
    strategy: Strategy
    training: TrainingSettings
    algorithms: tuple[str, ...]
    sequence_length: int | None
    """Tokens of a sample; None for models that take none."""
    layers: tuple[int, ...]
    """Blocks (numbered modules) of each chunk of a stage, in the order of the model: chunk i is of stage i mod pp."""
    vocabulary: int | None
    """Rows of the table of tokens; None for models that take none."""
    node_replicas: int
    """Neighbouring replicas of a tensor shard in one node, among which hybrid sharding shards."""

    @property
    def blocks(self) -> int:
        """Number of blocks of the model."""
        return sum(self.layers)


def expressible(search: PlanSearch) -> Plan:
    """Return the first plan of a search's ranking that frameworks have settings for: any but a placed one and one that
    splits neurons.

    Raises:
        UnsupportedError: there is no such plan.
    """
    for plan in search.ranking:
        if isinstance(plan.choice, Strategy) and not plan.splits_neurons:
            return plan
    raise UnsupportedError(
        "only plans were found that place operators or split neurons, which no framework has settings for: expected "
        "--strategy ddp, fsdp or tensor-pipeline too, or another cluster"
    )


def exported(plan: Plan, graph: ComputeGraph) -> ExportedJob:
    """Return the facts that frameworks are told of a plan of a strategy (not of a placed plan: AssertionError):
    ``origin`` (a line that names model, cluster, plan and samples of a step), ``ranks``, ``strategy``, ``training``
    settings, names of ``algorithms``, ``sequence_length`` in tokens and ``vocabulary`` in rows (each None where the
    model has none), ``layers`` (blocks of each chunk of the pipeline, in the order of the model) and ``node_replicas``,
    the neighbouring replicas in one node; ``graph`` is the model's."""
    strategy, cluster = plan.choice, plan.cluster
    assert isinstance(strategy, Strategy)
    model, length, logits = plan.job.model, sequence_length(graph), logits_of(graph.operators)
    where = f"{graph.name} on {cluster.name}, {cluster.ranks} ranks"
    return ExportedJob(
        origin=f"{where}: {plan.label}, {strategy.global_batch} samples",
        ranks=cluster.ranks,
        strategy=strategy,
        training=cluster.training,
        algorithms=plan.algorithms,
        sequence_length=length,
        layers=tuple(model.units(model.chunks(Strategies.of(strategy))).tolist()),
        vocabulary=None if length is None or logits is None else logits.dimensions.get("channel"),
        node_replicas=int(node_replicas(np.array(strategy.replicas), np.array(strategy.tp), cluster.fabric.node_ranks)),
    )


def common_notes(job: ExportedJob) -> list[str]:
    """Return sentences on those parts of the split that no framework's settings state: a smaller last micro-batch, the
    pieces of context groups, an exchange method, algorithms; empty where none applies."""
    strategy, algorithms = job.strategy, ", ".join(job.algorithms)
    notes = {
        f"the last of {strategy.micro_batches} micro-batches has {strategy.last_samples} samples instead of "
        f"{strategy.samples}: frameworks want equal ones": strategy.micro_batch,
        "ranks of a context group are taken to have equal work: each takes one piece from either end of a causal "
        "sequence": strategy.cp > 1,
        "gradients are exchanged by a method of lightloom.exchange: attach its hook yourself": strategy.exchange,
        f"collectives run {algorithms}; which algorithm runs is the communication library's choice": algorithms,
    }
    return [note for note, applies in notes.items() if applies]


# A split as arguments of Megatron-LM's ``pretrain_*.py``, in a shell script to be sourced.
#
# Names are those of ``megatron/training/arguments.py``, Megatron Core 0.14.

_PRECISIONS = {"bf16": ["--bf16"], "fp16": ["--fp16"], "fp8": ["--bf16", "--fp8-format hybrid"]}
_DISTRIBUTED_OPTIMIZER = "--use-distributed-optimizer"
_FULL_RECOMPUTATION = ("--recompute-granularity full", "--recompute-method uniform", "--recompute-num-layers 1")
_FSDP_SHARDING = {"zero-2": "optim_grads", "zero-3": "optim_grads_params", "hybrid": "optim_grads_params"}
_FSDP = (
    "--use-megatron-fsdp",
    "--data-parallel-sharding-strategy {}",
    _DISTRIBUTED_OPTIMIZER,
    "--no-gradient-accumulation-fusion",
    "--ckpt-format fsdp_dtensor",
)


def arguments(job: ExportedJob) -> list[str]:
    """Return Megatron's options for the split as command-line texts, each option with its value as one entry
    (``--global-batch-size 64``). These are tensor and pipeline degree, micro-batch and global batch, and, where they
    apply, sequence length, vocabulary, sequence, context and expert parallelism, layers of stages, recomputation,
    sharding (Megatron-FSDP for ZeRO-2, ZeRO-3 and hybrid), overlap and number format. The data-parallel degree is left
    out: Megatron takes it from the number of ranks."""
    strategy, replicated = job.strategy, job.strategy.replicas > 1
    fully = _FSDP_SHARDING.get(strategy.sharding) if replicated else None
    overlaps = strategy.sharding not in _FSDP_SHARDING and (job.training.overlap_gradients or strategy.plain)
    # Megatron pads the table to a multiple of this number and of the tensor degree: to the rows of the plan's.
    padded = None if job.vocabulary is None else -(-job.vocabulary // strategy.tp)
    chosen: list[tuple[object, Sequence[str]]] = [
        (job.sequence_length is not None, [f"--seq-length {job.sequence_length}"]),
        (padded is not None, [f"--make-vocab-size-divisible-by {padded}"]),
        (strategy.sequence_parallel, ["--sequence-parallel"]),
        (strategy.cp > 1, [f"--context-parallel-size {strategy.cp}", "--cp-comm-type p2p"]),
        (strategy.ep > 1, [f"--expert-model-parallel-size {strategy.ep}"]),
        (True, _stage_arguments(job)),
        (strategy.recomputation == "full", _FULL_RECOMPUTATION),
        (strategy.recomputation == "selective", ["--recompute-granularity selective"]),
        (fully, [option.format(fully) for option in _FSDP]),
        (
            fully and strategy.sharding == "hybrid",
            [f"--num-distributed-optimizer-instances {strategy.replicas // job.node_replicas}"],
        ),
        (strategy.sharding == "zero-1" and replicated, [_DISTRIBUTED_OPTIMIZER]),
        (overlaps and replicated, ["--overlap-grad-reduce"]),
    ]
    return [
        f"--tensor-model-parallel-size {strategy.tp}",
        f"--pipeline-model-parallel-size {strategy.pp}",
        f"--micro-batch-size {strategy.samples}",
        f"--global-batch-size {strategy.global_batch}",
        *(option for applies, options in chosen if applies for option in options),
        *_PRECISIONS.get(job.training.precision, []),
    ]


def _stage_arguments(job: ExportedJob) -> list[str]:
    """Return the options that tell Megatron how many layers each stage or chunk has; none where all stages have equally
    many and are not interleaved, as Megatron cuts by itself. Equal interleaved chunks take
    ``--num-layers-per-virtual-pipeline-stage``, uninterleaved stages of which only the first and the last differ the
    layers of these (``--decoder-first-pipeline-num-layers`` and ``--decoder-last-pipeline-num-layers``, the latter only
    with more than two stages), all others a ``--pipeline-model-parallel-layout``."""
    layers, virtual = job.layers, job.strategy.virtual_stages
    if len(set(layers)) == 1:
        return [f"--num-layers-per-virtual-pipeline-stage {layers[0]}"] if virtual > 1 else []
    if virtual == 1 and len(set(layers[1:-1])) <= 1:
        last = [f"--decoder-last-pipeline-num-layers {layers[-1]}"] if len(layers) > 2 else []
        return [f"--decoder-first-pipeline-num-layers {layers[0]}", *last]
    chunks = [f"t*{count}" if count > 1 else "t" for count in layers]
    return [f"--pipeline-model-parallel-layout 'E{'|'.join(chunks)}L'"]


def megatron_notes(job: ExportedJob) -> list[str]:
    """Return sentences on what Megatron's arguments for this split do not say, or say otherwise: those that hold for
    every framework first (:func:`common_notes`), then expert beside tensor parallelism without sequence parallelism,
    and a number format that Megatron has no option for; empty where none applies."""
    strategy = job.strategy
    found = common_notes(job)
    if strategy.ep > 1 and strategy.tp > 1 and not strategy.sequence_parallel:
        found.append("Megatron wants --sequence-parallel where experts meet tensor parallelism; the plan has none")
    if job.training.precision not in (*_PRECISIONS, "fp32"):
        found.append(f"the plan computes in {job.training.precision}: set it up yourself")
    return found


def to_script(job: ExportedJob) -> str:
    """Return the text of a shell script to be sourced: origin, notes (:func:`megatron_notes`) and usage as comments,
    then Megatron's arguments as the array ``MEGATRON_ARGS``, one a line."""
    comments = [f"# {line}" for line in (f"lightloom: {job.origin}", *megatron_notes(job))]
    usage = f'# source this file, then: torchrun ... pretrain_gpt.py "${{MEGATRON_ARGS[@]}}"   ({job.ranks} ranks)'
    return "\n".join([*comments, usage, "MEGATRON_ARGS=(", *(f"  {each}" for each in arguments(job)), ")", ""])


# A split as torchtitan's job configuration, the TOML file that ``torchtitan.config.JobConfig`` reads.
#
# Sections and keys as in ``torchtitan/config/job_config.py`` of 2025, while torchtitan read TOML; later releases,
# which are configured in Python, have fields of the same names.

Value = str | int | bool | list[list[str]]


def settings(job: ExportedJob) -> dict[str, dict[str, Value]]:
    """Return torchtitan's settings for the split, by section and key; keys of what the split does not use may be left
    out.

    ``training`` has the global batch, the local one (with a pipeline a data-parallel rank's share of the global batch,
    else a micro-batch), the sequence length and the number format: "bfloat16" for bf16, fp16 and fp8, "float32" for
    others. ``parallelism`` has the degrees, resharding after the forward pass ("never" for ZeRO-2, else "always") and,
    with a pipeline, the schedule, samples of a micro-batch and, where the stages are not those that torchtitan cuts,
    the names of the modules of each. ``data_parallel_shard_degree`` is 1 without sharding and for ZeRO-1, for hybrid
    sharding the replicas of a node over the context degree (at least 1), else all data-parallel ranks; the replicate
    degree is the data-parallel ranks over it. ``activation_checkpoint`` has the ``mode``: the strategy's recomputation.
    """
    strategy = job.strategy
    in_node = max(job.node_replicas // strategy.cp, 1)
    sharers = {"none": 1, "zero-1": 1, "hybrid": in_node}.get(strategy.sharding, strategy.dp)
    staged = strategy.pp > 1
    parallelism: dict[str, Value] = {
        "data_parallel_replicate_degree": strategy.dp // sharers,
        "data_parallel_shard_degree": sharers,
        **attributes(strategy, "tensor_parallel_degree=tp pipeline_parallel_degree=pp context_parallel_degree=cp"),
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
    training: dict[str, Value] = {
        # A pipeline divides the local batch itself; without stages, what is left of the global batch is accumulated.
        "local_batch_size": strategy.global_batch // strategy.dp if staged else strategy.samples,
        "global_batch_size": strategy.global_batch,
        "mixed_precision_param": "bfloat16" if job.training.precision in ("bf16", "fp16", "fp8") else "float32",
    }
    if job.sequence_length is not None:
        training["seq_len"] = job.sequence_length
    return {"training": training, "parallelism": parallelism, "activation_checkpoint": {"mode": strategy.recomputation}}


def torchtitan_notes(job: ExportedJob) -> list[str]:
    """Return sentences on what torchtitan's settings for this split do not say, or say otherwise: those that hold for
    every framework first (:func:`common_notes`), then what torchtitan shards, gathers, pads or computes otherwise
    (ZeRO-1, unsharded replicas, ZeRO-2 with accumulation, context and hybrid groups, sequence parallelism, vocabulary,
    number formats); empty where none applies."""
    strategy = job.strategy
    unsharded, accumulates = strategy.sharding in ("none", "zero-1"), strategy.pp == 1 and strategy.micro_batches > 1
    stepwise = strategy.sharding == "zero-2" and job.training.zero_2_exchange == "step"
    rows = job.vocabulary or 0
    padded = -(-rows // strategy.tp)
    notes = {
        "torchtitan does not shard the optimizer's state alone: its replicas keep all of it": (
            strategy.sharding == "zero-1"
        ),
        "replicas with tensor or pipeline parallelism: some releases refuse that without sharding": (
            unsharded and strategy.dp > 1 and strategy.tp * strategy.pp > 1
        ),
        "torchtitan takes the ranks of expert groups from sharded replicas; the plan's are not sharded": (
            unsharded and strategy.ep > 1
        ),
        "without stages torchtitan gathers and reduces for every micro-batch; the plan does once a step": (
            stepwise and accumulates
        ),
        "torchtitan shards over the ranks of a context group; the plan's hold everything": unsharded
        and strategy.cp > 1,
        "torchtitan shards over whole context groups; the plan's nodes have a part of one each": (
            strategy.sharding == "hybrid" and job.node_replicas % strategy.cp
        ),
        "torchtitan's tensor parallelism is sequence-parallel too; the plan's is not": (
            strategy.tp > 1 and not strategy.sequence_parallel
        ),
        f"torchtitan pads no vocabulary: of {rows:,} rows the fullest of {strategy.tp} ranks holds {padded:,}, as "
        "priced": rows % strategy.tp,
        f"the plan computes in {job.training.precision}: set it up yourself": (
            job.training.precision not in ("bf16", "fp32", "tf32")
        ),
    }
    return common_notes(job) + [note for note, applies in notes.items() if applies]


def to_toml(job: ExportedJob) -> str:
    """Return the text of torchtitan's TOML file for the split: origin and notes as comments, then a section each, and a
    newline at the end."""
    lines = [f"# {line}" for line in (f"lightloom: {job.origin}", *torchtitan_notes(job))]
    for section, values in settings(job).items():
        # Basic strings, whole numbers, booleans and lists of them are written alike in TOML and JSON.
        lines += ["", f"[{section}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items())]
    return "\n".join(lines) + "\n"


def _modules(layers: tuple[int, ...]) -> list[list[str]]:
    """Return the names of torchtitan's modules of each chunk, a list each: blocks numbered from 0 on over the whole
    model, the embedding with the first chunk, norm and output with the last. ``layers`` are the blocks of each chunk,
    of at least two chunks."""
    begins = [sum(layers[:chunk]) for chunk in range(len(layers) + 1)]
    parts = [[f"layers.{layer}" for layer in range(*span)] for span in pairwise(begins)]
    return [["tok_embeddings", *parts[0]], *parts[1:-1], [*parts[-1], "norm", "output"]]
