"""Clusters by name: the catalog, a user's YAML file, and single fields set on top."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from lightloom.core.configfile import catalog_file, catalog_files, read_entry, validate, with_entries, with_settings
from lightloom.core.errors import ConfigError, InputError, UnknownNameError
from lightloom.core.fields import Config
from lightloom.core.files import say_former
from lightloom.core.forms import file_of
from lightloom.machines.accelerators import load as accelerators
from lightloom.machines.accelerators.accelerator import Accelerator
from lightloom.machines.clusters.astra_sim import MARKS, cluster_fields, read_network, read_topology
from lightloom.machines.clusters.cluster import Cluster, ClusterFile
from lightloom.machines.fabrics import load as fabrics
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.load import with_edge_file
from lightloom.machines.transports.transport import load_transport

# The parts of a cluster file, each a name or a mapping, made into an accelerator or a fabric.
#
# Complaints name the file, the field with its part (``fabric.wavelengths``), the value and what was expected.


@dataclass(frozen=True, slots=True)
class Place:
    """Where a part stands: the cluster, the field, and the folder that file names are relative to."""

    where: str
    field: str
    folder: Path

    def complaint(self, message: str, inner: str = "") -> ConfigError:
        """Return a ConfigError, not raised, whose message names the cluster and the field, with ``inner`` appended to
        it (``.kind`` for that field of a part), and then says ``message``."""
        return ConfigError(f"{self.where}: field {self.field + inner!r}: {message}")


def build_accelerator(part: str | Mapping[str, Any] | Accelerator, place: Place) -> Accelerator:
    """Return the accelerator that a part of a cluster's file describes: a name, fields, or ``base`` and what differs;
    an object, and a plug-in's accelerator by its name, are returned as they are. Files that the part names lie relative
    to the folder of ``place``.

    It has the class of the plug-in's accelerator where it is based on one, and its base's name unless it states one. An
    efficiency that is set over a base replaces the base's kernel model, and parameters of kernels that are set over a
    calibrated base are no longer calibrated.

    Raises:
        ConfigError: an unknown name, or a field that is missing, unknown or out of range.
    """
    if isinstance(part, Accelerator):
        return part
    based_on = part if isinstance(part, str) else str(part.get("base", "accelerator"))
    plugin = accelerators.registered(based_on)
    if plugin is not None and isinstance(part, str):
        return plugin
    fields = _part_fields(part, place, accelerators.fields_of if plugin is None else lambda _: dict(plugin))
    if isinstance(part, Mapping) and "base" in part:
        fields |= _without_replaced(part, fields, place)
    kind = Accelerator if plugin is None else type(plugin)
    built: Accelerator = _validated(kind, {"name": Path(based_on).stem} | fields, place)
    return built


def _without_replaced(part: Mapping[str, Any], fields: Mapping[str, Any], place: Place) -> dict[str, Any]:
    """Return fields to lay over those of an accelerator that has a base, so that what ``part`` sets does not stand
    beside what it replaces: ``kernels`` and ``calibration`` as None where it sets ``efficiency``, ``calibration`` as
    None where it sets ``kernels``, each unless ``part`` sets it itself; and ``sources``, those of ``fields`` without
    entries of what is None now.

    ``fields`` are all fields, those of the base included, with those of ``part`` laid over.

    Raises:
        ConfigError: an efficiency and kernels are both set.
    """
    if "efficiency" in part and part.get("kernels") is not None:
        raise place.complaint("contradicts 'kernels': set one of them", ".efficiency")
    void = {"kernels", "calibration"} if "efficiency" in part else {"calibration"} if "kernels" in part else set()
    sources = {name: text for name, text in fields.get("sources", {}).items() if name not in void - part.keys()}
    return {**dict.fromkeys(sorted(void - part.keys())), "sources": sources}


def build_fabric(part: str | Mapping[str, Any], ranks: int, place: Place) -> Fabric:
    """Return the fabric that a part of a cluster's file describes, a name, fields, or ``base`` and what differs, with
    ``ranks`` ranks attached. Files that the part names lie relative to the folder of ``place``.

    Raises:
        ConfigError: an unknown name or kind, no kind, a field that is missing, unknown or out of range, or ranks stated
            in the part.
    """
    fields = with_edge_file(fabrics.renewed(_part_fields(part, place, fabrics.description)), place.folder)
    transport = fields.get("transport")
    if isinstance(transport, str) and transport.endswith((".yaml", ".yml")):
        fields["transport"] = str(place.folder / transport)
    kinds = fabrics.kinds()
    if (kind := fields.get("kind")) is None:
        raise place.complaint(f"missing: expected 'base: NAME' or one of {', '.join(sorted(kinds))}", ".kind")
    if not isinstance(kind, str) or kind not in kinds:
        raise place.complaint(str(UnknownNameError("fabric kind", str(kind), kinds)), ".kind")
    if "ranks" in fields:
        raise place.complaint("not expected here: a cluster says its ranks once, in field 'ranks'", ".ranks")
    built: Fabric = _validated(kinds[kind], fabrics.with_parts(fields | {"ranks": ranks}, place.where), place)
    return built


_ASSUMED, _FITTED = "assumption: that of the ", "fitted to "
"""Beginnings of the sources of a transport that no file of the cluster states, and of calibrated numbers."""


def with_software(fabric: Fabric, part: str | Mapping[str, Any], accelerator: Accelerator) -> Fabric:
    """Return a fabric with the network software of its accelerator: the accelerator's transport where the fabric states
    none, with the numbers that the accelerator's calibration fitted where the fabric's transport is the accelerator's.

    What the fabric or the ``part`` of the cluster's file that describes it states takes precedence. A fabric that no
    closed form serves is unchanged: links without switches, or packets that are counted one by one.

    Raises:
        ConfigError: the accelerator names a transport that cannot be read.
        UnknownNameError: the accelerator names a transport that is neither in the catalog nor a file.
    """
    if accelerator.transport is not None:
        transport = load_transport(accelerator.transport)
        source = f"{_ASSUMED}{accelerator.name}, as no file of the cluster states one"
        fabric = fabric.with_default_transport(transport, source)
    return _with_calibrated_links(fabric, part, accelerator)


def with_accelerator(cluster: Cluster, name: str) -> Cluster:
    """Return the cluster with the accelerator ``name``, of the catalog, a plug-in or a file, and with its network
    software (:func:`with_software`) on the fabric, and on the reference if the fabric then has a collective library,
    where these state none of their own; a transport and fitted numbers that came from the former accelerator are
    dropped first. Numbers that a calibration fitted are laid over a transport of the accelerator's, whichever file
    states it.

    Raises:
        UnknownNameError: the name is neither of the catalog nor a plug-in's nor a file, or the transport that the
            accelerator names is neither of the catalog nor a file.
        ConfigError: the accelerator, or its transport, cannot be read.
    """
    accelerator = accelerators.load_accelerator(name)
    fabric = with_software(_stated_software(cluster.fabric), "", accelerator)
    reference = None if cluster.reference is None else _stated_software(cluster.reference)
    if reference is not None and fabric.library is not None:
        reference = with_software(reference, "", accelerator)
    return replace(cluster, accelerator=accelerator, fabric=fabric, reference=reference)


def _stated_software(fabric: Fabric) -> Fabric:
    """Return a fabric with the transport that its own file states: without one that came from an accelerator, and with
    the catalog's numbers in place of those of a calibration. Where either came from is read from the transport's
    source."""
    source, transport = fabric.sources.get("transport", ""), getattr(fabric, "transport", None)
    stated, fitted, _ = source.partition(f"; numbers {_FITTED}")
    assumed = source.startswith((_ASSUMED, _FITTED))
    if transport is None or not (fitted or assumed):
        return fabric
    sources = {name: text for name, text in fabric.sources.items() if name != "transport"}
    if assumed:
        return fabric.model_copy(update={"transport": None, "sources": sources})
    return fabric.model_copy(
        update={"transport": load_transport(transport.name), "sources": sources | {"transport": stated}}
    )


def _with_calibrated_links(fabric: Fabric, part: str | Mapping[str, Any], accelerator: Accelerator) -> Fabric:
    """Return the fabric with the transport's parameters that the accelerator's calibration fitted, and their sources.

    The fabric is returned unchanged where there is no calibration or library, where ``part``, the fabric's fields in
    the cluster's file, states a transport, or where the library's transport is not the accelerator's.
    """
    calibration, library = accelerator.calibration, fabric.library
    if calibration is None or library is None or (not isinstance(part, str) and part.get("transport") is not None):
        return fabric
    transport = library.transport
    if transport.name != accelerator.transport:
        return fabric
    source, (values, spreads, sources) = calibration.source, calibration.fitted(transport.priors())
    changes = {"spreads": spreads, "sources": transport.sources | sources}
    calibrated = transport.with_parameters(values).model_copy(update=changes)
    stated = fabric.sources.get("transport")
    told = fabric.sources | {"transport": source if stated is None else f"{stated}; numbers {source}"}
    return fabric.model_copy(update={"transport": calibrated, "sources": told})


def _part_fields(
    part: str | Mapping[str, Any], place: Place, describe: Callable[[str], dict[str, Any]]
) -> dict[str, Any]:
    """Return the fields, without a description, of a part that is a name, fields, or ``base`` and what differs.

    ``describe`` looks up the fields of a name or base. Differing fields are laid over those of the base; their source
    becomes ``set by`` the cluster unless the part states one.

    Raises:
        ConfigError: the name or base is unknown, the base is no text, or a kind is stated beside it.
    """
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
    """Return a field's value with ``value`` laid over ``below``, that of the base: field by field, one level deep,
    where both have fields; entry by entry where ``below`` is a list and ``value`` maps names (field ``name``) or
    numbers, from 0, of its entries; otherwise ``value``. Where the fields have ``sources``, changed ones get ``set by``
    and ``where`` as theirs unless ``value`` states one. ConfigError for an entry that the list does not have."""
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
    """Return the fields that ``describe`` gives for a name or a file (a name with the ending of one, relative to the
    place's folder), without a description; ConfigError, which names the place, where it raises an InputError."""
    is_file = name.endswith((".yaml", ".yml", ".csv", ".json", ".txt"))
    try:
        found = describe(str(place.folder / name) if is_file else name)
    except InputError as error:
        raise place.complaint(str(error)) from error
    return {key: value for key, value in found.items() if key != "description"}


def _validated(kind: Any, fields: Mapping[str, Any], place: Place) -> Any:
    """Return the model of class ``kind`` that the fields make; ConfigError, which names the place and the field, for
    one that is unknown, missing or out of range."""
    known = kind.model_fields.keys() - {"ranks"}
    for key in fields:
        if key not in known and key != "ranks":
            raise place.complaint(f"unknown field: expected one of {', '.join(sorted(known))}", f".{key}")
    # One entry under the field's name, so that the complaint says fabric.wavelengths and not wavelengths.
    return validate(dict[str, kind], {place.field: dict(fields)}, place.where)[place.field]


CATALOG = Path(__file__).parent / "catalog"


def names() -> list[str]:
    """Return the names of the clusters in the catalog, sorted."""
    return sorted(catalog_files(CATALOG))


def description(name: str) -> dict[str, Any]:
    """Return the fields of a catalog's cluster, or of a file (YAML, or JSON of ASTRA-sim), as written, with sources; a
    network of ASTRA-sim is not turned into a cluster's fields.

    Raises:
        UnknownNameError: neither a catalog name nor a file.
        ConfigError: the file cannot be read, or has no form that describes a cluster.
    """
    return read_entry(_find_cluster(name), "cluster")


ClusterLike: TypeAlias = str | Path | Cluster
"""A name of the catalog, a YAML file, or a cluster."""


def load_cluster(
    cluster: ClusterLike, ranks: int | None = None, *, set: Mapping[str, object] | None = None, **fields: object
) -> Cluster:
    """Return a cluster from the catalog or a file (YAML, or a network of ASTRA-sim or ns-3), with single fields
    replaced.

    >>> load_cluster("terarack-64", ranks=32, set={"fabric.wavelengths": 16, "training.batch_per_rank": 8})

    Args:
        cluster: a name of the catalog, a file, or a cluster, which is returned as it is.
        ranks: number of ranks; None for the cluster's own.
        set: fields and their values; a dot reaches into a part, or into an entry of a list
            (``fabric.tiers.rail.ports``). Parts as a whole (``{"accelerator": "my-a100.yaml"}``) are set before what
            reaches into them; their files lie relative to the working directory.
        fields: top-level fields by keyword, which take precedence over ``set``, as ``ranks`` does.

    Raises:
        UnknownNameError: neither a catalog name nor a file.
        ConfigError: a file of no form that describes a cluster; no accelerator is stated or set, as for files of
            ASTRA-sim and ns-3; a field is missing, unknown or out of range: one line
            that names file, field, value, expectation; or a cluster that is given as an object should be changed.
    """
    settings = {**(set or {}), **fields, **({} if ranks is None else {"ranks": ranks})}
    if isinstance(cluster, Cluster):
        if settings:
            raise ConfigError(f"cluster {cluster.name}: expected a name or a file where fields are set")
        return cluster
    path = _find_cluster(str(cluster))
    where = path.stem if path.is_relative_to(CATALOG) else str(path)
    readers = {".json": read_network, ".txt": read_topology}
    stated = readers[path.suffix](path) if path.suffix in readers else read_entry(path, "cluster")
    if any(marks <= stated.keys() for marks in MARKS):
        stated = cluster_fields(stated, path)
    if "accelerator" not in stated and "accelerator" not in settings:
        raise ConfigError(
            f"{where}: field 'accelerator' is missing: expected what the ranks compute on, by --accelerator NAME"
        )
    return cluster_from(stated, settings, name=path.stem, where=where, folder=path.parent)


def cluster_from(
    data: Mapping[str, Any],
    settings: Mapping[str, Any] | None = None,
    *,
    name: str,
    where: str | None = None,
    folder: Path | None = None,
) -> Cluster:
    """Build a cluster from the mapping that a YAML file holds, with the accelerator's network software on the fabric,
    and on the reference if the fabric then has a collective library.

    Args:
        data: fields of a cluster file.
        settings: fields replaced after reading; a dot in a name reaches into a part. Files that they name lie relative
            to the working directory.
        name: name of the cluster.
        where: name of the source for messages; the cluster's name by default.
        folder: folder to which files that ``data`` names are relative; the working directory by default.

    Raises:
        ConfigError: a part or field is missing, unknown or out of range.
        UnknownNameError: the accelerator names an unknown transport.
    """
    where, folder = where or name, folder or Path()
    given = dict(settings or {})
    for key in given.keys() & _FILES:
        if isinstance(given[key], str | Path) and Path(given[key]).suffix in (".yaml", ".yml", ".json", ".txt"):
            given[key] = str(Path(given[key]).resolve())
    file: ClusterFile = validate(ClusterFile, with_settings(data, given, where, _NAMED), where)
    accelerator = build_accelerator(file.accelerator, Place(where, "accelerator", folder))
    fabric = build_fabric(file.fabric, file.ranks, Place(where, "fabric", folder))
    fabric = with_software(fabric, file.fabric, accelerator)
    reference = None
    if file.reference is not None:
        reference = build_fabric(file.reference, file.ranks, Place(where, "reference", folder))
        # Beside a fabric whose software is free, that of its reference is too.
        reference = reference if fabric.library is None else with_software(reference, file.reference, accelerator)
    stated = {field: getattr(file, field) for field in ("description", "ranks", "training", "sources")}
    return Cluster(name=name, accelerator=accelerator, fabric=fabric, reference=reference, **stated)


_NAMED = ("accelerator", "fabric", "reference", "transport")
"""Fields whose value may be a name."""
_FILES = {"accelerator", "fabric", "reference", "fabric.links"}
"""Fields that may name a file."""


_FORMER = {
    "h100-1024-fat-tree-400g": "h100-1024-no-nvlink-400g",
    "b200-1024-fat-tree-800g": "b200-1024-no-nvlink-800g",
}
"""Names of clusters today by their former names, which did not say that no NVLink is in them."""


def _find_cluster(name: str) -> Path:
    """Return the path of a catalog's cluster, by its present or former name, or of a file; a former name is answered
    with a warning.

    Raises:
        UnknownNameError: the name is neither.
        ConfigError: a file of no form that describes a cluster.
    """
    if name in _FORMER:
        say_former(f"cluster {name} is {_FORMER[name]} now")
    return catalog_file(_FORMER.get(name, name), CATALOG) or file_of(name, "cluster", names())


# The JSON Schema of a cluster file, for editors that complete and check YAML.


def schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a cluster file, for editors; ``fabric`` and ``reference`` may be of any
    kind, those of plug-ins included. Of a kind's fields only ``kind`` is required, and ``ranks``, which the cluster
    states, is left out."""
    kinds = list(fabrics.kinds().values())
    models: list[type[BaseModel]] = [ClusterFile, Accelerator, *kinds]
    _, document = models_json_schema([(model, "validation") for model in models])
    definitions = document["$defs"]
    for kind in kinds:
        definition = definitions[kind.__name__]
        definition["properties"].pop("ranks")
        definition["required"] = ["kind"]
    for definition in (definitions["Accelerator"], *(definitions[kind.__name__] for kind in kinds)):
        definition["properties"]["description"] = {"type": "string"}

    fabric = _part(definitions, [kind.__name__ for kind in kinds], fabrics.names())
    cluster: dict[str, Any] = definitions.pop("ClusterFile")
    cluster["properties"]["fabric"] |= fabric
    cluster["properties"]["reference"] |= {"anyOf": [*fabric["anyOf"], {"type": "null"}]}
    cluster["properties"]["accelerator"] |= _part(definitions, ["Accelerator"], accelerators.names())
    draft = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return draft | cluster | {"title": "lightloom cluster", "$defs": definitions}


def _part(definitions: dict[str, Any], models: list[str], names: list[str]) -> dict[str, Any]:
    """Return the JSON schema of a part of a cluster file: a name (examples: ``names``), all fields of one of the
    ``models``, which ``definitions`` holds by name, or a ``base`` and the fields that differ, those of any of the
    models but ``kind``, and no others."""
    differing: dict[str, Any] = {}
    for model in models:
        differing |= {key: value for key, value in definitions[model]["properties"].items() if key != "kind"}
    name = {"type": "string", "examples": names}
    based = {"type": "object", "properties": {"base": name, **differing}, "required": ["base"]}
    return {
        "anyOf": [
            name | {"description": "a catalog name, or a .yaml file"},
            *({"$ref": f"#/$defs/{model}"} for model in models),
            based | {"additionalProperties": False},
        ]
    }
