"""Malformed input: one clear line on stderr, exit 2, nothing on stdout, nothing half-written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.commands import assert_refused, lightloom

_GOOD_RING = ["collective", "all-gather", "--fabric", "ring", "--ranks", "8", "--nbytes", "1MiB"]
_GATHER = ["collective", "all-gather", "--nbytes", "1MiB", "--fabric"]
_CODED = ["plan", "hdc", "--exchange", "inceptionn"]


def _cluster(folder: Path, text: str) -> str:
    path = folder / "cluster.yaml"
    path.write_text(text)
    return str(path)


_CLUSTER = """
ranks: {ranks}
accelerator: a100
fabric:
  kind: wdm-ring
  wavelength_bandwidth: {bandwidth}
  reconfiguration_time: {setup}
"""
_GOOD = {"ranks": 8, "bandwidth": "40Gbps", "setup": "25us"}

BAD_ARGUMENTS: list[tuple[list[str], str]] = [
    (
        [*_GOOD_RING, "--site", "electricity=0.12"],
        "'0.12' has no unit: expected a price of electricity such as 12 ct/kWh",
    ),
    ([*_GOOD_RING, "--site", "pue=0.5"], "field 'pue': '0.5': Input should be greater than or equal to 1"),
    ([*_GOOD_RING, "--set", "averaging.loss_db=1"], "unknown field 'averaging'"),
    ([*_GOOD_RING, "--set", "bandwidth.x=1"], "cannot set field 'bandwidth.x'"),
    (["plan", "hdc", "--site", "amortisation=4"], "field 'amortisation': '4' has no unit: expected a time such as"),
    (["goodput", "dgx-h100-64", "--set", "repair=24"], "field 'repair': '24' has no unit: expected a time such as"),
    (["goodput", "dgx-h100-64", "--set", "mtbf.host=60000"], "'60000' has no unit"),
    (["goodput", "dgx-h100-64", "--set", "rack.nodes=4", "--set", "rack.mtbf=20000"], "'20000' has no unit"),
    (["goodput", "dgx-h100-64", "--set", "node_price=5 kg"], "field 'node_price': '5 kg': unknown price unit"),
    (["goodput", "dgx-h100-64", "--set", "spare_price=5 k$"], "lacks price of host-hgx-h100: expected node_price"),
    (["plan", "hdc", "--price", "wdm-engine"], "--price wdm-engine: expected part=price"),
    (["plan", "hdc", "--price", "wdm-engin=5 $"], "unknown part 'wdm-engin': did you mean 'wdm-engine'"),
    (["plan", "hdc", "--price", "splitter=5 $"], "the price of splitter changes nothing here"),
    (["plan", "hdc", "--price", "nic-40g=1 $", "--price", "nic-40g=2 $"], "nic-40g is given twice"),
    (["plan", "hdc", "--price", "nic-40g=1 $", "--site", "fabric_price=2 $"], "contradict each other"),
    (
        ["plan", "hdc", "--cluster", "terarack-64", "--cluster", "dgx-h100-64", "--site", "fabric_price=2 $"],
        "fabric_price on terarack-64, dgx-h100-64: expected one cluster",
    ),
    (["plan", "hdc", "--set", "circuit_switch=palomar-136"], "circuit_switch changes nothing here"),
    (["plan", "hdc", "--set", "switches=most"], "switches"),
    (["design", "hdc", "--ranks", "8", "--set", "ranks=8"], "--set ranks: expected a choice of the bill"),
    (["design", "hdc", "--budget", "dollars=5 kg"], "budget_dollars: '5 kg': unknown price unit"),
    (["plan", "hdc", "--site", "host_price=-1 $"], "'-1 $': a price must be finite and not negative"),
    (["plan", "hdc", "--site", "maintenance=lots"], "'lots' is not a share: expected e.g. 5 %, 0.05"),
    ([*_GATHER, "dgx-h100", "--ranks", "13"], "ranks=13 do not divide evenly into domains of tier 1 (NVLink)"),
    ([*_GATHER, "gb200-nvl72", "--ranks", "144"], "joins 144 children of 1 ranks: expected at most 72"),
    ([*_GATHER, "nowhere.csv", "--ranks", "8"], "cannot read 'nowhere.csv': No such file"),
    ([*_GATHER, "torus", "--ranks", "12", "--set", "dims=2x3"], "dims 2x3 hold 6 ranks, not ranks=12"),
    (["plan", "resnet51"], "unknown model 'resnet51': did you mean 'resnet50'"),
    (["plan", "nowhere.py:build"], "nowhere.py"),
    (["plan", "resnet50", "--cluster", "terarack-65"], "unknown cluster 'terarack-65': did you mean"),
    (["plan", "resnet50", "--cluster", "none.yaml"], "cannot read 'none.yaml': No such file"),
    (["plan", "resnet50", "--batch", "0"], "--batch 0: expected 1 to 10,000,000 samples"),
    (["plan", "resnet50", "--strategy", "zero3"], "unknown strategy 'zero3'"),
    (["plan", "resnet50", "--algorithm", "rnig"], "unknown algorithm 'rnig': did you mean 'ring'"),
    (["plan", "resnet50", "--cost-model", "papr"], "unknown cost model 'papr': did you mean 'paper'"),
    (["plan", "resnet50", "--set", "fabric.wavelengths"], "expected field=value"),
    (["plan", "resnet50", "--set", "fabric.colour=red"], "unknown field"),
    (["plan", "resnet50", "--report", "/proc/report.html"], "cannot write '/proc/report.html'"),
    (["plan", "resnet50", "--rank", "8"], "No such option"),
    ([*_GOOD_RING[:4], "--ranks", "0", "--nbytes", "1MiB"], "'ranks': 0: Input should be greater than or equal to 1"),
    ([*_GOOD_RING[:4], "--ranks", "1000000000", "--nbytes", "1MiB"], "'ranks': 1000000000: Input should be less than"),
    ([*_GOOD_RING[:4], "--ranks", "many", "--nbytes", "1MiB"], "'many'"),
    (_GOOD_RING[:-2], "give either the total size (--nbytes, nbytes) or the size per rank"),
    ([*_GOOD_RING, "--nbytes-per-rank", "1B"], "give either the total size (--nbytes, nbytes) or the size per rank"),
    ([*_GOOD_RING[:-1], "1 MiBB"], "unknown size unit 'MiBB'"),
    ([*_GOOD_RING[:-1], "nan"], "'nan' is not a size"),
    ([*_GOOD_RING, "--set", "bandwidth=-1 GB/s"], "a bandwidth must be finite and not negative"),
    ([*_GOOD_RING, "--set", "bandwidth=.nan"], "must be finite"),
    ([*_GOOD_RING, "--set", "hop_latency=25 parsec"], "unknown time unit 'parsec'"),
    ([*_GOOD_RING, "--set", "wavelengths=8"], "unknown field 'wavelengths'"),
    ([*_GOOD_RING, "--algorithm", "optree"], "optree needs a ring with wavelengths"),
    ([*_GOOD_RING, "--figure", "map.bmp"], "map.bmp"),
    (["plan", "hdc", "--exchange", "int5"], "unknown exchange 'int5': did you mean 'int8'"),
    (["plan", "hdc", "--exchange", "inceptionn:bound=0.3"], "expected a power of two from 2^-1 to 2^-14"),
    (["plan", "hdc", "--exchange", "diloco:inner=localsgd"], "expected a method that exchanges at every step"),
    (["plan", "hdc", "--exchange-ratio", "8"], "--exchange-ratio needs --exchange METHOD"),
    (["plan", "hdc", "--exchange-profile", "p.json"], "--exchange-profile needs --exchange METHOD"),
    (["plan", "hdc", "--exchange-engine", "nic"], "--exchange-engine needs --exchange METHOD"),
    (
        ["plan", "hdc", "--exchange", "int4", "--exchange-ratio", "8"],
        "is for methods whose bytes depend on the gradient",
    ),
    ([*_CODED, "--exchange-profile", "none.json"], "cannot read compression profile 'none.json': No such file"),
    ([*_CODED, "--exchange-profile", "p.json", "--exchange-ratio", "8"], "give either --exchange-profile"),
    ([*_CODED, "--exchange-ratio", "many"], "--exchange-ratio many: expected a positive number"),
    ([*_CODED, "--exchange-ratio", "0"], "--exchange-ratio 0: expected a positive number"),
    ([*_CODED, "--exchange-ratio", "nan"], "--exchange-ratio nan: expected a positive number"),
    ([*_CODED, "--exchange-ratio", "50"], "--exchange-ratio 50: expected at most 16"),
    ([*_CODED, "--exchange-engine", "nick"], "unknown exchange engine 'nick': did you mean 'nic'"),
    ([*_CODED, "--exchange-engine", "none.yaml"], "cannot read 'none.yaml': No such file"),
    (["plan", "hdc", "--exchange", "truncate", "--exchange-engine", "nic"], "runs inceptionn only, not truncate"),
    (["compress", "profile", "hcd"], "unknown model 'hcd': did you mean 'hdc'"),
    (["compress", "profile", "hdc", "--codec", "gzip"], "unknown codec 'gzip'"),
    (["compress", "profile", "hdc", "--set", "steps=0"], "steps = 0: expected at least 1"),
    (["compress", "profile", "hdc", "--gradients", "g.csv"], "'g.csv': expected a .npy, .npz or .pt file"),
    (["compress", "profile", "hdc", "--gradients", "g.npy"], "cannot read 'g.npy': No such file"),
    (["compress", "profile", "hdc", "--out", "/proc/p.json"], "cannot write '/proc/p.json'"),
    (["compress", "file", "none.npy", "out.llgc"], "cannot read 'none.npy': No such file"),
    (["compress", "file", "none.npy", "out.llgc", "--codec", "gzip"], "unknown codec 'gzip'"),
    (["compress", "profile", "hdc", "--set", "stepz=3"], "unknown setting of profile 'stepz': did you mean 'steps'"),
    (["exchange", "compare", "--set", "link=fast"], "compare: field 'link': 'fast'"),
    (["exchange", "break-even", "--set", "batch=0"], "break-even: field 'batch': 0"),
    (["catalog", "h100", "--ranks", "4"], "--ranks and --model are of exchanges: 'h100' is none"),
    (["catalog", "optree", "--out", "optree.yaml"], "'optree' is code, which has no file"),
    (["catalog", "h100", "--out", "h100.json"], "expected a name that ends in .yaml or .yml"),
    (["catalog", "clusters", "--out", "all.yaml"], "are of one entry: expected its name"),
    (["catalog", "--schema", "sight"], "unknown schema 'sight': did you mean 'site'"),
    (["collective", "all-gather", "--fabric", "rnig", "--ranks", "8", "--nbytes", "1"], "unknown fabric 'rnig'"),
    (["collective", "all-gathr", "--fabric", "ring", "--ranks", "8", "--nbytes", "1"], "did you mean 'all-gather'"),
    (["reproduce", "optre"], "unknown study 'optre': did you mean 'optree'"),
    (["catalog", "nothing"], "unknown catalog entry 'nothing'"),
    (["weave"], "No such command 'weave'"),
]
BAD_CLUSTERS: list[tuple[str, str]] = [
    ("ranks: [8", "not YAML"),
    ("- ranks", "expected a mapping"),
    (_CLUSTER.format(**_GOOD | {"bandwidth": "-40Gbps"}), "'fabric.wavelength_bandwidth': '-40Gbps'"),
    (_CLUSTER.format(**_GOOD | {"bandwidth": "40 Gbsp"}), "unknown bandwidth unit 'Gbsp'"),
    (_CLUSTER.format(**_GOOD | {"setup": ".nan"}), "a time must be finite"),
    (_CLUSTER.format(**_GOOD | {"ranks": "0"}), "'ranks'"),
    (_CLUSTER.format(**_GOOD | {"ranks": "1.5"}), "'ranks'"),
    (_CLUSTER.format(**_GOOD) + "  fibers: 2\n", "unknown field"),
    (_CLUSTER.format(**_GOOD) + "training:\n  precision: bf17\n", "'training.precision': 'bf17'"),
    ("ranks: 8\naccelerator: b1000\nfabric: wdm-ring\n", "unknown accelerator 'b1000'"),
]
BAD_FACTORIES: list[tuple[str, str]] = [
    ("def build():\n    raise RuntimeError('no weights today')\n", "no weights today"),
    ("def other():\n    pass\n", "build"),
    ("def build():\n    return 42\n", "nn.Module"),
    ("def build(:\n", "syntax"),
]


@pytest.mark.parametrize(("arguments", "complaint"), BAD_ARGUMENTS, ids=[" ".join(a)[:60] for a, _ in BAD_ARGUMENTS])
def test_bad_arguments(arguments: list[str], complaint: str, tmp_path: Path) -> None:
    assert_refused(lightloom(*arguments, folder=tmp_path), complaint)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("text", "complaint"), BAD_CLUSTERS, ids=[complaint for _, complaint in BAD_CLUSTERS])
def test_bad_cluster_files_name_the_file(text: str, complaint: str, tmp_path: Path) -> None:
    done = lightloom("plan", "hdc", "--cluster", _cluster(tmp_path, text))
    assert_refused(done, complaint)
    assert "cluster.yaml" in done.err


@pytest.mark.parametrize(("text", "complaint"), BAD_FACTORIES, ids=["raises", "absent", "no module", "syntax"])
def test_bad_factories_name_the_model(text: str, complaint: str, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(text)
    done = lightloom("plan", "model.py:build", folder=tmp_path)
    assert_refused(done, complaint)
    assert "model.py" in done.err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_an_unwritable_folder_is_refused_before_the_work(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert_refused(lightloom("plan", "hdc", "--report", str(tmp_path / "r.html")), "cannot write")


def test_a_file_as_folder_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert_refused(lightloom("plan", "hdc", "--report", str(tmp_path / "file" / "r.html")), "cannot write")


@pytest.mark.parametrize(("size", "code"), [pytest.param("1MiB", 0, marks=pytest.mark.slow), ("nan", 2)])
def test_a_process_of_its_own_answers_alike(size: str, code: int) -> None:
    arguments = [*_GOOD_RING[:-1], size, "--json"]
    command = [sys.executable, "-c", "from lightloom.app.cli.main import main; main()", *arguments]
    process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    done = lightloom(*arguments)
    assert (process.returncode, process.stdout, process.stderr) == done
    assert done.code == code
    if not code:
        assert json.loads(done.out)["schema"] == "lightloom.collective/1"
