"""One value says how matrices become meshes: it checks its names once, and files of networks keep it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.core.errors import ConfigError, InputError
from lightloom.photonics.averaging.construct import build
from lightloom.photonics.averaging.networks import FunctionArguments, load_mapping, load_network, save_network
from lightloom.photonics.meshes.mapping import (
    BALANCED,
    FORMS,
    GAINS,
    MappedBlocks,
    MappedMatrix,
    MeshMapping,
    map_part,
)
from lightloom.photonics.meshes.mesh import KINDS

MAPPINGS = st.builds(
    MeshMapping,
    form=st.sampled_from([form for form in FORMS if form != "sigma-u"]),
    mesh=st.sampled_from(KINDS),
    gains=st.sampled_from(GAINS),
    components=st.booleans(),
)
SPARSE = np.array([[1.0, 2, 0], [0.5, 0, 0], [0, 0, 3.0]])


@given(mapping=MAPPINGS)
def test_exact_mappings_implement_their_matrix(mapping: MeshMapping) -> None:
    part = map_part(SPARSE, mapping)
    assert isinstance(part, MappedBlocks if mapping.components else MappedMatrix)
    np.testing.assert_allclose(part.matrix(), SPARSE, atol=1e-12)
    assert mapping.exact() is mapping and mapping.around() is mapping
    assert MeshMapping(**mapping.to_json()) == mapping


def test_p_and_t_are_never_approximated() -> None:
    approximated = MeshMapping(form="sigma-u", gains="common")
    assert approximated.around() == MeshMapping(form="svd", gains="common")
    with pytest.raises(ConfigError, match="form 'sigma-u' approximates: expected economy, compact or svd"):
        approximated.exact()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"form": "qr"}, "unknown form 'qr'"),
        ({"mesh": "round"}, "unknown mesh 'round'"),
        ({"gains": "columns"}, "unknown gains 'columns'"),
        ({"form": "sigma-u", "components": True}, "components need svd, economy or compact"),
        ({"components": "yes"}, "components = 'yes': expected true or false"),
    ],
)
def test_unknown_values_are_refused(values: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        MeshMapping(**values)  # type: ignore[arg-type]


def test_files_keep_the_mapping_and_refuse_a_broken_one(tmp_path: Path) -> None:
    made, arguments = build(2, 2).network, FunctionArguments(servers=2, bits=2)
    save_network(tmp_path / "plain.npz", made, arguments)
    assert load_mapping(tmp_path / "plain.npz") is None
    save_network(tmp_path / "net.npz", made, arguments, BALANCED)
    assert load_mapping(tmp_path / "net.npz") == BALANCED
    assert load_network(tmp_path / "net.npz")[1] == arguments
    with np.load(tmp_path / "net.npz") as archive:
        content = {name: archive[name] for name in archive.files}
    for broken, message in (
        ({"mapping_form": np.asarray("qr")}, "unknown form 'qr'"),
        ({"mapping_form": np.zeros(2)}, "net.npz"),
        ({"mapping_components": np.asarray(7)}, "components = 7"),
        ({"mapping_mesh": None}, "mapping_mesh is missing"),
    ):
        changed = {name: value for name, value in (content | broken).items() if value is not None}
        np.savez(tmp_path / "net.npz", **changed)
        with pytest.raises(ConfigError, match=message):
            load_mapping(tmp_path / "net.npz")
