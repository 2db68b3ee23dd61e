"""What ``setup.py`` adds to wheels and sdists: links that work on an index page, a list of what is inside (CycloneDX),
and archives whose bytes depend on what they hold alone.

The only setting is ``[tool.lightloom] repository`` of ``pyproject.toml``, the address where the project is published.
Where it is empty, distributions name no address, and their description has the words of README's links without them.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import tarfile
import tomllib
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.sdist import sdist

ROOT = Path(__file__).parents[1]
_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!\w+:|#)([^)\s]+)\)")
_MADE_WITH = ("setuptools", "numba", "llvmlite", "numpy", "scipy", "pydantic")
"""Packages of the build's environment that decide what it makes."""
_COMPILED = (".so", ".pyd", ".dylib")


def project() -> dict[str, Any]:
    """Return ``[project]`` of ``pyproject.toml``."""
    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return table


def repository() -> str:
    """Return the address at which the project is published, without a slash at its end, or ""."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["lightloom"]
    return str(settings["repository"]).rstrip("/")


def urls(address: str, release: str) -> dict[str, str]:
    """Return the project's addresses by their labels: none where the project's own is not known."""
    if not address:
        return {}
    pages = f"{address}/blob/v{release}"
    return {
        "Source": address,
        "Documentation": f"{pages}/docs/index.md",
        "Changelog": f"{pages}/CHANGELOG.md",
        "Issues": f"{address}/issues",
    }


def description(text: str, address: str, release: str) -> str:
    """Return a Markdown page whose relative links and pictures lead to the release's files in the repository.

    Code is left as it is. Without an address the words of links stay, and the captions of pictures in italics.
    """

    def absolute(link: re.Match[str]) -> str:
        picture, words, target = link.groups()
        if not address:
            return f"*{words}*" if picture else words
        return f"{picture}[{words}]({address}/{'raw' if picture else 'blob'}/v{release}/{target})"

    parts = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if n % 2 else _LINK.sub(absolute, part) for n, part in enumerate(parts))


def epoch() -> int:
    """Return the time that archives state: ``SOURCE_DATE_EPOCH``, else the day of the release."""
    stated = os.environ.get("SOURCE_DATE_EPOCH")
    if stated:
        return int(stated)
    day = re.search(r"^date-released: (\d+-\d+-\d+)$", (ROOT / "CITATION.cff").read_text("utf-8"), re.MULTILINE)
    return int(datetime.fromisoformat(day[1]).replace(tzinfo=UTC).timestamp()) if day else 315532800


def bill_of_materials(table: dict[str, Any], folder: Path | None = None) -> dict[str, Any]:
    """Return what a distribution is made of and asks for, as CycloneDX 1.6.

    A wheel bundles no other package: those that it asks for stand with their range, "optional" where only an extra asks
    for them. ``folder`` is the wheel's contents, whose machine code stands with its hash.
    """
    own = f"pkg:pypi/{table['name']}@{table['version']}"
    extras = [line for lines in table["optional-dependencies"].values() for line in lines]
    asked: dict[str, dict[str, Any]] = {}
    for line, scope in [
        *((line, "required") for line in table["dependencies"]),
        *((line, "optional") for line in extras),
    ]:
        name = re.split(r"[\[<>=; ]", line)[0].lower().replace("_", "-")
        entry = {
            "type": "library",
            "bom-ref": f"pkg:pypi/{name}",
            "name": name,
            "purl": f"pkg:pypi/{name}",
            "scope": scope,
        }
        asked.setdefault(name, entry | {"properties": [{"name": "lightloom:requirement", "value": line}]})
    document: dict[str, Any] = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(epoch(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "tools": {"components": [*_tools()]},
            "component": {
                "type": "library",
                "bom-ref": own,
                "name": table["name"],
                "version": table["version"],
                "description": table["description"],
                "licenses": [{"expression": table["license"]}],
                "purl": own,
            },
        },
        "components": [*(asked[name] for name in sorted(asked)), *_machine_code(folder)],
        "dependencies": [{"ref": own, "dependsOn": [f"pkg:pypi/{name}" for name in sorted(asked)]}],
    }
    # A name of its own for each content, the same for the same.
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(document, sort_keys=True))
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "serialNumber": f"urn:uuid:{serial}",
    } | document


def _tools() -> Iterator[dict[str, str]]:
    for name in _MADE_WITH:
        try:
            yield {"type": "library", "name": name, "version": version(name)}
        except PackageNotFoundError:
            continue


def _machine_code(folder: Path | None) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.rglob("*")) if folder else ():
        if path.suffix in _COMPILED:
            name, content = path.relative_to(folder).as_posix() if folder else "", hashlib.sha256(path.read_bytes())
            hashes = [{"alg": "SHA-256", "content": content.hexdigest()}]
            yield {"type": "file", "bom-ref": name, "name": name, "hashes": hashes}


class Wheel(bdist_wheel):  # type: ignore[misc]
    """A wheel that lists what it is made of (``sboms/lightloom.cdx.json`` beside its metadata), with the same modes of
    files from every checkout."""

    def write_wheelfile(self, wheelfile_base: str, *arguments: Any, **options: Any) -> None:
        super().write_wheelfile(wheelfile_base, *arguments, **options)
        contents, folder = Path(self.bdist_dir or ""), Path(wheelfile_base, "sboms")
        folder.mkdir(exist_ok=True)
        text = json.dumps(bill_of_materials(project(), contents), indent=1)
        (folder / "lightloom.cdx.json").write_text(text + "\n", "utf-8")
        for path in contents.rglob("*") if self.bdist_dir else ():
            path.chmod(0o755 if path.is_dir() else 0o644)


class Sdist(sdist):  # type: ignore[misc]
    """A source archive in which order, owners, modes and times follow from what it holds."""

    def make_archive(
        self, base_name: str, format: str, root_dir: Any = None, base_dir: Any = None, **owners: Any
    ) -> str:
        if format != "gztar":
            return str(super().make_archive(base_name, format, root_dir, base_dir, **owners))
        held = io.BytesIO()
        with tarfile.open(fileobj=held, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for path in sorted(Path(root_dir or ".", base_dir).rglob("*")):
                entry = archive.gettarinfo(path, arcname=path.relative_to(root_dir or ".").as_posix())
                if entry.islnk():  # what the release's folder links to the checkout
                    entry.type, entry.size = tarfile.REGTYPE, path.stat().st_size
                entry.uid, entry.gid, entry.uname, entry.gname, entry.mtime = 0, 0, "", "", epoch()
                entry.mode = 0o755 if entry.isdir() else 0o644
                archive.addfile(entry, io.BytesIO(path.read_bytes()) if entry.isreg() else None)
        name = f"{base_name}.tar.gz"
        Path(name).write_bytes(gzip.compress(held.getvalue(), mtime=epoch()))
        return name


def keywords() -> dict[str, Any]:
    """Return what ``setup`` is to know beside ``pyproject.toml``."""
    os.environ.setdefault("SOURCE_DATE_EPOCH", str(epoch()))
    release, address = project()["version"], repository()
    return {
        "long_description": description((ROOT / "README.md").read_text("utf-8"), address, release),
        "long_description_content_type": "text/markdown; variant=GFM",
        "project_urls": urls(address, release),
    }
