"""``lightloom onn disturb``: from errors of devices to the accuracy of the average, or of a model trained with it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from rich.table import Table

from lightloom.app.cli.onn.files import (
    DEVICES,
    POINTS,
    Mapping,
    device_errors,
    mapping_words,
    read_devices,
    sweep_parts,
    sweep_values,
)
from lightloom.app.cli.options import FigureFile, Network, Options, Shown, draw
from lightloom.core.errors import ConfigError, UnknownNameError, needing_torch
from lightloom.core.fields import Count
from lightloom.core.results import Document, provenance
from lightloom.photonics.averaging.cascade import cascade_hash, is_cascade, load_cascade
from lightloom.photonics.averaging.mapped import (
    MappedParts,
    averaging_accuracy,
    cascade_accuracy,
    map_averager,
    map_cascade,
    map_network,
)
from lightloom.photonics.averaging.networks import load_network, network_hash
from lightloom.photonics.devices import NonIdealities
from lightloom.photonics.meshes.disturb import Evaluate, monte_carlo, spread
from lightloom.photonics.meshes.disturb import sweep as swept
from lightloom.photonics.meshes.mapping import MeshMapping, decibels
from lightloom.photonics.tolerance import words_right
from lightloom.reports.console import facts_table, plain_table
from lightloom.reports.figures.photonics import WORDS, sweep_figure
from lightloom.reports.progress import progress

if TYPE_CHECKING:
    from lightloom.photonics.averaging.networks import FunctionArguments, LayeredNetwork


# ``lightloom onn disturb --train``: errors of devices in, test accuracy of a trained model out.


def measured_accuracy(
    how: NonIdealities,
    network: tuple[LayeredNetwork, FunctionArguments],
    seed: int,
    *,
    data: Path | None = None,
    iterations: Count = 1000,
    folder: Path | None = None,
) -> Document:
    """Train twice, with gradients averaged in float32 and on the devices, and return the test accuracies of both.

    Args:
        how: errors of the devices.
        network: what averages, and the function that it computes.
        seed: of the training.
        data: Folder with MNIST, for --train; $LIGHTLOOM_DATA unless given.
        iterations: Of the training.
        folder: Keeps what is trained, to resume it.

    Raises:
        ConfigError: no data.
        UnsupportedError: no PyTorch, or more servers than this host can be.
    """
    with needing_torch("--train"):
        import torch  # noqa: F401
    from lightloom.exchange.datasets import data_folder
    from lightloom.papers.runs.device_noise import test_accuracy_under

    place = data_folder(data)
    with progress("Training twice", None):
        result = test_accuracy_under(how, *network, place, iterations, seed, folder)
    return {"schema": "lightloom.onn-test-accuracy/1", **asdict(result)}


def accuracy_table(document: Document, network: Path) -> Table:
    """Return a table of facts: errors of the devices, wrong mean codes, and both test accuracies with their difference
    in points."""
    difference = 100 * (document["test_accuracy"] - document["test_accuracy_float32"])
    rows = [
        ("errors of devices", device_errors(document["how"])),
        (
            "wrong mean codes",
            f"{100 * document['code_error_rate']:.4g} %, RMS {document['rms_error_lsb']:.3g} of the last place",
        ),
        ("test accuracy", f"{100 * document['test_accuracy']:.2f} %"),
        ("averaged in float32", f"{100 * document['test_accuracy_float32']:.2f} % ({difference:+.2f} points)"),
    ]
    run = f"{document['servers']} servers, {document['bits']} bits, {document['iterations']:,} iterations"
    return facts_table(rows, title=f"{network}: LeNet on MNIST, {run}")


_SHOWN = ("form", "mesh", "gains", "components", "units", "calibration", "correct", "draws")
_CALIBRATIONS = {
    "rows": "each makes up for what its output loses",
    "matrix": "one gain a matrix, which makes up for what is lost evenly",
    "none": "as designed",
}


def disturb(
    network: Network,
    *,
    devices: Annotated[partial[NonIdealities], Options(read_devices)],
    sweep: list[str] | None = None,
    draws: Count = 20,
    correct: bool = False,
    uncalibrated: bool = False,
    mapping: Mapping,
    units: bool = False,
    samples: Count = 400_000,
    seed: int = 0,
    figure: FigureFile = None,
    train: bool = False,
    training: Annotated[partial[Document], Options(measured_accuracy)],
) -> Shown:
    """Fabricate a network's meshes many times, and count how often the average still comes out right.

    Args:
        sweep (NAME=LOW..HIGH[:POINTS]): Accuracy against one of phase-error, coupler-error, loss, loss-spread,
            heater-spread, crosstalk, dac-bits, detector-noise; repeatable. Steps are equal ratios, equal from 0.
        draws: Fabrications behind each accuracy.
        correct: Couplers and crosstalk are measured and made up for.
        uncalibrated: Amplifiers are not set to make up for what is lost evenly.
        form: economy, compact, svd or sigma-u, as in `onn map`; economy unless the file stores one.
        units: Disturb P and T too, and count words that servers receive.
        samples: Grid points behind one accuracy; all where there are no more.
        seed: Of the devices, or of the training.
        figure: Draw the sweeps (.svg, .png, .pdf).
        train: Train a model on MNIST whose gradients are averaged on these devices.
    """
    how = devices()
    fields = {field: getattr(how, field) for field in DEVICES.values()}
    sweeps = [_read_sweep(text) for text in sweep or []]
    for field, values in sweeps:
        replace(how, **cast(Any, {field: values[-1]}))  # the largest value is refused before anything is computed
    counts = {"draws": draws, "samples": samples}
    if figure is not None and not sweeps:
        raise ConfigError("--figure draws sweeps: give --sweep NAME=LOW..HIGH too")
    if train:
        if sweeps or correct or uncalibrated:
            raise ConfigError("--train takes the errors of the devices, not --sweep, --correct or --uncalibrated")
        if units or mapping.keywords:
            raise ConfigError(
                "--train maps by economy, with a gain a row: not with --form, --mesh, --gains, --components, --units"
            )
        loaded = load_network(network)
        iterations = training.keywords["iterations"]
        origin = provenance([network_hash(*loaded), fields, {"iterations": iterations}, seed], seed)
        trained = training(how, loaded, seed) | {"provenance": origin}
        return Shown(trained, [accuracy_table(trained, network)])
    for name in ("data", "folder"):
        if name in training.keywords:
            raise ConfigError(f"--{name} is of --train: expected --train too")
    chosen = mapping(network, MeshMapping(), exact=False)
    calibration = "none" if uncalibrated else "rows" if chosen.gains == "rows" else "matrix"
    options = {"calibration": calibration, "correct": correct, **chosen.to_json(), "units": units, **counts}
    digest, mapped, judge, facts = _subject(network, chosen, options)
    origin = provenance([digest, fields, sweep, options, seed], seed)
    with progress("Fabrications", draws * (1 + sum(len(values) for _, values in sweeps))) as advance:

        def evaluate(fabricated: Any, rng: Any) -> float:
            """Return the accuracy of one fabrication, and count it."""
            accuracy = judge(fabricated, rng)
            advance(1)
            return accuracy

        row = spread(monte_carlo(mapped.matrices, how, evaluate, draws=draws, seed=seed))
        rows = [
            swept(mapped.matrices, name, values, evaluate, base=how, draws=draws, seed=seed) for name, values in sweeps
        ]
    document = {
        "schema": "lightloom.onn-disturb/1",
        **facts,
        "devices": asdict(how),
        **{name: options[name] for name in _SHOWN},
        "mzi_count": mapped.mzis,
        "columns": mapped.depth,
        "largest_gain_db": decibels(mapped.gain),
        "accuracy": row,
        "sweeps": rows,
        "provenance": origin,
    }
    title = (
        f"{facts['servers']} servers, {facts['bits']} bits: {mapped.mzis:,} MZIs, mean and range of "
        f"{draws} fabrications{', corrected' if correct else ''}"
    )
    drawn = draw(figure, lambda: sweep_figure(rows, title), document)
    return Shown(document, _parts(document, network), {"drawn": drawn})


def _read_sweep(text: str) -> tuple[str, list[float]]:
    """Return a field of `NonIdealities` and the values that it takes in a sweep, ascending.

    Raises:
        ConfigError: not NAME=LOW..HIGH[:POINTS], or ends or points out of range.
        UnknownNameError: no such error of a device.
    """
    name, low_text, high_text, points_text = sweep_parts(text, "phase-error=1e-4..1e-2:9")
    if name not in DEVICES:
        raise UnknownNameError("sweep", name, DEVICES)
    try:
        low, high = float(low_text), float(high_text)
        points = int(points_text) if points_text else POINTS
    except ValueError as error:
        raise ConfigError(f"--sweep {text!r}: expected numbers, e.g. phase-error=1e-4..1e-2:9") from error
    if not (0 <= low < high < math.inf) or not 2 <= points <= 1000:
        raise ConfigError(f"--sweep {text!r}: expected 0 <= LOW < HIGH and 2 to 1000 points")
    return DEVICES[name], sweep_values(name, low, high, points)


def _subject(path: Path, mapping: MeshMapping, options: Document) -> tuple[str, MappedParts, Evaluate, Document]:
    """Return the hash of a file's content, its meshes, a function that judges a fabrication of them (the share of words
    or grid points that come out right), and facts for the document."""
    samples = options["samples"]
    chosen = {"calibration": options["calibration"], "correct": options["correct"]}
    if is_cascade(path):
        if options["units"]:
            raise ConfigError("--units: the two levels of a cascade have no T between them, give a single network")
        cascade = load_cascade(path)
        levels = map_cascade(cascade, mapping)
        facts = {"servers": cascade.groups * cascade.servers, "bits": cascade.bits, "points": samples}
        judge = cascade_accuracy(levels, samples=samples, **chosen)
        return cascade_hash(cascade), levels, judge, facts | {"exhaustive": False, "cascade": True}
    network, arguments = load_network(path)
    digest = network_hash(network, arguments)
    facts = {"servers": arguments.servers, "bits": arguments.bits, "cascade": False}
    if options["units"]:
        averager = map_averager(network, arguments, mapping)
        judge = words_right(averager, words=samples, **chosen)
        return digest, averager, judge, facts | {"points": samples, "exhaustive": False}
    function, mapped = arguments.function(), map_network(network, mapping)
    facts |= {"points": min(function.points, samples), "exhaustive": function.points <= samples}
    return digest, mapped, averaging_accuracy(mapped, function, samples=samples, **chosen), facts


def _parts(document: Document, network: Path) -> Iterator[Table]:
    """Yield the facts of the fabrications, and for each sweep a table of mean, worst and best per cent that come out
    right."""
    how = "every grid point" if document["exhaustive"] else "drawn grid points"
    if document["cascade"]:
        how = "drawn tuples of codes, half of them near-equal; P, T and the units between are ideal"
    if document["units"]:
        how = "words, half of them near-equal; right if all servers receive the mean"
    mzis, columns, draws = document["mzi_count"], document["columns"], document["draws"]
    title = f"{network}: {mzis:,} MZIs in {columns:,} columns, {draws} fabrications"
    rows = [
        ("mapping", mapping_words(document, network)),
        ("errors of devices", device_errors(document["devices"])),
        ("averaged rightly", _spread(document["accuracy"])),
        ("inputs", f"{document['points']:,}, {how}"),
        ("amplifiers", f"{_CALIBRATIONS[document['calibration']]}; gains up to {document['largest_gain_db']:.1f} dB"),
        ("P and T", "disturbed too" if document["units"] else "ideal; --units disturbs them too"),
        ("couplers, crosstalk", "measured and made up for" if document["correct"] else "as fabricated"),
    ]
    yield facts_table(rows, title=title)
    for sweep in document["sweeps"]:
        cells = [
            [f"{row['value']:.4g}", *(f"{100 * row[name]:.4f}" for name in ("mean", "least", "largest"))]
            for row in sweep["rows"]
        ]
        columns = [WORDS[sweep["parameter"]], "averaged rightly, %", "worst", "best"]
        yield plain_table(columns, cells)


def _spread(row: dict[str, float]) -> str:
    """Return mean, least and largest share of several fabrications as per cent."""
    return f"{100 * row['mean']:.4f} % (worst {100 * row['least']:.4f} %, best {100 * row['largest']:.4f} %)"
