"""Accelerators by name: the catalog, plug-ins, or a user's YAML file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from lightloom.core.configfile import (
    catalog_file,
    catalog_files,
    read_entry,
    validate,
)
from lightloom.core.errors import ConfigError, UnknownNameError
from lightloom.core.forms import expected_forms, looks_like_file, recognise
from lightloom.core.plugins import load_plugins
from lightloom.machines.accelerators.accelerator import Accelerator
from lightloom.machines.accelerators.astra_sim import system_fields
from lightloom.machines.accelerators.calibrated import Calibration, calibrated_fields, is_calibration

CATALOG = Path(__file__).parent / "catalog"


def names() -> list[str]:
    """Return the names in the catalog, plug-ins included."""
    return sorted(catalog_files(CATALOG).keys() | load_plugins("accelerators").keys())


def description(name: str) -> dict[str, Any]:
    """Return a catalog entry (or a file: YAML, or a system file of ASTRA-sim) as written, with its sources.

    Raises:
        UnknownNameError: neither a catalog name nor a file.
        ConfigError: the file cannot be read, or a plug-in registered something else than an ``Accelerator``.
    """
    path = catalog_file(name, CATALOG)
    if path is not None:
        return read_entry(path, "accelerator")
    plugin = registered(name)
    if plugin is None:
        if looks_like_file(name):
            recognise(Path(name), "accelerator")
            return system_fields(Path(name))
        raise UnknownNameError("accelerator", name, names(), f"or a file: {expected_forms('accelerator')}")
    return plugin.model_dump()


def fields_of(name: str) -> dict[str, Any]:
    """Return the fields of an accelerator; those of a calibration file are its accelerator's, fitted parameters in.

    Raises:
        UnknownNameError: neither a catalog name nor a file.
        ConfigError: the file cannot be read, or is a calibration whose accelerator cannot be.
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
    """Return the accelerator that a calibration names, with the calibrated parameters.

    Raises:
        UnknownNameError: neither a catalog name nor a file.
        ConfigError: the accelerator has no kernel model, or a parameter is out of range.
    """
    name = f"{Path(calibration.accelerator).stem}-calibrated"
    base = description(calibration.accelerator)
    return _accelerator_from({"name": name} | calibrated_fields(calibration.model_dump(), base, name), name)


def registered(name: str) -> Accelerator | None:
    """Return the accelerator that a plug-in registered under this name, as an instance of its own class.

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
    """Return an accelerator from the catalog, a plug-in or a YAML file, which may be a calibration.

    Raises:
        UnknownNameError: neither a catalog name nor a file.
        ConfigError: a field is missing, unknown or out of range.
    """
    plugin = registered(name)
    if plugin is not None:
        return plugin
    return _accelerator_from({"name": Path(name).stem} | fields_of(name), name)


def _accelerator_from(fields: dict[str, Any], where: str) -> Accelerator:
    built: Accelerator = validate(Accelerator, {key: fields[key] for key in fields if key != "description"}, where)
    return built


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
    """Return the catalog's name of a device; None where the catalog has none like it.

    Args:
        name: as its driver names it, such as ``NVIDIA A100-SXM4-80GB``.
        memory: bytes of its main memory; without it the size in the name counts, if it has one.
    """
    stated = re.search(r"(\d+)\s*GB", name)
    size = memory if memory is not None else float(stated[1]) * _GIGABYTE if stated else None
    for pattern, below, accelerator in _DEVICES:
        if re.search(pattern, name) and (size is None or size < below * _GIGABYTE):
            # Without a size, a device of several sizes is none of them.
            several = sum(pattern == other for other, _, _ in _DEVICES) > 1
            return None if size is None and several else accelerator
    return None
