"""The page ``docs/photonics/reducers.md``: every rival for 2, 4, 8 and 16 servers, with its picture.

python -m benchmarks.photonics.reducers        # writes the page and the picture, about two CPU minutes
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import inf, log10
from pathlib import Path

from benchmarks.support.measure import parse_no_options
from lightloom.core.results import provenance_line
from lightloom.machines.reducers.built import Averaging
from lightloom.machines.reducers.capacity import capacity, most_wavelengths
from lightloom.machines.reducers.compare import FORFEITS, ReducerComparison, compare_reducers
from lightloom.machines.reducers.constants import published
from lightloom.photonics.detection import DigitReceiver, Scheme
from lightloom.reports.figures.canvas import save
from lightloom.reports.figures.photonics import reducers_figure

PAGE = Path("docs/photonics/reducers.md")
PICTURE = Path("docs/pictures/onn-reducers.png")
SERVERS = (2, 4, 8, 16)
_SCHEMES: tuple[Scheme, ...] = ("separate", "wavelengths", "homodyne")
CLAIMED = 6.4e12 / 8
"""Bytes a second of a server of OptINC: eight ports of 800 Gb/s."""

_INTRODUCTION = """# Reducers compared

What averages servers' codes with the least energy: a network of interferometers, a sum of digits in the light, a chip,
or a switch?

    lightloom onn build --servers 4 --reducers --figure reducers.png

```python
import lightloom as ll

made = ll.compare_reducers(4)
made.verdict, made.rivals["digit-sum"].energy, made.turns[0].constant.name
```

![Energy of seven reducers for 4 servers by part with ranges; what single constants do to the saving of digit-sum against a reducer chip](../pictures/onn-reducers.png)

*4 servers, 8 bits, 50 GBd. Left: energy of a bit that a server sends and gets back as a mean, in 90 % of draws of all constants.
Right: what `digit-sum` saves against `reducer-asic` when one constant goes from the least to the greatest value that it may have.*

`python -m benchmarks.photonics.reducers` makes this page. Every constant is in `machines/reducers/constants.yaml` with its range and
its source, or the word assumption; `--set constant=value` replaces one, `--json` prints all.
"""  # noqa: E501

_RIVALS = """
## The rivals

| name | what it is | counted besides the servers' ends |
| --- | --- | --- |
| `row-gain-network` | a gain for each row, [components](meshes.md) as meshes of their own, limiting homodyne units | units, local oscillators, carriers, heaters, phase locks |
| `digit-sum`, `-nrz` | a wavelength for each server, added by a photodiode a digit (PAM4, or on-off), digital carries | multiplexers, converters, adders, transmitters split to servers |
| `homodyne-sum` | fields of both signs of lasers locked in phase, added, detected against a local oscillator, digital carries | the same, local oscillators, phase locks |
| `reducer-asic` | a dedicated chip with an optical end for every server | receivers, transmitters, error correction, logic |
| `broadcasting-asic` | the same, its result on few transmitters split to the servers | the same |
| `packet-switch` | a switch with co-packaged optics that reduces | silicon of the switch |

All lanes are built of the same electronics and the same laser: that of a plain PAM4 lane with error correction, times the decibels
that a rival needs beyond it (`photonics.detection`: levels, thermal and shot noise, intensity noise, levelling, phases; then
multiplexers and splitters). More noise than the published constants state costs every lane light, plain ones too. Sums of fields
carry the noise of all lasers and of the oscillator, levelling and phases, as [`onn link`](link.md) simulates them, and fields of both
signs, which take a quarter of the light of fields from zero upwards; until version 0.2 they were counted without laser noise and
levelling, with 3 dB for phases and fields from zero upwards (10.3 pJ for 4 servers, 10.4 for 8, 11.5 for 16). That laser (2 pJ/bit at an efficiency of 0.09: 18 mW for -12.3 dBm at the detector) implies 25 dB from the modulator to the
detector, margin included, where [`onn link`](link.md) takes 10 dB of path: hence 143 mW a lane here and 7.5 mW there. The way up of sums and networks has no error correction, hence 1e-6 wrong words must do (`--set word_errors=S`); the way back of
a digit sum has it. Latency leaves out what is alike for all: fibres (5 ns a metre) and the servers' ends.
"""  # noqa: E501

_MEANING = """
## What follows

* **No network of interferometers wins on energy.** Units and lasers cost more than the receivers, adders and transmitters
  that they replace. The one with a gain for each row comes near a reducer chip for 4 servers only where all constants
  favour it at once. The paper's own, with one gain a matrix and units that nobody has built, took 1,000 times a chip's
  energy or more without these units, and is not listed since version 0.3.
* **The earlier estimate of a third is refuted once lasers count.** A sum in the light needs more light a lane than a plain
  lane: no error correction, more noise, a multiplexer. With 2 pJ/bit for a plain lane's laser (an assumption) PAM4 sums
  cost more than a chip; below the break-even in the table they save, and at 0.3 pJ/bit with powers levelled to 0.3 % a
  third, as estimated.
* **On-off sums save {nrz_asic} against a chip, and take {nrz_broadcast} more than one that broadcasts its result**: what
  they save is the broadcast. Fields of locked lasers save {fields_asic} and {fields_broadcast}. Both within limits of
  converters, up to {nrz_most} and {fields_most} servers.
* **Latency is what light wins**: below a nanosecond for a network, 105 ns for sums (error correction on the way back),
  212 ns for a chip with error correction on both ways.

The same figures are in plans: `averaging.reducer` of an `optical-averager` [fabric](../fabrics.md) names a rival.

    lightloom plan resnet50 --cluster optinc-4 --set fabric.averaging.reducer=digit-sum-nrz
    lightloom budget --cluster optinc-4
"""  # noqa: E501


def main() -> None:
    """Write the page and its picture."""
    made = {servers: compare_reducers(servers) for servers in SERVERS}
    save(reducers_figure(made[4]), PICTURE, provenance_line(made[4].to_json()["provenance"]))
    parts = (
        [_INTRODUCTION],
        _energies(made),
        _rows(made[4]),
        _turns(made),
        _verdicts(made),
        [_meaning(made), _RIVALS],
        _digit_sum(made),
        _capacity(),
        _forfeits(),
        _constants(),
    )
    PAGE.write_text("\n".join(line for part in parts for line in part) + "\n")


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield f"| --- {'| ---: ' * (len(columns) - 1)}|"
    yield from (f"| {' | '.join(row)} |" for row in rows)
    yield ""


def _meaning(made: Mapping[int, ReducerComparison]) -> str:
    """What follows, with the savings over all numbers of servers."""

    def savings(rival: str, other: str, sign: int = 1) -> str:
        shares = sorted(sign * 100 * comparison.saving(rival, other) for comparison in made.values())
        return f"{shares[0]:.0f} to {shares[-1]:.0f} %"

    most = made[4].most_servers
    return _MEANING.format(
        nrz_asic=savings("digit-sum-nrz", "reducer-asic"),
        nrz_broadcast=savings("digit-sum-nrz", "broadcasting-asic", -1),
        fields_asic=savings("homodyne-sum", "reducer-asic"),
        fields_broadcast=savings("homodyne-sum", "broadcasting-asic"),
        nrz_most=most["digit-sum-nrz"],
        fields_most=most["homodyne-sum"],
    )


def _energies(made: Mapping[int, ReducerComparison]) -> Iterator[str]:
    yield "## Energy\n"
    yield "pJ for a bit of a server, in brackets 90 % of 200 draws of all constants; a star: it breaks a limit.\n"
    rows = []
    for name in made[4].rivals:
        row = [f"`{name}`"]
        for comparison in made.values():
            rival, spread = comparison.rivals[name], comparison.ranges[name]
            ends = f"{_pj(spread.low)} to {_pj(spread.high)}"
            row.append(f"{_pj(rival.energy_per_bit)} ({ends}){'*' if rival.limits else ''}")
        rows.append(row)
    yield from _table(["reducer", *(f"{servers} servers" for servers in made)], rows)


def _rows(made: ReducerComparison) -> Iterator[str]:
    yield "## Latency, light and limits, 4 servers\n"
    rows = [
        [
            f"`{name}`",
            f"{1e9 * rival.total_latency:.3g}",
            _dbm(rival.launched),
            _dbm(rival.detected),
            "" if rival.enob is None else f"{rival.enob:.1f}",
            "; ".join(rival.limits),
        ]
        for name, rival in made.rivals.items()
    ]
    columns = ["reducer", "ns", "dBm a server at its modulators", "dBm a lane at the reducer", "ENOB", "breaks a limit"]
    yield from _table(columns, rows)
    for name, most in made.most_servers.items():
        reach = f"up to {most} servers" if most else "for no number of servers"
        yield f"* `{name}` stays within its limits {reach}."
    yield "* Networks are constructed for up to 16 servers; the sturdiest bear noise of 5e-3 of full scale up to 4.\n"


def _turns(made: Mapping[int, ReducerComparison]) -> Iterator[str]:
    yield "## What turns the verdict\n"
    yield "`digit-sum` against `reducer-asic`, each constant alone over its range; where both need the same.\n"
    rows = [
        [
            str(servers),
            f"`{turn.constant.name}`",
            f"{turn.constant.value:g} {turn.constant.unit}".strip(),
            f"{turn.constant.low:g} to {turn.constant.high:g}",
            _percent(turn.at_low),
            _percent(turn.at_high),
            "" if turn.break_even is None else f"{turn.break_even:.3g}",
        ]
        for servers, comparison in made.items()
        for turn in comparison.turns[:6]
    ]
    columns = ["servers", "constant", "value", "range", "saves at its least", "at its most", "even at"]
    yield from _table(columns, rows)


def _verdicts(made: Mapping[int, ReducerComparison]) -> Iterator[str]:
    yield "## The verdict, as the command prints it\n"
    for servers, comparison in made.items():
        yield f"### {servers} servers\n"
        yield from (f"* {sentence}" for sentence in comparison.verdict)
        yield ""


def _digit_sum(made: Mapping[int, ReducerComparison]) -> Iterator[str]:
    yield "## digit-sum: exact, and how much light\n"
    yield 'An averager for hooks (`attach_optical_average(model, "digit-sum:levels=2,power=-9dBm")`), exact for any'
    yield "number of servers and either rounding as long as every sum is decided right:\n"
    yield from (f"* {step}" for step in made[4].proof)
    tried = ", ".join(f"{comparison.tried_sums[0]:,} for {servers}" for servers, comparison in made.items())
    wrong = sum(comparison.tried_sums[1] for comparison in made.values())
    yield f"\nEvery tuple of sums was tried ({tried} servers): {wrong} wrong; tests try every number from 2 to 16.\n"
    yield "dBm a lane at the detector for 1e-6 wrong words of 8 bits at 50 GBd, powers levelled to 1 %, lasers of"
    yield "-150 dB/Hz within 0.055 rad, and effective bits of a converter:\n"
    rows = []
    for levels, servers in ((4, 2), (4, 4), (4, 8), (4, 16), (2, 8), (2, 16)):
        receiver = DigitReceiver(servers=servers, levels=levels)
        powers = [receiver.needed_power(1e-6, scheme) for scheme in _SCHEMES]
        rows.append(
            [
                f"{levels}, {servers}",
                *(_dbm(inf if power is None else power) for power in powers),
                f"{receiver.needed_enob(1e-4):.1f}, {receiver.needed_enob(1e-6):.1f}",
            ]
        )
    columns = ["levels, servers", "separate receivers", "wavelengths summed", "fields summed", "ENOB for 1e-4, 1e-6"]
    yield from _table(columns, rows)


def _capacity() -> Iterator[str]:
    yield "## Capacity\n"
    yield "One instance carries bits x symbol rate, 0.4 Tb/s a server. What OptINC's 6.4 Tb/s a server take:\n"
    rows = []
    for reducer, servers, ports in (
        ("row-gain-network", 4, None),
        ("row-gain-network", 16, 4),
        ("digit-sum-nrz", 4, None),
        ("digit-sum-nrz", 16, None),
        ("reducer-asic", 4, None),
        ("packet-switch", 16, None),
    ):
        made = capacity(Averaging(reducer=reducer, servers=ports), servers, CLAIMED)
        lasers = sum(made.watts.get(part, 0.0) for part in ("lasers", "local oscillators", "carriers of units"))
        rows.append(
            [
                f"`{reducer}`, {servers}{' in two levels' if ports else ''}",
                f"{made.instances}",
                f"{made.lanes}",
                f"{lasers:,.0f}",
                f"{made.watts.get('heaters', 0.0):,.0f}",
                f"{made.total:,.0f} ({made.low:,.0f} to {'no limit' if made.high is None else f'{made.high:,.0f}'})",
                f"{1e9 * made.latency:.3g}",
                f"{1e6 * made.area:.3g}" if made.area else "",
            ]
        )
    columns = ["reducer, servers", "instances", "lanes a server", "lasers, W", "heaters, W", "all, W", "ns", "mm2"]
    yield from _table(columns, rows)
    most = ", ".join(f"{most_wavelengths(servers, 8)} for {servers}" for servers in (2, 4, 8))
    yield "Wavelengths may share a passive mesh, its heaters and its area (`averaging.wavelengths`), as long as devices"
    yield f"that were set for one serve the others (`photonics.chip.wavelengths`): at 100 GHz {most} servers.\n"


def _forfeits() -> Iterator[str]:
    yield "## What averaging in the light forfeits\n"
    yield from (f"* **{name}**: {text}." for name, text in FORFEITS)
    yield ""


def _constants() -> Iterator[str]:
    yield "## Constants\n"
    rows = [
        [f"`{c.name}`", c.meaning, f"{c.value:g} {c.unit}".strip(), f"{c.low:g} to {c.high:g}", c.source.strip()]
        for c in published().values()
    ]
    yield "| name | meaning | value | range | source |"
    yield "| --- | --- | ---: | ---: | --- |"
    yield from (f"| {' | '.join(row)} |" for row in rows)


def _pj(joules: float) -> str:
    return "no light does" if joules == inf else f"{1e12 * joules:.3g}" if joules < 1e-9 else f"{1e12 * joules:,.0f}"


def _dbm(watts: float | None) -> str:
    return "" if watts is None else "no light does" if watts == inf else f"{10 * log10(watts / 1e-3):.1f}"


def _percent(share: float) -> str:
    return "no light does" if share == -inf else f"{100 * share:.0f} %"


if __name__ == "__main__":
    parse_no_options(__doc__)
    main()
