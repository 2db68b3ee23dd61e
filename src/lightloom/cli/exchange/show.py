"""``lightloom exchange list`` and ``show``: methods, and what one sends and computes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.table import Table

from lightloom.cli.options import Json, count_option, option
from lightloom.cli.output import print_result
from lightloom.core.provenance import provenance
from lightloom.core.units import format_size
from lightloom.exchange.evidence import accuracy_note, evidence_of
from lightloom.exchange.method import Gradient
from lightloom.exchange.registry import families, find
from lightloom.planner.gradients.priced import model_gradient
from lightloom.planner.pricing.exchange_prices import phase_document
from lightloom.reports.console import plain_table
from lightloom.workloads.load import load_workload


def list_methods(*, as_json: Json = False) -> None:
    """Name all methods by which replicas exchange gradients, with their defaults and what is known of accuracy."""
    rows = [
        {
            "name": family.name,
            "summary": family.summary,
            "default": find(family.name).name,
            "options": dict(family.options),
            "accuracy": accuracy_note(find(family.name).name),
        }
        for family in families().values()
    ]
    cells = [[str(row["name"]), str(row["summary"]), str(row["default"]), str(row["accuracy"])] for row in rows]
    table = plain_table(["method", "what it does", "with its defaults", "accuracy of the default"], cells)
    document = {"schema": "lightloom.exchanges/1", "methods": rows, "provenance": provenance([rows])}
    print_result(document, as_json, [table], {})


def show(
    *,
    method: Annotated[str, typer.Argument(help="A method with options, e.g. int4:block=128,feedback.")],
    ranks: Annotated[int, count_option("--ranks", "Ranks that exchange.", least=2)] = 8,
    model: Annotated[str | None, option("Tensors of this model, else one vector.")] = None,
    values: Annotated[int, count_option("--values", "Values of that vector.", least=1)] = 1 << 20,
    as_json: Json = False,
) -> None:
    """Say what a method sends and computes in one exchange."""
    chosen = find(method)
    gradient = Gradient.flat(values) if model is None else model_gradient(load_workload(model, batch=1))
    sent, plain = (each.sent_bytes(gradient, ranks) for each in (chosen, find("float32")))
    document: dict[str, Any] = {
        "schema": "lightloom.exchange/1",
        "method": chosen.name,
        "options": dict(families()[chosen.name.partition(":")[0]].options),
        "ranks": ranks,
        "values": gradient.values,
        "every": chosen.every,
        "synchronous": chosen.synchronous,
        "feedback": chosen.feedback,
        "scale_free": chosen.scale_free,
        "bytes_depend_on_values": chosen.needs_values,
        "phases": [phase_document(phase) for phase in chosen.phases(gradient, ranks)],
        "work": asdict(chosen.work(gradient, ranks)),
        "sent_bytes": sent,
        "ratio": plain / sent,
        "state_bytes_per_parameter": 4 * chosen.state_values,
        "accuracy": accuracy_note(chosen.name),
        "evidence": [row.to_json() for row in evidence_of(chosen.name)],
    }
    document["provenance"] = provenance([chosen.name, ranks, gradient.values])
    print_result(document, as_json, _parts(document), {})


def _parts(document: dict[str, Any]) -> Iterator[str | Table]:
    cells = [
        [phase["kind"], format_size(phase["bytes"]), phase["where"], "yes" if phase["hideable"] else "no"]
        for phase in document["phases"]
    ]
    title = f"{document['method']}: {document['values']:,} values on {document['ranks']} ranks"
    yield plain_table(["collective", "size", "where", "behind the backward pass"], cells, title=title)
    least = ", at the most: its bytes depend on the gradient" if document["bytes_depend_on_values"] else ""
    often = "" if document["every"] == 1 else f", every {document['every']} steps"
    yield (
        f"a rank sends {format_size(document['sent_bytes'])}, {document['ratio']:.3g} times less than "
        f"float32{often}{least}"
    )
    work = document["work"]
    yield (
        f"codes {work['encoded_values']:,.0f} values in {work['encoded_messages']:g} messages, decodes "
        f"{work['decoded_values']:,.0f} in {work['decoded_messages']:g}"
    )
    yield (
        f"{work['flops']:,.0f} FLOPs in {work['calls']:g} calls beside; keeps "
        f"{document['state_bytes_per_parameter']:g} bytes a parameter between steps"
    )
    for name, meaning in document["options"].items():
        yield f"  {name}: {meaning}"
    yield f"accuracy: {document['accuracy']}"
