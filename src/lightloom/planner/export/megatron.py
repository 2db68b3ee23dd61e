"""A split as arguments of Megatron-LM's ``pretrain_*.py``, in a shell script to be sourced.

Names are those of ``megatron/training/arguments.py``, Megatron Core 0.14.
"""

from __future__ import annotations

from lightloom.planner.export.job import ExportedJob, common_notes

_PRECISIONS = {"bf16": ["--bf16"], "fp16": ["--fp16"], "fp8": ["--bf16", "--fp8-format hybrid"]}
_DISTRIBUTED_OPTIMIZER = "--use-distributed-optimizer"
_FSDP_SHARDING = {"zero-2": "optim_grads", "zero-3": "optim_grads_params", "hybrid": "optim_grads_params"}
_FSDP = (
    "--use-megatron-fsdp",
    "--data-parallel-sharding-strategy {}",
    _DISTRIBUTED_OPTIMIZER,
    "--no-gradient-accumulation-fusion",
    "--ckpt-format fsdp_dtensor",
)


def arguments(job: ExportedJob) -> list[str]:
    """One option an entry, with its value; Megatron takes the data-parallel degree from the number of ranks."""
    strategy = job.strategy
    found = [
        f"--tensor-model-parallel-size {strategy.tp}",
        f"--pipeline-model-parallel-size {strategy.pp}",
        f"--micro-batch-size {strategy.samples}",
        f"--global-batch-size {strategy.global_batch}",
    ]
    if job.sequence_length is not None:
        found.append(f"--seq-length {job.sequence_length}")
    if job.vocabulary is not None:
        # Megatron pads the table to a multiple of this number and of the tensor degree: to the rows of the plan's.
        found.append(f"--make-vocab-size-divisible-by {-(-job.vocabulary // strategy.tp)}")
    if strategy.sequence_parallel:
        found.append("--sequence-parallel")
    if strategy.cp > 1:
        found += [f"--context-parallel-size {strategy.cp}", "--cp-comm-type p2p"]
    if strategy.ep > 1:
        found.append(f"--expert-model-parallel-size {strategy.ep}")
    found += _stages(job)
    if strategy.recomputation == "full":
        found += ["--recompute-granularity full", "--recompute-method uniform", "--recompute-num-layers 1"]
    elif strategy.recomputation == "selective":
        found.append("--recompute-granularity selective")
    if strategy.sharding in _FSDP_SHARDING and strategy.replicas > 1:
        found += [option.format(_FSDP_SHARDING[strategy.sharding]) for option in _FSDP]
        if strategy.sharding == "hybrid":
            found.append(f"--num-distributed-optimizer-instances {strategy.replicas // job.node_replicas}")
    elif strategy.sharding == "zero-1" and strategy.replicas > 1:
        found.append(_DISTRIBUTED_OPTIMIZER)
    overlaps = job.overlaps_gradients or strategy.plain
    if strategy.replicas > 1 and strategy.sharding not in _FSDP_SHARDING and overlaps:
        found.append("--overlap-grad-reduce")
    return found + _PRECISIONS.get(job.precision, [])


def _stages(job: ExportedJob) -> list[str]:
    """Return what tells how many layers each stage has; nothing where all have as many, as Megatron cuts by itself."""
    layers, virtual = job.layers, job.strategy.virtual_stages
    if job.per_chunk is not None:
        return [f"--num-layers-per-virtual-pipeline-stage {job.per_chunk}"] if virtual > 1 else []
    if virtual == 1 and len(set(layers[1:-1])) <= 1:
        last = [f"--decoder-last-pipeline-num-layers {layers[-1]}"] if len(layers) > 2 else []
        return [f"--decoder-first-pipeline-num-layers {layers[0]}", *last]
    chunks = [f"t*{count}" if count > 1 else "t" for count in layers]
    return [f"--pipeline-model-parallel-layout 'E{'|'.join(chunks)}L'"]


def notes(job: ExportedJob) -> list[str]:
    """What these arguments do not say, or say otherwise."""
    strategy = job.strategy
    found = common_notes(job)
    if strategy.ep > 1 and strategy.tp > 1 and not strategy.sequence_parallel:
        found.append("Megatron wants --sequence-parallel where experts meet tensor parallelism; the plan has none")
    if job.precision not in (*_PRECISIONS, "fp32"):
        found.append(f"the plan computes in {job.precision}: set it up yourself")
    return found


def to_script(job: ExportedJob) -> str:
    """The file: an array of arguments."""
    comments = [f"# {line}" for line in (f"lightloom: {job.origin}", *notes(job))]
    usage = f'# source this file, then: torchrun ... pretrain_gpt.py "${{MEGATRON_ARGS[@]}}"   ({job.ranks} ranks)'
    return "\n".join([*comments, usage, "MEGATRON_ARGS=(", *(f"  {each}" for each in arguments(job)), ")", ""])
