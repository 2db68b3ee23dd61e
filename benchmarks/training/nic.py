"""A gradient through the emulated NIC pair: ``python -m benchmarks.training.nic --gradient middle.npy [--json PATH]``.

The file crosses from one network namespace to the other over the kernel's own TCP, marked with ToS 0x28 and unmarked,
at MTU 9000 and 1500; engines in user space compress what is marked. Wire bytes and packets are counted where they
cross, IP and TCP headers, acknowledgements and repeated segments included. Times of a TUN device are not a NIC's, so
none are taken. Linux and root only; elsewhere one line says so, and the status is 2.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.codec import load
from benchmarks.support.emulated_nic import ADDRESSES, MARK, Hosts, hosts
from benchmarks.support.measure import exit_clearly, print_rows
from benchmarks.support.peers import Values
from lightloom.core.errors import LightloomError
from lightloom.core.files import check_writable, write_atomically
from lightloom.core.results import provenance
from lightloom.exchange.compression.registry import find

CODEC = "inceptionn:2^-10"
MTUS = (9000, 1500)
FEWER = 9.0
"""How many times fewer bytes marked traffic should take at MTU 9000 when the codec's ratio is at least 10."""
_SECONDS = 120

_RECEIVE = """
import socket, sys
server = socket.create_server((sys.argv[1], 5000))
server.settimeout(60)
print("ready", flush=True)
connection, _ = server.accept()
connection.settimeout(60)
with open(sys.argv[2], "wb") as file:
    while piece := connection.recv(1 << 16):
        file.write(piece)
"""
_SEND = """
import socket, sys
connection = socket.create_connection((sys.argv[1], 5000), timeout=60)
connection.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, int(sys.argv[2]))
with open(sys.argv[3], "rb") as file:
    connection.sendfile(file)
connection.close()
"""


def transfer(pair: Hosts, tos: int, values: Values, folder: Path) -> Values:
    """Send the values from host 0 to host 1 and return what arrived.

    Raises:
        LightloomError: not all bytes arrived.
    """
    sent, received = folder / "sent", folder / "received"
    sent.write_bytes(values.tobytes())
    receiver = subprocess.Popen(
        pair.command(1, sys.executable, "-c", _RECEIVE, ADDRESSES[1], str(received)), stdout=subprocess.PIPE, text=True
    )
    try:
        if receiver.stdout is None or receiver.stdout.readline().strip() != "ready":
            raise LightloomError("the receiver did not start")
        send = pair.command(0, sys.executable, "-c", _SEND, ADDRESSES[1], str(tos), str(sent))
        subprocess.run(send, check=True, timeout=_SECONDS)
        receiver.wait(timeout=_SECONDS)
    finally:
        receiver.kill()
        receiver.wait()
    data = received.read_bytes()
    if len(data) != values.nbytes:
        raise LightloomError(f"{len(data)} of {values.nbytes} bytes arrived")
    return np.frombuffer(data, "<f4")


def measure(values: Values, mtu: int, *, marked: bool) -> dict[str, Any]:
    """One row: packets and bytes on the wire, and what became of the values."""
    with tempfile.TemporaryDirectory() as folder, hosts(find(CODEC), mtu=mtu) as pair:
        arrived = transfer(pair, MARK if marked else 0, values, Path(folder))
        counters = pair.engines.counters
    return {
        "mtu": mtu,
        "marked": marked,
        "packets": counters.packets,
        "compressed_packets": counters.marked_packets,
        "host_bytes": counters.host_bytes,
        "wire_bytes": counters.wire_bytes,
        "compressed_host_bytes": counters.marked_host_bytes,
        "compressed_wire_bytes": counters.marked_wire_bytes,
        "byte_exact": bool(np.array_equal(arrived.view(np.uint32), values.view(np.uint32))),
        "equals_codec": bool(np.array_equal(arrived, find(CODEC).round_trip(values), equal_nan=True)),
        "largest_error": float(np.abs(arrived.astype(np.float64) - values).max()),
    }


def run(path: Path) -> dict[str, Any]:
    """Send the file four times: two MTUs, marked and unmarked."""
    values = load(path)
    found: dict[str, Any] = {
        "gradient": path.stem,
        "values": values.size,
        "codec": CODEC,
        "codec_ratio": values.nbytes / len(find(CODEC).encode(values)),
        "transfers": [],
        "provenance": provenance({"gradient": path.stem, "codec": CODEC, "mtus": MTUS}),
    }
    for mtu in MTUS:
        plain, marked = (measure(values, mtu, marked=each) for each in (False, True))
        marked["times_fewer_bytes_marked_packets"] = marked["compressed_host_bytes"] / marked["compressed_wire_bytes"]
        marked["times_fewer_bytes_all_packets"] = plain["wire_bytes"] / marked["wire_bytes"]
        found["transfers"] += [plain, marked]
    return found


def verdict(found: dict[str, Any]) -> str:
    """The target at MTU 9000, met or not."""
    marked = next(each for each in found["transfers"] if each["marked"] and each["mtu"] == MTUS[0])
    exact = all(each["byte_exact"] for each in found["transfers"] if not each["marked"])
    fewer, ratio = marked["times_fewer_bytes_marked_packets"], found["codec_ratio"]
    if ratio < 10:
        word = "no verdict, the codec's ratio is below 10"
    else:
        word = "met" if fewer >= FEWER and exact else "MISSED"
    return (
        f"codec ratio {ratio:.2f}; at MTU {MTUS[0]} marked packets took {fewer:.2f} times fewer bytes "
        f"(target {FEWER:g}: {word}); unmarked traffic byte-exact: {exact}"
    )


def main(arguments: list[str] | None = None) -> None:
    """Send, print one JSON object a line and the verdict, write JSON if asked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training.nic", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--gradient", type=Path, required=True, help="a flat float32 .npy file")
    parser.add_argument("--json", type=Path, help="write the measurement here")
    asked = parser.parse_args(arguments)
    if asked.json is not None:
        check_writable(asked.json)
    found = run(asked.gradient)
    print_rows(found["transfers"])
    print(verdict(found))
    if asked.json is not None:
        write_atomically(asked.json, json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(exit_clearly(main))
