"""Compute the answers that the page docs/try/index.md holds: plans and collectives on a grid of what may be changed.

    nice python -m scripts.website.answers docs/try/answers.js

Every answer is stored under the command that gives it. Answers that the file has are kept, and it is written after
each new one, so that an interrupted run goes on where it was; ``--anew`` begins from nothing. A grid is offered by the
page as soon as all of its answers are there.
"""

from __future__ import annotations

import argparse
import json
import shlex
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import lightloom as ll
from lightloom.app.cli import collective as collective_command
from lightloom.app.cli.options import read_settings
from lightloom.core.answer import Answer
from lightloom.core.files import write_atomically
from lightloom.planning.search.assumptions import warning_lines
from lightloom.reports.report import light_map

BEGIN, END = "window.lightloom = ", ";\n"
"""Around the JSON document: a script can be loaded where a page that was opened as a file may fetch nothing."""


@dataclass(frozen=True)
class Choice:
    """Something that the reader sets."""

    name: str
    """Label on the page."""
    option: str
    """What the command takes for it, up to the value: ``--batch ``, ``--set fabric.hop_latency=``."""
    levels: tuple[str, ...]
    """Values, as the command takes them."""
    later: tuple[str, ...] = ()
    """Those of the levels that are computed last, and left out where their answers are missing."""

    def offered(self, later: bool) -> list[str]:
        """Return the levels, those that are computed last only if they are wanted."""
        return [level for level in self.levels if later or level not in self.later]


@dataclass(frozen=True)
class Grid:
    """All questions that differ in what the reader sets."""

    subject: str
    """Model or kind of a collective."""
    place: str
    """Cluster or fabric, in words."""
    begin: str
    """Command without what the reader sets."""
    choices: tuple[Choice, ...]

    def commands(self, later: bool) -> Iterator[str]:
        """Yield the command of each question, without the levels that are computed last unless they are wanted."""
        for values in product(*(each.offered(later) for each in self.choices)):
            set_to = (each.option + value for each, value in zip(self.choices, values, strict=True))
            yield " ".join([self.begin, *set_to])

    def to_json(self, answers: Mapping[str, object]) -> dict[str, Any] | None:
        """Return what the page needs to ask the questions that have answers; None where some are missing."""
        for later in (True, False):
            if all(command in answers for command in self.commands(later)):
                choices = [
                    {"name": each.name, "option": each.option, "levels": each.offered(later)} for each in self.choices
                ]
                return {"subject": self.subject, "place": self.place, "begin": self.begin, "choices": choices}
        return None


def _network(bandwidth: str, levels: tuple[str, str, str], setup: tuple[str, ...], *latencies: str) -> list[Choice]:
    """The choices of a network: its bandwidth, the time to set up circuits where it has circuits, its latency."""
    name = "Bandwidth of a wavelength" if "wavelength" in bandwidth else "Bandwidth of a link"
    choices = [Choice(name, f"--set fabric.{bandwidth}=", levels, later=levels[1:2])]
    if setup:
        choices.append(Choice("Set-up time of circuits", "--set fabric.reconfiguration_time=", setup))
    if latencies:
        choices.append(Choice("Latency of a hop", "--set fabric.hop_latency=", latencies, later=latencies[1:]))
    return choices


_CLUSTERS = {
    "16 H100 on OptINC, averaging in light": (
        "--cluster optinc-16",
        _network("bandwidth", ("100Gbps", "800Gbps", "6.4Tbps"), (), "5ns", "500ns"),
    ),
    "4 Titan Xp on Ethernet": (
        "--cluster inceptionn-4",
        _network("bandwidth", ("10Gbps", "25Gbps", "100Gbps"), (), "500ns", "10us"),
    ),
    "16 A100 on TeraRack's WDM rings": (
        "--cluster terarack-64 --ranks 16",
        _network("wavelength_bandwidth", ("1.25Gbps", "10Gbps", "40Gbps"), ("25us", "1ms"), "5ns", "500ns"),
    ),
    "16 A100 on SiP-ML's optical circuit switches": (
        "--cluster sip-ocs-1024 --ranks 16",
        _network("bandwidth", ("50Gbps", "200Gbps", "400Gbps"), ("20us", "10ms"), "100ns", "1us"),
    ),
    "64 H100 in DGX on InfiniBand rails": (
        "--cluster dgx-h100-64",
        _network("tiers.rail.bandwidth", ("100Gbps", "400Gbps", "800Gbps"), ()),
    ),
}
_MODELS = {"gpt2-355m": ("1", "4"), "resnet50": ("4", "32")}
"""Models with samples of a rank."""


def grids() -> list[Grid]:
    """Return the grids of collectives and of plans, in the order in which they are computed."""
    ring = [
        Choice("Wavelengths", "--set wavelengths=", ("2", "4")),
        Choice("Bandwidth of a wavelength", "--set wavelength_bandwidth=", ("10Gbps", "40Gbps")),
        Choice("Set-up time of circuits", "--set reconfiguration_time=", ("1us", "25us", "1ms"), later=("25us",)),
        Choice("Latency of a hop", "--set hop_latency=", ("5ns", "500ns"), later=("5ns",)),
        Choice("Bytes of a rank", "--nbytes-per-rank ", ("64KB", "1MB", "64MB"), later=("1MB",)),
    ]
    collectives = [
        Grid(kind, "WDM ring of 8 ranks", f"lightloom collective {kind} --fabric wdm-ring --ranks 8", tuple(ring))
        for kind in ("all-gather", "all-reduce", "all-to-all")
    ]
    small, large = list(_CLUSTERS)[:2], list(_CLUSTERS)[2:]
    plans = [
        Grid(
            model,
            place,
            f"lightloom plan {model} {_CLUSTERS[place][0]}",
            (*_CLUSTERS[place][1], Choice("Batch: samples of a rank", "--batch ", batches)),
        )
        for places in (small, large)
        for model, batches in _MODELS.items()
        for place in places
    ]
    return [*collectives[:2], *plans, *collectives[2:]]


def arguments(command: str) -> tuple[str, str, dict[str, Any]]:
    """Return a command's name, its argument, and its options by name; ``set`` is a mapping."""
    _, name, subject, *words = shlex.split(command)
    pairs = list(zip(words[::2], words[1::2], strict=True))
    options: dict[str, Any] = {"set": read_settings([value for option, value in pairs if option == "--set"])}
    for option, value in pairs:
        if option != "--set":
            options[option.removeprefix("--").replace("-", "_")] = int(value) if value.isdigit() else value
    return name, subject, options


def answer(command: str, lights: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the answer of a command in words, and its exact numbers; pictures of schedules are added to ``lights``.

    Raises:
        InputError: as the command says.
    """
    name, subject, options = arguments(command)
    return _plan(subject, options) if name == "plan" else _collective(subject, options, lights)


def _plan(model: str, options: dict[str, Any]) -> dict[str, Any]:
    ranking = ll.plan(model, every_algorithm=False, **options)
    search = ranking.search
    warnings = [*search.graph.uncounted, *warning_lines([ranking.winner.cluster])]
    numbers = {"Time of a step": ranking.winner.step_time, "No network takes less than": ranking.limit}
    numbers["No network takes less than"] *= ranking.winner.step_time
    return _words(ranking.answer(), warnings) | {"seconds": numbers}


def _collective(kind: str, options: dict[str, Any], lights: list[dict[str, Any]]) -> dict[str, Any]:
    fabric, settings = options.pop("fabric"), options.pop("set")
    ranking = ll.collective(kind, fabric, set=settings, **options)
    changed = [f"{field}={value}" for field, value in settings.items()]
    question = f"{ranking.title.partition(', ')[0]} of {', '.join([fabric, *changed])}"
    words: list[Answer] = []

    def keep(question: str, best: list[str], rows: list[dict[str, str]], **rest: Any) -> Iterator[str]:
        del rest["all"]
        words.append(Answer(question=question, best=best, rows=rows, **rest))
        return iter(())

    with patch.object(collective_command, "screen", keep):  # Where the command hands its answer to the terminal.
        list(collective_command._ranking_parts(ranking, question, all=False, explain=False, worth=False))
    winner = ranking.winner
    drawn = []
    for schedule in ranking.families()[: len(words[0].rows)]:
        light = light_map(schedule.schedule, ranking.fabric)
        assert light is not None
        light = {name: light[name] for name in ("title", "ranks", "channels", "steps", "rows")}
        if light not in lights:
            lights.append(light)
        drawn.append(lights.index(light))
    numbers = {"Time": winner.time, "Lower bound": winner.lower_bound.time}
    return _words(words[0], ()) | {"seconds": numbers, "lights": drawn}


def _words(words: Answer, warnings: Iterable[str]) -> dict[str, Any]:
    """The parts of an answer; rows of the table as columns and cells."""
    return {
        "question": words.question,
        "best": list(words.best),
        "columns": list(words.rows[0]),
        "rows": [list(row.values()) for row in words.rows],
        "legend": words.legend,
        "what_if": list(words.what_if),
        "limit": words.limit,
        "rests": words.rests,
        "warnings": list(warnings),
    }


def read(path: Path) -> dict[str, Any]:
    """Return what a file of answers holds; nothing where there is none."""
    if not path.exists():
        return {"grids": [], "lights": [], "answers": {}}
    document: dict[str, Any] = json.loads(path.read_text().removeprefix(BEGIN).removesuffix(END))
    return document


def write(path: Path, document: Mapping[str, Any]) -> None:
    """Write the answers as a script that the page loads, an answer a line."""

    def compact(value: object) -> str:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

    lines = (f"{compact(command)}:{compact(found)}" for command, found in document["answers"].items())
    lights = ",\n".join(map(compact, document["lights"]))
    head = {name: value for name, value in document.items() if name not in ("lights", "answers")}
    text = compact(head)[:-1] + f',"lights":[\n{lights}],"answers":{{\n' + ",\n".join(lines) + "}}"
    write_atomically(path, BEGIN + text + END)


def main() -> None:
    """Compute what is missing, the corners of each grid before what lies between."""
    parser = argparse.ArgumentParser(prog="python -m scripts.website.answers", description=__doc__.split("\n", 1)[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--anew", action="store_true", help="compute all answers again")
    options = parser.parse_args()
    document = {"grids": [], "lights": [], "answers": {}} if options.anew else read(options.file)
    document = {"version": ll.__version__, **document}
    answers, offered = document["answers"], grids()
    for later in (False, True):
        for grid in offered:
            for command in grid.commands(later):
                if command not in answers:
                    began = time.process_time()
                    answers[command] = answer(command, document["lights"])
                    document["grids"] = [each for each in (grid.to_json(answers) for grid in offered) if each]
                    write(options.file, document)
                    print(f"{time.process_time() - began:5.1f} s  {command}", flush=True)


if __name__ == "__main__":
    main()
