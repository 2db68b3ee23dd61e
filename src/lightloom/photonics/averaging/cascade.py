"""Two levels of averagers, for up to N^2 servers (OptINC, Fig. 5 and eq. 8 to 10).

    group i ──▶ level 1 ── digits of floor(mean), decimals merged into the last ──▶ P ──▶ level 2 ──▶ floor(mean)

Without decimals both levels floor, and the result is one too small for about a third of all inputs (eq. 9). With
decimals the second level sees the true sum. There is no receiver between the levels, so the analogue error of the first
level enters the second.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lightloom.core.array_files import read_npz
from lightloom.core.arrays import Floats, Ints
from lightloom.core.errors import ConfigError, UnsupportedError, VerificationError
from lightloom.core.results import Advance, attributes, content_hash, ignore
from lightloom.photonics.averaging.construct import Construction, build, candidates, recognise
from lightloom.photonics.averaging.function import (
    AveragingFunction,
    GridInput,
    Rounding,
    points_of_servers,
    preprocessing_matrix,
)
from lightloom.photonics.averaging.networks import (
    LayeredNetwork,
    Nonlinearity,
    check_ends,
    mzi_count,
    network_arrays,
    network_of_arrays,
    plain_arrays,
    reading,
    write_npz,
)
from lightloom.photonics.averaging.proof import TARGET, Verification, input_bound, verify

if TYPE_CHECKING:
    from collections.abc import Mapping


Networks = tuple[Sequence[LayeredNetwork], LayeredNetwork]
"""A network of level 1 for each group, and that of level 2."""
Rng = np.random.Generator
_TUPLES_AT_ONCE = 50_000
_NOISY_TUPLES = 100_000


def second_level(
    groups: int, servers: int, bits: int, inputs: int = 4, rounding: Rounding = "floor"
) -> AveragingFunction:
    """Return the averaging function of level 2 of a cascade, from the means of the groups to the mean over all servers:
    T, the sum of the codes of all servers of all groups, over groups * servers, rounded.

    Each input is the average over groups of the number that neighbouring base-4 digits of level 1's outputs spell, the
    most significant digits first. The last one carries decimals and has steps of 1/(groups * servers); the other inputs
    have steps of 1/groups.

    Args:
        groups: number of averagers of level 1.
        servers: number of servers of each group.
        bits: bits per code.
        inputs: most inputs of the network, among which a code's digits are divided; there may be fewer
            (`AveragingFunction.of`).
        rounding: rounding of the mean, ``floor`` or ``half-up``.

    Raises:
        ConfigError: a count is out of range, or the rounding is unknown.
    """
    first = AveragingFunction.of(servers, bits, inputs, rounding)
    if groups < 1:
        raise ConfigError(f"groups = {groups}: expected at least 1")
    *high, last = first.inputs
    grid = tuple(GridInput(servers * i.weight, groups * (i.maximum // servers), groups) for i in high)
    lowest = GridInput(1, groups * (servers * (last.maximum // servers + 1) - 1), groups * servers)
    count = groups * servers
    offset = count // 2 if rounding == "half-up" else 0
    return AveragingFunction(inputs=(*grid, lowest), divisor=count, outputs=first.outputs, offset=offset)


@dataclass(frozen=True, slots=True, eq=False)
class PlainLevel:
    """A network of a cascade that no construction made, such as a trained one."""

    name: str
    function: AveragingFunction
    network: LayeredNetwork

    @property
    def mzi_count(self) -> int:
        """Number of interferometers of the matrices in the paper's convention (each matrix as a full singular value
        decomposition, `networks.mzi_count`), without preprocessing P in front of the network, splitting T behind it,
        and biases."""
        return mzi_count(self.network.layers)

    def verify(self, samples: int = 1_000_000) -> Verification:
        """Return at how many points of its function's grid the outputs of the level's network, rounded as receivers do
        and without noise, spell a wrong number.

        All points are tried of grids of at most 20 million points; of larger ones the extremes and ``samples`` points,
        half of them beside carries and half uniform, which is no proof. The result has ``wrong_outputs`` and
        ``checked_inputs``, both counts of points, and ``exhaustive``, true if all were tried.
        """
        return verify(self.network, self.function, samples)


Level = Construction | PlainLevel
"""A network of a cascade, and the function that it computes."""


@dataclass(frozen=True, slots=True, eq=False)
class Cascade:
    """Two levels of averaging networks.

    Raises:
        ConfigError: a network has other inputs or outputs than its level.
    """

    bits: int
    groups: int
    servers: int
    first: Level
    second: Level

    def __post_init__(self) -> None:
        """Raise ConfigError where a network has other numbers of inputs or outputs than its level."""
        for number, level in enumerate((self.first, self.second), 1):
            check_ends(level.network, level.function, f"level {number}: ")

    def light(
        self, codes: Ints, sigma: float = 0.0, rng: Rng | None = None, fabricated: Networks | None = None
    ) -> Floats:
        """Return the analogue outputs of level 2, before receivers round them, in levels 0 to 3: codes (groups,
        servers, n) to (outputs, n).

        Args:
            codes: codes of every server of every group.
            sigma: standard deviation of the noise on every signal of both levels, relative to its full scale.
            rng: generator of the noise; required with ``sigma``.
            fabricated: (a network of level 1 for each group, network of level 2), in place of the cascade's; None takes
                the cascade's. The preprocessing P of both levels is ideal.

        Raises:
            InputError: a code does not fit into the bits, or there is ``sigma`` without ``rng``.
        """
        function = self.first.function
        networks, second = fabricated or ([self.first.network] * self.groups, self.second.network)
        lights = (function.light(points_of_servers(group, self.bits, function)) for group in codes)
        firsts = [network(light, sigma, rng) for network, light in zip(networks, lights, strict=True)]
        preprocessing = preprocessing_matrix(self.groups, function.outputs, len(self.second.function.inputs))
        return np.asarray(second(preprocessing @ np.concatenate(firsts), sigma, rng), dtype=np.float64)

    def average(self, codes: Ints) -> Ints:
        """Return the mean codes that every server receives, without noise: codes (groups, servers, n) to int64 (n,);
        raises InputError for a code that does not fit into the bits."""
        return self.second.function.decide(self.light(codes))

    @property
    def mzi_count(self) -> int:
        """Number of interferometers, in the paper's convention (each matrix as a full singular value decomposition, an
        embedding's as squares Σ · U), of the averagers of all groups and of level 2, without the preprocessing P of
        either level and the splitting T to the servers."""
        return self.groups * self.first.mzi_count + self.second.mzi_count


def build_cascade(
    groups: int, servers: int, bits: int, nonlinearity: Nonlinearity = "relu", noise: float | None = None
) -> Cascade:
    """Return two levels of constructed networks that are proved exact in float64, with the mean rounded down, each with
    the fewest interferometers that suffice.

    Without ``noise`` level 1 is chosen for itself, and the proved tolerance of level 2 must exceed four times the
    proved error of level 1, in units of full scale; with ``noise`` level 2 is chosen first. Each level has one network,
    that of level 1 for all groups, of at most four inputs.

    Args:
        groups: number of averagers of level 1.
        servers: number of servers of each group.
        bits: bits per code.
        nonlinearity: ``relu`` or ``clipped``.
        noise: standard deviation of the noise on every signal of both levels as a share of its full scale, at which
            99.99 % of 100,000 random tuples of codes (`random_codes`) must come out right; each network is then proved
            exact, and bears the noise, alone. None requires exactness only.

    Raises:
        ConfigError: a count is out of range, or, without ``noise``, there is no such pair.
        UnsupportedError: no pair bears the noise, or level 1 has no exact construction.
        InputError: the nonlinearity is unknown.
    """
    if noise is not None:
        return _sturdy_cascade(groups, servers, bits, nonlinearity, noise)
    function = second_level(groups, servers, bits)
    first = build(servers, bits, nonlinearity=nonlinearity, carries_decimals=True)
    for second in [*candidates(function, nonlinearity, smallest=True), *candidates(function, nonlinearity)]:
        # The error of level 1 is relative to the smallest full scale of an input of level 2.
        scale = min(i.maximum / i.denominator for i in function.inputs)
        if second.proof.float64 and second.proof.tolerance > 4 * first.proof.float64_error / scale:
            return Cascade(bits, groups, servers, first, second)
    raise ConfigError(f"no cascade of {groups} x {servers} servers with {bits} bits is proved exact in float64")


def _sturdy_cascade(groups: int, servers: int, bits: int, nonlinearity: Nonlinearity, noise: float) -> Cascade:
    """Return the first pair of networks that bears the noise: the level 2 with the fewest interferometers that bears it
    alone, and the level 1 with the fewest that does so and with which 99.99 % of 100,000 random tuples of codes come
    out right. Both are proved exact in float64.

    ``noise`` is the standard deviation on every signal as a share of its full scale.

    Raises:
        UnsupportedError: the noise on the inputs alone is too much, or no pair bears it.
    """
    first_function = AveragingFunction.of(servers, bits, carries_decimals=True)
    bound = min(input_bound(first_function), input_bound(second_level(groups, servers, bits)))
    if noise > bound:
        raise UnsupportedError(f"noise = {noise:g}: noise on the inputs limits any network of a cascade to {bound:.1e}")
    rng = np.random.default_rng(0)
    codes = random_codes(groups, servers, bits, _NOISY_TUPLES, rng)
    due = codes.sum(axis=(0, 1)) // (groups * servers)

    def sturdy(function: AveragingFunction) -> Iterator[Construction]:
        """Yield the constructions of a function that are proved exact in float64 and tolerate the noise alone, the
        smallest first."""
        made = candidates(function, nonlinearity)
        return (construction for construction in made if construction.proof.float64 and construction.tolerates(noise))

    for second in islice(sturdy(second_level(groups, servers, bits)), 1):
        for first in sturdy(first_function):
            cascade = Cascade(bits, groups, servers, first, second)
            if (second.function.decide(cascade.light(codes, noise, rng)) != due).mean() <= 1 - TARGET:
                return cascade
    raise UnsupportedError(f"no cascade of {groups} x {servers} servers with {bits} bits bears noise = {noise:g}")


def basic(codes: Ints) -> Ints:
    """Return the mean codes when both levels round down and no decimals pass between (eq. 9 of the OptINC paper): floor
    of the mean over groups of the floors of their means.

    Codes are (groups, servers, n), the result is (n,).
    """
    result: Ints = (codes.sum(axis=1) // codes.shape[1]).sum(axis=0) // codes.shape[0]
    return result


def random_codes(groups: int, servers: int, bits: int, count: int, rng: Rng, near_equal: float = 0.2) -> Ints:
    """Return ``count`` random tuples of codes, (groups, servers, count): uniform from 0 to 2^bits - 1, or close to each
    other.

    With the probability ``near_equal`` all codes of a tuple are within 3 of a common value (clipped to the range),
    where carries are frequent.
    """
    top = (1 << bits) - 1
    uniform = rng.integers(0, top + 1, (groups, servers, count))
    close = np.clip(rng.integers(0, top + 1, count) + rng.integers(-3, 4, (groups, servers, count)), 0, top)
    return np.where(rng.random(count) < near_equal, close, uniform)


def end_to_end(cascade: Cascade, tuples: int, seed: int = 0, advance: Advance = ignore) -> dict[str, Any]:
    """Count wrong results of random tuples of codes sent through both levels, with decimals by the cascade's networks,
    and without decimals in whole-number arithmetic, both levels rounding down (eq. 9).

    A result is wrong if it is not the floor of the mean. A fifth of the tuples is near-equal (`random_codes`).

    Args:
        cascade: the cascade, run without noise.
        tuples: number of tuples, each of a code for every server.
        seed: seed of the tuples.
        advance: called with the number of tuples done since the last call.

    Returns:
        ``tuples``, the counts ``wrong_with_decimals`` and ``wrong_without_decimals``, and
        ``share_wrong_without_decimals``.

    Raises:
        VerificationError: a result without decimals is neither right nor one too small.
    """
    rng = np.random.default_rng(seed)
    wrong = plain = done = 0
    while done < tuples:
        count = min(tuples - done, _TUPLES_AT_ONCE)
        codes = random_codes(cascade.groups, cascade.servers, cascade.bits, count, rng)
        once = codes.sum(axis=(0, 1)) // (cascade.groups * cascade.servers)
        wrong += int((cascade.average(codes) != once).sum())
        short = once - basic(codes)
        if not np.isin(short, (0, 1)).all():
            raise VerificationError(f"eq. 9 is off by {int(short.min())} to {int(short.max())}, expected 0 to 1")
        plain += int(short.sum())
        done += count
        advance(count)
    wrongs = {"wrong_with_decimals": wrong, "wrong_without_decimals": plain}
    return {"tuples": tuples, **wrongs, "share_wrong_without_decimals": plain / tuples}


# Files of cascades: the networks of both levels, and how many servers and bits they average.

SCHEMA = "lightloom.cascade/1"
_NUMBERS = ("bits", "groups", "servers")
_LEVELS = ("first", "second")


def save_cascade(path: Path, cascade: Cascade) -> Path:
    """Write the networks of a cascade to an ``.npz`` file atomically, and return its path.

    Raises:
        ConfigError: the suffix is not ``.npz``, or the file cannot be written.
    """
    content = {"schema": SCHEMA, **attributes(cascade, " ".join(_NUMBERS))}
    for level in _LEVELS:
        content |= network_arrays(getattr(cascade, level).network, f"{level}_")
    return write_npz(path, content)


def is_cascade(path: Path) -> bool:
    """Return whether an ``.npz`` file states the schema of a cascade; its other content is not checked.

    Raises:
        ConfigError: the file cannot be read, or is not an archive of arrays.
    """
    return str(read_npz(path).get("schema")) == SCHEMA


def load_cascade(path: Path) -> Cascade:
    """Return the cascade of a file that `save_cascade` wrote.

    A network whose weights are those of one of our constructions becomes that `Construction`, any other one a
    `PlainLevel`.

    Raises:
        ConfigError: the file cannot be read or has another schema, a number is out of range, or a network is invalid or
            of another shape than its level.
    """
    with reading(path, SCHEMA) as content:
        bits, groups, servers = (_whole(content[name], name) for name in _NUMBERS)
        functions = (AveragingFunction.of(servers, bits, carries_decimals=True), second_level(groups, servers, bits))
        first, second = (_level(content, level, function) for level, function in zip(_LEVELS, functions, strict=True))
        return Cascade(bits, groups, servers, first, second)


def cascade_hash(cascade: Cascade) -> str:
    """Return 16 hex digits that hash all that a file of the cascade holds, for the provenance of what is computed from
    it."""
    levels = (cascade.first.network, cascade.second.network)
    arrays = [[network.nonlinearity, plain_arrays(network)] for network in levels]
    return content_hash([SCHEMA, cascade.bits, cascade.groups, cascade.servers, arrays])


def _whole(value: np.ndarray[Any, Any], name: str) -> int:
    """Return the whole number that a file's array of no dimensions holds, as an int; ``name`` is for messages.

    Raises:
        ConfigError: the array has dimensions or is not of an integer type.
    """
    if value.shape != () or value.dtype.kind not in "iu":
        raise ConfigError(f"{name} = {value.tolist()!r}: expected a whole number")
    return int(value)


def _level(content: Mapping[str, np.ndarray[Any, Any]], level: str, function: AveragingFunction) -> Level:
    """Return the level whose network's arrays have names that start with ``level`` (``first`` or ``second``) and ``_``.

    It is the construction of ``function`` that has exactly these weights, or else a `PlainLevel` with the name ``no
    construction of ours``. Raises KeyError where an array is missing, InputError where the network is invalid.
    """
    network = network_of_arrays(content, f"{level}_")
    return recognise(network, function) or PlainLevel("no construction of ours", function, network)
