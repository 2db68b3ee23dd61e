"""``lightloom circuits``: optical circuits for a traffic matrix, beside what no assignment can exceed."""

import math
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, cast

import numpy as np

from lightloom.app.cli.options import FigureFile, Options, Settings, Shown, draw, read_count, read_settings
from lightloom.core.array_files import read_npy
from lightloom.core.arrays import Effort
from lightloom.core.documents import read_csv, read_number
from lightloom.core.errors import ConfigError, InputError, UnitError, UnknownNameError, UnsupportedError
from lightloom.core.results import Document, attributes, provenance
from lightloom.core.units import format_bandwidth, format_size, format_time, parse
from lightloom.machines.fabrics.fabric import NEEDS_CIRCUITS, Fabric
from lightloom.machines.fabrics.load import load_fabric
from lightloom.planning.figures import assignment_figure
from lightloom.planning.parallelism.circuits import ring, switch
from lightloom.planning.parallelism.circuits.circuits import Assignment, Timing, Traffic
from lightloom.planning.parallelism.circuits.play import Played, play_once
from lightloom.planning.parallelism.circuits.ring import relax
from lightloom.planning.parallelism.circuits.switch import solve_multiplicities, solve_ring
from lightloom.planning.parallelism.circuits.verify import verify, verify_permutations
from lightloom.reports.console import Parts, screen

# Which way ``lightloom circuits`` finds its circuits: what the options ask for, and the solvers behind them.

MOST_HOLDS = 4096
_MOST_TIMES = 4
_TRIED: Effort = 16
"""Numbers of holds that are tried on a switch at most, up to so many times the fewest."""
_TIME_LIMIT = 10.0
_SOLVERS = ("fast", "milp")
_OBJECTIVES = ("max-min", "throughput")


class Request(NamedTuple):
    """Solver and limits that the options ask for."""

    solver: str
    time_limit: float
    """Seconds of wall time."""
    holds: int | None
    """None for as few as suffice."""
    objective: Literal["max-min", "throughput"]


class Solved(NamedTuple):
    """Circuits, and how sure the solver is."""

    assignment: Assignment
    status: str = "optimal"
    """``optimal``, or ``time limit``; of the fast way always the first."""
    solver_gap: float = 0.0


def read_request(
    *, solver: str = "fast", time_limit: str | None = None, holds: str = "auto", objective: str = "max-min"
) -> Request:
    """Check the options before anything is read, and return them as a request: solver, time limit in seconds, number of
    holds (None for auto) and objective.

    Args:
        solver: fast, or milp (exact, small cases).
        time_limit: Wall time of the milp; 10s without it.
        holds (N): Holds of the cycle, or auto.
        objective: max-min or throughput (circuit switches).

    Raises:
        ConfigError: a count or a time that cannot be used, or options that exclude each other.
        UnknownNameError: no such solver or objective.
    """
    for name, value, known in (("solver", solver, _SOLVERS), ("objective", objective, _OBJECTIVES)):
        if value not in known:
            raise UnknownNameError(name, value, known)
    if time_limit is not None and solver != "milp":
        raise ConfigError("--time-limit is of the mixed-integer program: expected --solver milp with it")
    limit = _TIME_LIMIT if time_limit is None else parse(time_limit, "time")
    if not limit:
        raise ConfigError(f"--time-limit {time_limit}: expected more than 0")
    count = None if holds == "auto" else read_count(holds, "--holds")
    if count is not None and not 1 <= count <= MOST_HOLDS:
        raise ConfigError(f"--holds {count}: expected 1 to {MOST_HOLDS}, or auto")
    return Request(solver, limit, count, cast(Any, objective))


def solve(traffic: Traffic, on: Fabric, request: Request, timing: Timing) -> tuple[Solved, Played]:
    """Return (circuits with the solver's status and gap, when and how each pair's bytes are sent through them): of all
    candidates, each verified, those with which all is sent first. Circuits come in a cycle of holds, periods through
    each of which one set of circuits stands.

    With ``holds`` left open, a ring takes one hold or a cycle near the bound, whichever is done sooner; a switch the
    number of holds that is done first, of up to four times as many as give each pair a circuit. A mixed-integer program
    takes the fewest holds. ``timing`` states how long circuits stand and how long setting them takes, in seconds;
    ``request`` the solver, its time limit, the holds and the objective. A candidate on which the traffic cannot be
    played is passed over, unless none is left.

    Raises:
        ConfigError: the objective ``throughput`` on a ring.
        InputError: infeasible, out of time, circuits that leave ranks without a way to each other, or bytes that are
            left after 100,000 holds.
        VerificationError: a candidate breaks a rule of the fabric, by a fault of the solver.
    """
    if on.switch_planes:
        candidates = [_on_switch(traffic, on, request, holds) for holds in _switch_holds(traffic, on, request)]
    else:
        if request.objective != "max-min":
            raise ConfigError("--objective throughput is of circuit switches: expected max-min on a wdm-ring")
        candidates = _on_ring(traffic, on, request)
    tried: list[tuple[Solved, Played]] = []
    refused: list[InputError] = []
    for solved in candidates:
        verify(solved.assignment.circuits, on)
        try:
            tried.append((solved, play_once(traffic, solved.assignment.circuits, on, timing)))
        except InputError as error:
            refused.append(error)
    if not tried:
        raise refused[-1]
    return min(tried, key=lambda solved: solved[1].makespan)


def _on_switch(traffic: Traffic, on: Fabric, request: Request, holds: int) -> Solved:
    """Return the circuits of a cycle of ``holds`` holds (sets of circuits that stand in turn) on the planes of a
    switch, with the solver's status and gap, solved fast or as a mixed-integer program as the request asks.

    VerificationError unless they are connections of permutations of the ranks, one in each hold and plane; InputError
    where these are too few for all pairs, or the program runs out of time.
    """
    if request.solver == "fast":
        solved = Solved(switch.assign(traffic, on, request.objective, holds))
    else:
        exact = solve_multiplicities(traffic, on, request.objective, request.time_limit, holds=holds)
        granted = switch.realise(traffic, on, exact.counts[:, 0], holds)
        solved = Solved(Assignment(traffic, granted, switch.bound(traffic, on)), exact.status, exact.gap)
    verify_permutations(switch.permutations(solved.assignment.circuits, on), solved.assignment.circuits)
    return solved


def _switch_holds(traffic: Traffic, on: Fabric, request: Request) -> list[int]:
    """Return the numbers of holds (sets of circuits that stand in turn) that are tried: the one asked for; without it 1
    for the objective ``throughput``, and else up to 16 evenly spaced numbers, ascending, from the fewest that give each
    pair a circuit to four times as many, at most 4,096 (the program: the fewest alone). With more, rounded circuits are
    nearer to the demands, and more of the time is spent on setting them."""
    if request.holds is not None or request.objective != "max-min":
        return [request.holds or 1]
    peers = max(int(np.bincount(ends).max()) for ends in (traffic.source, traffic.destination))
    least = math.ceil(peers / on.channels)
    most = min(_MOST_TIMES * least, MOST_HOLDS)
    tried = np.linspace(least, max(least, most), _TRIED).round().astype(int).tolist()
    return [least] if request.solver == "milp" else list(dict.fromkeys(tried))


def _on_ring(traffic: Traffic, on: Fabric, request: Request) -> list[Solved]:
    """Return one or two assignments on the ring ``on``, of which the caller plays all, each a cycle of holds (sets of
    circuits that stand in turn). The fast solver gives that of the holds asked for (1 where they are left open), and
    the shortest cycle of 1, 2, 4, ... holds that comes within 10 % of the fractional optimum (the longest that is tried
    where none does), if the request leaves holds open or that cycle has as many as asked; it may leave pairs without a
    circuit, whose bytes are relayed. The integer program gives one, of the holds asked for or else the fewest that can
    serve all pairs. InputError where its holds are too few, or it gives some pair no circuit."""
    relaxation = relax(traffic, on)
    if request.solver == "fast":
        once = ring.assign(traffic, on, request.holds or 1, relaxation)
        # Near the bound some counts fit where fewer, rounded worse, did not.
        turns = ring.assign_in_turns(traffic, on, most_holds=2 * (request.holds or 128), relaxation=relaxation)
        assignments = [once, turns] if turns.circuits.holds == request.holds or request.holds is None else [once]
        return [Solved(assignment) for assignment in assignments]
    # With fewer holds, even fractions of circuits would not serve all pairs, whatever they send.
    least = max(1, math.ceil(1 / relax(traffic.with_bytes(np.ones(len(traffic))), on).service - 1e-9))
    holds = request.holds or least
    if holds < least:
        raise InputError(
            f"the circuit program is infeasible: {on.channels} wavelengths each way cannot give each of "
            f"{len(traffic)} pairs a circuit in {counted(holds)}: expected --holds of at least {least}, or more "
            "wavelengths"
        )
    exact = solve_ring(traffic, on, holds, request.time_limit)
    if not exact.counts.sum(axis=1).all():
        raise InputError(
            f"the circuit program gives some of {len(traffic)} pairs no circuit in {counted(holds)} "
            f"({exact.status}): expected --holds of more than {holds}, more wavelengths, or --solver fast, which relays"
        )
    granted, unassigned = ring.realise(traffic, on, exact.counts, holds)
    return [Solved(Assignment(traffic, granted, relaxation.service, unassigned), exact.status, exact.gap)]


def counted(holds: int) -> str:
    """Return a number of holds in words: "1 hold", "3 holds"."""
    return "1 hold" if holds == 1 else f"{holds} holds"


# Traffic matrices from files: bytes of every ordered pair of ranks, as CSV or as a numpy array.

MOST_RANKS = 8192
"""Largest number of ranks in a traffic matrix."""


def read_traffic(path: Path) -> Traffic:
    """Return the traffic of a file's matrix [ranks, ranks], source by destination, in bytes: ``.npy``, or CSV whose
    cells are sizes (``1MB``, ``4096``).

    Raises:
        ConfigError: the file cannot be read, or is no square matrix of sizes for 2 to 8,192 ranks; an entry is negative
            or not finite, traffic is of a rank to itself, or there is none at all.
    """
    matrix: Any
    if path.suffix.lower() == ".npy":
        array = read_npy(path, mapped=True)
        if array.ndim != 2 or array.shape[0] != array.shape[1] or array.dtype.kind not in "uif":
            what = f"{array.dtype} of shape {array.shape}"
            raise ConfigError(f"{path}: {what}: expected numbers of shape (ranks, ranks), source by destination")
        _check_size(path, array.shape[0])
        matrix = np.asarray(array, np.float64)
    else:
        matrix = _read_matrix(path)
    try:
        return Traffic.of(matrix)
    except InputError as error:
        raise ConfigError(f"{path}: {error}") from error


def _read_matrix(path: Path) -> list[list[float]]:
    """Return the bytes of the square matrix in a CSV file, [source][destination], a row for each line that is not
    blank; raise ConfigError for anything else."""
    lines = read_csv(path)
    if not lines:
        raise ConfigError(f"{path}: the file is empty: expected a line for each rank, a size for each destination")
    _check_size(path, len(lines))
    for number, line in lines:
        if len(line) != len(lines):
            raise ConfigError(
                f"{path}: line {number} has {len(line)} values, the matrix {len(lines)} rows: expected as many values "
                "as rows"
            )
    return [[_bytes(path, rank, place, cell) for place, cell in enumerate(row)] for rank, (_, row) in enumerate(lines)]


def _check_size(path: Path, ranks: int) -> None:
    """Raise ConfigError, which names the file, unless a matrix has 2 to 8,192 ranks."""
    if not 2 <= ranks <= MOST_RANKS:
        raise ConfigError(f"{path}: a matrix of {ranks} ranks: expected 2 to {MOST_RANKS}")


def _bytes(path: Path, row: int, column: int, cell: str) -> float:
    """Return the bytes that a cell of a matrix states, a bare number (negative ones, too) or a size with its unit;
    ConfigError for anything else. ``row`` and ``column``, from 0, are the sending and the receiving rank that its
    message names, beside the file."""
    try:
        return read_number(cell)
    except ValueError:
        pass
    try:
        if "_" in cell:
            raise UnitError(f"{cell!r}: expected digits, and a unit where they are no bytes")
        return parse(cell, "size")
    except UnitError as error:
        raise ConfigError(f"{path}: from rank {row} to rank {column}: {error}") from error


def circuits(
    traffic: Path,
    *,
    fabric: str,
    set: Settings = None,
    ask: Annotated[partial[Request], Options(read_request)],
    all: bool = False,
    figure: FigureFile = None,
) -> Shown:
    """Assign circuits to a traffic matrix, verify them, and play the traffic through them.

    For example: lightloom circuits traffic.csv --fabric wdm-ring

    Args:
        traffic (FILE): Bytes between ranks: CSV of a row for each source and a column for each destination, or .npy.
        fabric: A wdm-ring or circuit-switch of the catalog, or a YAML file.
        set: field=value of the fabric, or hold=TIME that circuits stand (10 reconfigurations without it), or
            reconfiguration=TIME that setting them takes (the fabric's without it); repeatable.
        all: Show every pair of ranks.
        figure: Draw traffic beside circuits (.svg, .png, .pdf).

    ``ask`` is :func:`read_request` with its options bound to it: solver, time limit, holds and objective.

    Returns:
        The result to print: the circuits, and when all is sent through them.

    Raises:
        ConfigError: an option or a file that cannot be read, or another number of ranks than the matrix has.
        UnsupportedError: a fabric without circuits.
        InputError: no circuits serve the traffic.
    """
    request = ask()
    demands = read_traffic(traffic)
    fields = read_settings(set)
    hold, reconfiguration = (fields.pop(name, None) for name in ("hold", "reconfiguration"))
    ranks = fields.get("ranks", demands.ranks)
    if ranks != demands.ranks:
        raise ConfigError(f"--set ranks={ranks}: the matrix is of {demands.ranks} ranks: expected the same number")
    on = load_fabric(fabric, demands.ranks, set=fields)
    if not on.assigns_circuits:
        raise UnsupportedError(f"--fabric {fabric}: no circuits on a {on.kind_name}: {NEEDS_CIRCUITS}")
    dark = on.setup_time if reconfiguration is None else parse(str(reconfiguration), "time")
    standing = 10 * dark if hold is None else parse(str(hold), "time")
    if not standing:
        raise ConfigError("a hold is needed where setting circuits takes no time: expected e.g. --set hold=250us")
    timing = Timing(standing, dark)
    solved, played = solve(demands, on, request, timing)
    document = _document(solved, played, on, timing, request)
    drawn = draw(figure, partial(assignment_figure, solved.assignment, on.channel_bandwidth), document)
    document |= {} if drawn is None else {"figure": str(drawn)}
    return Shown(document, _answer(document, solved, on, all), {"drawn": drawn})


def _document(solved: Solved, played: Played, on: Fabric, timing: Timing, request: Request) -> Document:
    """Return the whole answer in SI units, as ``--json`` prints it: the request, solver status and gap; ``max_min``,
    the circuits a hold that the largest demand gets where all get circuits in proportion to their bytes (the least over
    pairs of circuits a hold over the pair's share of the largest demand), its upper ``bound`` and the ``gap`` as a
    share of it; when all is sent (``finish_s``), how many pairs are relayed with how many bytes, and ``duty_cycle``,
    the share of the time in which circuits stand (1 for one hold).

    ``pairs`` and ``circuits`` are columns, with an entry for each pair with traffic (``source``, ``destination``,
    ``nbytes``, ``circuits`` in all holds, ``hops``: circuits in a row that its bytes pass, ``finish_s``: seconds until
    it is sent) and for each circuit (``hold``, from 0: the set of circuits in the cycle; ``source``; ``destination``;
    ``route``: 0 clockwise, 1 counter-clockwise, 0 on switches; ``channel``: wavelength, or plane of a switch).
    """
    assignment, traffic = solved.assignment, solved.assignment.traffic
    flows = {name: getattr(traffic, name).tolist() for name in ("source", "destination", "nbytes")}
    asked = [[*flows.values()], on.model_dump(mode="json"), request._asdict(), timing.hold, timing.reconfiguration]
    columns = ("hold", "source", "destination", "route", "channel")
    return {
        "schema": "lightloom.circuits/1",
        "ranks": traffic.ranks,
        "fabric": on.model_dump(mode="json"),
        "solver": request.solver,
        **attributes(solved, "solver_status=status solver_gap"),
        "objective": request.objective,
        "holds": assignment.circuits.holds,
        **attributes(timing, "hold_s=hold reconfiguration_s=reconfiguration"),
        "duty_cycle": 1.0 if assignment.circuits.holds == 1 else timing.duty_cycle,
        "nbytes": float(traffic.nbytes.sum()),
        "circuit_bandwidth": on.channel_bandwidth,
        **attributes(assignment, "max_min bound gap without_wavelength=unassigned"),
        "verified": True,
        **attributes(played, "finish_s=makespan holds_begun=holds"),
        "carried_bytes": float(played.carried.sum()),
        "relayed_pairs": len(played.relayed),
        "relayed_bytes": float(traffic.nbytes[played.relayed].sum()),
        "pairs": {
            **flows,
            "circuits": assignment.circuits.counts(traffic).sum(axis=0).tolist(),
            "hops": played.hops.tolist(),
            "finish_s": played.finish.tolist(),
        },
        "circuits": {name: getattr(assignment.circuits, name).tolist() for name in columns},
        "provenance": provenance(asked),
    }


_COLUMNS = ("from rank", "to rank", "bytes", "circuits", "hops", "sent after")


def _answer(document: Document, solved: Solved, on: Fabric, all: bool) -> Parts:
    """Return what the terminal shows: when all is sent, over how many circuits of which holds, what is relayed, a row
    for each pair of ranks with traffic (eight, or with ``all`` every one), the last to finish first, and how far the
    largest demand's circuits a hold stay below the bound."""
    assignment, pairs = solved.assignment, document["pairs"]
    relays, held = document["relayed_pairs"], document["holds"]
    turns = (
        "set once"
        if held == 1
        else f"{held} holds in turn, which stand {100 * document['duty_cycle']:.1f} % of the time"
    )
    unsure = "" if solved.status == "optimal" else f", stopped {100 * solved.solver_gap:.1f} % from proof"
    circuits = f"{len(assignment.circuits):,} circuits of {format_bandwidth(on.channel_bandwidth)}, verified"
    sent = map(format_size, pairs["nbytes"]), pairs["circuits"], pairs["hops"], map(format_time, pairs["finish_s"])
    cells = [*zip(pairs["source"], pairs["destination"], *sent, strict=True)]
    order = sorted(range(len(assignment.traffic)), key=lambda pair: (-pairs["finish_s"][pair], pair))
    lacking = (
        f"; {assignment.unassigned} circuits that loads admit found no wavelength" if assignment.unassigned else ""
    )
    return screen(
        f"circuits for {format_size(document['nbytes'])} of {len(order):,} pairs among {document['ranks']:,} "
        f"ranks on a {on.kind_name}, by {document['solver']} for {document['objective']}{unsure}",
        [
            f"all is sent after {format_time(document['finish_s'])}, {counted(document['holds_begun'])} begun",
            f"{circuits}; {turns}{lacking}",
            f"{relays:,} pairs relay {format_size(document['relayed_bytes'])} over others' circuits"
            if relays
            else "nothing is relayed",
        ],
        [dict(zip(_COLUMNS, cells[pair], strict=True)) for pair in order],
        all=all,
        legend="circuits: in all holds; hops: circuits that its bytes cross",
        limit=f"the largest demand gets {assignment.max_min:.4g} circuits a hold, others in proportion; no assignment "
        f"gives it more than {assignment.bound:.4g}, which the circuits stay {100 * assignment.gap:.1f} % below",
        more=["--figure FILE.png draws the circuits", "--solver milp proves small cases"],
    )
