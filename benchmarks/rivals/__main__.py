"""Collectives of other tools beside ours, all verified and timed alike.

    python -m benchmarks.rivals --tacos FOLDER --forestcoll FOLDER --programs FOLDER [--json FILE]

TACOS, ForestColl   folders with their sources, which are compiled or imported from there
programs            <GPUs>/NAME.xml, programs of the MSCCL family for that number of GPUs in nodes of 8
breadth first       is rebuilt here (:mod:`benchmarks.rivals.breadth_first`)

Prints the tables of docs/collectives/rivals.md: times over the proved lower bound, set-up left out of both.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import NamedTuple

import lightloom as ll
from benchmarks.rivals.breadth_first import breadth_first
from benchmarks.rivals.fabrics import Case, cases
from benchmarks.rivals.forestcoll import between_ranks, forestcoll, through_switches
from benchmarks.rivals.spread import Spread, fastest
from benchmarks.rivals.tacos import tacos
from benchmarks.support.measure import exit_clearly
from lightloom.collectives.bounds.lower_bound import lower_bound
from lightloom.collectives.collective import Collective, Kind
from lightloom.collectives.cost.stepped import cost
from lightloom.collectives.files.msccl.read import read_program
from lightloom.collectives.schedule.build import without_barriers
from lightloom.collectives.verify.verifier import verify
from lightloom.core.errors import InputError, UnsupportedError, VerificationError
from lightloom.core.files import write_atomically
from lightloom.core.results import provenance

SHARES = (1e3, 1e5, 1e7)
"""Bytes of one rank."""
_NODE = 8
_TACOS_PIECES, _TACOS_SEEDS = (1, 2, 4), 3
_BREADTH_PIECES = (1, 2, 4)
_VISIBLE = 5e-4
"""Ratio by which a maker is called faster than ours."""
_TREES = (1, 2)
"""Trees for each rank on graphs, where as many as the greatest throughput needs take hours."""


class Row(NamedTuple):
    """One maker of schedules on one fabric."""

    case: str
    kind: Kind
    maker: str
    ratio: tuple[float, ...]
    """Time over bound for each of :data:`SHARES`."""
    cpu_s: float | None
    """To make the schedules of all sizes; None where they were read from files."""


def rows(options: argparse.Namespace) -> Iterator[Row]:
    """All rows, one fabric after the other."""
    for case in cases():
        kinds: tuple[Kind, ...] = ("all-gather",) if case.fabric.exclusive else ("all-gather", "all-reduce")
        spreads = list(_spreads(case, options))
        for kind in kinds if case.links is not None else (*kinds, "all-to-all"):
            wanted = [Collective(kind, case.fabric.ranks, share * case.fabric.ranks) for share in SHARES]
            yield _ours(case, kind, wanted)
            if kind != "all-to-all":
                for maker, candidates in spreads:
                    least = tuple(
                        min(_ratio(fastest(spread, each, case), each, case) for spread in candidates[at])
                        for at, each in enumerate(wanted)
                    )
                    distinct = {id(spread): spread.cpu_s for some in candidates for spread in some}
                    yield Row(case.name, kind, maker, least, sum(distinct.values()))
            if case.links is None and options.programs:
                yield from _programs(case, kind, wanted, options.programs / str(case.fabric.ranks))


def _spreads(case: Case, options: argparse.Namespace) -> Iterator[tuple[str, list[list[Spread]]]]:
    """Each maker's all-gathers for each of the sizes."""
    ranks, links = case.fabric.ranks, case.links
    if links is not None and options.tacos:
        yield (
            f"TACOS, best of {len(_TACOS_PIECES) * _TACOS_SEEDS}",
            [
                [
                    tacos(options.tacos, links, ranks, share, n, seed)
                    for n in _TACOS_PIECES
                    for seed in range(_TACOS_SEEDS)
                ]
                for share in SHARES
            ],
        )
    if options.forestcoll:
        if links is not None:
            trees = [forestcoll(options.forestcoll, between_ranks(links), ranks, n) for n in _TREES]
        else:
            # 12 NVLinks of 20 GB/s reached, and a port of 200 Gb/s of which 97 % are reached: in units of 0.25 GB/s.
            trees = [forestcoll(options.forestcoll, through_switches(ranks, _NODE, 960, 97), ranks, 1)]
        yield "ForestColl", [trees for _ in SHARES]
    if links is not None:
        same = [breadth_first(links, ranks, n) for n in _BREADTH_PIECES]
        yield "breadth first", [same for _ in SHARES]


def _ours(case: Case, kind: Kind, wanted: list[Collective]) -> Row:
    begun = time.process_time()
    times = [ll.synthesize(kind, case.fabric, nbytes=each.nbytes).cost.time for each in wanted]
    spent = time.process_time() - begun
    ratios = tuple(_ratio(seconds, each, case) for seconds, each in zip(times, wanted, strict=True))
    return Row(case.name, kind, "**synthesized**", ratios, spent)


def _programs(case: Case, kind: Kind, wanted: list[Collective], folder: Path) -> Iterator[Row]:
    for path in sorted(folder.glob("*.xml")):
        ratios: list[float] = []
        for each in wanted:
            try:
                schedule = read_program(path, case.fabric, each.nbytes)
            except InputError as error:
                print(f"{path.name}: {error}", file=sys.stderr)
                break
            if schedule.collective.kind != kind:
                break
            times = [cost(schedule, case.fabric).time]
            try:
                queued = without_barriers(schedule, case.fabric)
                verify(queued, case.fabric)
                times.append(cost(queued, case.fabric).time)
            except (UnsupportedError, VerificationError):
                pass  # Sums that wait for a part of what they add need their steps.
            ratios.append(_ratio(min(times), each, case))
        else:
            yield Row(case.name, kind, f"MSCCL {path.stem}", tuple(ratios), None)


def _ratio(seconds: float, wanted: Collective, case: Case) -> float:
    return (seconds - case.set_up) / (lower_bound(wanted, case.fabric).time - case.set_up)


def table(found: list[Row]) -> Iterator[str]:
    """Markdown, a table for each fabric and kind; rivals that beat ours at a size are marked."""
    for case, kind in dict.fromkeys((row.case, row.kind) for row in found):
        some = [row for row in found if (row.case, row.kind) == (case, kind)]
        sizes = " | ".join(f"{share / 1e3:,.0f} kB" for share in SHARES)
        yield f"\n### {kind}, {case}\n\n| made by | {sizes} | CPU s |\n| --- | {'---: | ' * (len(SHARES) + 1)}".rstrip()
        for row in some:
            cells = [
                f"{ratio:.3f}" + (" faster" if ratio < ours - _VISIBLE else "")
                for ratio, ours in zip(row.ratio, some[0].ratio, strict=True)
            ]
            yield f"| {row.maker} | {' | '.join(cells)} | {'' if row.cpu_s is None else f'{row.cpu_s:.1f}'} |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rivals", description=__doc__.partition("\n")[0])
    parser.add_argument("--tacos", type=Path, help="folder with the sources of TACOS")
    parser.add_argument("--forestcoll", type=Path, help="folder with the sources of ForestColl")
    parser.add_argument("--programs", type=Path, help="folder with <GPUs>/NAME.xml")
    parser.add_argument("--json", type=Path, help="also write the rows here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as cache:
        os.environ["LIGHTLOOM_CACHE"] = cache  # schedules that were found before would cost nothing
        for kind, fabric in product(("all-gather", "all-reduce"), ("mesh", "circuit-switch", "dgx-a100")):
            ll.synthesize(kind, fabric, 16, nbytes=1e6)  # so that no kernel is compiled while CPU seconds are counted
        found = list(rows(options))
    print("\n".join(table(found)))
    if options.json:
        inputs = {"shares": SHARES, "cases": [case.name for case in cases()]}
        document = {"provenance": provenance(inputs), **inputs, "rows": [row._asdict() for row in found]}
        write_atomically(options.json, json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(exit_clearly(main))
