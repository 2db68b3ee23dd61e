"""Files of cascades: the networks of both levels, and how many servers and bits they average."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lightloom.core.array_files import read_npz
from lightloom.core.errors import ConfigError, InputError
from lightloom.core.files import write_atomically
from lightloom.core.provenance import content_hash
from lightloom.photonics.averaging.cascade import Cascade, Level, PlainLevel, second_level
from lightloom.photonics.averaging.construct import recognise
from lightloom.photonics.averaging.function import AveragingFunction
from lightloom.photonics.averaging.realised.networks import LayeredNetwork

if TYPE_CHECKING:
    from collections.abc import Mapping

SCHEMA = "lightloom.cascade/1"
_NUMBERS = ("bits", "groups", "servers")
_LEVELS = ("first", "second")


def save_cascade(path: Path, cascade: Cascade) -> Path:
    """Write an ``.npz`` file atomically.

    Raises:
        ConfigError: the suffix is not ``.npz``, or the file cannot be written.
    """
    if path.suffix != ".npz":
        raise ConfigError(f"{str(path)!r}: expected a name that ends in .npz")
    content: dict[str, Any] = {"schema": SCHEMA, **{name: getattr(cascade, name) for name in _NUMBERS}}
    for level in _LEVELS:
        network: LayeredNetwork = getattr(cascade, level).network
        content[f"{level}_nonlinearity"] = network.nonlinearity
        for index, scale in enumerate(network.full_scale):
            content[f"{level}_full_scale_{index}"] = scale
        for index, (weights, biases) in enumerate(zip(network.weights, network.biases, strict=True), 1):
            content |= {f"{level}_weights_{index}": weights, f"{level}_biases_{index}": biases}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **{name: np.asarray(value) for name, value in content.items()})
    return write_atomically(path, buffer.getvalue())


def is_cascade(path: Path) -> bool:
    """Return whether a file says that it holds a cascade.

    Raises:
        ConfigError: the file cannot be read, or is not an archive of arrays.
    """
    return str(read_npz(path).get("schema")) == SCHEMA


def load_cascade(path: Path) -> Cascade:
    """Read a file that `save_cascade` wrote; networks that a construction makes are recognised.

    Raises:
        ConfigError: the file cannot be read or has another schema, a number is out of range, or a network is invalid
            or of another shape than its level.
    """
    source, content = repr(str(path)), read_npz(path)
    if str(content.get("schema")) != SCHEMA:
        raise ConfigError(f"{source}: schema {str(content.get('schema'))!r}, expected {SCHEMA!r}")
    try:
        bits, groups, servers = (_whole(content[name], name) for name in _NUMBERS)
        functions = (AveragingFunction.of(servers, bits, carries_decimals=True), second_level(groups, servers, bits))
        first, second = (_level(content, level, function) for level, function in zip(_LEVELS, functions, strict=True))
        return Cascade(bits, groups, servers, first, second)
    except KeyError as error:
        raise ConfigError(f"{source}: {error.args[0]} is missing") from error
    except (InputError, TypeError, ValueError) as error:
        raise ConfigError(f"{source}: {error}") from error


def cascade_hash(cascade: Cascade) -> str:
    """Return the hash of all that a file of the cascade holds, for the provenance of what is computed from it."""
    arrays = []
    for level in (cascade.first, cascade.second):
        network = level.network
        parts = (network.weights, network.biases, network.full_scale)
        arrays.append([network.nonlinearity, [[array.tolist() for array in part] for part in parts]])
    return content_hash([SCHEMA, cascade.bits, cascade.groups, cascade.servers, arrays])


def _whole(value: np.ndarray[Any, Any], name: str) -> int:
    if value.shape != () or value.dtype.kind not in "iu":
        raise ConfigError(f"{name} = {value.tolist()!r}: expected a whole number")
    return int(value)


def _level(content: Mapping[str, np.ndarray[Any, Any]], level: str, function: AveragingFunction) -> Level:
    depth = sum(name.startswith(f"{level}_weights_") for name in content)
    layers = range(1, depth + 1)
    network = LayeredNetwork(
        weights=tuple(content[f"{level}_weights_{layer}"] for layer in layers),
        biases=tuple(content[f"{level}_biases_{layer}"] for layer in layers),
        nonlinearity=content[f"{level}_nonlinearity"].item(),
        full_scale=tuple(content[f"{level}_full_scale_{layer}"] for layer in range(depth + 1)),
    )
    return recognise(network, function) or PlainLevel("no construction of ours", function, network)
