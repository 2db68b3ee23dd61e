"""Commands for the files in ``trained/``: ``rival NAME FOLDER`` trains a network, ``compare FILE`` measures all."""

from __future__ import annotations

import sys
from pathlib import Path

from lightloom.core.errors import LightloomError
from lightloom.photonics.onn.compare import write
from lightloom.photonics.onn.rival import train_and_keep

USAGE = "usage: python -m lightloom.photonics.onn rival NAME FOLDER | compare FILE"


def main(arguments: list[str]) -> str | int:
    """Run a command, and return its exit status or an error message."""
    try:
        match arguments:
            case ["rival", name, folder]:
                train_and_keep(name, Path(folder))
            case ["compare", file]:
                write(Path(file))
            case _:
                return USAGE
    except LightloomError as error:
        return f"error: {error}"
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
