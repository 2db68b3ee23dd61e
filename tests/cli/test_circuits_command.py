"""``lightloom circuits``: circuits that can exist and carry what they should, clear lines where there are none."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lightloom.machines.fabrics.switches import CircuitSwitch
from lightloom.machines.fabrics.wdm_ring import WdmRing
from lightloom.planning.parallelism.circuits.circuits import Circuits, Traffic
from lightloom.planning.parallelism.circuits.verify import verify
from tests.cli.commands import Done, run

Command = Callable[..., Done]


@pytest.fixture
def circuits(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    def call(*arguments: str) -> Done:
        return run(monkeypatch, capsys, "circuits", *arguments)

    return call


def written(folder: Path, matrix: Any) -> Path:
    path = folder / "traffic.csv"
    path.write_text("\n".join(",".join(str(cell) for cell in row) for row in np.asarray(matrix)) + "\n")
    return path


def random_traffic(ranks: int, peers: int, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    matrix = np.zeros((ranks, ranks))
    for rank in range(ranks):
        to = rng.choice(np.delete(np.arange(ranks), rank), peers, replace=False)
        matrix[rank, to] = rng.lognormal(13, 1, peers)
    return matrix


def granted(document: dict[str, Any]) -> Circuits:
    columns = {name: np.array(values, np.int64) for name, values in document["circuits"].items()}
    return Circuits(document["holds"], **columns)


@pytest.mark.parametrize("fabric", ["sip-ring", "circuit-switch"])
@pytest.mark.parametrize("peers", [1, 7])
def test_circuits_exist_and_carry_everything(circuits: Command, tmp_path: Path, fabric: str, peers: int) -> None:
    matrix = random_traffic(8, peers, seed=peers)
    done = circuits(str(written(tmp_path, matrix)), "--fabric", fabric, "--set", "reconfiguration_time=25us", "--json")
    assert (done.code, done.err) == (0, "")
    found = json.loads(done.out)
    on = (WdmRing if fabric == "sip-ring" else CircuitSwitch).model_validate(found["fabric"])
    traffic = Traffic.of(matrix)
    stand = granted(found)
    verify(stand, on)
    standing = np.zeros(matrix.shape, np.int64)
    np.add.at(standing, (stand.source, stand.destination), 1)
    assert standing[traffic.source, traffic.destination].tolist() == found["pairs"]["circuits"]
    assert found["nbytes"] == pytest.approx(matrix.sum())
    assert 0 < found["max_min"] <= found["bound"] * (1 + 1e-9)
    assert found["gap"] == pytest.approx(1 - found["max_min"] / found["bound"])
    # No circuits send the largest demand in less time than the bound's would.
    assert found["finish_s"] - 25e-6 >= matrix.max() / (found["bound"] * on.channel_bandwidth) * (1 - 1e-9)
    assert found["carried_bytes"] >= found["nbytes"] * (1 - 1e-9)
    assert found["finish_s"] == max(found["pairs"]["finish_s"])


@pytest.mark.parametrize(("ranks", "wavelengths", "optimum"), [(4, 4, 2), (4, 8, 4), (5, 16, 5), (8, 8, 1), (8, 16, 2)])
def test_known_optima_of_rings(circuits: Command, tmp_path: Path, ranks: int, wavelengths: int, optimum: int) -> None:
    path = written(tmp_path, (1 - np.eye(ranks)) * 1e6)
    options = ["--fabric", "wdm-ring", "--set", f"wavelengths={wavelengths}", "--solver", "milp", "--holds", "1"]
    found = json.loads(circuits(str(path), *options, "--json").out)
    assert min(found["pairs"]["circuits"]) <= optimum
    assert (found["max_min"] == optimum) == (found["without_wavelength"] == 0)
    assert found["solver_status"] == "optimal"


@pytest.mark.parametrize("objective", ["max-min", "throughput"])
def test_the_fast_way_is_exact_on_switches(circuits: Command, tmp_path: Path, objective: str) -> None:
    matrix = random_traffic(6, 3, seed=5)
    options = [str(written(tmp_path, matrix)), "--fabric", "circuit-switch", "--objective", objective, "--json"]
    fast, exact = (json.loads(circuits(*options, "--solver", solver).out) for solver in ("fast", "milp"))
    if objective == "max-min":
        assert fast["max_min"] == exact["max_min"]
    else:
        served = [np.dot(each["pairs"]["circuits"], each["pairs"]["nbytes"]) for each in (fast, exact)]
        assert served[0] == pytest.approx(served[1])


def test_a_cycle_of_more_holds_pays_its_reconfigurations(circuits: Command, tmp_path: Path) -> None:
    path = str(written(tmp_path, (1 - np.eye(8)) * 1e6))
    options = [
        "--fabric",
        "circuit-switch",
        "--set",
        "degree=3",
        "--set",
        "hold=250us",
        "--set",
        "reconfiguration=25us",
        "--json",
    ]
    found = json.loads(circuits(path, *options).out)
    assert found["holds"] >= 3 and found["duty_cycle"] == pytest.approx(10 / 11)
    assert found["relayed_pairs"] == 0
    former = ["--fabric", "circuit-switch", "--set", "degree=3", "--hold", "250us", "--reconfiguration", "25us"]
    then = circuits(path, *former, "--json")
    assert json.loads(then.out) == found and "warning: --hold is spelt `--set hold=...` now" in then.err
    assert json.loads(circuits(path, *options, "--holds", "7").out)["holds"] == 7


@pytest.mark.parametrize("seed", range(3))
def test_a_switch_left_to_choose_its_holds_is_no_slower_than_any_number_of_them(
    circuits: Command, tmp_path: Path, seed: int
) -> None:
    """Of up to four times the fewest that serve all pairs."""
    path = str(written(tmp_path, 30 * random_traffic(12, 7, seed)))
    options = ["--fabric", "circuit-switch", "--set", "degree=4", "--set", "reconfiguration_time=25us", "--json"]
    given = [json.loads(circuits(path, *options, "--holds", str(holds)).out)["finish_s"] for holds in range(3, 9)]
    assert json.loads(circuits(path, *options).out)["finish_s"] <= min(given)
    assert given[0] > 1.05 * min(given), "the fewest holds alone would do, and the test would show nothing"


def test_arrays_and_quantities_say_the_same(circuits: Command, tmp_path: Path) -> None:
    np.save(tmp_path / "traffic.npy", np.array([[0, 2_000_000, 0], [0, 0, 4096], [1_000_000, 0, 0]]))
    text = written(tmp_path, [["0", " 2 MB ", "0"], ["", "0", "4KiB"], ["1e6", "0B", "0"]])
    text.write_text(text.read_text().replace("\n,0", "\n0,0"))
    options = ["--fabric", "sip-ring", "--json"]
    first, second = (json.loads(circuits(str(path), *options).out) for path in (tmp_path / "traffic.npy", text))
    assert first == second


def test_the_picture_and_the_answer(circuits: Command, tmp_path: Path) -> None:
    path = written(tmp_path, random_traffic(8, 3, seed=1))
    done = circuits(str(path), "--fabric", "sip-ring", "--figure", str(tmp_path / "f.svg"))
    assert done.code == 0 and "verified; set once" in done.out and "drawn:" in done.out
    assert "16 more: --all" in done.out and len(done.out.splitlines()) <= 25
    assert "more: --all" not in circuits(str(path), "--fabric", "sip-ring", "--all").out
    assert (tmp_path / "f.svg").read_text().count("<image") >= 2


_RING = ["--fabric", "sip-ring"]
_SWITCH = ["--fabric", "circuit-switch"]
BAD_OPTIONS: list[tuple[list[str], str]] = [
    (["--fabric", "sip-rnig"], "unknown fabric 'sip-rnig': did you mean 'sip-ring'"),
    (["--fabric", "switch"], "no circuits on a switch: expected wavelengths around a sound ring"),
    ([*_RING, "--solver", "exact"], "unknown solver 'exact': expected one of fast, milp"),
    ([*_RING, "--objective", "fair"], "unknown objective 'fair'"),
    ([*_RING, "--objective", "throughput"], "--objective throughput is of circuit switches"),
    ([*_RING, "--time-limit", "10s"], "expected --solver milp with it"),
    ([*_RING, "--solver", "milp", "--time-limit", "0s"], "--time-limit 0s: expected more than 0"),
    ([*_RING, "--solver", "milp", "--time-limit", "soon"], "'soon' is not a time"),
    ([*_RING, "--holds", "0"], "--holds 0: expected 1 to 4096, or auto"),
    ([*_RING, "--holds", "some"], "--holds 'some': expected a whole number"),
    ([*_RING, "--set", "hold=0s"], "a hold is needed where setting circuits takes no time"),
    ([*_RING, "--set", "ranks=9"], "--set ranks=9: the matrix is of 8 ranks: expected the same number"),
    ([*_RING, "--set", "wavelengths=0"], "wavelengths"),
    ([*_RING, "--figure", "map.bmp"], "map.bmp"),
    ([*_RING, "--figure", "/proc/map.png"], "cannot write '/proc/map.png'"),
    # Degree too small, with what would do.
    ([*_SWITCH, "--set", "degree=4", "--holds", "1"], "expected a degree (times holds) of at least 7"),
    ([*_SWITCH, "--set", "degree=4", "--holds", "1", "--solver", "milp"], "of at least 7"),
    # Infeasible program, with what would do.
    ([*_RING, "--set", "wavelengths=2", "--solver", "milp", "--holds", "1"], "infeasible: 2 wavelengths each way"),
    ([*_RING, "--set", "wavelengths=2", "--solver", "milp", "--holds", "1"], "expected --holds of at least 4"),
    # Out of time, with what would do.
    ([*_RING, "--solver", "milp", "--time-limit", "1us"], "within its time limit of 1e-06 s: expected a longer one"),
]


@pytest.mark.parametrize(("options", "complaint"), BAD_OPTIONS)
def test_bad_options_are_one_clear_line(
    circuits: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], complaint: str
) -> None:
    path = written(tmp_path, random_traffic(8, 7, seed=0))
    monkeypatch.chdir(tmp_path)
    _refused(circuits(str(path), *options), complaint)
    assert list(tmp_path.iterdir()) == [path]


def test_circuits_that_leave_ranks_apart_are_refused(circuits: Command, tmp_path: Path) -> None:
    path = written(tmp_path, [[0, 9e6, 1e3], [9e6, 0, 0], [0, 0, 0]])
    done = circuits(str(path), *_SWITCH, "--objective", "throughput")
    _refused(done, "rank 0 has no circuit to rank 2 and no path over others' circuits")
    assert "expected more holds, more circuits a rank, or the max-min objective" in done.err
    assert circuits(str(path), *_SWITCH).code == 0


BAD_MATRICES: list[tuple[str, str]] = [
    ("", "the file is empty"),
    ("\n\n", "the file is empty"),
    ("0", "a matrix of 1 ranks: expected 2 to 8192"),
    ("0,1\n1,0\n1,0\n", "line 1 has 2 values, the matrix 3 rows"),
    ("0,1,2\n\n1,0\n0,0,0\n", "line 3 has 2 values, the matrix 3 rows"),
    ("0,-1\n1,0\n", "traffic from rank 0 to rank 1 is -1.0 bytes"),
    ("0,-1MB\n1,0\n", "from rank 0 to rank 1: '-1MB': a size must be finite and not negative"),
    ("0,nan\n1,0\n", "'nan' is not a size"),
    ("0,inf\n1,0\n", "'inf' is not a size"),
    ("0,x\n1,0\n", "from rank 0 to rank 1: 'x' is not a size"),
    ("0,1 parsec\n1,0\n", "unknown size unit 'parsec'"),
    ("5,1\n1,0\n", "traffic from rank 0 to itself"),
    ("0,0\n0,0\n", "0 bytes between all ranks"),
    ("\x00\x01\xff", "not a CSV file of text"),
]


@pytest.mark.parametrize(("text", "complaint"), BAD_MATRICES)
def test_bad_matrices_are_one_clear_line(circuits: Command, tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "traffic.csv"
    path.write_bytes(text.encode("latin-1"))
    _refused(circuits(str(path), *_RING), complaint)


@pytest.mark.parametrize(
    ("array", "complaint"),
    [
        (np.zeros((2, 3)), "float64 of shape (2, 3): expected numbers of shape (ranks, ranks)"),
        (np.zeros(4), "float64 of shape (4,)"),
        (np.array([["0", "1"], ["1", "0"]]), "<U1 of shape (2, 2)"),
        (np.array([[0, 1j], [1, 0]]), "complex128"),
        (np.full((2, 2), np.nan), "is nan bytes"),
        (b"not numpy at all", "not a .npy file of numbers"),
        (None, "cannot read"),
    ],
)
def test_bad_arrays_are_one_clear_line(circuits: Command, tmp_path: Path, array: Any, complaint: str) -> None:
    path = tmp_path / "traffic.npy"
    if isinstance(array, bytes):
        path.write_bytes(array)
    elif array is not None:
        np.save(path, array)
    _refused(circuits(str(path), *_RING), complaint)


def _refused(done: Done, complaint: str) -> None:
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: ") and done.err.count("\n") == 1
    assert complaint in done.err
