"""The network of a recipe in torch, with noise, and its export to plain weights."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lightloom.photonics.averaging.construct import build
from lightloom.photonics.averaging.mapped import set_levels
from lightloom.photonics.averaging.networks import LayeredNetwork
from lightloom.photonics.averaging.proof import with_measured_full_scale
from lightloom.photonics.devices import NonIdealities
from lightloom.photonics.meshes.disturb import disturbed_devices, fabricate, neighbours, quantised
from lightloom.photonics.meshes.mapping import MappedMatrix, approximate, map_matrix
from lightloom.photonics.meshes.mesh import by_columns
from lightloom.photonics.onn.recipe import TrainingRecipe

# Matrices of squares Σ_a · U_a in torch (OptINC, Fig. 4, eq. 4 to 6): a projection to them, and a parametrisation.
#
# `meshes.mapping.approximate` does the same in NumPy, and tests compare the two.


def cut(matrix: Tensor) -> Tensor:
    """Return a matrix (outputs, inputs) as squares (count, s, s) along its longer side, in order.

    s is the shorter side, of which the longer one must be a multiple.
    """
    outputs, inputs = matrix.shape
    side = min(outputs, inputs)
    return matrix.reshape(-1, side, side) if outputs >= inputs else matrix.reshape(side, -1, side).transpose(0, 1)


def join(squares: Tensor, tall: bool) -> Tensor:
    """Return the matrix (outputs, inputs) of squares (count, s, s), the inverse of `cut`.

    Squares lie below each other if ``tall``, else side by side.
    """
    count, side, _ = squares.shape
    return squares.reshape(count * side, side) if tall else squares.transpose(0, 1).reshape(side, count * side)


def sigma_u(squares: Tensor) -> tuple[Tensor, Tensor]:
    """Return the unitaries and the row scales whose product approximates each of the real squares W (count, s, s).

    These are U_a = U_s V_sᵀ (eq. 5), (count, s, s), and d_i = Σ_j W_ij U_a,ij (eq. 6), (count, s, 1).
    """
    u, _, v = torch.linalg.svd(squares)
    unitary = u @ v
    return unitary, (squares * unitary).sum(-1, keepdim=True)


@torch.no_grad()
def project_(matrix: Tensor) -> Tensor:
    """Replace every square W along the longer side of a matrix by its approximation diag(d) U_a in place, and return
    the matrix.

    ``matrix`` is (outputs, inputs), its longer side a multiple of the shorter; no gradient is recorded.
    """
    unitary, scales = sigma_u(cut(matrix))
    return matrix.copy_(join(scales * unitary, matrix.shape[0] >= matrix.shape[1]))


class FreeMatrix(nn.Module):
    """An unrestricted matrix (outputs, inputs), He initialised."""

    def __init__(self, outputs: int, inputs: int, generator: torch.Generator) -> None:
        """Draw the elements with variance 2 / inputs."""
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs, generator=generator) * (2 / inputs) ** 0.5)

    def start(self, matrix: Tensor) -> None:
        """Copy the values of a matrix (outputs, inputs) into the parameter; call it without gradients."""
        self.weight.copy_(matrix)

    def forward(self) -> Tensor:
        """Return the matrix (outputs, inputs), the parameter itself."""
        return self.weight


class CayleyMatrix(nn.Module):
    """diag(d) (I + S)⁻¹ (I − S) Q₀ in each square, S = A − Aᵀ: it has the form Σ·U at every step of the training.

    Q₀ is a fixed random rotation; A starts at 0. Rows have the norm that He initialisation gives on average.
    """

    rotation: Tensor
    identity: Tensor

    def __init__(self, outputs: int, inputs: int, generator: torch.Generator) -> None:
        """Draw the rotations, and start from A = 0 with equal scales; the longer side must be a multiple of the
        shorter."""
        super().__init__()
        side, self.tall = min(outputs, inputs), outputs >= inputs
        count = max(outputs, inputs) // side
        self.register_buffer("rotation", torch.linalg.qr(torch.randn(count, side, side, generator=generator))[0])
        self.register_buffer("identity", torch.eye(side))
        self.generating = nn.Parameter(torch.zeros(count, side, side))
        self.scales = nn.Parameter(torch.full((count, side, 1), (2 * side / inputs) ** 0.5))

    def start(self, matrix: Tensor) -> None:
        """Start the training from a matrix (outputs, inputs), or from the nearest one of squares Σ·U if it is of
        another form.

        Only rotations and scales are set, so that the generating matrices must still be 0; call it without gradients.
        """
        unitary, scales = sigma_u(cut(matrix))
        self.rotation.copy_(unitary)
        self.scales.copy_(scales)

    def forward(self) -> Tensor:
        """Return the matrix (outputs, inputs) of the present parameters, with their gradient."""
        skew = self.generating - self.generating.mT
        unitary = torch.linalg.solve(self.identity + skew, (self.identity - skew) @ self.rotation)
        return join(self.scales * unitary, self.tall)


@dataclass
class Noise:
    """Gaussian noise of standard deviation ``sigma`` times each signal's full scale."""

    sigma: float
    full_scale: list[Tensor]
    """Largest signals of each layer over the grid, (n,): hidden layers, then outputs."""
    generator: torch.Generator

    def __call__(self, signal: Tensor, scale: Tensor | float) -> Tensor:
        """Return ``signal`` (batch, n) with noise of standard deviation ``sigma`` times ``scale``, the signal's full
        scale."""
        draws = torch.randn(signal.shape, generator=self.generator, device=signal.device)
        return signal + draws * (scale * self.sigma)


class OpticalNetwork(nn.Module):
    """Network from light A_k (batch, K) to levels (batch, M); the first layer sees centred inputs 2 A / A_max − 1."""

    def __init__(self, recipe: TrainingRecipe, generator: torch.Generator) -> None:
        """Draw the matrices of all layers, approximated ones in Cayley form if the recipe has it, and biases between
        ±0.5."""
        super().__init__()
        self.recipe = recipe
        self.largest = max(i.maximum / i.denominator for i in recipe.function.inputs)
        self.matrices = nn.ModuleList()
        self.biases = nn.ParameterList()
        for layer, (inputs, outputs) in enumerate(zip(recipe.layers, recipe.layers[1:], strict=False), 1):
            cayley = recipe.form == "cayley" and layer in recipe.approximated
            self.matrices.append((CayleyMatrix if cayley else FreeMatrix)(outputs, inputs, generator))
            self.biases.append(nn.Parameter(torch.rand(outputs, generator=generator) - 0.5))
        if recipe.constructed:
            self.start()

    @torch.no_grad()
    def start(self) -> None:
        """Copy the weights of the constructed network that fits into these layers, rounded to float32.

        Those of the first layer are adapted to the centred inputs 2 A / A_max − 1 that it sees.

        Raises:
            UnsupportedError: no construction fits into the layers.
        """
        recipe = self.recipe
        arguments = {name: getattr(recipe, name) for name in ("inputs", "rounding", "carries_decimals", "nonlinearity")}
        network = build(recipe.servers, recipe.bits, layers=recipe.layers, **arguments).network
        parts = zip(self.matrices, self.biases, network.weights, network.biases, strict=True)
        for layer, (matrix, bias, weights, offsets) in enumerate(parts):
            centred = weights if layer else weights * (self.largest / 2)
            matrix.start(torch.from_numpy(np.asarray(centred, np.float64)))  # type: ignore[operator]
            bias.copy_(torch.from_numpy(offsets if layer else offsets + centred.sum(axis=1)))

    def forward(
        self, light: Tensor, noise: Noise | None = None, fabricate: Callable[[list[Tensor]], list[Tensor]] | None = None
    ) -> Tensor:
        """Return the outputs in levels, (batch, M), of input amplitudes ``light`` (batch, K).

        ``noise`` is added to the inputs and to the signals of every layer, the outputs included; ``fabricate`` replaces
        the matrices by what erring devices implement. None adds no noise, and takes the matrices as designed.
        """
        return self.signals(light, noise, fabricate)[-1]

    def signals(
        self, light: Tensor, noise: Noise | None = None, fabricate: Callable[[list[Tensor]], list[Tensor]] | None = None
    ) -> list[Tensor]:
        """Return the signals of hidden layers behind their nonlinearity and before noise, and the outputs with noise.

        There is one tensor (batch, n) for each layer. The next layer reads a signal with its noise.

        Args:
            light: input amplitudes, (batch, K).
            noise: noise on the inputs and on the signals of every layer; None adds none.
            fabricate: replaces the matrices by what erring devices implement; biases stay as designed, that of the
                centred inputs included. None takes the matrices as designed.
        """
        if noise is not None:
            light = noise(light, self.largest)
        designed: list[Tensor] = [matrix() for matrix in self.matrices]
        matrices = designed if fabricate is None else fabricate(designed)
        signal, biases = light * (2 / self.largest) - 1, list(self.biases)
        if fabricate is not None:
            signal, biases[0] = light * (2 / self.largest), self.biases[0] - designed[0].sum(1)
        signals, last = [], len(self.matrices) - 1
        for layer, (matrix, bias) in enumerate(zip(matrices, biases, strict=True)):
            signal = torch.nn.functional.linear(signal, matrix, bias)
            if layer < last:
                signal = signal.clamp(0, 1) if self.recipe.nonlinearity == "clipped" else signal.relu()
            signals.append(signal)
            if noise is not None:
                signal = noise(signal, full_scale_of(noise.full_scale[layer], signal))
        return [*signals[:-1], signal]

    @torch.no_grad()
    def full_scales(self, light: Tensor, chunk: int = 8192) -> list[Tensor]:
        """Return the largest magnitude of every signal without noise over the inputs ``light`` (n, K), a tensor
        (signals,) a layer.

        Layers are the hidden ones, then the outputs; ``chunk`` inputs are passed at a time.
        """
        chunks = [[s.abs().amax(0) for s in self.signals(part)] for part in torch.split(light, chunk)]
        return [torch.stack(layer).amax(0) for layer in zip(*chunks, strict=True)]

    def project_(self) -> None:
        """Project every approximated matrix to its form of squares Σ·U, in place.

        Matrices in Cayley form always have it and stay.
        """
        for layer in self.recipe.approximated:
            matrix = self.matrices[layer - 1]
            if isinstance(matrix, FreeMatrix):
                project_(matrix.weight)

    @torch.no_grad()
    def export(self) -> LayeredNetwork:
        """Return the network from light to levels with plain float64 weights, and full scales measured on its grid.

        Approximated matrices are projected, in float64, so that they are Σ·U to rounding. The centring of the inputs
        goes into the first layer; it is one factor for all of them, which changes Σ only.
        """
        double = deepcopy(self).double().cpu()
        weights = [np.asarray(matrix().detach().numpy()) for matrix in double.matrices]
        biases = [np.asarray(bias.detach().numpy()) for bias in double.biases]
        for layer in self.recipe.approximated:
            weights[layer - 1] = approximate(weights[layer - 1])
        biases[0] = biases[0] - weights[0].sum(axis=1)
        weights[0] = weights[0] * (2 / self.largest)
        network = LayeredNetwork.of(weights, biases, self.recipe.nonlinearity)
        return with_measured_full_scale(network, self.recipe.function)


def full_scale_of(full_scale: Tensor, signal: Tensor) -> Tensor:
    """Return the values of ``full_scale`` (n,), with the gradient of the largest magnitudes of ``signal`` (batch, n).

    Training may then lower peaks, to which the noise is relative.
    """
    largest = signal.abs().amax(0)
    return full_scale + (largest - largest.detach())


# Training through the meshes: the weights that devices with drawn errors carry out, with a gradient to the design.
#
# W ──▶ meshes and gains ──▶ devices drawn for this batch ──▶ W' = W + g(W) e
#
# The forward pass runs on W', the real part of what the fabricated meshes implement, so that phase errors, couplers,
# loss, crosstalk and the rounding of phases act as they do in `onn map --study disturb`. The backward pass goes
# through W', as light sent back through the chip would. How far row i is off is proportional to the gain g_i of its
# amplifier, |row i| times the largest singular value of the rows brought to length 1; g has a gradient, e = (W' − W)
# / g is held fixed. Training thus sees that long rows, and rows that point the same way, cost tolerance.

REMAP_EVERY = 20
"""Steps for which the design's meshes are kept: in so many it moves by far less than the devices' errors move it."""
_SHORTEST_ROW = 1e-9


class DrawnDevices:
    """Draws the devices of every step; a step's draws depend on the seed and the number of the step alone."""

    def __init__(self, recipe: TrainingRecipe) -> None:
        """Keep the recipe; meshes are mapped at the first call."""
        self._recipe = recipe
        self._designed: list[Tensor] = []
        self._chip: Chip | None = None
        self._directions: list[tuple[Tensor, Tensor]] = []

    def __call__(self, matrices: Sequence[Tensor], step: int) -> list[Tensor]:
        """Return the matrices (outputs, inputs) that devices drawn for ``step`` implement, with a gradient to them.

        Meshes are mapped anew at multiples of `REMAP_EVERY`; errors between them are those of the last mapped design.
        """
        recipe = self._recipe
        assert recipe.devices is not None
        if self._chip is None or step % REMAP_EVERY == 0:
            self._designed = [matrix.detach().clone() for matrix in matrices]
            plain = [np.asarray(matrix.cpu().double()) for matrix in self._designed]
            self._directions = [strongest_directions(matrix) for matrix in self._designed]
            self._chip = Chip([map_matrix(matrix, recipe.mesh_form) for matrix in plain], plain)
        fabricated = self._chip.fabricate(recipe.devices, np.random.default_rng((recipe.seed, step)))
        drawn = []
        parts = zip(matrices, self._designed, fabricated, self._directions, strict=True)
        for matrix, designed, weights, directions in parts:
            error = torch.from_numpy(weights).to(designed) - designed
            gains = row_gains(matrix, *directions)
            drawn.append(matrix + (gains / gains.detach())[:, None] * error)
        return drawn


def strongest_directions(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Return the first left and right singular vectors, (outputs,) and (inputs,), of a matrix with rows scaled to
    length 1."""
    lengths = matrix.norm(dim=1).clamp_min(_SHORTEST_ROW)
    left, _, right = torch.linalg.svd(matrix / lengths[:, None], full_matrices=False)
    return left[:, 0].contiguous(), right[0].contiguous()


def row_gains(matrix: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """Return the amplitude gain behind every output of a matrix (outputs, inputs), (outputs,), with its gradient.

    It is the row's length times the largest singular value of the rows scaled to length 1. ``left`` and ``right`` are
    the matrix's `strongest_directions`, held fixed: a singular value changes to first order as if its vectors did not
    turn.
    """
    lengths = matrix.norm(dim=1).clamp_min(_SHORTEST_ROW)
    gains: Tensor = lengths * (left @ (matrix / lengths[:, None]) @ right)
    return gains


class Chip:
    """All meshes of a network, fabricated at once: the same devices as `disturb` makes, in a tenth of its time."""

    def __init__(self, mapped: Sequence[MappedMatrix], designed: Sequence[NDArray[np.float64]]) -> None:
        """Put the phases of all meshes and then of all Σ in one row; ``designed`` are the matrices that rows are set to
        come closest to."""
        self._mapped, self._designed = tuple(mapped), tuple(designed)
        meshes = [mesh for matrix in mapped for mesh in (matrix.input_mesh, matrix.output_mesh) if mesh is not None]
        parts = [(mesh.phases, neighbours(mesh.layout)) for mesh in meshes]
        columns = [matrix.attenuator_phases for matrix in mapped]
        parts += [(phases, np.ones(max(phases.shape[1] - 1, 0), np.bool_)) for phases in columns]
        self._phases = np.concatenate([phases for phases, _ in parts], axis=1)
        # No heater of one part warms the next part.
        beside = [np.append(below, False) if phases.size else below[:0] for phases, below in parts]
        self._beside = np.concatenate(beside)[:-1]
        self._ends = [0, *np.cumsum([phases.shape[1] for phases, _ in parts])]
        self._meshes = meshes
        self._outputs = [0, *np.cumsum([mesh.outputs for mesh in meshes])]

    def fabricate(self, non_idealities: NonIdealities, rng: np.random.Generator) -> list[NDArray[np.float64]]:
        """Return the real matrices (outputs, inputs) of one drawn fabrication of all layers.

        A gain for each row is set so that it comes closest to the design.
        """
        fabrication = fabricate(self._ends[-1], self._outputs[-1], non_idealities, rng)
        devices = disturbed_devices(self._phases, self._beside, non_idealities, fabrication)
        parts = [devices[start:end] for start, end in pairwise(self._ends)]
        through = {}
        for mesh, part, (start, end) in zip(self._meshes, parts, pairwise(self._outputs), strict=False):
            phases = quantised(mesh.output_phases, non_idealities.dac_bits) + fabrication.output_error[start:end]
            through[id(mesh)] = partial(by_columns, mesh.layout, part, phases)
        columns = [part[:, 0, 0] for part in parts[len(self._meshes) :]]
        made = []
        for matrix, column, designed in zip(self._mapped, columns, self._designed, strict=True):
            inner = through[id(matrix.input_mesh)](np.eye(matrix.shape[1]))
            behind = through.get(id(matrix.output_mesh))
            made.append(set_levels(matrix.behind(inner, column, behind).real, designed, "rows").matrices)
        return made
