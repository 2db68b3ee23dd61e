"""Settings and notes of frameworks for splits whose arguments were written down by hand."""

from __future__ import annotations

from typing import Any

import pytest

from lightloom.machines.clusters.cluster import TrainingSettings
from lightloom.planning.export.frameworks import ExportedJob, arguments, megatron_notes, settings, torchtitan_notes
from lightloom.planning.parallelism.strategy_space import Strategy

ALONE = Strategy(1, 1, 1, 1, 16, "none", "none", "ring", 0)
"""One rank that takes 16 samples."""
BOTH = ALONE._replace(tp=2, sequence_parallel=True)


def job(strategy: Strategy, *, overlap: bool = False, exchange: str = "step", **facts: Any) -> ExportedJob:
    """A model of eight blocks that takes no tokens, in float32, without algorithms."""
    training = TrainingSettings(precision="fp32", overlap_gradients=overlap, zero_2_exchange=exchange)  # type: ignore[arg-type]
    none: dict[str, Any] = {"algorithms": (), "sequence_length": None, "layers": (8,), "vocabulary": None}
    own: dict[str, Any] = {"origin": "here", "ranks": 8, "strategy": strategy, "training": training, "node_replicas": 1}
    return ExportedJob(**own | none | facts)


FULL = ["--recompute-granularity full", "--recompute-method uniform", "--recompute-num-layers 1"]
DISTRIBUTED, OVERLAP = "--use-distributed-optimizer", "--overlap-grad-reduce"


def sharded(how: str) -> list[str]:
    """Megatron-FSDP's options."""
    first = ["--use-megatron-fsdp", f"--data-parallel-sharding-strategy {how}", DISTRIBUTED]
    return [*first, "--no-gradient-accumulation-fusion", "--ckpt-format fsdp_dtensor"]


@pytest.mark.parametrize(
    ("found", "first", "others"),
    [
        # Tensor degree, stages, samples of a micro-batch and of the step; then what applies.
        (job(ALONE), (1, 1, 16, 16), []),
        (job(ALONE, overlap=True), (1, 1, 16, 16), []),
        (job(ALONE._replace(dp=4)), (1, 1, 4, 16), [OVERLAP]),
        (job(ALONE._replace(dp=4, micro_batches=2)), (1, 1, 2, 16), []),
        (job(ALONE._replace(dp=4, micro_batches=2), overlap=True), (1, 1, 2, 16), [OVERLAP]),
        (job(BOTH, vocabulary=65, sequence_length=3), (2, 1, 16, 16), [
            "--seq-length 3", "--make-vocab-size-divisible-by 33", "--sequence-parallel"]),
        (job(ALONE._replace(tp=2)), (2, 1, 16, 16), []),
        (job(ALONE._replace(cp=2)), (1, 1, 16, 16), ["--context-parallel-size 2", "--cp-comm-type p2p"]),
        (job(ALONE._replace(cp=2, sharding="zero-1")), (1, 1, 16, 16), [
            "--context-parallel-size 2", "--cp-comm-type p2p", DISTRIBUTED]),
        (job(ALONE._replace(dp=2, ep=2)), (1, 1, 8, 16), ["--expert-model-parallel-size 2"]),
        (job(ALONE._replace(recomputation="full")), (1, 1, 16, 16), FULL),
        (job(ALONE._replace(recomputation="selective")), (1, 1, 16, 16), ["--recompute-granularity selective"]),
        (job(ALONE._replace(sharding="zero-1")), (1, 1, 16, 16), []),
        (job(ALONE._replace(sharding="zero-3"), overlap=True), (1, 1, 16, 16), []),
        (job(ALONE._replace(dp=2, sharding="zero-2"), overlap=True), (1, 1, 8, 16), sharded("optim_grads")),
        (job(ALONE._replace(dp=2, sharding="zero-3")), (1, 1, 8, 16), sharded("optim_grads_params")),
        # Of eight replicas two share a node: the state is kept four times.
        (job(ALONE._replace(dp=8, sharding="hybrid"), node_replicas=2), (1, 1, 2, 16), [
            *sharded("optim_grads_params"), "--num-distributed-optimizer-instances 4"]),
    ],
)  # fmt: skip
def test_megatron_has_these_arguments(found: ExportedJob, first: tuple[int, ...], others: list[str]) -> None:
    names = ("tensor-model-parallel-size", "pipeline-model-parallel-size", "micro-batch-size", "global-batch-size")
    assert arguments(found) == [*(f"--{name} {count}" for name, count in zip(names, first, strict=True)), *others]


@pytest.mark.parametrize(
    ("layers", "virtual", "expected"),
    [
        ((4, 4), 1, []),
        ((2, 2, 2, 2), 2, ["--num-layers-per-virtual-pipeline-stage 2"]),
        ((3, 5), 1, ["--decoder-first-pipeline-num-layers 3"]),
        ((3, 2, 3), 1, ["--decoder-first-pipeline-num-layers 3", "--decoder-last-pipeline-num-layers 3"]),
        ((3, 2, 2, 1), 1, ["--decoder-first-pipeline-num-layers 3", "--decoder-last-pipeline-num-layers 1"]),
        ((3, 1, 2, 2), 1, ["--pipeline-model-parallel-layout 'Et*3|t|t*2|t*2L'"]),
        ((3, 2, 1, 2), 1, ["--pipeline-model-parallel-layout 'Et*3|t*2|t|t*2L'"]),
        ((2, 2, 2, 1), 2, ["--pipeline-model-parallel-layout 'Et*2|t*2|t*2|tL'"]),
    ],
)
def test_megatron_is_told_the_layers_of_stages(layers: tuple[int, ...], virtual: int, expected: list[str]) -> None:
    strategy = ALONE._replace(pp=len(layers) // virtual, virtual_stages=virtual)
    assert arguments(job(strategy, layers=layers))[4:] == expected


@pytest.mark.parametrize(
    ("found", "batch", "shards", "others"),
    [
        # Samples of a local batch; replicas that copy and that shard; then tensor, stages, context and what applies.
        (job(ALONE), 16, (1, 1, 1, 1, 1), {}),
        (job(ALONE._replace(dp=4, micro_batches=2, sharding="zero-1")), 2, (4, 1, 1, 1, 1), {}),
        (job(BOTH._replace(dp=4, cp=2, ep=2, sharding="zero-2")), 4, (1, 4, 2, 1, 2), {
            "expert_parallel_degree": 2, "fsdp_reshard_after_forward": "never"}),
        (job(ALONE._replace(dp=4, sharding="zero-3")), 4, (1, 4, 1, 1, 1), {"fsdp_reshard_after_forward": "always"}),
        (job(ALONE._replace(dp=8, cp=2, sharding="hybrid"), node_replicas=4), 2, (4, 2, 1, 1, 2), {
            "fsdp_reshard_after_forward": "always"}),
        (job(ALONE._replace(dp=8, cp=2, sharding="hybrid"), node_replicas=1), 2, (8, 1, 1, 1, 2), {
            "fsdp_reshard_after_forward": "always"}),
        (job(ALONE._replace(dp=2, pp=2, micro_batches=4), layers=(4, 4)), 8, (2, 1, 1, 2, 1), {
            "pipeline_parallel_schedule": "1F1B", "pipeline_parallel_microbatch_size": 2}),
        (job(ALONE._replace(pp=2, micro_batches=4, virtual_stages=2), layers=(2, 3, 2, 1)), 16, (1, 1, 1, 2, 1), {
            "pipeline_parallel_schedule": "Interleaved1F1B", "pipeline_parallel_microbatch_size": 4}),
        (job(ALONE._replace(pp=2, micro_batches=4), layers=(2, 1)), 16, (1, 1, 1, 2, 1), {
            "pipeline_parallel_schedule": "1F1B", "pipeline_parallel_microbatch_size": 4}),
        (job(ALONE._replace(pp=4, micro_batches=4), layers=(3, 1, 1, 1)), 16, (1, 1, 1, 4, 1), {
            "pipeline_parallel_schedule": "1F1B", "pipeline_parallel_microbatch_size": 4,
            "module_fqns_per_model_part": [
                ["tok_embeddings", "layers.0", "layers.1", "layers.2"], ["layers.3"], ["layers.4"],
                ["layers.5", "norm", "output"]]}),
    ],
)  # fmt: skip
def test_torchtitan_has_these_settings(
    found: ExportedJob, batch: int, shards: tuple[int, ...], others: dict[str, object]
) -> None:
    degrees = ("data_parallel_replicate", "data_parallel_shard", "tensor_parallel", "pipeline_parallel")
    names = [f"{name}_degree" for name in (*degrees, "context_parallel")]
    told = settings(found)
    assert told["parallelism"] == dict(zip(names, shards, strict=True)) | others
    assert told["training"] == {
        "local_batch_size": batch, "global_batch_size": 16, "mixed_precision_param": "float32"
    }  # fmt: skip
    assert settings(found._replace(sequence_length=0))["training"]["seq_len"] == 0


NOTES = {
    "uneven": "the last of 3 micro-batches has 2 samples instead of 3:",
    "context": "ranks of a context group are taken to have equal work",
    "hook": "attach its hook yourself",
    "algorithms": "collectives run ring, tree;",
    "experts": "Megatron wants --sequence-parallel",
    "copies": "its replicas keep all of it",
    "some": "some releases refuse that without sharding",
    "unsharded": "the plan's are not sharded",
    "each": "for every micro-batch; the plan does once a step",
    "hold": "the plan's hold everything",
    "nodes": "the plan's nodes have a part of one each",
    "tensor": "torchtitan's tensor parallelism is sequence-parallel too",
    "rows": "of 65 rows the fullest of 2 ranks holds 33, as priced",
}
TWO = ALONE._replace(dp=2)
STEPWISE = TWO._replace(sharding="zero-2", micro_batches=2)
HYBRID = TWO._replace(sharding="hybrid", cp=2)


@pytest.mark.parametrize(
    ("found", "megatron", "titan"),
    [
        (job(ALONE), "", ""),
        (job(TWO._replace(micro_batches=3, micro_batch=3)), "uneven", "uneven"),
        (job(ALONE._replace(cp=2)), "context", "context hold"),
        (job(TWO._replace(exchange=1)), "hook", "hook"),
        (job(TWO, algorithms=("ring", "tree")), "algorithms", "algorithms"),
        (job(ALONE._replace(tp=2, ep=2)), "experts", "unsharded tensor"),
        (job(BOTH._replace(ep=2)), "", "unsharded"),
        (job(ALONE._replace(ep=2, sharding="zero-1")), "", "copies unsharded"),
        (job(ALONE._replace(ep=2, sharding="zero-3")), "", ""),
        (job(ALONE._replace(tp=2)), "", "tensor"),
        (job(TWO), "", ""),
        (job(BOTH), "", ""),
        (job(BOTH._replace(dp=2)), "", "some"),
        (job(TWO._replace(pp=2)), "", "some"),
        (job(BOTH._replace(dp=2, sharding="zero-3")), "", ""),
        (job(STEPWISE), "", "each"),
        (job(STEPWISE, exchange="micro-batch"), "", ""),
        (job(STEPWISE._replace(sharding="zero-3")), "", ""),
        (job(STEPWISE._replace(pp=2)), "", ""),
        (job(STEPWISE._replace(micro_batches=1)), "", ""),
        (job(HYBRID, node_replicas=3), "context", "context nodes"),
        (job(HYBRID, node_replicas=4), "context", "context"),
        (job(HYBRID._replace(sharding="zero-3"), node_replicas=3), "context", "context"),
        (job(HYBRID._replace(cp=1), node_replicas=3), "", ""),
        (job(BOTH, vocabulary=65), "", "rows"),
        (job(BOTH, vocabulary=64), "", ""),
    ],
)
def test_notes_say_what_settings_do_not(found: ExportedJob, megatron: str, titan: str) -> None:
    for notes, expected in ((megatron_notes(found), megatron), (torchtitan_notes(found), titan)):
        assert len(notes) == len(expected.split())
        for note, name in zip(notes, expected.split(), strict=True):
            assert NOTES[name] in note
