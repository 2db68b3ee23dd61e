"""`onn link` beside a second field simulation: ``python -m benchmarks.photonics.link_check``.

The second one (`benchmarks.support.field_simulation`) reads only the files that ``onn build`` and ``onn map`` export,
and sends fields through every interferometer. Both draw fabrications, words and noise of their own. A setting agrees
where 0 is inside the 95 % interval of the difference of both word error rates (bootstrap over fabrications of both).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.support.field_simulation import read_network, wrong_words
from lightloom.core.arrays import Ints
from lightloom.core.errors import LightloomError
from lightloom.core.files import check_writable, write_atomically
from lightloom.core.results import provenance
from lightloom.photonics.averaging.construct import build
from lightloom.photonics.averaging.networks import FunctionArguments, save_network
from lightloom.photonics.link.settings import Link, ideal, only
from lightloom.photonics.link.simulate import design_chip
from lightloom.photonics.link.word_errors import interval, word_errors
from lightloom.photonics.meshes.files import save_phases

SERVERS, BITS, NOISE = 4, 8, 5e-3
WORDS = 2000
FABRICATIONS, OURS = 60, 240
"""Fabrications of the second simulation, and of `onn link`, whose interval is then the narrower one."""
TELLING = (1e-3, 0.5)
"""Word error rates between which a comparison says something."""
LEAST_AGREEING, LEAST_TELLING = 18, 15
_RESAMPLES = 4000
_EVERYTHING = replace(Link(), thermal_crosstalk=0.0, crossing_loss_db=0.0)
"""What the second simulation knows: neither crosstalk nor crossings."""
_OPTICAL = replace(_EVERYTHING, gain="optical", unit="clip")


def settings() -> dict[str, Link]:
    """The 20 links that are compared."""
    quiet = ideal(_EVERYTHING)
    detectors = replace(quiet, shot_noise=True, noise_density=_EVERYTHING.noise_density)
    amplifiers = replace(ideal(_OPTICAL), amplifier_noise=True)
    return {
        "amplifier noise, 0.1 mW": replace(amplifiers, full_scale=1e-4),
        "amplifier noise, 0.3 mW": replace(amplifiers, full_scale=3e-4),
        "detector noise, 0.2 mW": replace(detectors, full_scale=2e-4),
        "shot noise, 0.1 mW": replace(only(_EVERYTHING, "shot noise"), full_scale=1e-4),
        "phase lock 0.15 rad": replace(quiet, phase_lock=0.15),
        "phase lock 0.3 rad, optical": replace(ideal(_OPTICAL), phase_lock=0.3),
        "server power 10 %": replace(quiet, power_error=0.1),
        "polarisation 0.3 rad": replace(quiet, polarisation=0.3),
        "skew 0.1 symbols": replace(quiet, skew=0.1),
        "laser noise -135 dB/Hz": replace(quiet, rin_db=-135.0),
        "intensity modulation": replace(quiet, modulation="intensity"),
        "mesh phases 0.01 rad, rows": replace(quiet, phase_error=0.01, calibration="rows"),
        "mesh phases 0.02 rad, words": replace(quiet, phase_error=0.02),
        "mesh couplers 0.04 rad, words": replace(quiet, coupler_error=0.04),
        "mesh loss 0.3 ± 0.1 dB, rows": replace(quiet, loss_db=0.3, loss_spread_db=0.1, calibration="rows"),
        "biases and gains 3 %": replace(quiet, bias_error=0.03, gain_error=0.03),
        "swing 0.6 rad, thresholds 10 %": replace(quiet, unit="limiting", swing=0.6, threshold_error=0.1),
        "everything, 0.3 mW": replace(_EVERYTHING, full_scale=3e-4),
        "everything, 0.5 mW, mesh phases 0.01 rad": replace(_EVERYTHING, full_scale=5e-4, phase_error=0.01),
        "everything, optical, 0.3 mW, rows": replace(_OPTICAL, full_scale=3e-4, calibration="rows"),
    }


def compared(ours: Ints, theirs: Ints) -> dict[str, Any]:
    """Compare wrong words [fabrications] of `onn link` and of the second simulation."""
    rng = np.random.default_rng(0)
    drawn = [counts[rng.integers(0, counts.size, (_RESAMPLES, counts.size))] / WORDS for counts in (ours, theirs)]
    low, high = np.percentile(drawn[0].mean(axis=1) - drawn[1].mean(axis=1), [2.5, 97.5])
    none = not ours.any() and not theirs.any()
    return {
        "link": float(ours.mean() / WORDS),
        "link_interval_95": interval(ours, WORDS),
        "second": float(theirs.mean() / WORDS),
        "second_interval_95": interval(theirs, WORDS),
        "difference_interval_95": [float(low), float(high)],
        "agrees": bool(none or low <= 0 <= high),
        "telling": bool(TELLING[0] <= theirs.mean() / WORDS <= TELLING[1]),
    }


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.photonics.link_check")
    parser.add_argument("--json", type=Path, help="also write every rate and interval to this file")
    parser.add_argument("--fabrications", type=int, default=FABRICATIONS, help="of the second one")
    parser.add_argument("--only", default="", help="settings whose name has this text")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.json is not None:
        check_writable(options.json)
    if options.fabrications < 2:
        parser.error("expected at least two fabrications")
    network = build(SERVERS, BITS, noise=NOISE, nonlinearity="clipped").network
    arguments = FunctionArguments(servers=SERVERS, bits=BITS)
    chip = design_chip(network, arguments)
    with tempfile.TemporaryDirectory() as folder:
        exported, phases = Path(folder) / "net.npz", Path(folder) / "phases.json"
        save_network(exported, network, arguments)
        save_phases(chip.mapped.parts, phases)
        read, meshes = read_network(exported), json.loads(phases.read_text())
    rows: dict[str, Any] = {}
    print(f"{'setting':44}{'onn link':>11}{'second':>11}   95 % interval of the second")
    for number, (name, link) in enumerate(settings().items()):
        if options.only not in name:
            continue
        theirs = wrong_words(read, meshes, asdict(link), options.fabrications, WORDS, options.seed + number)
        ours = word_errors(chip, link, words=WORDS, fabrications=4 * options.fabrications, seed=options.seed).wrong
        row = rows[name] = compared(ours, theirs)
        low, high = row["second_interval_95"]
        verdict = "" if row["agrees"] else "   DIFFERS"
        print(f"{name:44}{row['link']:11.3g}{row['second']:11.3g}   {low:.2g} to {high:.2g}{verdict}", flush=True)
    agreeing, telling = (sum(row[key] for row in rows.values()) for key in ("agrees", "telling"))
    print(f"{agreeing} of {len(rows)} agree (at least {LEAST_AGREEING})")
    print(f"{telling} lie between 1e-3 and 0.5 (at least {LEAST_TELLING})")
    if options.json is not None:
        configuration = {"settings": {name: asdict(link) for name, link in settings().items()}, "words": WORDS}
        configuration["fabrications"] = options.fabrications
        document = {"configuration": configuration, "settings": rows, "agreeing": agreeing, "telling": telling}
        document["provenance"] = provenance(configuration, options.seed)
        write_atomically(options.json, json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    try:
        main()
    except LightloomError as error:
        sys.exit(f"error: {error}")
