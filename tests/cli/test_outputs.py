"""Files that a command is to write are refused before its work where their folder does not exist."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lightloom.app.cli.main import COMMANDS, load_command
from lightloom.photonics.averaging.construct import build
from lightloom.photonics.averaging.networks import FunctionArguments, save_network
from tests.cli.commands import assert_refused, lightloom

READ = {"exchange_profile", "space", "data", "calibration", "collectives", "profile", "gradients", "phases", "like"}
READ |= {"traffic", "before", "after", "schedule", "experiment", "rows", "source", "network", "settings"}
OWNED = {"design folder", "sweep out", "reproduce work", "exchange compare folder", "onn train folder"}
"""Folders that hold a run of the program, which creates them."""

_RING = ["--fabric", "ring", "--ranks", "4"]
_BUILD = ["--servers", "2", "--bits", "4"]
GIVEN: dict[str, list[str]] = {
    "plan": ["hdc"],
    "collective": ["all-reduce", *_RING, "--nbytes", "1MB"],
    "circuits": ["traffic.csv", *_RING[:2]],
    "compare": ["before.json", "after.json"],
    "design": ["hdc", "--ranks", "4"],
    "accuracy": ["rows.csv"],
    "calibrate": ["rows.csv"],
    "compress profile": ["hdc"],
    "compress file": ["values.npy"],
    "onn build": _BUILD,
    "onn train": _BUILD,
    **{f"onn {name}": ["net.npz"] for name in ("map", "link")},
    "schedule": ["schedule.json"],
}
ENDINGS = {
    "figure": ".png",
    "chain": ".png",
    "export": ".json",
    "gds": ".gds",
    "netlist": ".json",
    "collective out": ".json",
    "schedule out": ".json",
    "onn build out": ".npz",
    "onn train out": ".npz",
    "onn map out": ".json",
}


def _commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """All commands below one, with the words that call them."""
    entries = getattr(command, "entries", {})
    for word, inner in getattr(command, "commands", {}).items():
        yield from _commands(load_command(word, entries[word]) if word in entries else inner, f"{name} {word}")
    if not hasattr(command, "commands"):
        yield name, command


def _outputs() -> Iterator[tuple[str, Any]]:
    """Every parameter that is a path, unless it is read or is a folder that the program owns."""
    for word, entry in COMMANDS.items():
        for name, command in _commands(load_command(word, entry), word):
            for parameter in command.params:
                path = "Path" in str(parameter.type_descriptor.annotation)
                if path and parameter.name not in READ and f"{name} {parameter.name}" not in OWNED:
                    yield name, parameter


OUTPUTS = {f"{name} {parameter.name}": (name, parameter) for name, parameter in _outputs()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network and values, which commands read before they know that they may write."""
    place = tmp_path_factory.mktemp("outputs")
    save_network(place / "net.npz", build(2, 4).network, FunctionArguments(servers=2, bits=4))
    np.save(place / "values.npy", np.ones(4, np.float32))
    return place


@pytest.mark.parametrize("output", OUTPUTS)
def test_no_output_creates_the_folder_that_is_to_hold_it(output: str, folder: Path) -> None:
    command, parameter = OUTPUTS[output]
    ending = ENDINGS.get(output, ENDINGS.get(parameter.name, ".html"))
    path = folder / "a new" / "place" / f"x{ending}"
    option = parameter.opts[0] if parameter.opts[0].startswith("-") else None
    given = [*GIVEN.get(command, []), *([option] if option else []), str(path)]
    if command.startswith("schedule"):
        given += _RING
    done = lightloom(*command.split(), *given, folder=folder)
    assert_refused(done, f"cannot write '{path}': there is no folder '{path.parent}': make it with mkdir -p ")
    assert f"'{path.parent}'" in done.err.partition("mkdir")[2]
    assert not path.parent.parent.exists()


def test_outputs_are_listed_from_the_commands() -> None:
    assert len(OUTPUTS) >= 31 and {name for name, _ in OUTPUTS.values()} >= set(GIVEN)
