"""Layered networks: weights, biases, a nonlinearity, and the full scale of every signal."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lightloom.core.array_files import read_npz
from lightloom.core.errors import ConfigError, InputError
from lightloom.core.files import write_atomically
from lightloom.core.results import content_hash
from lightloom.photonics.averaging.function import (
    LEVELS,
    AveragingFunction,
    Rounding,
    preprocessing_matrix,
    splitting_matrix,
    symbols_for,
)
from lightloom.photonics.meshes.mapping import Convention, MeshMapping, decibels, full_count, network_count, row_gains

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
        """Raise InputError where shapes do not fit, the nonlinearity is unknown, or a weight, bias or full scale is not
        finite."""
        if not self.weights or len(self.weights) != len(self.biases):
            counts = f"{len(self.weights)} matrices and {len(self.biases)} biases"
            raise InputError(f"{counts}: expected one of each per layer")
        if self.nonlinearity not in ("relu", "clipped"):
            raise InputError(f"nonlinearity = {self.nonlinearity!r}: expected relu or clipped")
        for layer, (w, b) in enumerate(zip(self.weights, self.biases, strict=True), 1):
            expected = self.weights[layer - 2].shape[:1] if layer > 1 else w.shape[1:]
            if w.ndim != 2 or b.shape != (w.shape[0],) or w.shape[1:] != expected:
                raise InputError(f"layer {layer}: weights {w.shape} and biases {b.shape} do not fit the previous layer")
            if not (np.isfinite(w).all() and np.isfinite(b).all()):
                raise InputError(f"layer {layer}: a weight or bias is NaN or infinite")
        sizes = [(n,) for n in self.layers]
        if [s.shape for s in self.full_scale] != sizes or not all(np.isfinite(s).all() for s in self.full_scale):
            raise InputError(f"full scales of shapes {[s.shape for s in self.full_scale]}: expected finite {sizes}")

    @classmethod
    def of(
        cls, weights: Sequence[ArrayLike], biases: Sequence[ArrayLike] = (), nonlinearity: Nonlinearity = "relu"
    ) -> LayeredNetwork:
        """Return a network with full scales of 1, from a matrix (outputs, inputs) and a bias vector (outputs,) for each
        layer.

        Without ``biases`` all are 0. `proof.with_measured_full_scale` measures full scales.

        Raises:
            InputError: shapes do not fit, a weight or bias is not finite, or the nonlinearity does not exist.
        """
        matrices = tuple(np.atleast_2d(np.asarray(w, dtype=np.float64)) for w in weights)
        vectors = tuple(np.asarray(b, dtype=np.float64) for b in (biases or [np.zeros(w.shape[0]) for w in matrices]))
        sizes = [matrices[0].shape[1], *(w.shape[0] for w in matrices)] if matrices else []
        return cls(matrices, vectors, nonlinearity, tuple(np.ones(n) for n in sizes))

    @property
    def layers(self) -> tuple[int, ...]:
        """Numbers of signals of the inputs, of every hidden layer, and of the outputs."""
        return (self.weights[0].shape[1], *(w.shape[0] for w in self.weights))

    def same_weights(self, other: LayeredNetwork) -> bool:
        """Return whether the other network has the same layers, with exactly the same weights and biases; full scales
        and the nonlinearity may differ."""
        ours, theirs = self.weights + self.biases, other.weights + other.biases
        return self.layers == other.layers and all(map(np.array_equal, ours, theirs))

    def pruned(self, noise: bool) -> LayeredNetwork:
        """Return the network without hidden signals that cannot change its outputs, in one pass; full scales of the
        others stay.

        Removed are signals that the next layer reads with weights of 0 alone, and unless there is ``noise`` (on every
        signal, zeros included) those that are always 0, with a row and a bias of 0. Signals that only removed ones read
        are therefore kept.
        """
        kept = [np.arange(self.layers[0])]
        for matrix, bias, after in zip(self.weights, self.biases, self.weights[1:], strict=False):
            kept.append(np.flatnonzero(after.any(axis=0) & (noise | matrix.any(axis=1) | (bias != 0))))
        kept.append(np.arange(self.layers[-1]))
        weights = tuple(w[np.ix_(kept[i + 1], kept[i])] for i, w in enumerate(self.weights))
        biases = tuple(bias[rows] for bias, rows in zip(self.biases, kept[1:], strict=True))
        scales = tuple(scale[rows] for scale, rows in zip(self.full_scale, kept, strict=True))
        return LayeredNetwork(weights, biases, self.nonlinearity, scales)

    def signals(
        self, inputs: Floats, sigma: float = 0.0, rng: np.random.Generator | None = None, dtype: type = np.float64
    ) -> list[Floats]:
        """Return all signals, an array (n_layer, n) a layer: inputs, hidden ones after their nonlinearity, outputs.

        Noise is added to each signal behind its nonlinearity, the inputs included; the next layer reads it with its
        noise, and the arrays hold it.

        Args:
            inputs: input amplitudes (K, n).
            sigma: standard deviation of Gaussian noise on every signal, relative to the signal's full scale.
            rng: generator of the noise; required with ``sigma``.
            dtype: type of the arithmetic, float64 or float32.

        Raises:
            InputError: the inputs have another shape, or there is ``sigma`` without ``rng``.
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
        """Return the outputs, (outputs, n), before receivers round them; arguments are those of `signals`."""
        return self.signals(inputs, sigma, rng, dtype)[-1]


# Files of averaging networks: weights, biases, full scales, and the arguments of the function.

SCHEMA = "lightloom.network/1"
_MAPPING = "mapping_"
"""Start of the names of a mapping's values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionArguments:
    """Arguments of an averaging function, see `AveragingFunction.of`."""

    servers: int
    bits: int
    inputs: int = 4
    rounding: Rounding = "floor"
    carries_decimals: bool = False

    def function(self) -> AveragingFunction:
        """Return the averaging function of these arguments (`AveragingFunction.of`).

        Raises:
            ConfigError: an argument is out of range.
        """
        return AveragingFunction.of(**asdict(self))


def network_hash(network: LayeredNetwork, arguments: FunctionArguments) -> str:
    """Return 16 hex digits that hash all that a file of the network holds except a mapping to meshes.

    They cover the schema, the nonlinearity, the function's arguments, weights, biases and full scales, and are the
    provenance of what is computed from the network.
    """
    return content_hash([SCHEMA, network.nonlinearity, asdict(arguments), plain_arrays(network)])


def plain_arrays(network: LayeredNetwork) -> list[list[list[Any]]]:
    """Return the weights, the biases and the full scales of a network as nested lists.

    These are three lists; the first two have an entry for each layer, the third one more, for the inputs.
    """
    return [[array.tolist() for array in part] for part in (network.weights, network.biases, network.full_scale)]


def save_network(
    path: Path, network: LayeredNetwork, arguments: FunctionArguments, mapping: MeshMapping | None = None
) -> Path:
    """Write a network with the arguments of its function to an ``.npz`` file atomically, and return its path.

    Args:
        path: file to write.
        network: weights, biases, nonlinearity and full scales.
        arguments: arguments of the averaging function that the network computes.
        mapping: how the network's matrices were mapped to meshes when it was judged; None stores no mapping.

    Raises:
        ConfigError: the suffix is not ``.npz``, or the file cannot be written.
    """
    content: dict[str, Any] = {"schema": SCHEMA, **asdict(arguments), **network_arrays(network)}
    if mapping is not None:
        content |= {f"{_MAPPING}{name}": value for name, value in mapping.to_json().items()}
    return write_npz(path, content)


def write_npz(path: Path, content: Mapping[str, Any]) -> Path:
    """Write the values of ``content``, by name, as arrays of a compressed ``.npz`` file, atomically, and return its
    path.

    Raises:
        ConfigError: the suffix is not ``.npz``, or the file cannot be written.
    """
    if path.suffix != ".npz":
        raise ConfigError(f"{str(path)!r}: expected a name that ends in .npz")
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **{name: np.asarray(value) for name, value in content.items()})  # type: ignore[arg-type]
    return write_atomically(path, buffer.getvalue())


def network_arrays(network: LayeredNetwork, prefix: str = "") -> dict[str, Any]:
    """Return the values of a network by the names that they have in a file, each name behind ``prefix``.

    The names are ``nonlinearity``, ``full_scale_0`` (inputs), ``full_scale_1``, ..., and from 1 for each layer
    ``weights_1``, ``biases_1``, ...
    """
    content: dict[str, Any] = {f"{prefix}nonlinearity": network.nonlinearity}
    content |= {f"{prefix}full_scale_{index}": scale for index, scale in enumerate(network.full_scale)}
    content |= {f"{prefix}weights_{layer}": weights for layer, weights in enumerate(network.weights, 1)}
    return content | {f"{prefix}biases_{layer}": biases for layer, biases in enumerate(network.biases, 1)}


def network_of_arrays(content: Mapping[str, NDArray[Any]], prefix: str = "") -> LayeredNetwork:
    """Return the network whose arrays have the names of `network_arrays` behind ``prefix``; other names are ignored.
    There are as many layers as names of weights.

    Raises:
        KeyError: an array is missing.
        InputError: the network is invalid.
    """
    layers = range(1, 1 + sum(name.startswith(f"{prefix}weights_") for name in content))
    return LayeredNetwork(
        weights=tuple(content[f"{prefix}weights_{layer}"] for layer in layers),
        biases=tuple(content[f"{prefix}biases_{layer}"] for layer in layers),
        nonlinearity=content[f"{prefix}nonlinearity"].item(),
        full_scale=tuple(content[f"{prefix}full_scale_{layer}"] for layer in range(len(layers) + 1)),
    )


@contextmanager
def reading(path: Path, schema: str | None = None) -> Iterator[dict[str, NDArray[Any]]]:
    """Yield the arrays of an ``.npz`` file by name to a ``with`` block, and let errors of the block name the file.

    KeyError, InputError, TypeError and ValueError that the block raises become ConfigError. ``schema`` is what the file
    must state as its schema; None accepts any.

    Raises:
        ConfigError: the file cannot be read or has another schema, or the block misses an array or refuses a value.
    """
    source, content = repr(str(path)), read_npz(path)
    if schema is not None and str(content.get("schema")) != schema:
        raise ConfigError(f"{source}: schema {str(content.get('schema'))!r}, expected {schema!r}")
    try:
        yield content
    except KeyError as error:
        raise ConfigError(f"{source}: {error.args[0]} is missing") from error
    except (InputError, TypeError, ValueError) as error:
        raise ConfigError(f"{source}: {error}") from error


def load_network(path: Path) -> tuple[LayeredNetwork, FunctionArguments]:
    """Return the network and the arguments of its function from a file that `save_network` wrote.

    Raises:
        ConfigError: the file cannot be read or has another schema, or its network is invalid: shapes that do not fit,
            NaN, or inputs or outputs other than those of its function.
    """
    with reading(path, SCHEMA) as content:
        arguments = FunctionArguments(**{name: content[name].item() for name in FunctionArguments.__dataclass_fields__})
        network = network_of_arrays(content)
        check_ends(network, arguments.function())
    return network, arguments


def check_ends(network: LayeredNetwork, function: AveragingFunction, where: str = "") -> None:
    """Raise ConfigError unless a network has as many inputs and outputs as the averaging function.

    ``where`` is put before the message as it is, such as ``level 1: ``.
    """
    ends, expected = (network.layers[0], network.layers[-1]), (len(function.inputs), function.outputs)
    if ends != expected:
        counts = f"from {ends[0]} to {ends[1]} signals, expected {expected[0]} to {expected[1]}"
        raise ConfigError(f"{where}a network {counts}")


def load_mapping(path: Path) -> MeshMapping | None:
    """Return the mapping to meshes that a network's file holds, that with which it was judged; None if the file has
    none. The file's schema and network are not checked.

    Raises:
        ConfigError: the file cannot be read, or its mapping lacks a value or has an invalid one.
    """
    with reading(path) as content:
        if not any(name.startswith(_MAPPING) for name in content):
            return None
        return MeshMapping(**{name: content[_MAPPING + name].item() for name in MeshMapping.__dataclass_fields__})


# Networks in units of light: amplitude 1 is the largest full scale of a layer.
#
# One definition of gain serves all commands: that of an amplifier behind an output of a matrix, with a gain for each
# row (`mapping.row_gains`), signals in units of amplitude.

Matrix = NDArray[np.float64]


def light_units(network: LayeredNetwork) -> tuple[float, ...]:
    """Return the signal value that optical amplitude 1 stands for, at the inputs and behind every layer.

    It is the largest full scale there, or 1 where all full scales are 0.
    """
    return tuple(float(scale.max()) or 1.0 for scale in network.full_scale)


def light_matrices(network: LayeredNetwork) -> list[Matrix]:
    """Return the weights (outputs, inputs) of every layer, without biases, in units of optical amplitude.

    Each is the weight times the signal that amplitude 1 stands for before the layer, over that behind it
    (`light_units`).
    """
    units = light_units(network)
    return [np.asarray(w * (units[i] / units[i + 1]), np.float64) for i, w in enumerate(network.weights)]


def light_biases(network: LayeredNetwork) -> list[Matrix]:
    """Return the biases (outputs,) of every layer in units of optical amplitude: over the signal that amplitude 1
    stands for behind the layer (`light_units`)."""
    units = light_units(network)[1:]
    return [np.asarray(bias / unit, np.float64) for bias, unit in zip(network.biases, units, strict=True)]


def unit_matrices(arguments: FunctionArguments) -> dict[str, Matrix]:
    """Return the matrices ``P`` before and ``T`` behind the network of an averager, by these names, in units of
    amplitude.

    P [inputs, servers · signals] averages digits over servers: amplitude 1 is the highest PAM4 level before it and the
    largest input's full scale behind it. T [servers · signals, signals] divides every result among the servers, the
    amplitude of each over √servers.
    """
    function, signals = arguments.function(), symbols_for(arguments.bits)
    preprocessing = preprocessing_matrix(arguments.servers, signals, len(function.inputs))
    full_scale = max(grid_input.maximum / grid_input.denominator for grid_input in function.inputs)
    return {"P": preprocessing * (LEVELS - 1) / full_scale, "T": splitting_matrix(arguments.servers, signals)}


def largest_gain_db(network: LayeredNetwork) -> float:
    """Return the largest amplitude gain in dB of the amplifiers behind all layers, where each row of a matrix has a
    gain: its length times the largest singular value of the matrix with all rows scaled to length 1, of weights in
    units of amplitude (`light_matrices`)."""
    return max(decibels(float(row_gains(matrix).max())) for matrix in light_matrices(network))


# The area of networks in interferometers (MZIs), and the area ratios of the paper's Tables I and II.
#
# `meshes.mapping` counts matrices in the paper's convention (a full SVD) or the economy one. Counting P (K x N M) and
# T (N M x M) as well reproduces the ratios of Table I to the printed digit.


def mzi_count(layers: Sequence[int], convention: Convention = "paper", bias: bool = False) -> int:
    """Return the number of interferometers of a network's matrices, none of them approximated, without preprocessing P
    in front of them and splitting T behind.

    Args:
        layers: number of signals of the inputs, the hidden layers and the outputs.
        convention: ``paper`` counts a full singular value decomposition, m(m + 1)/2 + n(n - 1)/2 for a matrix of m
            outputs and n inputs, ``economy`` only MZIs that light reaches, m n.
        bias: whether biases are optical: a signal of constant light more in every layer but the outputs.
    """
    return network_count([*(n + bias for n in layers[:-1]), layers[-1]], convention=convention)


def mzi_of_units(servers: int, bits: int, inputs: int, convention: Convention = "paper") -> int:
    """Return the number of interferometers of preprocessing P (K x N M) and splitting T (N M x M) together.

    Args:
        servers: number of servers, N.
        bits: bits per code, sent as M = ceil(bits / 2) signals.
        inputs: inputs of the network, K.
        convention: ``paper`` counts a full singular value decomposition, m(m + 1)/2 + n(n - 1)/2 for a matrix of m
            outputs and n inputs, ``economy`` only MZIs that light reaches, m n.
    """
    count = symbols_for(bits)
    ports = servers * count
    return full_count(inputs, ports, convention) + full_count(ports, count, convention)


@dataclass(frozen=True, slots=True)
class PaperNetwork:
    """A row of Table I or II; Table II varies the approximated layers of the last row of Table I."""

    bits: int
    servers: int
    layers: tuple[int, ...]
    approximated: tuple[int, ...]
    printed: float
    """Printed area ratio, in percent."""

    def area(self, convention: Convention = "paper", approximated: bool = True, units: bool = True) -> int:
        """Return the number of interferometers of the network of this row of the paper's Table I or II.

        Args:
            convention: how matrices that are not approximated are counted, ``paper`` or ``economy`` (`mzi_count`).
            approximated: whether the table's approximated matrices are counted as such (squares Σ · U); else all are
                whole.
            units: whether preprocessing P and splitting T are counted too.
        """
        network = network_count(self.layers, self.approximated if approximated else (), convention)
        return network + units * mzi_of_units(self.servers, self.bits, self.layers[0], convention)

    def ratio(self, convention: Convention = "paper", units: bool = True) -> float:
        """Return the area with the table's approximated matrices in percent of that with all matrices whole.

        ``convention`` counts whole matrices in both areas, and both include P and T if ``units``.
        """
        return 100 * self.area(convention, True, units) / self.area(convention, False, units)


_LARGEST = (4, 64, 128, 256, 512, 256, 128, 64, 8)
TABLE_I = (
    PaperNetwork(8, 4, (4, 64, 128, 256, 128, 64, 4), (1, 2, 3, 4, 5, 6), 39.3),
    PaperNetwork(8, 8, (4, 64, 128, 256, 512, 256, 128, 64, 4), (2, 3, 4, 5, 6, 7), 40.9),
    PaperNetwork(8, 16, (4, 64, 128, 256, 512, 1024, 512, 256, 128, 64, 4), (2, 3, 4, 5, 6, 7, 8, 9), 40.4),
    PaperNetwork(16, 4, _LARGEST, (4, 5, 6), 49.3),
)
TABLE_II = (
    PaperNetwork(16, 4, _LARGEST, (4, 5, 6), 49.3),
    PaperNetwork(16, 4, _LARGEST, (4, 5, 6, 7), 47.9),
    PaperNetwork(16, 4, _LARGEST, (4, 5, 6, 7, 8), 47.4),
    PaperNetwork(16, 4, _LARGEST, (3, 4, 5, 6), 43.7),
    PaperNetwork(16, 4, _LARGEST, (3, 4, 5, 6, 7), 42.2),
)
