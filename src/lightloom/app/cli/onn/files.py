"""Files that the ``onn`` commands read and check, and their picture of errors against noise."""

import math
from functools import partial
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np

from lightloom.app.cli.options import Options, check_file
from lightloom.core.errors import ConfigError
from lightloom.core.results import Document, provenance_line
from lightloom.photonics.averaging.networks import FunctionArguments, LayeredNetwork, load_mapping
from lightloom.photonics.averaging.proof import input_bound, noisy_accuracy
from lightloom.photonics.devices import NonIdealities
from lightloom.photonics.meshes.mapping import MeshMapping
from lightloom.reports.figures.canvas import save
from lightloom.reports.figures.photonics import WORDS, noise_figure, noise_steps
from lightloom.reports.progress import progress

NetworkOut = Annotated[Path | None, partial(check_file, endings=(".npz",))]


def draw_noise(
    network: LayeredNetwork,
    arguments: FunctionArguments,
    name: str,
    limit: float,
    evaluations: int,
    figure: Path,
    origin: Document,
) -> list[dict[str, float]]:
    """Draw the share of wrong outputs against noise into the file ``figure``, and return the curve's points for JSON;
    noise is a share of full scale."""
    function = arguments.function()
    bound = input_bound(function)
    sigmas = noise_steps(limit, bound)
    rates = []
    with progress("Noise", len(sigmas)) as advance:
        for sigma in sigmas:
            rates.append(1 - noisy_accuracy(network, function, float(sigma), evaluations))
            advance(1)
    title = f"{arguments.servers} servers, {arguments.bits} bits, {network.nonlinearity}"
    drawn = noise_figure(name, sigmas, np.array(rates), evaluations, limit=limit, bound=bound, title=title)
    save(drawn, figure, provenance_line(origin))
    return [{"noise": float(s), "error_rate": float(r)} for s, r in zip(sigmas, rates, strict=True)]


# How commands learn the mapping of a network to meshes: from their options, its file, or their own default.


def chosen_mapping(
    network: Path | None,
    default: MeshMapping,
    exact: bool = True,
    *,
    form: str | None = None,
    mesh: str | None = None,
    gains: str | None = None,
    components: Annotated[bool | None, "--components/--whole"] = None,
) -> MeshMapping:
    """Return the mapping that the file stores, else the command's default, with the options that are given in place of
    its fields.

    Args:
        network: file of a network, a cascade or a matrix; only networks store a mapping.
        default: mapping of the command.
        exact: whether the form must not be an approximation.
        form: economy, compact or svd, as in `onn map`; economy unless the file stores one.
        mesh: ``rectangular`` (also the default) or triangular.
        gains: ``rows`` (also the default): a gain for each output; common: one for all of a matrix.
        components: Meshes of a matrix's connected components, whose waveguides cross, or of it whole.

    Raises:
        InputError: an option has an unknown value, or the file cannot be read.
    """
    given = {"form": form, "mesh": mesh, "gains": gains, "components": components}
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    chosen = default.but(**options)
    if exact:
        chosen.exact()
    stored = stored_mapping(network)
    return chosen if stored is None else stored.but(**options)


Mapping = Annotated[partial[MeshMapping], Options(chosen_mapping, without=("exact",))]


def stored_mapping(network: Path | None) -> MeshMapping | None:
    """Return the mapping that a file stores: the one with which `onn build --tolerate` judged its network. None for
    another file than .npz or one that stores none."""
    return load_mapping(network) if network is not None and network.suffix == ".npz" else None


def mapping_words(document: Document, network: Path | None) -> str:
    """Return the mapping of a command's document in words, and that the file stores it if it does."""
    mapping = MeshMapping(**{name: document[name] for name in MeshMapping.__dataclass_fields__})
    return f"{mapping}{' (stored in the file)' if stored_mapping(network) == mapping else ''}"


# Errors of devices, as options and in words.

DEVICES = {
    "phase-error": "phase_error",
    "coupler-error": "coupler_error",
    "loss": "loss_db",
    "loss-spread": "loss_spread_db",
    "heater-spread": "heater_spread",
    "crosstalk": "thermal_crosstalk",
    "dac-bits": "dac_bits",
    "detector-noise": "detector_noise",
}
"""Options and the fields of `NonIdealities` that they set."""


def read_devices(
    *,
    phase_error: float = 0.0,
    coupler_error: float = 0.0,
    loss: float = 0.0,
    loss_spread: float = 0.0,
    heater_spread: float = 0.0,
    crosstalk: float = 0.0,
    dac_bits: int = 0,
    detector_noise: float = 0.0,
) -> NonIdealities:
    """Return the errors of devices that the options state; those of 0 are absent.

    Args:
        phase_error (RAD): Of every phase, standard deviation.
        coupler_error (RAD): Mixing angle of every coupler.
        loss (DB): Of every MZI.
        loss_spread (DB): Its standard deviation.
        heater_spread (SHARE): Of every heater's phase for a command.
        crosstalk (SHARE): Of a heater's phase that reaches each nearest heater.
        dac_bits (B): Of the phase settings; 0 is continuous.
        detector_noise (SHARE): Of full scale, at units and receivers.

    Raises:
        ConfigError: a value is out of range.
    """
    given = (phase_error, coupler_error, loss, loss_spread, heater_spread, crosstalk, dac_bits, detector_noise)
    return NonIdealities(**cast(Any, dict(zip(DEVICES.values(), given, strict=True))))


def device_errors(fields: Document) -> str:
    """Return the errors of devices in words, those of zero left out; "none" if all are. ``fields`` are those of
    `NonIdealities`."""
    return ", ".join(f"{WORDS[name]} {value:g}" for name, value in fields.items() if value) or "none"


# Sweeps of errors and of options: NAME=LOW..HIGH[:POINTS].

POINTS = 9
"""Points of a sweep that states none."""


def sweep_parts(text: str, example: str) -> tuple[str, str, str, str]:
    """Return the name, both ends and the number of points of a sweep as texts; the last may be empty.

    Raises:
        ConfigError: another form.
    """
    name, _, rest = text.partition("=")
    low, dots, ends = rest.partition("..")
    if not dots:
        raise ConfigError(f"--sweep {text!r}: expected NAME=LOW..HIGH[:POINTS], e.g. {example}")
    high, _, points = ends.partition(":")
    return name, low, high, points


def sweep_values(name: str, low: float, high: float, points: int) -> list[float]:
    """Return ascending values from ``low`` to ``high`` in equal ratios, in equal steps from 0; of ``dac-bits`` every
    whole number, whatever ``points`` is."""
    if name == "dac-bits":
        return [float(bits) for bits in range(math.ceil(low), math.floor(high) + 1)]
    values = np.geomspace(low, high, points) if low > 0 else np.linspace(low, high, points)
    return [float(value) for value in values]
