"""Files that would take all time or memory are refused in one line, before either is taken."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.core.test_documents import BOMBS
from tests.model_files.test_megatron import GPT
from tests.model_files.test_transformers import LLAMA

SECONDS = 2.0
"""Of a processor, start-up of the program included."""
MOST_BYTES = 500e6
TRIES = 3
"""Other work on the machine makes the same instructions take longer."""


MEASURE = """
import json, os, subprocess, sys
with subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
    out, err = child.stdout.read(), child.stderr.read()
    _, status, use = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
print(json.dumps([child.returncode, out, err, use.ru_utime + use.ru_stime, use.ru_maxrss * 1024.0]))
"""
"""A small program that runs another: the largest memory of a child counts that of the process that started it, and a
worker of the tests may hold a gigabyte."""


def refused(*arguments: str) -> tuple[str, float, float]:
    """Run the program, which must refuse; return its line, its processor seconds and its largest memory in bytes."""
    command = [sys.executable, "-S", "-c", MEASURE, sys.executable, "-m", "lightloom", *arguments]
    measured = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    status, out, err, seconds, memory = json.loads(measured)
    assert status == 2 and not out and err.count("\n") == 1, (status, err[-2000:])
    return err, seconds, memory


def packed() -> bytes:
    """4 MB of gzip that unpack to 3 GB: a trace at its begin, and blanks."""
    return gzip.compress(b'{"traceEvents": [], "schema": 1, "nodes": [' + bytes([32]) * (1 << 26)) + 47 * gzip.compress(
        bytes([32]) * (1 << 26)
    )


FILES = {
    "brackets.yaml": ("--cluster", BOMBS["deep list"], "inside of each other"),
    "aliases.yaml": ("--cluster", BOMBS["aliases"], "values, repeated ones included"),
    "circle.yaml": ("--cluster", BOMBS["alias of itself"], "stands for what it is in"),
    "packed.json.gz": ("model", "", "unpacks to more than"),
    "layers.sh": ("model", GPT.format(layers=100_000_000, more=""), "100,000,000 layers: expected at most"),
    "layers.json": ("model", json.dumps(LLAMA | {"num_hidden_layers": 10**7}), "num_hidden_layers"),
    "ns3.txt": ("--cluster", "99999999 1 3\n3\n0 3 400Gbps 0.0005ms 0\n", "ns3.txt"),
    "keys.json": (
        "model",
        '{"traceEvents": [], ' + ",".join(f'"k{n}":0' for n in range(60_000)) + ',"k1":1}',
        "holds no operator",
    ),
    "ifs.sh": ("model", "if true; then\n" * 3000 + "TP=1\n" + "fi\n" * 3000, "inside of each other"),
}


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "wait4"), reason="needs wait4 of Unix")
@pytest.mark.parametrize("name", FILES)
def test_what_would_take_all_time_or_memory_is_refused_soon(name: str, tmp_path: Path) -> None:
    place, content, complaint = FILES[name]
    path = tmp_path / name
    path.write_bytes(packed() if name == "packed.json.gz" else content.encode())
    asked = ("resnet50", "--cluster", str(path)) if place == "--cluster" else (str(path), "--cluster", "dgx-h100-64")
    for _ in range(TRIES):
        line, seconds, memory = refused("plan", *asked)
        assert complaint in line and memory < MOST_BYTES
        if seconds < SECONDS:
            return
    raise AssertionError(f"{seconds:.2f} seconds of a processor")
