"""``lightloom onn disturb --train``: device noise in, test accuracy of a trained model out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lightloom.photonics.averaging.files import FunctionArguments
    from lightloom.photonics.averaging.networks import LayeredNetwork
    from lightloom.photonics.devices import NonIdealities


def test_accuracy(
    how: NonIdealities,
    network: LayeredNetwork,
    arguments: FunctionArguments,
    data: Path | None,
    iterations: int,
    seed: int,
    folder: Path | None,
    origin: dict[str, Any],
    as_json: bool,
) -> None:
    """Trains twice, gradients averaged in float32 and on the devices, and prints both accuracies."""
    from lightloom.core.errors import UnsupportedError

    raise UnsupportedError("--train is not here yet")
