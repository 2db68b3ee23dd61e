"""The page of the calibration benchmark: docs/photonics/calibration.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lightloom.core.results import provenance_line

_OPENING = """# Calibration

Fabricated interferometers have unknown phase offsets, unequal couplers and heaters of unequal efficiency. `onn
calibrate` finds them from the powers at the outputs alone: it measures a simulated chip at some settings of its
phases, fits a twin of it, and programs the twin.

    lightloom onn map --study calibrate --set chips=4 --figure calibration.svg
    lightloom onn map net.npz --study calibrate    # P, every layer and T of a network, and its average

In Python, with a chip of your own (a class with `wiring`, `dac_bits` and `powers(settings, vectors)`):

```python
from lightloom.photonics.meshes.calibration.calibrate import calibrate
from lightloom.photonics.meshes.calibration.chip import SimulatedChip
from lightloom.photonics.meshes.decompose import decompose
from lightloom.photonics.meshes.disturb import disturb

mesh = decompose(unitary)
chip = SimulatedChip(disturb(mesh, NonIdealities(phase_error=0.1, coupler_error=0.02), rng), power_noise=1e-3)
calibration = calibrate(chip, mesh)  # .settings to command, .twin, .measurements
```

![Difference of powers after each step, error of each layer before and after](../pictures/photonics/calibration.png)

The picture is `lightloom onn map --study calibrate` of the network of [onn.md](onn.md), whose servers receive
0.73 % of 20,000 words right with the phases of ideal devices and 100 % once calibrated, P and T included, with 19,980
measured powers.

## How

* **Measure.** At S settings of all phases (half of them random, half near the designed ones), every single input and
  every vector of the discrete Fourier transform is sent in: S · 2N · N powers.
* **Fit.** Light is linear in each parameter of one column, so d|E|²/dp = 2 Re(conj(E) · behind · dT/dp · in front):
  one pass forward and one backward give all derivatives. Damped Gauss-Newton steps fit the offsets of θ and φ, both
  couplers and the efficiencies of both heaters of every interferometer, one thermal crosstalk and one loss for all.
* **Program.** Gauss-Newton steps on the twin, from the corrected phases of Bandyopadhyay et al. (arXiv 2103.04993),
  in all phases and in those of the outputs. For homodyne units only real parts count.

Offsets that are wholly unknown (`unknown_offsets`) come from sweeps first: from the last column to the first, 6
settings find the pure states of all interferometers of a column at once, and one setting for each interferometer
tells cross from bar; then 3 settings a column give φ. This needs a single mesh.

**What powers do not show**: phases at the outputs (the local oscillators of homodyne receivers, or the next mesh, set
them), and phases at the inputs other than relative to those of the coherent vectors that are sent in. A network's
chip is assumed to have coherent light at the inputs of P, of each layer and of T while it is calibrated, and detectors
at their outputs. Losses that differ
between interferometers are not fitted.

## What it reaches

The error is ‖g D M - U‖ / ‖U‖ with the best phases D of the outputs and the best gain g. Haar-random unitary matrices
on rectangular meshes, phase offsets of 0.1 rad (assumed), couplers of 0.02 (silicon: 0.01 to 0.02), heaters whose
phases differ by 1 % from what is commanded (assumed), noise of 1e-3 of the input power on every power (assumed).
"""

_REACH = """
*Out of reach* counts chips on which some interferometer cannot be set to the splitting that the matrix needs, as the
errors of its couplers add up to more than θ/2 (or π less of it): no phases give an error below 1e-3 there, whatever
is known. *Devices allow* is the error of the worst chip with outputs as designed if every error is known. Another order
of the outputs, which receivers undo, avoids it: where the fitted twin says that a splitting is out of reach, and only
there, 20 other orders are tried (`output_orders`), and the one with the fewest such splittings is programmed. This
takes no further measurement.
"""

_GROWTH = """
## How the error grows

{modes} modes, {chips} chips a row; what a title does not name is as above. The median of the true error, not of what
the twin believes.
"""

_CLOSING = """
* Heaters that are taken for nominal ruin the result from a spread of 1 % on; until version 0.2 they were, and these
  tables had no spread. What the twin does not explain shows in the powers, and the command says so.
* Crosstalk to nearest heaters is one number, and fitted; ignored, it hurts from 1e-3 on.
* The DAC rounds what is programmed: σ = 2π/(2ᵇ√12) a phase, √N of that a matrix. It does not disturb the fit, which
  knows what was set.
* From offsets of about 0.8 rad on, a fit may end in a twin that does not explain the powers: the command says so, and
  `unknown_offsets` starts from sweeps instead.
* Drift while measuring acts as noise that the twin cannot explain. Afterwards, 4 settings at the old twin give new
  offsets.
* Loss takes light from long paths more than from short ones: what remains with everything known is in *devices
  allow*; the square form (`onn map --set form=svd`) has the most equal paths.
"""


def page(document: Mapping[str, Any]) -> str:
    """Return the page in Markdown."""
    sizes, studies = document["sizes"], document["studies"]
    first = next(iter(studies.values()))[0]
    parts = [
        _OPENING,
        _size_table(sizes),
        _REACH,
        _verdicts(sizes, document["limits"]),
        _GROWTH.format(modes=first["modes"], chips=first["chips"]),
        *(_study_table(title, rows) for title, rows in studies.items()),
        _CLOSING,
        "\nMade by `python -m benchmarks.photonics.calibration --page docs/photonics/calibration.md`, one thread of a\n"
        f"{document['cpu']}. CPU seconds include the simulation of the measurements.\n"
        f"{provenance_line(document['provenance'])}\n",
    ]
    return "\n".join(part.strip("\n") + "\n" for part in parts)


def _size_table(rows: Sequence[Mapping[str, Any]]) -> str:
    heads = ["modes", "chips", "offsets", "order of outputs", "settings", "powers", "CPU-s", "before", "after", "worst"]
    heads += ["out of reach", "devices allow"]
    lines = ["| " + " | ".join(heads) + " |", "| ---: | ---: | --- | --- |" + " ---: |" * (len(heads) - 4)]
    for row in rows:
        cells = [
            f"{row['modes']}",
            f"{row['chips']}",
            "wholly unknown" if row["unknown_offsets"] else "0.1 rad",
            f"best of {row['output_orders'] + 1}" if row["output_orders"] else "as designed",
            f"{row['settings']}",
            f"{row['measurements']:,}",
            f"{row['cpu_s']:.2g}",
            f"{row['before']:.3f}",
            f"{row['after']:.4f}",
            f"{row['worst']:.4f}",
            f"{row['out_of_reach']}",
            f"{row['worst_limit']:.4f}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _verdicts(rows: Sequence[Mapping[str, Any]], limits: Mapping[str, Sequence[Any]]) -> str:
    lines = []
    for row in rows:
        if row["unknown_offsets"] or str(row["modes"]) not in limits:
            continue
        which, limit = limits[str(row["modes"])]
        reached = row["worst" if which == "worst" else "after"]
        order = "" if row["output_orders"] else ", outputs as designed"
        verdict = "held" if reached <= limit else "not held"
        within = ""
        if reached > limit and row["worst_reachable"] is not None:
            count = row["chips"] - row["out_of_reach"]
            within = f"; the worst of the {count} chips in reach has {row['worst_reachable']:.4f}"
        lines.append(f"* {row['modes']} modes{order}: {which} {reached:.4f}, limit {limit:g}: {verdict}{within}.")
    return "\n".join(lines)


def _study_table(title: str, rows: Sequence[Mapping[str, Any]]) -> str:
    aged = rows[0]["aged"] is not None
    heads = [title, "powers", "before", "after", "worst", "devices allow (median)"]
    heads += ["drifted", "4 settings more"] if aged else []
    lines = ["| " + " | ".join(heads) + " |", "|" + " ---: |" * len(heads)]
    for row in rows:
        cells = [row["label"], f"{row['measurements']:,}"]
        cells += [f"{row[name]:.4f}" for name in ("before", "after", "worst", "limit")]
        cells += [f"{row[name]:.4f}" for name in ("aged", "renewed")] if aged else []
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)
