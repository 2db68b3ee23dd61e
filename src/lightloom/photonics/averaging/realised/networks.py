"""Layered networks: weights, biases, a nonlinearity, and the full scale of every signal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lightloom.core.errors import InputError

Nonlinearity = Literal["relu", "clipped"]
Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class LayeredNetwork:
    """The network x -> W_L f(... f(W_1 x + b_1) ...) + b_L; receivers quantise the outputs of the linear last layer.

    Args:
        weights: matrix (outputs, inputs) of each layer.
        biases: vector (outputs,) of each layer.
        nonlinearity: nonlinearity of the hidden layers: ``relu`` is max(z, 0), ``clipped`` is min(max(z, 0), 1).
        full_scale: largest magnitude of each signal, for the inputs and the outputs of every layer. Noise is relative
            to it.

    Raises:
        InputError: shapes do not fit, or a weight, bias or full scale is not finite.
    """

    weights: tuple[Floats, ...]
    biases: tuple[Floats, ...]
    nonlinearity: Nonlinearity
    full_scale: tuple[Floats, ...]

    def __post_init__(self) -> None:
        if not self.weights or len(self.weights) != len(self.biases):
            raise InputError(
                f"{len(self.weights)} matrices and {len(self.biases)} biases: expected one of each per layer"
            )
        if self.nonlinearity not in ("relu", "clipped"):
            raise InputError(f"nonlinearity = {self.nonlinearity!r}: expected relu or clipped")
        for layer, (w, b) in enumerate(zip(self.weights, self.biases, strict=True), 1):
            if (
                w.ndim != 2
                or b.shape != (w.shape[0],)
                or (layer > 1 and w.shape[1] != self.weights[layer - 2].shape[0])
            ):
                raise InputError(f"layer {layer}: weights {w.shape} and biases {b.shape} do not fit the previous layer")
            if not (np.isfinite(w).all() and np.isfinite(b).all()):
                raise InputError(f"layer {layer}: a weight or bias is NaN or infinite")
        sizes = [(n,) for n in self.layers]
        if [s.shape for s in self.full_scale] != sizes or not all(np.isfinite(s).all() for s in self.full_scale):
            raise InputError(f"full scales of shapes {[s.shape for s in self.full_scale]}: expected finite {sizes}")

    @classmethod
    def of(
        cls,
        weights: Sequence[ArrayLike],
        biases: Sequence[ArrayLike] | None = None,
        nonlinearity: Nonlinearity = "relu",
    ) -> LayeredNetwork:
        """Make a network with full scales of 1; `noise.with_measured_full_scale` measures them."""
        matrices = tuple(np.atleast_2d(np.asarray(w, dtype=np.float64)) for w in weights)
        if biases is None:
            vectors = tuple(np.zeros(w.shape[0]) for w in matrices)
        else:
            vectors = tuple(np.asarray(b, dtype=np.float64) for b in biases)
        sizes = [matrices[0].shape[1], *(w.shape[0] for w in matrices)] if matrices else []
        return cls(matrices, vectors, nonlinearity, tuple(np.ones(n) for n in sizes))

    @property
    def layers(self) -> tuple[int, ...]:
        """Number of signals of the inputs, the hidden layers and the outputs."""
        return (self.weights[0].shape[1], *(w.shape[0] for w in self.weights))

    @property
    def depth(self) -> int:
        """Number of hidden layers."""
        return len(self.weights) - 1

    def same_weights(self, other: LayeredNetwork) -> bool:
        """Return whether the other network has the same layers, with exactly the same weights and biases."""
        ours, theirs = self.weights + self.biases, other.weights + other.biases
        return self.layers == other.layers and all(map(np.array_equal, ours, theirs))

    def signals(
        self, inputs: Floats, sigma: float = 0.0, rng: np.random.Generator | None = None, dtype: type = np.float64
    ) -> list[Floats]:
        """Return all signals, (n_layer, n): inputs, hidden layers after their nonlinearity, outputs.

        Args:
            inputs: input amplitudes (K, n).
            sigma: standard deviation of Gaussian noise on every signal, relative to the signal's full scale.
            rng: generator of the noise; required with ``sigma``.
            dtype: type of the arithmetic, float64 or float32.
        """
        signal: Floats = np.asarray(inputs, dtype=dtype)
        if signal.ndim != 2 or signal.shape[0] != self.layers[0]:
            raise InputError(f"inputs of shape {signal.shape}: expected ({self.layers[0]}, n)")
        result = []
        for layer, scale in enumerate(self.full_scale):
            if layer:
                signal = self.weights[layer - 1].astype(dtype) @ signal + self.biases[layer - 1].astype(dtype)[:, None]
                if layer < len(self.weights):
                    np.maximum(signal, 0, out=signal)
                    if self.nonlinearity == "clipped":
                        np.minimum(signal, 1, out=signal)
            if sigma:
                if rng is None:
                    raise InputError(f"sigma = {sigma}: expected a random generator with it")
                draws = rng.standard_normal(signal.shape, dtype=np.float32)
                signal = signal + draws * (sigma * scale[:, None]).astype(dtype)
            result.append(signal)
        return result

    def __call__(
        self, inputs: Floats, sigma: float = 0.0, rng: np.random.Generator | None = None, dtype: type = np.float64
    ) -> Floats:
        """Return the outputs, (outputs, n)."""
        return self.signals(inputs, sigma, rng, dtype)[-1]
