"""``lightloom onn link``: an averager in watts, from the servers' lasers to their receivers."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from lightloom.app.cli.onn.files import POINTS, evenly, mapping_words, percent, sweep_parts, sweep_values
from lightloom.app.cli.onn.settings import LinkSettings, LinkTrial, SettingsFile, SettingTexts, settings_of
from lightloom.app.cli.options import FigureFile, Network, Shown, draw
from lightloom.core.answer import MOST_ROWS
from lightloom.core.errors import ConfigError
from lightloom.core.fields import Count
from lightloom.core.results import Document, attributes, provenance
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
from lightloom.reports.console import Parts, facts_table, plain_table, screen
from lightloom.reports.figures.photonics import link_figure
from lightloom.reports.progress import progress

# Sweeps of ``lightloom onn link``: word error rate against one option of the link.

LinkSweep = tuple[str, list[float]]
"""An option of the link, and the values it takes."""


def read_sweep(text: str, link: Link) -> LinkSweep:
    """Read ``NAME=LOW..HIGH[:POINTS]`` of a link, and return (the option's name with hyphens, its ascending values, in
    SI units or dB); both ends may have units. There are 9 points where none are stated, in equal ratios, or equal steps
    from 0; of ``dac-bits`` every whole number, whatever the points. ``link`` has the other settings, with which both
    ends are checked.

    Raises:
        ConfigError: another form, an option whose value is a word and no number, not LOW < HIGH, not 2 to 1,000 points,
            or an end that the option cannot have.
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
    """Return the link with the option ``name`` (with hyphens) set to a value of a sweep, in SI units or dB; a number of
    bits is cut to a whole one. The given link stays as it is.

    Raises:
        ConfigError: the value is out of the option's range.
        UnknownNameError: no such option.
    """
    option = find_option(name)
    setting: Any = int(value) if option.unit == "bits" else value
    return replace(link, **{option.field: setting})


def read_link(settings: LinkTrial) -> Link:
    """Return the link that the settings state. Options that are not set have their defaults. With ``settings.ideal``
    they are ideal instead, but stating the power of a local oscillator brings its shot noise in, a noise figure the
    noise of the amplifiers, and a swing units that limit.

    ConfigError for a text that cannot be read or is out of range.
    """
    texts = {name: getattr(settings, name.replace("-", "_")) for name in OPTIONS}
    values = {OPTIONS[name].field: read_value(name, text) for name, text in texts.items() if text is not None}
    if not settings.ideal:
        return Link(**values)
    noisy: Document = {"shot_noise": "local_oscillator" in values, "amplifier_noise": "noise_figure_db" in values}
    if "swing" in values:
        noisy["unit"] = "limiting"
    return Link(**{**asdict(ideal_link(Link())), **noisy, **values})


def link(
    network: Network,
    *,
    draws: Count = 20,
    sweep: list[str] | None = None,
    settings: SettingsFile = None,
    set: SettingTexts = None,
    seed: int = 0,
    figure: FigureFile = None,
    all: bool = False,
) -> Shown:
    """Send words through an averager in watts: word error rate, what causes it, lasers, peaks.

    Example: `lightloom onn link net.npz --set full_scale=1mW --set phase_lock=0.1rad`.

    Args:
        draws: Fabrications behind each rate.
        sweep (NAME=LOW..HIGH[:POINTS]): Word error rate against one setting of the link; repeatable. Steps are equal
            ratios, equal from 0.
        seed: Seed of fabrications, words and noise.
        figure: Draw the parts and the sweeps (.svg, .png, .pdf).
        all: Show every row, the light, and every setting of the link with its source.

    ``network`` is the file of a network (.npz). Through each fabrication go as many words as the setting ``words``
    says, 20,000; the setting ``parts`` = False leaves out the comparison of the parts. ``settings`` is a YAML file of
    settings, and ``set`` are ``field=value`` texts that go before those of the file.

    Returns:
        The result to print: word error rates of the link, of each of its parts made ideal (with ``all`` also of each
            erring alone), and of the sweeps, 9 points each unless given, which the table shows in place of the parts;
            and its light.

    Raises:
        InputError: a setting or a sweep that cannot be read or is out of range, or no such file.
    """
    chosen = settings_of(LinkSettings, settings, set)
    stated, words = read_link(chosen), chosen.words
    sweeps = [read_sweep(text, stated) for text in sweep or []]
    weights, arguments = load_network(network)
    mapping = chosen.mapping(network, BALANCED)
    chip = design_chip(weights, arguments, mapping)
    tried = {"words": words, "fabrications": draws, "seed": seed}
    configuration: list[object] = [network_hash(weights, arguments), asdict(stated), mapping.to_json(), tried, sweep]
    document = _measured(chip, stated, sweeps, tried, not chosen.parts) | mapping.to_json()
    document["provenance"] = provenance([*configuration, not chosen.parts], seed)
    drawn = draw(figure, lambda: link_figure(document), document)
    return Shown(document, _parts(document, stated, network, all), {"drawn": drawn})


def _measured(chip: Chip, settings: Link, sweeps: list[LinkSweep], tried: dict[str, int], rate_only: bool) -> Document:
    """Return the document but for its mapping and provenance: the ``link`` with ``sources`` of its settings; word
    errors of the link as it is, at the top level (``word_error_rate``, ``interval_95``, ``worst_fabrication``, the
    largest rate of one, and others); its ``light``, powers in watts of lasers and signals and gains in dB; in
    ``contributions`` those of each part made ideal and of each part erring alone, with the ``weakest_part`` (None with
    ``rate_only``); errors are enlarged for these, up to 10 times (``errors_enlarged_by``), where fewer than 50 words
    are wrong; and in ``sweeps``, each with ``option``, ``unit`` and ``rows``, the word errors at each point, beside its
    ``value``. ``chip`` is the mapped averager, ``settings`` the link.

    ``tried`` holds the number of ``words`` for each fabrication and of ``fabrications``, and the ``seed``, as keywords;
    all word errors are of the same words and fabrications.
    """
    parts = 0 if rate_only else 2 * len(erring(settings))
    points = sum(len(values) for _, values in sweeps)
    with progress("Fabrications", tried["fabrications"] * (1 + parts + points)) as advance:
        together = word_errors(chip, settings, advance=advance, **tried)
        compared = None if rate_only else contributions(chip, settings, together, advance=advance, **tried)

        def row(name: str, value: float) -> Document:
            """Return the word errors with one option set to a value of its sweep."""
            errors = word_errors(chip, link_at(settings, name, value), advance=advance, **tried)
            return {"value": value, **errors.to_json()}

        rows = [
            {"option": name, "unit": find_option(name).unit, "rows": [row(name, value) for value in values]}
            for name, values in sweeps
        ]
    return {
        "schema": "lightloom.onn-link/1",
        **attributes(chip.mapped.arguments, "servers bits"),
        "link": asdict(settings),
        "sources": sources(settings),
        **attributes(chip.mapped, "mzi_count=mzis columns=depth crossings"),
        **together.to_json(),
        "light": light(chip, settings, together.peaks, together.raised),
        "contributions": compared,
        "note": None,  # of units that cannot average, which are gone
        "sweeps": rows,
    }


def _parts(document: Document, settings: Link, network: Path, all: bool) -> Parts:
    """Yield what the terminal shows of the document of :func:`link`: the share of words that are wrong with its 95 %
    interval, the fabrications that never err and the worst one, and what lasers emit; then rows of the sweeps (at most
    eight of all, but two or more of each), or without sweeps, if the parts were tried, the words wrong as the link is
    and with each part made ideal, the first eight rows; and the weakest part and the strongest light. With ``all`` it
    has every row, and also the words wrong with one part erring alone, the mapping, the light, and every setting with
    its source, but for the noise figure of amplifiers where gain is electrical."""
    compared, lit, legend = document["contributions"], document["light"], ""
    power = {name: format_quantity(value, "power") for name, value in lit.items() if isinstance(value, float)}
    shown, hidden = evenly(document["sweeps"], all)
    rows = [
        {"setting": sweep["option"], "value": show_value(sweep["option"], row["value"]), **_rates(row)}
        for sweep, row in shown
    ]
    limit = [f"the strongest light is {power['peak_watts']}, {lit['peak_place']}"]
    if compared is not None:
        limit.insert(0, f"the weakest part is {compared['weakest_part'] or 'unknown, as too few words are wrong'}")
        enlarged = f"errors enlarged {compared['errors_enlarged_by']:g} times, as too few words are wrong"
        if not rows:
            legend = "" if compared["errors_enlarged_by"] == 1 else enlarged
            tried = [{"part": "none", "without": compared["together"]}, *compared["parts"]]
            rows = [{"made ideal": row["part"], **_rates(row["without"])} for row in tried]
            rows, hidden = (rows, 0) if all else (rows[:MOST_ROWS], max(len(rows) - MOST_ROWS, 0))
    peaks = {place: format_quantity(lit["peaks_watts"][place], "power") for place in lit["beyond_optical_amplifiers"]}
    limit += [f"{place}: {peak}, amplifiers give {AMPLIFIER_LIMIT * 1e3:.0f} mW" for place, peak in peaks.items()]
    wrong, worst, right = _rates(document), percent(document["worst_fabrication"]), document["fabrications_all_right"]
    assumed = sum(source.startswith("assumption") for source in document["sources"].values())
    question = "Words of {servers} servers, {bits} bits, through {} in watts, on {mzi_count:,} interferometers"
    yield from screen(
        question.format(network, **document),
        [
            f"{wrong['words wrong']} of the words wrong ({wrong['95 % interval']} at 95 %)",
            f"{right} of {document['fabrications']} fabrications never err; the worst errs in {worst} of its words",
            f"A lane's laser emits {power['laser_per_server_lane_watts']}, all lanes {power['server_lasers_watts']}.",
        ],
        rows,
        all=True,
        hidden=hidden,
        legend=legend,
        limit="; ".join(limit),
        more=[f"--all ({len(document['sources'])} settings, {assumed} assumed)", "--sweep phase-lock=0.05..0.3"],
    )
    if not all:
        return
    facts = {
        "mapping": mapping_words(document, network),
        "received differently": f"{document['words_received_differently']:,} words, not equal at all servers",
        "light on the chip": f"oscillators {power['oscillators_watts']}, carriers {power['carriers_watts']}",
        "largest gain": f"{lit['largest_gain_db']:.1f} dB, {document['link']['gain']}",
        "levels": f"lanes and units raised by up to {lit['levels_raised_db']:.2g} dB for the loss of their paths",
    }
    if compared is not None:
        alone = (f"{row['part']} {_rates(row['alone'])['words wrong']}" for row in compared["parts"])
        facts["words wrong with one part erring alone"] = ", ".join(alone)
    yield facts_table(facts.items())
    options = [
        [name, show_value(name, getattr(settings, row.field)), document["sources"][name]]
        for name, row in OPTIONS.items()
        if settings.gain == "optical" or name != "noise-figure"
    ]
    yield plain_table(["setting", "value", "source"], options, left=["setting", "value", "source"])


def _rates(row: Document) -> dict[str, str]:
    """Return ``word_error_rate`` and ``interval_95`` of a row as texts by the columns "words wrong" (a share, three
    significant digits) and "95 % interval" (two digits, ``0.0012 to 0.0019``)."""
    low, high = row["interval_95"]
    return {"words wrong": f"{row['word_error_rate']:.3g}", "95 % interval": f"{low:.2g} to {high:.2g}"}
