"""Files of arrays come back as they were written; damaged ones are refused in one line, before memory is taken."""

from __future__ import annotations

import io
import resource
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from lightloom.core.array_files import read_npy, read_npz
from lightloom.core.errors import ConfigError

_TYPES = st.sampled_from([np.float32, np.int64, np.complex128, np.bool_])
_ANY = npst.arrays(_TYPES, npst.array_shapes(min_dims=0, min_side=0, max_side=4))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(array=_ANY, fortran=st.booleans())
def test_arrays_come_back(array: np.ndarray, fortran: bool, tmp_path: Path) -> None:
    array = np.asfortranarray(array) if fortran else array
    np.save(tmp_path / "one.npy", array)
    np.savez(tmp_path / "many.npz", a=array, b=array[..., :0] if array.ndim else array)
    for found in (read_npy(tmp_path / "one.npy"), read_npy(tmp_path / "one.npy", mapped=True)):
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, array)
    np.testing.assert_array_equal(read_npz(tmp_path / "many.npz")["a"], array)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=600)
@given(data=st.data(), packed=st.sampled_from(["npy", "npz", "deflated"]))
def test_damaged_files_are_refused_in_one_line_or_hold_an_array(
    data: st.DataObject, packed: str, tmp_path: Path
) -> None:
    file = io.BytesIO()
    array = np.arange(12.0).reshape(3, 4)
    {"npy": np.save, "npz": np.savez, "deflated": np.savez_compressed}[packed](file, array)
    content = bytearray(file.getvalue())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at] = data.draw(st.integers(0, 255))
    path = tmp_path / f"file.{packed}"
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))] if data.draw(st.booleans()) else content)
    for read in (read_npy, read_npz):
        try:
            read(path)
        except ConfigError as error:
            assert "\n" not in str(error) and str(path) in str(error)


def test_objects_archives_and_absent_files_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "objects.npy", np.array([{}]), allow_pickle=True)
    np.savez(tmp_path / "objects.npz", a=np.array([{}]))
    np.savez(tmp_path / "archive.npy.npz", a=np.zeros(3))
    for name in ("objects.npy", "archive.npy.npz", "absent.npy"):
        with pytest.raises(ConfigError):
            read_npy(tmp_path / name)
    with pytest.raises(ConfigError):
        read_npz(tmp_path / "objects.npz")


def test_what_a_file_claims_takes_no_memory(tmp_path: Path) -> None:
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<f8", "fortran_order": False, "shape": (1 << 33,)})
    (tmp_path / "claims.npy").write_bytes(head.getvalue() + bytes(800))
    with zipfile.ZipFile(tmp_path / "claims.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", head.getvalue() + bytes(1 << 20))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ConfigError):
        read_npy(tmp_path / "claims.npy")
    with pytest.raises(ConfigError):
        read_npz(tmp_path / "claims.npz")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000
