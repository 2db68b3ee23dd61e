"""Monte Carlo over fabrications: from device noise to the error of a matrix or the accuracy of a network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lightloom.core.errors import ConfigError, UnknownNameError
from lightloom.photonics.devices import NonIdealities
from lightloom.photonics.meshes.blocks import MappedBlocks
from lightloom.photonics.meshes.disturb import Disturbed, disturb
from lightloom.photonics.meshes.mapping import MappedMatrix
from lightloom.photonics.meshes.mesh import Mesh

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

SCHEMA = "lightloom.disturb/1"
Ideal = Mesh | MappedMatrix | MappedBlocks
Evaluate = Callable[[Sequence[Disturbed], np.random.Generator], float]
"""Function of one fabrication of all matrices of a network and a generator of detector noise: accuracy, error, ..."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Values of an evaluation over several draws of the devices."""

    values: NDArray[np.float64]

    @property
    def row(self) -> dict[str, float]:
        """Mean, sample standard deviation, minimum and maximum."""
        deviation = float(self.values.std(ddof=1)) if self.values.size > 1 else 0.0
        return {
            "mean": float(self.values.mean()),
            "standard_deviation": deviation,
            "least": float(self.values.min()),
            "largest": float(self.values.max()),
        }


def monte_carlo(
    network: Sequence[Ideal], non_idealities: NonIdealities, evaluate: Evaluate, *, draws: int = 20, seed: int = 0
) -> Spread:
    """Evaluate ``draws`` fabrications of all matrices of ``network``. Draw k is the same for all ``non_idealities``.

    Raises:
        ConfigError: ``draws`` is below 1.
    """
    if draws < 1:
        raise ConfigError(f"draws={draws}: expected at least 1")
    values = []
    for k in range(draws):
        rng = np.random.default_rng((seed, k))
        values.append(evaluate([disturb(ideal, non_idealities, rng) for ideal in network], rng))
    return Spread(values=np.array(values, np.float64))


def sweep(
    network: Sequence[Ideal],
    parameter: str,
    values: Sequence[float],
    evaluate: Evaluate,
    *,
    base: NonIdealities | None = None,
    draws: int = 20,
    seed: int = 0,
) -> dict[str, Any]:
    """Run :func:`monte_carlo` for each value of one field of ``base`` (default ideal), and return a JSON document.

    ``{"schema", "parameter", "draws", "seed", "mzis", "rows": [{"value", "mean", "standard_deviation", "least",
    "largest"}]}``

    Raises:
        UnknownNameError: the field does not exist.
        ConfigError: a value is out of the field's range.
    """
    known = [field.name for field in fields(NonIdealities)]
    if parameter not in known:
        raise UnknownNameError("non-ideality", parameter, known)
    rows = []
    for value in values:
        setting = int(value) if parameter == "dac_bits" and value == int(value) else value
        non_idealities = replace(base or NonIdealities(), **{parameter: setting})  # type: ignore[arg-type, unused-ignore]
        rows.append({"value": value, **monte_carlo(network, non_idealities, evaluate, draws=draws, seed=seed).row})
    return {
        "schema": SCHEMA,
        "parameter": parameter,
        "draws": draws,
        "seed": seed,
        "mzis": sum(ideal.mzis for ideal in network),
        "rows": rows,
    }


def matrix_error(wanted: Sequence[ArrayLike], *, calibrated: bool = False) -> Evaluate:
    """Return the evaluation ε = ‖W' − W‖ / ‖W‖ (Frobenius norm over all matrices) for :func:`monte_carlo`.

    W' is measured column by column, with detector noise relative to the largest element of W. With ``calibrated``,
    receivers apply the real factor to each matrix that minimises its error, so uniform loss causes no error.
    """
    targets = [np.asarray(matrix) for matrix in wanted]

    def evaluate(fabricated: Sequence[Disturbed], rng: np.random.Generator) -> float:
        missed = total = 0.0
        for target, device in zip(targets, fabricated, strict=True):
            matrix = device.matrix()
            noise = rng.normal(size=matrix.shape) + 1j * rng.normal(size=matrix.shape)
            measured = matrix + device.non_idealities.detector_noise * np.abs(target).max() * noise / np.sqrt(2)
            if calibrated:
                measured *= np.vdot(measured, target).real / np.vdot(measured, measured).real
            missed += float(np.linalg.norm(measured - target) ** 2)
            total += float(np.linalg.norm(target) ** 2)
        return float(np.sqrt(missed / total))

    return evaluate


def expected_error(non_idealities: NonIdealities, size: int) -> float:
    """Return ε of one rectangular or triangular mesh of ``size`` modes, to first order in small errors.

    Squares of errors add up: an error δ of a phase shifter adds δ², an error δ of a coupler 2δ². Phase errors give
    σ√N, coupler errors σ√(2(N − 1)), and a DAC of b bits acts as a phase error σ = 2π/(2ᵇ√12). Loss, spread of
    heaters, crosstalk and detector noise are not included.
    """
    step = 2 * np.pi / 2**non_idealities.dac_bits / np.sqrt(12) if non_idealities.dac_bits else 0.0
    phases = (non_idealities.phase_error**2 + step**2) * size
    return float(np.sqrt(phases + non_idealities.coupler_error**2 * 2 * (size - 1)))
