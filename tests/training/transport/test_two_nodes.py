"""Two nodes, each a network namespace with a torchrun of its own; nobody is told an address but that of the master."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="torchrun is torch's")

from benchmarks.support.limited_links import (
    DEVICE,
    LimitedHosts,
    limited_links,
    refusal,
)

from tests.launched import TIMEOUT

NODES, RANKS_OF_A_NODE = 2, 2
PORT = 29_500
"""Any: the namespaces are new."""
VICTIM = 3

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(refusal() is not None, reason=str(refusal())),
]


def torchrun(links: LimitedHosts, folder: Path, phase: str) -> tuple[list[int], list[dict[str, Any]]]:
    """Run one phase on all nodes; return their exit codes and what each rank wrote."""
    processes, logs = [], []
    for node, host in enumerate(links.hosts):
        command = [
            *(sys.executable, "-m", "torch.distributed.run", "--nnodes", str(NODES), "--node-rank", str(node)),
            *("--nproc-per-node", str(RANKS_OF_A_NODE), "--master-addr", links.address(0), "--master-port", str(PORT)),
            *("--monitor-interval", "5", "-m", "tests.training.transport.node_worker", str(folder), phase),
        ]
        # Gloo takes the address of the host's name, which is that of another namespace here.
        paths = os.pathsep.join(path for path in sys.path if path)
        own = {"GLOO_SOCKET_IFNAME": DEVICE, "OMP_NUM_THREADS": "1", "PYTHONPATH": paths}
        logs.append(folder / f"{phase}-{node}.log")
        with logs[-1].open("wb") as log:
            processes.append(subprocess.Popen(host.command(*command), env=os.environ | own, stdout=log, stderr=log))
    try:
        codes = [process.wait(TIMEOUT) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    results = []
    for rank in range(NODES * RANKS_OF_A_NODE):
        path = folder / f"{phase}-{rank}.json"
        assert path.exists(), "".join(log.read_text(errors="replace")[-3000:] for log in logs)
        results.append(json.loads(path.read_text()))
    return codes, results


def test_two_nodes_train_resume_and_lose_a_rank(tmp_path: Path) -> None:
    with limited_links(NODES, None) as links:
        codes, trained = torchrun(links, tmp_path, "train")
        assert codes == [0, 0]
        resumed_codes, resumed = torchrun(links, tmp_path, "resume")
        nodes = [links.address(node) for node in range(NODES)]

    # Without host=, ranks are called at the addresses of their nodes.
    assert [rank["addresses"] for rank in trained] == [
        [nodes[0], nodes[0]],
        [nodes[0], nodes[1]],
        [nodes[1], nodes[1]],
        [nodes[1], nodes[0]],
    ]

    # Replicas agree, and a resumed run ends with the bits of the one that was never interrupted.
    for method, digest in trained[0]["digests"].items():
        ends = {rank["digests"][method] for rank in trained + resumed}
        assert ends == {digest}, method
        for before, after in zip(trained, resumed, strict=True):
            assert after["digests"][method] == before["digests"][method], method

    # A rank is killed: each other one is told in one line, long before the timeout.
    assert all(code != 0 for code in resumed_codes)
    for number, rank in enumerate(resumed):
        if number != VICTIM:
            assert rank["death"]["words"].startswith(f"TransportError: rank {number}: "), rank
            assert "\n" not in rank["death"]["words"]
            assert rank["death"]["seconds"] < 60
    assert any(f"rank {VICTIM} closed its connection" in rank.get("death", {}).get("words", "") for rank in resumed)
