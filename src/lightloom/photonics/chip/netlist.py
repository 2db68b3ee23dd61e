"""Netlists of whole averagers for SAX: P, every layer with its gains and units, and T.

    averager = map_averager(network, arguments, MeshMapping(form="compact"))
    circuit, _ = sax.circuit(netlist=chip_netlist(averager), models=models())
    circuit(wl=1.551)["in0", "out3"]

An instance's name says where it is: ``layer1_b2_mzi_3_1`` is block 2 of layer 1, column 3, waveguide 1. Dark inputs of
interferometers and dumps of attenuators are not connected.
"""

from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np

from lightloom.core.arrays import Floats
from lightloom.core.errors import UnsupportedError
from lightloom.core.results import attributes
from lightloom.photonics.averaging.mapped import MappedAverager, Part
from lightloom.photonics.chip.wavelengths import COLUMN_LENGTH, SEEDS, Dispersion, arm_lengths, guide_phase
from lightloom.photonics.meshes.mapping import MappedMatrix
from lightloom.photonics.meshes.mesh import Mesh

# Models for SAX of everything that a netlist names: interferometers, phases, waveguides, gains, units.
#
# Every model takes the wavelength as SAX does, ``wl`` in µm, and so does the circuit: ``circuit(wl=1.552)``. Phases
# are those at the wavelength at which the chip was set; `wavelengths.Dispersion` says how they change beside it.
#
# mzi     B(π/4 + slope · (wl - wl0)) · diag(e^{iθ}, 1) · B · diag(e^{iφ}, 1), all phases of heaters times wl0 / wl
# guide   the phase of a waveguide beyond that at wl0

_MICRO = 1e6
_ASSUMED = Dispersion()
_WAVELENGTH = _ASSUMED.wavelength * _MICRO
_SLOPE = _ASSUMED.coupler_slope / _MICRO
_INDEX, _GROUP = _ASSUMED.effective_index, _ASSUMED.group_index

Paths = dict[tuple[str, str], Any]


def dispersion_settings(dispersion: Dispersion) -> dict[str, float]:
    """Return a dispersion as settings of the models, by name: ``wl0`` in µm, ``slope`` of the couplers' mixing angle in
    radians per µm, ``effective_index`` and ``group_index``."""
    lengths = {"wl0": dispersion.wavelength * _MICRO, "slope": dispersion.coupler_slope / _MICRO}
    return lengths | attributes(dispersion, "effective_index group_index")


def _reciprocal(paths: Paths) -> Paths:
    """Return S-parameters by pairs of ports, with the reverse of each pair added at the same value."""
    return paths | {(end, start): value for (start, end), value in paths.items()}


def models() -> dict[str, Any]:
    """Return models for SAX of all devices by name: ``mzi``, ``phase``, ``guide``, ``amplifier`` and ``unit``.

    Each is a function from the wavelength ``wl`` in µm and settings to S-parameters by pairs of ports, without
    reflections; ports are ``in0`` and ``out0``, of ``mzi`` also ``in1`` and ``out1``. Settings are those of
    `Dispersion` by the names of `dispersion_settings`, with its defaults, and, 0 where not told: ``theta`` (π by
    default) and ``phi`` in radians at ``wl0``, ``theta_length`` and ``phi_length``, by which their arms are too long,
    and ``length`` of the column, in µm, of ``mzi``; ``phase`` in radians at ``wl0``; ``length`` of ``guide`` in µm. The
    first three are reciprocal; amplifiers and units pass light forwards only, with an amplitude of ``gain`` and
    ``slope`` (1 by default) at every wavelength.

    Raises:
        ImportError: JAX is not installed, which SAX brings along.
    """
    jnp: Any = import_module("jax.numpy")

    def mzi(
        wl: float | Floats = _WAVELENGTH,
        *,
        theta: float = np.pi,
        phi: float = 0.0,
        theta_length: float = 0.0,
        phi_length: float = 0.0,
        length: float = 0.0,
        wl0: float = _WAVELENGTH,
        slope: float = _SLOPE,
        effective_index: float = _INDEX,
        group_index: float = _GROUP,
    ) -> Paths:
        """Return the S-parameters of an interferometer between its ports ``in0``, ``in1``, ``out0`` and ``out1``.

        Args:
            wl: wavelength in µm, or several.
            theta, phi: phases in radians at the wavelength ``wl0``.
            theta_length, phi_length: µm by which the arms of θ and φ are too long.
            length: µm of the whole column.
            wl0: wavelength in µm for which phases and couplers are made.
            slope: radians by which a coupler's angle changes with each µm of wavelength, from π/4 at ``wl0``.
            effective_index, group_index: of the waveguide at ``wl0``.
        """
        indices = (wl0, effective_index, group_index)
        upper_theta = jnp.exp(1j * (theta * wl0 / wl + guide_phase(wl, theta_length, *indices)))
        upper_phi = jnp.exp(1j * (phi * wl0 / wl + guide_phase(wl, phi_length, *indices)))
        common = jnp.exp(1j * guide_phase(wl, length, *indices))
        angle = np.pi / 4 + slope * (wl - wl0)
        straight, across = jnp.cos(angle), 1j * jnp.sin(angle)
        cross = straight * across * (upper_theta + 1)
        paths = {("in0", "out0"): common * upper_phi * (straight**2 * upper_theta + across**2)}
        paths |= {("in1", "out0"): common * cross, ("in0", "out1"): common * upper_phi * cross}
        paths |= {("in1", "out1"): common * (across**2 * upper_theta + straight**2)}
        return _reciprocal(paths)

    def phase(wl: float | Floats = _WAVELENGTH, phase: float = 0.0, wl0: float = _WAVELENGTH) -> Paths:
        """Return the S-parameters of a phase shifter, whose phase in radians is that at ``wl0``."""
        return _reciprocal({("in0", "out0"): jnp.exp(1j * phase * wl0 / wl)})

    def guide(
        wl: float | Floats = _WAVELENGTH,
        length: float = 0.0,
        wl0: float = _WAVELENGTH,
        effective_index: float = _INDEX,
        group_index: float = _GROUP,
    ) -> Paths:
        """Return the S-parameters of a waveguide: its phase beyond that at ``wl0``; lengths in µm."""
        return _reciprocal({("in0", "out0"): jnp.exp(1j * guide_phase(wl, length, wl0, effective_index, group_index))})

    def amplifier(wl: float | Floats = _WAVELENGTH, gain: float = 1.0) -> Paths:
        """Return the S-parameters of an amplitude gain, the same at all wavelengths (an assumption); light back is
        absorbed."""
        return {("in0", "out0"): gain + 0j * jnp.asarray(wl), ("out0", "in0"): 0j * jnp.asarray(wl)}

    def unit(wl: float | Floats = _WAVELENGTH, slope: float = 1.0) -> Paths:
        """Return the S-parameters of a nonlinear unit for small signals around its operating point; light back is
        absorbed."""
        return {("in0", "out0"): slope + 0j * jnp.asarray(wl), ("out0", "in0"): 0j * jnp.asarray(wl)}

    return {"mzi": mzi, "phase": phase, "guide": guide, "amplifier": amplifier, "unit": unit}


Netlist = dict[str, Any]
"""Instances, connections and ports, as `sax.circuit` takes them."""


def chip_netlist(
    averager: MappedAverager,
    dispersion: Dispersion | None = None,
    *,
    slope: float = 1.0,
    seed: int = 0,
    column_length: float = COLUMN_LENGTH,
) -> Netlist:
    """Return the netlist of a whole averager for SAX, a dict of ``instances``, ``connections`` and ``ports``: ports
    ``in0``, ... are the senders' lanes, ``out0``, ... the receivers'.

    Behind each output of a block stands an amplifier, behind each of a layer also a ``unit``. Blocks shorter than their
    part end in waveguides. Lanes that connect to nothing have no port.

    Args:
        averager: the meshes of P, the layers and T.
        dispersion: how devices change with the wavelength; the default one where None.
        slope: that of the ``unit`` instances, for small signals: S-parameters have no sources, so the biases in front
            of units are not in the netlist.
        seed: seed of the lengths of the arms, which are those of `chip_matrix` with the same seed.
        column_length: metres of a column of interferometers.

    Raises:
        UnsupportedError: blocks share inputs or outputs (sigma-u), which needs splitters.
    """
    builder = _NetlistBuilder(dispersion or Dispersion(), column_length)
    lanes = averager.preprocessing.shape[1]
    ends = {mode: f"in{mode}" for mode in range(lanes)}
    for place, (name, part) in enumerate(averager.parts.items()):
        word = name.replace(" ", "")
        ends = builder.part(word, part, ends, seed + SEEDS * place)
        if name.startswith("layer"):
            ends = {mode: builder.one(f"{word}_unit_{mode}", "unit", end, slope=slope) for mode, end in ends.items()}
    return builder.netlist(lanes, ends)


@dataclass
class _NetlistBuilder:
    """Instances and connections so far.

    Methods take the ports behind which they add devices, by waveguide, and return those of the lit outputs. The name of
    a lane of the senders (``in0``) stands for its port; what it connects to becomes that port in the end.
    """

    dispersion: Dispersion
    column_length: float
    instances: dict[str, Any] = field(default_factory=dict)
    connections: dict[str, str] = field(default_factory=dict)

    def netlist(self, lanes: int, ends: dict[int, str]) -> Netlist:
        """Return the netlist of all that was added, a dict of ``instances``, ``connections`` and ``ports``, with
        ``lanes`` lanes of the senders and the receivers' lanes at ``ends``.

        ``ends`` are ports of instances by the number of the lane. Ports of lanes that connect to nothing are left out.
        It removes the senders' lanes from ``connections``: call it once.
        """
        ports = {f"in{mode}": self.connections.pop(f"in{mode}", "") for mode in range(lanes)}
        ports |= {f"out{mode}": end for mode, end in sorted(ends.items())}
        lit = {name: port for name, port in ports.items() if port}
        return {"instances": self.instances, "connections": self.connections, "ports": lit}

    def add(self, name: str, component: str, **settings: float) -> None:
        """Add an instance ``name`` of the model ``component``, a name in `models`, with its settings."""
        self.instances[name] = {"component": component, "settings": settings}

    def one(self, name: str, component: str, start: str, **settings: float) -> str:
        """Add a device of one input and one output behind the port ``start``, and return the port of its output.

        ``component`` is a name in `models`; ``settings`` are those of the model. Ports are texts such as
        ``layer1_unit_0,out0``, or ``in0`` for a lane of the senders.
        """
        self.add(name, component, **settings)
        self.connections[start] = f"{name},in0"
        return f"{name},out0"

    def guide(self, name: str, start: str, columns: int) -> str:
        """Add a waveguide as long as ``columns`` columns behind the port ``start``, and return the port of its
        output."""
        constants = dispersion_settings(self.dispersion)
        constants.pop("slope")
        return self.one(name, "guide", start, length=self.column_length * columns * _MICRO, **constants)

    def mzi(self, name: str, phases: Floats, arms: Floats) -> None:
        """Add an interferometer ``name`` that is not connected yet.

        ``phases`` are θ and φ in radians, ``arms`` the excess lengths of the arms of θ and of φ in µm.
        """
        heaters = {"theta": float(phases[0]), "phi": float(phases[1])}
        lengths = {"theta_length": float(arms[0]), "phi_length": float(arms[1]), "length": self.column_length * _MICRO}
        self.add(name, "mzi", **heaters, **lengths, **dispersion_settings(self.dispersion))

    def part(self, name: str, part: Part, starts: dict[int, str], seed: int) -> dict[int, str]:
        """Add the blocks of a part, with an amplifier of the block's gain behind each output, and return the ports of
        the lit outputs, by the output's number.

        Outputs are lit if light from ``starts`` can come to them. Waveguides between block and amplifiers make blocks
        of fewer columns as long as the part.

        Args:
            name: start of the instances' names, which is followed by the block, from 1: ``layer1_b1_v_mzi_0_0``.
            part: the meshes of P, a layer or T.
            starts: ports in front of the part, by the number of the part's input; other inputs are dark.
            seed: seed of the lengths of the arms, drawn as by `part_matrix`: every further block adds 3.

        Raises:
            UnsupportedError: blocks share waveguides.
        """
        for side in (part.outputs, part.inputs):
            modes = np.concatenate([*side, np.empty(0, np.int64)])
            if np.unique(modes).size < modes.size:
                cure = "the form economy, compact or svd has none"
                raise UnsupportedError(f"{name}: blocks share waveguides (sigma-u): {cure}")
        ends: dict[int, str] = {}
        for number, (block, rows, columns) in enumerate(zip(part.blocks, part.outputs, part.inputs, strict=True)):
            prefix = f"{name}_b{number + 1}"
            live = {place: starts[int(mode)] for place, mode in enumerate(columns) if int(mode) in starts}
            behind = self.block(prefix, block, live, seed + 3 * number)
            for place, mode in enumerate(rows):
                if place not in behind:
                    continue
                end = behind[place]
                if part.depth > block.depth:
                    end = self.guide(f"{prefix}_end_{place}", end, part.depth - block.depth)
                ends[int(mode)] = self.one(f"{prefix}_gain_{place}", "amplifier", end, gain=float(block.gains[place]))
        return ends

    def block(self, prefix: str, block: MappedMatrix, starts: dict[int, str], seed: int) -> dict[int, str]:
        """Add V†, Σ (one interferometer to each lit mode) and U, where it has one, of a block, without its gains, and
        return the ports of the lit outputs, by their number.

        ``starts`` are ports in front of the block by the number of its input, ``prefix`` starts the instances' names,
        and ``seed`` draws the lengths of the arms of V†, ``seed + 1`` and ``seed + 2`` those of Σ and U.
        """
        ends = self.mesh(f"{prefix}_v", block.input_mesh, starts, seed)
        sigma = block.attenuator_phases
        arms = arm_lengths(sigma.shape[1], self.dispersion, seed + 1) * _MICRO
        passed: dict[int, str] = {}
        for mode in range(min(sigma.shape[1], block.input_mesh.outputs)):
            if mode in ends:
                name = f"{prefix}_s_mzi_0_{mode}"
                self.mzi(name, sigma[:, mode], arms[:, mode])
                self.connections[ends[mode]] = f"{name},in0"
                passed[mode] = f"{name},out0"
        if block.output_mesh is None:
            return passed
        return self.mesh(f"{prefix}_u", block.output_mesh, passed, seed + 2)

    def mesh(self, prefix: str, mesh: Mesh, starts: dict[int, str], seed: int) -> dict[int, str]:
        """Add one mesh with its output phases, and return the ports of the lit outputs, by mode.

        Waveguides fill the columns in which a lit mode has no interferometer. ``starts`` are ports in front of the mesh
        by mode, ``prefix`` starts the instances' names, and ``seed`` draws the lengths of the arms.
        """
        place, phases, arms = mesh.layout, mesh.phases, arm_lengths(mesh.mzis, self.dispersion, seed) * _MICRO
        ends = dict(starts)
        passed = dict.fromkeys(range(place.size), 0)

        def fill(mode: int, column: int) -> None:
            """Add a waveguide to a lit mode from the column that it has reached to ``column``."""
            missing = column - passed[mode]
            if missing and mode in ends:
                ends[mode] = self.guide(f"{prefix}_guide_{passed[mode]}_{mode}", ends[mode], missing)
            passed[mode] = column

        for k, (mode, column) in enumerate(zip(place.modes.tolist(), place.columns.tolist(), strict=True)):
            name = f"{prefix}_mzi_{column}_{mode}"
            self.mzi(name, phases[:, k], arms[:, k])
            for port in (0, 1):
                fill(mode + port, column)
                if mode + port in ends:
                    self.connections[ends[mode + port]] = f"{name},in{port}"
                ends[mode + port] = f"{name},out{port}"
                passed[mode + port] = column + 1
        results: dict[int, str] = {}
        for mode in range(mesh.outputs):
            fill(mode, place.depth)
            if mode in ends:
                settings = {"phase": float(mesh.output_phases[mode]), "wl0": self.dispersion.wavelength * _MICRO}
                results[mode] = self.one(f"{prefix}_phase_{mode}", "phase", ends[mode], **settings)
        return results
