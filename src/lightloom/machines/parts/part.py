"""A component of a cluster, as its YAML file describes it."""

from functools import cache
from pathlib import Path
from typing import Annotated, ClassVar, Generic, Literal, Self, TypeVar, get_args

from pydantic import Field, model_validator

from lightloom.core.configfile import catalog_file, catalog_files, read_entry, validate
from lightloom.core.errors import ConfigError, UnknownNameError
from lightloom.core.fields import Bandwidth, Config, Count, JoulesPerBit, Seconds, Watts
from lightloom.core.results import Described, Document
from lightloom.core.units import YEAR, format_quantity, format_rate

# Amounts of bills as text: dollars, watts, joules per bit, failures a year and mean times in hours.

Unit = Literal["dollars", "power", "energy", "energy_per_bit", "lifetime", "rate", "share", "decibels", "samples"]


def format_amount(value: float, unit: Unit) -> str:
    """Return an SI amount as text in the unit that people use: ``$ 1,234``; watts and joules with a prefix where they
    need one, such as ``9 W``; ``79,200 h`` for seconds (``lifetime``); ``0.11 a year`` for failures a second
    (``rate``); shares (0 to 1) in percent; ``3 dB``; samples per second as a bare number, such as ``1,234``
    (``samples``); every other unit, such as bytes or joules per bit, as :func:`format_quantity` writes it. There are
    three or four significant digits, but dollars from 100 on and hours are whole numbers."""
    if unit == "dollars":
        return f"$ {value:,.0f}" if value >= 100 else f"$ {value:.3g}"
    if unit == "power" and value == 0:
        return "0 W"
    if unit == "share":
        return f"{100 * value:.3g} %"
    if unit == "decibels":
        return f"{value:.3g} dB"
    if unit == "lifetime":
        return f"{value / 3600:,.0f} h"
    if unit == "samples":
        return format_rate(value)
    return f"{value * YEAR:.3g} a year" if unit == "rate" else format_quantity(value, unit)


# A figure of a component: its value, its range, where it comes from and how far the source can be trusted.
#
#     dollars: {value: 659, year: 2025, confidence: read, source: ...}
#     static_power: {value: 9 W, low: 8 W, confidence: read, source: ...}
#
# Values are SI: dollars, watts, joules per bit, seconds. What is unknown has no figure at all: a field that may hold
# one is then null, and every total names it.

Confidence = Literal["read", "quoted", "assumption"]
"""``read`` in the paper, the data sheet or a project's own data file; ``quoted`` verbatim by a third party;
``assumption``: a vendor's claim, an excerpt, an estimate or a derivation that nothing published confirms."""

Dollars = Annotated[float, Field(ge=0)]


Number = TypeVar("Number", bound=float)


class Figure(Config, Generic[Number]):
    """One figure of a component, in SI units."""

    unit: ClassVar[Unit]
    value: Number
    low: Number | None = None
    """Least value that the sources allow; null where they state one value alone."""
    high: Number | None = None
    """Greatest value that the sources allow."""
    bound: Literal["least", "most"] | None = None
    """The limit that the source states in place of a value: ``most`` of a rated power, ``least`` of a lifetime that no
    failure has ended yet; null for a value."""
    confidence: Confidence
    source: Annotated[str, Field(min_length=1)]
    """Where the value and its range come from."""
    year: Annotated[int, Field(ge=1990, le=2100)] | None = None
    """Year of the value."""

    @model_validator(mode="after")
    def _range_holds_the_value(self) -> Self:
        """Raise ValueError for a range that does not hold the value; otherwise return the figure unchanged."""
        if not self.least <= self.value <= self.most:
            shown = [format_amount(value, self.unit) for value in (self.least, self.value, self.most)]
            raise ValueError(f"a range of {shown[0]} to {shown[2]} does not hold the value {shown[1]}")
        return self

    @property
    def assumed(self) -> bool:
        """True if no published source states the value (``confidence`` is ``assumption``)."""
        return self.confidence == "assumption"

    @property
    def least(self) -> float:
        """The low end of the range; the value where there is no range."""
        return self.value if self.low is None else self.low

    @property
    def most(self) -> float:
        """The high end of the range; the value where there is no range."""
        return self.value if self.high is None else self.high

    def text(self) -> str:
        """Return the value with its unit (the limit alone, without a word, where ``bound`` is set), the range where it
        is wider, and in parentheses the year and ``assumption`` where they apply: ``9 W (8 to 18) (2024,
        assumption)``."""
        label = "".join([f", {self.year}" if self.year else "", ", assumption" if self.assumed else ""])
        return f"{range_text(self.value, self.least, self.most, self.unit)}{f' ({label[2:]})' if label else ''}"


def range_text(value: float, low: float, high: float, unit: Unit) -> str:
    """Return a value with its range in parentheses, such as ``9 W (8 to 18)``; the value alone where both ends of the
    range look the same as text."""
    shown = format_amount(value, unit)
    least, most = format_amount(low, unit), format_amount(high, unit)
    if least == most:
        return shown
    numbers, _, names = zip(*(text.partition(" ") for text in (shown, least, most)), strict=True)
    if unit != "dollars" and len(set(names)) == 1:
        return f"{shown} ({numbers[1]} to {numbers[2]})"
    return f"{shown} ({least} to {most})"


class Price(Figure[Dollars]):
    """Dollars of one component; ``year`` says of which year."""

    unit: ClassVar[Unit] = "dollars"
    year: Annotated[int, Field(ge=1990, le=2100)]


class Power(Figure[Watts]):
    """Watts of one component, busy or idle."""

    unit: ClassVar[Unit] = "power"


class EnergyPerBit(Figure[JoulesPerBit]):
    """Joules of every bit that passes a component, beside its static power."""

    unit: ClassVar[Unit] = "energy_per_bit"


class MeanTime(Figure[Annotated[Seconds, Field(gt=0)]]):
    """Mean time between failures of one component, in seconds."""

    unit: ClassVar[Unit] = "lifetime"


class Decibels(Figure[Annotated[float, Field(ge=0)]]):
    """A loss or a gain of light."""

    unit: ClassVar[Unit] = "decibels"


class Share(Figure[Annotated[float, Field(gt=0, le=1)]]):
    """A share of one, such as an efficiency."""

    unit: ClassVar[Unit] = "share"


Kind = Literal[
    "transceiver",
    "engine",
    "cable",
    "fibre",
    "nic",
    "switch-port",
    "node-link",
    "circuit-switch",
    "circuit-switch-port",
    "light-source",
    "modulator",
    "receiver",
    "serialiser",
    "ring",
    "interferometer",
    "phase-shifter",
    "amplifier",
    "converter",
    "logic",
    "splitter",
    "averager",
    "board",
    "host",
    "stated",
]
"""Kind of a component; ``stated`` stands for figures that a fabric's own file states."""
KINDS: tuple[Kind, ...] = get_args(Kind)

FigureName = Literal["dollars", "static_power", "dynamic_energy", "mtbf"]
"""A figure that every component has, or lacks."""
FIGURES: tuple[FigureName, ...] = get_args(FigureName)
_WORDS = {
    "dollars": "price",
    "static_power": "power",
    "dynamic_energy": "dynamic energy",
    "mtbf": "mean time between failures",
}


class Part(Described):
    """One component: what it costs, draws and how long it lasts; null is unknown, and totals name it."""

    name: str
    kind: Kind
    description: Annotated[str, Field(min_length=1)]
    """One line for people."""
    rate: Bandwidth | None = None
    """Bytes per second through it, per direction; null where it has no rate of its own (fibre, an optical switch)."""
    radix: Count | None = None
    """Ports of a switch; of a port, those of the switch that it belongs to."""
    reach: Annotated[float, Field(gt=0)] | None = None
    """Metres that a link over it may be long."""
    dollars: Price | None = None
    static_power: Power | None = None
    """Watts, busy or idle."""
    static_energy: EnergyPerBit | None = None
    """Joules of every bit that it could carry, drawn busy or idle, where the power grows with the rate."""
    dynamic_energy: EnergyPerBit | None = None
    """Joules of every bit that passes it, on top of ``static_power``."""
    mtbf: MeanTime | None = None
    """Mean time between failures."""
    reconfiguration_time: Seconds | None = None
    """Seconds in which a circuit switch sets new circuits."""
    link_up_time: Seconds | None = None
    """Seconds from new circuits until the links over them carry data."""
    loss: Decibels | None = None
    """Loss of light that passes the component, in decibels."""
    gain: Decibels | None = None
    """Gain of light that passes the component, in decibels."""
    efficiency: Share | None = None
    """Light for electricity, of a light source."""
    fits: tuple[str, ...] = ()
    """Accelerators of the catalog that a board or a host is for."""
    serves: Count = 1
    """Ranks of one: 8 of a host with eight boards."""
    covers: dict[FigureName, tuple[Kind, ...]] = Field(default_factory=dict)
    """Kinds of other components whose figures these hold already: a host's measured power holds its network cards."""
    holds: dict[Kind, Bandwidth] = Field(default_factory=dict)
    """Bytes per second, for each rank it serves, of such components that it holds at most; of others, all."""
    counted_elsewhere: dict[FigureName, str] = Field(default_factory=dict)
    """Figures that another component's hold, and why: such a null is not missing."""
    unknown: dict[FigureName, str] = Field(default_factory=dict)
    """Why a figure is null, where there is more to say than that no source was found."""
    sources: dict[str, str] = Field(default_factory=dict)
    """Where each other field's value comes from, by field name."""

    def heading(self) -> str:
        """Return kind and name of the component, with a blank between: ``transceiver transceiver-400g``."""
        return f"{self.kind} {self.name}"

    @model_validator(mode="after")
    def _null_is_explained_once(self) -> Self:
        """Raise ValueError for both static power and static energy, and for a figure that is also listed in
        ``counted_elsewhere`` or ``unknown``; otherwise return the part unchanged."""
        if self.static_power is not None and self.static_energy is not None:
            raise ValueError("static_power and static_energy are the same watts: expected one of them")
        for name in (*self.counted_elsewhere, *self.unknown):
            if self.figure(name) is not None:
                raise ValueError(f"{name} has a figure and a reason to have none: expected one of them")
        return self

    def figure(self, name: FigureName) -> Figure[float] | None:
        """Return one figure of the component: ``dollars``, ``static_power`` (watts), ``dynamic_energy`` (joules per
        bit) or ``mtbf`` (seconds); None where it is unknown or counted elsewhere.

        Of a component whose static power grows with its rate, ``static_power`` is the figure ``static_energy``, in
        joules per bit that it could carry.
        """
        figure: Figure[float] | None = getattr(self, name)
        return self.static_energy if figure is None and name == "static_power" else figure

    def missing(self, name: FigureName) -> str | None:
        """Return what is unknown, as ``price of nic-800g``, or ``power``, ``dynamic energy`` or ``mean time between
        failures`` of it; None where the figure is known or counted elsewhere."""
        if self.figure(name) is not None or name in self.counted_elsewhere:
            return None
        return f"{_WORDS[name]} of {self.name}"


# Parts by name: the catalog, and a user's YAML file.

CATALOG = Path(__file__).parent / "catalog"


def names() -> list[str]:
    """Return the names of the parts in the catalog, sorted."""
    return sorted(catalog_files(CATALOG))


def description(name: str) -> Document:
    """Return the fields of a part's catalog entry or YAML file as written, with sources; UnknownNameError where there
    is neither, ConfigError where the file cannot be read."""
    return read_entry(_find_part(name), "part")


@cache
def load_part(name: str) -> Part:
    """Return a component of the catalog, such as ``transceiver-400g``, or of a YAML file, by a path that ends in
    ``.yaml`` or ``.yml``; its name is the file's without the suffix unless the file states one.

    Raises:
        UnknownNameError: neither a catalog name nor a file.
        ConfigError: the file cannot be read, or a field is missing, unknown or out of range.
    """
    path = _find_part(name)
    where = name if path.is_relative_to(CATALOG) else str(path)
    return validate(Part, {"name": path.stem, **read_entry(path, "part")}, where)


def loss_of(name: str) -> float:
    """Return the loss of light, in decibels (positive), of a component, by its name in the catalog or the path of its
    YAML file; UnknownNameError for neither, AssertionError for one that states no loss."""
    loss = load_part(name).loss
    assert loss is not None
    return loss.value


def part_of_kind(name: str, kind: Kind, field: str) -> Part:
    """Return the component of this name, from the catalog or a YAML file; ``field`` is the name of the option or field
    that asks for it, with which the message on another kind begins.

    Raises:
        UnknownNameError: neither a catalog name nor a file.
        ConfigError: it is of another kind, or a field of its file is missing, unknown or out of range.
    """
    component = load_part(name)
    if component.kind != kind:
        raise ConfigError(f"{field}={name}: a {component.kind}: expected a {kind}, one of {', '.join(names_of(kind))}")
    return component


@cache
def names_of(kind: Kind) -> tuple[str, ...]:
    """Return the names of the catalog's components of one kind, sorted."""
    return tuple(name for name in names() if load_part(name).kind == kind)


def _find_part(name: str) -> Path:
    """Return the path of a catalog entry or of a YAML file, a name that ends in ``.yaml`` or ``.yml``, whether or not
    the file exists; UnknownNameError where the name is neither."""
    if (path := catalog_file(name, CATALOG)) is None:
        raise UnknownNameError("part", name, names())
    return path
