"""The answer to a question on one screen: what is best, what it is compared with, what would change it, what to ask.

    Llama-3 8B on 256 H100 (dgx-h100-512), 512 x 4,096 tokens a step
    BEST     fully sharded data parallel                         897 ms ±19 %
             4 % of the step waits for the network
       plan                    step    waits
       data 256, ZeRO-3      897 ms      4 %
    =  data 256, ZeRO-2      921 ms      6 %
    = too close to the first to tell    12 more: --all
    What if  links twice as fast -0.1 %    half the batch +3 %
    Limit    computing: faster networks gain at most 4 % at this batch
    More     --explain    --assumptions

Terminals, pages and notebooks show the same answer; documents keep every row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from textwrap import wrap as wrap_text

MOST_ROWS = 8
"""Rows of a table that an answer shows by default."""
INDENT = 9
"""Columns of the labels of lines."""
_BETWEEN = "    "
"""Blanks between two items of a line."""
wrap = partial(wrap_text, break_on_hyphens=False)
"""Wraps a text into lines of a width; names such as ``one-stage-striped`` stay whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A question and its answer in words, for people; every part but the first two may be empty."""

    question: str
    """What was asked, as it was understood, in one line."""
    best: Sequence[str]
    """The answer: one line, then what it means in at most two more."""
    rows: Sequence[Mapping[str, str]] = ()
    """Rows of the table that are shown, each a text by column; all have the columns of the first."""
    legend: str = ""
    """What the marks in the table mean."""
    hidden: int = 0
    """Rows that the table leaves out."""
    everything: str = "--all"
    """Option that shows the rows which are left out."""
    what_if: Sequence[str] = ()
    """Changes of the question, each with its effect in a few words."""
    limit: str = ""
    """What bounds the answer, and what lifting that would gain at most."""
    rests: str = ""
    """What the answer rests on: how many assumptions, and the most influential."""
    more: Sequence[str] = ()
    """Options or commands that say more."""

    def lines(self, width: int) -> Iterator[str]:
        """Yield the lines that a notebook shows: first those of the answer and what it means (``best``), as they are,
        neither labelled nor wrapped; then, labelled and wrapped to ``width`` columns, what would change it, its limit
        and what it rests on. The question, the table with its legend and further commands are left out."""
        yield from self.best
        yield from self._grounds(width)

    def head(self, width: int) -> Iterator[str]:
        """Yield the lines above the table, wrapped to ``width`` columns: the question, then the answer and what it
        means, indented by nine columns, with the label ``BEST`` before the first."""
        yield from wrap(self.question, width)
        yield from labelled("BEST", [line for text in self.best for line in wrap(text, width - INDENT)])

    def foot(self, width: int) -> Iterator[str]:
        """Yield the lines beneath the table, wrapped to ``width`` columns: the legend and, as ``12 more: --all``, how
        many rows are left out and the option that shows them; then with a label before each what would change the
        answer (``What if``), its limit (``Limit``), what it rests on (``Rests on``), and options that say more
        (``More``). Empty parts are left out."""
        left_out = f"{self.hidden:,} more: {self.everything}" if self.hidden else ""
        if self.legend or left_out:
            yield from pack(filter(None, (self.legend, left_out)), width)
        yield from self._grounds(width)
        yield from labelled("More", pack(self.more, width - INDENT))

    def _grounds(self, width: int) -> Iterator[str]:
        """Yield the lines, wrapped to ``width`` columns, on what would change the answer, its limit and what it rests
        on, labelled ``What if``, ``Limit`` and ``Rests on``; empty parts are left out."""
        yield from labelled("What if", pack(self.what_if, width - INDENT))
        yield from labelled("Limit", wrap(self.limit, width - INDENT))
        yield from labelled("Rests on", wrap(self.rests, width - INDENT))


def labelled(label: str, lines: Iterator[str] | Sequence[str]) -> Iterator[str]:
    """Yield lines indented by nine columns (:data:`INDENT`), with ``label``, of at most eight characters, in the
    indentation of the first; nothing if there are no lines."""
    for number, line in enumerate(lines):
        yield f"{label if not number else '':{INDENT}}{line}"


def pack(items: Iterator[str] | Sequence[str], width: int) -> Iterator[str]:
    """Yield lines of at most ``width`` columns that hold the items in their order, as many on a line as fit, with four
    blanks between them; an item that is longer than a line is wrapped at its blanks."""
    line = ""
    for item in items:
        if line and len(line) + len(_BETWEEN) + len(item) > width:
            yield line
            line = ""
        line = f"{line}{_BETWEEN}{item}" if line else item
        if len(line) > width:
            *full, line = wrap(item, width)
            yield from full
    if line:
        yield line
