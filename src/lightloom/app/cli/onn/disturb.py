"""``lightloom onn map --study disturb`` and ``train``: errors of devices in, accuracy of averages or a model out."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

from lightloom.app.cli.onn.files import POINTS, device_errors, evenly, mapping_words, percent, sweep_parts, sweep_values
from lightloom.app.cli.onn.settings import DisturbSettings, ModelSettings
from lightloom.app.cli.options import Shown, draw
from lightloom.core.errors import ConfigError, UnknownNameError, needing_torch
from lightloom.core.results import Document, attributes, provenance
from lightloom.photonics.averaging.cascade import Cascade, cascade_hash, is_cascade, load_cascade
from lightloom.photonics.averaging.mapped import (
    MappedParts,
    averaging_accuracy,
    cascade_accuracy,
    map_averager,
    map_cascade,
    map_network,
)
from lightloom.photonics.averaging.networks import load_network, network_hash
from lightloom.photonics.devices import ERRORS, NonIdealities
from lightloom.photonics.meshes.disturb import Evaluate, monte_carlo, spread
from lightloom.photonics.meshes.disturb import sweep as swept
from lightloom.photonics.meshes.mapping import MeshMapping, decibels
from lightloom.photonics.tolerance import words_right
from lightloom.reports.console import Parts, facts_table, screen
from lightloom.reports.figures.photonics import WORDS, sweep_figure
from lightloom.reports.progress import progress

# ``lightloom onn map --study train``: errors of devices in, test accuracy of a trained model out.


def train_model(network: Path, settings: ModelSettings, seed: int) -> Shown:
    """Train LeNet on MNIST twice from the same weights, with gradients averaged in float32 and by one fabrication of
    the network's devices with their errors, and return the result to print: the test accuracies of both, the share of
    mean codes of uniformly drawn ones that the devices get wrong, and the root mean square error of all of them in
    units of the last place. The document has ``test_accuracy`` and ``test_accuracy_float32`` (0 to 1),
    ``code_error_rate``, ``rms_error_lsb`` and the settings.

    Args:
        network: file of a single network (.npz), no cascade; each of its servers is a process of the training.
        settings: errors of the devices, folder with MNIST, number of iterations, and ``folder``, in which what is
            trained is kept, and resumed; None keeps nothing.
        seed: of the fabrication, its noise and both trainings.

    Raises:
        ConfigError: no data, a network that cannot be read, or a folder that holds a run of another network, devices,
            seed or length.
        UnsupportedError: no PyTorch, or more than 8 servers.
        LaunchError: the training failed.
    """
    how, loaded, iterations = settings.non_idealities(), load_network(network), settings.iterations
    origin = provenance([network_hash(*loaded), asdict(how), {"iterations": iterations}, seed], seed)
    with needing_torch("--study train"):
        import torch  # noqa: F401
    from lightloom.exchange.datasets import data_folder
    from lightloom.papers.runs.device_noise import test_accuracy_under

    place = data_folder(settings.data)
    with progress("Training twice", None):
        result = test_accuracy_under(how, *loaded, place, iterations, seed, settings.folder)
    document = {"schema": "lightloom.onn-test-accuracy/1", **asdict(result), "provenance": origin}
    right, plain = document["test_accuracy"], document["test_accuracy_float32"]
    errors = f"{iterations:,} iterations; errors of devices: {device_errors(document['how'])}"
    best = [f"{100 * right:.2f} % test accuracy, {100 * (right - plain):+.2f} points against float32"]
    wrong = f"{percent(document['code_error_rate'])} of the mean codes wrong"
    best.append(f"{wrong}, RMS {document['rms_error_lsb']:.3g} of the last place")
    limit = f"averaged in float32 the model reaches {100 * plain:.2f} %"
    return Shown(document, screen(f"LeNet on MNIST, gradients averaged on {network}, {errors}", best, limit=limit))


_SHOWN = ("form", "mesh", "gains", "components", "units", "calibration", "correct", "draws")
_CALIBRATIONS = {
    "rows": "each makes up for what its output loses",
    "matrix": "one gain a matrix, which makes up for what is lost evenly",
    "none": "as designed",
}
_QUICK = 1_000_000
"""Points of all fabrications up to which the errors are tried scaled as well."""


def disturb(
    network: Path,
    settings: DisturbSettings,
    draws: int | None,
    sweep: list[str] | None,
    units: bool,
    seed: int,
    figure: Path | None,
    all: bool,
) -> Shown:
    """Fabricate a network's meshes many times, and return the result to print: which share of averages still comes out
    right, as mean, worst and best of the fabrications, with the stated errors and at each point of the sweeps; without
    sweeps, where that is quick (at most a million grid points over all fabrications), also the mean with a half and a
    tenth of the errors.

    Args:
        network: file of a network or a cascade.
        settings: errors of devices, mapping, calibration and ``samples``, the grid points (or words) behind an
            accuracy, all points of the grid where it has no more.
        draws: fabrications behind each accuracy; 20 if None.
        sweep: texts NAME=LOW..HIGH[:POINTS], each an error of devices, such as ``phase-error``, along which the
            accuracy is repeated, the other errors as stated; 9 points unless given.
        units: whether P (which averages digits in front of the network) and T (which divides the result among servers)
            err too, and words that servers receive count; else P and T are ideal, and grid points of the network count.
        seed: of the fabrications.
        figure: file for a picture of the sweeps; None draws nothing.
        all: whether every row of the sweeps and the mapping are shown; else at most eight rows of all sweeps, but two
            or more of each.

    Raises:
        ConfigError: a sweep or an error out of range, a figure without a sweep, or ``units`` of a cascade.
        UnknownNameError: a sweep of no such error.
    """
    how, correct, draws = settings.non_idealities(), settings.correct, draws or 20
    sweeps = [_read_sweep(text) for text in sweep or ()]
    for field, values in sweeps:
        replace(how, **cast(Any, {field: values[-1]}))  # the largest value is refused before anything is computed
    counts = {"draws": draws, "samples": settings.samples}
    if figure is not None and not sweeps:
        raise ConfigError("--figure draws sweeps: give --sweep NAME=LOW..HIGH too")
    chosen = settings.mapping(network, MeshMapping(), exact=False)
    calibration = "none" if settings.uncalibrated else "rows" if chosen.gains == "rows" else "matrix"
    options = {"calibration": calibration, "correct": correct, **chosen.to_json(), "units": units, **counts}
    digest, mapped, judge, facts = _subject(network, chosen, options)
    with progress("Fabrications", draws * (1 + sum(len(values) for _, values in sweeps))) as advance:

        def evaluate(fabricated: Any, rng: Any) -> float:
            """Return the accuracy of one fabrication, and count it."""
            accuracy = judge(fabricated, rng)
            advance(1)
            return accuracy

        tried = {"draws": draws, "seed": seed}
        row = spread(monte_carlo(mapped.matrices, how, evaluate, **tried))
        rows = [swept(mapped.matrices, name, values, evaluate, base=how, **tried) for name, values in sweeps]
    document = {
        "schema": "lightloom.onn-disturb/1",
        **facts,
        "devices": asdict(how),
        **{name: options[name] for name in _SHOWN},
        **attributes(mapped, "mzi_count=mzis columns=depth"),
        "largest_gain_db": decibels(mapped.gain),
        "accuracy": row,
        "sweeps": rows,
        "provenance": provenance([digest, asdict(how), sweep, options, seed], seed),
    }
    title = f"{facts['servers']} servers, {facts['bits']} bits: {mapped.mzis:,} MZIs, mean and range of "
    title += f"{draws} fabrications{', corrected' if correct else ''}"
    drawn = draw(figure, lambda: sweep_figure(rows, title), document)

    def scaled(share: float) -> float:
        """Return the mean accuracy with errors that are a share of those stated."""
        less = {name: value if name == "dac_bits" else share * value for name, value in asdict(how).items()}
        return spread(monte_carlo(mapped.matrices, NonIdealities(**cast(Any, less)), judge, **tried))["mean"]

    quick = not sweeps and how != NonIdealities() and facts["points"] * draws <= _QUICK
    return Shown(document, _parts(document, network, scaled if quick else None, all), {"drawn": drawn})


def _read_sweep(text: str) -> tuple[str, list[float]]:
    """Return (field of `NonIdealities`, values that it takes in a sweep, ascending) from NAME=LOW..HIGH[:POINTS], where
    NAME is an error of devices such as ``phase-error``. There are 9 points where none are stated, in equal ratios, or
    equal steps from 0; of ``dac-bits`` every whole number from LOW to HIGH, whatever the points.

    Raises:
        ConfigError: not NAME=LOW..HIGH[:POINTS] in bare numbers, not 0 <= LOW < HIGH, or not 2 to 1,000 points. How
            large the error itself may be is not checked.
        UnknownNameError: no such error of a device.
    """
    name, low_text, high_text, points_text = sweep_parts(text, "phase-error=1e-4..1e-2:9")
    if name not in ERRORS:
        raise UnknownNameError("sweep", name, ERRORS)
    try:
        low, high = float(low_text), float(high_text)
        points = int(points_text) if points_text else POINTS
    except ValueError as error:
        raise ConfigError(f"--sweep {text!r}: expected numbers, e.g. phase-error=1e-4..1e-2:9") from error
    if not (0 <= low < high < math.inf) or not 2 <= points <= 1000:
        raise ConfigError(f"--sweep {text!r}: expected 0 <= LOW < HIGH and 2 to 1000 points")
    return ERRORS[name], sweep_values(name, low, high, points)


def _subject(path: Path, mapping: MeshMapping, options: Document) -> tuple[str, MappedParts, Evaluate, Document]:
    """Return (hash of a file's content, its meshes, a function of a fabrication of them and a random generator, facts
    for the document).

    The function returns the share of the grid points of the averaging function that come out right, with P (in front of
    the network) and T (behind it) ideal; with ``units`` the share of words (one code of each server) that the whole
    averager gets right at all servers, where the devices of P and T err too; and for a cascade the share of sampled
    words with ideal P, T and units. The facts have the keys ``servers``, ``bits``, ``points`` (points or words that are
    tried), ``exhaustive`` (whether these are all points of the grid) and ``cascade``. ``mapping`` says how matrices
    become meshes; ``options`` hold ``samples`` (the points or words tried; a grid of no more points is tried whole),
    ``calibration`` (``rows``, ``matrix`` or ``none``: a gain for each output, one for each matrix, or those designed),
    ``correct`` and ``units`` of the command; ConfigError for ``units`` of a cascade.
    """
    samples, what = options["samples"], load_cascade(path) if is_cascade(path) else load_network(path)
    chosen = {"calibration": options["calibration"], "correct": options["correct"]}
    if isinstance(what, Cascade):
        if options["units"]:
            raise ConfigError("--units: the two levels of a cascade have no T between them, give a single network")
        facts = {"servers": what.groups * what.servers, "bits": what.bits, "points": samples}
        levels = map_cascade(what, mapping)
        judge = cascade_accuracy(levels, samples=samples, **chosen)
        return cascade_hash(what), levels, judge, facts | {"exhaustive": False, "cascade": True}
    network, arguments = what
    digest, function = network_hash(*what), arguments.function()
    facts = {"servers": arguments.servers, "bits": arguments.bits, "cascade": False}
    if options["units"]:
        averager = map_averager(*what, mapping)
        judge = words_right(averager, words=samples, **chosen)
        return digest, averager, judge, facts | {"points": samples, "exhaustive": False}
    mapped = map_network(network, mapping)
    facts |= {"points": min(function.points, samples), "exhaustive": function.points <= samples}
    return digest, mapped, averaging_accuracy(mapped, function, samples=samples, **chosen), facts


def _parts(document: Document, network: Path, scaled: Callable[[float], float] | None, all: bool) -> Parts:
    """Yield what the terminal shows: which share of the grid points or words, in per cent, is averaged rightly, as
    mean, worst and best of the fabrications, and of how many; a table of the same along each sweep, at most eight rows
    in all, but two or more of each, unless ``all``; whether P and T err, whether couplers and crosstalk are made up
    for, the largest gain in dB and the calibration; with ``all`` also the mapping.

    ``document`` is that of :func:`disturb`. ``scaled`` returns the mean accuracy with the stated errors times a share,
    and is shown for half and a tenth of them; None leaves both out.
    """
    how = "grid points" if document["exhaustive"] else "drawn grid points"
    if document["cascade"]:
        how = "drawn tuples of codes, half of them near-equal; P, T and the units between are ideal"
    if document["units"]:
        how = "words, half of them near-equal; right if all servers receive the mean"
    words = {"mean": "averaged rightly", "least": "worst", "largest": "best"}
    mean, least, largest = (percent(document["accuracy"][name]) for name in words)
    shown, hidden = evenly(document["sweeps"], all)
    rows = [
        {"error": WORDS[sweep["parameter"]], "value": f"{point['value']:.4g}"}
        | {word: percent(point[name]) for name, word in words.items()}
        for sweep, point in shown
    ]
    limits = [
        "P and T err too" if document["units"] else "P and T are ideal (--units lets them err)",
        f"couplers and crosstalk {'are made up for' if document['correct'] else 'as fabricated'}",
        f"amplifiers of up to {document['largest_gain_db']:.1f} dB, {_CALIBRATIONS[document['calibration']]}",
    ]
    where = "{draws} fabrications of {mzi_count:,} interferometers in {columns:,} columns".format(**document)
    yield from screen(
        f"{network} on {where}; errors of devices: {device_errors(document['devices'])}",
        [f"{mean} averaged rightly (worst {least}, best {largest})", f"of {document['points']:,} {how}"],
        rows,
        all=True,
        hidden=hidden,
        what_if=[f"{share:g} of the errors: {percent(scaled(share))}" for share in (0.5, 0.1)] if scaled else [],
        limit="; ".join(limits),
        more=["--sweep phase-error=1e-4..1e-2", "--set correct=true", f"onn link {network}"],
    )
    if all:
        yield facts_table([("mapping", mapping_words(document, network))])
