"""Commands for the files in ``trained/``: rivals under noise, their comparison, and trainings that know errors."""

import sys
from pathlib import Path

from lightloom.core.errors import LightloomError
from lightloom.photonics.onn import aware, compare

USAGE = "usage: python -m lightloom.photonics.onn rival NAME FOLDER | compare FILE | aware FILE"


def main(arguments: list[str]) -> str | int:
    """Run the command of these arguments, and return 0, or the usage or an error message if it failed.

    Commands are ``rival NAME FOLDER``, which trains a network and keeps it (`compare.train_and_keep`), and ``compare
    FILE`` and ``aware FILE``, which write their comparison to a JSON file.
    """
    try:
        match arguments:
            case ["rival", name, folder]:
                compare.train_and_keep(name, Path(folder))
            case ["compare", file]:
                compare.write(Path(file))
            case ["aware", file]:
                aware.write(Path(file))
            case _:
                return USAGE
    except LightloomError as error:
        return f"error: {error}"
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
