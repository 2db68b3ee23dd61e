"""Reading of ``.npz`` files from untrusted sources."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

from lightloom.core.arrays import Column
from lightloom.core.errors import ConfigError


def read_arrays(path: Path) -> dict[str, Column]:
    """Return all arrays of the file by name; nothing in the file is executed.

    Raises:
        ConfigError: the file cannot be read, or is not an archive of arrays.
    """
    try:
        with path.open("rb") as file:
            loaded = np.load(file, allow_pickle=False)
            if not isinstance(loaded, np.lib.npyio.NpzFile):
                raise ValueError("a single array")
            with loaded as archive:
                return {name: archive[name] for name in archive.files}
    except OSError as error:
        raise ConfigError(f"{str(path)!r}: {error.strerror or 'cannot be read'}") from error
    except (ValueError, zipfile.BadZipFile, EOFError) as error:
        raise ConfigError(f"{str(path)!r}: not an .npz file of arrays") from error
