"""``lightloom catalog parts``: every component with its price, its watts and its lifetime."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table

from lightloom.cli.output import print_result
from lightloom.core.provenance import provenance
from lightloom.core.results import Document
from lightloom.parts.figure import EnergyPerBit, Figure, range_text
from lightloom.parts.load import load_part, names
from lightloom.parts.part import FIGURES, KINDS, Part
from lightloom.reports.console import plain_table


def list_parts(as_json: bool) -> None:
    """Print all components of the catalog, by kind."""
    components = sorted((load_part(name) for name in names()), key=lambda part: (KINDS.index(part.kind), part.name))
    rows = [{**component.model_dump(mode="json"), "missing": _missing(component)} for component in components]
    document: Document = {"schema": "lightloom.parts/1", "parts": rows, "provenance": provenance(rows)}
    print_result(document, as_json, _tables(components))


def _missing(component: Part) -> list[str]:
    return [text for name in FIGURES if (text := component.missing(name)) is not None]


def _tables(components: list[Part]) -> Iterator[str | Table]:
    for kind in dict.fromkeys(component.kind for component in components):
        rows = [
            (
                component.name,
                _shown(component.dollars),
                _shown(component.figure("static_power")),
                _energy(component),
                _shown(component.mtbf),
            )
            for component in components
            if component.kind == kind
        ]
        columns = ("part", "price", "power, busy or idle", "energy", "MTBF")
        yield plain_table(columns, rows, title=kind, left=columns)
        yield ""
    yield "energy: of a bit on a full link, where a part has a rate; of load, what every bit adds to the static power"
    yield "≤, ≥: a limit is stated in place of a value, such as a rated power"
    yield "* an assumption: what a vendor claims, an excerpt says or nothing published confirms. ? no source"
    yield "lightloom catalog NAME prints a part with the source of each figure"


def _shown(figure: Figure | None) -> str:
    if figure is None:
        return "?"
    year = f" ({figure.year})" if figure.year else ""
    limit = {"most": "≤ ", "least": "≥ ", None: ""}[figure.bound]
    return f"{limit}{range_text(figure.value, figure.least, figure.most, figure.unit)}{year}{'*' * figure.assumed}"


def _energy(component: Part) -> str:
    """Return the energy of a bit: what is drawn besides the static power, or that over the bits of a full link."""
    dynamic = component.dynamic_energy
    if dynamic is not None and dynamic.value > 0:
        return f"{_shown(dynamic)} of load"
    power, rate = component.static_power, component.rate
    if power is None or rate is None or power.value == 0 or component.kind in ("board", "host"):
        return ""
    low, value, high = (watts / (8 * rate) for watts in (power.least, power.value, power.most))
    return range_text(value, low, high, EnergyPerBit.unit) + "*" * power.assumed
