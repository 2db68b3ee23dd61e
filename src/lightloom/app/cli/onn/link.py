"""``lightloom onn link``: an averager in watts, from the servers' lasers to their receivers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from rich.table import Table

from lightloom.app.cli.onn.files import POINTS, Mapping, mapping_words, sweep_parts, sweep_values
from lightloom.app.cli.options import FigureFile, Help, Network, Options, Shown, draw
from lightloom.core.errors import ConfigError
from lightloom.core.fields import Count
from lightloom.core.results import Document, provenance
from lightloom.core.units import format_quantity
from lightloom.photonics.averaging.networks import load_network, network_hash
from lightloom.photonics.link.settings import (
    AMPLIFIER_LIMIT,
    OPTIONS,
    Link,
    erring,
    find_option,
    read_value,
    show_value,
    sources,
)
from lightloom.photonics.link.settings import ideal as ideal_link
from lightloom.photonics.link.simulate import Chip, design_chip, light
from lightloom.photonics.link.word_errors import contributions, word_errors
from lightloom.photonics.meshes.mapping import BALANCED
from lightloom.reports.console import facts_table, plain_table
from lightloom.reports.figures.photonics import link_figure
from lightloom.reports.progress import progress

# Sweeps of ``lightloom onn link``: word error rate against one option of the link.

LinkSweep = tuple[str, list[float]]
"""An option of the link, and the values it takes."""


def read_sweep(text: str, link: Link) -> LinkSweep:
    """Read ``NAME=LOW..HIGH[:POINTS]`` of a link, and return the option and its values; both ends may have units.

    Raises:
        ConfigError: another form, an option in words, or ends or points out of range.
        UnknownNameError: no such option.
    """
    name, low_text, high_text, points_text = sweep_parts(text, "phase-lock=0.05..0.3:6")
    if find_option(name).unit == "name":
        raise ConfigError(f"--sweep {text!r}: {name} is no number")
    low, high = read_value(name, low_text), read_value(name, high_text)
    try:
        points = int(points_text) if points_text else POINTS
    except ValueError as error:
        raise ConfigError(f"--sweep {text!r}: expected a number of points, e.g. :{POINTS}") from error
    if low is None or high is None or not low < high or not 2 <= points <= 1000:
        raise ConfigError(f"--sweep {text!r}: expected LOW < HIGH and 2 to 1000 points")
    values = sweep_values(name, low, high, points)
    for value in (*values[:1], *values[-1:]):
        link_at(link, name, value)  # ends out of range are refused before anything is computed
    return name, values


def link_at(link: Link, name: str, value: float) -> Link:
    """Return the link with one option set to a value of a sweep.

    Raises:
        ConfigError: the value is out of the option's range.
    """
    option = find_option(name)
    setting: Any = int(value) if option.unit == "bits" else value
    return replace(link, **{option.field: setting})


def read_link(*, ideal: bool = False, **texts: str) -> Link:
    """Return the link that the texts of options state; its other parts have their defaults, or with ``ideal`` are
    ideal.

    Args:
        ideal: Every part that no option mentions is ideal.
        **texts: options of the link by name, with underscores.
    """
    names = {name.replace("_", "-"): text for name, text in texts.items()}
    values = {OPTIONS[name].field: read_value(name, text) for name, text in names.items()}
    if not ideal:
        return Link(**values)
    noisy: Document = {"shot_noise": "local_oscillator" in values, "amplifier_noise": "noise_figure_db" in values}
    if "swing" in values:
        noisy["unit"] = "limiting"
    return Link(**{**asdict(ideal_link(Link())), **noisy, **values})


_TEXTS = {
    name.replace("-", "_"): Help(row.help, "NAME" if row.unit == "name" else row.unit.upper())
    for name, row in OPTIONS.items()
}


def link(
    network: Network,
    *,
    settings: Annotated[partial[Link], Options(read_link, texts=_TEXTS)],
    words: Count = 20_000,
    draws: Count = 20,
    sweep: list[str] | None = None,
    rate_only: bool = False,
    mapping: Mapping,
    seed: int = 0,
    figure: FigureFile = None,
) -> Shown:
    """Send words through an averager in watts: word error rate, what causes it, lasers, peaks.

    Args:
        words: Words sent through each fabrication, half near-equal.
        draws: Fabrications behind each rate.
        sweep (NAME=LOW..HIGH[:POINTS]): Word error rate against an option of the link; repeatable. Steps are equal
            ratios, equal from 0.
        rate_only: Leave out the table of parts.
        form: svd, economy or compact, as in `onn map`; unless the file stores a mapping: svd of components.
        seed: Of fabrications, words and noise.
        figure: Draw the parts and the sweeps (.svg, .png, .pdf).
    """
    stated = settings()
    sweeps = [read_sweep(text, stated) for text in sweep or []]
    weights, arguments = load_network(network)
    chosen = mapping(network, BALANCED)
    chip = design_chip(weights, arguments, chosen)
    tried = {"words": words, "fabrications": draws, "seed": seed}
    configuration = [network_hash(weights, arguments), asdict(stated), chosen.to_json(), tried, sweep, rate_only]
    document = _measured(chip, stated, sweeps, tried, rate_only) | chosen.to_json()
    document["provenance"] = provenance(configuration, seed)
    drawn = draw(figure, lambda: link_figure(document), document)
    return Shown(document, _tables(document, stated, network), {"drawn": drawn})


def _measured(chip: Chip, settings: Link, sweeps: list[LinkSweep], tried: dict[str, int], rate_only: bool) -> Document:
    """Return the document but for its provenance: word errors of the link as it is, of its parts unless ``rate_only``,
    and of each point of every sweep."""
    parts = 0 if rate_only else 2 * len(erring(settings))
    points = sum(len(values) for _, values in sweeps)
    with progress("Fabrications", tried["fabrications"] * (1 + parts + points)) as advance:
        together = word_errors(chip, settings, advance=advance, **tried)
        compared = None if rate_only else contributions(chip, settings, together, advance=advance, **tried)
        rows = [
            {
                "option": name,
                "unit": find_option(name).unit,
                "rows": [
                    {
                        "value": value,
                        **word_errors(chip, link_at(settings, name, value), advance=advance, **tried).to_json(),
                    }
                    for value in values
                ],
            }
            for name, values in sweeps
        ]
    return {
        "schema": "lightloom.onn-link/1",
        "servers": chip.mapped.arguments.servers,
        "bits": chip.mapped.arguments.bits,
        "link": asdict(settings),
        "sources": sources(settings),
        "mzi_count": chip.mapped.mzis,
        "columns": chip.mapped.depth,
        "crossings": chip.mapped.crossings,
        **together.to_json(),
        "light": light(chip, settings, together.peaks, together.raised),
        "contributions": compared,
        "note": None,  # of units that cannot average, which are gone
        "sweeps": rows,
    }


def _tables(document: Document, settings: Link, network: Path) -> Iterator[Table | str]:
    """Yield the options with their sources, the facts, the parts, and for each sweep a table of word error rates with
    95 % intervals."""
    title = f"{network}: {document['servers']} servers, {document['bits']} bits, {document['mzi_count']:,} MZIs"
    shown = sources(settings)
    rows = [
        [name, show_value(name, getattr(settings, row.field)), shown[name]]
        for name, row in OPTIONS.items()
        if settings.gain == "optical" or name != "noise-figure"
    ]
    yield plain_table(["option", "value", "source"], rows, title=title, left=["option", "value", "source"])
    yield ""
    yield facts_table(_facts(document, network))
    if document["contributions"] is not None:
        yield ""
        yield _parts_table(document["contributions"])
    for sweep in document["sweeps"]:
        yield ""
        cells = [[show_value(sweep["option"], row["value"]), *_rate_cells(row)] for row in sweep["rows"]]
        yield plain_table([sweep["option"], "words wrong", "95 % interval"], cells)


def _facts(document: Document, network: Path) -> Iterator[tuple[str, str]]:
    """Yield label and text of each fact about the network and its link: rate of wrong words, lasers, light, peaks,
    gains, and the weakest part."""
    yield "mapping", mapping_words(document, network)
    rate, interval = _rate_cells(document)
    lit = document["light"]
    power = {name: format_quantity(value, "power") for name, value in lit.items() if isinstance(value, float)}
    yield "words wrong", f"{rate} ({interval}; {document['words']:,} words, {document['fabrications']} fabrications)"
    yield "fabrications", f"{document['fabrications_all_right']} all right, worst {document['worst_fabrication']:.2g}"
    yield "received differently", f"{document['words_received_differently']:,} words, not equal at all servers"
    lanes = power["server_lasers_watts"]
    yield "laser of a server's lane", f"{power['laser_per_server_lane_watts']}; all lanes {lanes}"
    yield "light on the chip", f"oscillators {power['oscillators_watts']}, carriers {power['carriers_watts']}"
    yield "peak", f"{power['peak_watts']}, {lit['peak_place']}"
    yield "largest gain", f"{lit['largest_gain_db']:.1f} dB, {document['link']['gain']}"
    if lit["levels_raised_db"]:
        yield "levels", f"lanes and units raised by up to {lit['levels_raised_db']:.2g} dB for the loss of their paths"
    for place in lit["beyond_optical_amplifiers"]:
        peak = format_quantity(lit["peaks_watts"][place], "power")
        yield "not to be had", f"{place}: {peak}, amplifiers give {AMPLIFIER_LIMIT * 1e3:.0f} mW"
    if document["contributions"] is not None:
        weakest = document["contributions"]["weakest_part"]
        yield "weakest part", weakest or "none: too few words are wrong, even with all errors ten times as large"


def _parts_table(compared: Document) -> Table:
    """Return a table with a row for each part of the link: the rate of wrong words with this part ideal, and with this
    one alone; the first row has all parts."""
    factor = compared["errors_enlarged_by"]
    title = "Parts" if factor == 1 else f"Parts, with all errors enlarged {factor:g} times (too few words are wrong)"
    rows = [["none", *_rate_cells(compared["together"]), ""]]
    rows += [[row["part"], *_rate_cells(row["without"]), _rate_cells(row["alone"])[0]] for row in compared["parts"]]
    return plain_table(["made ideal", "words wrong", "95 % interval", "this one alone"], rows, title=title)


def _rate_cells(row: Document) -> tuple[str, str]:
    """Return a word error rate and its 95 % interval as texts."""
    low, high = row["interval_95"]
    return f"{row['word_error_rate']:.3g}", f"{low:.2g} to {high:.2g}"
