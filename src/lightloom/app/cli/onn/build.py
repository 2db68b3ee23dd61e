"""``lightloom onn build``: a network written down, with the proof that it averages exactly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from rich.table import Table
from rich.text import Text

from lightloom.app.api.averaging import ProvedAverager, averager
from lightloom.app.cli.onn.files import NetworkOut, draw_noise
from lightloom.app.cli.options import FigureFile, Network, Options, Shown
from lightloom.core.errors import ConfigError
from lightloom.core.fields import Count
from lightloom.core.results import Document, provenance
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
from lightloom.photonics.averaging.construct import ROWS, Construction, recognise, scenario_rows
from lightloom.photonics.averaging.networks import (
    FunctionArguments,
    LayeredNetwork,
    largest_gain_db,
    load_network,
    network_hash,
)
from lightloom.photonics.averaging.proof import EVALUATIONS, Verification, noise_limit, noisy_accuracy
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
from lightloom.reports.console import facts_table, plain_table
from lightloom.reports.progress import progress

if TYPE_CHECKING:
    from lightloom.photonics.averaging.networks import FunctionArguments
    from lightloom.photonics.onn.recipe import TrainingRecipe


# ``lightloom onn build --tolerate``: the averager with the fewest interferometers that bears errors of its devices.

WORD_ERRORS = 1e-4
"""Word error rate that is allowed unless stated."""


def tolerant_averager(
    arguments: FunctionArguments, text: str, word_errors: float | None, units: str, evaluations: int, seed: int
) -> tuple[ProvedAverager, Document]:
    """Search for the averager with the fewest interferometers that bears the errors in ``text`` at once, and measure
    how much it tolerates; return it, and fields that its document gets besides.

    Raises:
        UnsupportedError: nothing tolerates the errors; the message says how much can be tolerated.
        InputError: the errors cannot be read or are out of range.
    """
    request = parse_tolerance(text, WORD_ERRORS if word_errors is None else word_errors)
    with progress("Averagers tried", None) as advance:
        result = find_tolerant(arguments, request, cast(Any, units), seed=seed, advance=advance)
        document = tolerance_document(result, advance)
    construction = result.candidate.construction
    mapping = MAPPINGS[result.candidate.mapping]
    made = ProvedAverager(
        construction=construction, arguments=arguments, noise=None, evaluations=evaluations, mapping=mapping
    )
    settings = [asdict(arguments), units, request.errors, request.word_errors, evaluations]
    document["link_command"] = link_command(document)
    return made, {"tolerance": document, "provenance": provenance(settings, seed)}


def link_command(document: Document) -> str:
    """Return the `onn link` command under which the same parts err, on as many fabrications and words, to simulate the
    result of --tolerate again."""
    errors, amplifiers = dict(document["errors"]), ""
    if POWER in errors:
        amplifiers = f" --full-scale {errors.pop(POWER):g}W --noise-figure {Link().noise_figure_db:g}"
    options = "".join(f" --{name} {value:g}" for name, value in errors.items())
    words = document["words"] // document["fabrications"]
    how = f"--ideal --gain optical --calibration levels{amplifiers}{options}"
    return f"lightloom onn link NET.npz {how} --draws {document['fabrications']} --words {words} --rate-only"


def tolerance_rows(document: Document) -> list[tuple[str, str]]:
    """Return label and text of each fact of an averager that tolerates errors."""
    low, high = document["interval_95"]
    alone = describe({name: value for name, value in document["tolerated_alone"].items() if value is not None})
    rows = [
        ("tolerates", f"{describe(document['errors'])}, at once"),
        (
            "wrong words",
            f"{document['word_error_rate']:.2g} ({low:.2g} to {high:.2g}, 95 %; at most {document['target']:g}), "
            f"{document['wrong_words']:,} of {document['words']:,} on {document['fabrications']} fabrications",
        ),
        ("each error alone", alone),
        ("mapping", f"{MAPPINGS[document['mapping']]} (--out stores it); window {document['window']}"),
        (
            "with P and T",
            f"{document['mzi_count']:,} MZIs in {document['columns']:,} columns, "
            f"{document['crossings']:,} crossings, gains up to {document['largest_gain_db']:.1f} dB",
        ),
    ]
    if POWER in document["errors"]:
        lane, full_scale = document["lane_power_watts"], document["errors"][POWER]
        rows.append(
            ("light", f"{described(POWER, full_scale)} at full scale, {lane * 1e3:.3g} mW a lane in front of P")
        )
    rows.append(("simulated again by", link_command(document)))
    rows.append(("assumed", "; ".join(document["assumptions"])))
    return rows


# What the ``onn`` commands do with two levels of averagers: build, save, verify, map and disturb them.

TUPLES = 200_000
"""Tuples of codes that are sent through both levels."""


def build_levels(groups: int, servers: int, bits: int, nonlinearity: str, tuples: int, out: Path | None) -> Shown:
    """Construct both levels of a cascade, send random tuples of codes through them, save them if ``out`` is given, and
    show the result."""
    made = build_cascade(groups, servers, bits, cast(Any, nonlinearity))
    document = cascade_document(made, tuples, [groups, servers, bits, nonlinearity, tuples])
    if out is not None:
        save_cascade(out, made)
    return Shown(document, cascade_parts(document), {"cascade": out})


def train_levels(recipes: tuple[TrainingRecipe, TrainingRecipe], folder: Path | None, out: Path | None) -> Shown:
    """Train both levels of a cascade, send random tuples of codes through them, save them if ``out`` is given, and show
    the result; ``folder`` keeps checkpoints."""
    from lightloom.photonics.onn.training import train_cascade

    with progress("Epochs", sum(recipe.work for recipe in recipes)) as advance:
        cascade, trainings = train_cascade(recipes, folder, advance)
    document = cascade_document(cascade, TUPLES, [recipe.to_json() for recipe in recipes])
    document["trainings"] = [trained.to_json() for trained in trainings]
    document["mzi_count"] = cascade.groups * recipes[0].mzi_count + recipes[1].mzi_count
    for level, recipe in zip(document["levels"], recipes, strict=True):
        level["mzi_count"] = recipe.mzi_count
    if out is not None:
        save_cascade(out, cascade)
    return Shown(document, cascade_parts(document), {"cascade": out})


def cascade_document(cascade: Cascade, tuples: int, configuration: object) -> Document:
    """Return the document of both levels: what they are, how often each errs on its own grid, and how many of
    ``tuples`` tuples arrive wrong from end to end."""
    with progress("Tuples", tuples) as advance:
        ends = end_to_end(cascade, tuples, advance=advance)
    return {
        "schema": "lightloom.onn-cascade/1",
        "groups": cascade.groups,
        "servers": cascade.servers,
        "bits": cascade.bits,
        "mzi_count": cascade.mzi_count,
        "levels": [_level(level) for level in (cascade.first, cascade.second)],
        "end_to_end": ends,
        "provenance": provenance(configuration, 0),
    }


def cascade_parts(document: Document) -> Iterator[str | Table]:
    """Yield a table with a row for each of the two levels, and a line on the tuples that arrive wrong from end to
    end."""
    ends = document["end_to_end"]
    rows = [
        [
            f"{index}",
            level["construction"],
            f"{level['wrong_outputs']:,} of {level['checked_inputs']:,}",
            f"{level['mzi_count']:,}",
            "-".join(str(n) for n in level["layers"]),
        ]
        for index, level in enumerate(document["levels"], 1)
    ]
    servers = f"{document['groups']} x {document['servers']} servers"
    title = f"{servers}, {document['bits']} bits: {document['mzi_count']:,} MZIs"
    yield plain_table(["level", "construction", "wrong outputs", "MZIs", "signals"], rows, title=title)
    yield (
        f"end to end, {ends['tuples']:,} tuples: {ends['wrong_with_decimals']:,} wrong; without decimals (eq. 9) "
        f"{ends['wrong_without_decimals']:,}, {100 * ends['share_wrong_without_decimals']:.1f} %, each one too small"
    )


def _level(level: Level) -> Document:
    """Return the document of one level: construction, layers, interferometers and proof, and its outputs verified
    now."""
    verification = level.verify()
    return {
        "construction": level.name,
        "layers": list(level.network.layers),
        "mzi_count": level.mzi_count,
        "wrong_outputs": verification.wrong_outputs,
        "checked_inputs": verification.checked_inputs,
        "exhaustive": verification.exhaustive,
        "proof": list(level.proof.steps) if isinstance(level, Construction) else [],
    }


def build(
    *,
    servers: int | None = None,
    bits: int | None = None,
    noise: float | None = None,
    tolerate: str | None = None,
    word_errors: float | None = None,
    nonlinearity: str | None = None,
    function: Annotated[partial[FunctionArguments], Options(FunctionArguments)],
    cascade: int | None = None,
    tuples: Count = TUPLES,
    evaluations: Count = EVALUATIONS,
    seed: int = 0,
    scenarios: bool = False,
    out: NetworkOut = None,
    figure: FigureFile = None,
) -> Shown:
    """Write down the smallest network that averages exactly, and prove it.

    Args:
        servers: Servers whose codes are averaged.
        bits (B): Bits of a code, 1 to 32.
        noise (S): Take the smallest that is 99.99 % right at this noise, a share of full scale.
        tolerate (phase-error=3e-3,coupler-error=1e-2,power=3mW,loss=0.1dB): Fewest MZIs, P and T included, that bear
            these errors; also loss-spread, crosstalk, dac-bits.
        word_errors (RATE): Share of wrong words that --tolerate allows, 1e-4 without it.
        nonlinearity: relu, or clipped: units that saturate; clipped with --tolerate, else relu.
        inputs (K): Signals that P groups the codes to.
        rounding: floor, or half-up.
        carries_decimals: Keep decimals in the last output, for level 2 of a cascade.
        cascade (GROUPS): Two levels: an averager of N servers for each group, one above them.
        tuples: Tuples of codes sent through a cascade.
        evaluations: Noisy draws behind each accuracy on the way to the noise limit.
        seed: Of the fabrications of --tolerate.
        scenarios: The paper's four scenarios on their full grids; takes minutes.
        out: Write the network (.npz).
        figure: Draw errors against noise (.svg, .png, .pdf).
    """
    if scenarios:
        if any(value is not None for value in (servers, bits, out, figure, cascade, tolerate, noise)):
            raise ConfigError("--scenarios takes --evaluations alone: expected no --servers, --bits, --out or --figure")
        with progress("Networks", ROWS) as advance:
            rows = scenario_rows(advance, evaluations)
        origin = provenance(["scenarios", evaluations], 0)
        document: Document = {"schema": "lightloom.onn-scenarios/1", "rows": rows, "provenance": origin}
        return Shown(document, _scenario_parts(rows))
    if servers is None or bits is None:
        raise ConfigError("give --servers N and --bits B, or --scenarios")
    arguments = function(servers=servers, bits=bits)
    if tolerate is not None and (noise is not None or cascade is not None or arguments.carries_decimals):
        raise ConfigError("--tolerate: not with --noise, --cascade or --carries-decimals")
    if word_errors is not None and tolerate is None:
        raise ConfigError("--word-errors: give the errors too, --tolerate NAME=VALUE,...")
    units = nonlinearity or ("relu" if tolerate is None else "clipped")
    if cascade is not None:
        single = arguments != FunctionArguments(servers=servers, bits=bits)
        if single or figure is not None or noise is not None:
            raise ConfigError("--cascade takes --servers, --bits, --nonlinearity, --tuples and --out alone")
        return build_levels(cascade, servers, bits, units, tuples, out)
    if tolerate is not None:
        made, tolerance = tolerant_averager(arguments, tolerate, word_errors, units, evaluations, seed)
    else:
        with progress("Building", None):
            given: dict[str, Any] = {**asdict(arguments), "noise": noise, "nonlinearity": units}
            made = averager(**given, evaluations=evaluations)
        tolerance = {}
    with progress("Trying inputs, and noise on every signal", None):
        document = made.to_json() | tolerance
    if figure is not None:
        name = f"{made.construction.name}, {made.mzi_count} MZIs"
        network, limit = made.construction.network, made.noise_limit
        curve = draw_noise(network, made.arguments, name, limit, evaluations, figure, document["provenance"])
        document["noise_curve"] = curve
    if out is not None:
        made.save(out)
    return Shown(document, _build_parts(document), {"network": out, "drawn": figure})


def _build_parts(document: Document) -> Iterator[str | Table]:
    """Yield a table of the facts of the network, and the steps of its proof."""
    units, bound = document["mzi_count_of_p_and_t"], document["noise_bound_of_any_network"]
    how = "all" if document["exhaustive"] else "the hardest and random"
    rows = [
        ("construction", f"{document['construction']}, {document['nonlinearity']}"),
        ("wrong outputs", f"{document['wrong_outputs']:,} of {document['checked_inputs']:,} inputs ({how})"),
        ("MZIs", f"{document['mzi_count']:,} (economy {document['mzi_count_economy']:,}; P and T {units:,} more)"),
        ("signals", "-".join(str(n) for n in document["layers"])),
        ("largest gain", f"{document['largest_gain_db']:.1f} dB"),
        ("noise limit", f"{document['noise_limit']:.3g} of full scale (no network bears more than {bound:.3g})"),
        ("proved tolerance", f"{document['proved_tolerance']:.3g} of full scale on every signal, worst signs"),
    ]
    if "tolerance" in document:
        rows += tolerance_rows(document["tolerance"])
    title = f"{document['servers']} servers, {document['bits']} bits, {document['rounding']}"
    yield facts_table(rows, title=title)
    yield "proof"
    yield from (f"  {step}" for step in document["proof"])


def _scenario_parts(rows: list[Document]) -> Iterator[Table | Text]:
    """Yield a table with a row for each network of the paper's four scenarios."""
    columns = ["bits / servers", "network", "wrong", "of", "MZIs", "economy", "hidden layers", "gain, dB", "noise"]
    yield plain_table(columns, [_scenario_cells(row) for row in rows], title="the paper's four scenarios")
    yield Text("–: the paper states none", style="dim")


def _scenario_cells(row: Document) -> list[str]:
    """Return the cells of a row of the table of scenarios, a dash where the paper states nothing."""

    def shown(value: float | None, form: str) -> str:
        """Return a number in a form; a dash for None."""
        return "–" if value is None else format(value, form)

    return [
        f"{row['bits']} / {row['servers']}",
        row["network"],
        shown(row["wrong_outputs"], ","),
        f"{row['checked_inputs']:,}",
        f"{row['mzi_count']:,}",
        f"{row['mzi_count_economy']:,}",
        f"{row['hidden_layers']}",
        shown(row["largest_gain_db"], ".1f"),
        shown(row["noise_limit"], ".2g"),
    ]


# ``lightloom onn verify``: is a network in a file the averaging function?

_SHOWN = 10
"""Sizes of errors on the terminal; JSON has all."""


def verify(
    network: Network,
    *,
    samples: Count = 1_000_000,
    noise: float | None = None,
    figure: FigureFile = None,
    evaluations: Count = EVALUATIONS,
) -> Shown:
    """Try a network on every point of its grid (up to 20 million), or on the hardest ones; prove it if it is ours.

    Args:
        samples: Points of grids above 20 million, half of them beside carries.
        noise (S): Also the accuracy at this noise, a share of full scale.
        figure: Find the noise limit and draw errors against noise (.svg, .png, .pdf).
        evaluations: Noisy draws behind each accuracy of --figure.
    """
    if noise is not None and not 0 <= noise < 1:
        raise ConfigError(f"--noise {noise}: expected a share of full scale from 0 to below 1")
    if is_cascade(network):
        if noise is not None or figure is not None:
            raise ConfigError(f"{str(network)!r}: a cascade: expected no --noise and no --figure, which one level has")
        levels = load_cascade(network)
        document = cascade_document(levels, samples, [cascade_hash(levels), samples])
        return Shown(document, cascade_parts(document))
    weights, arguments = load_network(network)
    function = arguments.function()
    with progress("Checking", None):
        check = verification(weights, function, samples)
        accuracy = None if noise is None else noisy_accuracy(weights, function, noise)
        construction = recognise(weights, function)
    document = _document(weights, arguments, check, construction) | {
        "noise": noise,
        "accuracy_at_noise": accuracy,
        "provenance": provenance([network_hash(weights, arguments), samples, noise, figure and evaluations], 0),
    }
    if figure is not None:
        limit = noise_limit(weights, function, evaluations=evaluations)
        name = network.stem if construction is None else construction.name
        curve = draw_noise(weights, arguments, name, limit, evaluations, figure, document["provenance"])
        document |= {"noise_limit": limit, "noise_curve": curve}
    return Shown(document, _verify_parts(document, network), {"drawn": figure})


def _document(
    weights: LayeredNetwork, arguments: FunctionArguments, check: Verification, construction: Construction | None
) -> Document:
    """Return the network, its proof and its verification, as ``--json`` prints them."""
    return {
        "schema": "lightloom.onn-verify/1",
        "servers": arguments.servers,
        "bits": arguments.bits,
        "rounding": arguments.rounding,
        "layers": list(weights.layers),
        "nonlinearity": weights.nonlinearity,
        "largest_gain_db": largest_gain_db(weights),
        "exhaustive": check.exhaustive,
        "checked_inputs": check.checked_inputs,
        "wrong_outputs": check.wrong_outputs,
        "accuracy": check.accuracy,
        "largest_deviation": check.largest_deviation,
        "errors": [
            {"error": value, "count": times, "share_of_errors": times / check.wrong_outputs}
            for value, times in check.errors.items()
        ],
        "construction": None if construction is None else construction.name,
        "proof": [] if construction is None else list(construction.proof.steps),
    }


def _verify_parts(document: Document, network: Path) -> Iterator[str | Text | Table]:
    """Yield the facts of the network, a table of its ten first sizes of errors (in units of the last place), and its
    proof if its construction was recognised."""
    how = "every point of the grid" if document["exhaustive"] else "sampled, half beside carries"
    rows = [
        ("function", f"{document['servers']} servers, {document['bits']} bits, {document['rounding']}"),
        ("wrong outputs", f"{document['wrong_outputs']:,} of {document['checked_inputs']:,} ({how})"),
        ("accuracy", f"{100 * document['accuracy']:.6g} %"),
        ("largest gain", f"{document['largest_gain_db']:.1f} dB"),
        ("largest deviation", f"{document['largest_deviation']:.3g} levels (receivers allow half a step)"),
    ]
    if "noise_limit" in document:
        rows.append(("noise limit", f"{document['noise_limit']:.3g} of full scale"))
    if document["noise"] is not None:
        rows.append((f"accuracy at noise {document['noise']:g}", f"{100 * document['accuracy_at_noise']:.6g} %"))
    yield facts_table(rows, title=str(network))
    if document["errors"]:
        cells = [
            [f"{error['error']:+d}", f"{error['count']:,}", f"{100 * error['share_of_errors']:.3g} %"]
            for error in document["errors"][:_SHOWN]
        ]
        yield plain_table(["error, last place", "times", "of errors"], cells)
        if len(document["errors"]) > _SHOWN:
            yield Text(f"and {len(document['errors']) - _SHOWN} other sizes", style="dim")
    if document["proof"]:
        yield f"proof ({document['construction']})"
        yield from (f"  {step}" for step in document["proof"])
