"""A second simulation of averaging by light: fields, interferometer by interferometer, from exported files alone.

It shares no code with `lightloom`: it reads the network (``onn build --out net.npz``) and the phases of its meshes
(``onn map net.npz --units --set form=svd --set components=true --out phases.json``), and a dictionary of the link's
settings as ``onn link --json`` prints it. Meshes are rectangles: column c holds interferometers on modes c mod 2, c mod
2 + 2, ..., each a phase φ on the upper arm, a coupler, a phase θ on the upper arm, and a coupler.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

ELECTRON, PLANCK, LIGHT, WAVELENGTH = 1.602176634e-19, 6.62607015e-34, 299792458.0, 1.55e-6
KNOWN_WORDS = 3000
Settings = dict[str, Any]
Array = Any


def coupler(upper: Array, lower: Array, angle: float) -> tuple[Array, Array]:
    """Mix two fields; an angle of π/4 halves the power."""
    straight, across = np.cos(angle), 1j * np.sin(angle)
    return straight * upper + across * lower, across * upper + straight * lower


class Rectangle:
    """A fabricated rectangle of interferometers."""

    def __init__(self, document: dict[str, Any], settings: Settings, rng: Any) -> None:
        if document["kind"] != "rectangular":
            raise ValueError(f"{document['kind']} meshes: map with --form svd")
        self.size = document["inputs"]
        modes = [mode for column in range(self.size) for mode in range(column % 2, self.size - 1, 2)]
        devices = fabricate(document["theta"], document["phi"], settings, rng)
        self.devices = list(zip(modes, devices, strict=True))
        errors = settings["phase_error"] * rng.normal(size=self.size)
        self.ends = np.exp(1j * (commanded(np.array(document["output_phases"]), settings) + errors))

    def __call__(self, fields: Array) -> Array:
        fields = fields.copy()
        for mode, device in self.devices:
            fields[mode], fields[mode + 1] = pass_device(fields[mode], fields[mode + 1], device)
        return fields * self.ends[:, None]


def commanded(phases: Array, settings: Settings) -> Array:
    """Phases as a converter of so many bits sets them; 0 bits are continuous."""
    levels = 2 ** settings["dac_bits"] / (2 * np.pi)
    return np.rint(phases * levels) / levels if settings["dac_bits"] else phases


def fabricate(thetas: list[float], phis: list[float], settings: Settings, rng: Any) -> list[tuple[float, ...]]:
    """Draw θ, φ, the angles of both couplers and the amplitude transmission of interferometers."""
    made: list[tuple[float, ...]] = []
    for theta, phi in zip(thetas, phis, strict=True):
        loss = settings["loss_db"] + settings["loss_spread_db"] * rng.normal()
        made.append(
            (
                commanded(theta, settings) + settings["phase_error"] * rng.normal(),
                commanded(phi, settings) + settings["phase_error"] * rng.normal(),
                np.pi / 4 + settings["coupler_error"] * rng.normal(),
                np.pi / 4 + settings["coupler_error"] * rng.normal(),
                10 ** (-max(loss, 0.0) / 20),
            )
        )
    return made


def pass_device(upper: Array, lower: Array, device: tuple[float, ...]) -> tuple[Array, Array]:
    """Let two fields through an interferometer."""
    theta, phi, first, second, transmission = device
    upper, lower = coupler(upper * np.exp(1j * phi), lower, first)
    upper, lower = coupler(upper * np.exp(1j * theta), lower, second)
    return transmission * upper, transmission * lower


class Block:
    """A fabricated V†, attenuators and U, without the gains."""

    def __init__(self, document: dict[str, Any], settings: Settings, rng: Any) -> None:
        self.outputs, self.inputs = document["shape"]
        self.first = Rectangle(document["input_mesh"], settings, rng)
        thetas = [2 * float(np.arcsin(a)) for a in document["attenuations"]]
        self.attenuators = fabricate(thetas, [-np.pi / 2 - t / 2 for t in thetas], settings, rng)
        self.last = Rectangle(document["output_mesh"], settings, rng)

    def __call__(self, fields: Array) -> Array:
        inner = self.first(fields)
        passed = np.zeros((self.outputs, fields.shape[1]), complex)
        for index, device in enumerate(self.attenuators[: min(self.inputs, self.outputs)]):
            passed[index] = pass_device(inner[index], np.zeros_like(inner[index]), device)[0]
        return self.last(passed)


class Part:
    """A fabricated matrix: blocks on their waveguides, and the designed gain of every output."""

    def __init__(self, document: dict[str, Any], settings: Settings, rng: Any) -> None:
        self.outputs, inputs = document["shape"]
        self.guides = document.get("waveguides", [{"outputs": range(self.outputs), "inputs": range(inputs)}])
        self.blocks = [Block(block, settings, rng) for block in document["blocks"]]
        self.gains = np.ones(self.outputs)
        for block, guide in zip(document["blocks"], self.guides, strict=True):
            self.gains[guide["outputs"]] = block["gains"]

    def __call__(self, fields: Array) -> Array:
        out = np.zeros((self.outputs, fields.shape[1]), complex)
        for block, guide in zip(self.blocks, self.guides, strict=True):
            out[guide["outputs"]] = block(fields[guide["inputs"]])
        return out


@dataclass
class Network:
    """The network's file: weights and biases in units of full scale."""

    servers: int
    bits: int
    offset: int
    weights: list[Array]
    biases: list[Array]
    output_level: float
    decides: list[Array]

    def lanes(self, codes: Array) -> Array:
        """Levels / 3 of codes [servers, words]: [servers, signals, words]."""
        places = [4 ** ((self.bits // 2) - 1 - k) for k in range(self.bits // 2)]
        return np.stack([(codes // place) % 4 for place in places], axis=1) / 3

    def arguments(self, averages: Array) -> list[Array]:
        """Ideal arguments of every layer for P's ideal outputs [inputs, words]."""
        found = [averages]
        for w, b in zip(self.weights, self.biases, strict=True):
            found.append(w @ (np.clip(found[-1], 0, 1) if len(found) > 1 else averages) + b[:, None])
        return found[1:]


def read_network(path: Path) -> Network:
    """Read ``net.npz`` of clipped units whose inputs are one digit each."""
    with np.load(path) as file:
        content = {name: file[name] for name in file.files}
    depth = sum(name.startswith("weights_") for name in content)
    scales = [float(content[f"full_scale_{k}"].max()) for k in range(depth + 1)]
    servers, bits = int(content["servers"]), int(content["bits"])
    if str(content["nonlinearity"]) != "clipped" or content["weights_1"].shape[1] != -(-bits // 2) or bits % 2:
        raise ValueError("expected a clipped network with an input for each digit")
    weights = [content[f"weights_{k + 1}"] * scales[k] / scales[k + 1] for k in range(depth)]
    biases = [content[f"biases_{k + 1}"] / scales[k + 1] for k in range(depth)]
    offset = servers // 2 if str(content["rounding"]) == "half-up" else 0
    network = Network(servers, bits, offset, weights, biases, scales[-1], [])
    steps = 3 * servers + 1
    grid = np.array(list(product(range(steps), repeat=bits // 2))).T / (3 * servers)
    network.decides = [((z <= -0.25) | (z >= 1.25)).all(axis=1) for z in network.arguments(grid)[:-1]]
    return network


class Chip:
    """One fabrication, with its gains and biases set on known words; `word_errors` sends words through it."""

    def __init__(self, network: Network, phases: dict[str, Any], settings: Settings, rng: Any) -> None:
        self.network, self.settings, self.rng = network, settings, rng
        self.optical = settings["gain"] == "optical"
        parts = [Part(part, settings, rng) for part in phases["parts"]]
        self.entry, self.layers, self.exit = parts[0], parts[1:-1], parts[-1]
        servers = network.servers
        lanes = (servers, network.bits // 2)
        self.power = np.sqrt(np.maximum(1 + settings["power_error"] * rng.normal(size=lanes), 0))
        self.power = self.power * np.cos(settings["polarisation"] * rng.normal(size=lanes))
        self.skew = settings["skew"] * rng.normal(size=lanes)
        self._calibrate()
        outputs = servers * (network.bits // 2)
        self.thresholds = np.arange(3) + 0.5 + settings["threshold_error"] * rng.normal(size=(outputs, 3))

    def _calibrate(self) -> None:
        network, rng, s = self.network, self.rng, self.settings
        lanes = network.lanes(draw_words(network.servers, network.bits, KNOWN_WORDS, rng))
        ideal = network.arguments(lanes.mean(axis=0))
        mean = np.tile(np.eye(network.bits // 2), (1, network.servers)) / network.servers
        wanted = [network.weights[0] @ mean, *network.weights[1:]]
        inputs = [lanes.reshape(-1, KNOWN_WORDS), *(np.clip(z, 0, 1) for z in ideal[:-1])]
        self.gains, self.biases = [], []
        for index in range(len(self.layers)):
            gains, shift = self._fitted(partial(self._through, index), inputs[index], wanted[index])
            self.gains.append(gains * (1 + s["gain_error"] * rng.normal(size=len(gains))))
            self.biases.append((network.biases[index] + shift) * (1 + s["bias_error"] * rng.normal(size=len(gains))))
        copies = np.tile(np.eye(network.bits // 2), (network.servers, 1))
        self.exit_noise, self.exit_shift = self._fitted(self.exit, ideal[-1], copies)
        self.exit_gains = self.exit_noise * (1 + s["gain_error"] * rng.normal(size=len(self.exit_noise)))

    def _fitted(self, device: Callable[[Array], Array], inputs: Array, wanted: Array) -> tuple[Array, Array]:
        """Gain and shift of every output: over known words, or over the elements, measured input by input."""
        if self.settings["calibration"] == "rows":
            elements = device(np.eye(len(inputs), dtype=complex)).real
            return (elements * wanted).sum(axis=1) / (elements**2).sum(axis=1), np.zeros(len(wanted))
        seen, target = device(inputs.astype(complex)).real, wanted @ inputs
        own, other = (x - x.mean(axis=1, keepdims=True) for x in (seen, target))
        gains = (own * other).sum(axis=1) / (own**2).sum(axis=1)
        return gains, target.mean(axis=1) - gains * seen.mean(axis=1)

    def _through(self, index: int, fields: Array) -> Array:
        """Send fields through P and the first layer, or a later layer; lanes are as strong as P needs."""
        if index == 0:
            fields = self.entry.gains[:, None] * self.entry(fields)
        return self.layers[index](fields)

    def send(self, codes: Array) -> Array:
        """Return the codes [servers, words] that the servers receive."""
        s, network, rng = self.settings, self.network, self.rng
        fields = self._lanes(codes)
        for index in range(len(self.layers)):
            last = index == len(self.layers) - 1
            laser = self._laser(codes.shape[1])
            z = self.gains[index][:, None] * self._through(index, fields)
            z = (z * (laser if index else 1) + self.biases[index][:, None] * laser) * laser
            quadratures = rng.normal(size=(2, *z.shape))
            z = z + self._noise(index, last)[:, None] * (quadratures[0] + 1j * quadratures[1])
            if not last:
                fields = self._unit(z.real, network.decides[index]).astype(complex)
        fields = z if self.optical else self._kept(np.clip(z.real, -1, 1)).astype(complex)
        seen = self.exit_gains[:, None] * self.exit(fields).real + self.exit_shift[:, None]
        detected = detector_noise(s, s["path_loss_db"]) * self.exit_noise
        levels = network.output_level * (seen + detected[:, None] * rng.normal(size=seen.shape))
        decided = (levels[:, None, :] > self.thresholds[:, :, None]).sum(axis=1)
        places = np.array([4**k for k in range(network.bits // 2)][::-1])
        return np.einsum("d,sdw->sw", places, decided.reshape(network.servers, len(places), -1))

    def _lanes(self, codes: Array) -> Array:
        s, rng = self.settings, self.rng
        amplitudes = self.network.lanes(codes) ** (0.5 if s["modulation"] == "intensity" else 1)
        lanes = amplitudes.astype(complex)
        for lane in np.ndindex(*self.skew.shape):
            own, share = amplitudes[lane], np.sin(np.pi / 2 * np.clip(self.skew[lane], -1, 1)) ** 2
            beside = np.roll(own, 1 if self.skew[lane] > 0 else -1)
            phase = s["phase_lock"] * rng.normal(size=codes.shape[1])
            strength = self.power[lane] * self._laser(codes.shape[1])
            lanes[lane] = ((1 - share) * own + share * beside) * strength * np.exp(1j * phase)
        return lanes.reshape(-1, codes.shape[1])

    def _laser(self, words: int) -> Array:
        if self.settings["rin_db"] is None:
            return np.ones(words)
        variance = 10 ** (self.settings["rin_db"] / 10) * self.settings["detector_bandwidth"]
        return np.sqrt(np.maximum(1 + np.sqrt(variance) * self.rng.normal(size=words), 0))

    def _noise(self, index: int, last: bool) -> Array:
        s, gains = self.settings, self.gains[index]
        if not self.optical:
            return detector_noise(s) * gains
        factor = 10 ** (s["noise_figure_db"] / 10) / 2 * PLANCK * LIGHT / WAVELENGTH * s["bandwidth"]
        emitted = factor * np.maximum(gains**2 - 1, 0) / 2 / s["full_scale"] if s["amplifier_noise"] else 0 * gains
        return np.sqrt(emitted + (0 if last else detector_noise(s) ** 2))

    def _unit(self, z: Array, decides: Array) -> Array:
        limited = np.clip(z, 0, 1)
        decided = limited if self.settings["unit"] == "clip" else np.sin(np.pi / 2 * limited)
        return np.where(decides[:, None], decided, self._kept(limited))

    def _kept(self, limited: Array) -> Array:
        swing = self.settings["swing"]
        return limited if self.settings["unit"] == "clip" else best_height(swing) * np.sin(swing * limited)


def detector_noise(s: Settings, loss_db: float = 0.0) -> float:
    """Noise of a balanced detector behind a loss, as a share of full scale."""
    shot = 2 * ELECTRON * s["responsivity"] * s["local_oscillator"] if s["shot_noise"] else 0.0
    current = np.sqrt((shot + s["noise_density"] ** 2) * s["detector_bandwidth"])
    signal = s["full_scale"] * 10 ** (-loss_db / 10)
    return float(current / (2 * s["responsivity"] * np.sqrt(s["local_oscillator"] * signal)))


def best_height(swing: float) -> float:
    """The factor with which a sine is nearest to a line, by trying."""
    u, low, high = np.linspace(0, 1, 2001), 1 / swing, 1.2 / np.sin(swing)
    for _ in range(60):
        third = (high - low) / 3
        worst = [np.abs(h * np.sin(swing * u) - u).max() for h in (low + third, high - third)]
        low, high = (low, high - third) if worst[0] < worst[1] else (low + third, high)
    return float((low + high) / 2)


def draw_words(servers: int, bits: int, count: int, rng: Any) -> Array:
    """Codes [servers, count]: half uniform, half within two of a common code."""
    top = 2**bits - 1
    uniform = rng.integers(0, top + 1, size=(servers, count))
    near = np.clip(rng.integers(0, top + 1, size=count) + rng.integers(-2, 3, size=(servers, count)), 0, top)
    return np.where(rng.random(count) < 0.5, near, uniform)


def wrong_words(
    network: Network, phases: dict[str, Any], settings: Settings, fabrications: int, words: int, seed: int
) -> Array:
    """Return the number of words that at least one server receives wrong, for every fabrication."""
    rng = np.random.default_rng([seed, 99])
    wrong = []
    for _ in range(fabrications):
        chip = Chip(network, phases, settings, rng)
        codes = draw_words(network.servers, network.bits, words, rng)
        mean = (codes.sum(axis=0) + network.offset) // network.servers
        wrong.append(int((chip.send(codes) != mean).any(axis=0).sum()))
    return np.array(wrong)
