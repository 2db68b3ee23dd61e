"""Matrices that meshes are tried on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray

from lightloom.photonics.devices import NonIdealities
from lightloom.photonics.meshes.disturb import Disturbed, Evaluate


def haar(size: int, seed: int, *, real: bool = False) -> NDArray[Any]:
    """A unitary (orthogonal) matrix drawn from the Haar measure."""
    rng = np.random.default_rng(seed)
    normal = rng.normal(size=(size, size)) + (0 if real else 1j * rng.normal(size=(size, size)))
    q, r = np.linalg.qr(normal)
    unit = np.diag(r) / np.abs(np.diag(r))
    result: NDArray[Any] = q * unit
    return result


def block_diagonal(size: int, seed: int) -> NDArray[Any]:
    """Haar blocks of random sizes along the diagonal: a unitary with many zeros."""
    rng = np.random.default_rng(seed)
    result = np.zeros((size, size), np.complex128)
    start = 0
    while start < size:
        block = int(rng.integers(1, min(6, size - start) + 1))
        result[start : start + block, start : start + block] = haar(block, seed + start)
        start += block
    return result


def fourier(size: int) -> NDArray[Any]:
    """The discrete Fourier transform."""
    return np.asarray(np.fft.fft(np.eye(size), norm="ortho"))


@st.composite
def unitaries(draw: st.DrawFn, largest: int = 65) -> NDArray[Any]:
    """Haar, and the special ones: identity, permutations, diagonal, block diagonal, Fourier, reversed."""
    size, seed = draw(st.integers(1, largest)), draw(st.integers(0, 2**16))
    rng = np.random.default_rng(seed)
    made: dict[str, NDArray[Any]] = {
        "complex": haar(size, seed),
        "real": haar(size, seed, real=True),
        "identity": np.eye(size),
        "permutation": np.eye(size)[rng.permutation(size)],
        "reversal": np.eye(size)[::-1],
        "diagonal": np.diag(np.exp(1j * rng.uniform(-4, 4, size))),
        "block diagonal": block_diagonal(size, seed),
        "Fourier": fourier(size),
        "nearly diagonal": haar(1, seed)[0, 0] * np.eye(size),
    }
    return made[draw(st.sampled_from(sorted(made)))]


def expected_error(non_idealities: NonIdealities, size: int) -> float:
    """Return ε of one rectangular or triangular mesh of ``size`` modes, to first order in small errors.

    Squares of errors add up: an error δ of a phase shifter adds δ², an error δ of a coupler 2δ². Phase errors give
    σ√N, coupler errors σ√(2(N − 1)), and a DAC of b bits acts as a phase error σ = 2π/(2ᵇ√12). Loss, spread of
    heaters, crosstalk and detector noise are not included.
    """
    step = 2 * np.pi / 2**non_idealities.dac_bits / np.sqrt(12) if non_idealities.dac_bits else 0.0
    phases = (non_idealities.phase_error**2 + step**2) * size
    return float(np.sqrt(phases + non_idealities.coupler_error**2 * 2 * (size - 1)))


def matrix_error(wanted: Sequence[ArrayLike], *, calibrated: bool = False) -> Evaluate:
    """Return the evaluation ε = ‖W' − W‖ / ‖W‖ (Frobenius norm over all matrices) for `monte_carlo`.

    W' is measured column by column, with detector noise relative to the largest element of W. With ``calibrated``,
    receivers apply the real factor to each matrix that minimises its error, so uniform loss causes no error.
    """
    targets = [np.asarray(matrix) for matrix in wanted]

    def evaluate(fabricated: Sequence[Disturbed], rng: np.random.Generator) -> float:
        missed = total = 0.0
        for target, device in zip(targets, fabricated, strict=True):
            matrix = device.matrix()
            noise = rng.normal(size=matrix.shape) + 1j * rng.normal(size=matrix.shape)
            measured = matrix + device.non_idealities.detector_noise * np.abs(target).max() * noise / np.sqrt(2)
            if calibrated:
                measured *= np.vdot(measured, target).real / np.vdot(measured, measured).real
            missed += float(np.linalg.norm(measured - target) ** 2)
            total += float(np.linalg.norm(target) ** 2)
        return float(np.sqrt(missed / total))

    return evaluate
