"""``lightloom onn build --reducers``: ways to average servers' codes, what each costs, and what turns the verdict."""

from dataclasses import asdict
from math import inf, log10
from pathlib import Path

from rich.table import Table

from lightloom.app.cli.onn.settings import ReducersSettings, settings_of
from lightloom.app.cli.options import Shown, draw
from lightloom.core.errors import ConfigError
from lightloom.core.results import Document, cells
from lightloom.machines.reducers.compare import FORFEITS, ReducerComparison
from lightloom.machines.reducers.compare import compare_reducers as compare
from lightloom.machines.reducers.rivals import NETWORK
from lightloom.photonics.link.settings import Link
from lightloom.reports.console import Parts, facts_table, plain_table, rows_table, screen
from lightloom.reports.figures.photonics import PARTS, reducers_figure
from lightloom.reports.progress import progress

_TURNS = 12


def compare_reducers(
    servers: int | None, bits: int, file: Path | None, texts: list[str] | None, figure: Path | None, explain: bool
) -> Shown:
    """Compare networks, sums of digits, reducer chips and switches: energy, latency, light, limits, the verdict;
    settings are those of a file and of ``--set``."""
    if servers is None:
        raise ConfigError("--reducers: give --servers N too")
    chosen = settings_of(ReducersSettings, file, texts)
    names = tuple(name.strip() for name in chosen.pair.split(","))
    if len(names) != 2:
        raise ConfigError(f"pair = {chosen.pair!r}: expected two rivals, such as digit-sum,reducer-asic")
    options: Document = {"word_errors": chosen.word_errors, "given": chosen.model_extra, "draws": chosen.draws}
    with progress("Comparing", None):
        made = compare(servers, bits, pair=(names[0], names[1]), **options)
    document = made.to_json()
    drawn = draw(figure, lambda: reducers_figure(made), document)
    return Shown(document, _parts(made, explain), {"drawn": drawn})


def _parts(made: ReducerComparison, explain: bool) -> Parts:
    """Yield the answer with a row for each reducer; with ``explain`` also tables of energies and of constants that turn
    the verdict, the verdict, what averaging in the light forfeits, and assumptions."""
    setting, (first, second) = made.setting, made.pair
    best = next(rival for rival in made.rivals.values() if not rival.limits)
    bests = [f"{best.name}, {_pj(best.energy_per_bit)} pJ/bit ({_range(made, best.name)} in 90 % of draws)"]
    if NETWORK in made.rivals:
        network, chip = made.rivals[NETWORK].energy_per_bit, made.rivals["reducer-asic"].energy_per_bit
        ratio = f"takes {network / chip:.3g} times the energy of reducer-asic" if network < inf else "lacks light"
        bests.append(
            f"The network {ratio}, less in {100 * made.ranges[NETWORK].sooner['reducer-asic']:.0f} % of draws."
        )
    assumed = sum(constant.assumed for constant in made.constants.values())
    rows = [
        {
            "reducer": name,
            "pJ/bit": _pj(rival.energy_per_bit),
            "90 % of draws": _range(made, name),
            "latency": f"{1e9 * rival.total_latency:.3g} ns",
            "light a server": "none" if rival.launched is None else f"{_dbm(rival.launched)} dBm",
            "limits": "broken" if rival.limits else "kept",
        }
        for name, rival in made.rivals.items()
    ]
    even = {turn.constant: turn.break_even for turn in made.turns if turn.break_even is not None}
    limits = [f"{rival.name}: {limit}" for rival in made.rivals.values() for limit in rival.limits]
    yield from screen(
        f"What averages {setting.servers} servers' codes of {setting.bits} bits at {setting.symbol_rate / 1e9:g} GBd "
        "with the least energy?",
        bests,
        rows,
        legend=f"{made.draws} draws of all {len(made.constants)} constants, {assumed} of them assumptions",
        what_if=[
            f"{constant.name} {value:.3g} {constant.unit}".strip() + f": {first} takes what {second} takes"
            for constant, value in list(even.items())[:3]
        ],
        limit="; ".join([*limits, *(f"{name} left out: {why}" for name, why in made.refused.items())]),
        more=["--explain", "--set CONSTANT=VALUE", "--figure reducers.png"],
    )
    if not explain:
        return
    yield _energies(made)
    yield _turns(made)
    tried, wrong = made.tried_sums
    yield f"digit-sum is proved exact, and tried on {tried:,} tuples of sums: {wrong:,} wrong"
    yield "verdict"
    yield from (f"  {sentence}" for sentence in made.verdict)
    yield facts_table(FORFEITS, title="what averaging in the light forfeits")
    given = sum(constant.given for constant in made.constants.values())
    yield _path(made)
    yield f"{given} constants given; --json has every source. Each is drawn evenly and by itself."


def _range(made: ReducerComparison, name: str) -> str:
    """Return the range of a reducer's energy in 90 % of draws."""
    return f"{_pj(made.ranges[name].low)} to {_pj(made.ranges[name].high)}"


def _path(made: ReducerComparison) -> str:
    """Return a sentence on the loss of a lane's path in dB, where it comes from, and why `onn link` has another."""
    laser, efficiency = (made.constants[name].value for name in ("laser", "laser_efficiency"))
    derived = f"derived from the laser of a plain lane ({laser:g} pJ/bit at an efficiency of {efficiency:g})"
    other = f"onn link assumes {Link().path_loss_db:g} dB for couplers, modulator and connectors alone"
    return f"path of a lane: {made.path_loss_db:.0f} dB from modulator to detector, margin included, {derived}; {other}"


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
        {**asdict(turn.constant), "kind": "assumption" if turn.constant.assumed else "sourced"}
        | {"least": _percent(turn.at_low), "most": _percent(turn.at_high)}
        | {"even": "" if turn.break_even is None else f"{turn.break_even:.3g}"}
        for turn in made.turns[:_TURNS]
    ]
    columns = "constant: {name} | value: {value:g} {unit} | range: {low:g} to {high:g} | at its least: {least} | "
    columns += "at its most: {most} | even at: {even} | source: {kind}"
    first, second = made.pair
    title = f"what {first} saves against {second}: {_percent(made.saving(first, second))}"
    return rows_table(cells(columns, rows), title=title)


def _pj(joules: float) -> str:
    """Return joules as picojoules with three digits; "no light" for infinity."""
    return "no light" if joules == inf else f"{1e12 * joules:.3g}"


def _dbm(watts: float | None) -> str:
    """Return watts in dBm with one decimal; empty for None (no light), a dash for infinity."""
    return "" if watts is None else "–" if watts == inf else f"{10 * log10(watts / 1e-3):.1f}"


def _percent(share: float) -> str:
    """Return a share in whole per cent; "no light does" for minus infinity."""
    return "no light does" if share == -inf else f"{100 * share:.0f} %"
