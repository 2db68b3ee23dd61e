"""Readers of files of others take mutated files, or refuse them in one line, soon and without a traceback."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
import pytest

import lightloom as ll
from lightloom.app.cli.circuits import read_traffic
from lightloom.collectives.collective import measured_sizes
from lightloom.collectives.files.formats import import_schedule
from lightloom.core.errors import InputError, LightloomError
from lightloom.exchange.compression.inceptionn import Inceptionn
from lightloom.exchange.compression.profile import Sample, measure_codecs, read_gradients
from lightloom.exchange.compression.profile import read_profile as read_compression
from lightloom.machines.accelerators.load import load_accelerator
from lightloom.machines.clusters.load import description, load_cluster
from lightloom.machines.fabrics.graph import read_edges
from lightloom.models.files.model_file import FileRequest
from lightloom.models.files.read import read_model_file
from lightloom.models.zoo import load_workload
from lightloom.photonics.meshes.files import load_phases, save_phases
from lightloom.photonics.meshes.mapping import map_blocks
from lightloom.planning.sweeps.experiment import read_experiment
from tests.clusters.test_astra_sim import NETWORK, NS3, OLD, SYSTEM
from tests.interchange.test_chakra_json import written as chakra_json
from tests.interchange.test_execution_trace import recorded
from tests.interchange.test_kineto_workload import events
from tests.interchange.test_layer_file import HYBRID
from tests.interchange.test_onnx import graph_of
from tests.model_files.test_megatron import GPT
from tests.model_files.test_torchtitan import NEW
from tests.model_files.test_transformers import LLAMA

SECONDS = 10
"""That a reader may take for one small file."""
EACH = 2500
"""Mutated files of each reader; fewer where one takes long."""
_WORDS = (
    b"null", b"-1", b"1e999", b"NaN", b"999999999999", b"[", b"]", b"{", b"}", b'"', b"\x00", b"\xff", b"*a", b"&a ",
    b": ", b",", b"\n", b"0", b"true", b"<", b"$((", b"\\", b"1_0", "１".encode(), b"\x1b[2J",
    b"!!python/name:os.system ",
)  # fmt: skip


def _plan(path: Path) -> object:
    return read_model_file(path, FileRequest(batch=2, sequence_length=None))


def _cluster(path: Path) -> object:
    return load_cluster(path, set={"accelerator": "a100"})


def _decoded(path: Path) -> object:
    return Inceptionn().decode(path.read_bytes())


def _beside(folder: Path, path: Path) -> object:
    """Read a rank's trace with the sound ones of the others."""
    for other in folder.glob("s.*.et"):
        if not (path.parent / other.name).exists():
            shutil.copy(other, path.parent)
    return import_schedule(path)


def _samples(folder: Path) -> Iterator[tuple[str, Path, Callable[[Path], object], int]]:
    """Yield a name, a sound file, its reader and how many of its mutants to read."""

    def written(name: str, content: str | bytes | Mapping[str, Any]) -> Path:
        path = folder / name
        text = content if isinstance(content, str | bytes) else json.dumps(content)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    schedule = ll.synthesize("all-gather", fabric="wdm-ring", ranks=4, nbytes="1kB")
    fabric = schedule.fabric
    for suffix in ("json", "parquet"):
        yield f"schedule-{suffix}", schedule.save(folder / f"s.{suffix}")[0], import_schedule, EACH
    xml = schedule.save(folder / "s.xml")[0]
    yield "schedule-xml", xml, lambda path: import_schedule(path, fabric, 1e3), EACH
    yield "graph", written("graph.json", load_workload("hdc", batch=2).to_json()), _plan, EACH
    yield "cluster", written("c.yaml", json.dumps(description("dgx-h100-64"))), _cluster, EACH
    yield "network", written("network.yml", NETWORK), _cluster, EACH
    yield "old-network", written("network.json", OLD), _cluster, EACH
    yield "ns3", written("topology.txt", NS3), _cluster, EACH
    yield "system", written("system.json", SYSTEM), lambda path: load_accelerator(str(path)), EACH
    yield "layers", written("layers.txt", HYBRID), _plan, EACH
    # Steps that are too small to plan would be refused unchanged.
    trace = chakra_json(folder, "feeder").read_text().replace('"num_ops": 500', '"num_ops": 500000')
    yield "chakra-json", written("feeder.json", trace), _plan, EACH
    wide = json.dumps({"traceEvents": events()}).replace("[4, ", "[400, ").replace(", 4]", ", 400]")
    yield "profile", written("profile.json", wide.replace(", 5]", ", 80]")), _plan, EACH
    script = GPT.format(layers=2, more="") + "if [ -f x ]; then TP=1; fi\nfor i in 1 2; do A+=($i); done\n"
    yield "script", written("run.sh", script), _plan, EACH
    yield "torchtitan", written("job.toml", NEW.format(name="llama3", flavor="debugmodel", more="")), _plan, 100
    yield "edges", written("edges.csv", "source,target,bandwidth\n0,1,1GB/s\n1,2,5 Gbps\n"), read_edges, EACH
    yield "sizes", written("sizes.csv", "1,2,3\n4,5,6\n7,8,9\n"), measured_sizes, EACH
    yield "traffic", written("traffic.csv", "0,1kB\n2,0\n"), read_traffic, EACH
    np.save(folder / "traffic.npy", np.ones((3, 3)) - np.eye(3))
    yield "traffic-npy", folder / "traffic.npy", read_traffic, EACH
    np.savez(folder / "gradients.npz", a=np.ones(3, np.float32), b=np.ones((2, 2), np.float32))
    yield "gradients", folder / "gradients.npz", read_gradients, EACH
    yield "experiment", Path("examples/sweep.yaml"), read_experiment, EACH
    traces = schedule.save(folder / "s.et")
    yield "chakra", traces[0], partial(_beside, folder), EACH
    node = onnx.helper.make_node
    model = graph_of([node("MatMul", ["x", "w"], ["a"]), node("Relu", ["a"], ["y"])], {"x": [2, 8]}, {"w": [8, 6]})
    yield "onnx", written("model.onnx", model.SerializeToString()), _plan, EACH
    yield "execution-trace", recorded(folder, "residual"), _plan, 500
    yield "transformers", written("config.json", LLAMA | {"hidden_size": 8, "intermediate_size": 8}), _plan, 100
    values = np.random.default_rng(0).laplace(0, 1e-2, 300).astype(np.float32)
    yield "stream", written("values.llgc", bytes(Inceptionn().encode(values))), _decoded, EACH
    parts = {"layer 1": map_blocks(np.random.default_rng(0).normal(size=(5, 2)))}
    for suffix in ("json", "npz"):
        yield f"phases-{suffix}", save_phases(parts, folder / f"phases.{suffix}"), load_phases, EACH
    ranking = ll.plan("hdc", "dgx-h100-64", strategy="ddp", ranks=8).to_json()
    yield "plans", written("plans.json", ranking), lambda path: ll.compare(ranking, path).to_json(), EACH
    gradients = [Sample(1, 1, {"weight": values})]
    profile = measure_codecs("hdc", 5000, gradients, [Inceptionn()], "drawn").to_json()
    yield "compression-profile", written("compression.json", profile), read_compression, EACH


NAMES = (
    "schedule-json", "schedule-parquet", "schedule-xml", "graph", "cluster", "network", "old-network", "ns3", "system",
    "layers", "chakra-json", "profile", "script", "torchtitan", "edges", "sizes", "traffic", "traffic-npy", "gradients",
    "experiment", "chakra", "onnx", "execution-trace", "transformers", "stream", "phases-json", "phases-npz", "plans",
    "compression-profile",
)  # fmt: skip


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Callable[[Path], object], int]]:
    """Sound files with their readers."""
    return {name: tuple(rest) for name, *rest in _samples(tmp_path_factory.mktemp("files"))}  # type: ignore[misc]


def mutated(content: bytes, random: Random) -> bytes:
    """Change a file at a few places: bytes flipped, cut, repeated, moved, or words put in that parsers mind."""
    for _ in range(random.randint(1, 4)):
        at, length = random.randrange(len(content) + 1), random.choice((1, 1, 2, 8, 40))
        before, part, after = content[:at], content[at : at + length], content[at + length :]
        ways = (
            (before, bytes(byte ^ (1 << random.randrange(8)) for byte in part), after),
            (before, after),
            (before, part * random.randint(2, 50), after),
            (before,),
            (before, random.choice(_WORDS), part, after),
            (before, random.choice(_WORDS), after),
        )
        content = b"".join(random.choice(ways)) or b"\n"
    return content


@contextmanager
def _at_most(seconds: int) -> Iterator[None]:
    def hang(*_: object) -> None:
        raise AssertionError(f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, hang)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_mutated_files_are_read_or_refused_in_one_line(
    name: str, samples: dict[str, tuple[Path, Callable[[Path], object], int]], tmp_path: Path
) -> None:
    sound, read, count = samples[name]
    read(sound)
    random, content = Random(name), sound.read_bytes()
    path = tmp_path / sound.name
    for number in range(count):
        changed = mutated(content, random)
        path.write_bytes(changed)
        try:
            with _at_most(SECONDS):
                read(path)
        except InputError as error:
            assert "\n" not in str(error), str(error)
        except LightloomError:
            raise
        except BaseException as error:
            kept = Path(f"{path}.{number}")
            kept.write_bytes(changed)
            raise AssertionError(f"{name}, mutant {number}, kept as {kept}: {type(error).__name__}: {error}") from error


def test_every_sample_is_named(samples: Mapping[str, object]) -> None:
    assert tuple(samples) == NAMES
