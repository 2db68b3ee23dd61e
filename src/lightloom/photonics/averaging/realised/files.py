"""Files of averaging networks: weights, biases, full scales, and the arguments of the function."""

from __future__ import annotations

import io
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from lightloom.core.array_files import read_npz
from lightloom.core.errors import ConfigError, InputError
from lightloom.core.files import write_atomically
from lightloom.core.provenance import content_hash
from lightloom.photonics.averaging.function import AveragingFunction
from lightloom.photonics.averaging.realised.networks import LayeredNetwork
from lightloom.photonics.meshes.mesh_mapping import MeshMapping

SCHEMA = "lightloom.network/1"
_MAPPING = "mapping_"
"""Start of the names of a mapping's values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionArguments:
    """Arguments of an averaging function, see `AveragingFunction.of`."""

    servers: int
    bits: int
    inputs: int = 4
    rounding: Literal["floor", "half-up"] = "floor"
    carries_decimals: bool = False

    def function(self) -> AveragingFunction:
        """Return the averaging function.

        Raises:
            ConfigError: an argument is out of range.
        """
        return AveragingFunction.of(**asdict(self))


def network_hash(network: LayeredNetwork, arguments: FunctionArguments) -> str:
    """Return the hash of all that a file of the network holds, for the provenance of what is computed from it."""
    arrays = [[array.tolist() for array in part] for part in (network.weights, network.biases, network.full_scale)]
    return content_hash([SCHEMA, network.nonlinearity, asdict(arguments), arrays])


def save_network(
    path: Path, network: LayeredNetwork, arguments: FunctionArguments, mapping: MeshMapping | None = None
) -> Path:
    """Write an ``.npz`` file atomically, with the mapping to meshes that the network was judged with, if any.

    Raises:
        ConfigError: the suffix is not ``.npz``, or the file cannot be written.
    """
    if path.suffix != ".npz":
        raise ConfigError(f"{str(path)!r}: expected a name that ends in .npz")
    content: dict[str, Any] = {"schema": SCHEMA, "nonlinearity": network.nonlinearity, **asdict(arguments)}
    content["full_scale_0"] = network.full_scale[0]
    for layer, (weights, biases) in enumerate(zip(network.weights, network.biases, strict=True), 1):
        content |= {f"weights_{layer}": weights, f"biases_{layer}": biases}
        content[f"full_scale_{layer}"] = network.full_scale[layer]
    if mapping is not None:
        content |= {f"{_MAPPING}{name}": value for name, value in mapping.to_json().items()}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **{name: np.asarray(value) for name, value in content.items()})
    return write_atomically(path, buffer.getvalue())


def load_network(path: Path) -> tuple[LayeredNetwork, FunctionArguments]:
    """Read a file that `save_network` wrote.

    Raises:
        ConfigError: the file cannot be read or has another schema, or its network is invalid: shapes that do not fit,
            NaN, or inputs or outputs other than those of its function.
    """
    source = repr(str(path))
    content = read_npz(path)
    if str(content.get("schema")) != SCHEMA:
        raise ConfigError(f"{source}: schema {str(content.get('schema'))!r}, expected {SCHEMA!r}")
    depth = sum(name.startswith("weights_") for name in content)
    try:
        arguments = FunctionArguments(**{name: content[name].item() for name in FunctionArguments.__dataclass_fields__})
        layers = range(1, depth + 1)
        network = LayeredNetwork(
            weights=tuple(content[f"weights_{layer}"] for layer in layers),
            biases=tuple(content[f"biases_{layer}"] for layer in layers),
            nonlinearity=content["nonlinearity"].item(),
            full_scale=tuple(content[f"full_scale_{layer}"] for layer in range(depth + 1)),
        )
        function = arguments.function()
    except KeyError as error:
        raise ConfigError(f"{source}: {error.args[0]} is missing") from error
    except (InputError, TypeError, ValueError) as error:
        raise ConfigError(f"{source}: {error}") from error
    ends, expected = (network.layers[0], network.layers[-1]), (len(function.inputs), function.outputs)
    if ends != expected:
        raise ConfigError(
            f"{source}: a network from {ends[0]} to {ends[1]} signals, expected {expected[0]} to {expected[1]}"
        )
    return network, arguments


def load_mapping(path: Path) -> MeshMapping | None:
    """Return the mapping to meshes that a network in a file was judged with, None if the file has none.

    Raises:
        ConfigError: the file cannot be read, or its mapping lacks a value or has an unknown one.
    """
    content = read_npz(path)
    if not any(name.startswith(_MAPPING) for name in content):
        return None
    try:
        return MeshMapping(**{name: content[_MAPPING + name].item() for name in MeshMapping.__dataclass_fields__})
    except KeyError as error:
        raise ConfigError(f"{str(path)!r}: {error.args[0]} is missing") from error
    except (InputError, TypeError, ValueError) as error:
        raise ConfigError(f"{str(path)!r}: {error}") from error
