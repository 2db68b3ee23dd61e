"""What commands print and write: a document or its parts for people, figures and other files."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer
from rich.table import Table
from rich.text import Text

from lightloom.core.errors import ConfigError
from lightloom.core.files import check_writable
from lightloom.core.results import Document, plain, provenance_line
from lightloom.reports.console import make_console
from lightloom.reports.figures.canvas import check_format, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Shown(NamedTuple):
    """Result of a command: its document for ``--json``, or else its parts for people."""

    document: Document
    """The result, with its ``provenance``."""
    parts: Iterable[str | Text | Table]
    """Tables and lines, made only where they are printed; provenance and written files follow."""
    written: Mapping[str, Path | None] = MappingProxyType({})
    """Files that were written, by what they hold; None for a file that was not requested."""
    bare: bool = False
    """True where the parts are texts that are printed as they are, and nothing follows."""
    messages: Sequence[str] = ()
    """Lines among the parts that go to stderr where the document is printed."""
    code: int = 0
    """Exit code."""

    def show(self, as_json: bool) -> None:
        """Print the result, and exit where its code is another than 0."""
        if as_json:
            # Numbers that JSON lacks become null.
            json.dump(plain(self.document), sys.stdout, indent=2, ensure_ascii=False, allow_nan=False)
            typer.echo()
            for line in self.messages:
                typer.echo(line, err=True)
        elif self.bare:
            for part in self.parts:
                typer.echo(part)
        else:
            self._print_parts()
        if self.code:
            raise typer.Exit(self.code)

    def _print_parts(self) -> None:
        console = make_console()
        for part in self.parts:
            if isinstance(part, Table) and not console.is_terminal:
                # A pipe has no edge: no word is broken there, and no column cut.
                console.width = max(
                    console.width, console.measure(part, options=console.options.update(width=1 << 14)).minimum
                )
            console.print(part, soft_wrap=isinstance(part, str) and not console.is_terminal)
        console.print(provenance_line(self.document["provenance"]), style="dim")
        for name, path in self.written.items():
            if path is not None:
                console.print(f"{name}: {path}", soft_wrap=True)


def draw(path: Path | None, figure: Callable[[], Figure], document: Document) -> Path | None:
    """Save the figure of a command's result, with the result's provenance, where a path is given; returns the path."""
    return None if path is None else save(figure(), path, provenance_line(document["provenance"]))


def check_file(path: Path, endings: Sequence[str] = ()) -> None:
    """Check before the work that a file can be written, and that it has one of these endings if any are named.

    Raises:
        ConfigError: another ending, or a place that cannot be written to.
    """
    if endings and path.suffix not in endings:
        raise ConfigError(f"{str(path)!r}: expected a name that ends in {' or '.join(endings)}")
    check_writable(path)


def check_figure(path: Path) -> None:
    """Check before the work that a figure has a form that can be drawn, and that its file can be written.

    Raises:
        ConfigError: another form, or a place that cannot be written to.
    """
    check_format(path)
    check_writable(path)


FigureFile = Annotated[Path | None, check_figure]
OutFile = Annotated[Path | None, check_file]
JsonFile = Annotated[Path | None, partial(check_file, endings=(".json",))]
