"""``lightloom exchange compare``: exchanges on a training task."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from lightloom.app.api.exchange_comparison import ExchangeComparison, compare_exchanges
from lightloom.app.cli.options import (
    Json,
    arguments,
    check_outputs,
    count_option,
    draw,
    figure_option,
    option,
    print_result,
)
from lightloom.core.files import write_atomically
from lightloom.core.results import provenance
from lightloom.core.units import format_time
from lightloom.exchange.measuring import keep_rates, measurable
from lightloom.exchange.measuring import measure_kernels as measured
from lightloom.exchange.method import merge_evidence
from lightloom.exchange.methods import compared, find
from lightloom.reports.console import rows_table
from lightloom.reports.progress import progress


def compare(
    *,
    task: Annotated[str, option("mnist, chars (tinyshakespeare) or text (WikiText-2).")] = "chars",
    methods: Annotated[
        list[str] | None, option("An exchange, as int4:block=128; repeatable, all by default.", "METHOD", "--method")
    ] = None,
    ranks: Annotated[int, count_option("--ranks", "Number of processes.", least=2)] = 4,
    seeds: Annotated[int, count_option("--seeds", "Runs of each exchange.", least=1)] = 3,
    steps: Annotated[int | None, count_option("--steps", "Steps; 300, or 400 for mnist, by default.", least=1)] = None,
    link: Annotated[str, option("Speed at which each rank sends, for equal time.")] = "1Gbps",
    data: Annotated[Path | None, option("Folder of data sets; $LIGHTLOOM_DATA otherwise.")] = None,
    folder: Annotated[Path | None, option("Where finished runs are kept; in the cache by default.")] = None,
    figure: Annotated[Path | None, figure_option("Draw bytes saved against loss")] = None,
    evidence: Annotated[
        Path | None, option("Put the differences in loss into this table, as plans read it (evidence.json).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Train a small task with each exchange, in real processes: bytes against loss, and loss after equal time.

    Runs that have finished are not repeated, so that a comparison that was interrupted continues.
    """
    given, chosen = locals(), methods or compared()
    check_outputs([figure], [evidence])
    with progress("training", seeds * (len(chosen) + 1)) as advance:
        result = compare_exchanges(**arguments(compare_exchanges, given | {"methods": chosen, "advance": advance}))
    draw(figure, result.figure, result.to_json())
    if evidence is not None:
        write_atomically(evidence, merge_evidence(evidence, result.evidence()))
    print_result(result.to_json(), as_json, _parts(result), {"figure": figure, "evidence": evidence})


def _parts(result: ExchangeComparison) -> Iterator[str | Table]:
    yield rows_table(result.display_rows(), title=result.title)
    yield (
        "less plain: mean over seeds of the loss less that of DDP without a hook, from the same weights on the same "
        "batches; spread: largest less smallest. Steps over the link and equal time are a model: processor time as "
        "measured here, then sending."
    )
    unequal = [row.method for row in result.methods if not row.replicas_equal]
    yield f"replicas differ: {', '.join(unequal)}" if unequal else "replicas are equal bit for bit in every run"


# ``lightloom exchange measure``: rates of this host's kernels, which ``plan --exchange-engine local`` prices with.


def measure(
    *,
    methods: Annotated[
        list[str] | None, typer.Argument(help="Methods with options; the common ones without any.", metavar="METHOD...")
    ] = None,
    as_json: Json = False,
) -> None:
    """Time the kernels of methods on one thread of this host, and keep the rates for `lightloom plan`."""
    chosen = [find(name) for name in methods or compared()]
    chosen = chosen if methods else [method for method in chosen if measurable(method)]
    rows = []
    with progress("Measuring", len(chosen)) as advance:
        for method in chosen:
            rates = measured(method)
            keep_rates(method.name, rates)
            rows.append({"method": method.name} | asdict(rates))
            advance(1)
    shown = [
        {
            "method": row["method"],
            "encode GB/s": f"{row['encode'] / 1e9:.3g}",
            "decode GB/s": f"{row['decode'] / 1e9:.3g}",
            "encode call": format_time(row["encode_message"]),
            "decode call": format_time(row["decode_message"]),
            "kernel": row["kernel"],
        }
        for row in rows
    ]
    table = rows_table(shown, title="bytes of float32 per second, the fastest of a few rounds")
    names = [method.name for method in chosen]
    document = {"schema": "lightloom.exchange-rates/1", "methods": rows, "provenance": provenance(names)}
    print_result(document, as_json, [table, "kept for lightloom plan --exchange-engine local"], {})
