"""From errors of devices to the test accuracy of a model that was trained with them.

network ──▶ meshes ──▶ one fabrication ──▶ averager of the hook ──▶ a LeNet on MNIST beside the same in float32
"""

import json
import tempfile
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.core.files import write_atomically
from lightloom.core.results import content_hash
from lightloom.exchange.transport.worker import Worker
from lightloom.photonics.averaging.averagers import IdealAverager, NetworkAverager
from lightloom.photonics.averaging.mapped import detecting as detecting
from lightloom.photonics.averaging.mapped import fabricated, map_network
from lightloom.photonics.averaging.networks import FunctionArguments, LayeredNetwork, save_network
from lightloom.photonics.devices import NonIdealities

MOST_SERVERS = 8
"""One process each on this host."""
_SAMPLES = 400_000
_TIMEOUT = 3_600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceNoiseResult:
    """Errors of averages in one fabrication, and the test accuracy of a model trained with them."""

    how: NonIdealities
    servers: int
    bits: int
    mzis: int
    code_error_rate: float
    """Share of mean codes that come out wrong, for uniformly drawn codes."""
    rms_error_lsb: float
    """Root mean square error of a mean code, in its least significant unit."""
    test_accuracy: float
    """Share of MNIST's test set."""
    test_accuracy_float32: float
    """With the same weights to start from, and the same batches."""
    iterations: int
    seed: int


def test_accuracy_under(
    how: NonIdealities,
    network: LayeredNetwork,
    arguments: FunctionArguments,
    data: Path,
    iterations: int,
    seed: int,
    folder: Path | None = None,
) -> DeviceNoiseResult:
    """Fabricate a network's meshes once, average LeNet's gradients with them in training on MNIST, and return errors of
    averages (share of wrong mean codes of uniformly drawn ones, and root mean square in last places) and the test
    accuracy (0 to 1) beside that of a training with float32 averages.

    Args:
        how: the devices' errors. The detectors read every signal behind a mesh anew, with noise relative to its full
            scale.
        network: averages codes of ``arguments.servers`` servers, each of which is a process here.
        arguments: servers, bits and rounding of the network's function.
        data: folder with MNIST.
        iterations: number of training steps, 64 images a server each.
        seed: of the fabrication (the first draw of ``monte_carlo``), of all noise, and of the training.
        folder: keeps the fabricated network (``fabricated.npz``), checkpoints and results (``result.json``), and goes
            on with what is there; None keeps nothing.

    Raises:
        UnsupportedError: more than 8 servers.
        ConfigError: MNIST is not in ``data``; the folder cannot be written to, or holds another network, other devices,
            another seed or number of iterations.
        LaunchError: training failed.
    """
    from lightloom.exchange.datasets import training_digits
    from lightloom.exchange.transport.launch import launch

    if arguments.servers > MOST_SERVERS:
        raise UnsupportedError(f"{arguments.servers} servers: training takes a process each, at most {MOST_SERVERS}")
    training_digits(data)
    mapped = map_network(network)
    made = detecting(fabricated(mapped, how, np.random.default_rng((seed, 0))))
    rate, rms = code_errors(NetworkAverager(made, arguments, how.detector_noise, seed), seed)
    with ExitStack() as stack:
        place = folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lightloom-")))
        _claim(place, content_hash([[w.tolist() for w in made.weights], asdict(how), seed, iterations]))
        save_network(place / "fabricated.npz", made, arguments)
        tasks = {"float32": "none", "devices": f"optical:network:{place / 'fabricated.npz'},noise={how.detector_noise}"}
        common: dict[str, Any] = {"data": str(data.absolute()), "folder": str(place.absolute()), "tasks": tasks}
        common |= {"bits": arguments.bits, "rounding": arguments.rounding, "seed": seed, "iterations": iterations}
        outcome = launch("lightloom.papers.runs.device_noise:train_both", arguments.servers, _TIMEOUT, common)[0]
        result = DeviceNoiseResult(
            how=how,
            servers=arguments.servers,
            bits=arguments.bits,
            mzis=mapped.mzis,
            code_error_rate=rate,
            rms_error_lsb=rms,
            test_accuracy=outcome.value["devices"],
            test_accuracy_float32=outcome.value["float32"],
            iterations=iterations,
            seed=seed,
        )
        write_atomically(place / "result.json", json.dumps(asdict(result), indent=1) + "\n")
    return result


def _claim(folder: Path, question: str) -> None:
    """Make the folder and write ``question``, a hash of all that a run depends on, to a file of that name in it.

    Raises:
        ConfigError: the folder holds a run with another hash, or cannot be made or written to.
    """
    name = folder / "question"
    if name.exists() and name.read_text() != question:
        raise ConfigError(
            f"{str(folder)!r} holds a run of another network, devices, seed or length: name another folder"
        )
    write_atomically(name, question)


def code_errors(averager: NetworkAverager, seed: int, samples: int = _SAMPLES) -> tuple[float, float]:
    """Return the share (0 to 1) of mean codes of an averager that differ from the ideal ones under its rounding, and
    their root mean square error over all samples in units of the last place, for ``samples`` uniformly drawn codes of
    every server."""
    rng = np.random.default_rng((seed, 1))
    codes = rng.integers(0, 1 << averager.bits, (averager.servers, samples), dtype=np.uint32)
    errors = averager(codes) - IdealAverager(averager.servers, averager.bits, averager.rounding)(codes)
    return float((errors != 0).mean()), float(np.sqrt(np.square(errors, dtype=np.float64).mean()))


def train_both(worker: Worker) -> dict[str, float]:
    """Train LeNet on MNIST with float32 averages and with those of the devices, as the worker function of ``launch``,
    resuming each from its checkpoint, and return the last test accuracy (0 to 1) of each by the name of the task;
    checkpoints are in a folder for each task.

    ``worker.arguments``: ``tasks`` (exchange of gradients, as ``Recipe.gradients`` takes it, by name), ``data`` and
    ``folder`` (paths), ``seed``, ``iterations``, ``bits`` and ``rounding``.
    """
    from lightloom.papers.runs.digits import lenet_recipe, train

    settings, accuracies = worker.arguments, {}
    averaging = {name: settings[name] for name in ("bits", "rounding")}
    for name, gradients in settings["tasks"].items():
        folder = Path(settings["folder"]) / name
        folder.mkdir(exist_ok=True)
        recipe = lenet_recipe(settings["seed"], settings["iterations"], gradients, **averaging)
        arguments = {"recipe": asdict(recipe), "data": settings["data"], "folder": str(folder)}
        accuracies[name] = train(Worker(worker.rank, worker.size, arguments))["accuracy"][-1]
    return accuracies
