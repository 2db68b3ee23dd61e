"""Are wrong MSCCL programs refused, and only those? Exported programs with one change each.

    python -m benchmarks.interchange.msccl_mutants [--mutants 500] [--seed 1]

Each mutant is an exported program in which one step is dropped, swapped with another of its threadblock, given another
type, or redirected to another chunk, buffer, peer, channel, count or dependency. An interpreter that shares no code
with lightloom (:mod:`benchmarks.interchange.msccl_interpreter`) says which mutants are wrong; ``lightloom schedule``
must refuse those and no other. Exits 1 if the two disagree.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.interchange.msccl_interpreter import verdict
from lightloom.collectives.collective import Collective, Kind
from lightloom.collectives.files.msccl.program import to_xml
from lightloom.collectives.files.msccl.read import check_program
from lightloom.collectives.files.msccl.write import program_of
from lightloom.collectives.registry import build, find
from lightloom.core.errors import InputError
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.switches import PacketSwitch
from lightloom.machines.fabrics.wdm_ring import WdmRing

_PROGRAMS: tuple[tuple[str, Kind, int, bool], ...] = (
    ("ring", "all-reduce", 4, False),
    ("recursive-doubling", "all-reduce", 8, False),
    ("binomial-tree", "all-reduce", 6, False),
    ("ring-two-way", "all-gather", 5, False),
    ("ring", "reduce-scatter", 4, False),
    ("one-stage", "all-gather", 4, False),
    ("one-stage", "all-to-all", 4, False),
    ("synthesized", "all-to-all", 5, True),
    ("synthesized", "all-reduce", 5, True),
)
"""Algorithm, collective, ranks, and whether on a ring: the chunks of an all-to-all then pass through scratch."""
_KINDS = ("drop", "swap", "retype", "redirect")
_TYPES = ("s", "r", "rrc", "rcs", "rrs", "rrcs", "cpy", "re", "nop")


class Mutant(NamedTuple):
    """A changed program, what was changed, and whether each side calls it wrong."""

    program: str
    change: str
    wrong: str | None
    refused: str | None


def programs() -> list[str]:
    """The exported programs as XML."""
    texts = []
    for name, kind, ranks, ring in _PROGRAMS:
        fabric: Fabric = PacketSwitch(ranks=ranks)
        if ring:
            fabric = WdmRing(ranks=ranks, wavelengths=1, wavelength_bandwidth=5e9, conversion_time=1e-6)
        texts.append(to_xml(program_of(build(find(name), Collective(kind, ranks, 1e6), fabric), fabric)))
    return texts


def mutants(count: int, seed: int) -> Iterator[Mutant]:
    """Yield mutants, the four kinds of change and all programs in turn."""
    chance, texts = random.Random(seed), programs()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "mutant.xml")
        for number in range(count):
            original = text = ET.tostring(ET.fromstring(texts[number % len(texts)]), encoding="unicode")
            while text == original:
                root = ET.fromstring(original)
                change = _changed(root, _KINDS[number // len(texts) % len(_KINDS)], chance)
                text = ET.tostring(root, encoding="unicode")
            path.write_text(text)
            try:
                refused = None if check_program(path) else ""
            except InputError as error:
                refused = str(error).removeprefix(str(path))
            yield Mutant(root.attrib["name"], change, verdict(text), refused)


def _changed(root: ET.Element, kind: str, chance: random.Random) -> str:
    least = 2 if kind == "swap" else 1
    blocks = [block for gpu in root for block in gpu if len(block) >= least]
    if not blocks:
        return _changed(root, "retype", chance)
    block = chance.choice(blocks)
    at = chance.randrange(len(block))
    step = block[at]
    if kind == "drop":
        block.remove(step)
        _renumber(root, block, at)
    elif kind == "swap":
        other = block[chance.randrange(len(block))]
        for name in set(step.attrib) - {"s"}:
            step.attrib[name], other.attrib[name] = other.attrib[name], step.attrib[name]
    elif kind == "retype":
        step.attrib["type"] = chance.choice([name for name in _TYPES if name != step.attrib["type"]])
    else:
        return f"redirect {_redirect(root, block, step, chance)}"
    return kind


def _renumber(root: ET.Element, block: ET.Element, dropped: int) -> None:
    """Number the steps after a dropped one anew, also where others wait for them."""
    for number, step in enumerate(block):
        step.attrib["s"] = str(number)
    gpu = next(gpu for gpu in root if block in list(gpu))
    for other in gpu.iter("step"):
        if other.attrib["depid"] == block.attrib["id"] and int(other.attrib["deps"]) > dropped:
            other.attrib["deps"] = str(int(other.attrib["deps"]) - 1)


def _redirect(root: ET.Element, block: ET.Element, step: ET.Element, chance: random.Random) -> str:
    what = chance.choice(["srcoff", "dstoff", "srcbuf", "dstbuf", "peer", "chan", "cnt", "depends", "hasdep"])
    if what in ("srcoff", "dstoff"):
        step.attrib[what] = str(chance.randrange(int(root.attrib["nchunksperloop"])))
    elif what in ("srcbuf", "dstbuf"):
        step.attrib[what] = chance.choice("ios")
    elif what == "peer":
        name = "send" if int(block.attrib["send"]) >= 0 else "recv"
        block.attrib[name] = str(chance.randrange(len(root)))
    elif what == "chan":
        block.attrib["chan"] = str(chance.randrange(int(root.attrib["nchannels"]) + 1))
    elif what == "cnt":
        step.attrib["cnt"] = chance.choice(["0", "1", "2"])
    elif what == "hasdep":
        step.attrib["hasdep"] = chance.choice("01")
    elif chance.random() < 0.5:
        step.attrib |= {"depid": "-1", "deps": "-1"}
    else:
        step.attrib |= {"depid": str(chance.randrange(4)), "deps": str(chance.randrange(4))}
    return what


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mutants", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    counts: dict[str, Counter[str]] = {kind: Counter() for kind in _KINDS}
    disagreements = []
    for mutant in mutants(options.mutants, options.seed):
        kind = mutant.change.split()[0]
        counts[kind]["mutants"] += 1
        counts[kind]["wrong" if mutant.wrong is not None else "right"] += 1
        counts[kind]["refused" if mutant.refused is not None else "accepted"] += 1
        if (mutant.wrong is None) != (mutant.refused is None):
            disagreements.append(mutant)
    columns = ("mutants", "wrong", "refused", "right", "accepted")
    print("| change | " + " | ".join(columns) + " |\n| --- |" + " ---: |" * len(columns))
    for kind, row in counts.items():
        print(f"| {kind} | " + " | ".join(str(row[column]) for column in columns) + " |")
    for mutant in disagreements:
        print(f"{mutant.program}, {mutant.change}: wrong: {mutant.wrong}; refused: {mutant.refused}", file=sys.stderr)
    return bool(disagreements)


if __name__ == "__main__":
    sys.exit(main())
