"""Layer files of ASTRA-sim 1.x and SimAI: one line a layer, with compute times and exchanges, as compute graphs.

DATA                                          policy, then such as ``model_parallel_NPU_group: 8 ep: 1 pp: 1``
54                                            layers
conv1  -1  13003 NONE 0  12864 NONE 0  32291 ALLREDUCE 37632  3229
name   dependency; forward, gradient of the input, gradient of the weights: each ns, exchange, bytes; ns of the update
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

from lightloom.core.documents import MOST_TRACE_BYTES, numbered_rows, read_number, read_text
from lightloom.core.errors import ConfigError, WorkloadError
from lightloom.core.units import format_time
from lightloom.models.graph import ComputeGraph, MeasuredTimes
from lightloom.models.traces.operators import (
    ELEMENT_BYTES,
    TracedExchange,
    TraceReading,
    exchange_notes,
    graph_of_layers,
    kind_of_words,
    numbered,
    unpriced_exchanges,
)

_POLICIES = """
    DATA MODEL MICRO HYBRID_TRANSFORMER HYBRID_TRANSFORMER_FWD_IN_BCKWD HYBRID_DATA_MODEL HYBRID_MODEL_DATA HYBRID_DLRM
    HYBRID_DLRM_ENHANCED HYBRID_CUSTOMIZED DISTRIBUTED_INFERENCE
"""
POLICIES = tuple(_POLICIES.split())
"""First words of such files."""
_COLUMNS = 12
_NANOSECOND = 1e-9
_PASSES = ("forward", "input gradient", "weight gradient")
_SUMS = ("all-reduce", "reduce-scatter")
_GROUPS = {"DP_EP": "data, of experts", "EP": "expert", "DP": "data", "TP": "tensor", "PP": "pipeline"}


@dataclass(frozen=True, slots=True)
class _Layer:
    """Times and exchanges that one line of a layer file states."""

    name: str
    seconds: Sequence[float]
    """Seconds of the forward, input-gradient and weight-gradient passes."""
    exchanges: Sequence[TracedExchange | None]
    """Exchange after each of the three passes; None where there is none."""
    update_seconds: float


def read_layer_file(path: Path, *, batch: int) -> TraceReading:
    """Return the graph of one operator for each layer, with its compute times as measured times, notes, and the file's
    exchanges.

    Args:
        path: a layer file of ASTRA-sim 1.x or SimAI, text: a line of policy and settings, the number of layers, and a
            line for each layer.
        batch: number of samples that the times are of, which the file does not state.

    Raises:
        ConfigError: unreadable, or a malformed line (names it).
        WorkloadError: exchanges alone, without a layer that computes (policy MICRO).
    """
    first, *rows = numbered_rows(read_text(path, MOST_TRACE_BYTES)) or [(1, [])]
    policy, settings = _policy_and_settings(path, first)
    # Without further lines it is the next one that lacks the number of layers.
    layers = list(_layers(path, rows or [(first[0] + 1, [])], policy, settings))
    exchanges = tuple(exchange for layer in layers for exchange in layer.exchanges if exchange is not None)
    if policy == "MICRO":
        listed = "; ".join(exchange_notes(exchanges)) or "no exchange"
        raise WorkloadError(f"{path}: MICRO: exchanges alone, which are no model ({listed}): expected a training step")
    return TraceReading(
        _layer_graph(path, layers, batch, policy), tuple(_unrecorded(layers, exchanges, settings, batch)), exchanges
    )


def _policy_and_settings(path: Path, row: tuple[int, list[str]]) -> tuple[str, dict[str, str]]:
    """Return (policy, values of the settings as text by name, without the colon) from the first line, its number and
    its words, as ``DATA ep: 1 pp: 1``; several values of a setting are joined by spaces. ConfigError where the first
    word is none of ``POLICIES``."""
    line, words = row
    if not words or words[0] not in POLICIES:
        raise ConfigError(f"{path}, line {line}: {' '.join(words)[:40]!r}: expected one of {', '.join(POLICIES)}")
    settings: dict[str, str] = {}
    name = ""
    for word in words[1:]:
        if word.endswith(":") or not _is_number(word):
            name = word.rstrip(":")
            settings[name] = ""
        elif name:
            settings[name] = f"{settings[name]} {word}".strip()
    return words[0], settings


def _layers(
    path: Path, rows: Sequence[tuple[int, list[str]]], policy: str, settings: dict[str, str]
) -> Iterator[_Layer]:
    """Yield the layers that the lines state, with times in seconds (nanoseconds in the file), repeated names numbered
    (``fc``, ``fc#2``); ConfigError where the number of layers or a column is wrong.

    Args:
        path: the file, for messages.
        rows: (line number, words) of the lines behind the first, at least that with the number of layers.
        policy: first word of the file, which decides the groups of exchanges.
        settings: settings of the first line, as texts by name.
    """
    line, stated = rows[0]
    if len(stated) != 1 or not stated[0].isdecimal():
        raise ConfigError(f"{path}, line {line}: expected the number of layers")
    count, names = int(stated[0]), Counter[str]()
    if len(rows) - 1 != count:
        raise ConfigError(f"{path}: states {count} layers and has {len(rows) - 1} lines of them: expected as many")
    for number, words in rows[1:]:
        if len(words) < _COLUMNS:
            raise ConfigError(f"{path}, line {number}: {len(words)} columns: expected {_COLUMNS}")
        *seconds, update = (_count(path, number, words[place]) * _NANOSECOND for place in (2, 5, 8, 11))
        exchanges = [
            _exchange_of_pass(path, number, entry, _exchange_group(policy, place, settings))
            for place, entry in enumerate(words[first : first + 3] for first in (2, 5, 8))
        ]
        yield _Layer(numbered(names, words[0]), seconds, exchanges, update)


def _exchange_of_pass(
    path: Path, line: int, entry: Sequence[str], group: tuple[str, int | None]
) -> TracedExchange | None:
    """Return the exchange of a pass from its words (compute time, kind, bytes); None for the kind NONE.

    A suffix of the kind, such as ``_DP``, names the group in the place of ``group`` (name and ranks), and leaves its
    ranks open; its seconds are 0. ConfigError, with the number of the line, for an unknown kind or no number of bytes.
    """
    word, nbytes = entry[1].upper(), _count(path, line, entry[2])
    if word == "NONE":
        return None
    base, _, suffix = word.partition("_")
    if not (kind := kind_of_words(base)):
        raise ConfigError(f"{path}, line {line}: exchange {entry[1]!r}: expected NONE, ALLREDUCE, ALLGATHER, ...")
    name, ranks = (_GROUPS[suffix], None) if suffix in _GROUPS else group
    return TracedExchange(kind, int(nbytes), name, ranks=ranks)


def _exchange_group(policy: str, place: int, settings: dict[str, str]) -> tuple[str, int | None]:
    """Return (name of the group, ranks) of a pass's exchanges by the policy: ``data``, ``model`` or ``tensor``; ranks
    are None where not stated.

    ``place`` is the pass: 0 forward, 1 gradient of the input, 2 of the weights, which is data-parallel but for MODEL.
    Ranks of a tensor group are the first number of ``model_parallel_NPU_group``, those of a data group ``all_gpus``
    divided by it.
    """
    stated = settings.get("model_parallel_NPU_group", "").split()
    tensor = int(stated[0]) if stated and stated[0].isdecimal() else None
    if policy == "DATA" or (place == 2 and policy != "MODEL"):
        every = settings.get("all_gpus", "")
        return "data", int(every) // tensor if every.isdecimal() and tensor else None
    return ("model", None) if policy == "MODEL" else ("tensor", tensor)


def _layer_graph(path: Path, layers: Sequence[_Layer], batch: int, policy: str) -> ComputeGraph:
    """Return the graph of one operator for each layer, each reading the previous one, with its stated times, which are
    those of ``batch`` samples, and no FLOPs.

    Backward times are those of both gradients together. A layer has as many parameters as its exchange of weight
    gradients sums elements, of 4 bytes; none with the policy MODEL.
    """
    operators = []
    for layer in layers:
        summed = layer.exchanges[2]
        gradients = 0 if summed is None or summed.kind not in _SUMS or policy == "MODEL" else summed.nbytes or 0
        operators.append({"name": layer.name, "kind": "elementwise", "parameters": gradients // ELEMENT_BYTES})
    measured = MeasuredTimes(
        batch=batch,
        forward=tuple(layer.seconds[0] for layer in layers),
        backward=tuple(layer.seconds[1] + layer.seconds[2] for layer in layers),
        clock="compute times that the layer file states",
    )
    return graph_of_layers(path, batch, operators, measured, unpriced_exchanges(_within_passes(layers, policy)))


def _within_passes(layers: Sequence[_Layer], policy: str) -> Iterator[TracedExchange]:
    """Yield the exchanges that no plan makes, layer by layer: all but all-reduces and reduce-scatters of the weights'
    gradients, and these too under the policy MODEL."""
    for layer in layers:
        for place, exchange in enumerate(layer.exchanges):
            if exchange is not None and (place < 2 or exchange.kind not in _SUMS or policy == "MODEL"):
                yield exchange


def _unrecorded(
    layers: Sequence[_Layer], exchanges: Sequence[TracedExchange], settings: dict[str, str], batch: int
) -> Iterator[str]:
    """Yield lines on what the file states in all, what it does not record, and what is not used of it."""
    totals = ((sum(layer.seconds[place] for layer in layers), name) for place, name in enumerate(_PASSES))
    yield f"{len(layers)} layers: " + ", ".join(f"{format_time(seconds)} {name}" for seconds, name in totals)
    yield f"shapes: no operator can be split; the times are taken to be those of {batch} samples on one rank"
    yield "activations: memory is counted without them"
    yield "parameters: a quarter of the bytes that gradients of weights add up, float32"
    if update := sum(layer.update_seconds for layer in layers):
        yield f"{format_time(update)} of updates are left out: the plan prices its own"
    for name, value in settings.items():
        if value not in ("", "0"):
            yield f"{name} {value}: not used of the file"
    yield from exchange_notes(exchanges)


def _count(path: Path, line: int, word: str) -> float:
    """Return the number of at least 0 that a word states; ConfigError, with the line, for another word."""
    if not _is_number(word) or read_number(word) < 0:
        raise ConfigError(f"{path}, line {line}: {word!r}: expected a number of at least 0")
    return read_number(word)


def _is_number(word: str) -> bool:
    """Return whether a word is a finite number."""
    try:
        return isfinite(read_number(word))
    except ValueError:
        return False
