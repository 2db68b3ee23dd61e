"""Files that version 0.2 wrote are read by this version; what was spelt otherwise is named once, as it is spelt now.

``files_of_0_2`` was written by the wheel of 0.2.0. Of ``plan.json`` the first plans are kept; ``cluster.yaml`` has the
kind of fabric that has another name now; ``commands.json`` lists the options of all commands, "=" before a value. The
test of 0.1's sweep reads that of 0.2 too.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lightloom as ll
from lightloom.app.cli.former import renewed
from lightloom.app.cli.main import COMMANDS, Entry, load_command
from lightloom.core.errors import InputError
from lightloom.core.files import say_former
from lightloom.exchange.compression.profile import read_profile
from lightloom.photonics.averaging.networks import load_network
from lightloom.photonics.averaging.proof import verify
from lightloom.photonics.meshes.files import load_phases
from tests.cli.commands import lightloom

FILES = Path(__file__).parent / "files_of_0_2"


@pytest.mark.parametrize("name", ["synthesized.json", "synthesized.parquet", "synthesized.arrow", "ring.json"])
def test_schedules(name: str) -> None:
    if name.endswith((".parquet", ".arrow")):
        pytest.importorskip("pyarrow", reason="needs lightloom[arrow]")
    read = ll.verify(FILES / name)
    assert read.algorithm == name.partition(".")[0] and read.collective.ranks == 4
    assert read.time >= read.lower_bound.time > 0


def test_schedules_of_one_form_are_those_of_another() -> None:
    pytest.importorskip("pyarrow", reason="needs lightloom[arrow]")
    (first, *others) = (ll.verify(FILES / f"synthesized.{form}") for form in ("json", "parquet", "arrow"))
    assert {read.time for read in others} == {first.time}


@pytest.mark.parametrize("arguments", ["msccl.xml --fabric ring --ranks 4 --nbytes 1MB", "chakra.et"])
def test_schedules_in_forms_of_others(arguments: str) -> None:
    done = lightloom("schedule", *arguments.split(), folder=FILES)
    assert (done.code, done.err) == (0, "") and "verified" in done.out


def test_a_plan_is_compared_with_itself() -> None:
    result = ll.compare(FILES / "plan.json", FILES / "plan.json")
    assert result.changes and not result.gone and not result.new


def test_a_graph_is_a_model() -> None:
    done = lightloom("plan", str(FILES / "graph.json"), "--cluster", "inceptionn-4", "--json", "--no-what-if")
    document = json.loads(done.out)
    kept = json.loads((FILES / "plan.json").read_text())
    assert document["parameters"] == kept["parameters"]


@pytest.mark.parametrize("name", ["titan.toml", "megatron.sh"])
def test_settings_of_frameworks(name: str) -> None:
    done = lightloom("plan", str(FILES / name), "--cluster", "dgx-h100-64", "--ranks", "16")
    # Both leave out what a user adds: which model they are for.
    assert done.code == 2 and len(done.err.splitlines()) == 1, done.err


def test_networks() -> None:
    for name, exact in (("averager.npz", True), ("trained.npz", False)):
        network, arguments = load_network(FILES / name)
        assert (arguments.servers, arguments.bits) == (2, 4)
        assert (verify(network, arguments.function()).wrong_outputs == 0) is exact


def test_phases_in_both_forms() -> None:
    first, second = (load_phases(FILES / f"phases.{form}") for form in ("json", "npz"))
    assert first.keys() == second.keys()
    done = lightloom("onn", "map", "--phases", str(FILES / "phases.npz"), str(FILES / "averager.npz"))
    assert done.code == 0, done.err


@pytest.mark.parametrize("codec", ["inceptionn", "truncate"])
def test_streams_of_gradients(codec: str, tmp_path: Path) -> None:
    done = lightloom("compress", "file", str(FILES / f"{codec}.stream"), str(tmp_path / "out.f32"))
    assert done.code == 0, done.err
    written, read = (np.fromfile(path, "<f4") for path in (FILES / "gradient.f32", tmp_path / "out.f32"))
    assert np.abs(written - read).max() <= (2**-10 if codec == "inceptionn" else 2**-6 * np.abs(written).max())


def test_a_profile() -> None:
    document = read_profile(FILES / "profile.json").to_json()
    assert document["codecs"] == json.loads((FILES / "profile.json").read_text())["codecs"]


@pytest.mark.parametrize("name", ["calibrated.yaml", "profiled.yaml"])
def test_calibrations_are_accelerators(name: str) -> None:
    cluster = ll.load_cluster("dgx-a100-64", set={"accelerator": str(FILES / name)})
    assert "calibrated" in repr(cluster.accelerator) or cluster.accelerator.efficiency


def test_a_transport() -> None:
    assert ll.load_cluster("dgx-a100-64", set={"fabric.transport": str(FILES / "transport.yaml")}).ranks


def test_caches_are_made_again_without_a_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(FILES / "cache", tmp_path / "cache")
    (tmp_path / "cache").chmod(0o700)
    monkeypatch.setenv("LIGHTLOOM_CACHE", str(tmp_path / "cache"))
    done = lightloom("collective", "all-gather", "--fabric", "wdm-ring", "--ranks", "4", "--nbytes", "1MB")
    assert (done.code, done.err) == (0, "")


_HOOKS = """
import os, sys, torch, torch.distributed as dist, warnings
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from lightloom import exchange
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", GLOO_SOCKET_IFNAME="lo")
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
for name, kept in torch.load(sys.argv[1]).items():
    net = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2)))
    state = exchange.attach(net, kept["method"])
    state.load_state_dict(kept["state"])
    again = state.state_dict()
    same = again.keys() == kept["state"].keys() and all(torch.equal(torch.as_tensor(again[key]), torch.as_tensor(value))
        for key, value in kept["state"].items())
    print(name, same)
    net(torch.randn(4, 8)).square().mean().backward()
"""


@pytest.mark.slow
def test_states_of_hooks() -> None:
    pytest.importorskip("torch", reason="needs lightloom[torch]")
    command = [sys.executable, "-c", _HOOKS, str(FILES / "hooks.pt")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"{name} True" for name in ("int4", "topk", "powersgd", "inceptionn", "optical")
    ]


class _Stopped(Exception):
    """Raised with the work that a resumed training starts from."""


@pytest.mark.slow
def test_an_interrupted_training_goes_on(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="needs lightloom[torch]")
    training = import_module("lightloom.photonics.onn.training")
    path = shutil.copy(FILES / "training" / "checkpoint.pt", tmp_path)
    recipe = json.loads(torch.load(path)["recipe"])

    def stop(done: int) -> None:
        raise _Stopped(done)

    with pytest.raises(_Stopped) as stopped:
        stated = {name: tuple(value) if isinstance(value, list) else value for name, value in recipe.items()}
        training.train(training.TrainingRecipe(**stated), tmp_path, stop)
    assert stopped.value.args[0] > 0


_PLUGINS = """
import json, sys
from lightloom.app.cli.main import main
sys.argv = ["lightloom", "collective", "all-reduce", "--fabric", "rail", "--ranks", "16", "--nbytes", "1MB", "--json"]
main()
"""


@pytest.mark.slow
def test_plug_ins(tmp_path: Path) -> None:
    """Their wheel, on the path as it is: modules import what was public under its former names."""
    environment = os.environ | {"PYTHONPATH": str(FILES / "plugins.whl")}
    command = [sys.executable, "-c", _PLUGINS]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    assert "star" in {row["algorithm"] for row in document["rows"]}


def _options(words: str, entry: Entry) -> Iterator[tuple[str, set[str]]]:
    """Yield each command of today below some words, with its options."""
    for name, below in entry.commands.items():
        yield from _options(f"{words} {name}", below)
    if not entry.commands:
        command = load_command(words.split()[-1], entry)
        yield (
            words,
            {"-h", "--help"} | {name for option in command.params for name in (*option.opts, *option.secondary_opts)},
        )


def test_every_option_of_0_2_is_known_or_renewed_or_says_what_to_call() -> None:
    today = dict(row for name, entry in COMMANDS.items() for row in _options(name, entry))
    unknown, silent, gone = [], [], []
    for words, stated in json.loads((FILES / "commands.json").read_text()).items():
        for option in stated.split():
            try:
                line, lines = renewed(
                    [*words.split(), option.removesuffix("="), *(["1"] if option.endswith("=") else [])]
                )
            except InputError as error:
                gone.append(f"{words} {option}")
                assert "is gone: expected `" in str(error)
                continue
            name = next(" ".join(line[:n]) for n in (2, 1) if " ".join(line[:n]) in today)
            unknown += [f"{words} {option}" for word in line if word.startswith("-") and word not in today[name]]
            same = name == words and option.removesuffix("=") in line
            silent += [] if same or len(lines) == len(set(lines)) > 0 else [f"{words} {option}"]
    assert (unknown, silent) == ([], [])
    assert gone == ["plan --no-latency-sensitivity", "execute --algorithm=", "execute --kind=", "onn build --scenarios"]


def test_a_former_kind_of_fabric_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    say_former.cache_clear()
    with caplog.at_level(logging.WARNING, logger="lightloom"):
        first, second = (ll.load_cluster(FILES / "cluster.yaml") for _ in range(2))
    assert first == second
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.endswith("kind two-tier-switch is tiers now; the former spelling works in this release")


def test_a_former_name_of_a_cluster_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    say_former.cache_clear()
    with caplog.at_level(logging.WARNING, logger="lightloom"):
        for former, new in (("h100-1024-fat-tree-400g", "h100-1024-no-nvlink-400g"),) * 2:
            assert ll.load_cluster(former) == ll.load_cluster(new)
    assert ["no-nvlink" in record.getMessage() for record in caplog.records] == [True]


def test_nothing_else_warns() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ll.verify(FILES / "ring.json")
