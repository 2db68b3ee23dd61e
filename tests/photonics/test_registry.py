"""Names of averagers: what they make, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lightloom.core.errors import InputError
from lightloom.photonics.averaging.averagers import NetworkAverager
from lightloom.photonics.averaging.construct import build
from lightloom.photonics.averaging.mapped import map_averager
from lightloom.photonics.averaging.networks import FunctionArguments, save_network
from lightloom.photonics.link.simulate import LinkAverager
from lightloom.photonics.meshes.mapping import MeshMapping
from lightloom.photonics.registry import find_averager


@pytest.mark.parametrize("name", ["ideal", "constructed", "network", "digit-sum", "digit-sum:levels=2"])
@pytest.mark.parametrize("rounding", ["floor", "half-up"])
def test_exact_ones_average_exactly(name: str, rounding: str, tmp_path: Path) -> None:
    if name == "network":
        path = tmp_path / "a,b.npz"
        made = build(3, 6, rounding=rounding)
        save_network(path, made.network, FunctionArguments(servers=3, bits=6, rounding=rounding))  # type: ignore[arg-type]
        name = f"network:{path}"
    averager = find_averager(name, 3, 6, rounding)  # type: ignore[arg-type]
    assert (averager.servers, averager.bits, averager.rounding) == (3, 6, rounding)
    codes = np.random.default_rng(0).integers(0, 64, (3, 2000)).astype(np.uint16)
    due = (codes.sum(axis=0, dtype=np.int64) + (rounding == "half-up")) // 3
    assert averager(codes).tolist() == due.tolist()


def test_noise_is_drawn_from_the_seed(tmp_path: Path) -> None:
    made = build(2, 4, rounding="half-up")
    save_network(tmp_path / "n.npz", made.network, FunctionArguments(servers=2, bits=4, rounding="half-up"))
    codes = np.random.default_rng(0).integers(0, 16, (2, 4000)).astype(np.uint16)
    spec = f"network:{tmp_path / 'n.npz'},noise=0.2"
    one, same, other = (find_averager(spec, 2, 4, seed=seed) for seed in (1, 1, 2))
    assert isinstance(one, NetworkAverager)
    assert one.sigma == 0.2
    found = one(codes)
    assert (found == same(codes)).all()
    assert (found != other(codes)).any()
    assert (found != find_averager("ideal", 2, 4)(codes)).any()


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("idea", "did you mean 'ideal'.*constructed, digit-sum, ideal, link, network, table2"),
        ("table2:5-9", "3-6, 3-7, 4-6, 4-7, 4-8"),
        ("ideal:3", "no options"),
        ("constructed:noise=-1", "noise=SHARE"),
        ("constructed:loss=1", "noise=SHARE"),
        ("constructed:noise=nan", "noise=SHARE"),
        ("network:none.npz", "none.npz"),
        ("link:none.npz,full-scale=3mW", "none.npz"),
        ("link:none.npz,bright", "'bright': expected an option of `onn link`"),
        ("digit-sum:levels=3", "expected levels=2, levels=4 or power=DBM"),
        ("digit-sum:power=99", "expected levels=2, levels=4 or power=DBM"),
        ("digit-sum:power=", "expected levels=2, levels=4 or power=DBM"),
        ("digit-sum:noise=1", "expected levels=2, levels=4 or power=DBM"),
    ],
)
def test_other_names_are_refused_in_one_line(spec: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        find_averager(spec, 4)
    assert "\n" not in str(caught.value)


def test_links_are_fabricated_by_number_and_noisy_by_seed(tmp_path: Path) -> None:
    made = build(2, 4, rounding="half-up", nonlinearity="clipped")
    save_network(tmp_path / "a,b.npz", made.network, FunctionArguments(servers=2, bits=4, rounding="half-up"))
    codes = np.random.default_rng(0).integers(0, 16, (2, 4000)).astype(np.uint16)
    spec = f"link:{tmp_path / 'a,b.npz'},full-scale=0.02mW,phase-lock=0.2rad"
    means = [find_averager(spec, 2, 4, seed=seed)(codes) for seed in (1, 1, 2)]
    other_chip = find_averager(f"{spec},fabrication=1", 2, 4, seed=1)(codes)
    assert (means[0] == means[1]).all() and (means[0] != means[2]).any() and (means[0] != other_chip).any()
    exact = find_averager(f"link:{tmp_path / 'a,b.npz'}", 2, 4)(codes)
    assert (exact == (codes.sum(axis=0) + 1) // 2).mean() > 0.98
    with pytest.raises(InputError, match="fabrication 'x'"):
        find_averager(f"{spec},fabrication=x", 2, 4)
    mapping = MeshMapping(form="compact")
    arguments = FunctionArguments(servers=2, bits=4, rounding="half-up")
    save_network(tmp_path / "a,b.npz", made.network, arguments, mapping)
    stored = find_averager(f"link:{tmp_path / 'a,b.npz'}", 2, 4)
    assert isinstance(stored, LinkAverager)
    assert stored.made.chip.mapped.mzis == map_averager(made.network, arguments, mapping).mzis
    with pytest.raises(InputError, match="unknown option of a link 'bright'"):
        find_averager(f"{spec},bright=1", 2, 4)


def test_networks_and_tables_for_something_else_are_refused(tmp_path: Path) -> None:
    save_network(tmp_path / "n.npz", build(2, 4).network, FunctionArguments(servers=2, bits=4))
    with pytest.raises(InputError, match="for 2 servers, 4 bits, floor, expected 4 servers, 4 bits, floor"):
        find_averager(f"network:{tmp_path / 'n.npz'}", 4, 4, "floor")
    with pytest.raises(InputError, match="Table II is for 16"):
        find_averager("table2:4-8", 4, 8)
