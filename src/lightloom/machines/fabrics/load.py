"""Fabrics by name: the catalog, a user's YAML file, plug-ins, and single fields set on top."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from lightloom.core.configfile import catalog_file, catalog_files, read_entry, validate, with_settings
from lightloom.core.errors import ConfigError, UnknownNameError
from lightloom.core.files import say_former
from lightloom.core.plugins import load_plugins
from lightloom.core.results import Document
from lightloom.machines.fabrics.fabric import Fabric, GroupFabric
from lightloom.machines.fabrics.failures import DamagedWdmRing
from lightloom.machines.fabrics.graph import Graph, read_edges
from lightloom.machines.fabrics.grids import Mesh, Torus
from lightloom.machines.fabrics.joined import JoinedFabric
from lightloom.machines.fabrics.optical_averager import OpticalAverager
from lightloom.machines.fabrics.switches import CircuitSwitch, PacketSwitch, PartFabric
from lightloom.machines.fabrics.tiers.tiers import Tiers
from lightloom.machines.fabrics.wdm_ring import Ring, RingGroup, WdmRing

CATALOG = Path(__file__).parent / "catalog"
_NAMED = ("transport",)
"""Fields whose value may be a name."""
_BUILT_IN: tuple[type[Fabric], ...] = (
    WdmRing,
    DamagedWdmRing,
    Ring,
    Mesh,
    Torus,
    PacketSwitch,
    Tiers,
    Graph,
    CircuitSwitch,
    OpticalAverager,
    JoinedFabric,
)
_PARTS: dict[str, type[Fabric]] = {
    str(kind.model_fields["kind"].default): kind for kind in (RingGroup, GroupFabric, PartFabric)
}
"""Kinds of which only other fabrics are made, by the word that files hold."""


@cache
def kinds() -> dict[str, type[Fabric]]:
    """Return the class of every kind of fabric that files can describe, those of plug-ins included, by the word that
    ``kind:`` takes; kinds that only other fabrics make, such as groups, are left out."""
    return {str(kind.model_fields["kind"].default): kind for kind in _BUILT_IN} | load_plugins("fabrics")


def names() -> list[str]:
    """Return the names of the fabrics in the catalog, and of the kinds that plug-ins add, sorted."""
    return sorted(catalog_files(CATALOG).keys() | load_plugins("fabrics").keys())


def description(name: str) -> dict[str, Any]:
    """Return the fields of a catalog entry or a file as they are written, with sources and description, but with former
    spellings renewed and the file that ``edges`` names read; for a kind that a plug-in adds, its kind and, as
    description, the first line of its class's docstring.

    Raises:
        UnknownNameError: no entry or plug-in of this name, which does not end in ``.yaml``, ``.yml`` or ``.csv``.
        ConfigError: the file is missing, or it or its edge list cannot be read.
    """
    if (kind := _plugin(name)) is None:
        return _read_fields(_find_fabric(name))
    return {"description": (kind.__doc__ or "from a plug-in").partition("\n")[0], "kind": name}


FabricLike: TypeAlias = str | Path | Fabric
"""A name of the catalog, a YAML file, or a fabric."""


def load_fabric(
    fabric: FabricLike, ranks: int | None = None, *, set: Mapping[str, object] | None = None, **fields: object
) -> Fabric:
    """Return a fabric from the catalog, a plug-in, a YAML file or an edge list (CSV), with single fields replaced.

    >>> load_fabric("wdm-ring", 64, wavelengths=16, conversion_time="1us")

    Args:
        fabric: a name of the catalog or of a plug-in's kind, a file, or a fabric of which a changed copy is wanted.
        ranks: number of ranks attached; may be left out only for a fabric that is given as an object, whose number it
            replaces otherwise.
        set: values by name of field, with underscores; a dot reaches into a part, as in ``tiers.network.bandwidth``.
        fields: single fields by keyword, quantities as text or in SI units; they take precedence over ``set``.

    Raises:
        UnknownNameError: a name that is not known and does not end in ``.yaml``, ``.yml`` or ``.csv``, or a file of an
            unknown kind.
        ConfigError: the file is missing or cannot be read, a field is unknown or out of range, or ``ranks`` is missing.
    """
    settings = {**(set or {}), **fields}
    if isinstance(fabric, Fabric):
        settings |= {} if ranks is None else {"ranks": ranks}
        return changed(fabric, settings) if settings else fabric
    name = str(fabric)
    if ranks is None:
        raise ConfigError(f"fabric {name!r}: expected a number of ranks, e.g. ranks=64")
    if _plugin(name) is not None:
        return fabric_from({"kind": name}, ranks, settings, where=name)
    path = _find_fabric(name)
    return fabric_from(_read_fields(path), ranks, settings, where=name if path.is_relative_to(CATALOG) else str(path))


def changed(fabric: Fabric, settings: Mapping[str, Any]) -> Fabric:
    """Return a copy of a fabric with single fields replaced; fields that the fabric derived from others are derived
    anew.

    ``settings`` are values by name, quantities as text or in SI units; a dot in a name reaches into a part, as in
    ``tiers.network.bandwidth``.

    Raises:
        ConfigError: a field is unknown or out of range.
    """
    stated = renewed(with_settings(fabric.stated_fields(), settings, "fabric", _NAMED))
    return validate(type(fabric), with_parts(stated, "fabric"), "fabric")


def fabric_from(
    data: Mapping[str, Any], ranks: int | None, settings: Mapping[str, Any] | None = None, *, where: str
) -> Fabric:
    """Build a fabric from the mapping that a YAML file holds.

    Args:
        data: fields by name, ``kind`` among them; a ``description`` is left out, and ``edges`` may be the path of a CSV
            file, from the working directory. Former spellings are renewed, with a warning.
        ranks: number of ranks, in place of that of ``data``; None keeps it.
        settings: fields replaced after reading; a dot in a name reaches into a part.
        where: name of the source for messages.

    Raises:
        UnknownNameError: an unknown kind.
        ConfigError: a field is missing, unknown or out of range.
    """
    stated = renewed({key: value for key, value in data.items() if key != "description"})
    fields = with_edge_file(renewed(with_settings(stated, settings or {}, where, _NAMED)), Path())
    if ranks is not None:
        fields["ranks"] = ranks
    if "kind" not in fields:
        raise ConfigError(f"{where}: field 'kind' is missing: expected one of {', '.join(sorted(kinds()))}")
    if not isinstance(fields["kind"], str) or fields["kind"] not in kinds():
        raise UnknownNameError("fabric kind", str(fields["kind"]), kinds())
    return validate(kinds()[fields["kind"]], with_parts(fields, where), where)


def with_parts(fields: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return a copy of a fabric's fields in which ``inside`` and ``between``, the parts of a ``joined`` fabric, are
    built as fabrics where they are mappings of fields; each states its own number of ranks. Fields of other kinds are
    unchanged. ``where`` names the source in messages.

    Raises:
        UnknownNameError: a part is of an unknown kind.
        ConfigError: a part lacks a kind or another field, or a field is unknown or out of range.
    """
    made = {
        name: fabric_from(fields[name], None, where=f"{where}: {name}")
        for name in JoinedFabric.PARTS
        if fields.get("kind") == "joined" and isinstance(fields.get(name), Mapping)
    }
    return {**fields, **made}


def recorded_fabric(data: Document, *, where: str) -> Fabric:
    """Build the fabric that a schedule's file holds, ``data`` its fields, which may also be a group or a part of
    another fabric; ``where`` names the file in messages.

    Raises:
        UnknownNameError: an unknown kind.
        ConfigError: a field is missing, unknown or out of range.
    """
    if (kind := _PARTS.get(str(data.get("kind")))) is None:
        return fabric_from(data, None, where=where)
    fields = dict(data)
    if isinstance(fields.get("whole"), Mapping):
        fields["whole"] = recorded_fabric(fields["whole"], where=f"{where}: whole")
    return validate(kind, fields, where)


# Two tiers of switches were a kind of their own: fast domains of ranks, joined by a fat tree.

_TWO_TIERS = (
    {"name": "domain", "shape": "switch", "size": 8, "bandwidth": 450e9, "latency": 0.0},
    {"name": "network", "shape": "switch", "bandwidth": 50e9, "taper": 1.0},
)
_FORMER = {f"domain_{name}": f"tiers.domain.{name}" for name in ("size", "bandwidth", "wire_efficiency", "latency")}
_FORMER |= {name: f"tiers.network.{name}" for name in ("bandwidth", "wire_efficiency")}
_FORMER["oversubscription"] = "tiers.network.taper"


def renewed(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a fabric's fields in which the former kind ``two-tier-switch`` is a fabric of two ``tiers``,
    named ``domain`` and ``network``, and its former fields, such as ``domain_bandwidth`` or ``oversubscription``, set
    the fields of these tiers, their sources included; log a warning that names the new spellings.

    Former fields are also renewed in a fabric that states two ``tiers`` of these names. Any other fields are copied
    unchanged, without a warning.
    """
    stated, former = dict(fields), fields.get("kind") == "two-tier-switch"
    spelt = {name: new for name, new in _FORMER.items() if name in fields}
    tiers = fields.get("tiers")
    names = [tier.get("name") for tier in tiers if isinstance(tier, Mapping)] if isinstance(tiers, list | tuple) else []
    if not former and (not spelt or names != ["domain", "network"]):
        return stated
    if former:
        stated |= {"kind": "tiers", "tiers": _TWO_TIERS}
    settings = {new: stated.pop(name) for name, new in spelt.items()}
    if isinstance(stated.get("sources"), Mapping):
        stated["sources"] = {spelt.get(name, name): source for name, source in stated["sources"].items()}
    news = {"kind two-tier-switch": "tiers"} if former else spelt
    say_former(f"of a fabric, {', '.join(f'{name} is {new}' for name, new in news.items())} now")
    return with_settings(stated, settings, "fabric")


def with_edge_file(fields: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return a copy of a fabric's fields; where ``edges`` is a text, it is taken for the path of a CSV file, from
    ``folder``, and replaced by the list of edges that this holds. ConfigError where the file cannot be read or a row is
    wrong."""
    edges = fields.get("edges")
    return dict(fields) | ({"edges": read_edges(folder / edges)} if isinstance(edges, str) else {})


def _plugin(name: str) -> type[Fabric] | None:
    """Return the class of the kind that a plug-in adds under this name; None where there is none, where the catalog has
    an entry of the name, or where the name ends in ``.yaml`` or ``.yml``."""
    return None if catalog_file(name, CATALOG) is not None else load_plugins("fabrics").get(name)


def _read_fields(path: Path) -> dict[str, Any]:
    """Return the fields in a YAML file, former spellings renewed and its edge list read; for a CSV file those of kind
    ``graph`` with its edges. ConfigError where the file or its edge list cannot be read."""
    if path.suffix == ".csv":
        return {"kind": "graph", "edges": read_edges(path)}
    return with_edge_file(renewed(read_entry(path, "fabric")), path.parent)


def _find_fabric(name: str) -> Path:
    """Return the path of a file whose name ends in ``.csv``, whether it exists or not, otherwise of the catalog entry
    of the name, otherwise of a file whose name ends in ``.yaml`` or ``.yml``, again whether it exists or not;
    UnknownNameError for any other name."""
    path = Path(name) if name.endswith(".csv") else catalog_file(name, CATALOG)
    if path is None:
        raise UnknownNameError("fabric", name, names())
    return path
