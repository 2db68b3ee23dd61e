"""What servers receive: the exact mean, a network's answer, or a stated share of errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.core.errors import ConfigError, InputError
from lightloom.photonics.averaging.averagers import (
    TABLE_II_ERRORS,
    ErringAverager,
    ErrorDistribution,
    IdealAverager,
    NetworkAverager,
    average_into,
)
from lightloom.photonics.averaging.construct import build
from lightloom.photonics.averaging.networks import (
    FunctionArguments,
    LayeredNetwork,
    load_network,
    save_network,
)
from tests.photonics.averaging import reference


@given(st.data(), st.integers(1, 9), st.sampled_from([1, 2, 7, 8, 16, 31, 32]), st.booleans())
def test_the_ideal_averager_is_the_reference(data: st.DataObject, servers: int, bits: int, half_up: bool) -> None:
    top = (1 << bits) - 1
    code = st.one_of(st.integers(0, top), st.sampled_from([0, top]))
    codes = data.draw(st.lists(st.lists(code, min_size=servers, max_size=servers), min_size=1, max_size=5))
    averager = IdealAverager(servers, bits, "half-up" if half_up else "floor")
    assert averager(np.array(codes).T).tolist() == [reference.average(column, half_up) for column in codes]


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 5), st.integers(2, 8), st.integers(1, 4), st.sampled_from(["floor", "half-up"]))
def test_an_exact_network_is_exact_tabulated_or_not(servers: int, bits: int, inputs: int, rounding: str) -> None:
    arguments = FunctionArguments(servers=servers, bits=bits, inputs=inputs, rounding=rounding)  # type: ignore[arg-type]
    network = build(servers, bits, inputs=inputs, rounding=arguments.rounding).network
    codes = np.random.default_rng(0).integers(0, 1 << bits, (servers, 300))
    expected = IdealAverager(servers, bits, arguments.rounding)(codes)
    tabulated, computed = NetworkAverager(network, arguments), NetworkAverager(network, arguments, sigma=1e-12)
    assert tabulated.table is not None
    assert computed.table is None
    np.testing.assert_array_equal(tabulated(codes), expected)
    np.testing.assert_array_equal(computed(codes), expected)


@pytest.mark.parametrize(
    "averager", [IdealAverager(3, 8), ErringAverager(IdealAverager(3, 8), next(iter(TABLE_II_ERRORS.values())))]
)
def test_means_are_written_in_place_for_a_row_of_each_server(averager: IdealAverager | ErringAverager) -> None:
    codes, out = np.random.default_rng(0).integers(0, 256, (3, 50), np.uint8), np.zeros(50, np.uint8)
    average_into(averager, codes, out)
    assert np.abs(out - codes.mean(axis=0)).max() <= 0.5
    for wrong in (codes[:2], np.tile(codes, (2, 1)), codes[0]):
        with pytest.raises(InputError, match=r"expected \(3, n\), one row per server"):
            average_into(averager, wrong, out)


def test_errors_come_at_their_rate_and_in_their_shares() -> None:
    errors = ErrorDistribution(rate=0.01, shares=((1, 60.0), (-5, 40.0)))
    exact = IdealAverager(2, 16)
    codes = np.full((2, 200_000), 1000)
    found = ErringAverager(exact, errors)(codes) - exact(codes)
    wrong = found[found != 0]
    assert abs(wrong.size - 2000) < 5 * 2000**0.5
    assert abs((wrong == 1).mean() - 0.6) < 0.06
    assert set(np.unique(wrong)) - {-10, -4, 2} == {-5, 1}
    assert np.sqrt((found**2).mean()) == pytest.approx(errors.rms, rel=0.1)


def test_errors_never_leave_the_codes_range() -> None:
    errors = ErrorDistribution(rate=1.0, shares=((1024, 50.0), (-1024, 50.0)))
    codes = np.array([[0, 65535, 3, 65500] * 100])
    means = ErringAverager(IdealAverager(1, 16), errors)(codes)
    assert (means.min(), means.max()) == (0, 65535)


def test_table_ii_as_counts_of_wrong_outputs() -> None:
    """Of the 13,845,841 points of its grid: whole numbers, as accuracies of an exhaustive test must be."""
    counts = {name: each.rate * 13_845_841 for name, each in TABLE_II_ERRORS.items()}
    assert [round(counts[name]) for name in ("4-6", "4-7", "4-8", "3-6", "3-7")] == [0, 19, 1, 1536, 89]


def test_networks_survive_files(tmp_path: Path) -> None:
    network = build(3, 6).network
    arguments = FunctionArguments(servers=3, bits=6)
    path = save_network(tmp_path / "net.npz", network, arguments)
    again, read = load_network(path)
    assert read == arguments
    assert again.nonlinearity == network.nonlinearity
    for mine, theirs in zip(
        (*network.weights, *network.biases, *network.full_scale),
        (*again.weights, *again.biases, *again.full_scale),
        strict=True,
    ):
        np.testing.assert_array_equal(mine, theirs)


def _npz(path: Path, **changes: object) -> Path:
    save_network(path, build(2, 4).network, FunctionArguments(servers=2, bits=4))
    with np.load(path) as archive:
        content = {name: archive[name] for name in archive.files}
    content |= {name: np.asarray(value) for name, value in changes.items() if value is not None}
    for name, value in changes.items():
        if value is None:
            del content[name]
    np.savez(path, **content)
    return path


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"schema": "other/1"}, "expected 'lightloom.network/1'"),
        ({"biases_1": None}, "biases_1 is missing"),
        ({"weights_1": np.full((2, 2), np.nan)}, "layer"),
        ({"bits": 40}, "bits = 40"),
        ({"servers": 0}, "servers = 0"),
        ({"bits": 8}, "expected 4 to 4"),
        ({"nonlinearity": "tanh"}, "expected relu or clipped"),
        ({"rounding": "up"}, "expected floor or half-up"),
    ],
)
def test_files_that_are_no_network_are_refused(tmp_path: Path, changes: dict[str, object], complaint: str) -> None:
    with pytest.raises(ConfigError, match=r"net\.npz") as error:
        load_network(_npz(tmp_path / "net.npz", **changes))
    assert complaint in str(error.value)


def test_broken_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "net.npz").write_bytes(b"PK\x03\x04 no archive")
    np.save(tmp_path / "array.npy", np.zeros(3))
    for name in ("net.npz", "array.npy", "missing.npz"):
        with pytest.raises(ConfigError, match=name):
            load_network(tmp_path / name)
    with pytest.raises(ConfigError, match=r"\.npz"):
        save_network(tmp_path / "net.json", build(2, 4).network, FunctionArguments(servers=2, bits=4))


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(InputError, match="one row per server"):
        IdealAverager(3, 8)(np.zeros((2, 5), int))
    with pytest.raises(ConfigError, match="does not compute"):
        NetworkAverager(LayeredNetwork.of([np.eye(4)]), FunctionArguments(servers=4, bits=4))
    with pytest.raises(ConfigError, match="decimals"):
        NetworkAverager(build(2, 4).network, FunctionArguments(servers=2, bits=4, carries_decimals=True))
    with pytest.raises(ConfigError, match="servers = 0"):
        IdealAverager(0, 8)
    with pytest.raises(InputError, match="codes hold 256"):
        NetworkAverager(build(1, 8).network, FunctionArguments(servers=1, bits=8))(np.array([[256]]))
