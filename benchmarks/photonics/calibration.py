"""Chips calibrated from output powers: ``python -m benchmarks.photonics.calibration [--page FILE] [--json FILE]``.

Haar-random unitary matrices on rectangular meshes, phase offsets of 0.1 rad, couplers of 0.02, heaters' efficiencies
spread by 1 %, powers with noise of 1e-3: 20 chips of 8 and of 16 modes, 5 of 32, with CPU seconds, settings and
powers. Then, with 8 modes, how the error grows with noise, settings, offsets, loss, heaters and crosstalk (fitted and
ignored), DAC bits, drift and aging. ``--page`` writes docs/photonics/calibration.md. The whole takes about fifteen
CPU minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.photonics.calibration_page import page
from benchmarks.support.measure import cpu_name, exit_clearly
from lightloom.core.errors import ConfigError
from lightloom.core.files import check_writable, write_atomically
from lightloom.core.results import provenance

CHIPS = {8: 20, 16: 20, 32: 5}
"""Chips of each number of modes."""
LIMITS = {8: ("worst", 0.003), 16: ("worst", 0.006), 32: ("median", 0.02)}
"""What the error is held to."""
LARGEST_AGAIN = 16
"""Largest number of modes that is calibrated with unknown offsets, and with outputs in the designed order, too."""
STUDY_MODES, STUDY_CHIPS = 8, 10


def main() -> int:
    """Measure, print, and write what was requested."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"  # before NumPy is imported
    return exit_clearly(_main)


def _main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.photonics.calibration", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument("--json", type=Path, help="write everything measured to this file")
    parser.add_argument("--page", type=Path, help="write the page (.md) to this file")
    parser.add_argument("--modes", type=int, nargs="+", default=list(CHIPS), help="sizes of the first table")
    parser.add_argument("--chips", type=int, help="chips of every row, for a quick look")
    options = parser.parse_args()
    if min(options.modes) < 2 or (options.chips is not None and options.chips < 1):
        raise ConfigError("expected at least 2 modes and 1 chip")
    for path in (options.json, options.page):
        if path is not None:
            check_writable(path)
    document = measure(options.modes, options.chips)
    text = page(document)
    if options.json is not None:
        write_atomically(options.json, json.dumps(document, indent=1) + "\n")
    if options.page is not None:
        write_atomically(options.page, text)
    else:
        print(text)


def measure(sizes: list[int], chips: int | None = None) -> dict[str, Any]:
    """Return both tables, with limits and what was reached."""
    from lightloom.photonics.meshes.calibration.calibrate import OUTPUT_ORDERS

    rows = [
        _row(f"{modes} modes", modes, chips or CHIPS.get(modes, 5), output_orders=orders, unknown_offsets=unknown)
        for unknown, orders in ((False, OUTPUT_ORDERS), (False, 0), (True, OUTPUT_ORDERS))
        for modes in sizes
        if modes <= LARGEST_AGAIN or (orders and not unknown)
    ]
    studies = {
        title: [_row(label, STUDY_MODES, chips or STUDY_CHIPS, **options) for label, options in cases.items()]
        for title, cases in _studies().items()
    }
    return {
        "schema": "lightloom.calibration-benchmark/1",
        "cpu": cpu_name(),
        "provenance": provenance({"sizes": sizes, "chips": chips}, seed=0),
        "sizes": rows,
        "studies": studies,
        "limits": {str(modes): list(limit) for modes, limit in LIMITS.items()},
    }


def _studies() -> dict[str, dict[str, Mapping[str, Any]]]:
    """Titles, and the errors or conditions that differ in each row."""
    return {
        "noise of a power": {f"{noise:g}": {"power_noise": noise} for noise in (1e-4, 1e-3, 1e-2)},
        "settings": {f"{count}": {"settings": count} for count in (3, 4, 6, 12, 24, 48)},
        "phase offsets, rad": {f"{offset:g}": {"phase_error": offset} for offset in (0.1, 0.3, 0.5, 0.8)},
        "couplers, rad": {f"{error:g}": {"coupler_error": error} for error in (0.0, 0.01, 0.02, 0.05)},
        "loss of an MZI, dB": {f"{loss:g}": {"loss_db": loss} for loss in (0.05, 0.1, 0.25)},
        "spread of loss, dB, not fitted": {
            f"{spread:g}": {"loss_db": 0.1, "loss_spread_db": spread} for spread in (0.01, 0.02, 0.05)
        },
        "spread of heaters' efficiencies, fitted": {
            f"{spread:g}": {"heater_spread": spread} for spread in (0.0, 0.01, 0.05)
        },
        "spread of heaters' efficiencies, ignored": {
            f"{spread:g}": {"heater_spread": spread, "heaters": False} for spread in (0.001, 0.01, 0.05)
        },
        "thermal crosstalk, fitted": {f"{share:g}": {"thermal_crosstalk": share} for share in (1e-3, 5e-3, 2e-2)},
        "thermal crosstalk, ignored": {
            f"{share:g}": {"thermal_crosstalk": share, "crosstalk": False} for share in (1e-4, 1e-3, 5e-3)
        },
        "DAC bits": {f"{bits}": {"dac_bits": bits} for bits in (6, 8, 10, 12)},
        "drift between two settings, rad": {f"{drift:g}": {"drift": drift} for drift in (1e-4, 1e-3, 3e-3, 1e-2)},
        "drift afterwards, rad": {f"{aging:g}": {"aging": aging} for aging in (0.003, 0.01, 0.03, 0.1)},
    }


def _row(
    label: str, modes: int, chips: int, *, crosstalk: bool = True, heaters: bool = True, **options: float
) -> dict[str, Any]:
    from statistics import median

    from lightloom.photonics.devices import NonIdealities
    from lightloom.photonics.meshes.calibration.calibrate import Conditions, random_mesh, try_calibration
    from lightloom.photonics.meshes.calibration.fit import Unknowns

    conditions = Conditions(unknowns=Unknowns(crosstalk=crosstalk, heaters=heaters))
    devices = NonIdealities(phase_error=0.1, coupler_error=0.02, heater_spread=0.01)
    named = set(Conditions.__dataclass_fields__)
    conditions = replace(conditions, **{name: value for name, value in options.items() if name in named})  # type: ignore[arg-type]
    devices = replace(devices, **{name: value for name, value in options.items() if name not in named})  # type: ignore[arg-type]
    trials = []
    for chip in range(chips):
        trials.append(try_calibration(random_mesh(modes, "rectangular", chip), devices, conditions, chip))
        print(f"{label}, {options or ''}: chip {chip + 1} of {chips}", file=sys.stderr)
    reachable = [trial.after for trial in trials if trial.limit <= 1e-3]

    def middle(value: Callable[[Any], float | None]) -> float | None:
        values = [value(trial) for trial in trials]
        return None if None in values else float(median(v for v in values if v is not None))

    return {
        "label": label,
        "modes": modes,
        "output_orders": conditions.output_orders,
        "unknown_offsets": conditions.unknown_offsets,
        "chips": chips,
        "settings": trials[0].calibration.measured_settings,
        "measurements": trials[0].calibration.measurements,
        "mzi_count": trials[0].calibration.twin.wiring.devices,
        "cpu_s": middle(lambda trial: trial.cpu_seconds),
        "before": middle(lambda trial: trial.before),
        "after": middle(lambda trial: trial.after),
        "worst": max(trial.after for trial in trials),
        "limit": middle(lambda trial: trial.limit),
        "worst_limit": max(trial.limit for trial in trials),
        "out_of_reach": chips - len(reachable),
        "worst_reachable": max(reachable, default=None),
        "aged": middle(lambda trial: trial.aged),
        "renewed": middle(lambda trial: trial.renewed),
    }


if __name__ == "__main__":
    sys.exit(main())
