"""Limited links: the rate holds, in both directions, for streams that share a link, and nothing remains."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from benchmarks.support import limited_links as links
from benchmarks.support.limited_links import (
    launch_limited,
    limited_links,
    refusal,
    stream_rates,
)

from lightloom.core.errors import UnsupportedError
from tests.training.transport.rings import PATIENCE

needs_links = pytest.mark.skipif(refusal() is not None, reason=str(refusal()))
RATE = 200e6


def devices() -> set[str]:
    return {path.name for path in Path("/sys/class/net").iterdir()}


def gone(path: Path) -> bool:
    """Whether a thread has ended; the kernel may take a moment longer than whoever waited for it."""
    deadline = time.monotonic() + PATIENCE
    while path.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    return not path.exists()


def test_refused_in_one_line_where_it_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(UnsupportedError, match=r"^limiting links needs Linux$"), limited_links(2, RATE):
        pass


@pytest.mark.long
@needs_links
def test_no_stream_is_faster_than_its_link() -> None:
    """Not how fast it is, which a busy machine decides, but that nothing passes it: one way, both ways, shared."""
    nbytes = 4_000_000
    burst = 8 * links._BURST_SECONDS * RATE / nbytes
    for streams in (((0, 1),), ((0, 1), (1, 0)), ((1, 0), (2, 0))):
        rates = stream_rates(RATE, nbytes, streams=streams)
        assert all(0 < rate < RATE * (1 + burst) for rate in rates), rates
    assert min(rates) < RATE / 2 * (1 + burst), "two streams into one host share its link"
    with pytest.raises(UnsupportedError, match="a link of 0 bit/s"), limited_links(2, 0):
        pass


@pytest.mark.long
@needs_links
def test_nothing_remains_whatever_ends_it() -> None:
    before = devices()
    with pytest.raises(KeyboardInterrupt), limited_links(2, RATE) as two:
        paths = [Path(host.path) for host in (*two.hosts, two.switch)]
        assert all(path.exists() for path in paths)
        raise KeyboardInterrupt
    assert all(gone(path) for path in paths)
    code = "import time; from benchmarks.support.limited_links import limited_links\n"
    code += "with limited_links(2, 1e8) as two: print(two.hosts[0].path, flush=True); time.sleep(60)"
    for end in (signal.SIGINT, signal.SIGKILL):
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            assert process.stdout is not None
            path = Path(process.stdout.readline().decode().strip())
            assert path.exists()
            process.send_signal(end)
            process.wait(PATIENCE)
        finally:
            process.kill()
            process.communicate()
        assert gone(path)
    assert devices() == before


@pytest.mark.long
@needs_links
def test_ranks_have_hosts_of_their_own() -> None:
    pytest.importorskip("torch", reason="workers form a torch process group")
    from tests.training.transport import exchange_workers

    values = [o.value for o in launch_limited(exchange_workers.whereabouts, 2, 900, {"rank": 7}, rate_bits=RATE)]
    assert [value["host"] for value in values] == ["10.98.0.1", "10.98.0.2"]
    assert values[0]["namespace"] != values[1]["namespace"]
    assert all(value["namespace"] != Path("/proc/self/ns/net").stat().st_ino for value in values)
    assert [value["sum"] for value in values] == [3.0, 3.0]
