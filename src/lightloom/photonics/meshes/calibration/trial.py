"""Calibrate simulated chips and compare with what no measurement shows: the true error, before and after."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from lightloom.core.errors import ConfigError
from lightloom.core.results import Document
from lightloom.photonics.devices import NonIdealities
from lightloom.photonics.meshes.calibration.calibrate import OUTPUT_ORDERS, Calibration, calibrate, target_of
from lightloom.photonics.meshes.calibration.chip import SimulatedChip
from lightloom.photonics.meshes.calibration.fit import Unknowns, ignore
from lightloom.photonics.meshes.calibration.programming import program
from lightloom.photonics.meshes.calibration.twin import Fields, Settings
from lightloom.photonics.meshes.decompose import decompose
from lightloom.photonics.meshes.disturb import disturb
from lightloom.photonics.meshes.layout import Kind
from lightloom.photonics.meshes.mapping import MappedMatrix
from lightloom.photonics.meshes.mesh import Mesh

AGAIN = 4
"""Settings of a second calibration, which fits offsets alone: couplers and heaters do not drift."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """How a simulated chip is measured."""

    power_noise: float = 1e-3
    """Standard deviation of a measured power, as a share of the input power. An assumption."""
    drift: float = 0.0
    """Radians that every phase drifts between two settings, standard deviation of a Gaussian step."""
    settings: int | None = None
    """Settings that are measured; by default 12 or more."""
    aging: float = 0.0
    """Radians that every phase drifts after the calibration, before a second one."""
    unknowns: Unknowns = field(default_factory=Unknowns)
    """What is fitted."""
    unknown_offsets: bool = False
    """Whether the phase offsets are drawn from a whole turn, and found by sweeps first."""
    output_orders: int = OUTPUT_ORDERS
    """Other orders of the outputs that are tried if a splitting is out of the couplers' reach."""
    real: bool = False
    """Whether receivers detect real parts, as homodyne units do; light in quadrature is then no error."""

    def __post_init__(self) -> None:
        for name, largest, unit in (
            ("power_noise", 10.0, "input powers"),
            ("drift", 10.0, "rad"),
            ("aging", 10.0, "rad"),
        ):
            value = getattr(self, name)
            if not (np.isfinite(value) and value >= 0):
                raise ConfigError(f"{name}={value}: expected a finite number of at least 0")
            if value > largest:
                raise ConfigError(f"{name}={value:g}: expected at most {largest:g} {unit}")
        if self.settings is not None and self.settings < 1:
            raise ConfigError(f"settings={self.settings}: expected at least 1")


@dataclass(frozen=True, kw_only=True, eq=False)
class Trial:
    """One simulated chip: its errors, relative and up to output phases, and what they cost."""

    calibration: Calibration
    before: float
    """Error with the phases of ideal devices."""
    after: float
    """Error with the calibrated phases."""
    limit: float
    """Error that remains if every error of the devices is known: some splittings are out of the couplers' reach."""
    aged: float | None
    """Error after the phases drifted on."""
    renewed: float | None
    """Error after a second calibration with :data:`AGAIN` settings."""
    cpu_seconds: float
    """CPU time of the calibration, the simulation of the measurements included."""
    before_matrix: Fields
    after_matrix: Fields
    """What the passive chip implements, [outputs, inputs]."""

    def row(self) -> Document:
        """Return the figures of this chip."""
        twin, made = self.calibration.twin, self.calibration
        return {
            "inputs": twin.wiring.inputs,
            "outputs": twin.wiring.outputs,
            "mzi_count": twin.wiring.devices,
            "settings": made.measured_settings,
            "measurements": made.measurements,
            "output_order": made.order.tolist(),
            "error_before": self.before,
            "error_after": self.after,
            "error_limit": self.limit,
            "error_in_twin": made.twin_errors[-1],
            "error_aged": self.aged,
            "error_renewed": self.renewed,
            "fitted_crosstalk": twin.crosstalk,
            "fitted_loss_db": twin.loss_db,
            "residuals": list(made.residuals),
        }


def try_calibration(
    ideal: Mesh | MappedMatrix,
    non_idealities: NonIdealities,
    conditions: Conditions,
    seed: int,
    advance: Callable[[int], None] = ignore,
) -> Trial:
    """Fabricate a chip, calibrate it, let it age, and calibrate it again from the twin that is known.

    Raises:
        ConfigError: see :func:`calibrate`.
    """
    rng = np.random.default_rng((seed, 0))
    fabricated = disturb(ideal, non_idealities, rng)
    chip = SimulatedChip(fabricated, power_noise=conditions.power_noise, drift=conditions.drift, seed=seed)
    if conditions.unknown_offsets:
        chip.scramble()
    target, (theta, phi), real = target_of(ideal), chip.designed, conditions.real
    untreated = Settings(theta=theta, phi=phi)
    before, before_matrix = chip.error(untreated, target, real=real), chip.matrix(untreated)
    began = time.process_time()
    made = calibrate(
        chip,
        ideal,
        settings=conditions.settings,
        unknowns=conditions.unknowns,
        unknown_offsets=conditions.unknown_offsets,
        real=real,
        output_orders=conditions.output_orders,
        seed=seed,
        advance=advance,
    )
    cpu_seconds = time.process_time() - began
    arranged = target[made.order]
    after, after_matrix = chip.error(made.settings, arranged, real=real), chip.matrix(made.settings)
    known = program(chip.truth(), target, (theta, phi), real=real).settings
    limit = chip.error(known, target, real=real)
    aged, renewed = _aged(chip, made, arranged, conditions, seed)
    return Trial(
        calibration=made,
        before=before,
        after=after,
        limit=limit,
        aged=aged,
        renewed=renewed,
        cpu_seconds=cpu_seconds,
        before_matrix=before_matrix,
        after_matrix=after_matrix,
    )


def _aged(
    chip: SimulatedChip, made: Calibration, target: Fields, conditions: Conditions, seed: int
) -> tuple[float | None, float | None]:
    """Return the error of the aged chip before and after a second calibration; None without aging.

    Receivers read the outputs in the order of the first calibration.
    """
    if not conditions.aging:
        return None, None
    chip.age(conditions.aging)
    aged = chip.error(made.settings, target, real=conditions.real)
    again = calibrate(
        chip,
        made.programmed,
        settings=AGAIN,
        unknowns=replace(conditions.unknowns, couplers=False, heaters=False, crosstalk=False, loss=False),
        start=made.twin,
        real=conditions.real,
        output_orders=0,
        seed=seed + 1,
    )
    return aged, chip.error(again.settings, target, real=conditions.real)


def random_mesh(modes: int, kind: Kind, seed: int) -> Mesh:
    """Return the mesh of a unitary matrix drawn from the Haar measure.

    Raises:
        ConfigError: ``modes`` is below 1.
    """
    if modes < 1:
        raise ConfigError(f"modes={modes}: expected at least 1")
    rng = np.random.default_rng((seed, modes))
    normal = rng.normal(size=(modes, modes)) + 1j * rng.normal(size=(modes, modes))
    unitary, upper = np.linalg.qr(normal)
    return decompose(unitary * (np.diag(upper) / np.abs(np.diag(upper))), kind)
