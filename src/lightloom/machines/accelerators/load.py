"""Accelerators by name: the catalog, plug-ins, a user's YAML file, or a system file of ASTRA-sim."""

import re
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import Any

from lightloom.core.configfile import catalog_file, catalog_files, read_entry, validate
from lightloom.core.documents import parse_json, read_text
from lightloom.core.errors import ConfigError
from lightloom.core.forms import file_of
from lightloom.core.plugins import load_plugins
from lightloom.machines.accelerators.accelerator import Accelerator
from lightloom.machines.accelerators.calibrated import Calibration
from lightloom.machines.accelerators.kernels import PRIORS, KernelModel

CATALOG = Path(__file__).parent / "catalog"


def names() -> list[str]:
    """Return the names of the accelerators in the catalog and of those that plug-ins register, sorted."""
    return sorted(catalog_files(CATALOG).keys() | load_plugins("accelerators").keys())


def description(name: str) -> dict[str, Any]:
    """Return the fields of a catalog entry or a file (YAML, or a system file of ASTRA-sim) as written, with sources; of
    an accelerator from a plug-in, all of its fields.

    Raises:
        UnknownNameError: neither a catalog name nor a file.
        ConfigError: the file cannot be read, a system file states no peak rate, or a plug-in registered something else
            than an ``Accelerator``.
    """
    if (path := catalog_file(name, CATALOG)) is not None:
        return read_entry(path, "accelerator")
    plugin = registered(name)
    return system_fields(file_of(name, "accelerator", names())) if plugin is None else plugin.model_dump()


def fields_of(name: str) -> dict[str, Any]:
    """Return the fields of an accelerator by name of the catalog or a plug-in, or by file; for a calibration file those
    of the accelerator that it names, found beside the file or in the catalog, with the fitted parameters laid over.

    Raises:
        UnknownNameError: the name, or the accelerator that a calibration names, is neither of the catalog nor a
            plug-in's nor a file.
        ConfigError: the file cannot be read, or is a calibration with an invalid field, or of an accelerator that
            cannot be read, has no kernel model or is itself calibrated.
    """
    fields = description(name)
    if not is_calibration(fields):
        return fields
    base = fields["accelerator"]
    if not isinstance(base, str):
        raise ConfigError(f"{name}: field 'accelerator': {base!r}: expected a name of the catalog, or a YAML file")
    beside = Path(name).parent / base
    return calibrated_fields(fields, description(str(beside) if beside.is_file() else base), name)


def calibrated_accelerator(calibration: Calibration) -> Accelerator:
    """Return the accelerator that a calibration names, with the fitted parameters in its kernel model; its name ends in
    ``-calibrated``. A file that it names is sought from the working directory.

    Raises:
        UnknownNameError: the accelerator that it names is neither of the catalog nor a plug-in's nor a file.
        ConfigError: the accelerator has no kernel model or is itself calibrated, or a parameter is out of range.
    """
    name = f"{Path(calibration.accelerator).stem}-calibrated"
    fields = calibrated_fields(calibration.model_dump(), description(calibration.accelerator), name)
    fields.pop("description")
    return validate(Accelerator, {"name": name} | fields, name)


def registered(name: str) -> Accelerator | None:
    """Return the accelerator that a plug-in registered under this name, as an instance of its own class; None without
    one, or where the catalog or a file has the name.

    Raises:
        ConfigError: the plug-in registered something else than an ``Accelerator``.
    """
    plugin = load_plugins("accelerators").get(name)
    if plugin is None or catalog_file(name, CATALOG) is not None:
        return None
    if not isinstance(plugin, Accelerator):
        raise ConfigError(f"plug-in accelerator {name!r}: expected an Accelerator, got {type(plugin).__name__}")
    return plugin


def load_accelerator(name: str) -> Accelerator:
    """Return an accelerator from the catalog, a plug-in, a YAML file, which may be a calibration, or a system file of
    ASTRA-sim; without a field ``name`` it has the file's name without suffix.

    Raises:
        UnknownNameError: neither a catalog name nor a file.
        ConfigError: the file cannot be read, or a field is missing, unknown or out of range.
    """
    if (plugin := registered(name)) is not None:
        return plugin
    fields = {key: value for key, value in fields_of(name).items() if key != "description"}
    return validate(Accelerator, {"name": Path(name).stem} | fields, name)


# Accelerators of the catalog by the names that drivers give them, as profiles record them.

_GIGABYTE = 10**9
_DEVICES: tuple[tuple[str, float, str], ...] = (
    (r"\bA100\b", 60.0, "a100-40"),
    (r"\bA100\b", 100.0, "a100"),
    (r"\bH100\b(?!.*(PCIe|NVL))", 100.0, "h100"),
    (r"\bH200\b(?!.*NVL)", 160.0, "h200"),
    (r"\bB200\b", 220.0, "b200"),
    (r"TITAN Xp", 16.0, "titan-xp"),
)
"""Pattern of a device's name, GB of memory below which it is that one, and its name in the catalog."""


def accelerator_of_device(name: str, memory: float | None = None) -> str | None:
    """Return the catalog's name of the accelerator that a driver's device name means; None where the catalog has none
    like it, or where it has several sizes of it and the size is unknown.

    Args:
        name: name as the driver gives it, such as ``NVIDIA A100-SXM4-80GB``.
        memory: bytes of its main memory, which may be less than the size on the data sheet; without it the size in the
            name counts (``80GB``), if it has one.
    """
    stated = re.search(r"(\d+)\s*GB", name)
    size = memory if memory is not None else float(stated[1]) * _GIGABYTE if stated else None
    for pattern, below, accelerator in _DEVICES:
        if re.search(pattern, name) and (size is None or size < below * _GIGABYTE):
            # Without a size, a device of several sizes is none of them.
            return None if size is None and sum(pattern == other for other, _, _ in _DEVICES) > 1 else accelerator
    return None


# System files of ASTRA-sim: the peak rate and the memory bandwidth that its roofline computes with.
#
# The newer form is JSON, the older one lines of ``name: value``. What they say besides is how that simulator schedules
# collectives, of which a plan makes its own; it is listed, not used.

SYSTEM_ORIGIN = "ASTRA-sim's system file"
"""How the source of such an accelerator begins."""
_TERA, _GIGA = 1e12, 1e9
_PLAIN = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?")
_FORMATS = ("fp32", "tf32", "bf16", "fp16")
_ALGORITHMS = {
    "ring": "ring",
    "direct": "one-stage",
    "halvingDoubling": "halving-doubling",
    "doubleBinaryTree": "double-binary-tree",
}
"""Algorithm of this package for each implementation of a collective."""


def system_fields(path: Path) -> dict[str, Any]:
    """Return the fields of an accelerator that a system file of ASTRA-sim states: ``name``, the file's without suffix;
    ``peak``, FLOP/s, the same for ``fp32``, ``tf32``, ``bf16`` and ``fp16`` (the file's ``peak-perf`` is in TFLOP/s);
    ``memory_bandwidth``, bytes per second (``local-mem-bw``, in GB/s), None where the file states none or 0;
    ``efficiency``, 1; and ``sources``, in which what is left out of the file is listed.

    Raises:
        ConfigError: the file cannot be read, or states no peak rate, as most such files leave computing to the trace.
    """
    data = _read_system(path)
    bandwidth = _positive_rate(data, "local-mem-bw", path)
    if (peak := _positive_rate(data, "peak-perf", path)) is None:
        stated = "" if bandwidth is None else f" --set accelerator.memory_bandwidth={bandwidth:g}GB/s"
        raise ConfigError(
            f"{path}: {SYSTEM_ORIGIN} without peak-perf says no rate of computing{_algorithms_text(data)}: expected an "
            f"accelerator that has one, such as --accelerator h100{stated}"
        )
    source = f"{SYSTEM_ORIGIN} {path.name}"
    left = sorted(data.keys() - {"peak-perf", "local-mem-bw"})
    return {
        "name": path.stem,
        "peak": dict.fromkeys(_FORMATS, peak * _TERA),
        "memory_bandwidth": None if bandwidth is None else bandwidth * _GIGA,
        "efficiency": 1.0,
        "sources": {
            "name": f"{source}; not used of the file: {', '.join(left) or 'nothing'}{_algorithms_text(data)}",
            "peak": f"peak-perf of {source}; assumption: the same in every number format, of which it knows none",
            "memory_bandwidth": f"local-mem-bw of {source}",
            "efficiency": "assumption: 1, as ASTRA-sim's roofline has it",
        },
    }


def _read_system(path: Path) -> dict[str, Any]:
    """Return the entries of a system file: of a .json file its object, of any other its ``name: value`` lines with
    plain numbers as floats and other values as text, both parts stripped of blanks; lines without a colon are passed
    over.

    Raises:
        ConfigError: the file cannot be read, or its JSON is no object.
    """
    text = read_text(path)
    if path.suffix != ".json":
        lines = (line.partition(":") for line in text.splitlines() if ":" in line)
        words = {name.strip(): value.strip() for name, _, value in lines}
        return {name: float(word) if _PLAIN.fullmatch(word) else word for name, word in words.items()}
    data = parse_json(text, str(path))
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: expected an object, found {type(data).__name__}")
    return data


def _positive_rate(data: Mapping[str, Any], name: str, path: Path) -> float | None:
    """Return the number that ``data`` states under ``name``; None where it states none, or 0; ConfigError, which names
    the file ``path``, for anything else than a finite number of at least 0."""
    value = data.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value) or value < 0:
        raise ConfigError(f"{path}: {name}: {value!r}: expected a number above 0")
    return float(value) or None


def _algorithms_text(data: Mapping[str, Any]) -> str:
    """Return a phrase in parentheses, after a blank, with the algorithms of collectives that a system file's
    ``...-implementation`` entries name, each once, and the ``--algorithm`` options that choose those which this package
    has; empty if the file names none."""
    words: dict[str, None] = {}
    for name, value in data.items():
        if name.endswith("-implementation"):
            words |= dict.fromkeys(map(str, value if isinstance(value, list) else str(value).split("_")))
    options = [f"--algorithm {_ALGORITHMS[word]}" for word in words if word in _ALGORITHMS]
    if not words:
        return ""
    return f" (its collectives are {', '.join(words)}{': ' + ' '.join(options) if options else ''})"


def is_calibration(fields: Mapping[str, Any]) -> bool:
    """Return True if the fields of a YAML file are those of a calibration: it has both ``accelerator`` and
    ``parameters``."""
    return "accelerator" in fields and "parameters" in fields


def calibrated_fields(fields: Mapping[str, Any], base: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the fields of an accelerator with the parameters of its kernel model (``kernels``) replaced by the fitted
    ones of a calibration, with their spreads and sources. ``description`` is the calibration's, ``calibration`` holds
    its fields, and ``sources`` say so.

    Parameters that the file is too old to have stay at their priors (:meth:`Calibration.at_priors`), and those of a
    transport that it has are left out.

    Args:
        fields: the content of a calibration file.
        base: the fields of the accelerator that it names, with a kernel model.
        where: the file, for messages.

    Raises:
        ConfigError: a field of the calibration is missing, unknown or out of range; or the accelerator has no kernel
            model, or is itself calibrated.
    """
    calibration: Calibration = validate(Calibration, fields, where)
    name = calibration.accelerator
    if is_calibration(base):
        raise ConfigError(f"{where}: field 'accelerator': {name!r} is calibrated itself: expected what it rests on")
    if base.get("kernels") is None:
        raise ConfigError(
            f"{where}: field 'accelerator': {name!r} has no kernel model, whose parameters are calibrated"
        )
    kernels: KernelModel = validate(KernelModel, base["kernels"], where)
    source, (values, spreads, sources) = calibration.source, calibration.fitted(PRIORS)
    stated = {"spreads": kernels.spreads | spreads, "sources": kernels.sources | sources}
    return {
        **base,
        "description": calibration.description,
        "kernels": kernels.model_dump() | values | stated,
        "calibration": dict(fields),
        "sources": {**base.get("sources", {}), "kernels": source, "calibration": f"lightloom calibrate, {source}"},
    }
