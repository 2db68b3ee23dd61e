"""Models for SAX of everything that a netlist names: interferometers, phases, waveguides, gains, units.

Every model takes the wavelength as SAX does, ``wl`` in µm, and so does the circuit: ``circuit(wl=1.552)``. Phases are
those at the wavelength at which the chip was set; `photonics.dispersion` says how they change beside it.

    mzi     B(π/4 + slope · (wl - wl0)) · diag(e^{iθ}, 1) · B · diag(e^{iφ}, 1), all phases of heaters times wl0 / wl
    guide   the phase of a waveguide beyond that at wl0
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from lightloom.photonics.dispersion import Dispersion

if TYPE_CHECKING:
    from lightloom.core.arrays import Floats

_MICRO = 1e6
_ASSUMED = Dispersion()
_WAVELENGTH = _ASSUMED.wavelength * _MICRO
_SLOPE = _ASSUMED.coupler_slope / _MICRO
_INDEX, _GROUP = _ASSUMED.effective_index, _ASSUMED.group_index

Paths = dict[tuple[str, str], Any]


def dispersion_settings(dispersion: Dispersion) -> dict[str, float]:
    """Return what the models need to know of a dispersion: µm, and radians per µm."""
    return {
        "wl0": dispersion.wavelength * _MICRO,
        "slope": dispersion.coupler_slope / _MICRO,
        "effective_index": dispersion.effective_index,
        "group_index": dispersion.group_index,
    }


def _reciprocal(paths: Paths) -> Paths:
    return paths | {(end, start): value for (start, end), value in paths.items()}


def _guide_phase(wl: Any, length: float, wl0: float, effective_index: float, group_index: float) -> Any:
    index = effective_index - (group_index - effective_index) * (wl - wl0) / wl0
    return 2 * np.pi * (index / wl - effective_index / wl0) * length


def models() -> dict[str, Any]:
    """Return reciprocal, reflection-free models of all devices, by default with the assumptions of `Dispersion`.

    Raises:
        ImportError: JAX is not installed, which SAX brings along.
    """
    jnp: Any = import_module("jax.numpy")

    def mzi(
        wl: float | Floats = _WAVELENGTH,
        *,
        theta: float = np.pi,
        phi: float = 0.0,
        theta_length: float = 0.0,
        phi_length: float = 0.0,
        length: float = 0.0,
        wl0: float = _WAVELENGTH,
        slope: float = _SLOPE,
        effective_index: float = _INDEX,
        group_index: float = _GROUP,
    ) -> Paths:
        """Lengths in µm: what the arms of θ and φ have too much, and that of the whole column."""
        indices = (wl0, effective_index, group_index)
        upper_theta = jnp.exp(1j * (theta * wl0 / wl + _guide_phase(wl, theta_length, *indices)))
        upper_phi = jnp.exp(1j * (phi * wl0 / wl + _guide_phase(wl, phi_length, *indices)))
        common = jnp.exp(1j * _guide_phase(wl, length, *indices))
        angle = np.pi / 4 + slope * (wl - wl0)
        straight, across = jnp.cos(angle), 1j * jnp.sin(angle)
        cross = straight * across * (upper_theta + 1)
        return _reciprocal(
            {
                ("in0", "out0"): common * upper_phi * (straight**2 * upper_theta + across**2),
                ("in1", "out0"): common * cross,
                ("in0", "out1"): common * upper_phi * cross,
                ("in1", "out1"): common * (across**2 * upper_theta + straight**2),
            }
        )

    def phase(wl: float | Floats = _WAVELENGTH, phase: float = 0.0, wl0: float = _WAVELENGTH) -> Paths:
        return _reciprocal({("in0", "out0"): jnp.exp(1j * phase * wl0 / wl)})

    def guide(
        wl: float | Floats = _WAVELENGTH,
        length: float = 0.0,
        wl0: float = _WAVELENGTH,
        effective_index: float = _INDEX,
        group_index: float = _GROUP,
    ) -> Paths:
        return _reciprocal({("in0", "out0"): jnp.exp(1j * _guide_phase(wl, length, wl0, effective_index, group_index))})

    def amplifier(wl: float | Floats = _WAVELENGTH, gain: float = 1.0) -> Paths:
        """Amplitude gain, the same at all wavelengths (an assumption); light back is absorbed."""
        return {("in0", "out0"): gain + 0j * jnp.asarray(wl), ("out0", "in0"): 0j * jnp.asarray(wl)}

    def unit(wl: float | Floats = _WAVELENGTH, slope: float = 1.0) -> Paths:
        """A nonlinear unit for small signals around its operating point; light back is absorbed."""
        return {("in0", "out0"): slope + 0j * jnp.asarray(wl), ("out0", "in0"): 0j * jnp.asarray(wl)}

    return {"mzi": mzi, "phase": phase, "guide": guide, "amplifier": amplifier, "unit": unit}
