"""Pieces that several ``onn`` commands use: options that exclude each other, mappings in words, sweeps, noise."""

import math
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np

from lightloom.app.cli.onn.settings import stored_mapping
from lightloom.app.cli.options import check_file, read_count
from lightloom.core.answer import MOST_ROWS
from lightloom.core.errors import ConfigError
from lightloom.core.results import Document, provenance_line
from lightloom.photonics.averaging.networks import TABLE_I, FunctionArguments, LayeredNetwork
from lightloom.photonics.averaging.proof import input_bound, noisy_accuracy
from lightloom.photonics.meshes.mapping import MeshMapping
from lightloom.reports.figures.canvas import save
from lightloom.reports.figures.photonics import WORDS, noise_figure, noise_steps
from lightloom.reports.progress import progress

NetworkOut = Annotated[Path | None, partial(check_file, endings=(".npz",))]
ROUNDED = {"floor": "rounded down", "half-up": "rounded to the nearest"}


def refuse_options(given: Mapping[str, object], taken: Collection[str], what: str) -> None:
    """Raise ConfigError for the first option of ``given`` (values by names without leading dashes) that is set, its
    value being neither None, False, 0 nor empty, and that is not among ``taken``; the message says that it does not go
    with ``what``."""
    for name, value in given.items():
        if value and name not in taken:
            options = ", ".join(f"--{option}" for option in taken)
            raise ConfigError(f"--{name}: not with {what}: expected {f'only {options}' if options else 'it alone'}")


def read_layers(text: str, servers: int | None = None, bits: int | None = None) -> tuple[int, ...]:
    """Return the numbers of signals that --layers states, as ``4-64-4``, or as ``printed`` those of the paper's Table I
    for ``servers`` and ``bits``, which only that needs.

    Raises:
        ConfigError: a number is no whole number of at least 1, or, for ``printed``, the paper has no network of these
            servers and bits.
    """
    if text == "printed":
        for row in TABLE_I:
            if (row.servers, row.bits) == (servers, bits):
                return row.layers
        known = ", ".join(f"--servers {row.servers} --bits {row.bits}" for row in TABLE_I)
        raise ConfigError(f"--layers printed: expected a network of the paper, {known}")
    return tuple(read_count(number, "--layers", least=1) for number in text.split("-"))


def draw_noise(
    network: LayeredNetwork, arguments: FunctionArguments, name: str, evaluations: int, figure: Path, document: Document
) -> None:
    """Draw the share of inputs averaged wrongly against noise at 33 levels around the limit, evenly spaced as
    logarithms, into the file ``figure``, and add the curve's points to ``document``. Noise is Gaussian on every signal,
    its standard deviation a share of the signal's full scale; the region beyond which no network can be 99.99 % right
    is shaded.

    Args:
        network: the network.
        arguments: of the function that it computes.
        name: of the network, for the curve.
        evaluations: least number of noisy draws behind each point.
        figure: the file (.svg, .png, .pdf).
        document: the command's, with ``noise_limit`` (noise from which the network is less than 99.99 % right, which is
            marked unless it is 0) and ``provenance``; gets ``noise_curve``, rows with ``noise`` and ``error_rate``,
            ascending.
    """
    limit, origin = document["noise_limit"], document["provenance"]
    function = arguments.function()
    bound = input_bound(function)
    sigmas = noise_steps(limit, bound)
    with progress("Noise", len(sigmas)) as advance:
        rates = [1 - noisy_accuracy(network, function, sigma, evaluations) for sigma in advance.over(sigmas.tolist())]
    title = f"{arguments.servers} servers, {arguments.bits} bits, {network.nonlinearity}"
    drawn = noise_figure(name, sigmas, np.array(rates), evaluations, limit=limit, bound=bound, title=title)
    save(drawn, figure, provenance_line(origin))
    pairs = zip(sigmas, rates, strict=True)
    document["noise_curve"] = [{"noise": float(sigma), "error_rate": float(rate)} for sigma, rate in pairs]


# Mappings and errors in words.


def mapping_words(document: Document, network: Path | None) -> str:
    """Return the mapping of a command's document (its ``form``, ``mesh``, ``gains`` and ``components``) in words, such
    as ``svd, rectangular meshes of whole matrices, a gain for each output``, with ``(stored in the file)`` behind it if
    the file ``network`` stores the same; None has no file."""
    mapping = MeshMapping(**{name: document[name] for name in MeshMapping.__dataclass_fields__})
    return f"{mapping}{' (stored in the file)' if stored_mapping(network) == mapping else ''}"


def device_errors(fields: Document) -> str:
    """Return the errors of devices in words, as ``phase error 0.01 rad, loss of an MZI 0.1 dB``, those of zero left
    out; "none" if all are. ``fields`` are values by fields of `NonIdealities`, not necessarily all of them."""
    words = {name: WORDS[name].removesuffix(", share").partition(", ") for name, value in fields.items() if value}
    return ", ".join(f"{error} {fields[name]:g} {unit}".strip() for name, (error, _, unit) in words.items()) or "none"


def percent(share: float) -> str:
    """Return a share, 0 to 1, as text in per cent with four significant digits: ``12.34 %``."""
    return f"{100 * share:.4g} %"


# Sweeps of errors and of options: NAME=LOW..HIGH[:POINTS].

POINTS = 9
"""Points of a sweep that states none."""


def sweep_parts(text: str, example: str) -> tuple[str, str, str, str]:
    """Return (name with hyphens, low end, high end, number of points) of ``NAME=LOW..HIGH[:POINTS]`` as texts; the last
    is empty if it is not stated. ``example`` is shown in the message. Underscores of the name become hyphens; no part
    is checked further, and each may be empty.

    Raises:
        ConfigError: another form.
    """
    name, _, rest = text.partition("=")
    low, dots, ends = rest.partition("..")
    if not dots:
        raise ConfigError(f"--sweep {text!r}: expected NAME=LOW..HIGH[:POINTS], e.g. {example}")
    high, _, points = ends.partition(":")
    return name.replace("_", "-"), low, high, points


def sweep_values(name: str, low: float, high: float, points: int) -> list[float]:
    """Return ``points`` ascending values from ``low`` to ``high`` in equal ratios, or in equal steps where ``low`` is
    0; of the option ``name`` = ``dac-bits`` every whole number from ``low`` to ``high`` (none where there is none),
    whatever ``points`` is."""
    if name == "dac-bits":
        return [float(bits) for bits in range(math.ceil(low), math.floor(high) + 1)]
    return [float(value) for value in (np.geomspace(low, high, points) if low > 0 else np.linspace(low, high, points))]


def evenly(sweeps: Sequence[Document], everything: bool) -> tuple[list[tuple[Document, Document]], int]:
    """Return (pairs of a sweep and one of its ``rows``, number of rows left out): what a table of sweeps shows.

    Of n sweeps, each has the larger of 8 // n and 2 rows, evenly spaced with both ends, or all of its rows where it has
    no more; with ``everything`` all rows of all sweeps are shown.
    """
    most = max(MOST_ROWS // max(len(sweeps), 1), 2)
    shown = []
    for sweep in sweeps:
        rows, last = sweep["rows"], len(sweep["rows"]) - 1
        kept = rows if everything or last < most else [rows[round(n * last / (most - 1))] for n in range(most)]
        shown += [(sweep, row) for row in kept]
    return shown, sum(len(sweep["rows"]) for sweep in sweeps) - len(shown)
