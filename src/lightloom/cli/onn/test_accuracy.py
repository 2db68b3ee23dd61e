"""``lightloom onn disturb --train``: errors of devices in, test accuracy of a trained model out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rich.table import Table

from lightloom.core.errors import UnsupportedError
from lightloom.core.results import Document
from lightloom.reports.console import facts_table
from lightloom.reports.onn.sweep import WORDS
from lightloom.reports.progress import progress
from lightloom.workloads.resolve import INSTALL_TORCH

if TYPE_CHECKING:
    from lightloom.photonics.averaging.realised.files import FunctionArguments
    from lightloom.photonics.averaging.realised.networks import LayeredNetwork
    from lightloom.photonics.devices import NonIdealities


class TrainingRun(NamedTuple):
    """What is trained, and where."""

    data: Path | None
    """Folder with MNIST; ``$LIGHTLOOM_DATA`` without it."""
    iterations: int
    seed: int
    folder: Path | None
    """Keeps what is trained, so that an interrupted training is resumed."""


def measured_accuracy(
    how: NonIdealities,
    network: LayeredNetwork,
    arguments: FunctionArguments,
    run: TrainingRun,
) -> Document:
    """Train twice, with gradients averaged in float32 and on the devices.

    Raises:
        ConfigError: no data.
        UnsupportedError: no PyTorch, or more servers than this host can be.
    """
    try:
        import torch  # noqa: F401
    except ModuleNotFoundError as error:
        raise UnsupportedError(f"--train {INSTALL_TORCH}") from error
    from lightloom.training.datasets.folder import data_folder
    from lightloom.training.runs.device_noise import test_accuracy_under

    place = data_folder(run.data)
    with progress("Training twice", None):
        result = test_accuracy_under(how, network, arguments, place, run.iterations, run.seed, run.folder)
    return {"schema": "lightloom.onn-test-accuracy/1", **result.to_json()}


def device_errors(fields: Mapping[str, float]) -> str:
    """Return the errors of devices in words; ``fields`` are those of `NonIdealities`."""
    return ", ".join(f"{WORDS[name]} {value:g}" for name, value in fields.items() if value) or "none"


def accuracy_table(document: Document, network: Path) -> Table:
    """Return the accuracies as a table."""
    difference = 100 * (document["test_accuracy"] - document["test_accuracy_float32"])
    rows = [
        ("errors of devices", device_errors(document["how"])),
        (
            "wrong mean codes",
            f"{100 * document['code_error_rate']:.4g} %, RMS {document['rms_error_lsb']:.3g} of the last place",
        ),
        ("test accuracy", f"{100 * document['test_accuracy']:.2f} %"),
        ("averaged in float32", f"{100 * document['test_accuracy_float32']:.2f} % ({difference:+.2f} points)"),
    ]
    run = f"{document['servers']} servers, {document['bits']} bits, {document['iterations']:,} iterations"
    return facts_table(rows, title=f"{network}: LeNet on MNIST, {run}")
