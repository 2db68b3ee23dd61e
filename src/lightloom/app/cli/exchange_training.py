"""``lightloom exchange compare``: exchanges on a training task."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from lightloom.app.api.exchange_comparison import ExchangeComparison, compare_exchanges
from lightloom.app.cli.options import Json, check_outputs, count_option, figure_option, option, print_result
from lightloom.core.files import write_atomically
from lightloom.core.results import provenance, provenance_line
from lightloom.core.units import format_time
from lightloom.exchange.measuring import keep_rates, measurable
from lightloom.exchange.measuring import measure_kernels as measured
from lightloom.exchange.method import merge_evidence
from lightloom.exchange.methods import compared, find
from lightloom.reports.console import plain_table
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
    check_outputs([figure], [evidence])
    chosen = methods or compared()
    with progress("training", seeds * (len(chosen) + 1)) as advance:
        result = compare_exchanges(
            task, chosen, ranks=ranks, seeds=seeds, steps=steps, link=link, data=data, folder=folder, advance=advance
        )
    if figure is not None:
        from lightloom.reports.figures.canvas import save

        save(result.figure(), figure, provenance_line(result.origin))
    if evidence is not None:
        write_atomically(evidence, merge_evidence(evidence, result.evidence()))
    print_result(result.to_json(), as_json, _parts(result), {"figure": figure, "evidence": evidence})


def _parts(result: ExchangeComparison) -> Iterator[str | Table]:
    rows = result.display_rows()
    yield plain_table(list(rows[0]), [list(row.values()) for row in rows], title=result.title)
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
    cells = [
        [
            str(row["method"]),
            f"{row['encode'] / 1e9:.3g}",
            f"{row['decode'] / 1e9:.3g}",
            format_time(row["encode_message"]),
            format_time(row["decode_message"]),
            str(row["kernel"]),
        ]
        for row in rows
    ]
    columns = ["method", "encode GB/s", "decode GB/s", "encode call", "decode call", "kernel"]
    table = plain_table(columns, cells, title="bytes of float32 per second, the fastest of a few rounds")
    names = [method.name for method in chosen]
    document = {"schema": "lightloom.exchange-rates/1", "methods": rows, "provenance": provenance(names)}
    print_result(document, as_json, [table, "kept for lightloom plan --exchange-engine local"], {})
