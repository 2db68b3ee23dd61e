"""What is free is no more than what the process may take: refusals come before memory does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lightloom.core import memory
from lightloom.core.errors import UnsupportedError

_LIMITED = """
import resource
import numpy as np
from lightloom.core.memory import free_memory, lacking_memory
resource.setrlimit(resource.RLIMIT_AS, ({limit}, {limit}))
free = free_memory()
assert lacking_memory(1.5 * free, "twice as much") and not lacking_memory(0.5 * free, "half of it")
np.empty(int(0.9 * free), np.uint8)
try:
    np.empty(int(1.1 * free), np.uint8)
except MemoryError:
    print("as it said")
"""


def test_the_limit_of_the_process_is_what_can_be_taken() -> None:
    """Under ``ulimit -v`` nine tenths of what is said to be free can be taken, and not a tenth more than all."""
    script = _LIMITED.format(limit=3 << 30)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.strip() == "as it said", done.stderr


@pytest.mark.parametrize(
    ("line", "folder", "names"),
    [
        ("0::/jobs/mine", "", ("memory.max", "memory.current")),
        ("4:memory:/jobs/mine", "memory", ("memory.limit_in_bytes", "memory.usage_in_bytes")),
    ],
    ids=["version 2", "version 1"],
)
def test_outer_control_groups_count(
    line: str, folder: str, names: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The group of the process has no limit of its own, the one around it has."""
    groups = tmp_path / "cgroup"
    groups.write_text(f"1:cpu:/\n{line}\n", encoding="utf-8")
    for at, limit in (("jobs/mine", "max"), ("jobs", str(5 << 30))):
        group = tmp_path / folder / at
        group.mkdir(parents=True, exist_ok=True)
        (group / names[0]).write_text(limit, encoding="utf-8")
        (group / names[1]).write_text(str(4 << 30), encoding="utf-8")
    monkeypatch.setattr(memory, "_GROUPS", groups)
    monkeypatch.setattr(memory, "_GROUP_ROOT", tmp_path)
    assert memory.free_memory() <= 1 << 30
    with pytest.raises(UnsupportedError, match=r"needs about 1\.5 GiB of memory"):
        memory.require_memory(1.5 * (1 << 30), "a table")
