"""The options of ``lightloom plan``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from lightloom.cli.options import Json, count_option, option
from lightloom.cli.site import (
    Amortisation,
    BoardPrice,
    Electricity,
    FabricPrice,
    HostPower,
    HostPrice,
    Maintenance,
    Prices,
    Pue,
)

Many = list[str] | None
Counts = list[int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """What the command line says."""

    model: Annotated[
        str,
        typer.Argument(
            help="A zoo name, package.module:factory, file.py:factory, a file (a message lists the forms), or a shell "
            "line of Megatron-LM in quotes."
        ),
    ]
    cluster: Annotated[
        Many, option("A cluster of the catalog, or a YAML file; terarack-64 without it. Repeatable: ranked together.")
    ] = None
    ranks: Annotated[Counts, count_option("--ranks", "Ranks of each cluster to use; repeatable.")] = None
    accelerator: Annotated[
        str | None,
        option("Instead of the cluster's: an accelerator of the catalog, a YAML file, or one that `calibrate` wrote."),
    ] = None
    settings: Annotated[
        Many, option("field=value of the cluster, e.g. fabric.wavelengths=128 or ranks=32; repeatable.", name="--set")
    ] = None
    batch: Annotated[
        str | None,
        option("Samples per rank, or max: each plan's own largest. Up to 32, as many as fit, without it.", "N"),
    ] = None
    global_batch: Annotated[
        Counts,
        count_option("--global-batch", "Samples of a step on all ranks; repeatable."),
    ] = None
    sequence_length: Annotated[
        int | None, count_option("--sequence-length", "Tokens per sample, for models that take tokens.")
    ] = None
    step: Annotated[
        int | None, count_option("--step", "Step of an execution trace, as its profiler counts.", least=0)
    ] = None
    define: Annotated[
        Many,
        option("Of what a model's file leaves open: a variable of a script, a dimension of a graph.", "NAME=VALUE"),
    ] = None
    model_only: Annotated[
        bool, typer.Option("--model-only", help="Take the model of a file and not the strategy that it states.")
    ] = False
    measured_on: Annotated[
        str | None,
        option(
            "What the durations of a trace were measured on, if it does not say: an accelerator, unscaled (as on the "
            "cluster's), or none (price all operators)."
        ),
    ] = None
    strategy: Annotated[Many, option("Only ddp, fsdp, tensor-pipeline or placed; repeatable.")] = None
    algorithm: Annotated[
        Many, option("Algorithms that exchanges choose among, all that the fabric admits without it; repeatable.")
    ] = None
    dp: Annotated[int | None, count_option("--dp", "Pin the data-parallel degree.", least=1)] = None
    tp: Annotated[int | None, count_option("--tp", "Pin the tensor-parallel degree.", least=1)] = None
    pp: Annotated[int | None, count_option("--pp", "Pin the number of pipeline stages.", least=1)] = None
    ep: Annotated[int | None, count_option("--ep", "Pin the expert-parallel degree.", least=1)] = None
    cp: Annotated[int | None, count_option("--cp", "Pin the slices of a sample's tokens.", least=1)] = None
    micro_batches: Annotated[
        int | None,
        count_option("--micro-batches", "Pin the micro-batches of a step: divisors of a replica's batch.", least=1),
    ] = None
    micro_batch: Annotated[
        int | None,
        count_option("--micro-batch", "Pin the samples of a micro-batch; the last may be smaller.", least=1),
    ] = None
    virtual_stages: Annotated[
        int | None, count_option("--virtual-stages", "Pin the chunks of the model that a stage holds.", least=1)
    ] = None
    recompute: Annotated[str | None, option("Pin activation recomputation: full, selective or none.")] = None
    sharding: Annotated[
        str | None, option("Pin what replicas shard: none, zero-1, zero-2, zero-3 (also: fsdp) or hybrid.")
    ] = None
    sequence_parallel: Annotated[
        bool | None,
        typer.Option("--sequence-parallel/--no-sequence-parallel", help="Pin slices of the sequence in tensor groups."),
    ] = None
    quantum: Annotated[Many, option("Placed operators are cut no finer, e.g. 10us; repeatable.")] = None
    cost_model: Annotated[
        str, option("physical (circuits change when needed) or paper (every step costs d/B + a; ddp and fsdp only).")
    ] = "physical"
    overlap: Annotated[bool, option("Communicate while computing; without it ddp and fsdp only.")] = True
    exchange: Annotated[
        Many,
        option(
            "How replicas exchange gradients, e.g. int4:block=128 (`exchange list`); ranked beside gradients as they "
            "are. Repeatable.",
            "METHOD",
        ),
    ] = None
    exchange_engine: Annotated[
        str | None,
        option(
            "What codes: accelerator (an assumed rate; the default), local (this host's kernels as measured), nic (the "
            "INCEPTIONN paper's), or a .yaml file."
        ),
    ] = None
    exchange_profile: Annotated[
        Path | None, option("The model's profile, for inceptionn; else the one that `compress profile` has kept.")
    ] = None
    exchange_ratio: Annotated[
        str | None, option("A ratio of your own, for inceptionn, instead of a profile's.", "X")
    ] = None
    compression: Annotated[str | None, typer.Option(hidden=True)] = None
    compression_profile: Annotated[str | None, typer.Option(hidden=True)] = None
    compression_ratio: Annotated[str | None, typer.Option(hidden=True)] = None
    compression_engine: Annotated[str | None, typer.Option(hidden=True)] = None
    reconfigure_in_step: Annotated[
        bool,
        typer.Option(
            "--reconfigure-in-step",
            help="Share out the planes of a circuit switch among the groups of a plan, and set them anew between the "
            "phases of a step where that is faster; grant placed plans circuits anew from what waits.",
        ),
    ] = False
    latency_sensitivity: Annotated[
        bool, option("Search the latency of a hop at which another plan wins; done anyway where a fabric states none.")
    ] = False
    pue: Pue = None
    electricity: Electricity = None
    amortisation: Amortisation = None
    maintenance: Maintenance = None
    board_price: BoardPrice = None
    host_power: HostPower = None
    host_price: HostPrice = None
    fabric_price: FabricPrice = None
    prices: Prices = None
    report: Annotated[Path | None, option("Write a self-contained HTML report.")] = None
    trace: Annotated[Path | None, option("Write the winner's timeline for ui.perfetto.dev.")] = None
    figure: Annotated[Path | None, option("Draw the fastest plans' breakdown (.svg, .png, .pdf).")] = None
    pictures: Annotated[Path | None, option("All pictures of the report as .png.", "FOLDER")] = None
    export_graph: Annotated[
        Path | None, option("The model's graph as .json, which plans take as a model without PyTorch.")
    ] = None
    export_torchtitan: Annotated[
        Path | None, option("The first plan that torchtitan can run as its job configuration (.toml).")
    ] = None
    export_megatron: Annotated[
        Path | None, option("The first plan that Megatron-LM can run as its arguments (.sh).")
    ] = None
    export_chakra: Annotated[
        Path | None,
        option("The winner's step as Chakra traces, with the files of ASTRA-sim beside them.", "FOLDER"),
    ] = None
    as_json: Json = False
