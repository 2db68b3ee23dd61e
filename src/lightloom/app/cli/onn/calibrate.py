"""``lightloom onn calibrate``: chips with unknown errors, calibrated from their output powers."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from lightloom.app.cli.onn.disturb import device_errors
from lightloom.app.cli.onn.files import chosen_mapping, mapping_words
from lightloom.app.cli.options import (
    Components,
    Gains,
    Json,
    MeshKind,
    check_outputs,
    count_option,
    draw,
    figure_option,
    option,
    print_result,
)
from lightloom.core.errors import ConfigError
from lightloom.core.results import Document, provenance
from lightloom.photonics.averaging.mapped import map_averager
from lightloom.photonics.averaging.networks import load_network, network_hash
from lightloom.photonics.devices import NonIdealities
from lightloom.photonics.meshes.calibration.calibrate import (
    AGAIN,
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

_Source = Annotated[
    Path | None,
    typer.Argument(
        metavar="NET.npz", help="A network: P, each layer and T are chips; without it random unitary matrices."
    ),
]
_Form = Annotated[
    str | None, option("Of a network: economy, compact or svd, as in `onn map`; economy unless the file stores one.")
]
_Modes = Annotated[int, count_option("--modes", "Of each random unitary matrix.", least=1)]
_Chips = Annotated[int, count_option("--chips", "Random unitary matrices, each on a chip of its own.", least=1)]
_PhaseError = Annotated[float, option("Unknown offset of every phase, standard deviation; 0.1 is assumed.", "RAD")]
_CouplerError = Annotated[float, option("Mixing angle of every coupler; silicon: 0.01 to 0.02.", "RAD")]
_Crosstalk = Annotated[float, option("Of a heater's phase that reaches each nearest heater; fitted.", "SHARE")]
_Heaters = Annotated[
    float, option("Of every heater's phase for a command, standard deviation; 0.01 is assumed. Fitted.", "SHARE")
]
_Loss = Annotated[float, option("Of every MZI; one loss for all is fitted.", "DB")]
_Noise = Annotated[float, option("Of a power, as a share of the input power; 1e-3 is assumed.", "SHARE")]
_Drift = Annotated[float, option("Of every phase between two settings, standard deviation.", "RAD")]
_Aging = Annotated[float, option(f"Of every phase afterwards; then {AGAIN} settings calibrate again.", "RAD")]
_Unknown = Annotated[
    bool, option("Phase offsets from a whole turn, found by sweeps first; random matrices.", name="--unknown-offsets")
]
_Orders = Annotated[
    int | None,
    count_option(
        "--output-orders", f"Orders of the outputs to try where couplers cannot split so, {OUTPUT_ORDERS}.", least=0
    ),
]
_Settings = Annotated[int | None, count_option("--settings", "Settings that are measured.", least=1)]


def calibrate(
    *,
    network: _Source = None,
    modes: _Modes = 8,
    chips: _Chips = 1,
    mesh: MeshKind = None,
    gains: Gains = None,
    form: _Form = None,
    components: Components = None,
    phase_error: _PhaseError = 0.1,
    coupler_error: _CouplerError = 0.02,
    loss: _Loss = 0.0,
    loss_spread: Annotated[float, option("Its standard deviation; not fitted.", "DB")] = 0.0,
    heater_spread: _Heaters = 0.01,
    crosstalk: _Crosstalk = 0.0,
    dac_bits: Annotated[int, count_option("--dac-bits", "Of the phase settings; 0 is continuous.", "B")] = 0,
    power_noise: _Noise = 1e-3,
    unknown_offsets: _Unknown = False,
    output_orders: _Orders = None,
    drift: _Drift = 0.0,
    aging: _Aging = 0.0,
    settings: _Settings = None,
    seed: Annotated[int, count_option("--seed", "Of matrices, devices, settings and noise.", least=0)] = 0,
    figure: Annotated[Path | None, figure_option("Draw the convergence and the errors")] = None,
    as_json: Json = False,
) -> None:
    """Calibrate simulated chips with unknown errors from their output powers, and count the measurements."""
    how = NonIdealities(
        phase_error=phase_error,
        coupler_error=coupler_error,
        loss_db=loss,
        loss_spread_db=loss_spread,
        heater_spread=heater_spread,
        thermal_crosstalk=crosstalk,
        dac_bits=dac_bits,
    )
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
    if crosstalk > 0.1:
        raise ConfigError(f"--crosstalk {crosstalk:g}: expected at most 0.1, settings cannot cancel more")
    if modes > _MOST_MODES:
        raise ConfigError(f"--modes {modes}: expected at most {_MOST_MODES}")
    check_outputs([figure])
    given = {"form": form, "mesh": mesh, "gains": gains, "components": components}
    mapping = chosen_mapping(network, MeshMapping(), given)
    options = {**mapping.to_json(), "devices": asdict(how), "conditions": asdict(conditions)}
    loaded = load_network(network) if network is not None else None
    origin = provenance([options, network_hash(*loaded) if loaded else [modes, chips]], seed)
    with progress("Steps of the fits", None) as advance:
        if loaded is None:
            rows = []
            for chip in range(chips):
                ideal = random_mesh(modes, mapping.mesh, seed + chip)
                rows.append({"name": str(chip), **try_calibration(ideal, how, conditions, seed + chip, advance).row()})
            found: Document = {"chips": rows}
        else:
            mapped = map_averager(*loaded, mapping)
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
    print_result(document, as_json, _parts(document, network), {"drawn": drawn})


def _title(document: Document, network: Path | None) -> str:
    powers = sum(row["measurements"] for row in document["chips"])
    count = len(document["chips"])
    name = f"{network.name}: " if network is not None else ""
    return f"{name}{count} chip{'s' * (count > 1)} calibrated with {powers:,} powers"


def _parts(document: Document, network: Path | None) -> Iterator[Table | str]:
    """The facts, a row for each chip, and a line for each whose fit cannot be trusted."""
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
    if not document["conditions"]["unknown_offsets"]:
        return device_errors(document["devices"])
    return f"phases wholly unknown, {device_errors({**document['devices'], 'phase_error': 0.0})}"


def _cells(row: Document) -> list[str]:
    """Return the cells of one chip: its errors before and after."""
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
