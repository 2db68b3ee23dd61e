"""``lightloom onn compare-reducers``: ways to average servers' codes, what each costs, and what turns the verdict."""

from collections.abc import Iterator
from math import inf, log10
from typing import Annotated

from pydantic import Field
from rich.table import Table
from rich.text import Text

from lightloom.app.cli.options import FigureFile, Shown, draw, read_settings
from lightloom.core.errors import ConfigError
from lightloom.machines.reducers.compare import DRAWS, FORFEITS, ReducerComparison
from lightloom.machines.reducers.compare import compare_reducers as compare
from lightloom.photonics.link.settings import Link
from lightloom.reports.console import facts_table, plain_table
from lightloom.reports.figures.photonics import PARTS, reducers_figure
from lightloom.reports.progress import progress

_TURNS = 12


def compare_reducers(
    *,
    servers: int,
    bits: int = 8,
    word_errors: float = 1e-6,
    set: list[str] | None = None,
    pair: str = "digit-sum,reducer-asic",
    draws: Annotated[int, Field(ge=20)] = DRAWS,
    figure: FigureFile = None,
) -> Shown:
    """Compare networks, sums of digits, reducer chips and switches: energy, latency, light, limits, the verdict.

    Args:
        servers: Servers whose codes are averaged, 2 to 32.
        bits (B): Bits of a code.
        word_errors (S): Share of wrong words that sums in the light may have; error correction of them is not counted.
        set: constant=value, in the constant's unit (--json lists all); repeatable.
        pair (A,B): The two rivals whose difference is explained: A,B.
        draws: Draws of all constants behind the ranges.
        figure: Draw energies with their ranges, and what turns the verdict (.svg, .png, .pdf).
    """
    names = tuple(name.strip() for name in pair.split(","))
    if len(names) != 2:
        raise ConfigError(f"--pair {pair!r}: expected two rivals, such as digit-sum,reducer-asic")
    given = read_settings(set)
    with progress("Comparing", None):
        made = compare(servers, bits, word_errors=word_errors, given=given, pair=(names[0], names[1]), draws=draws)
    document = made.to_json()
    drawn = draw(figure, lambda: reducers_figure(made), document)
    return Shown(document, _parts(made), {"drawn": drawn})


def _parts(made: ReducerComparison) -> Iterator[str | Text | Table]:
    """Yield tables of costs, energies and constants that turn the verdict; then limits, the verdict and its
    assumptions."""
    setting = made.setting
    title = f"{setting.servers} servers, {setting.bits} bits, {setting.symbol_rate / 1e9:g} GBd"
    yield _costs(made, title)
    yield ""
    yield _energies(made)
    yield ""
    yield _turns(made)
    yield ""
    for rival in made.rivals.values():
        if rival.limits:
            yield Text(f"{rival.name}: {'; '.join(rival.limits)}", style="dim")
    for name, why in made.refused.items():
        yield Text(f"{name} left out: {why}", style="dim")
    tried, wrong = made.tried_sums
    yield f"digit-sum is proved exact, and tried on {tried:,} tuples of sums: {wrong:,} wrong"
    yield ""
    yield "verdict"
    yield from (f"  {sentence}" for sentence in made.verdict)
    yield ""
    yield facts_table(FORFEITS, title="what averaging in the light forfeits")
    yield Text(_path(made), style="dim")
    assumed = sum(constant.assumed for constant in made.constants.values())
    given = sum(constant.given for constant in made.constants.values())
    yield Text(
        f"{assumed} of {len(made.constants)} constants are assumptions, {given} given; --json has every source. "
        f"Ranges: 90 % of {made.draws} draws of all constants, each evenly over its range, independent of the others.",
        style="dim",
    )


def _path(made: ReducerComparison) -> str:
    """Return a sentence on the loss of a lane's path in dB, where it comes from, and why `onn link` has another."""
    laser, efficiency = (made.constants[name].value for name in ("laser", "laser_efficiency"))
    derived = f"derived from the laser of a plain lane ({laser:g} pJ/bit at an efficiency of {efficiency:g})"
    other = f"onn link assumes {Link().path_loss_db:g} dB for couplers, modulator and connectors alone"
    return f"path of a lane: {made.path_loss_db:.0f} dB from modulator to detector, margin included, {derived}; {other}"


def _costs(made: ReducerComparison, title: str) -> Table:
    """Return a table with a row for each reducer: pJ/bit with the range of 90 % of draws, latency in ns, light in dBm,
    effective bits, and whether it stays within limits."""
    rows = []
    for name, rival in made.rivals.items():
        spread = made.ranges[name]
        rows.append(
            [
                name,
                _pj(rival.energy_per_bit),
                f"{_pj(spread.low)} to {_pj(spread.high)}",
                f"{1e9 * rival.total_latency:.3g}",
                _dbm(rival.launched),
                _dbm(rival.detected),
                "" if rival.enob is None else f"{rival.enob:.1f}",
                "yes" if not rival.limits else "no",
            ]
        )
    columns = ["reducer", "pJ/bit", "90 % of draws", "ns", "dBm a server", "dBm a lane", "ENOB", "within limits"]
    return plain_table(columns, rows, title=title)


def _energies(made: ReducerComparison) -> Table:
    """Return a table of pJ/bit with a row for each reducer and a column for each group of parts."""
    rows = [
        [name, *(_pj(sum(rival.energy.get(part, 0.0) for part in parts)) for parts in PARTS.values())]
        for name, rival in made.rivals.items()
    ]
    return plain_table(["pJ/bit", *PARTS], rows, title="where the energy goes")


def _turns(made: ReducerComparison) -> Table:
    """Return a table of the constants that change the comparison most: the first rival's saving with the constant at
    either end of its range, and the value at which both are even."""
    rows = [
        [
            turn.constant.name,
            f"{turn.constant.value:g} {turn.constant.unit}".strip(),
            f"{turn.constant.low:g} to {turn.constant.high:g}",
            _percent(turn.at_low),
            _percent(turn.at_high),
            "" if turn.break_even is None else f"{turn.break_even:.3g}",
            "assumption" if turn.constant.assumed else "sourced",
        ]
        for turn in made.turns[:_TURNS]
    ]
    first, second = made.pair
    columns = ["constant", "value", "range", "at its least", "at its most", "even at", "source"]
    return plain_table(
        columns, rows, title=f"what {first} saves against {second}: {_percent(made.saving(first, second))}"
    )


def _pj(joules: float) -> str:
    """Return joules as picojoules with three digits; "no light does" for infinity."""
    return "no light does" if joules == inf else f"{1e12 * joules:.3g}"


def _dbm(watts: float | None) -> str:
    """Return watts in dBm with one decimal; empty for None (no light), a dash for infinity."""
    return "" if watts is None else "–" if watts == inf else f"{10 * log10(watts / 1e-3):.1f}"


def _percent(share: float) -> str:
    """Return a share in whole per cent; "no light does" for minus infinity."""
    return "no light does" if share == -inf else f"{100 * share:.0f} %"
