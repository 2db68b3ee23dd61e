"""Export a mesh as a netlist for SAX, the S-parameter simulator, with the two device models that it needs.

    circuit, info = sax.circuit(netlist=netlist(mesh), models=models())
    circuit()["in0", "out3"]

Light enters at ``in0``, ``in1``, ... and leaves at ``out0``, ...; dark modes are not connected.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from lightloom.photonics.meshes.mesh import Mesh


def netlist(mesh: Mesh) -> dict[str, Any]:
    """Return instances ``mzi_<column>_<mode>`` and ``phase_<mode>`` with phases in radians, connections and ports."""
    mesh_layout = mesh.layout
    instances: dict[str, Any] = {}
    connections: dict[str, str] = {}
    ports: dict[str, str] = {}
    ends: dict[int, str] = {}

    def join(mode: int, port: str) -> None:
        if mode in ends:
            connections[ends[mode]] = port
        elif mode < mesh.inputs:
            ports[f"in{mode}"] = port

    for mode, column, theta, phi in zip(mesh_layout.modes, mesh_layout.columns, mesh.theta, mesh.phi, strict=True):
        name = f"mzi_{column}_{mode}"
        instances[name] = {"component": "mzi", "settings": {"theta": float(theta), "phi": float(phi)}}
        for port in (0, 1):
            join(int(mode) + port, f"{name},in{port}")
            ends[int(mode) + port] = f"{name},out{port}"
    for mode, phase in enumerate(mesh.output_phases):
        name = f"phase_{mode}"
        instances[name] = {"component": "phase", "settings": {"phase": float(phase)}}
        join(mode, f"{name},in0")
        ports[f"out{mode}"] = f"{name},out0"
    return {"instances": instances, "connections": connections, "ports": ports}


def models() -> dict[str, Any]:
    """Return reciprocal, reflection-free models of both devices; they need JAX, which SAX installs.

    Raises:
        ImportError: JAX is not installed.
    """
    jnp: Any = import_module("jax.numpy")

    def reciprocal(paths: dict[tuple[str, str], Any]) -> dict[tuple[str, str], Any]:
        return paths | {(end, start): value for (start, end), value in paths.items()}

    def mzi(theta: float = np.pi, phi: float = 0.0) -> dict[tuple[str, str], Any]:
        common = 1j * jnp.exp(0.5j * theta)
        entry = common * jnp.exp(1j * phi)
        sine, cosine = jnp.sin(theta / 2), jnp.cos(theta / 2)
        return reciprocal(
            {
                ("in0", "out0"): entry * sine,
                ("in1", "out0"): common * cosine,
                ("in0", "out1"): entry * cosine,
                ("in1", "out1"): -common * sine,
            }
        )

    def phase(phase: float = 0.0) -> dict[tuple[str, str], Any]:
        return reciprocal({("in0", "out0"): jnp.exp(1j * phase)})

    return {"mzi": mzi, "phase": phase}
