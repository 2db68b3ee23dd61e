"""``lightloom onn map --study calibrate``: chips with unknown errors, calibrated from their output powers."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from lightloom.app.cli.onn.files import device_errors, mapping_words, percent
from lightloom.app.cli.onn.settings import CalibrateSettings
from lightloom.app.cli.options import Shown, draw
from lightloom.core.errors import ConfigError
from lightloom.core.results import Document, cells, provenance
from lightloom.photonics.averaging.mapped import map_averager
from lightloom.photonics.averaging.networks import load_network, network_hash
from lightloom.photonics.meshes.calibration.calibrate import OUTPUT_ORDERS, Conditions, random_mesh, try_calibration
from lightloom.photonics.meshes.mapping import MeshMapping
from lightloom.photonics.tolerance import calibrate_averager
from lightloom.reports.console import Parts, facts_table, screen
from lightloom.reports.figures.photonics import calibration_figure
from lightloom.reports.progress import progress

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
    """Calibrate simulated chips with unknown errors from their output powers, and count the measurements: of P, each
    layer and T of a network, else of random unitary matrices."""
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
    return Shown(document, _parts(document, network, all), {"drawn": drawn})


def _title(document: Document, network: Path | None) -> str:
    """Return a heading: the network if there is one, how many chips were calibrated, and with how many measured powers
    in all."""
    powers = sum(row["measurements"] for row in document["chips"])
    count = len(document["chips"])
    name = f"{network.name}: " if network is not None else ""
    return f"{name}{count} chip{'s' * (count > 1)} calibrated with {powers:,} powers"


def _parts(document: Document, network: Path | None, all: bool) -> Parts:
    """Yield the answer with a row for each chip; with ``all`` also what is fitted, and what powers cannot show."""
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
    remarks = list(_remarks(rows, max(conditions["power_noise"], 1e-6)))
    yield from screen(
        f"{_title(document, network)}; errors: {_errors(document)}",
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


def _remarks(rows: list[Document], power_noise: float) -> Iterator[str]:
    """Yield a remark on the chips whose fit does not explain their powers, and one on those with reordered outputs."""
    left = {row["name"]: row["residuals"][-1] for row in rows if row["residuals"][-1] > _UNEXPLAINED * power_noise}
    if left:
        yield (
            f"the twin does not explain the powers of {', '.join(left)}, off by up to {max(left.values()):.2g}: "
            "more measured_settings, unknown_offsets, or errors that are not fitted (drift, spread of loss)"
        )
    orders = {row["name"]: row["output_order"] for row in rows if row["output_order"] != sorted(row["output_order"])}
    for name, order in orders.items():
        yield f"couplers of {name} cannot split as designed: outputs in the order {' '.join(map(str, order))}"


def _errors(document: Document) -> str:
    """Return the errors of the devices in words; offsets that are wholly unknown take the place of the phases'
    error."""
    if not document["conditions"]["unknown_offsets"]:
        return device_errors(document["devices"])
    return f"phases wholly unknown, {device_errors({**document['devices'], 'phase_error': 0.0})}"
