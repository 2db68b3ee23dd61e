"""Export a mesh as a netlist for SAX, the S-parameter simulator; `photonics.chip` has the models, and whole chips.

    circuit, info = sax.circuit(netlist=netlist(mesh), models=photonics.chip.models())
    circuit(wl=1.55)["in0", "out3"]

Light enters at ``in0``, ``in1``, ... and leaves at ``out0``, ...; dark modes are not connected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
