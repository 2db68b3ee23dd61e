"""Exports say what the plan says: read back, they give its degrees, batches and schedule again."""

from __future__ import annotations

import argparse
import shlex
import tomllib
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.core.errors import UnsupportedError
from lightloom.machines.clusters.cluster import TrainingSettings
from lightloom.models.files.megatron import read_options, strategy_pins
from lightloom.models.files.torchtitan import divided, global_batch, read_job, stage_blocks
from lightloom.models.files.torchtitan import strategy_pins as titan_pins
from lightloom.planning.export import frameworks
from lightloom.planning.export.frameworks import ExportedJob, exported, expressible
from lightloom.planning.parallelism.strategy_space import Strategy
from lightloom.planning.search.request import SearchRequest
from lightloom.planning.search.search import search
from tests.planner.jobs import cluster, job, mixture, space, transformer

BLOCKS = 8
ROWS = space(job(BLOCKS, ranks=8), batches=(16, 48))
MIXED = space(job(BLOCKS, ranks=8, model=mixture), batches=(16, 48))


def exported_row(strategy: Strategy, **facts: Any) -> ExportedJob:
    """A row as it would be exported."""
    chunks = strategy.pp * strategy.virtual_stages
    found = ExportedJob(
        origin='a "model" on here, 8 ranks: τ 1 µs · \\ back, 48 samples',
        ranks=8,
        strategy=strategy,
        training=TrainingSettings(precision="bf16", overlap_gradients=True, zero_2_exchange="step"),
        algorithms=("ring",),
        sequence_length=16,
        layers=(BLOCKS // chunks + 1,) * (BLOCKS % chunks) + (BLOCKS // chunks,) * (chunks - BLOCKS % chunks),
        vocabulary=64,
        node_replicas=2,
    )
    return found._replace(**facts)


rows = st.one_of(*(st.integers(0, len(of) - 1).map(of.__getitem__).map(exported_row) for of in (ROWS, MIXED)))


@given(rows)
def test_torchtitan_reads_the_plan_back(found: ExportedJob) -> None:
    strategy = found.strategy
    read = tomllib.loads(frameworks.to_toml(found))
    assert set(read) == {"training", "parallelism", "activation_checkpoint"}
    parallel, training = read["parallelism"], read["training"]
    replicate, shard = parallel["data_parallel_replicate_degree"], parallel["data_parallel_shard_degree"]
    assert replicate * shard == strategy.dp
    assert shard == (strategy.dp if strategy.sharding in ("zero-2", "zero-3") else 1)
    ranks = replicate * shard * parallel["tensor_parallel_degree"] * parallel["pipeline_parallel_degree"]
    assert ranks == found.ranks
    local, whole = training["local_batch_size"], training["global_batch_size"]
    accumulated, rest = divmod(whole, local * replicate * shard)
    assert rest == 0 and whole == strategy.global_batch
    if parallel["pipeline_parallel_degree"] > 1:
        # A pipeline cuts its local batch; nothing is accumulated around it.
        assert accumulated == 1
        assert local == parallel["pipeline_parallel_microbatch_size"] * strategy.micro_batches
        named = "Interleaved1F1B" if strategy.virtual_stages > 1 else "1F1B"
        assert parallel["pipeline_parallel_schedule"] == named
    else:
        assert accumulated == strategy.micro_batches
        assert "pipeline_parallel_schedule" not in parallel
    assert parallel.get("expert_parallel_degree", 1) == strategy.ep
    if strategy.ep > shard:
        assert any("sharded replicas" in note for note in frameworks.torchtitan_notes(found))
    assert read["activation_checkpoint"]["mode"] == strategy.recomputation
    assert training["seq_len"] == 16


@given(rows)
def test_torchtitan_is_told_the_layers_of_stages_that_it_would_cut_otherwise(found: ExportedJob) -> None:
    parallel, strategy = frameworks.settings(found)["parallelism"], found.strategy
    parts: Any = parallel.get("module_fqns_per_model_part")
    if parts is None:
        chunks = strategy.pp * min(strategy.virtual_stages, 2)
        assert strategy.pp == 1 or divided(found.blocks, chunks) == found.layers
        return
    assert [sum(name.startswith("layers.") for name in part) for part in parts] == list(found.layers)
    names = [name for part in parts for name in part]
    assert names == ["tok_embeddings", *(f"layers.{layer}" for layer in range(found.blocks)), "norm", "output"]


@given(st.integers(1, 130), st.integers(2, 40), st.tuples(st.integers(0, 3), st.integers(0, 3)))
def test_torchtitan_divides_layers_and_ends_as_evenly_as_can_be(
    layers: int, chunks: int, ends: tuple[int, int]
) -> None:
    cut = divided(layers, chunks, ends)
    counted = [cut[0] + ends[0], *cut[1:-1], cut[-1] + ends[1]]
    assert sum(cut) == layers and max(counted) - min(counted) <= 1
    assert counted == sorted(counted, reverse=True)


def test_llama_8b_on_four_stages_is_cut_as_torchtitan_cuts_it() -> None:
    assert divided(32, 4) == (8, 9, 8, 7)


def megatron_parser() -> argparse.ArgumentParser:
    """The options that are exported, with the types and choices of Megatron's own parser."""
    parser = argparse.ArgumentParser(allow_abbrev=False, exit_on_error=False)
    for name in (
        "tensor-model-parallel-size",
        "pipeline-model-parallel-size",
        "micro-batch-size",
        "global-batch-size",
        "seq-length",
        "num-layers-per-virtual-pipeline-stage",
        "num-virtual-stages-per-pipeline-rank",
        "recompute-num-layers",
        "make-vocab-size-divisible-by",
        "decoder-first-pipeline-num-layers",
        "decoder-last-pipeline-num-layers",
        "expert-model-parallel-size",
    ):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--pipeline-model-parallel-layout")
    parser.add_argument("--recompute-granularity", choices=["full", "selective"])
    parser.add_argument("--recompute-method", choices=["uniform", "block"])
    parser.add_argument("--fp8-format", choices=["e4m3", "hybrid"])
    parser.add_argument(
        "--data-parallel-sharding-strategy", choices=["no_shard", "optim", "optim_grads", "optim_grads_params"]
    )
    parser.add_argument("--ckpt-format", choices=["torch", "torch_dist", "fsdp_dtensor"])
    for flag in (
        "sequence-parallel",
        "use-distributed-optimizer",
        "use-megatron-fsdp",
        "no-gradient-accumulation-fusion",
        "overlap-grad-reduce",
        "bf16",
        "fp16",
    ):
        parser.add_argument(f"--{flag}", action="store_true")
    return parser


@given(rows)
def test_megatron_reads_the_plan_back(found: ExportedJob) -> None:
    strategy = found.strategy
    script = frameworks.to_script(found)
    body = script[script.index("MEGATRON_ARGS=(") + len("MEGATRON_ARGS=(") : script.rindex(")")]
    read = megatron_parser().parse_args(shlex.split(body))
    tp, pp = read.tensor_model_parallel_size, read.pipeline_model_parallel_size
    assert (tp, pp) == (strategy.tp, strategy.pp)
    dp = found.ranks // (tp * pp)
    assert dp == strategy.dp
    assert read.global_batch_size == read.micro_batch_size * strategy.micro_batches * dp
    assert (read.expert_model_parallel_size or 1) == strategy.ep and dp % strategy.ep == 0
    assert read.sequence_parallel == strategy.sequence_parallel
    chunks = read.num_virtual_stages_per_pipeline_rank or 1
    if read.num_layers_per_virtual_pipeline_stage:
        chunks = found.blocks // pp // read.num_layers_per_virtual_pipeline_stage
    if read.pipeline_model_parallel_layout:
        chunks = len(read.pipeline_model_parallel_layout.split("|")) // pp
    assert chunks == strategy.virtual_stages
    assert (read.recompute_granularity == "full") == (strategy.recomputation == "full")
    assert (read.recompute_granularity == "selective") == (strategy.recomputation == "selective")
    named = {"zero-2": "optim_grads", "zero-3": "optim_grads_params"}
    sharded = named.get(strategy.sharding) if strategy.dp > 1 else None
    assert (read.data_parallel_sharding_strategy if read.use_megatron_fsdp else None) == sharded
    assert read.use_distributed_optimizer == (strategy.sharding != "none" and strategy.dp > 1)
    assert read.bf16 and not read.fp16


@given(rows)
def test_both_exports_shard_the_same(found: ExportedJob) -> None:
    """What torchtitan shards among replicas Megatron's FSDP shards, on as many ranks; ZeRO-1 is Megatron's alone."""
    strategy, arguments = found.strategy, " ".join(frameworks.arguments(found))
    parallel = frameworks.settings(found)["parallelism"]
    sharded = strategy.dp > 1 and strategy.sharding in ("zero-2", "zero-3", "hybrid")
    assert ("fsdp_reshard_after_forward" in parallel) >= sharded == ("--use-megatron-fsdp" in arguments)
    assert parallel["tensor_parallel_degree"] == strategy.tp
    assert f"--tensor-model-parallel-size {strategy.tp}" in arguments
    if sharded:
        kept = parallel["fsdp_reshard_after_forward"] == "never"
        assert kept == ("--data-parallel-sharding-strategy optim_grads " in arguments)


def test_llama_70b_is_exported_with_tensor_and_sharded_parallelism_to_both() -> None:
    """tp 8, dp 128: torchtitan's memory of a share of the state each, in the settings of both frameworks."""
    row = Strategy(128, 8, 1, 1, 128, "zero-3", "full", "ring", 0, sequence_parallel=True)
    found = exported_row(row, ranks=1024)
    parallel, arguments = frameworks.settings(found)["parallelism"], frameworks.arguments(found)
    assert (parallel["data_parallel_shard_degree"], parallel["tensor_parallel_degree"]) == (128, 8)
    assert parallel["fsdp_reshard_after_forward"] == "always"
    assert "--data-parallel-sharding-strategy optim_grads_params" in arguments
    assert "--tensor-model-parallel-size 8" in arguments and "--sequence-parallel" in arguments
    # Nothing but the library's algorithms is noted.
    assert not frameworks.torchtitan_notes(found)[1:] and not frameworks.megatron_notes(found)[1:]


@pytest.mark.parametrize("precision", ["bf16", "fp16", "fp8", "fp32", "tf32", "fp64", "fixed32"])
def test_a_precision_is_set_or_said_to_be_missing(precision: str) -> None:
    found = exported_row(ROWS[0], training=TrainingSettings(precision=precision))  # type: ignore[arg-type]
    options = " ".join(frameworks.arguments(found))
    assert (precision in ("bf16", "fp8")) == ("--bf16" in options)
    for notes, expressed in (
        (frameworks.megatron_notes, ("bf16", "fp16", "fp8", "fp32")),
        (frameworks.torchtitan_notes, ("bf16", "fp32", "tf32")),
    ):
        told = any(f"computes in {precision}" in note for note in notes(found))
        assert told != (precision in expressed)


def test_bash_reads_the_script(tmp_path: Path) -> None:
    import shutil
    import subprocess

    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("needs bash")
    path = tmp_path / "arguments.sh"
    path.write_text(frameworks.to_script(exported_row(ROWS[len(ROWS) // 2])))
    command = f'source "{path}" && printf "%s\\n" "${{MEGATRON_ARGS[@]}}"'
    done = subprocess.run([bash, "-euc", command], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.split() == shlex.split(" ".join(frameworks.arguments(exported_row(ROWS[len(ROWS) // 2]))))


def test_all_columns_occur() -> None:
    """What the laws above are checked on: no column stays at its default."""
    assert MIXED.ep.max() > 1
    assert ROWS.virtual_stages.max() > 2 and ROWS.sequence_parallel.any() and ROWS.pp.max() > 2


def test_placed_plans_cannot_be_exported() -> None:
    on = cluster(4)
    found = search(transformer(2), on, SearchRequest(global_batches=[8], algorithms=["ring-striped"]))
    plan = expressible(found)
    assert isinstance(plan.choice, Strategy)
    assert plan.sample_time == min(each.sample_time for each in found.ranking if each.strategy != "placed")
    facts = exported(plan, transformer(2))
    assert (facts.ranks, facts.blocks, facts.sequence_length) == (4, 2, 16)
    placed = replace(found, ranking=tuple(each for each in found.ranking if each.strategy == "placed"))
    assert placed.ranking
    with pytest.raises(UnsupportedError, match="only plans were found that place operators"):
        expressible(placed)


@given(rows)
def test_the_reader_of_megatron_scripts_gives_the_strategy_back(found: ExportedJob) -> None:
    strategy = found.strategy
    with TemporaryDirectory() as folder:
        path = Path(folder) / "plan.sh"
        path.write_text(frameworks.to_script(found))
        options = read_options(path, {})
    pins = strategy_pins(options)
    sharded = strategy.replicas > 1 and strategy.sharding != "none"
    assert pins.tp == strategy.tp and pins.pp == strategy.pp and pins.cp == strategy.cp and pins.ep == strategy.ep
    assert pins.micro_batch == strategy.samples and options.count("global-batch-size") == strategy.global_batch
    assert pins.sharding == (strategy.sharding if sharded else "none")
    assert pins.recomputation == strategy.recomputation
    assert pins.sequence_parallel == (strategy.sequence_parallel if strategy.tp > 1 else None)
    if strategy.virtual_stages > 1 and len(set(found.layers)) > 1:
        assert pins.virtual_stages == strategy.virtual_stages


@given(rows)
def test_the_reader_of_torchtitan_configurations_gives_the_strategy_back(found: ExportedJob) -> None:
    strategy = found.strategy
    with TemporaryDirectory() as folder:
        path = Path(folder) / "plan.toml"
        path.write_text(frameworks.to_toml(found))
        read = read_job(path)
    pins, _ = titan_pins(read, found.blocks)
    assert (pins.tp, pins.pp, pins.cp, pins.ep) == (strategy.tp, strategy.pp, strategy.cp, strategy.ep)
    assert pins.dp == strategy.dp and pins.recomputation == strategy.recomputation
    assert global_batch(read) == strategy.global_batch and pins.micro_batch == strategy.samples
    if strategy.dp > 1 and strategy.sharding not in ("zero-1", "hybrid"):
        assert pins.sharding == strategy.sharding
    assert pins.virtual_stages == (strategy.virtual_stages if strategy.pp > 1 else 1)
    assert stage_blocks(read, found.blocks, pins) == (found.layers if strategy.pp > 1 else None)
