"""What the ``onn`` commands read and check before they work."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lightloom.core.errors import ConfigError
from lightloom.core.files import check_writable

if TYPE_CHECKING:
    from numpy.typing import NDArray


def check_network_name(path: Path) -> None:
    """Refuse a place where no network could be written.

    Raises:
        ConfigError: another ending than .npz, or the place cannot be written to.
    """

    if path.suffix != ".npz":
        raise ConfigError(f"{str(path)!r}: expected a name that ends in .npz")
    check_writable(path)


def read_matrix(path: Path) -> NDArray[Any]:
    """A matrix saved with ``numpy.save``.

    Raises:
        ConfigError: the file cannot be read, or holds no numbers; another shape or NaN is what mapping refuses.
    """

    try:
        with path.open("rb") as file:
            matrix = np.load(file, allow_pickle=False)
    except OSError as error:
        raise ConfigError(f"{str(path)!r}: {error.strerror or 'cannot be read'}") from error
    except (ValueError, EOFError) as error:
        raise ConfigError(f"{str(path)!r}: not a .npy file of numbers") from error
    if not isinstance(matrix, np.ndarray) or matrix.dtype.kind not in "biufc":
        raise ConfigError(f"{str(path)!r}: not a .npy file of numbers")
    return matrix
