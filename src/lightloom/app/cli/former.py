"""Spellings of 0.2 that still work in this release, each with one line of warning that names the new one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from lightloom.core.errors import InputError


class Former(NamedTuple):
    """A command of a former name, or with options of former names."""

    command: str
    """The command's words today, with options that it then always has."""
    options: Mapping[str, str] = MappingProxyType({})
    """New spelling by the former option; ``{}`` stands for the value, of an option that takes one, and ``{--kill}`` for
    all values of another former option, joined by commas. One that begins with a backquote is what to call instead,
    as no spelling does the same."""
    defaults: Mapping[str, str] = MappingProxyType({})
    """What stands in the place of a former option, or of all arguments (""), that is not given."""
    arguments: Sequence[str] = ()
    """New spelling of each argument; ``{}`` stands for it."""


_TABLE = """
onn build => onn build
  --set: nonlinearity inputs rounding word-errors tuples evaluations seed
  --carries-decimals => --set carries_decimals=true
onn train => onn train
  --set: phase-error coupler-error loss dac-bits form approximated aware-from noise nonlinearity rounding cpu-seconds
  --set: epochs batch gradient-epochs gradient-loss threads device widths depths
onn verify => onn build
  --set: samples evaluations
onn map => onn map
  --set: form mesh gains
  --components => --set components=true
  --whole => --set components=false
  --like => {}
  --layer => --set layer={}
onn disturb => onn map --study disturb
  --set: phase-error coupler-error loss dac-bits loss-spread heater-spread crosstalk detector-noise samples data
  --set: iterations folder form mesh gains
  --correct => --set correct=true
  --uncalibrated => --set uncalibrated=true
  --train => --study train
  --components => --set components=true
  --whole => --set components=false
onn chip => onn map --study chip
  --set: form mesh gains pitch
  --components => --set components=true
  --whole => --set components=false
  --gds => --out {}
onn calibrate => onn map --study calibrate
  --set: phase-error coupler-error loss dac-bits loss-spread heater-spread crosstalk modes chips power-noise
  --set: output-orders drift aging form mesh gains
  --settings => --set measured_settings={}
  --unknown-offsets => --set unknown_offsets=true
  --components => --set components=true
  --whole => --set components=false
onn compare-reducers => onn build --reducers
  --set: word-errors pair draws
onn link => onn link
  --set: full-scale path-loss modulation rin phase-lock power-error polarisation skew gain noise-figure bandwidth
  --set: local-oscillator responsivity noise-density detector-bandwidth unit swing bias-error gain-error
  --set: threshold-error calibration phase-error coupler-error loss loss-spread crossing-loss crosstalk dac-bits words
  --set: form mesh gains
  --ideal => --set ideal=true
  --rate-only => --set parts=false
  --components => --set components=true
  --whole => --set components=false
plan => plan
  --site: pue electricity amortisation maintenance board-price host-power host-price fabric-price
  --pin: micro-batches micro-batch virtual-stages recompute sharding quantum
  --sequence-parallel => --pin sequence_parallel=yes
  --no-sequence-parallel => --pin sequence_parallel=no
  --overlap => --pin overlap=yes
  --no-overlap => --pin overlap=no
  --latency-sensitivity => --explain
  --pictures => --figure {}
  --export-graph --export-torchtitan --export-megatron --export-chakra => --export {}
collective => collective
  --site: pue electricity amortisation maintenance
  --set: wavelengths
damage => collective
  --set: wavelengths
  --kill => --without {}
  --together => --without {--kill}
  --late => --straggler late={}
  --slow => --straggler slow={}
  without --fabric => --fabric wdm-ring
  without --slow => --straggler slow=1
schedule export => collective | {} | --out {}
  without --algorithm => --algorithm synthesized
schedule import => schedule | {} | --out {}
schedule check => schedule
execute => schedule --execute
  --set: dtype rounds seed timeout
  --algorithm => `lightloom collective KIND --algorithm NAME --out FILE`, then `schedule FILE --execute`
circuits => circuits
  --set: hold reconfiguration
design => design
  --site: pue electricity amortisation maintenance board-price host-power host-price
  --jobs => --workers {}
  --dask => --workers dask:{}
  --ray => --workers ray:{}
  --no-prune => --set prune=false
  --budget-dollars => --budget dollars={}
  --budget-watts => --budget watts={}
sweep => sweep
  --jobs => --workers {}
  --dask => --workers dask:{}
  --ray => --workers ray:{}
budget => budget
  --set: wavelengths taps
goodput => goodput
  --set: rates interruption-time restart interval spares repair node-ranks remedy spare-channels damage-slowdown
  --set: communication node-price spare-price months runs block host-availability weibull crews
  --mtbf => --set mtbf.{}
  --recovery => --set recovery.{}
  --checkpoint => --set stall={} --set save={}
  --rack => --set rack.nodes={} --set rack.mtbf={}
compress profile => compress profile
  --set: steps learning-rate sums data
compress decompress => compress file
exchange compare => exchange compare
  --set: steps link data folder
  --method => --exchange {}
  --evidence => --out {}
exchange break-even => exchange break-even
  --set: batch cluster engine
accuracy => accuracy
  --cross-validate --transport => --calibration {}
calibrate => calibrate
  --collectives --profile => {}
  -o => --out {}
exchange list => catalog exchanges --all
exchange show => catalog
  --values => --model {}
schema => catalog --schema
  without => cluster
"""
"""Former spelling => today's. A line of a command has its words, and the spelling of each argument behind a bar; the
lines below it have its options. ``--set: a b`` stands for ``--a => --set a={}`` and ``--b => --set b={}``, and
``without --a`` for an option, or for all arguments, that is not given."""


def _read(table: str) -> dict[str, Former]:
    """Return the former commands of the table by their words."""
    commands: dict[str, Former] = {}
    for line in table.strip().splitlines():
        former, arrow, new = line.strip().partition(" => ")
        if not line.startswith(" "):
            command, *arguments = new.split(" | ")
            options, defaults = dict[str, str](), dict[str, str]()
            commands[former] = Former(command, options, defaults, arguments)
        elif not arrow:
            option, *names = former.split()
            options |= {f"--{name}": f"{option[:-1]} {name.replace('-', '_')}={{}}" for name in names}
        elif former.startswith("without"):
            defaults[former.removeprefix("without").strip()] = new
        else:
            options |= dict.fromkeys(former.split(), new)
    return commands


COMMANDS = _read(_TABLE)
"""Former spellings by the words of the command as they are written."""


def _spelt(new: str, value: str) -> list[tuple[str, str]]:
    """Return the words of a new spelling, each with its value; the two parts of a value are those of two options."""
    parts = value.split(",") if new.count("{}") > 1 else [value] * len(new)
    return [(word, parts[place // 2]) for place, word in enumerate(new.split()) if place // 2 < len(parts)]


def renewed(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the arguments of the program in today's spelling, and a line of warning for each that was another.

    Texts after ``--`` and values of options stay as they are.
    """
    words = next((n for n in (2, 1) if " ".join(arguments[:n]) in COMMANDS), 0)
    if not words:
        return list(arguments), []
    name = " ".join(arguments[:words])
    former, rest, warnings = COMMANDS[name], list(arguments[words:]), list[str]()
    result, given, places = [(word, "") for word in former.command.split()], dict[str, list[str]](), [*former.arguments]
    last = list[tuple[str, str]]()
    if former.command != name:
        warnings.append(f"`{name}` is spelt `{former.command}` now")
    while rest:
        text = rest.pop(0)
        if text == "--":
            result += [("{}", word) for word in (text, *rest)]
            break
        option, equals, value = text.partition("=")
        new = former.options.get(option)
        if new is None and text.startswith("-"):
            has_value = places and rest and not equals and text not in ("--json", "--help", "-h")
            result += [("{}", word) for word in (text, *([rest.pop(0)] if has_value else []))]
            given[option] = []
        elif new is None:
            result += [(word, text) for word in (places.pop(0) if places else "{}").split()]
            given[""] = []
        elif new.startswith("`"):
            raise InputError(f"{name} {option} is gone: expected {new}")
        else:
            if "{}" in new and not equals:
                value = rest.pop(0) if rest else ""
            given.setdefault(option, []).append(value)
            (last if "{--" in new else result).extend(_spelt(new, value))
            warnings.append(f"{option} is spelt `{re.sub('{.*?}', '...', new)}` now")
    result += last + [
        (word, "") for option, new in former.defaults.items() if option not in given for word in new.split()
    ]
    values = dict.fromkeys(former.options, "") | {option: ",".join(texts) for option, texts in given.items()}
    return [word.format(value, **values) for word, value in result], list(dict.fromkeys(warnings))
