"""``lightloom onn calibrate``: chips with unknown errors, calibrated from their output powers."""

from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

from rich.table import Table

from lightloom.app.api.arguments import Natural
from lightloom.app.cli.onn.files import Mapping, device_errors, mapping_words, read_devices
from lightloom.app.cli.options import FigureFile, Options, Shown, draw
from lightloom.core.errors import ConfigError
from lightloom.core.fields import Count
from lightloom.core.results import Document, provenance
from lightloom.photonics.averaging.mapped import map_averager
from lightloom.photonics.averaging.networks import load_network, network_hash
from lightloom.photonics.devices import NonIdealities
from lightloom.photonics.meshes.calibration.calibrate import (
    OUTPUT_ORDERS,
    Conditions,
    random_mesh,
    try_calibration,
)
from lightloom.photonics.meshes.mapping import MeshMapping
from lightloom.photonics.tolerance import calibrate_averager
from lightloom.reports.console import facts_table, plain_table
from lightloom.reports.figures.photonics import calibration_figure
from lightloom.reports.progress import progress

_MOST_MODES = 64
"""Largest unitary: the fit's equations have 6 unknowns an interferometer, 12,096 at 64 modes."""
_WORDS = 20_000
"""Words behind the share that a network's servers receive right."""
_UNEXPLAINED = 3.0
"""Multiple of the detectors' noise from which on a fit has failed, or the chip has errors that a twin lacks."""
INVISIBLE = (
    "phases at the outputs (local oscillators or the next mesh set them)",
    "phases at the inputs, but relative to the coherent vectors sent in",
)
"""Errors that output powers do not show."""


def calibrate(
    network: Path | None = None,
    *,
    modes: Count = 8,
    chips: Count = 1,
    mapping: Mapping,
    phase_error: float = 0.1,
    coupler_error: float = 0.02,
    heater_spread: float = 0.01,
    devices: Annotated[partial[NonIdealities], Options(read_devices, without=("detector_noise",))],
    power_noise: float = 1e-3,
    unknown_offsets: bool = False,
    output_orders: Natural | None = None,
    drift: float = 0.0,
    aging: float = 0.0,
    settings: Count | None = None,
    seed: Natural = 0,
    figure: FigureFile = None,
) -> Shown:
    """Calibrate simulated chips with unknown errors from their output powers, and count the measurements.

    Args:
        network (NET.npz): A network: P, each layer and T are chips; without it random unitary matrices.
        modes: Of each random unitary matrix.
        chips: Random unitary matrices, each on a chip of its own.
        form: Of a network: economy, compact or svd, as in `onn map`; economy unless the file stores one.
        phase_error (RAD): Unknown offset of every phase, standard deviation; 0.1 is assumed.
        coupler_error (RAD): Mixing angle of every coupler; silicon: 0.01 to 0.02.
        heater_spread (SHARE): Of every heater's phase for a command, standard deviation; 0.01 is assumed. Fitted.
        loss (DB): Of every MZI; one loss for all is fitted.
        loss_spread (DB): Its standard deviation; not fitted.
        crosstalk (SHARE): Of a heater's phase that reaches each nearest heater; fitted.
        power_noise (SHARE): Of a power, as a share of the input power; 1e-3 is assumed.
        unknown_offsets: Phase offsets from a whole turn, found by sweeps first; random matrices.
        output_orders: Orders of the outputs to try where couplers cannot split so, 20.
        drift (RAD): Of every phase between two settings, standard deviation.
        aging (RAD): Of every phase afterwards; then 4 settings calibrate again.
        settings: Settings that are measured.
        seed: Of matrices, devices, settings and noise.
        figure: Draw the convergence and the errors (.svg, .png, .pdf).
    """
    how = devices(phase_error=phase_error, coupler_error=coupler_error, heater_spread=heater_spread)
    conditions = Conditions(
        power_noise=power_noise,
        drift=drift,
        aging=aging,
        settings=settings,
        unknown_offsets=unknown_offsets,
        output_orders=OUTPUT_ORDERS if output_orders is None else output_orders,
    )
    if network is not None and (unknown_offsets or output_orders is not None):
        option_name = "--unknown-offsets" if unknown_offsets else "--output-orders"
        raise ConfigError(f"{option_name}: for random matrices on one mesh each, not for a network")
    if how.thermal_crosstalk > 0.1:
        raise ConfigError(f"--crosstalk {how.thermal_crosstalk:g}: expected at most 0.1, settings cannot cancel more")
    if modes > _MOST_MODES:
        raise ConfigError(f"--modes {modes}: expected at most {_MOST_MODES}")
    chosen = mapping(network, MeshMapping())
    options = {**chosen.to_json(), "devices": asdict(how), "conditions": asdict(conditions)}
    loaded = load_network(network) if network is not None else None
    origin = provenance([options, network_hash(*loaded) if loaded else [modes, chips]], seed)
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
        "provenance": origin,
    }
    drawn = draw(
        figure, lambda: calibration_figure(document["chips"], power_noise, _title(document, network)), document
    )
    return Shown(document, _parts(document, network), {"drawn": drawn})


def _title(document: Document, network: Path | None) -> str:
    """Return a heading: the network if there is one, how many chips were calibrated, and with how many measured powers
    in all."""
    powers = sum(row["measurements"] for row in document["chips"])
    count = len(document["chips"])
    name = f"{network.name}: " if network is not None else ""
    return f"{name}{count} chip{'s' * (count > 1)} calibrated with {powers:,} powers"


def _parts(document: Document, network: Path | None) -> Iterator[Table | str]:
    """Yield the facts, a table with a row for each chip, and a line for each chip whose outputs are reordered or whose
    fit does not explain its powers."""
    conditions, rows = document["conditions"], document["chips"]
    facts = [
        ("mapping", mapping_words(document, network) if network is not None else f"{document['mesh']} meshes"),
        ("errors of devices", _errors(document)),
        ("noise of a power", f"{conditions['power_noise']:g} of the input power"),
        ("fitted", "offsets, couplers, heaters, one crosstalk, one loss"),
        *(("invisible", text) for text in INVISIBLE),
    ]
    if conditions["drift"]:
        facts.append(("drift", f"{conditions['drift']:g} rad between settings"))
    if "accuracy_after" in document:
        before, after = (100 * document[f"accuracy_{when}"] for when in ("before", "after"))
        words = f"of {document['words']:,} words at all servers, half of them near-equal; P and T calibrated too"
        facts.append(("averaged rightly", f"{before:.4f} % before, {after:.4f} % after, {words}"))
    yield facts_table(facts, title=_title(document, network))
    columns = ["chip", "signals", "MZIs", "settings", "powers", "error before", "after", "devices allow", "fit steps"]
    if conditions["aging"]:
        columns += [f"aged {conditions['aging']:g} rad", "calibrated again"]
    yield plain_table(columns, [_cells(row) for row in rows])
    for row in rows:
        if row["output_order"] != sorted(row["output_order"]):
            order = " ".join(map(str, row["output_order"]))
            yield (
                f"chip {row['name']}: as designed its couplers cannot split so; outputs in the order {order}, "
                "which receivers undo"
            )
        left = row["residuals"][-1]
        if left > _UNEXPLAINED * max(conditions["power_noise"], 1e-6):
            yield (
                f"chip {row['name']}: the twin does not explain the powers, they differ by {left:.2g}: more "
                "--settings, --unknown-offsets, or errors that are not fitted (drift, spread of loss)"
            )


def _errors(document: Document) -> str:
    """Return the errors of the devices in words; offsets that are wholly unknown take the place of the phases'
    error."""
    if not document["conditions"]["unknown_offsets"]:
        return device_errors(document["devices"])
    return f"phases wholly unknown, {device_errors({**document['devices'], 'phase_error': 0.0})}"


def _cells(row: Document) -> list[str]:
    """Return the cells of one chip: its sizes, its errors before and after (and what the devices allow), steps of the
    fit, and, where it aged, the errors then and after another calibration."""
    cells = [
        row["name"],
        f"{row['inputs']} to {row['outputs']}",
        f"{row['mzi_count']:,}",
        f"{row['settings']}",
        f"{row['measurements']:,}",
        *(f"{row[name]:.4f}" for name in ("error_before", "error_after", "error_limit")),
        f"{len(row['residuals']) - 1}",
    ]
    if row["error_aged"] is not None:
        cells += [f"{row[name]:.4f}" for name in ("error_aged", "error_renewed")]
    return cells
