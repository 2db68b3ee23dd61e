"""What ``calibrate`` returns for a profile: measured operators beside predictions, and parameters fitted to them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lightloom.accelerators.base import Accelerator
from lightloom.accelerators.calibrated import Calibration
from lightloom.accelerators.load import calibrated_accelerator
from lightloom.api.calibrations import Fitted
from lightloom.calibration.document import calibration_text
from lightloom.calibration.profile_fit import FITTED, calibrate_on_profile, usable_operators
from lightloom.calibration.profiled_operators import TIMED_FROM, ProfiledOperator, operators_of, predicted_seconds
from lightloom.core.arrays import Floats
from lightloom.core.errors import ConfigError
from lightloom.core.results import Document, plain
from lightloom.core.units import format_time
from lightloom.interchange.traces.kineto import Profile

SCHEMA = "lightloom.profile/1"


@dataclass(frozen=True, repr=False)
class ProfileCalibration(Fitted):
    """Operators of a profiled step with their measured and predicted times, and what they say about the accelerator."""

    profile: Profile
    accelerator_name: str
    """The accelerator, as it was named."""
    base: Accelerator
    """The same, read."""
    origin: Document
    """Version, hash of the configuration, and seed."""
    left_columns = ("operator", "inputs", "format", "pass")

    @cached_property
    def operators(self) -> list[ProfiledOperator]:
        """The operators that took time, the longest first."""
        return operators_of(self.profile)

    @cached_property
    def refusal(self) -> str | None:
        """Why nothing is fitted; None where something is."""
        try:
            self.calibration  # noqa: B018
        except ConfigError as error:
            return str(error)
        return None

    @cached_property
    def calibration(self) -> Calibration:
        """Parameters of the kernel model, fitted to the operators.

        Raises:
            ConfigError: the profile is of the host alone, or has too few operators that can be priced.
        """
        return calibrate_on_profile(self.profile, self.base, self.accelerator_name)

    @property
    def accelerator(self) -> Accelerator:
        """The accelerator with the fitted parameters, for clusters and plans.

        Raises:
            ConfigError: nothing is fitted.
        """
        return calibrated_accelerator(self.calibration)

    @property
    def title(self) -> str:
        place = " and ".join(self.profile.devices) if self.profile.on_device else "the host"
        return (
            f"operators of {self.profile.name}, on {place or 'a GPU'}, beside predictions for {self.accelerator_name}"
        )

    def text(self) -> str:
        """Return the calibration as YAML.

        Raises:
            ConfigError: nothing is fitted.
        """
        return calibration_text(self.calibration)

    def rows(self) -> list[Document]:
        """Return a row for each operator, the longest first; ``seconds`` are those of one call."""
        total = sum(operator.seconds for operator in self.operators)
        fitted = self._predicted_by_fit()
        return [
            {
                "operator": operator.key.name,
                "inputs": [list(shape) for shape in operator.key.shapes],
                "format": operator.rate or operator.key.precision,
                "pass": operator.key.step_pass,
                "calls_per_step": operator.calls / self.profile.steps,
                "measured_s": operator.mean_seconds,
                "predicted_s": None if np.isnan(prior) else float(prior),
                "fitted_s": None if fitted is None or np.isnan(fitted[number]) else float(fitted[number]),
                "share": operator.seconds / total,
                "kernels": list(operator.kernels),
            }
            for number, (operator, prior) in enumerate(zip(self.operators, self._predicted(), strict=True))
        ]

    def display_rows(self) -> list[dict[str, object]]:
        return [
            {
                "operator": row["operator"].removeprefix("aten::"),
                "inputs": " ".join("x".join(map(str, shape)) or "1" for shape in row["inputs"]),
                "format": row["format"],
                "pass": row["pass"],
                "calls a step": f"{row['calls_per_step']:.4g}",
                "measured": format_time(row["measured_s"]),
                "predicted": _time(row["predicted_s"]),
                **({} if self.refusal else {"fitted": _time(row["fitted_s"])}),
                "share": f"{row['share']:.1%}",
            }
            for row in self.rows()
        ]

    def remarks(self) -> list[str]:
        return list(self._remarks())

    def _remarks(self) -> Iterator[str]:
        profile = self.profile
        steps = f"{profile.steps} steps" if profile.steps > 1 else "one step"
        duration = "" if profile.step_seconds is None else f" of {format_time(profile.step_seconds)} each"
        busy = sum(operator.seconds for operator in self.operators) / profile.steps
        yield f"{steps}{duration}, {format_time(busy)} of it in these operators"
        if profile.unattributed_seconds:
            share = profile.unattributed_seconds / profile.device_seconds
            yield f"{share:.1%} of the GPU's time was launched by no operator (compiled code, collectives): left out"
        if self.refusal is not None:
            yield f"nothing fitted: {self.refusal}"
            return
        calibration, used = self.calibration, usable_operators(self.operators, self.base)
        yield (
            f"fitted to {len(used)} operators that are priced and take {format_time(TIMED_FROM)} or more: "
            + ", ".join(
                f"{name} {calibration.parameters[name].prior:.4g} to {calibration.parameters[name].value:.4g}"
                for name in FITTED
                if calibration.parameters[name].determined
            )
        )
        left = [name for name in FITTED if not calibration.parameters[name].determined]
        if left:
            yield f"the operators say little about {', '.join(left)}: near their priors"
        error = calibration.cross_validated
        yield (
            f"operators held out in {error.folds} folds: mean error {error.mean:.1%}, median {error.median:.1%}; "
            "fusion, dispatch, links and what a step adds stay at their priors"
        )

    def _predicted(self) -> Floats:
        return predicted_seconds(self.operators, self.base)

    def _predicted_by_fit(self) -> Floats | None:
        return None if self.refusal else predicted_seconds(self.operators, self.accelerator)

    def to_json(self) -> Document:
        """Return the document that ``lightloom calibrate --profile --json`` prints."""
        profile = self.profile
        document = {
            "schema": SCHEMA,
            "profile": profile.name,
            "sha256": profile.sha256,
            "accelerator": self.accelerator_name,
            "devices": profile.devices,
            "on_device": profile.on_device,
            "steps": profile.steps,
            "step_s": profile.step_seconds,
            "device_s": profile.device_seconds,
            "unattributed_s": profile.unattributed_seconds,
            "rows": self.rows(),
            "refusal": self.refusal,
            "calibration": None if self.refusal else self.calibration.model_dump(mode="json"),
            "provenance": self.origin,
        }
        return {name: plain(value) for name, value in document.items()}


def _time(seconds: float | None) -> str:
    return "" if seconds is None else format_time(seconds)
