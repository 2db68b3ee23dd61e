"""A twin of a fabricated chip: light through interferometers with offsets and unequal couplers, and its derivatives.

A column's light is linear in each of its parameters, so

    d E_out / d p  =  (columns behind) · (dT / dp) · (fields in front),      d |E|² / d p = 2 Re(conj(E) · dE / dp)

and one pass forward and one backward give the derivatives with respect to all parameters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lightloom.core.arrays import Floats
from lightloom.photonics.devices import coupler
from lightloom.photonics.meshes.disturb import heat_from_neighbours
from lightloom.photonics.meshes.wiring import Wiring

Fields = NDArray[np.complex128]


@dataclass(frozen=True, kw_only=True, eq=False)
class Settings:
    """Phases that are commanded, in radians: θ and φ of every interferometer, [..., devices]."""

    theta: Floats
    phi: Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class Twin:
    """What is believed of a chip, in radians: errors of all phases, heaters and couplers, crosstalk, a common loss."""

    wiring: Wiring
    theta_offset: Floats
    phi_offset: Floats
    first: Floats
    """Mixing-angle error of each interferometer's first coupler, [devices]."""
    second: Floats
    """Mixing-angle error of the second coupler, [devices]."""
    theta_efficiency: Floats
    """Phase of each θ heater relative to its command, [devices]."""
    phi_efficiency: Floats
    """Phase of each φ heater relative to its command, [devices]."""
    crosstalk: float = 0.0
    """Share of a heater's phase that appears in each of its nearest heaters."""
    loss_db: float = 0.0
    """Loss of every interferometer, in dB."""

    @classmethod
    def ideal(cls, wiring: Wiring) -> Twin:
        """Return the twin of a chip without errors."""
        zero, one = np.zeros(wiring.devices), np.ones(wiring.devices)
        return cls(
            wiring=wiring,
            theta_offset=zero,
            phi_offset=zero,
            first=zero,
            second=zero,
            theta_efficiency=one,
            phi_efficiency=one,
        )

    def phases(self, settings: Settings) -> Settings:
        """Return the phases that act: what is set, the heat of neighbours, and the offsets."""
        theta_heat, phi_heat = heat_from_neighbours(settings.theta, settings.phi, self.wiring.beside)
        return Settings(
            theta=self.theta_efficiency * settings.theta + self.crosstalk * theta_heat + self.theta_offset,
            phi=self.phi_efficiency * settings.phi + self.crosstalk * phi_heat + self.phi_offset,
        )

    def devices(self, acting: Settings) -> Fields:
        """Return the transfer matrices [..., devices, 2, 2] at phases that act."""
        amplitude = 10 ** (-self.loss_db / 20)
        inner = coupler(self.first) * np.stack([np.exp(1j * acting.phi), np.ones_like(acting.phi)], -1)[..., None, :]
        turned = np.stack([np.exp(1j * acting.theta), np.ones_like(acting.theta)], -1)[..., None] * inner
        return np.asarray(amplitude * (coupler(self.second) @ turned))

    def device_derivatives(self, acting: Settings) -> Fields:
        """Return dT/dp [..., devices, 4, 2, 2] for θ, φ, the first and the second coupler."""
        amplitude = 10 ** (-self.loss_db / 20)
        upper_phi = np.stack([np.exp(1j * acting.phi), np.ones_like(acting.phi)], -1)[..., None, :]
        theta = np.exp(1j * acting.theta)
        upper_theta = np.stack([theta, np.ones_like(theta)], -1)[..., None]
        first, second, turned = coupler(self.first), coupler(self.second), np.pi / 2
        whole = second @ (upper_theta * (first * upper_phi))
        by_phi = whole * np.array([1j, 0.0])
        by_theta = second @ (np.stack([1j * theta, np.zeros_like(theta)], -1)[..., None] * (first * upper_phi))
        by_first = second @ (upper_theta * (coupler(self.first + turned) * upper_phi))
        by_second = coupler(self.second + turned) @ (upper_theta * (first * upper_phi))
        return np.asarray(amplitude * np.stack([by_theta, by_phi, by_first, by_second], -3))

    def propagate(self, settings: Settings, vectors: Fields) -> Fields:
        """Return output fields [..., outputs, vectors] of input fields [inputs, vectors]."""
        return forward(self.wiring, self.devices(self.phases(settings)), vectors)[0]


def forward(wiring: Wiring, devices: Fields, vectors: Fields) -> tuple[Fields, list[Fields]]:
    """Return the output fields [..., outputs, vectors], and those entering each column [..., devices, 2, vectors]."""
    batch = devices.shape[:-3]
    fields = np.zeros((*batch, wiring.size, vectors.shape[1]), np.complex128)
    fields[..., : wiring.inputs, :] = vectors
    entering = []
    for column in wiring.slices:
        pair = np.stack([wiring.upper[column], wiring.lower[column]], -1)
        inner = fields[..., pair, :]
        entering.append(inner)
        fields[..., pair, :] = devices[..., column, :, :] @ inner
    return fields[..., wiring.output_modes, :], entering


def backward(wiring: Wiring, devices: Fields) -> list[Fields]:
    """Return, for each column, the transfer [..., devices, outputs, 2] from behind its devices to the outputs."""
    batch = devices.shape[:-3]
    transfer = np.zeros((*batch, wiring.size, wiring.outputs), np.complex128)
    transfer[..., wiring.output_modes, np.arange(wiring.outputs)] = 1.0
    behind = []
    for column in reversed(wiring.slices):
        pair = np.stack([wiring.upper[column], wiring.lower[column]], -1)
        inner = transfer[..., pair, :]
        behind.append(np.swapaxes(inner, -1, -2))
        transfer[..., pair, :] = np.swapaxes(devices[..., column, :, :], -1, -2) @ inner
    return behind[::-1]


def field_derivatives(wiring: Wiring, behind: list[Fields], entering: list[Fields], changes: Fields) -> list[Fields]:
    """Return, for each column, dE/dp [..., devices, changes, outputs, vectors].

    ``changes`` [..., devices, changes, 2, 2] are derivatives of the devices' transfer matrices.
    """
    return [
        transfer[..., None, :, :] @ (changes[..., column, :, :, :] @ fields[..., None, :, :])
        for column, transfer, fields in zip(wiring.slices, behind, entering, strict=True)
    ]
