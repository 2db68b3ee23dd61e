"""The parts of a cluster file, each a name or a mapping, made into an accelerator or a fabric.

Complaints name the file, the field with its part (``fabric.wavelengths``), the value and what was expected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lightloom.accelerators import load as accelerators
from lightloom.accelerators.base import Accelerator
from lightloom.core.configfile import validate, with_entries
from lightloom.core.errors import ConfigError, InputError, UnknownNameError
from lightloom.core.fields import Config
from lightloom.fabrics import load as fabrics
from lightloom.fabrics.base import Fabric
from lightloom.fabrics.graph.edges import with_edge_file
from lightloom.transports.load import load_transport


@dataclass(frozen=True, slots=True)
class Place:
    """Where a part stands: the cluster, the field, and the folder that file names are relative to."""

    where: str
    field: str
    folder: Path

    def complaint(self, message: str, inner: str = "") -> ConfigError:
        """An error that names this place."""
        return ConfigError(f"{self.where}: field {self.field + inner!r}: {message}")


def build_accelerator(part: str | Mapping[str, Any] | Accelerator, place: Place) -> Accelerator:
    """An accelerator, of its plug-in's class where it is based on one; without a name, it is called after its base.

    An efficiency that is set over a base replaces the base's kernel model, and parameters of kernels that are set over
    a calibrated base are no longer calibrated.

    Raises:
        ConfigError: an unknown name, or a field that is missing, unknown or out of range.
    """
    if isinstance(part, Accelerator):
        return part
    based_on = part if isinstance(part, str) else str(part.get("base", "accelerator"))
    plugin = accelerators.registered(based_on)
    if plugin is not None and isinstance(part, str):
        return plugin
    fields = _fields(part, place, accelerators.fields_of if plugin is None else lambda _: dict(plugin))
    if isinstance(part, Mapping) and "base" in part:
        fields |= _without_replaced(part, fields, place)
    kind = Accelerator if plugin is None else type(plugin)
    built: Accelerator = _validated(kind, {"name": Path(based_on).stem} | fields, place)
    return built


def _without_replaced(part: Mapping[str, Any], fields: Mapping[str, Any], place: Place) -> dict[str, Any]:
    """The fields of a base that what is set over it makes void: a kernel model by an efficiency, a calibration by any
    parameter of kernels."""
    if "efficiency" in part and part.get("kernels") is not None:
        raise place.complaint("contradicts 'kernels': set one of them", ".efficiency")
    void = {"kernels", "calibration"} if "efficiency" in part else {"calibration"} if "kernels" in part else set()
    sources = {name: text for name, text in fields.get("sources", {}).items() if name not in void - part.keys()}
    return {**dict.fromkeys(sorted(void - part.keys())), "sources": sources}


def build_fabric(part: str | Mapping[str, Any], ranks: int, place: Place) -> Fabric:
    """A fabric with ``ranks`` attached.

    Raises:
        ConfigError: an unknown name or kind, or a field that is missing, unknown or out of range.
    """
    fields = with_edge_file(_fields(part, place, fabrics.description), place.folder)
    fields = _with_transport_file(fields, place.folder)
    kinds = fabrics.kinds()
    kind = fields.get("kind")
    if kind is None:
        raise place.complaint(f"missing: expected 'base: NAME' or one of {', '.join(sorted(kinds))}", ".kind")
    if not isinstance(kind, str) or kind not in kinds:
        raise place.complaint(str(UnknownNameError("fabric kind", str(kind), kinds)), ".kind")
    if "ranks" in fields:
        raise place.complaint("not expected here: a cluster says its ranks once, in field 'ranks'", ".ranks")
    built: Fabric = _validated(kinds[kind], fields | {"ranks": ranks}, place)
    return built


def with_software(fabric: Fabric, part: str | Mapping[str, Any], accelerator: Accelerator) -> Fabric:
    """Return a fabric whose collectives are carried by software: the transport of the accelerator, calibrated.

    What the fabric or the ``part`` of the cluster's file states counts more. A fabric that no closed form serves stays
    as it is: links without switches, or packets that are counted one by one.

    Raises:
        ConfigError: the accelerator names a transport that cannot be read.
    """
    if accelerator.transport is not None:
        transport = load_transport(accelerator.transport)
        source = f"assumption: that of the {accelerator.name}, as no file of the cluster states one"
        fabric = fabric.with_default_transport(transport, source)
    return _with_calibrated_links(fabric, part, accelerator)


def _with_calibrated_links(fabric: Fabric, part: str | Mapping[str, Any], accelerator: Accelerator) -> Fabric:
    calibration, library = accelerator.calibration, fabric.library
    if calibration is None or library is None or (not isinstance(part, str) and part.get("transport") is not None):
        return fabric
    transport = library.transport
    if transport.name != accelerator.transport:
        return fabric
    fitted = {name: entry for name, entry in calibration.parameters.items() if name in transport.priors()}
    source = f"fitted to {calibration.rows.line()}"
    calibrated = transport.with_parameters({name: entry.value for name, entry in fitted.items()})
    changes = {
        "spreads": {name: entry.spread for name, entry in fitted.items()},
        "sources": transport.sources
        | {name: source if entry.determined else entry.source for name, entry in fitted.items()},
    }
    stated = fabric.sources.get("transport")
    sources = fabric.sources | {"transport": source if stated is None else f"{stated}; numbers {source}"}
    return fabric.model_copy(update={"transport": calibrated.model_copy(update=changes), "sources": sources})


def _with_transport_file(fields: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the fields with the file of a transport found beside the cluster's."""
    transport = fields.get("transport")
    if isinstance(transport, str) and transport.endswith((".yaml", ".yml")):
        return fields | {"transport": str(folder / transport)}
    return fields


def _fields(part: str | Mapping[str, Any], place: Place, describe: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    """The fields of a part, its base looked up and what differs laid over it."""
    if isinstance(part, str):
        return _described(part, place, describe)
    own = {key: value for key, value in part.items() if key != "description"}
    if "base" not in own:
        return own
    base = own.pop("base")
    if not isinstance(base, str):
        raise place.complaint(f"{base!r}: expected a catalog name or a .yaml file", ".base")
    if "kind" in own:
        raise place.complaint("not expected beside 'base', which has a kind already", ".kind")
    below = _described(base, place, describe)
    merged = below | {key: _laid_over(below.get(key), value, place.where) for key, value in own.items()}
    changed = own.keys() - {"sources"}
    # A value that replaces a sourced one must not inherit its source.
    kept = {key: text for key, text in below.get("sources", {}).items() if key.split(".")[0] not in changed}
    merged["sources"] = kept | dict.fromkeys(sorted(changed), f"set by {place.where}") | own.get("sources", {})
    return merged


def _laid_over(below: Any, value: Any, where: str) -> Any:
    """A field's value over that of the base, part by part where both have parts, changed parts with a new source."""
    if isinstance(below, list) and isinstance(value, Mapping):
        return with_entries(below, value, where)
    if not isinstance(below, Mapping | Config) or not isinstance(value, Mapping):
        return value
    merged = dict(below) | dict(value)
    if "sources" in merged:
        changed = dict.fromkeys(sorted(value.keys() - {"sources"}), f"set by {where}")
        merged["sources"] = dict(below).get("sources", {}) | changed | value.get("sources", {})
    return merged


def _described(name: str, place: Place, describe: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    is_file = name.endswith((".yaml", ".yml", ".csv", ".json", ".txt"))
    try:
        found = describe(str(place.folder / name) if is_file else name)
    except InputError as error:
        raise place.complaint(str(error)) from error
    return {key: value for key, value in found.items() if key != "description"}


def _validated(kind: Any, fields: Mapping[str, Any], place: Place) -> Any:
    known = kind.model_fields.keys() - {"ranks"}
    for key in fields:
        if key not in known and key != "ranks":
            raise place.complaint(f"unknown field: expected one of {', '.join(sorted(known))}", f".{key}")
    # One entry under the field's name, so that the complaint says fabric.wavelengths and not wavelengths.
    return validate(dict[str, kind], {place.field: dict(fields)}, place.where)[place.field]
