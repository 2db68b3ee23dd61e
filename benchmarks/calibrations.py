"""Calibrated accelerators of the catalog, from measured tables: ``python -m benchmarks.calibrations``.

Needs the measured tables (``LIGHTLOOM_MEASURED``). Each file is what this command writes:

    lightloom calibrate megatron-a100.csv --accelerator a100 --out CATALOG/a100-calibrated.yaml
"""

from __future__ import annotations

import sys

from benchmarks.support.measure import parse_no_options
from lightloom.core.errors import InputError
from lightloom.machines.accelerators.load import CATALOG
from lightloom.planning.calibration.accuracy import calibrate, write_calibration
from lightloom.planning.calibration.rows import read_steps

TABLES = {"a100": "megatron-a100.csv", "h100": "foundry-h100-small.csv"}
"""Table that each accelerator of the catalog is calibrated on."""


def main() -> int:
    try:
        for accelerator, table in TABLES.items():
            path = CATALOG / f"{accelerator}-calibrated.yaml"
            calibration = calibrate(read_steps(table), accelerator)
            write_calibration(calibration, path)
            print(f"{path.name}: {calibration}")
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    parse_no_options(__doc__)
    sys.exit(main())
