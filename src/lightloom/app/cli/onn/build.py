"""``lightloom onn build``: a network written down, with the proof that it averages exactly; or one of a file tried."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from math import inf, log10
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rich.table import Table

from lightloom.app.api.averaging import ProvedAverager, averager
from lightloom.app.cli.onn.files import ROUNDED, NetworkOut, draw_noise, percent, read_layers, refuse_options
from lightloom.app.cli.onn.settings import BuildSettings, ReducersSettings, SettingsFile, SettingTexts, settings_of
from lightloom.app.cli.options import FigureFile, Shown, draw
from lightloom.core.answer import MOST_ROWS
from lightloom.core.errors import ConfigError, InputError
from lightloom.core.results import Document, attributes, cells, provenance
from lightloom.machines.reducers.compare import FORFEITS, ReducerComparison
from lightloom.machines.reducers.compare import compare_reducers as compare
from lightloom.machines.reducers.rivals import NETWORK
from lightloom.photonics.averaging.cascade import (
    Cascade,
    Level,
    build_cascade,
    cascade_hash,
    end_to_end,
    is_cascade,
    load_cascade,
    save_cascade,
)
from lightloom.photonics.averaging.construct import Construction, recognise
from lightloom.photonics.averaging.construct import build as construct
from lightloom.photonics.averaging.networks import (
    FunctionArguments,
    Nonlinearity,
    largest_gain_db,
    load_network,
    network_hash,
)
from lightloom.photonics.averaging.proof import noise_limit, noisy_accuracy
from lightloom.photonics.averaging.proof import verify as verification
from lightloom.photonics.link.settings import Link
from lightloom.photonics.tolerance import (
    MAPPINGS,
    POWER,
    describe,
    described,
    find_tolerant,
    parse_tolerance,
    tolerance_document,
)
from lightloom.reports.console import Parts, facts_table, plain_table, rows_table, screen
from lightloom.reports.figures.photonics import PARTS, reducers_figure
from lightloom.reports.progress import progress

if TYPE_CHECKING:
    from lightloom.photonics.onn.recipe import TrainingRecipe
    from lightloom.photonics.onn.training import Trained

_MODES: Mapping[str, tuple[str, ...]] = {
    "network": ("noise", "figure"),
    "reducers": ("servers", "bits", "figure"),
    "cascade": ("servers", "bits", "out"),
    "tolerate": ("servers", "bits", "out", "figure"),
}
"""What excludes other options, and the options that each goes with."""


# ``lightloom onn build --tolerate``: the averager with the fewest interferometers that bears errors of its devices.

WORD_ERRORS = 1e-4
"""Word error rate that is allowed unless stated."""


def tolerant_averager(
    arguments: FunctionArguments, text: str, word_errors: float | None, units: str, evaluations: int, seed: int
) -> tuple[ProvedAverager, Document]:
    """Search for the averager with the fewest interferometers that bears the errors in ``text`` at once, and measure
    how much it tolerates; return (averager, fields that its document gets besides: ``tolerance``, the document of what
    it tolerates with a ``link_command``, and ``provenance``).

    Args:
        arguments: the function that it computes.
        text: NAME=VALUE pairs of errors, joined by commas.
        word_errors: share of words that may be wrong; None for 1e-4.
        units: of the network's layers, ``relu`` or ``clipped``.
        evaluations: noisy draws behind the averager's noise limit.
        seed: of the simulated fabrications.

    Raises:
        UnsupportedError: nothing tolerates the errors; the message says how much can be tolerated.
        InputError: the errors cannot be read or are out of range.
    """
    request = parse_tolerance(text, WORD_ERRORS if word_errors is None else word_errors)
    with progress("Averagers tried", None) as advance:
        result = find_tolerant(arguments, request, cast(Any, units), seed=seed, advance=advance)
        document = tolerance_document(result, advance)
    construction, mapping = result.candidate.construction, MAPPINGS[result.candidate.mapping]
    fields: dict[str, Any] = {"arguments": arguments, "evaluations": evaluations, "mapping": mapping}
    made = ProvedAverager(construction=construction, noise=None, **fields)
    settings = [asdict(arguments), units, request.errors, request.word_errors, evaluations]
    document["link_command"] = link_command(document)
    return made, {"tolerance": document, "provenance": provenance(settings, seed)}


def link_command(document: Document) -> str:
    """Return the text of the `onn link` command under which the same parts err, on as many fabrications and words, to
    simulate the result of --tolerate, given as its document, again; ``NET.npz`` in it stands for the network's file."""
    errors = dict(document["errors"])
    chosen = {"ideal": "true", "gain": "optical", "calibration": "levels", "parts": "false"}
    if POWER in errors:
        chosen |= {"full_scale": f"{errors.pop(POWER):g}W", "noise_figure": f"{Link().noise_figure_db:g}"}
    chosen |= {name.replace("-", "_"): f"{value:g}" for name, value in errors.items()}
    chosen["words"] = f"{document['words'] // document['fabrications']}"
    options = "".join(f" --set {name}={value}" for name, value in chosen.items())
    return f"lightloom onn link NET.npz{options} --draws {document['fabrications']}"


def tolerance_rows(document: Document) -> list[tuple[str, str]]:
    """Return (label, text) of each fact of an averager that tolerates errors: the share of wrong words with its 95 %
    interval and the share that is allowed; the largest value of each error that it bears alone; its interferometers,
    columns and crossings with the meshes P in front (from the servers) and T behind (to them); and its light if a power
    of full scale is among the errors. ``document`` is that of the tolerance."""
    errors = document["errors"]
    wrong = "{word_error_rate:.2g} ({0:.2g} to {1:.2g} at 95 %; at most {target:g})"
    alone = {name: value for name, value in document["tolerated_alone"].items() if value is not None}
    size = "{mzi_count:,} interferometers in {columns:,} columns, {crossings:,} crossings".format(**document)
    rows = [("wrong words", wrong.format(*document["interval_95"], **document)), ("each error alone", describe(alone))]
    rows.append(("with P and T", size))
    if POWER in errors:
        lane = f"{document['lane_power_watts'] * 1e3:.3g} mW a lane in front of P"
        rows.append(("light", f"{described(POWER, errors[POWER])} at full scale, {lane}"))
    return rows


# Two levels of averagers: what `onn build --cascade`, `onn train --cascade` and a file of them show.


def show_levels(
    cascade: Cascade, tuples: int, configuration: object, out: Path | None = None, trainings: Sequence[Trained] = ()
) -> Shown:
    """Try both levels of a cascade by themselves, send random tuples of codes through both, save it if ``out`` is
    given, and return the result to print: how many inputs of each level and how many tuples end wrong.

    Args:
        cascade: both levels.
        tuples: number of random tuples of codes.
        configuration: what the provenance hashes.
        out: file of the cascade (.npz).
        trainings: trainings of the lower and the upper level, which the document then holds, and whose numbers of
            interferometers (approximated matrices as squares) it states; empty for levels that were constructed.
    """
    document = cascade_document(cascade, tuples, configuration)
    if trainings:
        first, second = (trained.recipe.mzi_count for trained in trainings)
        document["trainings"] = [trained.to_json() for trained in trainings]
        document["mzi_count"] = cascade.groups * first + second
        document["levels"][0]["mzi_count"], document["levels"][1]["mzi_count"] = first, second
    if out is not None:
        save_cascade(out, cascade)
    return Shown(document, cascade_parts(document), {"cascade": out})


def train_levels(recipes: tuple[TrainingRecipe, TrainingRecipe], folder: Path | None, out: Path | None) -> Shown:
    """Train the lower and the upper level of a cascade by their recipes, send random tuples of codes through them, save
    the cascade if ``out`` is given, and return the result to print.

    ``folder`` keeps checkpoints, from which an interrupted training is resumed; without it none are kept. ConfigError
    where it holds those of another training; UnsupportedError without PyTorch.
    """
    from lightloom.photonics.onn.training import train_cascade

    with progress("Epochs", sum(recipe.work for recipe in recipes)) as advance:
        cascade, trainings = train_cascade(recipes, folder, advance)
    return show_levels(cascade, BuildSettings().tuples, [recipe.to_json() for recipe in recipes], out, trainings)


def cascade_document(cascade: Cascade, tuples: int, configuration: object) -> Document:
    """Return the document of both levels: ``groups``, ``servers`` (of a group), ``bits`` and ``mzi_count`` (of all
    averagers, without P and T); ``levels``, for each its construction, signals of its layers, interferometers, wrong
    outputs on its own grid and proof; and ``end_to_end``, how many of ``tuples`` random tuples of codes arrive wrong
    (not as the floor of their mean) with decimals between the levels (``wrong_with_decimals``) and without
    (``wrong_without_decimals``), ``tuples``, and the ``share_wrong_without_decimals``. Both are tried here.
    ``configuration`` is what the provenance hashes."""
    with progress("Tuples", tuples) as advance:
        ends = end_to_end(cascade, tuples, advance=advance)
    return {
        "schema": "lightloom.onn-cascade/1",
        **attributes(cascade, "groups servers bits mzi_count"),
        "levels": [_level(level) for level in (cascade.first, cascade.second)],
        "end_to_end": ends,
        "provenance": provenance(configuration, 0),
    }


def cascade_parts(document: Document) -> Parts:
    """Return what the terminal shows of a cascade's document: its interferometers, how many tuples arrive wrong from
    end to end with decimals between the levels, a row for each of the two levels (construction, wrong outputs of those
    tried, interferometers, signals of its layers), and the share that arrives wrong without decimals."""
    ends = document["end_to_end"]
    rows = [
        {**level, "level": number, "signals": "-".join(map(str, level["layers"]))}
        for number, level in enumerate(document["levels"], 1)
    ]
    columns = "level: {level} | construction: {construction} | wrong outputs: {wrong_outputs:,} of {checked_inputs:,}"
    best = "{mzi_count:,} interferometers; {wrong_with_decimals:,} of {tuples:,} tuples of codes end wrong"
    wrong = 100 * ends["share_wrong_without_decimals"]
    return screen(
        "Averagers in two levels: {groups} groups of {servers} servers, codes of {bits} bits".format(**document),
        [best.format(**document, **ends)],
        cells(columns + " | interferometers: {mzi_count:,} | signals: {signals}", rows),
        limit=f"without decimals between the levels (eq. 9) {wrong:.1f} % of the tuples end wrong, each one too small",
        more=["onn map NET.npz", "onn map NET.npz --study disturb"],
    )


def _level(level: Level) -> Document:
    """Return the document of one level of a cascade: ``construction`` (its name), ``layers`` (signals of each),
    ``mzi_count``, what trying its inputs gives, done here (``wrong_outputs`` among ``checked_inputs``, and
    ``exhaustive`` where these are all), and the steps of its ``proof``, empty for a trained level."""
    proof = list(level.proof.steps) if isinstance(level, Construction) else []
    network = {"construction": level.name, "layers": list(level.network.layers), "mzi_count": level.mzi_count}
    return {**network, **level.verify().counts, "proof": proof}


def build(
    network: Path | None = None,
    *,
    servers: int | None = None,
    bits: int | None = None,
    noise: float | None = None,
    layers: str | None = None,
    tolerate: str | None = None,
    cascade: int | None = None,
    reducers: bool = False,
    settings: SettingsFile = None,
    set: SettingTexts = None,
    out: NetworkOut = None,
    figure: FigureFile = None,
    explain: bool = False,
) -> Shown:
    """Write down the smallest network that averages exactly, and prove it; or try a network of a file.

    Example: `lightloom onn build --servers 4 --bits 8 --out net.npz`, then `lightloom onn build net.npz`.

    Args:
        network (NET.npz): A network or a cascade to verify: tried on every point of its grid (up to 20 million), or on
            the hardest ones, and proved if it is one of ours.
        servers: Servers whose codes are averaged.
        bits (B): Bits of a code, 1 to 32.
        noise (S): Take the smallest that is 99.99 % right at this noise, a share of full scale; of a file, the accuracy
            at it.
        layers (4-64-...-4): Fill a network of these signals, ``printed`` for the paper's, with squares Σ · U alone.
        tolerate (NAME=VALUE,...): Take the fewest interferometers, P and T included, that bear these errors at once:
            phase-error, coupler-error, power, loss, loss-spread, crosstalk, dac-bits.
        cascade (GROUPS): Build two levels: an averager of N servers for each group, one above them.
        reducers: Compare networks, sums of digits, reducer chips and switches that average such codes.
        out: Write the network (.npz).
        figure: Draw errors against noise, or energies of reducers (.svg, .png, .pdf).
        explain: Show the proof, and what the numbers rest on.

    ``settings`` is a YAML file of settings, and ``set`` are ``field=value`` texts that go before those of the file.

    Returns:
        The result to print: the network with its proof, or one of the other studies; files that are asked for are
            written.

    Raises:
        ConfigError: options that exclude each other, or neither a file nor servers and bits.
        InputError: an option out of range, or no network that serves.
    """
    given = {name: value for name, value in locals().items() if name not in ("settings", "set", "explain")}
    mode = next((mode for mode in _MODES if given[mode] is not None and given[mode] is not False), None)
    if mode is not None:
        what = "a network of a file" if mode == "network" else f"--{mode}"
        refuse_options({**given, mode: None}, _MODES[mode], what)
    if reducers:
        return compare_reducers(servers, 8 if bits is None else bits, settings, set, figure, explain)
    chosen = settings_of(BuildSettings, settings, set)
    if network is not None:
        return _verify(network, chosen, noise, figure, explain)
    if servers is None or bits is None:
        raise ConfigError("give --servers N and --bits B, or a network NET.npz")
    function: dict[str, Any] = chosen.model_dump(include={"inputs", "rounding", "carries_decimals"})
    arguments = FunctionArguments(servers=servers, bits=bits, **function)
    if tolerate is not None and arguments.carries_decimals:
        raise ConfigError("--tolerate: not with carries_decimals = True: expected false")
    if chosen.word_errors is not None and tolerate is None:
        raise ConfigError(f"word_errors = {chosen.word_errors:g}: give the errors too, --tolerate NAME=VALUE,...")
    units = chosen.nonlinearity or ("relu" if tolerate is None else "clipped")
    if cascade is not None:
        if arguments != FunctionArguments(servers=servers, bits=bits):
            raise ConfigError("--cascade: not with inputs, rounding or carries_decimals: expected nonlinearity, tuples")
        made_levels = build_cascade(cascade, servers, bits, cast(Any, units))
        return show_levels(made_levels, chosen.tuples, [cascade, servers, bits, units, chosen.tuples], out)
    tolerance: Document = {}
    if tolerate is not None:
        errors = chosen.word_errors
        made, tolerance = tolerant_averager(arguments, tolerate, errors, units, chosen.evaluations, chosen.seed)
    else:
        with progress("Building", None):
            fields: dict[str, Any] = {**asdict(arguments), "noise": noise, "nonlinearity": units}
            signals = None if layers is None else read_layers(layers, servers, bits)
            made = averager(**fields, layers=signals, evaluations=chosen.evaluations)
    with progress("Trying inputs, and noise on every signal", None):
        document = made.to_json() | tolerance
    if figure is not None:
        name = f"{made.construction.name}, {made.mzi_count} MZIs"
        draw_noise(made.construction.network, arguments, name, chosen.evaluations, figure, document)
    if out is not None:
        made.save(out)
    return Shown(document, _build_parts(made, document, explain), {"network": out, "drawn": figure})


def _build_parts(made: ProvedAverager, document: Document, explain: bool) -> Parts:
    """Yield what the terminal shows of a built averager: its interferometers, wrong outputs and noise limit with a
    table of at most eight facts (construction, signals, interferometers as squares, in economy form and of P and T,
    largest gain, proved tolerance, and :func:`tolerance_rows` of one that tolerates errors), the interferometers that
    like questions take (:func:`_neighbours`; not where layers were given or errors are tolerated), and the noise that
    no network bears. With ``explain`` also the proof and, of one that tolerates errors, the other facts, its mapping,
    the wrong words counted, the command that simulates it, and what is assumed. ``document`` is the command's."""
    function, tolerance = made.arguments, document.get("tolerance")
    bears = "" if made.noise is None else f", bearing noise of {made.noise:g} of full scale"
    if tolerance is not None:
        bears = f", bearing {describe(tolerance['errors'])} at once"
    tried = f"{document['checked_inputs']:,} {'inputs' if document['exhaustive'] else 'hardest and random inputs'}"
    counts = (document[f"mzi_count{ending}"] for ending in ("", "_economy", "_of_p_and_t"))
    rows = [
        ("construction", f"{document['construction']}, {document['nonlinearity']} units"),
        ("signals", "-".join(map(str, document["layers"]))),
        ("interferometers", "{:,}; in economy form {:,}; P and T {:,} more".format(*counts)),
        ("largest gain", f"{document['largest_gain_db']:.1f} dB"),
        ("proved tolerance", f"{document['proved_tolerance']:.3g} of full scale on every signal, worst signs"),
        *([] if tolerance is None else tolerance_rows(tolerance)),
    ]
    size, embedding = (tolerance or document)["mzi_count"], made.construction.embedding
    kind = "Smallest exact averager" if embedding is None else "Exact averager of squares Σ · U"
    yield from screen(
        f"{kind} of {function.servers} servers, codes of {function.bits} bits, {ROUNDED[function.rounding]}{bears}",
        [
            f"{size:,} interferometers, proved exact; {document['wrong_outputs']:,} of {tried} wrong",
            f"It bears noise of {document['noise_limit']:.3g} of full scale on every signal.",
        ],
        table=facts_table(rows[:MOST_ROWS]),
        what_if=[] if tolerance is not None or embedding is not None else list(_neighbours(made)),
        limit=f"no network bears noise of more than {document['noise_bound_of_any_network']:.3g} of full scale: its "
        "inputs alone err then",
        more=["--explain", "--figure noise.png", "onn map NET.npz", "onn link NET.npz"],
    )
    if not explain:
        return
    yield from ("proof", *(f"  {step}" for step in document["proof"]))
    if tolerance is not None:
        mapping = f"{MAPPINGS[tolerance['mapping']]} (--out stores it); window {tolerance['window']}"
        words = "{wrong_words:,} of {words:,} on {fabrications} fabrications".format(**tolerance)
        facts = [*rows[MOST_ROWS:], ("mapping", mapping), ("wrong words", words)]
        facts += [("simulated again by", link_command(tolerance)), ("assumed", "; ".join(tolerance["assumptions"]))]
        yield facts_table(facts)


def _neighbours(made: ProvedAverager) -> Iterator[str]:
    """Yield a text for each question that differs in one thing, with the interferometers of the smallest network for
    it, as ``8 servers: 1,234 interferometers``: other units, twice the servers, four more bits; where some noise was
    asked for, ``no noise`` is the only one. Questions without a network are left out."""
    function, units = made.arguments, made.construction.network.nonlinearity
    other: Nonlinearity = "clipped" if units == "relu" else "relu"
    asked: Document = {**asdict(function), "nonlinearity": units}
    changes: dict[str, Document] = {
        f"{other} units": {"nonlinearity": other},
        f"{2 * function.servers} servers": {"servers": 2 * function.servers},
        f"{function.bits + 4} bits": {"bits": function.bits + 4},
    }
    for name, change in changes.items() if made.noise is None else {"no noise": {}}.items():
        with suppress(InputError):
            yield f"{name}: {construct(**(asked | change)).mzi_count:,} interferometers"


# ``lightloom onn build NET.npz``: is a network in a file the averaging function?


def _verify(network: Path, chosen: BuildSettings, noise: float | None, figure: Path | None, explain: bool) -> Shown:
    """Try a network of a file on every point of its grid, or, where there are more than 20 million, on its extremes and
    ``chosen.samples`` sampled ones, half of them beside carries; prove it if its construction is recognised, and return
    the result to print: wrong outputs among those tried, and how often each error occurs. Of a cascade both levels are
    tried, and ``chosen.samples`` random tuples of codes go through them.

    ``noise``, a share of full scale, asks for the accuracy at it; ``figure`` is a file for errors against noise, which
    draws ``chosen.evaluations`` noisy inputs for its noise limit.

    Raises:
        ConfigError: a file that cannot be read, noise out of range, or noise or a figure of a cascade.
    """
    samples, evaluations = chosen.samples, chosen.evaluations
    if noise is not None and not 0 <= noise < 1:
        raise ConfigError(f"--noise {noise}: expected a share of full scale from 0 to below 1")
    if is_cascade(network):
        if noise is not None or figure is not None:
            raise ConfigError(f"{str(network)!r}: a cascade: expected no --noise and no --figure, which one level has")
        levels = load_cascade(network)
        return show_levels(levels, samples, [cascade_hash(levels), samples])
    weights, arguments = load_network(network)
    function = arguments.function()
    with progress("Checking", None):
        check = verification(weights, function, samples)
        accuracy = None if noise is None else noisy_accuracy(weights, function, noise)
        construction = recognise(weights, function)
    document = {
        "schema": "lightloom.onn-verify/1",
        **attributes(arguments, "servers bits rounding"),
        "layers": list(weights.layers),
        "nonlinearity": weights.nonlinearity,
        "largest_gain_db": largest_gain_db(weights),
        **attributes(check, "exhaustive checked_inputs wrong_outputs accuracy largest_deviation"),
        "errors": [
            {"error": value, "count": times, "share_of_errors": times / check.wrong_outputs}
            for value, times in check.errors.items()
        ],
        "construction": None if construction is None else construction.name,
        "proof": [] if construction is None else list(construction.proof.steps),
        "noise": noise,
        "accuracy_at_noise": accuracy,
        "provenance": provenance([network_hash(weights, arguments), samples, noise, figure and evaluations], 0),
    }
    if figure is not None:
        document["noise_limit"] = noise_limit(weights, function, evaluations=evaluations)
        name = network.stem if construction is None else construction.name
        draw_noise(weights, arguments, name, evaluations, figure, document)
    return Shown(document, _verify_parts(document, network, explain), {"drawn": figure})


def _verify_parts(document: Document, network: Path, explain: bool) -> Parts:
    """Yield what the terminal shows of a network of a file: whether all tried outputs are right, the share that is
    (also at noise, if that was asked for), whether it is proved, a table of the eight most frequent errors (received
    less expected result, in steps of the last place) and their shares of all wrong outputs, the largest deviation and
    gain, and with ``explain`` every error and the proof, if the construction was recognised.

    ``document`` is that of :func:`_verify`, ``network`` the file, for the heading.
    """
    tried = "every point of its grid" if document["exhaustive"] else "sampled points of its grid, half beside carries"
    known = f"Proved, as {document['construction']}." if document["construction"] else "Not proved."
    verdict = "{}: {wrong_outputs:,} of {checked_inputs:,} outputs wrong; {}"
    best = [verdict.format("No" if document["wrong_outputs"] else "Yes", tried, **document)]
    best.append(f"Right: {100 * document['accuracy']:.6g} %. {known}")
    if document["noise"] is not None:
        best.append(f"Right at noise {document['noise']:g}: {100 * document['accuracy_at_noise']:.6g} %.")
    errors = [{**error, "share": percent(error["share_of_errors"])} for error in document["errors"]]
    limit = f"largest deviation {document['largest_deviation']:.3g} levels, where receivers allow half a step"
    limit += f"; noise limit {document['noise_limit']:.3g} of full scale" if "noise_limit" in document else ""
    question = "Does {} average {servers} servers' codes of {bits} bits, {}?"
    yield from screen(
        question.format(network, ROUNDED[document["rounding"]], **document),
        best,
        cells("error, last place: {error:+d} | times: {count:,} | of errors: {share}", errors),
        all=explain,
        everything="--explain",
        limit=f"{limit}; largest gain {document['largest_gain_db']:.1f} dB",
        more=["--explain", "--noise 1e-3", "--figure noise.png", f"onn map {network}"],
    )
    if explain:
        yield from (f"  {step}" for step in ("proof", *document["proof"]) if document["proof"])


# ``lightloom onn build --reducers``: ways to average servers' codes, what each costs, and what turns the verdict.

_TURNS = 12


def compare_reducers(
    servers: int | None, bits: int, file: Path | None, texts: list[str] | None, figure: Path | None, explain: bool
) -> Shown:
    """Compare networks, sums of digits, reducer chips and switches that average codes of ``bits`` bits: return the
    result to print, with energy, latency, light, limits and the verdict.

    ``file`` and ``texts`` are settings of a file and of ``--set``, ``figure`` is where energies are drawn. ConfigError
    without ``servers``, or where the setting ``pair`` is not two names joined by a comma.
    """
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
    return Shown(document, _reducers_parts(made, explain), {"drawn": drawn})


def _reducers_parts(made: ReducerComparison, explain: bool) -> Parts:
    """Yield what the terminal shows of a comparison of reducers: the one of least energy that keeps its limits, how
    many times the energy of the reducer chip the averaging network takes, and a row for each of the first eight
    reducers: its energy with the range in 90 % of draws, latency, light a server, and whether its limits are kept; at
    most three constants with the values at which the pair takes the same; which limits are broken, and which reducers
    are left out, with why. With ``explain`` also tables of energies and of constants that turn the verdict, the
    verdict, what averaging in the light forfeits, and the loss of a lane's path."""
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
    yield from ("verdict", *(f"  {sentence}" for sentence in made.verdict))
    yield facts_table(FORFEITS, title="what averaging in the light forfeits")
    given = sum(constant.given for constant in made.constants.values())
    yield _path(made)
    yield f"{given} constants given; --json has every source. Each is drawn evenly and by itself."


def _range(made: ReducerComparison, name: str) -> str:
    """Return the range of the energy of reducer ``name`` in 90 % of draws of all constants, in pJ/bit without the unit,
    as ``1.23 to 4.56``, or ``1.23 to no light`` where no light suffices at the upper end."""
    return f"{_pj(made.ranges[name].low)} to {_pj(made.ranges[name].high)}"


def _path(made: ReducerComparison) -> str:
    """Return a sentence on the loss of a lane's path in dB, where it comes from, and why `onn link` has another."""
    laser, efficiency = (made.constants[name].value for name in ("laser", "laser_efficiency"))
    derived = f"derived from the laser of a plain lane ({laser:g} pJ/bit at an efficiency of {efficiency:g})"
    other = f"onn link assumes {Link().path_loss_db:g} dB for couplers, modulator and connectors alone"
    return f"path of a lane: {made.path_loss_db:.0f} dB from modulator to detector, margin included, {derived}; {other}"


def _energies(made: ReducerComparison) -> Table:
    """Return a table of pJ for a bit of a server, with a row for each reducer and a column for each group of parts:
    servers, reducer, light, converters, logic, FEC."""
    rows = [
        [name, *(_pj(sum(rival.energy.get(part, 0.0) for part in parts)) for parts in PARTS.values())]
        for name, rival in made.rivals.items()
    ]
    return plain_table(["pJ/bit", *PARTS], rows, title="where the energy goes")


def _turns(made: ReducerComparison) -> Table:
    """Return a table of the constants, twelve at most, that change the comparison of ``made.pair`` most: the energy
    that the first rival saves against the second, in per cent (negative where it takes more), with the constant at
    either end of its range, the value at which both take the same (an empty cell where there is none), and whether the
    constant is sourced or an assumption."""
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
    """Return joules as picojoules with three significant digits and no unit; "no light" for infinity."""
    return "no light" if joules == inf else f"{1e12 * joules:.3g}"


def _dbm(watts: float | None) -> str:
    """Return watts in dBm with one decimal and no unit; empty for None (no light), "–" for infinity. Watts must be more
    than 0."""
    return "" if watts is None else "–" if watts == inf else f"{10 * log10(watts / 1e-3):.1f}"


def _percent(share: float) -> str:
    """Return a share, 0.25 for a quarter, in whole per cent, as ``25 %``; "no light does" for minus infinity."""
    return "no light does" if share == -inf else f"{100 * share:.0f} %"
