"""Averagers: networks of interferometers that average servers' codes inside the light, built and proved."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from lightloom.core.results import Document, Result, plain, provenance
from lightloom.photonics.averaging.construct import Construction, build
from lightloom.photonics.averaging.networks import FunctionArguments, save_network
from lightloom.photonics.averaging.proof import EVALUATIONS, Verification, input_bound
from lightloom.photonics.meshes.mapping import MeshMapping


@dataclass(frozen=True, repr=False, kw_only=True)
class ProvedAverager(Result):
    """A network that averages exactly, with its proof, its replay on every input, and the noise that it bears."""

    construction: Construction
    """The network and the function that it computes."""
    arguments: FunctionArguments
    """Servers, bits, rounding and grouping of the function."""
    noise: float | None
    """Noise for which it was built, a share of full scale; None for exactness alone."""
    evaluations: int
    """Noisy draws behind the noise limit."""
    mapping: MeshMapping | None = None
    """Mapping to meshes with which it bears errors of its devices, or squares Σ · U of given layers; None if it was not
    asked for one."""

    @cached_property
    def verification(self) -> Verification:
        """Result of trying the network without noise on every combination of values of its inputs, or, where these are
        more than 20 million, on the extremes and a million drawn ones, half of them beside carries: ``wrong_outputs``
        among ``checked_inputs``, ``exhaustive`` (whether all were tried), ``errors``, counts by received less expected
        number, and ``largest_deviation`` of an output before rounding, in levels."""
        return self.construction.verify()

    @cached_property
    def noise_limit(self) -> float:
        """Largest noise on every signal, a standard deviation as a share of full scale, at which 99.99 % of the inputs
        are still averaged right, found to within 3 % up to 0.5 by ``evaluations`` noisy draws at each noise tried; 0
        if it is below 1e-9."""
        return self.construction.noise_limit(self.evaluations)

    @property
    def proof(self) -> tuple[str, ...]:
        """Sentences, one for each step of the proof that the network averages exactly."""
        return tuple(self.construction.proof.steps)

    @property
    def mzi_count(self) -> int:
        """Number of Mach-Zehnder interferometers of the layers' matrices, each as a full singular value decomposition,
        as the paper counts them (as a square Σ · U where layers were given), without the preprocessing P in front of
        the network, the splitting T behind it, and biases."""
        return self.construction.mzi_count

    def save(self, path: str | Path) -> None:
        """Write the network (.npz) with the function's arguments, for ``lightloom onn map`` and the other commands, and
        with its mapping to meshes if it has one. A file that is there is replaced.

        Raises:
            ConfigError: the suffix is not ``.npz``, or the file cannot be written.
        """
        save_network(Path(path), self.construction.network, self.arguments, self.mapping)

    def summary(self) -> str:
        """Return a sentence: the function (servers, bits, rounding), the construction's name and number of Mach-Zehnder
        interferometers, that it is proved exact, and how many of the inputs that were tried without noise come out
        wrong."""
        check, function = self.verification, self.arguments
        return (
            f"averager of {function.servers} servers, {function.bits} bits, {function.rounding}: "
            f"{self.construction.name}, {self.mzi_count:,} MZIs, proved exact; "
            f"{check.wrong_outputs:,} of {check.checked_inputs:,} inputs wrong"
        )

    def to_json(self) -> Document:
        """Return the document that ``lightloom onn build --json`` prints: the function (``servers``, ``bits``,
        ``inputs``, ``rounding``), the network (name of its ``construction``, ``nonlinearity``, numbers of signals of
        its ``layers``, ``largest_gain_db`` of an amplifier), its interferometers (``mzi_count``, and
        ``mzi_count_economy``, ``mzi_count_with_bias``, ``mzi_count_of_p_and_t`` by other counts), the sentences of its
        ``proof`` and ``proved_tolerance``, how far all signals may be off, ``wrong_outputs`` among the
        ``checked_inputs`` (all there are if ``exhaustive``), and its ``noise_limit`` beside
        ``noise_bound_of_any_network`` (None if infinite); noise is a standard deviation and, like the tolerance, a
        share of full scale. Schema and provenance are added."""
        function, made = self.arguments, self.construction
        settings: list[object] = [function.servers, function.bits, self.noise, made.network.nonlinearity]
        settings += [function.inputs, function.rounding, function.carries_decimals, self.evaluations]
        settings += [] if made.embedding is None else [made.network.layers]
        document = {
            "schema": "lightloom.onn-build/1",
            "servers": function.servers,
            "bits": function.bits,
            **made.to_json(function.servers, function.bits, self.verification, self.noise_limit),
            "noise_bound_of_any_network": input_bound(made.function),
            "inputs": function.inputs,
            "rounding": function.rounding,
            "provenance": provenance(settings, 0),
        }
        return {name: plain(value) for name, value in document.items()}

    def display_rows(self) -> list[dict[str, object]]:
        """Return a single row: "construction" (its name), "signals" by layer, as ``4-16-4``, "MZIs", "wrong outputs",
        "inputs tried", and the steps of the "proof", joined by semicolons."""
        return [
            {
                "construction": self.construction.name,
                "signals": "-".join(str(count) for count in self.construction.network.layers),
                "MZIs": self.mzi_count,
                "wrong outputs": self.verification.wrong_outputs,
                "inputs tried": self.verification.checked_inputs,
                "proof": "; ".join(self.proof),
            }
        ]


def averager(
    servers: int,
    bits: int,
    *,
    noise: float | None = None,
    nonlinearity: Literal["relu", "clipped"] = "relu",
    layers: Sequence[int] | None = None,
    inputs: int = 4,
    rounding: Literal["floor", "half-up"] = "floor",
    carries_decimals: bool = False,
    evaluations: int = EVALUATIONS,
) -> ProvedAverager:
    """Build the smallest network of interferometers that averages servers' codes exactly, and return it with its proof.

    >>> averager(servers=4, bits=8)

    Args:
        servers: number of servers whose codes are averaged.
        bits: bits of a code, 1 to 32.
        noise: standard deviation on every signal, as a share of full scale, at which 99.99 % of the outputs must be
            right; None asks for exactness alone.
        nonlinearity: ``relu``, or ``clipped`` units, which saturate.
        layers: numbers of signals, from the inputs to the outputs, of a wider network whose matrices are all squares Σ
            · U, exactly; the one that bears most noise is built.
        inputs: number of signals to which the codes are grouped.
        rounding: of the mean: ``floor``, or ``half-up`` to the nearest code.
        carries_decimals: whether the last output keeps decimals, for level 2 of a cascade.
        evaluations: noisy draws behind the noise limit.

    Raises:
        UnsupportedError: no network bears this noise, or fits into these layers.
        InputError: an argument out of range.
    """
    arguments = FunctionArguments(
        servers=servers, bits=bits, inputs=inputs, rounding=rounding, carries_decimals=carries_decimals
    )
    construction = build(**asdict(arguments), noise=noise, nonlinearity=nonlinearity, layers=layers)
    mapping = None if layers is None else MeshMapping(form="sigma-u")
    return ProvedAverager(
        construction=construction, arguments=arguments, noise=noise, evaluations=evaluations, mapping=mapping
    )
