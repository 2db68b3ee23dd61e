"""A small averager on meshes."""

from __future__ import annotations

import pytest

from lightloom.photonics.averaging.construct import build
from lightloom.photonics.averaging.mapped import MappedAverager, map_averager
from lightloom.photonics.averaging.networks import FunctionArguments
from lightloom.photonics.meshes.mapping import MeshMapping


@pytest.fixture(scope="session")
def averager() -> MappedAverager:
    """Two servers, four bits, every connected component a mesh of its own: 30 interferometers."""
    arguments = FunctionArguments(servers=2, bits=4)
    return map_averager(build(2, 4).network, arguments, MeshMapping(form="compact", components=True))
