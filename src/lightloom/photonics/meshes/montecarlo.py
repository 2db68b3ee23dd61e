"""From device noise to the error of a matrix, or to whatever a network is judged by."""

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
"""Takes one draw of all matrices of a network and a generator for detection noise; returns accuracy, error, ..."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """What an evaluation gave over many draws of the devices."""

    values: NDArray[np.float64]

    @property
    def row(self) -> dict[str, float]:
        """Mean, sample standard deviation, least and largest."""
        deviation = float(self.values.std(ddof=1)) if self.values.size > 1 else 0.0
        return {
            "mean": float(self.values.mean()),
            "standard_deviation": deviation,
            "least": float(self.values.min()),
            "largest": float(self.values.max()),
        }


def monte_carlo(
    network: Sequence[Ideal], how: NonIdealities, evaluate: Evaluate, *, draws: int = 20, seed: int = 0
) -> Spread:
    """Evaluate ``draws`` fabrications of all matrices of ``network``. Draw k is the same for every ``how``.

    Raises:
        ConfigError: no draws.
    """
    if draws < 1:
        raise ConfigError(f"draws={draws}: expected at least 1")
    values = []
    for k in range(draws):
        rng = np.random.default_rng((seed, k))
        values.append(evaluate([disturb(each, how, rng) for each in network], rng))
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
    """:func:`monte_carlo` for each value of one field of ``base`` (ideal without it), as a document for JSON.

    ``{"schema", "parameter", "draws", "seed", "mzis", "rows": [{"value", "mean", "standard_deviation", "least",
    "largest"}]}``

    Raises:
        UnknownNameError: no such field.
        ConfigError: a value that the field cannot have.
    """
    known = [field.name for field in fields(NonIdealities)]
    if parameter not in known:
        raise UnknownNameError("non-ideality", parameter, known)
    rows = []
    for value in values:
        setting = int(value) if parameter == "dac_bits" and value == int(value) else value
        how = replace(base or NonIdealities(), **{parameter: setting})  # type: ignore[arg-type, unused-ignore]
        rows.append({"value": value, **monte_carlo(network, how, evaluate, draws=draws, seed=seed).row})
    return {
        "schema": SCHEMA,
        "parameter": parameter,
        "draws": draws,
        "seed": seed,
        "mzis": sum(each.mzis for each in network),
        "rows": rows,
    }


def matrix_error(wanted: Sequence[ArrayLike], *, calibrated: bool = False) -> Evaluate:
    """ε = ‖W' − W‖ / ‖W‖ (Frobenius), over all matrices, as :func:`monte_carlo` evaluates it.

    W' is measured column by column, with the detectors' noise relative to the largest element wanted. With
    ``calibrated`` receivers first multiply each matrix by the real number that suits it best: loss that is the same
    everywhere is then no error.
    """
    targets = [np.asarray(each) for each in wanted]

    def evaluate(found: Sequence[Disturbed], rng: np.random.Generator) -> float:
        missed = total = 0.0
        for target, each in zip(targets, found, strict=True):
            matrix = each.matrix()
            noise = rng.normal(size=matrix.shape) + 1j * rng.normal(size=matrix.shape)
            measured = matrix + each.how.detector_noise * np.abs(target).max() * noise / np.sqrt(2)
            if calibrated:
                measured *= np.vdot(measured, target).real / np.vdot(measured, measured).real
            missed += float(np.linalg.norm(measured - target) ** 2)
            total += float(np.linalg.norm(target) ** 2)
        return float(np.sqrt(missed / total))

    return evaluate


def expected_error(how: NonIdealities, size: int) -> float:
    """ε of one rectangular or triangular mesh of ``size`` modes, to first order in small errors.

    Every MZI passes its share of the light once, so that squares add up: an error δ of a phase adds δ², one of a
    coupler 2δ². Phase errors then give σ√N, couplers σ√(2(N − 1)), b bits σ = 2π/(2ᵇ√12). Loss, crosstalk and detection
    are left out.
    """
    step = 2 * np.pi / 2**how.dac_bits / np.sqrt(12) if how.dac_bits else 0.0
    phases = (how.phase_error**2 + step**2) * size
    return float(np.sqrt(phases + how.coupler_error**2 * 2 * (size - 1)))
