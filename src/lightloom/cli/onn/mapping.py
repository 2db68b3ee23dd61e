"""How commands learn the mapping of a network to meshes: from their options, its file, or their own default."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lightloom.core.results import Document
from lightloom.photonics.averaging.realised.files import load_mapping
from lightloom.photonics.meshes.mesh_mapping import MeshMapping


def chosen_mapping(
    network: Path | None, default: MeshMapping, given: Mapping[str, Any], exact: bool = True
) -> MeshMapping:
    """Return the mapping of the options that are not None, else that stored in the file, else the command's default.

    Args:
        network: file of a network, a cascade or a matrix; only networks store a mapping.
        default: mapping of the command.
        given: form, mesh, gains and components as options; None where one is not given.
        exact: whether the form must not be an approximation.

    Raises:
        InputError: an option has an unknown value, or the file cannot be read.
    """
    options = {name: value for name, value in given.items() if value is not None}
    chosen = default.but(**options)
    if exact:
        chosen.exact()
    stored = stored_mapping(network)
    return chosen if stored is None else stored.but(**options)


def stored_mapping(network: Path | None) -> MeshMapping | None:
    """Return the mapping that a file stores: the one with which `onn build --tolerate` judged its network."""
    return load_mapping(network) if network is not None and network.suffix == ".npz" else None


def mapping_words(document: Document, network: Path | None) -> str:
    """Return the mapping of a command's document in words, and that the file stores it if it does."""
    mapping = MeshMapping(**{name: document[name] for name in MeshMapping.__dataclass_fields__})
    return f"{mapping}{' (stored in the file)' if stored_mapping(network) == mapping else ''}"
