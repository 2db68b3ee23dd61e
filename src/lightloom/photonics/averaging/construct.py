"""`build`: the smallest constructed network that is proved exact and survives the noise that is stated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import numpy as np

from lightloom.core.errors import InputError, UnsupportedError
from lightloom.photonics.averaging.constructed.circuit import Circuit
from lightloom.photonics.averaging.constructed.long_division import long_division
from lightloom.photonics.averaging.constructed.lsb_ripple import lsb_ripple
from lightloom.photonics.averaging.constructed.msb_first import msb_first
from lightloom.photonics.averaging.function import AveragingFunction
from lightloom.photonics.averaging.proved.noise import EVALUATIONS, TARGET, input_bound, noise_limit, noisy_accuracy
from lightloom.photonics.averaging.proved.proof import Proof, prove
from lightloom.photonics.averaging.proved.verify import Verification, verify
from lightloom.photonics.averaging.realised.area import mzi_count, mzi_of_units
from lightloom.photonics.averaging.realised.compiler import Realisation, Realised, realise
from lightloom.photonics.averaging.realised.networks import LayeredNetwork, Nonlinearity

HALF, QUARTER = Fraction(1, 2), Fraction(1, 4)
_PARTED_AT_ONCE = 16
"""Servers up to which a carry-save layer, which parts every input at once, is of a reasonable width."""
_DECIDED_AT_ONCE = 128
"""Steps of all inputs together up to which a layer that decides each of them is of a reasonable width."""
_REALISATIONS: dict[Nonlinearity, tuple[Realisation, ...]] = {
    "relu": (Realisation(window=HALF), *(Realisation(window=HALF, copies=c, regenerate=True) for c in (1, 2))),
    "clipped": tuple(Realisation(bounded=True, window=QUARTER, copies=c) for c in (1, 2, 3)),
}
"""Narrow ramps: what they leave free swallows noise. The first of each is the smallest."""


@dataclass(frozen=True, eq=False)
class Construction:
    """A network written down, not trained."""

    name: str
    function: AveragingFunction
    realised: Realised

    @property
    def network(self) -> LayeredNetwork:
        """The weights."""
        return self.realised.network

    @cached_property
    def proof(self) -> Proof:
        """Why it is exact."""
        return prove(self.realised, self.function)

    @property
    def mzi_count(self) -> int:
        """Interferometers of the matrices, in the paper's convention, P, T and biases apart."""
        return mzi_count(self.realised.sizes)

    def verify(self, samples: int = 1_000_000) -> Verification:
        """Tries it, see `verify.verify`."""
        return verify(self.network, self.function, samples)

    def noise_limit(self, evaluations: int = EVALUATIONS) -> float:
        """Relative noise at which its accuracy falls below 99.99 %."""
        return noise_limit(self.network, self.function, evaluations=evaluations)

    def bears(self, noise: float) -> bool:
        """Whether 99.99 % of inputs come out right at that noise."""
        # What a tenth of the draws refuses clearly needs no more of them.
        quick = noisy_accuracy(self.network, self.function, noise, EVALUATIONS // 10)
        return quick >= 1 - 4 * (1 - TARGET) and noisy_accuracy(self.network, self.function, noise) >= TARGET

    def to_json(self, servers: int, bits: int, verification: Verification, limit: float) -> dict[str, Any]:
        """What `lightloom onn build --json` prints."""
        layers = self.network.layers
        return {
            "construction": self.name,
            "nonlinearity": self.network.nonlinearity,
            "wrong_outputs": verification.wrong_outputs,
            "checked_inputs": verification.checked_inputs,
            "exhaustive": verification.exhaustive,
            "proof": list(self.proof.steps),
            "proved_tolerance": self.proof.tolerance,
            "mzi_count": self.mzi_count,
            "mzi_count_economy": mzi_count(layers, "economy"),
            "mzi_count_with_bias": mzi_count(layers, bias=True),
            "mzi_count_of_p_and_t": mzi_of_units(servers, bits, layers[0]),
            "layers": list(layers),
            "largest_gain": self.network.largest_gain,
            "noise_limit": limit,
        }


def circuits(function: AveragingFunction) -> Iterator[tuple[str, Circuit]]:
    """Every construction that fits the function, with its name."""
    yield "msb-first", msb_first(function)
    yield "msb-first, a bit a layer", msb_first(function, 2)
    servers = function.divisor
    if servers & (servers - 1) == 0:
        yield "lsb-ripple", lsb_ripple(function)
        yield "lsb-ripple, a bit a layer", lsb_ripple(function, 2)
        if servers <= _PARTED_AT_ONCE:
            yield "lsb-ripple, carry-save", lsb_ripple(function, 4, 1)
        if sum(i.maximum for i in function.inputs) <= _DECIDED_AT_ONCE:
            yield "lsb-ripple, inputs decided", lsb_ripple(function, decided=True)
    if servers.bit_count() > 1 or servers.bit_length() % 2 == 0:
        # For odd powers of two as well: the ripple then doubles its range, which division need not.
        yield "long-division", long_division(function)
        yield "long-division, two digits a layer", long_division(function, 16)


def candidates(
    function: AveragingFunction, nonlinearity: Nonlinearity = "relu", smallest: bool = False
) -> list[Construction]:
    """All constructions with units of one kind, or the ``smallest`` form of each alone; the smallest first.

    Raises:
        InputError: an unknown nonlinearity.
    """
    if nonlinearity not in _REALISATIONS:
        raise InputError(f"nonlinearity = {nonlinearity!r}: expected relu or clipped")
    made = []
    for name, circuit in circuits(function):
        for how in _REALISATIONS[nonlinearity][: 1 if smallest else None]:
            extras = [f"{how.copies} copies"] * (how.copies > 1) + ["regenerated"] * how.regenerate
            made.append(Construction(", ".join([name, *extras]), function, realise(circuit, function, how)))
    return sorted(made, key=lambda c: c.mzi_count)


def recognise(network: LayeredNetwork, function: AveragingFunction) -> Construction | None:
    """The construction of the function that has exactly these weights, so that its proof is theirs; None: none has."""
    for construction in candidates(function, network.nonlinearity):
        meant = construction.network
        if meant.layers == network.layers and all(
            np.array_equal(a, b)
            for a, b in zip(meant.weights + meant.biases, network.weights + network.biases, strict=True)
        ):
            return construction
    return None


def build(
    servers: int,
    bits: int,
    *,
    noise: float | None = None,
    nonlinearity: Nonlinearity = "relu",
    inputs: int = 4,
    rounding: Literal["floor", "half-up"] = "floor",
    carries_decimals: bool = False,
) -> Construction:
    """The smallest constructed network that is proved exact in float64 and bears the noise.

    Args:
        servers: N.
        bits: of a code.
        noise: standard deviation on every signal relative to its full scale, at which 99.99 % of inputs must come out
            right; None asks for exactness alone.
        nonlinearity: plain ``relu``, as in the paper, or ``clipped``, a unit that saturates.
        inputs: K, to which P groups the signals.
        rounding: of the mean.
        carries_decimals: for level 1 of a cascade.

    Raises:
        UnsupportedError: nothing bears that noise; the message says how far it goes.
        ConfigError, InputError: an argument out of range.
    """
    if noise is not None and not 0 <= noise < 1:
        raise InputError(f"noise = {noise!r}: expected a share of full scale from 0 to below 1")
    function = AveragingFunction.of(servers, bits, inputs, rounding, carries_decimals)
    bound = input_bound(function)
    if noise is not None and noise > bound:
        raise UnsupportedError(
            f"noise = {noise:g}: the inputs' own noise lets no network of {servers} servers pass {bound:.1e}"
        )
    if noise is None:
        for construction in candidates(function, nonlinearity, smallest=True):
            if construction.proof.float64:
                return construction
    for construction in candidates(function, nonlinearity):
        if construction.proof.float64 and (noise is None or construction.bears(noise)):
            return construction
    wanted = "is exact in float64" if noise is None else f"bears noise = {noise:g}"
    raise UnsupportedError(f"no {nonlinearity} construction for {servers} servers and {bits} bits {wanted}")
