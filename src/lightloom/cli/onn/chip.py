"""``lightloom onn chip``: a whole averager as a netlist for SAX, a floor plan and a layout."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
from rich.table import Table

from lightloom.cli.onn.mapping import chosen_mapping, mapping_words
from lightloom.cli.options import Components, Gains, Json, MeshKind, Network, figure_option, option
from lightloom.cli.output import check_outputs, print_result
from lightloom.core.errors import ConfigError
from lightloom.core.files import write_atomically
from lightloom.core.provenance import provenance, provenance_line
from lightloom.core.results import Document
from lightloom.photonics.averaging.mapped_averager import map_averager
from lightloom.photonics.averaging.realised.files import load_network, network_hash
from lightloom.photonics.chip import chip_matrix, chip_netlist
from lightloom.photonics.chip.floorplan import Rules, floor_plan
from lightloom.photonics.dispersion import Dispersion
from lightloom.photonics.meshes import MappedBlocks, MeshMapping, decibels
from lightloom.reports.console import facts_table, plain_table
from lightloom.reports.figures.base import save

if TYPE_CHECKING:
    from lightloom.photonics.averaging.mapped_averager import MappedAverager, Part
    from lightloom.photonics.chip.floorplan import FloorPlan

_DETUNED = (0.1e-9, 0.4e-9, 0.8e-9, 1.6e-9)
"""Distances from the chip's wavelength in metres: 0.8 nm is 100 GHz near 1550 nm."""
_Form = Annotated[str | None, option("economy, compact or svd, as in `onn map`; compact unless the file stores one.")]


def chip(
    *,
    network: Network,
    form: _Form = None,
    mesh: MeshKind = None,
    gains: Gains = None,
    components: Components = None,
    pitch: Annotated[float, option("Of neighbouring waveguides; an assumption.", "UM")] = Rules().pitch,
    netlist: Annotated[Path | None, option("Write the netlist of the whole chip for SAX (.json).")] = None,
    gds: Annotated[Path | None, option("Write the layout (.gds); needs the extra gds.")] = None,
    figure: Annotated[Path | None, figure_option("Draw the floor plan")] = None,
    as_json: Json = False,
) -> None:
    """Lay out a whole averager (P, layers, gains, units, T): footprint, heaters, ports, netlist, GDS."""
    given = {"form": form, "mesh": mesh, "gains": gains, "components": components}
    for path, ending in ((netlist, ".json"), (gds, ".gds")):
        if path is not None and path.suffix != ending:
            raise ConfigError(f"{str(path)!r}: expected a name that ends in {ending}")
    check_outputs([figure], [netlist, gds])
    rules, dispersion = Rules(pitch=pitch), Dispersion()
    mapping = chosen_mapping(network, MeshMapping(form="compact"), given)
    weights, arguments = load_network(network)
    averager = map_averager(weights, arguments, mapping)
    plan = floor_plan(averager, rules)
    options = mapping.to_json()
    origin = provenance([network_hash(weights, arguments), options, asdict(rules), asdict(dispersion)])
    document = _document(averager, plan, dispersion) | options | {"provenance": origin}
    if gds is not None:
        from lightloom.photonics.chip.gds import write_gds

        write_gds(plan, gds)
    if netlist is not None:
        content = {
            "schema": "lightloom.chip-netlist/1",
            "netlist": chip_netlist(averager, dispersion, column_length=rules.column * 1e-6),
            "provenance": origin,
        }
        write_atomically(netlist, json.dumps(content) + "\n")
    if figure is not None:
        from lightloom.reports.onn.chip import chip_figure

        save(chip_figure(plan, _title(document, network)), figure, provenance_line(origin))
    print_result(document, as_json, _parts(document, network), {"netlist": netlist, "layout": gds, "drawn": figure})


def _document(averager: MappedAverager, plan: FloorPlan, dispersion: Dispersion) -> Document:
    wavelength = dispersion.wavelength
    ideal = chip_matrix(averager, wavelength, dispersion)
    detuned = []
    for distance in _DETUNED:
        matrix = chip_matrix(averager, wavelength + distance, dispersion)
        # A delay common to all paths is no error.
        matrix = matrix * np.exp(-1j * np.angle(np.vdot(ideal, matrix)))
        detuned.append({"metres": distance, "error": float(np.linalg.norm(matrix - ideal) / np.linalg.norm(ideal))})
    return {
        "schema": "lightloom.onn-chip/1",
        "mzi_count": averager.mzis,
        "columns": averager.depth,
        "heaters": plan.heaters,
        "units": len(plan.units),
        "crossings": plan.crossings,
        "ports": {"inputs": len(plan.inputs), "outputs": len(plan.outputs)},
        "width_um": plan.width,
        "height_um": plan.height,
        "area_mm2": plan.area,
        "measures_um": asdict(plan.rules),
        "dispersion": asdict(dispersion),
        "detuned": detuned,
        "parts": [_row(name, part) for name, part in averager.parts.items()],
    }


def _row(name: str, part: Part) -> Document:
    levels = [decibels(float(gain)) for gain in part.gains]
    return {
        "name": name,
        "inputs": part.shape[1],
        "outputs": part.shape[0],
        "blocks": len(part.blocks) if isinstance(part, MappedBlocks) else 1,
        "mzi_count": part.mzis,
        "columns": part.depth,
        "least_gain_db": min(levels),
        "largest_gain_db": max(levels),
    }


def _title(document: Document, network: Path) -> str:
    width, height = document["width_um"] / 1000, document["height_um"] / 1000
    return f"{network.name}: {document['mzi_count']:,} interferometers on {width:.1f} mm x {height:.2f} mm"


def _parts(document: Document, network: Path) -> Iterator[Table]:
    """The facts, and a row for each part."""
    measures, dispersion = document["measures_um"], document["dispersion"]
    lengths = ", ".join(f"{name} {value:g}" for name, value in measures.items())
    errors = ", ".join(f"{row['metres'] * 1e9:g} nm {row['error']:.3f}" for row in document["detuned"])
    facts = [
        ("mapping", mapping_words(document, network)),
        ("footprint", f"{document['area_mm2']:.1f} mm², without lasers, pads, fibres and electronics"),
        ("heaters", f"{document['heaters']:,}"),
        ("ports", f"{document['ports']['inputs']} in, {document['ports']['outputs']} out"),
        ("gains and units", f"{document['units']:,}"),
        ("crossings", f"{document['crossings']:,}"),
        ("measures, µm", f"{lengths} (assumptions)"),
        (
            "dispersion",
            f"couplers {dispersion['coupler_slope'] * 1e-9:g} rad/nm, group index {dispersion['group_index']:g} "
            "(assumptions)",
        ),
        ("error beside its wavelength", f"{errors} (units linear)"),
    ]
    yield facts_table(facts, title=_title(document, network))
    cells = [
        [
            row["name"],
            f"{row['inputs']} to {row['outputs']}",
            f"{row['blocks']}",
            f"{row['mzi_count']:,}",
            f"{row['columns']:,}",
            f"{row['least_gain_db']:.1f} to {row['largest_gain_db']:.1f}",
        ]
        for row in document["parts"]
    ]
    yield plain_table(["part", "signals", "blocks", "MZIs", "columns", "gains, dB"], cells)
