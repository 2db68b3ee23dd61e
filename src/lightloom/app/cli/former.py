"""Spellings of 0.2 that still work in this release, each with one line of warning that names the new one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from lightloom.core.errors import InputError

_SITE = ("pue", "electricity", "amortisation", "maintenance", "board-price", "host-power", "host-price", "fabric-price")

_WAVELENGTHS = {"--wavelengths": "--set wavelengths={}"}
_WORKERS = {"--jobs": "--workers {}", "--dask": "--workers dask:{}", "--ray": "--workers ray:{}"}
_GOODPUT = (
    *(
        "rates",
        "interruption-time",
        "restart",
        "interval",
        "spares",
        "repair",
        "node-ranks",
        "remedy",
        "spare-channels",
    ),
    *("damage-slowdown", "communication", "node-price", "spare-price", "months", "runs", "block", "host-availability"),
    *("weibull", "crews"),
)


def _settings(option: str, names: Sequence[str] | str) -> dict[str, str]:
    """Return the new spellings of options that are values of ``option`` now: ``--pue X`` is ``--site pue=X``; a text
    has names between blanks."""
    listed = names.split() if isinstance(names, str) else names
    return {f"--{name}": f"{option} {name.replace('-', '_')}={{}}" for name in listed}


_PLAN = {
    **_settings("--pin", "micro-batches micro-batch virtual-stages recompute sharding quantum"),
    "--sequence-parallel": "--pin sequence_parallel=yes",
    "--no-sequence-parallel": "--pin sequence_parallel=no",
    "--overlap": "--pin overlap=yes",
    "--no-overlap": "--pin overlap=no",
    "--latency-sensitivity": "--explain",
    "--pictures": "--figure {}",
    **dict.fromkeys(("--export-graph", "--export-torchtitan", "--export-megatron", "--export-chakra"), "--export {}"),
}


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


_ERRORS = "phase-error coupler-error loss dac-bits"
_CHIP_ERRORS = f"{_ERRORS} loss-spread heater-spread crosstalk"
_MAPPING = {
    **_settings("--set", "form mesh gains"),
    "--components": "--set components=true",
    "--whole": "--set components=false",
}
_LINK = (
    "full-scale path-loss modulation rin phase-lock power-error polarisation skew gain noise-figure bandwidth "
    "local-oscillator responsivity noise-density detector-bandwidth unit swing bias-error gain-error threshold-error "
    "calibration phase-error coupler-error loss loss-spread crossing-loss crosstalk dac-bits words"
)
_ONN_TRAIN = (
    "form approximated aware-from noise nonlinearity rounding cpu-seconds epochs batch gradient-epochs gradient-loss "
    "threads device widths depths"
)
_ONN = {
    "build": Former(
        "onn build",
        _settings("--set", "nonlinearity inputs rounding word-errors tuples evaluations seed")
        | {"--carries-decimals": "--set carries_decimals=true"},
    ),
    "train": Former("onn train", _settings("--set", f"{_ERRORS} {_ONN_TRAIN}")),
    "verify": Former("onn build", _settings("--set", "samples evaluations")),
    "map": Former("onn map", _MAPPING | {"--like": "{}", "--layer": "--set layer={}"}),
    "disturb": Former(
        "onn map --study disturb",
        _settings("--set", f"{_CHIP_ERRORS} detector-noise samples data iterations folder")
        | {"--correct": "--set correct=true", "--uncalibrated": "--set uncalibrated=true", "--train": "--study train"}
        | _MAPPING,
    ),
    "chip": Former("onn map --study chip", _MAPPING | {"--pitch": "--set pitch={}", "--gds": "--out {}"}),
    "calibrate": Former(
        "onn map --study calibrate",
        _settings("--set", f"{_CHIP_ERRORS} modes chips power-noise output-orders drift aging")
        | {"--settings": "--set measured_settings={}", "--unknown-offsets": "--set unknown_offsets=true"}
        | _MAPPING,
    ),
    "compare-reducers": Former("onn build --reducers", _settings("--set", "word-errors pair draws")),
    "link": Former(
        "onn link",
        _settings("--set", _LINK) | {"--ideal": "--set ideal=true", "--rate-only": "--set parts=false"} | _MAPPING,
    ),
}
COMMANDS: dict[str, Former] = {
    **{f"onn {name}": former for name, former in _ONN.items()},
    "plan": Former("plan", _settings("--site", _SITE) | _PLAN),
    "collective": Former("collective", {**_settings("--site", _SITE[:4]), **_WAVELENGTHS}),
    "damage": Former(
        "collective",
        {
            **_WAVELENGTHS,
            "--kill": "--without {}",
            "--together": "--without {--kill}",
            "--late": "--straggler late={}",
            "--slow": "--straggler slow={}",
        },
        {"--fabric": "--fabric wdm-ring", "--slow": "--straggler slow=1"},
    ),
    "schedule export": Former(
        "collective", defaults={"--algorithm": "--algorithm synthesized"}, arguments=("{}", "--out {}")
    ),
    "schedule import": Former("schedule", arguments=("{}", "--out {}")),
    "schedule check": Former("schedule"),
    "execute": Former(
        "schedule --execute",
        {
            **_settings("--set", ("dtype", "rounds", "seed", "timeout")),
            "--algorithm": "`lightloom collective KIND --algorithm NAME --out FILE`, then `schedule FILE --execute`",
        },
    ),
    "circuits": Former("circuits", _settings("--set", ("hold", "reconfiguration"))),
    "design": Former(
        "design",
        {
            **_settings("--site", _SITE[:7]),
            **_WORKERS,
            "--no-prune": "--set prune=false",
            "--budget-dollars": "--budget dollars={}",
            "--budget-watts": "--budget watts={}",
        },
    ),
    "sweep": Former("sweep", _WORKERS),
    "budget": Former("budget", {**_WAVELENGTHS, "--taps": "--set taps={}"}),
    "goodput": Former(
        "goodput",
        {
            **_settings("--set", _GOODPUT),
            "--mtbf": "--set mtbf.{}",
            "--recovery": "--set recovery.{}",
            "--checkpoint": "--set stall={} --set save={}",
            "--rack": "--set rack.nodes={} --set rack.mtbf={}",
        },
    ),
    "compress profile": Former("compress profile", _settings("--set", ("steps", "learning-rate", "sums", "data"))),
    "compress decompress": Former("compress file"),
    "exchange compare": Former(
        "exchange compare",
        {
            **_settings("--set", ("steps", "link", "data", "folder")),
            "--method": "--exchange {}",
            "--evidence": "--out {}",
        },
    ),
    "exchange break-even": Former("exchange break-even", _settings("--set", ("batch", "cluster", "engine"))),
    "accuracy": Former("accuracy", {"--cross-validate": "--calibration {}", "--transport": "--calibration {}"}),
    "calibrate": Former("calibrate", {"--collectives": "{}", "--profile": "{}", "-o": "--out {}"}),
    "exchange list": Former("catalog exchanges --all"),
    "exchange show": Former("catalog", {"--values": "--model {}"}),
    "schema": Former("catalog --schema", defaults={"": "cluster"}),
}
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
