"""Constants of the link with their sources; a default without a published source says that it is an assumption."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

AMPLIFIER_LIMIT = 10 ** (17.24 / 10) * 1e-3
"""Saturated output power of a hybrid III-V/silicon optical amplifier, in watts: 17.24 dBm with 27 dB of gain and 540 mW
of electrical power (from a summary of the paper)."""

SOURCES: Mapping[str, str] = MappingProxyType(
    {
        "full_scale": "assumption: 3 mW, ten times what the row-gain network for 4 servers needs",
        "path_loss_db": "assumption: couplers, modulator, connectors 9 to 12 dB, no margin (25 dB in compare-reducers)",
        "modulation": "field amplitudes are what interferometers add; intensity is for comparison",
        "rin_db": "DFB lasers: -145 to -155 dB/Hz (from memory, verify)",
        "phase_lock": "optical injection phase-lock loops of DFB lasers: variance 0.003 rad² in 100 MHz (abstract)",
        "power_error": "assumption: static levelling to 1 %",
        "polarisation": "assumption: polarisation controllers that hold 0.05 rad",
        "skew": "assumption: 0.03 symbols, 0.6 ps at 50 GBd; transitions are raised cosines one symbol long",
        "gain": "electrical: homodyne units (photonics.nonlinear); optical: an amplifier behind every output",
        "noise_figure_db": "semiconductor optical amplifiers: below 6.5 dB (Almae data sheet)",
        "bandwidth": "assumption: 50 GHz of light for 50 GBd, that of amplifiers' noise alone",
        "local_oscillator": "assumption: 1 mW a detector",
        "responsivity": "assumption: 1 A/W",
        "noise_density": "12.86 pA/√Hz, the receiver of the link budget (photonics.link_budget.SOURCES)",
        "detector_bandwidth": "assumption: 35 GHz, 0.7 of 50 GBd; lasers' intensity noise fills it too",
        "unit": "limiting: balanced detection, limiting amplifier, Mach-Zehnder at null (photonics.nonlinear)",
        "swing": "assumption: 0.25 rad, a linear driver; the carrier is 12 dB above the signal",
        "bias_error": "assumption: 0.3 %",
        "gain_error": "assumption: 0.3 %",
        "threshold_error": "assumption: 1 % of the distance between levels",
        "calibration": "words: gains and biases are fitted to known words (photonics.link.calibration)",
        "phase_error": "assumption: 3e-3 rad; about 5e-3 in Shen et al., Nature Photonics 11, 441 (2017)",
        "coupler_error": "silicon: 0.01 to 0.02 rad (Bandyopadhyay et al., 2103.04993)",
        "loss_db": "assumption: 0.1 dB an interferometer (0.1 to 0.3 from memory, verify)",
        "loss_spread_db": "assumption: all interferometers lose alike",
        "crossing_loss_db": "silicon, multimode interference: 0.043 dB (Johnson et al., Opt. Express 28, 12498 (2020))",
        "thermal_crosstalk": "assumption: 1e-3 is left where settings cancel the rest",
        "dac_bits": "assumption: 8 bits over a whole turn; 8 to 16 are built",
    }
)
"""Source of each default of `Link`."""
