"""Launches in a row, each judged: ``python -m benchmarks.training.launches [--count 30] [--json FILE]``.

Four processes train with the hook over gloo and sockets, as in ``tests/training/hooks/test_ddp.py``. A launch is clean
when every rank wrote its result, all replicas are the same bits and every exit code is 0.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from lightloom.core.files import check_writable, write_atomically
from lightloom.core.results import provenance
from lightloom.exchange.transport.launch import launch

RANKS = 4
TIMEOUT = 240.0
FUNCTION = "tests.training.hooks.workers:compressed"


def one() -> dict[str, Any]:
    """One launch: how each rank ended."""
    began = time.perf_counter()
    outcomes = launch(FUNCTION, RANKS, TIMEOUT, check=False)
    errors = [outcome.error for outcome in outcomes if outcome.error is not None]
    codes = [outcome.exit_code for outcome in outcomes]
    digests = {outcome.value["digest"] for outcome in outcomes if outcome.value is not None}
    clean = not errors and codes == [0] * RANKS and len(digests) == 1
    return {"clean": clean, "exit_codes": codes, "errors": errors, "seconds": round(time.perf_counter() - began, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training.launches")
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.json is not None:
        check_writable(options.json)
    launches = []
    for number in range(options.count):
        launches.append(one())
        print(f"{number + 1:3} of {options.count}: {launches[-1]}", flush=True)
    clean = sum(each["clean"] for each in launches)
    print(f"{clean} of {options.count} launches of {RANKS} processes ended cleanly")
    if options.json is not None:
        origin = provenance({"function": FUNCTION, "ranks": RANKS, "count": options.count})
        found = {"launches": launches, "clean": clean, "provenance": origin}
        write_atomically(options.json, json.dumps(found, indent=1) + "\n")
    sys.exit(0 if clean == options.count else 1)


if __name__ == "__main__":
    main()
