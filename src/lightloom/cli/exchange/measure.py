"""``lightloom exchange measure``: rates of this host's kernels, which ``plan --exchange-engine local`` prices with."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from lightloom.cli.options import Json
from lightloom.cli.output import print_result
from lightloom.core.provenance import provenance
from lightloom.core.units import format_time
from lightloom.exchange.measuring import measurable
from lightloom.exchange.measuring import measure as measured
from lightloom.exchange.rates import keep_rates
from lightloom.exchange.registry import compared, find
from lightloom.reports.console import plain_table
from lightloom.reports.progress import progress


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
