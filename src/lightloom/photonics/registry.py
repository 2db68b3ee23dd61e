"""Averagers by name: ``ideal``, ``table2:4-8``, ``constructed:noise=1e-3``, ``network:FILE.npz``, ``link:FILE.npz``,
``digit-sum``."""

from pathlib import Path

from lightloom.core.errors import ConfigError, UnknownNameError
from lightloom.photonics.averaging.averagers import (
    TABLE_II_ERRORS,
    Averager,
    DigitSum,
    DigitSumAverager,
    ErringAverager,
    IdealAverager,
    NetworkAverager,
)
from lightloom.photonics.averaging.construct import build
from lightloom.photonics.averaging.function import Rounding
from lightloom.photonics.averaging.networks import FunctionArguments, LayeredNetwork, load_mapping, load_network
from lightloom.photonics.link.settings import read_options
from lightloom.photonics.link.simulate import LinkAverager
from lightloom.photonics.meshes.mapping import BALANCED

KNOWN = {
    "ideal": "the exact mean",
    "constructed": "constructed[:noise=SHARE]: the smallest constructed network that tolerates the noise, run with it",
    "table2": "table2:LAYERS: the exact mean with the errors of a row of Table II (4-6, 4-7, 4-8, 3-6, 3-7; 16 bits)",
    "network": "network:FILE.npz[,noise=SHARE]: a network from a file, with noise on every signal",
    "link": "link:FILE.npz[,full-scale=3mW,phase-lock=0.05rad,...,fabrication=0]: a network from a file on one "
    "fabrication of a link, with the options of `onn link`",
    "digit-sum": "digit-sum[:levels=2][,power=DBM]: photodiodes add the servers' digits (4 levels or 2), adders carry; "
    "with the receivers' noise at so many dBm of a server's highest level at the detector",
}
"""Families of averagers, and the syntax of their names."""
_TABLE_II_BITS = 16


def find_averager(spec: str, servers: int, bits: int = 16, rounding: Rounding = "half-up", seed: int = 0) -> Averager:
    """Return the averager that a name with its options stands for, made for these servers, bits and rounding.

    Args:
        spec: ``ideal`` (the exact mean), ``constructed[:noise=SHARE]`` (the smallest constructed network that tolerates
            the noise, run with it), ``table2:LAYERS`` (the exact mean with the errors of a row of Table II such as
            ``4-7``; 16 bits only), ``network:FILE.npz[,noise=SHARE]`` (a network from a file),
            ``link:FILE.npz[,OPTION=VALUE,...]`` (one on a fabricated link, mapped as the file says or else in the
            balanced form, with the options of `read_options` and ``fabrication``, the seed of the devices, 0 by
            default) or ``digit-sum[:levels=2][,power=DBM]`` (digits added on photodiodes, 4 levels by default, with the
            receivers' noise if the power of a server's highest level is given in dBm). SHARE is noise on every signal
            relative to its full scale, 0 by default.
        servers: number of servers whose codes are averaged.
        bits: bits per code.
        rounding: rounding of the mean.
        seed: seed of noise and of the errors of Table II.

    Raises:
        UnknownNameError: the family, the row of Table II or an option of a link does not exist; the message says which
            do.
        ConfigError: an option cannot be parsed, ``table2`` is asked for other than 16 bits, or a file is not a network
            for these servers, bits and rounding.
        UnsupportedError: no construction tolerates the noise.
    """
    family, _, rest = spec.partition(":")
    if family not in KNOWN:
        raise UnknownNameError("averager", family, KNOWN)
    if family == "ideal":
        if rest:
            raise ConfigError(f"averager {spec!r}: ideal takes no options")
        return IdealAverager(servers, bits, rounding)
    if family == "table2":
        if rest not in TABLE_II_ERRORS:
            raise UnknownNameError("row of Table II", rest, TABLE_II_ERRORS)
        if bits != _TABLE_II_BITS:
            raise ConfigError(f"averager {spec!r} with {bits} bits: Table II is for {_TABLE_II_BITS} bits")
        return ErringAverager(IdealAverager(servers, bits, rounding), TABLE_II_ERRORS[rest], seed)
    if family == "constructed":
        noise = _noise(spec, rest)
        construction = build(servers, bits, noise=noise or None, rounding=rounding)
        arguments = FunctionArguments(servers=servers, bits=bits, rounding=rounding)
        return NetworkAverager(construction.network, arguments, noise, seed)
    if family == "digit-sum":
        levels, power = _digit_sum_options(spec, rest)
        return DigitSumAverager(DigitSum(servers=servers, bits=bits, levels=levels, rounding=rounding), power, seed)
    # File names may contain commas.
    if family == "link":
        name, options = _link_options(spec, rest)
        network, arguments = _network_for(name, servers, bits, rounding)
        fabrication = options.pop("fabrication", "0")
        if not fabrication.isdecimal():
            raise ConfigError(f"averager {spec!r}: fabrication {fabrication!r}: expected a whole number of at least 0")
        mapping = load_mapping(Path(name)) or BALANCED
        return LinkAverager(network, arguments, read_options(options), seed, int(fabrication), mapping)
    name, comma, share = rest.rpartition(",noise=")
    name, stated = (name, f"noise={share}") if comma else (rest, "")
    network, arguments = _network_for(name, servers, bits, rounding)
    return NetworkAverager(network, arguments, _noise(spec, stated), seed)


def _network_for(name: str, servers: int, bits: int, rounding: str) -> tuple[LayeredNetwork, FunctionArguments]:
    """Return the network of the file ``name``, and the arguments of its function.

    Raises:
        ConfigError: it cannot be read, or is not for these servers, bits and rounding.
    """
    network, arguments = load_network(Path(name))
    stated, wanted = (arguments.servers, arguments.bits, arguments.rounding), (servers, bits, rounding)
    if stated != wanted:
        purpose, expected = ("{} servers, {} bits, {}".format(*each) for each in (stated, wanted))
        raise ConfigError(f"{name!r}: a network for {purpose}, expected {expected}")
    return network, arguments


def _link_options(spec: str, rest: str) -> tuple[str, dict[str, str]]:
    """Return the file name and the options by name, as text, of ``rest``, what follows ``link:`` in an averager's name.

    The file name ends with ``.npz`` in front of the first comma behind such a name. ``spec``, the averager's whole
    name, is for messages.

    Raises:
        ConfigError: an option has no equals sign.
    """
    start, suffix, listed = rest.partition(".npz,")
    name = start + ".npz" if suffix else rest
    options = {}
    for part in filter(None, listed.split(",")):
        option, equals, text = part.partition("=")
        if not equals:
            raise ConfigError(f"averager {spec!r}: {part!r}: expected an option of `onn link`, e.g. full-scale=3mW")
        options[option] = text
    return name, options


def _digit_sum_options(spec: str, options: str) -> tuple[int, float | None]:
    """Return the levels of a digit (4 unless given) and the watts at the detector (None unless given in dBm).

    ``options`` is what follows ``digit-sum:`` in the averager's name ``spec``, which is for messages: ``levels=2`` or
    ``levels=4`` and ``power=DBM``, -80 to 20, separated by commas; an empty text takes the defaults.

    Raises:
        ConfigError: an option is unknown or out of range.
    """
    levels, power = 4, None
    for part in filter(None, options.split(",")):
        name, _, text = part.partition("=")
        value = _number(text.removesuffix("dBm"))
        if name == "levels" and value in (2, 4):
            levels = int(value)
        elif name == "power" and -80 <= value <= 20:
            power = 1e-3 * 10 ** (value / 10)
        else:
            raise ConfigError(f"averager {spec!r}: {part!r}: expected levels=2, levels=4 or power=DBM from -80 to 20")
    return levels, power


def _noise(spec: str, options: str) -> float:
    """Return the share of full scale that ``options`` states as ``noise=SHARE``, 0 for an empty text.

    ``spec``, the averager's whole name, is for messages.

    Raises:
        ConfigError: it is another option, or not a share from 0 to below 1.
    """
    if not options:
        return 0.0
    name, _, text = options.partition("=")
    if name != "noise" or not 0 <= _number(text) < 1:
        raise ConfigError(f"averager {spec!r}: expected noise=SHARE, from 0 to below 1 of full scale")
    return _number(text)


def _number(text: str) -> float:
    """Return the number of a text, NaN where it is none."""
    try:
        return float(text)
    except ValueError:
        return float("nan")
