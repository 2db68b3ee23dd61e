"""``lightloom plan``: a model on a cluster, every plan ranked; with ``--split``, every way to split it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from lightloom.core.errors import ConfigError

_CLUSTER = "terarack-64"


def plan(
    model: Annotated[
        str, typer.Argument(help="A zoo name, package.module:factory, file.py:factory, or a trace: .json, .et.")
    ],
    cluster: Annotated[
        list[str] | None,
        typer.Option(help="A cluster of the catalog, or a YAML file; terarack-64 without it. Repeatable with --split."),
    ] = None,
    split: Annotated[
        bool, typer.Option("--split", help="Search how to split the model too: tensor, pipeline, placed operators.")
    ] = False,
    ranks: Annotated[
        list[str] | None, typer.Option(metavar="N", help="With --split: ranks of each cluster to use; repeatable.")
    ] = None,
    global_batch: Annotated[
        list[str] | None,
        typer.Option(
            metavar="N", help="With --split: samples of a step on all ranks; repeatable. 1 to 16 a rank without it."
        ),
    ] = None,
    quantum: Annotated[
        list[str] | None, typer.Option(help="With --split: placed operators are cut no finer, e.g. 10us; repeatable.")
    ] = None,
    kind: Annotated[
        list[str] | None, typer.Option(help="With --split: only ddp, fsdp, tensor-pipeline or placed; repeatable.")
    ] = None,
    batch: Annotated[
        str | None, typer.Option(metavar="N", help="Samples per rank; the cluster's default without it.")
    ] = None,
    sequence_length: Annotated[
        str | None, typer.Option(metavar="N", help="Tokens per sample, for models that take tokens.")
    ] = None,
    strategy: Annotated[str | None, typer.Option(help="ddp, fsdp, or all, which is the default.")] = None,
    algorithm: Annotated[
        list[str] | None,
        typer.Option(
            help="One algorithm; all that the fabric admits without it. Repeatable with --split, three without it."
        ),
    ] = None,
    cost_model: Annotated[
        str | None,
        typer.Option(help="physical (change circuits when needed; the default) or paper (every step costs d/B + a)."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="field=value of the cluster, e.g. fabric.wavelengths=128 or ranks=32; repeatable."),
    ] = None,
    overlap: Annotated[bool, typer.Option(help="Communicate while computing.")] = True,
    compression: Annotated[
        str | None, typer.Option(metavar="CODEC", help="Compress gradients, e.g. inceptionn:2^-10; both are ranked.")
    ] = None,
    compression_profile: Annotated[
        Path | None, typer.Option(help="The model's profile; else the one that `compress profile` has kept.")
    ] = None,
    compression_ratio: Annotated[
        str | None, typer.Option(metavar="X", help="A ratio of your own instead of a measured one.")
    ] = None,
    compression_engine: Annotated[
        str | None,
        typer.Option(
            help="local (this host's kernel, measured; the default), nic (the paper's engines), or a .yaml file."
        ),
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Write a self-contained HTML report.")] = None,
    trace: Annotated[Path | None, typer.Option(help="Write the winner's timeline for ui.perfetto.dev.")] = None,
    figure: Annotated[Path | None, typer.Option(help="Draw the fastest plans' breakdown (.svg, .png, .pdf).")] = None,
    pictures: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="With --split: all pictures of the report as .png.")
    ] = None,
    export_torchtitan: Annotated[
        Path | None, typer.Option(help="With --split: the winner as torchtitan's job configuration (.toml).")
    ] = None,
    export_megatron: Annotated[
        Path | None, typer.Option(help="With --split: the winner as arguments of Megatron-LM (.sh).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Rank every strategy and collective algorithm for training this model on this cluster."""
    if split:
        _refuse({"--batch": batch, "--strategy": strategy, "--cost-model": cost_model}, "is not for --split")
        if not overlap:
            raise _contradiction("--no-overlap is not for --split: placed splits always overlap")
        from lightloom.cli.plan.split import plan_split
        from lightloom.cli.plan.split_options import SplitOptions

        plan_split(
            SplitOptions(
                model=model,
                clusters=cluster or [_CLUSTER],
                ranks=ranks or (),
                settings=settings or (),
                global_batches=global_batch or (),
                quanta=quantum or (),
                algorithms=algorithm or (),
                kinds=kind or (),
                sequence_length=sequence_length,
                compression=compression,
                compression_profile=compression_profile,
                compression_ratio=compression_ratio,
                compression_engine=compression_engine,
                report=report,
                trace=trace,
                figure=figure,
                pictures=pictures,
                export_torchtitan=export_torchtitan,
                export_megatron=export_megatron,
                as_json=as_json,
            )
        )
        return
    _refuse(
        {
            "--ranks": ranks,
            "--global-batch": global_batch,
            "--quantum": quantum,
            "--kind": kind,
            "--pictures": pictures,
            "--export-torchtitan": export_torchtitan,
            "--export-megatron": export_megatron,
        },
        "needs --split",
    )
    from lightloom.cli.plan.data import DataOptions, plan_data

    plan_data(
        DataOptions(
            model=model,
            cluster=_one(cluster, "--cluster", _CLUSTER),
            batch=batch,
            sequence_length=sequence_length,
            strategy=strategy or "all",
            algorithm=_one(algorithm, "--algorithm", "all"),
            cost_model=cost_model or "physical",
            settings=settings or (),
            overlap=overlap,
            compression=compression,
            compression_profile=compression_profile,
            compression_ratio=compression_ratio,
            compression_engine=compression_engine,
            report=report,
            trace=trace,
            figure=figure,
            as_json=as_json,
        )
    )


def _refuse(options: Mapping[str, Any], why: str) -> None:
    for name, value in options.items():
        if value is not None:
            raise _contradiction(f"{name} {why}")


def _one(values: list[str] | None, option: str, default: str) -> str:
    if values and len(values) > 1:
        raise _contradiction(f"{option} {' '.join(values)}: expected one, or --split, which compares several")
    return values[0] if values else default


def _contradiction(message: str) -> ConfigError:
    from lightloom.core.errors import ConfigError

    return ConfigError(message)
