"""Modules replaced by code in memory, in a process under test and in the interpreters that it starts.

The folder of this file is on ``PYTHONPATH`` while a mutant is tried, so that every interpreter that a test starts, the
ranks of a launch among them, loads what ``MUTANT_CODE`` names in place of the package's own files.
"""

from __future__ import annotations

import marshal
import os
from collections.abc import Mapping
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType

CODE = "MUTANT_CODE"
"""Environment variable: a file with the code of the replaced modules, by name."""
HITS = "MUTANT_HITS"
"""Environment variable: a file to which interpreters add the names of functions entered, where these are noted."""


class Entered(set[str]):
    """Names of functions that this process has entered."""

    def add(self, name: str) -> None:
        """Add a name, and write one that is new to the file that ``MUTANT_HITS`` names."""
        if name not in self:
            super().add(name)
            if HITS in os.environ:
                with Path(os.environ[HITS]).open("a") as file:
                    file.write(f"{name}\n")


entered = Entered()
"""Functions entered since the set was last emptied; what ``reaching_code`` compiles adds to it."""


def replace_modules(code: Mapping[str, CodeType]) -> None:
    """Load these modules from code in memory."""
    from_file = SourceFileLoader.get_code

    def get_code(self: SourceFileLoader, fullname: str) -> CodeType | None:
        return code[fullname] if fullname in code else from_file(self, fullname)

    setattr(SourceFileLoader, "get_code", get_code)  # noqa: B010


if CODE in os.environ:
    replace_modules(marshal.loads(Path(os.environ[CODE]).read_bytes()))
