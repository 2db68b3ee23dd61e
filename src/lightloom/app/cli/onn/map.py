"""``lightloom onn map``: the phases of a network's interferometers or a matrix's, the way back, and studies."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Annotated

import numpy as np

from lightloom.app.cli.onn.disturb import disturb, train_model
from lightloom.app.cli.onn.files import device_errors, mapping_words, percent, refuse_options
from lightloom.app.cli.onn.settings import (
    CalibrateSettings,
    ChipSettings,
    DisturbSettings,
    MapSettings,
    ModelSettings,
    SettingsFile,
    SettingTexts,
    settings_of,
)
from lightloom.app.cli.options import FigureFile, JsonFile, Shown, check_file, draw
from lightloom.core.array_files import read_npy
from lightloom.core.arrays import Column
from lightloom.core.errors import ConfigError, UnknownNameError
from lightloom.core.fields import Config, Count
from lightloom.core.files import write_atomically
from lightloom.core.results import Document, attributes, cells, content_hash, provenance
from lightloom.photonics.averaging.cascade import is_cascade, load_cascade
from lightloom.photonics.averaging.mapped import MappedAverager, cascade_matrices, map_averager, part_crossings
from lightloom.photonics.averaging.mapped import Part as AveragerPart
from lightloom.photonics.averaging.networks import (
    FunctionArguments,
    light_matrices,
    load_network,
    network_hash,
    unit_matrices,
)
from lightloom.photonics.chip.floorplan import FloorPlan, Rules, floor_plan, write_gds
from lightloom.photonics.chip.netlist import chip_netlist
from lightloom.photonics.chip.wavelengths import Dispersion, chip_matrix
from lightloom.photonics.meshes.calibration.calibrate import OUTPUT_ORDERS, Conditions, random_mesh, try_calibration
from lightloom.photonics.meshes.decompose import decompose
from lightloom.photonics.meshes.decompose import switch as circuit_switch
from lightloom.photonics.meshes.files import Part, check_belongs, load_phases, meshes_of, phases_document, save_phases
from lightloom.photonics.meshes.files import netlist as netlist_of
from lightloom.photonics.meshes.mapping import FORMS, MeshMapping, decibels, full_count, map_part
from lightloom.photonics.meshes.mesh import Mesh
from lightloom.photonics.tolerance import calibrate_averager
from lightloom.reports.console import Parts, facts_table, screen
from lightloom.reports.figures.photonics import calibration_figure, chain_figure, chip_figure, part_figure
from lightloom.reports.progress import progress

_UNITARY = "unitary"
_TOLERANCE = 1e-9
"""Relative difference up to which phases carry out the matrices that they are said to."""


_MOST_PORTS = 512


def map_to_meshes(
    source: Path | None = None,
    *,
    study: str | None = None,
    units: bool = False,
    phases: Path | None = None,
    switch: str | None = None,
    draws: Count | None = None,
    sweep: list[str] | None = None,
    settings: SettingsFile = None,
    set: SettingTexts = None,
    seed: int = 0,
    out: Annotated[Path | None, partial(check_file, endings=(".json", ".npz", ".gds"))] = None,
    netlist: JsonFile = None,
    figure: FigureFile = None,
    chain: FigureFile = None,
    all: bool = False,
) -> Shown:
    """Decompose matrices into meshes of interferometers; lay out, disturb or calibrate a chip.

    Example: `lightloom onn map net.npz --out phases.json`, or `lightloom onn map net.npz --study chip --out chip.gds`.

    Args:
        source (NET.npz|MATRIX.npy): A network, or a single matrix.
        study (STUDY): What else is done: ``chip`` lays out the whole averager. ``disturb`` fabricates its meshes many
            times and counts how often the average still comes out right. ``train`` trains a model on MNIST whose
            gradients are averaged on such devices. ``calibrate`` calibrates chips with unknown errors from their output
            powers; without a network those of random matrices.
        units: Map P and T of the averager too; in --study disturb they err, and words that servers receive count.
        phases (FILE): Check that the phases in this file are those of the network or matrix.
        switch (O,O,...): Instead of a file, use the meshes as a circuit switch from input i to the i-th of these
            outputs.
        draws: Fabrications behind each accuracy of --study disturb, 20 if not given.
        sweep (NAME=LOW..HIGH[:POINTS]): Accuracy against one of phase-error, coupler-error, loss, loss-spread,
            heater-spread, crosstalk, dac-bits, detector-noise, in --study disturb; repeatable. Steps are equal ratios,
            equal from 0.
        seed: Seed of devices, settings, noise or the training.
        out: Write all phases (.json or .npz), or with --study chip the layout (.gds, which needs the extra gds).
        netlist: Write SAX netlists of all meshes, or with --study chip of the whole chip (.json).
        figure: Draw the meshes of one layer, or what is studied (.svg, .png, .pdf).
        chain: Draw the whole network (.svg, .png, .pdf).
        all: Show every row, and everything that is assumed.

    ``settings`` is a YAML file of settings, and ``set`` are ``field=value`` texts that go before those of the file.

    Returns:
        The result to print: the mapping or the study; files that are asked for are written.

    Raises:
        UnknownNameError: no such study.
        ConfigError: options that the study does not take, or no file where one is needed.
    """
    given = {name: value for name, value in locals().items() if name not in ("source", "study", "settings", "set")}
    studies: dict[str | None, tuple[Callable[..., Shown], type[Config]]] = {
        None: (_meshes, MapSettings),
        "chip": (_chip, ChipSettings),
        "disturb": (disturb, DisturbSettings),
        "train": (train_model, ModelSettings),
        "calibrate": (calibrate, CalibrateSettings),
    }
    if study not in studies:
        raise UnknownNameError("study", str(study), filter(None, studies))
    function, kind = studies[study]
    taken = [*signature(function).parameters][2:]
    refuse_options(given, taken, f"--study {study}" if study else "a mapping without --study")
    if source is None and switch is None and study != "calibrate":
        raise ConfigError("give NET.npz or MATRIX.npy, or --switch")
    return function(source, settings_of(kind, settings, set), **{name: given[name] for name in taken})


def _meshes(
    source: Path | None,
    settings: MapSettings,
    units: bool,
    phases: Path | None,
    switch: str | None,
    out: Path | None,
    netlist: Path | None,
    figure: Path | None,
    chain: Path | None,
    all: bool,
) -> Shown:
    """Decompose the matrices of a network, or a single one, into meshes, write what is asked for, and return the result
    to print: the interferometers as mapped, as the full SVD and by economy, columns, largest gain and largest error, in
    all (those of a cascade's level 1 once for each group) and for each matrix; or, with ``phases``, check that this
    file has their phases.

    Args:
        source: network (.npz) or matrix (.npy); None with ``switch``.
        settings: form, kind of mesh and the layer that is drawn.
        units: whether P and T of the averager are mapped too.
        phases: file of phases to check; nothing is written then.
        switch: outputs of a circuit switch, counted from 0 and joined by commas, in the place of a file.
        out: file for the phases (.json or .npz).
        netlist: file for SAX netlists.
        figure: file for the picture of one layer's meshes, ``settings.layer``.
        chain: file for the picture of the whole network.
        all: whether every row is shown, else the first eight.

    Raises:
        ConfigError: options that exclude each other, an unreadable file, or a layer that does not exist.
    """
    form = settings.form
    if switch is not None:
        if source is not None or phases is not None or units or settings.components or form is not None:
            raise ConfigError("--switch takes no file, --phases, --units, components or form")
        form = _UNITARY
    if out is not None:
        check_file(out, (".json", ".npz"))
    origin_path = Path("switch") if source is None else source
    chosen = _chosen(origin_path, form, settings)
    arguments, matrices, groups = _read(origin_path, units) if switch is None else _permutation(switch)
    drawn = _drawn_name(settings.layer, matrices)
    parts = _mapped(matrices, chosen, form == _UNITARY)
    mapped = chosen.to_json() | ({"form": _UNITARY} if form == _UNITARY else {})
    if phases is not None:
        return _check(phases, parts, origin_path, [mapped["form"], chosen.mesh])
    rows = [
        _map_row(name, part, matrices[name]) | {"copies": groups if name.startswith("level 1") else 1}
        for name, part in parts.items()
    ]
    counts = ("mzi_count", "mzi_count_paper", "mzi_count_economy")
    document = {
        "schema": "lightloom.onn-map/1",
        **mapped,
        "crossings": _crossings(parts) if groups == 1 else None,
        **{name: sum(row[name] * row["copies"] for row in rows) for name in counts},
        "columns": sum(row["columns"] for row in rows),
        "largest_gain_db": max(row["gain_db"] for row in rows),
        "largest_error": max(row["largest_error"] for row in rows),
        "parts": rows,
        "provenance": provenance([*mapped.values(), content_hash(phases_document(parts))]),
    }
    if out is not None:
        save_phases(parts, out)
    if netlist is not None:
        named = [(name, *place) for name, part in parts.items() for place in meshes_of(part).items()]
        netlists = {f"{name}: {place}": netlist_of(mesh) for name, place, mesh in named}
        write_atomically(netlist, json.dumps({"schema": "lightloom.netlists/1", "netlists": netlists}) + "\n")
    draw(figure, lambda: part_figure(parts[drawn], drawn), document)
    title = "" if arguments is None else f"{arguments.servers} servers, {arguments.bits} bits"
    draw(chain, lambda: chain_figure(parts, title), document)
    written = {"phases": out, "netlists": netlist, "drawn": figure, "network drawn": chain}
    return Shown(document, _map_parts(document, origin_path, all), written)


def _read(path: Path, units: bool) -> tuple[FunctionArguments | None, dict[str, Column], int]:
    """Return (arguments of the function, matrices to map, number of chips of level 1).

    The arguments are None for a matrix or a cascade; matrices are by name, in the order of the light: ``matrix`` of a
    .npy file, ``layer 1`` and so on of a network, ``level 1 layer 1`` and so on of a cascade, with ``units`` also P,
    which averages digits in front of the network, and T, which divides its result among servers (``level 1 P`` and
    ``level 2 P`` of a cascade). There is 1 chip without a cascade. ConfigError for a file that cannot be read, or
    ``units`` of a matrix.
    """
    if path.suffix == ".npy":
        if units:
            raise ConfigError("--units: a single matrix has no P and T, give a network (.npz)")
        return None, {"matrix": read_npy(path)}, 1
    if is_cascade(path):
        cascade = load_cascade(path)
        return None, cascade_matrices(cascade, units), cascade.groups
    network, arguments = load_network(path)
    layers = {f"layer {index}": matrix for index, matrix in enumerate(light_matrices(network), 1)}
    if not units:
        return arguments, layers, 1
    around = unit_matrices(arguments)
    return arguments, {"P": around["P"], **layers, "T": around["T"]}, 1


def _permutation(text: str) -> tuple[None, dict[str, Column], int]:
    """Return (None, the matrix by the name ``matrix``, 1): the 0-1 matrix of a circuit switch from input i to the i-th
    of the outputs that ``text`` lists (OptINC, section II-A), and the one chip that it is on. Its rows are outputs, its
    columns inputs, both counted from 0.

    ConfigError unless each output from 0 on is named once, or for more than 512 ports.
    """
    try:
        outputs = [int(part) for part in text.split(",")]
    except ValueError as error:
        raise ConfigError(f"--switch {text!r}: expected whole numbers, e.g. 2,0,1") from error
    if len(outputs) > _MOST_PORTS:
        raise ConfigError(f"--switch of {len(outputs)} ports: expected at most {_MOST_PORTS}")
    if sorted(outputs) != list(range(len(outputs))):
        raise ConfigError(f"--switch {text!r}: expected each of 0 to {len(outputs) - 1} once")
    return None, {"matrix": np.abs(circuit_switch(outputs).matrix()).round()}, 1


def _drawn_name(layer: str | None, matrices: dict[str, Column]) -> str:
    """Return the name of the matrix that is drawn: the one that ``layer`` names, in full (``P``, ``level 1 layer 2``)
    or by a layer's number from 1 (not of a cascade, whose layers are named in full), or with None that of the first
    layer (of level 1), or a single matrix. ``matrices`` are those of the source by name. ConfigError for a layer that
    does not exist, even if nothing is drawn."""
    if layer is None:
        return next(name for name in matrices if name.endswith("layer 1") or name == "matrix")
    name = layer if layer in matrices else f"layer {layer}"
    if name not in matrices:
        known = ", ".join(name.removeprefix("layer ") for name in matrices)
        units = "" if "T" in matrices else ", or P or T with --units"
        raise ConfigError(f"layer = {layer!r}: expected one of {known}{units}")
    return name


def _crossings(parts: dict[str, Part]) -> int:
    """Return the crossings of waveguides in all parts together; single meshes (of unitary matrices) have none."""
    matrices = [part for part in parts.values() if not isinstance(part, Mesh)]
    return part_crossings(matrices) if matrices else 0


def _chosen(source: Path, form: str | None, settings: MapSettings) -> MeshMapping:
    """Return the mapping that the settings state, completed by the one that the file ``source`` stores, or else by the
    default (``economy``, rectangular meshes, a gain for each output, no components apart); an approximating form,
    ``sigma-u``, is allowed. For ``form`` = ``unitary``, where each matrix becomes one mesh, neither the file's mapping
    nor the settings' ``components`` count, and the form of the result means nothing.

    UnknownNameError for another form; ConfigError for components of a unitary matrix.
    """
    if form is not None and form not in (*FORMS, _UNITARY):
        raise UnknownNameError("form", form, (*FORMS, _UNITARY))
    if form != _UNITARY:
        return settings.mapping(source, MeshMapping(), exact=False)
    if settings.components:
        raise ConfigError("components = True: a unitary matrix becomes one mesh: expected svd, economy or compact")
    return settings.model_copy(update={"form": None, "components": None}).mapping(None, MeshMapping())


def _mapped(matrices: dict[str, Column], mapping: MeshMapping, unitary: bool) -> dict[str, Part]:
    """Return the meshes of each matrix, by its name; with ``unitary`` one mesh each, without attenuators. P and T, the
    matrices around a network (names that end so), get ``svd`` where the form of ``mapping`` approximates
    (``sigma-u``)."""
    parts: dict[str, Part] = {}
    with progress("Meshes", len(matrices)) as advance:
        for name, matrix in advance.over(matrices.items()):
            # The paper approximates the network alone, not P and T.
            own = mapping.around() if name.split()[-1] in ("P", "T") else mapping
            parts[name] = decompose(matrix, mapping.mesh) if unitary else map_part(matrix, own)
    return parts


def _map_row(name: str, part: Part, matrix: Column) -> Document:
    """Return the row of one mapped matrix: ``name``, ``outputs`` and ``inputs`` (signals), interferometers as mapped
    (``mzi_count``), as the full SVD (``mzi_count_paper``) and by economy (``mzi_count_economy``), depth in ``columns``,
    ``gain_db``, the largest gain of an amplifier behind an output (0 of a single mesh), and ``largest_error``, the
    largest difference of an entry between meshes and matrix relative to the matrix's largest entry. ``part`` is the
    mapping of ``matrix``."""
    outputs, inputs = matrix.shape
    return {
        "name": name,
        "outputs": outputs,
        "inputs": inputs,
        "mzi_count": part.mzis,
        "mzi_count_paper": full_count(outputs, inputs),
        "mzi_count_economy": full_count(outputs, inputs, "economy"),
        "columns": part.layout.depth if isinstance(part, Mesh) else part.depth,
        "gain_db": 0.0 if isinstance(part, Mesh) else decibels(part.gain),
        "largest_error": float(np.abs(part.matrix() - matrix).max() / max(float(np.abs(matrix).max()), 1e-300)),
    }


def _check(path: Path, parts: dict[str, Part], like: Path, options: list[str]) -> Shown:
    """Return the result to print, that the phases in the file ``path`` are those of the matrices in ``like``, with
    their number of interferometers and the largest difference. The document has ``mzi_count`` and
    ``largest_difference``, relative to the largest entry of the same matrix. ConfigError for phases of other meshes,
    and of other matrices on equal meshes, off by more than 1e-9 of a matrix's largest entry.

    ``parts`` are the meshes of the matrices by name; ``options`` are only hashed, for the provenance, and ``like`` is
    only named in messages.
    """
    phases = load_phases(path)
    off = check_belongs(phases, parts, repr(str(path)))
    if not off <= _TOLERANCE:
        raise ConfigError(f"{str(path)!r}: phases of other matrices than {str(like)!r}, off by up to {off:.2g}")
    mzis = sum(part.mzis for part in phases.values())
    origin = provenance([*options, *(content_hash(phases_document(each)) for each in (phases, parts))])
    document = {"schema": "lightloom.onn-phases/1", "mzi_count": mzis, "largest_difference": off, "provenance": origin}
    told = f"{path}: phases of {mzis:,} MZIs, those of {like}; largest difference {off:.2g}"
    return Shown(document, [told], bare=True)


def _map_parts(document: Document, source: Path, all: bool) -> Parts:
    """Return what the terminal shows of mapped matrices: interferometers and columns in all, crossings if components
    have meshes of their own, and the largest error; a row for each matrix with its signals, interferometers, columns,
    gain in dB and largest error, the first eight unless ``all``; and, but for unitary matrices, the interferometers in
    the forms ``svd`` and ``economy`` and the matrix with the largest gain."""
    parts, form = document["parts"], document["form"]
    counted = document["components"] and document["crossings"] is not None
    crossed = f"; {document['crossings']:,} crossings of waveguides" if counted else ""
    forms = {} if form == _UNITARY else {"svd": document["mzi_count_paper"], "economy": document["mzi_count_economy"]}
    strongest, copies = max(parts, key=lambda row: row["gain_db"]), any(row["copies"] > 1 for row in parts)
    columns = "part: {name} | signals: {inputs} to {outputs} | interferometers: {mzi_count:,} | columns: {columns:,} | "
    columns += "gain: {gain_db:.1f} dB | largest error: {largest_error:.1e}"
    return screen(
        f"{source} on {document['mesh']} meshes of interferometers, form {form}",
        [
            f"{document['mzi_count']:,} interferometers in {document['columns']:,} columns{crossed}",
            f"The matrices differ by at most {document['largest_error']:.1e} of their largest entry.",
        ],
        cells(columns + (" | chips: {copies}" if copies else ""), parts),
        all=all,
        what_if=[f"form {name}: {count:,} interferometers" for name, count in forms.items() if name != form],
        limit=f"{strongest['name']} needs the largest gain, {strongest['gain_db']:.1f} dB" if forms else "",
        more=[*(f"--study {study}" for study in ("chip", "disturb", "calibrate") if forms), "--figure mesh.png"],
    )


# ``lightloom onn map --study chip``: a whole averager as a netlist for SAX, a floor plan and a layout.

_DETUNED = (0.1e-9, 0.4e-9, 0.8e-9, 1.6e-9)
"""Distances from the chip's wavelength in metres: 0.8 nm is 100 GHz near 1550 nm."""


def _chip(
    network: Path, settings: ChipSettings, out: Path | None, netlist: Path | None, figure: Path | None, all: bool
) -> Shown:
    """Lay out a whole averager (P in front of the network, its layers with gains and units, T behind it): return the
    result to print, with footprint, heaters, ports and errors beside its wavelength, and write layout (``out``, .gds),
    ``netlist`` and ``figure`` where they are asked for. The mapping is the settings', else the file's, else
    ``compact``; ``all`` shows a row for each part, the first eight otherwise, and what is assumed.

    Raises:
        ConfigError: a layout that does not end in .gds, a file that cannot be read, or a mapping that only approximates
            the matrices.
    """
    if out is not None:
        check_file(out, (".gds",))
    rules, dispersion = Rules(pitch=settings.pitch), Dispersion()
    chosen = settings.mapping(network, MeshMapping(form="compact"))
    weights, arguments = load_network(network)
    averager = map_averager(weights, arguments, chosen)
    plan = floor_plan(averager, rules)
    options = chosen.to_json()
    origin = provenance([network_hash(weights, arguments), options, asdict(rules), asdict(dispersion)])
    document = _document(averager, plan, dispersion) | options | {"provenance": origin}
    if out is not None:
        write_gds(plan, out)
    if netlist is not None:
        chip = chip_netlist(averager, dispersion, column_length=rules.column * 1e-6)
        content = {"schema": "lightloom.chip-netlist/1", "netlist": chip, "provenance": origin}
        write_atomically(netlist, json.dumps(content) + "\n")
    drawn = draw(figure, lambda: chip_figure(plan, _title(document, network)), document)
    written = {"netlist": netlist, "layout": out, "drawn": drawn}
    return Shown(document, _chip_parts(document, network, averager, all), written)


def _document(averager: MappedAverager, plan: FloorPlan, dispersion: Dispersion) -> Document:
    """Return the chip's document but for mapping and provenance: ``mzi_count`` and ``columns``; numbers of ``heaters``,
    ``units`` (gains, in layers with their units), ``crossings``, and ``inputs`` and ``outputs`` of ``ports``; its floor
    plan (``width_um``, ``height_um``, ``area_mm2``, ``measures_um``); ``dispersion``; ``detuned``, the ``error`` of its
    matrix (the norm of the difference over the matrix's, Frobenius norms) 0.1, 0.4, 0.8 and 1.6 nm above its wavelength
    (``metres``), a delay common to all paths left out; and ``parts``, the rows of :func:`_chip_row`."""
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
        **attributes(averager, "mzi_count=mzis columns=depth"),
        "heaters": plan.heaters,
        "units": len(plan.units),
        "crossings": plan.crossings,
        "ports": {"inputs": len(plan.inputs), "outputs": len(plan.outputs)},
        **attributes(plan, "width_um=width height_um=height area_mm2=area"),
        "measures_um": asdict(plan.rules),
        "dispersion": asdict(dispersion),
        "detuned": detuned,
        "parts": [_chip_row(name, part) for name, part in averager.parts.items()],
    }


def _chip_row(name: str, part: AveragerPart) -> Document:
    """Return the row of one part of an averager on the chip: ``name``, ``inputs`` and ``outputs`` (signals), number of
    ``blocks``, ``mzi_count``, ``columns``, ``least_gain_db`` and ``largest_gain_db`` of its outputs' amplifiers."""
    levels = [decibels(float(gain)) for gain in part.gains]
    shape = {"name": name, "inputs": part.shape[1], "outputs": part.shape[0], "blocks": len(part.blocks)}
    sizes = attributes(part, "mzi_count=mzis columns=depth")
    return {**shape, **sizes, "least_gain_db": min(levels), "largest_gain_db": max(levels)}


def _title(document: Document, network: Path) -> str:
    """Return a heading: the network, its interferometers, and width and height of the chip in mm."""
    width, height = document["width_um"] / 1000, document["height_um"] / 1000
    return f"{network.name}: {document['mzi_count']:,} interferometers on {width:.1f} mm x {height:.2f} mm"


def _chip_parts(document: Document, network: Path, averager: MappedAverager, all: bool) -> Parts:
    """Yield what the terminal shows of a chip: its area, size and interferometers, and its heaters, ports, gains with
    units, and crossings; a row for each of its first eight parts (P, layers, T), for each of all with ``all``; its area
    at half and twice the pitch; and the error of its matrix 0.1 nm off its wavelength. With ``all`` also the mapping,
    the measures and the dispersion, both marked as assumptions, and the error at all four distances (``detuned`` of the
    document)."""
    measures, dispersion = document["measures_um"], document["dispersion"]
    pitch, detuned = measures["pitch"], {row["metres"] * 1e9: row["error"] for row in document["detuned"]}
    nearest = min(detuned)
    counts = "{heaters:,} heaters; {ports[inputs]} ports in, {ports[outputs]} out; {units:,} gains and units; "
    counts += "{crossings:,} crossings"
    size = f"{document['width_um'] / 1000:.1f} x {document['height_um'] / 1000:.2f} mm"
    areas = {um: floor_plan(averager, Rules(pitch=um)).area for um in (pitch / 2, 2 * pitch)}
    columns = "part: {name} | signals: {inputs} to {outputs} | blocks: {blocks} | interferometers: {mzi_count:,} | "
    columns += "columns: {columns:,} | gains, dB: {least_gain_db:.1f} to {largest_gain_db:.1f}"
    yield from screen(
        f"The chip of {network}: P, every layer with its gains and units, T, at a pitch of {pitch:g} µm",
        [
            f"{document['area_mm2']:.1f} mm², {size}: {document['mzi_count']:,} interferometers",
            counts.format(**document),
        ],
        cells(columns, document["parts"]),
        all=all,
        what_if=[f"pitch {um:g} µm: {area:.1f} mm²" for um, area in areas.items()],
        limit=f"{nearest:g} nm off its wavelength the matrix errs by {detuned[nearest]:.3g} of its norm; "
        "the area is without lasers, pads, fibres and electronics",
        more=["--all", "--figure chip.png", "--out chip.gds", "--netlist chip.json"],
    )
    if all:
        lengths = ", ".join(f"{name} {value:g}" for name, value in measures.items())
        slope = f"couplers {dispersion['coupler_slope'] * 1e-9:g} rad/nm"
        errors = ", ".join(f"{metres:g} nm {error:.3f}" for metres, error in detuned.items())
        dispersed = f"{slope}, group index {dispersion['group_index']:g} (assumptions)"
        facts = {"mapping": mapping_words(document, network), "measures, µm": f"{lengths} (assumptions)"}
        yield facts_table(
            (facts | {"dispersion": dispersed, "error beside its wavelength": f"{errors} (units linear)"}).items()
        )


# ``lightloom onn map --study calibrate``: chips with unknown errors, calibrated from their output powers.

_WORDS = 20_000
"""Words behind the share that a network's servers receive right."""
_UNEXPLAINED = 3.0
"""Multiple of the detectors' noise from which on a fit has failed, or the chip has errors that a twin lacks."""
INVISIBLE = (
    "phases at the outputs (local oscillators or the next mesh set them)",
    "phases at the inputs, but relative to the coherent vectors sent in",
)
"""Errors that output powers do not show."""


def calibrate(network: Path | None, settings: CalibrateSettings, seed: int, figure: Path | None, all: bool) -> Shown:
    """Calibrate simulated chips with unknown errors from their output powers, and return the result to print, with
    errors of the matrices, relative to their norm, before and after and the number of measurements: of P, each layer
    and T of a network, else of random unitary matrices. For a network the result also has the share of 20,000 words
    that its servers receive right before and after.

    Args:
        network: file of a network, or None for random matrices.
        settings: errors of devices, conditions of the measurements, and numbers of chips and modes of random matrices.
        seed: of devices, settings and noise, at least 0; the n-th random matrix, from 0, has ``seed`` + n.
        figure: file for a picture of residuals over the steps of the fits, and of errors before and after; None draws
            nothing.
        all: whether every row and what is fitted is shown, else the first eight rows.

    Raises:
        ConfigError: a setting out of range, a mapping that only approximates, or, with a network, the settings
            ``unknown_offsets`` or ``output_orders``, which are for random matrices.
    """
    how, modes, chips, orders = settings.non_idealities(), settings.modes, settings.chips, settings.output_orders
    power_noise = settings.power_noise
    if seed < 0:
        raise ConfigError(f"--seed {seed}: expected at least 0")
    conditions = Conditions(
        power_noise=power_noise,
        drift=settings.drift,
        aging=settings.aging,
        settings=settings.measured_settings,
        unknown_offsets=settings.unknown_offsets,
        output_orders=OUTPUT_ORDERS if orders is None else orders,
    )
    if network is not None and (settings.unknown_offsets or orders is not None):
        name = "unknown_offsets" if settings.unknown_offsets else "output_orders"
        raise ConfigError(f"{name} = {getattr(settings, name)}: for random matrices on one mesh each, not a network")
    if how.thermal_crosstalk > 0.1:
        raise ConfigError(f"crosstalk = {how.thermal_crosstalk:g}: expected at most 0.1, settings cannot cancel more")
    chosen = settings.mapping(network, MeshMapping())
    options = {**chosen.to_json(), "devices": asdict(how), "conditions": asdict(conditions)}
    loaded = load_network(network) if network is not None else None
    with progress("Steps of the fits", None) as advance:
        if loaded is None:
            rows = []
            for chip in range(chips):
                ideal = random_mesh(modes, chosen.mesh, seed + chip)
                rows.append({"name": str(chip), **try_calibration(ideal, how, conditions, seed + chip, advance).row()})
            found: Document = {"chips": rows}
        else:
            mapped = map_averager(*loaded, chosen)
            found = calibrate_averager(mapped, how, conditions, words=_WORDS, seed=seed, advance=advance)
    document = {
        "schema": "lightloom.onn-calibrate/1",
        **options,
        **found,
        "invisible": list(INVISIBLE),
        "provenance": provenance([options, network_hash(*loaded) if loaded else [modes, chips]], seed),
    }
    drawn = draw(
        figure,
        lambda: calibration_figure(document["chips"], power_noise, _chips_title(document, network)),
        document,
    )
    return Shown(document, _chips_parts(document, network, all), {"drawn": drawn})


def _chips_title(document: Document, network: Path | None) -> str:
    """Return a heading: the network if there is one, how many chips were calibrated, and with how many measured powers
    in all."""
    powers = sum(row["measurements"] for row in document["chips"])
    count = len(document["chips"])
    name = f"{network.name}: " if network is not None else ""
    return f"{name}{count} chip{'s' * (count > 1)} calibrated with {powers:,} powers"


def _chips_parts(document: Document, network: Path | None, all: bool) -> Parts:
    """Yield what the terminal shows of calibrated chips: the answer (the largest error of a matrix before and after,
    and of a network the share of words averaged rightly) with a row for each of the first eight chips: signals,
    interferometers, measured settings and powers, error before and after, with aging also aged and calibrated again;
    then the error that the devices allow and the first two remarks (on fits that failed and on reordered outputs). With
    ``all`` every row and remark, the mapping, noise and drift, what is fitted, and what powers cannot show."""
    conditions, rows = document["conditions"], document["chips"]
    before, after, allowed = (max(row[f"error_{when}"] for row in rows) for when in ("before", "after", "limit"))
    best = [f"error of a matrix at most {after:.3g} after calibration, {before:.3g} before"]
    if "accuracy_after" in document:
        ends = [percent(document[f"accuracy_{when}"]) for when in ("after", "before")]
        best.insert(0, f"{ends[0]} of {document['words']:,} words averaged rightly after calibration, {ends[1]} before")
    columns = "chip: {name} | signals: {inputs} to {outputs} | MZIs: {mzi_count:,} | settings: {settings} | powers: "
    columns += "{measurements:,} | before: {error_before:.4f} | after: {error_after:.4f}"
    if conditions["aging"]:
        columns += " | aged: {error_aged:.4f} | again: {error_renewed:.4f}"
    remarks = list(_calibration_remarks(rows, max(conditions["power_noise"], 1e-6)))
    yield from screen(
        f"{_chips_title(document, network)}; errors: {_calibration_errors(document)}",
        best,
        cells(columns, rows),
        all=all,
        legend="MZIs: interferometers; before, after: error of the matrix, relative",
        limit="; ".join([f"the devices allow an error of {allowed:.2g}", *(remarks if all else remarks[:2])]),
        more=["--all", "--set aging=0.02", "--set power_noise=1e-4", "--figure calibration.png"],
    )
    if all:
        facts = {
            "mapping": f"{document['mesh']} meshes" if network is None else mapping_words(document, network),
            "noise of a power": f"{conditions['power_noise']:g} of the input power",
            "drift": f"{conditions['drift']:g} rad between settings",
            "fitted": "offsets, couplers, heaters, one crosstalk, one loss",
            "invisible": "; ".join(INVISIBLE),
        }
        yield facts_table(facts.items())


def _calibration_remarks(rows: list[Document], power_noise: float) -> Iterator[str]:
    """Yield one remark on all chips whose fit does not explain their powers, the root mean square residual after its
    last step being more than three times ``power_noise`` (both shares of the input power), and one on each chip with
    reordered outputs. ``rows`` have the ``name``, ``residuals`` and ``output_order`` of each chip."""
    left = {row["name"]: row["residuals"][-1] for row in rows if row["residuals"][-1] > _UNEXPLAINED * power_noise}
    if left:
        yield (
            f"the twin does not explain the powers of {', '.join(left)}, off by up to {max(left.values()):.2g}: "
            "more measured_settings, unknown_offsets, or errors that are not fitted (drift, spread of loss)"
        )
    orders = {row["name"]: row["output_order"] for row in rows if row["output_order"] != sorted(row["output_order"])}
    for name, order in orders.items():
        yield f"couplers of {name} cannot split as designed: outputs in the order {' '.join(map(str, order))}"


def _calibration_errors(document: Document) -> str:
    """Return the errors of the document's ``devices`` in words; where its ``conditions`` say that phase offsets are
    wholly unknown, that takes the place of the phases' error."""
    if not document["conditions"]["unknown_offsets"]:
        return device_errors(document["devices"])
    return f"phases wholly unknown, {device_errors({**document['devices'], 'phase_error': 0.0})}"
