"""Prices on the disk belong to the code that made them: a change anywhere in that code leaves them behind."""

from __future__ import annotations

from pathlib import Path

import pytest

import lightloom
from lightloom.core.files import source_hash
from lightloom.planning.pricing import schedule_prices

PACKAGES = ("core", "exchange/compression", "photonics", "machines", "collectives", "planning/pricing")
"""Packages that build, verify and cost a schedule; the averager's latency comes from photonics."""


@pytest.mark.parametrize("package", PACKAGES)
def test_a_change_in_any_file_of_a_package_changes_the_hash(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source_hash.cache_clear()
    before = source_hash(*schedule_prices._PRICING)
    read = Path.read_bytes
    folder = Path(lightloom.__file__).parent / package
    files, catalogs = sorted(folder.rglob("*.py")), sorted(folder.rglob("*.yaml"))
    for changed in (files[0], files[len(files) // 2], files[-1], *catalogs[:1], *catalogs[-1:]):
        with monkeypatch.context() as patch:
            patch.setattr(Path, "read_bytes", lambda path, changed=changed: read(path) + b"#" * (path == changed))
            source_hash.cache_clear()
            assert source_hash(*schedule_prices._PRICING) != before
    source_hash.cache_clear()
    assert source_hash(*schedule_prices._PRICING) == before
