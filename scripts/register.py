"""Registers of papers: what they lack, entries drawn at random, and the counts that the pages state.

    python -m scripts.register optree                  # what does not fit between the register and the text
    python -m scripts.register --draw 40 --seed HASH   # entries of all papers, each with its line of the text
    python -m scripts.register --write                 # run the studies (or one) and write their counts into the pages

The papers' texts lie in ``$LIGHTLOOM_PAPERS``, or in ``papers`` beside ``$LIGHTLOOM_DATA``.
"""

import os
import re
import sys
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import chain
from pathlib import Path
from random import Random
from textwrap import fill, shorten

from lightloom.core.claims import STATUSES
from lightloom.papers.register import Register, Value
from lightloom.papers.study import STUDIES, names

ROOT = Path(__file__).parents[1]
COUNTS = re.compile(r"\*\*([^*]*(?:of \d+ rows|findings\s+of\s+ours))\*\*")
"""The counts on the page of a study."""
Place = tuple[int, int]
"""Line of the text and ordinal of the numeral in it, both from 1."""
_NUMERAL = re.compile(r"(?<![A-Za-z_\d])\d+(?:,\d{3})*(?:\.\d+)?")
_PART = r"\(?\d+(?:\.\d+)*\)?(?:\s?\([a-z]\)|[a-z]\b)?"
_REFERENCE = re.compile(
    r"\[\s*\d+(?:\s*[,–-]\s*\d+)*\s*\]"
    r"|(?:figs?\.?|figures?|tables?|sections?|secs?\.?|eqs?\.?|equations?|algorithms?|theorems?|lemmas?|appendix"
    rf"|appendices|§)\s*~?{_PART}(?:(?:\s*,\s*|\s*,?\s*(?:and|to|or)\s+|\s*[–-]\s*){_PART})*",
    re.IGNORECASE,
)
"""Citations, and the numbers of figures, tables, sections, equations, algorithms, theorems and appendices."""


def numerals(text: str) -> dict[Place, re.Match[str]]:
    """Return the numerals of a text, each as it was found in its line."""
    return {
        (line, ordinal): match
        for line, words in enumerate(text.split("\n"), start=1)
        for ordinal, match in enumerate(_NUMERAL.finditer(words), start=1)
    }


def faults(register: Register, data: bytes) -> Iterator[str]:
    """Yield what does not fit between a register and its paper's text, a line each: numerals that nothing claims or
    that are claimed twice, places without one, values that differ."""
    if sha256(data).hexdigest() != register.sha256:
        yield f"{register.text}: another text than the register's"
    found = numerals(data.decode())
    claimed = Counter[Place]()
    for skipped in chain.from_iterable(register.skipped.values()):
        claimed.update(_expand(skipped, found, whole=True))
    for entry in register.entries:
        places = [each for place in entry.at for each in _expand(place, found, whole=False)]
        claimed.update(places)
        values: Sequence[Value] = entry.values or [entry.value] * len(places)
        if not entry.printed and len(values) == len(places):
            for place, value in zip(places, values, strict=True):
                if place in found and not _equals(found[place].group(), value):
                    yield f"{place[0]}.{place[1]}: {found[place].group()} is printed, not {value}"
        elif not entry.printed:
            yield f"{entry.at[0]}: {len(values)} values for {len(places)} numerals"
    for line, ordinal in sorted(claimed):
        if (line, ordinal) not in found:
            yield f"{line}.{ordinal}: no numeral"
        elif claimed[line, ordinal] > 1:
            yield f"{line}.{ordinal}: claimed twice"
    for line, ordinal in sorted(found.keys() - claimed.keys()):
        numeral = found[line, ordinal]
        if not any(each.start() <= numeral.start() < each.end() for each in _REFERENCE.finditer(numeral.string)):
            yield f"{line}.{ordinal}: unclaimed {numeral.group()} in {around(numeral)!r}"


def around(numeral: re.Match[str]) -> str:
    """Return a numeral with what stands around it in its line."""
    return numeral.string[max(numeral.start() - 80, 0) : numeral.end() + 80]


def _expand(place: object, found: Iterable[Place], *, whole: bool) -> list[Place]:
    """Return the numerals of a place; a single line has none unless it is ``whole``."""
    line, _, ordinal = str(place).partition(".")
    first, _, last = (ordinal or line).partition("-")
    within = range(int(first), int(last or first) + 1)
    if ordinal:
        return [(int(line), each) for each in within]
    return [each for each in found if each[0] in within] if whole or last else []


def _equals(numeral: str, value: Value) -> bool:
    """Return True if a value is the numeral's, but for its sign."""
    try:
        return value is not None and abs(float(value)) == float(numeral.replace(",", ""))
    except ValueError:
        return False


def texts() -> Path | None:
    """Return the folder of the papers' texts; None if no variable names one."""
    if "LIGHTLOOM_PAPERS" in os.environ:
        return Path(os.environ["LIGHTLOOM_PAPERS"])
    return Path(os.environ["LIGHTLOOM_DATA"]).parent / "papers" if "LIGHTLOOM_DATA" in os.environ else None


def registers(studies: Sequence[str]) -> dict[str, Register]:
    """Return the registers of those studies that have one."""
    return {name: register for name in studies if (register := Register.load(name))}


def drawn(number: int, seed: str, folder: Path) -> Iterator[str]:
    """Yield entries of all registers, drawn by the seed, each with what settles it and its line of the text."""
    every = [(name, register, entry) for name, register in registers(names()).items() for entry in register.entries]
    for name, register, entry in Random(seed).sample(every, number):
        text = (folder / register.text).read_text(encoding="utf-8")
        line, _, ordinal = str(entry.at[0]).partition("-")[0].partition(".")
        found = numerals(text).get((int(line), int(ordinal or 1)))
        quoted = around(found) if found and ordinal else shorten(text.split("\n")[int(line) - 1], 200)
        settled = ", ".join(entry.names) or f"{entry.settled}: {entry.why}"
        value = entry.printed or entry.value or entry.values or ""
        yield f"{name} {entry.at[0]}, {entry.where}: {entry.what} {value} {entry.unit} [{settled}]\n    {quoted}"


def stated(name: str) -> str:
    """Return the counts that the page of a study states."""
    found = COUNTS.search((ROOT / "docs" / "papers" / f"{name}.md").read_text())
    return " ".join(found[1].split()) if found else ""


def sums() -> list[tuple[Path, str, str]]:
    """Return (file, pattern, text) of what follows from the counts on the pages: README's sentence, and a row of the
    table of statuses for each study."""
    counted = {name: stated(name) for name in names()}
    total = {
        what: sum(int(count) for words in counted.values() for count in re.findall(rf"(\d+) {what}", words))
        for what in (*STATUSES, "printed numbers", "findings")
    }
    proves_nothing = total["derived"] + total["by construction"]
    sentence = (
        "* **Papers are reproduced as they are**, deviations included and explained. Of "
        f"{total['printed numbers']} printed numbers {total['match']} match, {total['stand-in']} hold in another "
        f"experiment, {proves_nothing} are inputs or follow from the papers' own figures and prove nothing, "
        f"{total['deviates']} deviate and {total['not reproducible']} cannot be compared; {total['findings']} findings "
        "are ours ([what that means](docs/papers/statuses.md))."
    )
    readme = (
        ROOT / "README.md",
        r"\* \*\*Papers are reproduced as they are\*\*.*?\)\.\n",
        fill(sentence, 128, subsequent_indent="  ") + "\n",
    )
    page = ROOT / "docs" / "papers" / "statuses.md"
    rows = [(page, rf"\({name}\.md\) \|[^|]*\|", f"({name}.md) | {words} |") for name, words in counted.items()]
    return [readme, *rows]


def write(studies: Sequence[str]) -> None:
    """Run studies, and write their counts into their pages, then what follows from those of all pages."""
    for name in studies:
        page, words = ROOT / "docs" / "papers" / f"{name}.md", STUDIES[name]().counts()
        sys.stdout.write(f"{name}: {words}\n")
        page.write_text(COUNTS.sub(f"**{words}**", page.read_text(), count=1))
    for path, pattern, text in sums():
        path.write_text(re.sub(pattern, text, path.read_text(), count=1, flags=re.DOTALL))


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line asks, and return 1 if a register does not fit its text."""
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("study", nargs="?")
    parser.add_argument("--draw", type=int, default=0)
    parser.add_argument("--seed", default="")
    parser.add_argument("--write", action="store_true")
    chosen, folder = parser.parse_args(arguments), texts()
    studies = [chosen.study] if chosen.study else names()
    if chosen.write:
        write(studies)
        return 0
    if folder is None:
        parser.error("no texts: set LIGHTLOOM_PAPERS")
    if chosen.draw:
        sys.stdout.writelines(f"{line}\n" for line in drawn(chosen.draw, chosen.seed, folder))
        return 0
    found = registers(studies)
    wrong = [(name, fault) for name, each in found.items() for fault in faults(each, (folder / each.text).read_bytes())]
    sys.stdout.writelines(f"{name}: {fault}\n" for name, fault in wrong)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
